"""Builds what a step may see: open connections, earlier outputs, memory; never a writer."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import TypeVar

from steward.automations import readiness
from steward.automations.rules import Templates
from steward.automations.stored_memory import AutomationMemory
from steward.clock import Clock
from steward.connectors.base.connector import CurrentValue
from steward.connectors.base.forwarding import ForwardingReader
from steward.connectors.base.queries import ReadOp, RecordPage
from steward.database.accounts import connections
from steward.database.engine.base import Engine, Tx
from steward.database.runs import memory_log, undos
from steward.database.runs import records as runs
from steward.model.automation import Automation, AutomationKind
from steward.model.change import Change, Outcome, Part
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.model.json import JsonObject, JsonValue
from steward.model.run import Run
from steward.model.undo import LookUpResult, OriginalChange, OriginalRun
from steward.outbound.web import KIND, NO_CONNECTION, WebReadClient
from steward.run_queue.undo_plan import UNDO
from steward.runs.claim import ClaimedRun, event_of
from steward.runs.run_context import RunContext, UnknownPlan, check_run_wanted
from steward.runs.storage.files import StoredRunFiles
from steward.scheduling import slots, zones
from steward.steps.base import AccountAccess, RunFiles, StepContext, StoreAccess
from steward.templates.base import Template

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741


def template_of(templates: Templates, claimed: ClaimedRun) -> Template:
    """Returns the template that the run walks; an undo walks a built-in plan.

    Raises UnknownPlan.
    """
    if claimed.run.undo_of is not None:
        return UNDO
    template = templates.get(claimed.run.template_id)
    if template is None:
        raise UnknownPlan(f"template {claimed.run.template_id}")
    return template


@dataclass(frozen=True, slots=True)
class RecordingReader(ForwardingReader):
    """A reader that records which connections a step read, so that the step's row can name one."""

    connection: Connection
    touched: dict[IntegrationId, str]

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Reads pages."""
        self._record()
        return self.reader.read(op, params)

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Reads the current values of parts."""
        self._record()
        return await self.reader.current(parts)

    async def look_up_inverses(
        self, parts: Sequence[Part], *, is_overwritten: bool = False
    ) -> list[LookUpResult]:
        """Looks up what puts parts back."""
        self._record()
        return await self.reader.look_up_inverses(parts, is_overwritten=is_overwritten)

    def _record(self) -> None:
        self.touched.setdefault(self.connection.integration_id, self.connection.kind)


@dataclass(slots=True)
class OpenConnections:
    """The connections of a run, opened once for all its steps, and those the current step has read."""

    connections: Mapping[IntegrationId, Connection]
    access: Mapping[IntegrationId, AccountAccess]
    store: StoreAccess | None
    touched: dict[IntegrationId, str]

    def row(self) -> JsonObject | None:
        """Returns the connection the step read first, as its public row names it."""
        for integration, kind in self.touched.items():
            return {"integration_id": integration, "kind": kind}
        return None


# For a run that only ends: it reads and writes nothing more.
NO_CONNECTIONS = OpenConnections({}, {}, None, {})


async def open_connections(ctx: RunContext, claimed: ClaimedRun) -> OpenConnections:
    """Opens every connection the automation names for reading. Raises NotConnected."""
    automation = claimed.automation
    named = await _connections_of(ctx, claimed)
    if not named and automation.kind is not AutomationKind.WORKFLOW:
        return OpenConnections({}, {}, None, {})
    load = partial(connections.among, org=automation.org, integrations=named)
    connections_by_id = (
        dict(await ctx.engine.read(ctx.clock.now(), load, org=automation.org)) if named else {}
    )
    touched: dict[IntegrationId, str] = {}
    access: dict[IntegrationId, AccountAccess] = {}
    check_cancelled = partial(check_run_wanted, ctx.engine, ctx.clock, claimed.lease)
    store: StoreAccess | None = None
    for integration, connection in connections_by_id.items():
        opened = await ctx.access.reader(automation.org, connection, check_cancelled=check_cancelled)
        reader = RecordingReader(opened, connection, touched)
        changes = ctx.access.changes(connection.kind)
        if integration == automation.integration_id:
            store = StoreAccess(connection, reader, changes)
        else:
            access[integration] = AccountAccess(connection, reader, changes)
    if automation.kind is AutomationKind.WORKFLOW:
        connections_by_id[NO_CONNECTION] = _web_connection(automation.org, ctx.clock.now())
    return OpenConnections(connections_by_id, access, store, touched)


async def _connections_of(ctx: RunContext, claimed: ClaimedRun) -> Sequence[IntegrationId]:
    """Returns the connections that a run uses; an undo uses those of the changes that it puts back."""
    if claimed.run.undo_of is None:
        return readiness.connections_of(claimed.automation, ctx.automation_rules.templates)
    org, run = claimed.run.org, claimed.run.id

    async def load(tx: Tx) -> Sequence[IntegrationId]:
        stored = await undos.get(tx, org, run)
        return await undos.integrations(tx, org, stored.of_run, stored.chosen)

    return await ctx.engine.read(ctx.clock.now(), load, org=org)


def _web_connection(org: OrgId, connected_at: datetime) -> Connection:
    """Returns the placeholder connection of a workflow's requests to addresses of its own."""
    return Connection(
        org=org,
        integration_id=NO_CONNECTION,
        kind=KIND,
        is_store=False,
        name="the web",
        domain=None,
        zone=None,
        currency=None,
        state=ConnectionState.CONNECTED,
        auth=Auth.KEY,
        account_label=None,
        facts={},
        version=1,
        connected_at=connected_at,
        last_ok_at=None,
        checked_at=None,
        last_error=None,
    )


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


@dataclass(frozen=True, slots=True)
class StoredUndoSource:
    """Reads what an undo run puts back from the rows of the original run."""

    engine: Engine
    clock: Clock
    run: Run
    of_run: RunId
    timezone: str

    async def original_run(self) -> OriginalRun:
        """Returns the original run with the chosen changes, read in pages."""
        changes: list[Change] = []
        after = (0, -1)
        org = self.run.org
        while True:
            load = partial(undos.written_changes, org=org, run=self.of_run, after=after)
            page = await self.engine.read(self.clock.now(), load, org=org)
            if not page:
                break
            changes += page
            after = page[-1].seq, page[-1].position
        complete = partial(self._completed, changes=changes)
        return await self.engine.read(self.clock.now(), complete, org=org)

    async def _completed(self, tx: Tx, changes: Sequence[Change]) -> OriginalRun:
        """Returns the run with the changes' written parts and what they made the automation remember."""
        org, of_run = self.run.org, self.of_run
        original_run = await runs.get(tx, org, of_run)
        stored = await undos.get(tx, org, self.run.id)
        chosen = None if stored.chosen is None else frozenset(stored.chosen)
        numbers = await undos.written_parts(tx, org, of_run)
        memory_by_change = await memory_log.of_run(tx, org, of_run)
        originals = tuple(
            OriginalChange(
                change,
                tuple(numbers.get(change.id, ())),
                memory_by_change.get((change.name, change.iteration, change.position), ()),
            )
            for change in changes
            if chosen is None or change.id in chosen
        )
        began = _people_time(original_run.started_at or original_run.queued_at, self.timezone)
        cannot = await undos.cannot(tx, org, of_run) if chosen is None else 0
        return OriginalRun(began, originals, cannot)


def _people_time(instant: datetime, timezone: str) -> str:
    """Returns a time as people read it, such as `21 Nov 06:02`."""
    zone = zones.zone(timezone)
    return instant.astimezone(zone).strftime("%-d %b %H:%M") if zone is not None else instant.isoformat()


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
