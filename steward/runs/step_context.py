"""Builds what a step may see: open connections, earlier outputs, memory; never a writer."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import partial

from steward.automations.stored_memory import AutomationMemory
from steward.model.automation import Automation, AutomationKind
from steward.model.change import Outcome
from steward.model.json import JsonValue
from steward.model.run import Run
from steward.outbound.web import WebReadClient
from steward.runs.claimed_run import ClaimedRun, event_of
from steward.runs.lease import check_run_wanted
from steward.runs.open_connections import OpenConnections
from steward.runs.run_context import RunContext
from steward.runs.storage.files import StoredRunFiles
from steward.runs.undo_source import StoredUndoSource
from steward.scheduling import slots, zones
from steward.steps.base import RunFiles, StepContext


def step_context(
    ctx: RunContext,
    claimed: ClaimedRun,
    opened: OpenConnections,
    outputs: Mapping[str, JsonValue],
    outcomes: Mapping[str, Sequence[Outcome]],
) -> StepContext:
    """Returns the context of the next step."""
    run, automation = claimed.run, claimed.automation
    return StepContext(
        org=run.org,
        run_id=run.id,
        automation_id=run.automation_id,
        mode=run.mode,
        inputs=automation.inputs,
        zone=automation.timezone,
        now=ctx.clock.now(),
        day=_nominal_day(run, automation),
        event=event_of(claimed),
        store=opened.store,
        accounts=opened.access,
        outputs=outputs,
        memory=AutomationMemory(ctx.engine, ctx.clock, run.org, run.automation_id),
        web=_web(ctx, claimed) if automation.kind is AutomationKind.WORKFLOW else None,
        reads=tuple(connection.integration_id for connection in automation.connections),
        automation_created_at=automation.created_at,
        outcomes=outcomes,
        undo=None
        if run.undo_of is None
        else StoredUndoSource(ctx.engine, ctx.clock, run, run.undo_of, automation.timezone),
    )


def run_files(ctx: RunContext, run: Run) -> RunFiles:
    """Returns the storage of a run's files."""
    return StoredRunFiles(ctx.engine, ctx.clock, ctx.vault, ctx.files, run.org, run.id)


def _web(ctx: RunContext, claimed: ClaimedRun) -> WebReadClient:
    check_cancelled = partial(check_run_wanted, ctx.engine, ctx.clock, claimed.lease)
    return ctx.access.web(claimed.run.org, check_cancelled=check_cancelled)


def _nominal_day(run: Run, automation: Automation) -> date:
    """Returns the slot's nominal date; without a slot the local date on which the run was queued."""
    zone = zones.zone(automation.timezone)
    if zone is None:
        return run.queued_at.date()
    if run.slot_at is None:
        return run.queued_at.astimezone(zone).date()
    spread = automation.spread_minutes
    slot = slots.find_slot(automation.schedule, zone, run.slot_at, spread_minutes=spread)
    if slot is not None:
        return slot.nominal_on
    return (run.slot_at - timedelta(minutes=spread)).astimezone(zone).date()
