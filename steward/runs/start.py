"""Run now, once per idempotency key (interface 4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from steward.automations import readiness
from steward.automations.rules import Templates
from steward.database.accounts import idempotency
from steward.database.automations import records as automations
from steward.database.engine.base import Batchable, Engine, Tx
from steward.database.runs import fast_runs as plain_runs
from steward.database.runs import records as runs
from steward.database.runs.fast_runs import Making, Standing
from steward.model.account import Actor, maker
from steward.model.automation import Automation, AutomationState
from steward.model.ids import AutomationId, OrgId, RisingIds, RunId, new_id
from steward.model.json import digest
from steward.model.refusals import KeyReused, TooManyWaiting, Unavailable, WrongState
from steward.model.run import Mode, Run, StartedBy
from steward.run_queue import queue as lane


@dataclass(frozen=True, slots=True)
class RunNow:
    """A wish to run an automation by hand."""

    automation: AutomationId
    idempotency_key: str
    mode: Mode


_Made = Literal["made", "kept", "full"]


@dataclass(frozen=True, slots=True)
class Started:
    """The run, and whether an earlier request with the same key had made it."""

    run: Run
    replayed: bool


async def run_now(tx: Tx, actor: Actor, ask: RunNow, *, templates: Templates, max_waiting: int) -> Started:
    """Makes a run of the automation, or gives the one its key made before.

    Raises NotFound, KeyReused, WrongState (archived), NotConnected, NotReady, TooManyWaiting.
    """
    automation = await automations.get(tx, actor.org, ask.automation)
    if known := await _replay(tx, actor, ask):
        return known
    if automation.state is AutomationState.ARCHIVED:
        raise WrongState("This automation is archived. Restore it before running it.")
    await readiness.check(tx, automation, templates=templates)
    run = RunId(new_id(tx.now))
    outcome = await _make(tx, actor, ask, automation, run=run, max_waiting=max_waiting)
    if outcome == "kept":  # another request with the same key committed first
        known = await _replay(tx, actor, ask)
        if known is None:
            raise Unavailable(retry_after=1)
        return known
    if outcome == "full":
        raise TooManyWaiting(errors={})  # the key goes with the transaction
    return Started(await runs.get(tx, actor.org, run), replayed=False)


async def _make(
    tx: Tx, actor: Actor, ask: RunNow, automation: Automation, *, run: RunId, max_waiting: int
) -> _Made:
    """Makes the run under the lane's lock, and tells whether its key was used or too many wait."""
    held = await lane.lock(tx, actor.org, automation.id)
    kept = await idempotency.keep(
        tx,
        actor.org,
        "run",
        key=ask.idempotency_key,
        object_id=run,
        automation=automation.id,
        request_sha256=digest([automation.id, ask.mode]),
    )
    if not kept:
        return "kept"
    if await lane.waiting(tx, actor.org, automation.id, max_waiting) >= max_waiting:
        return "full"
    offer = lane.RunRequest(
        automation=automation,
        mode=ask.mode,
        started_by=StartedBy.HAND,
        maker=maker(actor),
        idempotency_key=ask.idempotency_key,
        run_id=run,
    )
    await lane.enqueue(tx, held, offer)
    return "made"


@dataclass(frozen=True, slots=True)
class _Wish:
    """A run now that may share a call with others."""

    actor: Actor
    ask: RunNow
    templates: Templates
    max_waiting: int


async def start(
    engine: Engine,
    now: datetime,
    actor: Actor,
    ask: RunNow,
    *,
    templates: Templates,
    max_waiting: int,
    weight: int = 0,
) -> Started:
    """As `run_now`, durably; most share one call with others made at the same time."""
    wish = _Wish(actor, ask, templates, max_waiting)
    shared: Batchable[_Wish, Started | None] = Batchable(
        wish, _alone, _together, weight=weight, autocommit=True
    )
    started = await engine.write(now, shared, org=actor.org)
    if started is None:
        act = partial(run_now, actor=actor, ask=ask, templates=templates, max_waiting=max_waiting)
        started = await engine.write(now, act, org=actor.org)
    return started


async def _alone(tx: Tx, wish: _Wish) -> Started | None:
    templates, most = wish.templates, wish.max_waiting
    return await run_now(tx, wish.actor, wish.ask, templates=templates, max_waiting=most)


async def _together(tx: Tx, wishes: Sequence[_Wish]) -> list[Started | None]:
    """Makes those runs nothing stands in the way of; None for each of the others."""
    most = wishes[0].max_waiting
    asked = [(wish.actor.org, wish.ask.automation, wish.ask.idempotency_key) for wish in wishes]
    found = await plain_runs.standing(tx, asked, max_waiting=most)
    making: list[Making] = []
    numbers: list[int] = []
    ids = RisingIds()  # what waits starts in the order it was asked for
    keys: set[tuple[OrgId, str]] = set()
    for number, (wish, standing) in enumerate(zip(wishes, found, strict=True)):
        ask, named = wish.ask, (wish.actor.org, wish.ask.idempotency_key)
        if standing is None or named in keys or not _is_usual(standing, wish.templates):
            continue
        keys.add(named)  # one that comes with the same key is a replay, or refused
        automation = standing.automation
        run = RunId(ids.next(standing.present))
        sha256 = digest([automation.id, ask.mode])
        making.append(Making(automation, run, ask.mode, ask.idempotency_key, sha256, maker(wish.actor)))
        numbers.append(number)
    made = await plain_runs.start(tx, making, max_waiting=most) if making else []
    runs_by = dict(zip(numbers, made, strict=True))
    return [
        Started(runs_by[number], replayed=False) if number in runs_by else None
        for number in range(len(wishes))
    ]


def _is_usual(standing: Standing, templates: Templates) -> bool:
    automation = standing.automation
    return automation.state is not AutomationState.ARCHIVED and readiness.is_clear(
        automation, templates, standing.connected
    )


async def _replay(tx: Tx, actor: Actor, ask: RunNow) -> Started | None:
    known = await idempotency.find(tx, actor.org, "run", key=ask.idempotency_key)
    if known is None:
        return None
    if known.automation_id != ask.automation:
        raise KeyReused(
            errors={
                "idempotency_key": ["This key already started a run of another automation. Use a new one."]
            }
        )
    return Started(await runs.get(tx, actor.org, RunId(known.object_id)), replayed=True)
