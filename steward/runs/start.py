"""Run now, once per idempotency key (interface 4.3)."""

from dataclasses import dataclass

from steward.automations import readiness
from steward.automations.rules import Templates
from steward.lanes import lane
from steward.model.account import Actor, maker
from steward.model.automation import Automation, AutomationState
from steward.model.ids import AutomationId, RunId, new_id
from steward.model.json import digest
from steward.model.refusals import KeyReused, TooManyWaiting, Unavailable, WrongState
from steward.model.run import Mode, Run, StartedBy
from steward.store import automations, idempotency, plain_runs, runs
from steward.store.engine import Tx


@dataclass(frozen=True, slots=True)
class RunNow:
    """A wish to run an automation by hand."""

    automation: AutomationId
    idempotency_key: str
    mode: Mode


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
) -> plain_runs.MadeNow:
    """Makes the run under the lane's lock, and tells whether its key was used or too many wait."""
    sha256 = digest([automation.id, ask.mode])
    if tx.dialect == "postgresql":  # where each statement is a round trip
        return await plain_runs.run_now(
            tx,
            automation,
            run=run,
            mode=ask.mode,
            key=ask.idempotency_key,
            request_sha256=sha256,
            max_waiting=max_waiting,
            maker=maker(actor),
        )
    held = await lane.lock(tx, actor.org, automation.id)
    kept = await idempotency.keep(
        tx,
        actor.org,
        "run",
        key=ask.idempotency_key,
        object_id=run,
        automation=automation.id,
        request_sha256=sha256,
    )
    if not kept:
        return "kept"
    if await lane.waiting(tx, actor.org, automation.id, max_waiting) >= max_waiting:
        return "full"
    offer = lane.Offer(
        automation=automation,
        mode=ask.mode,
        started_by=StartedBy.HAND,
        maker=maker(actor),
        idempotency_key=ask.idempotency_key,
        run_id=run,
    )
    await lane.offer(tx, held, offer)
    return "made"


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
