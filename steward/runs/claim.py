"""Takes ready runs in fair order and judges those taken for the first time (engine 6)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from steward.automations import readiness
from steward.automations.rules import Templates
from steward.database.accounts import organizations
from steward.database.automations import records as automations
from steward.database.automations import streaks
from steward.database.engine.base import Autocommit, Batchable, Tx
from steward.database.events import records as events
from steward.database.runs import fairness as fair
from steward.database.runs import fast_runs as plain_runs
from steward.database.runs import records as runs
from steward.database.runs import steps
from steward.database.runs import transitions as run_queue
from steward.database.runs.fast_runs import Beginning, Leased
from steward.database.runs.steps import StepValue, ValueState
from steward.database.runs.transitions import Lease, RunState
from steward.failpoint import failpoint
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.connection import AutomationConnection
from steward.model.ids import IntegrationId, OrgId, WorkerId
from steward.model.json import JsonObject, JsonValue
from steward.model.run import EventRef, Mode, Run, RunStatus
from steward.run_queue.summaries import START
from steward.runs import finish
from steward.runs.worker_context import LeaseLost, WorkerContext
from steward.steps.base import StoreEvent

BATCH = 50
# A run is stopped after so long from its start, sleeping and waiting for people included (engine 10.1.9).
LONGEST = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run in hand: what it runs, and its journal so far."""

    lease: Lease
    run: Run
    hot: RunState
    automation: Automation
    journal: tuple[StepValue, ...]
    is_old: bool = False  # it began so long ago that it takes no further step


async def claim(ctx: WorkerContext, worker: WorkerId, *, free: int, full: Sequence[OrgId]) -> list[Lease]:
    """Leases up to `free` runs, none of the organisations that are at their cap."""
    wanted = min(free, BATCH)
    if wanted <= 0:
        return []
    take = partial(_take, worker=worker, free=wanted, full=list(full))
    leases = await ctx.engine.write(ctx.clock.now(), Autocommit(take))
    failpoint("after_claim")
    return leases


async def _take(tx: Tx, *, worker: WorkerId, free: int, full: list[OrgId]) -> list[Lease]:
    found = await run_queue.claim(tx, worker, free=free, full=full)
    if found and tx.dialect == "sqlite":
        await fair.advance(tx, max(vt for _, vt in found))
    return [lease for lease, _ in found]


@dataclass(frozen=True, slots=True)
class _Taking:
    """A lease to be judged, and with what."""

    lease: Lease
    ctx: WorkerContext


@dataclass(frozen=True, slots=True)
class _Begun:
    """A judged run; `apart`: it is not of the usual kind, and has to be judged by itself."""

    taken: ClaimedRun | None = None
    apart: bool = False


async def start_claimed(ctx: WorkerContext, lease: Lease) -> ClaimedRun | None:
    """As `begin`, durably; most runs share one call with others taken at the same time. Raises LeaseLost."""
    now = ctx.clock.now()
    if lease.is_first_start:
        shared = Batchable(_Taking(lease, ctx), _begin_alone, _begin_together, autocommit=True)
        begun = await ctx.engine.write(now, shared, org=lease.org)
        if not begun.apart:
            return begun.taken
    return await ctx.engine.write(now, partial(begin, lease=lease, ctx=ctx), org=lease.org)


async def _begin_alone(tx: Tx, taking: _Taking) -> _Begun:
    return _Begun(await begin(tx, lease=taking.lease, ctx=taking.ctx))


async def _begin_together(tx: Tx, takings: Sequence[_Taking]) -> list[_Begun]:
    """Makes those running that are taken for the first time and that nothing refuses (engine 6)."""
    read = await plain_runs.leased(tx, [taking.lease for taking in takings])
    templates = takings[0].ctx.templates
    starts = {
        one.lease.run: (one, _start(one.automation))
        for one in read
        if one is not None and _is_usual(one, templates)
    }
    held = await plain_runs.begin(
        tx,
        [
            Beginning(one, one.run.mode is Mode.LIVE, steps.packed(started))
            for one, started in starts.values()
        ],
    )
    return [
        _Begun(_taken(*starts[taking.lease.run], held[taking.lease.run]))
        if taking.lease.run in held
        else _Begun(apart=True)
        for taking in takings
    ]


def _is_usual(one: Leased, templates: Templates) -> bool:
    """Whether nothing refuses the run, and only its own rows are to be written."""
    run, hot, automation = one.run, one.hot, one.automation
    return (
        hot.status is RunStatus.QUEUED
        and hot.started_at is None
        and run.event is None
        and one.is_on
        and readiness.is_clear(automation, templates, one.connected)
        and automation.state is not AutomationState.ARCHIVED
        and run.plan_version == automation.plan_version
        and (run.automation_version, run.template_version)
        == (automation.version, automation.template_version)
    )


def _start(automation: Automation) -> dict[str, JsonValue]:
    """What a run starts with, kept as its journal's first row."""
    return {
        "inputs": automation.inputs,
        "integration_id": automation.integration_id,
        "connections": [[one.integration_id, one.kind] for one in automation.connections],
    }


def _taken(one: Leased, started: dict[str, JsonValue], now: datetime) -> ClaimedRun:
    value = StepValue(START, "", 0, ValueState.DONE, started)
    run = replace(one.run, status=RunStatus.RUNNING, started_at=now)
    return ClaimedRun(one.lease, run, replace(one.hot, started_at=now), one.automation, (value,))


async def begin(tx: Tx, *, lease: Lease, ctx: WorkerContext) -> ClaimedRun | None:
    """Judges a run taken for the first time and makes it running; None when it ended. Raises LeaseLost."""
    hot = await run_queue.read_state(tx, lease.org, lease.run)
    if hot is None:
        return None
    automation = await automations.get(tx, lease.org, hot.automation)
    run = await runs.get(tx, lease.org, lease.run)
    if hot.status is RunStatus.QUEUED:
        fresh = hot.started_at is None
        if fresh and (refused := await _refusal(tx, ctx, automation, run)):
            rules = ctx.automation_rules
            await finish.finish(tx, lease, refused, automation=automation.id, mode=run.mode, rules=rules)
            return None
        if fresh and run.mode is Mode.LIVE:
            await streaks.began(tx, lease.org, automation.id)  # locks the schedule before the run (engine 2)
        if not await run_queue.start(tx, lease):
            raise LeaseLost(lease)
        if fresh:
            return await _fresh(tx, lease, run, hot, automation)
    elif not (await run_queue.lock_lease(tx, lease))[0]:  # ended or lost since it was claimed (engine 6)
        raise LeaseLost(lease)
    journal = await steps.values(tx, lease.org, lease.run)
    is_old = run.started_at is not None and tx.now - run.started_at >= LONGEST
    return ClaimedRun(lease, run, hot, _as_started(automation, journal), tuple(journal), is_old)


async def _refusal(tx: Tx, ctx: WorkerContext, automation: Automation, run: Run) -> finish.End | None:
    """Contract 4.3, "a worker takes it", in the order of engine 4.2."""
    if automation.state is AutomationState.ARCHIVED:
        return finish.End(RunStatus.REFUSED, "archived", "The automation was archived.")
    found = await readiness.obstacle(tx, automation, templates=ctx.templates)
    if found is not None and found.code == "switched_off":
        return finish.End(RunStatus.REFUSED, found.code, found.message)
    if run.plan_version is not None and run.plan_version != automation.plan_version:
        words = "The automation's steps were changed after this run was queued. Run it again."
        return finish.End(RunStatus.REFUSED, "superseded", words)
    return finish.End(RunStatus.REFUSED, found.code, found.message) if found is not None else None


async def _fresh(tx: Tx, lease: Lease, run: Run, hot: RunState, automation: Automation) -> ClaimedRun:
    """What only the first start does: versions, the journal's first row, the automation's last run."""
    versions = (automation.version, automation.template_version)
    if versions != (run.automation_version, run.template_version):
        await runs.take_versions(tx, lease.org, lease.run, automation=versions[0], template=versions[1])
        run = replace(run, automation_version=versions[0], template_version=versions[1])
    started = _start(automation)
    if automation.kind is AutomationKind.WORKFLOW:  # a run keeps the send mode it started with (contract 2.3)
        organization = await organizations.get(tx, lease.org)
        may = organization is not None and organization.send_without_approval
        started["asks"] = not may or automation.send_mode != "send"
    if run.event is not None:
        started["event"] = await _event(
            tx, run, run.event, is_workflow=automation.kind is AutomationKind.WORKFLOW
        )
    value = StepValue(START, "", 0, ValueState.DONE, started)
    await steps.keep_value(tx, lease.org, lease.run, value=value, output=steps.packed(started))
    started_run = replace(run, status=RunStatus.RUNNING, started_at=tx.now)
    return ClaimedRun(lease, started_run, replace(hot, started_at=tx.now), automation, (value,))


async def _event(tx: Tx, run: Run, event: EventRef, *, is_workflow: bool) -> JsonObject:
    """What the run is told of its event, kept with it: the event itself is not kept as long."""
    pointer, body = await events.handed(tx, run.org, event.id, with_body=is_workflow)
    return pointer if body is None else {**pointer, "payload": json.loads(body)}


def asks(taken: "ClaimedRun") -> bool:
    """Whether the sends of a workflow's run wait for approval, as when it started."""
    kept = next((value.output for value in taken.journal if value.name == START), None)
    return not isinstance(kept, dict) or kept.get("asks") is not False


def event_of(taken: "ClaimedRun") -> StoreEvent | None:
    """The event the run came from, as it was told when it first started; None for other runs."""
    event = taken.run.event
    kept = next((value.output for value in taken.journal if value.name == START), None)
    pointer = kept.get("event") if isinstance(kept, dict) else None
    if event is None or not isinstance(pointer, dict):
        return None
    occurred = pointer.get("occurred_at")
    return StoreEvent(
        topic=event.topic,
        object_type=pointer.get("object_type", ""),
        object_id=pointer.get("object_id", ""),
        parent_id=pointer.get("parent_id"),
        id=event.id,
        occurred_at=None if occurred is None else datetime.fromisoformat(occurred),
        received_at=event.received_at,
        payload=pointer.get("payload"),
    )


def _as_started(automation: Automation, journal: Sequence[StepValue]) -> Automation:
    """The automation with the inputs and connections its run started with."""
    for value in journal:
        if value.name == START and isinstance(value.output, dict):
            kept = value.output
            return replace(
                automation,
                inputs=kept["inputs"],
                integration_id=kept["integration_id"],
                connections=tuple(
                    AutomationConnection(IntegrationId(number), kind) for number, kind in kept["connections"]
                ),
            )
    return automation
