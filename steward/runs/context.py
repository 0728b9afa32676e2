"""Builds what a step may see: opened connections, earlier outputs, memory; never a writer."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import TypeVar

from steward.automations import readiness
from steward.connectors.base.connector import CurrentValue, Reader
from steward.connectors.base.queries import ReadOp, RecordPage
from steward.connectors.base.writing import WriteOutcome
from steward.database.accounts import connections
from steward.database.automations import memory
from steward.model.automation import Automation, AutomationKind
from steward.model.change import Outcome, Part
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.json import JsonObject, JsonValue
from steward.model.run import Run
from steward.outbound.web import KIND, NO_CONNECTION, WebReadClient
from steward.runs.claim import ClaimedRun, event_of
from steward.runs.worker_context import WorkerContext, check_run_wanted
from steward.scheduling import slots, zones
from steward.steps.base import AccountAccess, StepContext, StoreAccess

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741


@dataclass(slots=True)
class Noting:
    """A reader that notes that its connection was read, so that the step's row can name it."""

    reader: Reader
    connection: Connection
    touched: dict[IntegrationId, str]

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """As the reader."""
        self.touched.setdefault(self.connection.integration_id, self.connection.kind)
        return self.reader.read(op, params)

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """As the reader."""
        self.touched.setdefault(self.connection.integration_id, self.connection.kind)
        return await self.reader.current(parts)

    async def confirm(self, part: Part) -> WriteOutcome:
        """As the reader."""
        return await self.reader.confirm(part)

    async def find_marker(self, part: Part, key: str) -> bool:
        """As the reader."""
        return await self.reader.find_marker(part, key)


@dataclass(frozen=True, slots=True)
class Remembered:
    """The automation's memory, read when a step asks."""

    ctx: WorkerContext
    org: OrgId
    automation: AutomationId

    async def all(self, space: str) -> Mapping[str, JsonValue]:
        """Everything remembered in one space."""
        return await self.of(self.automation, space)

    async def of(self, automation: AutomationId, space: str) -> Mapping[str, JsonValue]:
        """What another automation of the organisation remembers in a space."""
        look = partial(memory.of_space, org=self.org, automation=automation, space=space)
        return await self.ctx.engine.read(self.ctx.clock.now(), look, org=self.org)

    async def of_template(self, template_id: str, space: str) -> Mapping[str, JsonValue]:
        """What all the organisation's automations of a template remember."""
        look = partial(memory.of_template, org=self.org, template_id=template_id, space=space)
        return await self.ctx.engine.read(self.ctx.clock.now(), look, org=self.org)


@dataclass(slots=True)
class Opened:
    """The connections of a run, opened once for all its steps, and which the present step has read."""

    connections: Mapping[IntegrationId, Connection]
    access: Mapping[IntegrationId, AccountAccess]
    store: StoreAccess | None
    touched: dict[IntegrationId, str]

    def row(self) -> JsonObject | None:
        """The connection the step touched first, as its row names it (contract 3.3)."""
        for integration, kind in self.touched.items():
            return {"integration_id": integration, "kind": kind}
        return None


NOTHING = Opened({}, {}, None, {})  # for a run that only ends: it reads and writes nothing more


async def open_connections(ctx: WorkerContext, taken: ClaimedRun) -> Opened:
    """Opens every connection the automation names for reading. Raises NotConnected."""
    automation = taken.automation
    named = readiness.connections_of(automation, ctx.templates)
    if not named and automation.kind is not AutomationKind.WORKFLOW:
        return Opened({}, {}, None, {})
    look = partial(connections.among, org=automation.org, integrations=named)
    found = dict(await ctx.engine.read(ctx.clock.now(), look, org=automation.org)) if named else {}
    touched: dict[IntegrationId, str] = {}
    access: dict[IntegrationId, AccountAccess] = {}
    still_wanted = partial(check_run_wanted, ctx, taken.lease)
    store: StoreAccess | None = None
    for integration, connection in found.items():
        opened = await ctx.access.reader(automation.org, connection, still_wanted=still_wanted)
        reader = Noting(opened, connection, touched)
        changes = ctx.access.changes(connection.kind)
        if integration == automation.integration_id:
            store = StoreAccess(connection, reader, changes)
        else:
            access[integration] = AccountAccess(connection, reader, changes)
    if automation.kind is AutomationKind.WORKFLOW:
        found[NO_CONNECTION] = _nowhere(automation.org, ctx)
    return Opened(found, access, store, touched)


def _nowhere(org: OrgId, ctx: WorkerContext) -> Connection:
    """What stands for "no connection" where a workflow's request goes to an address of its own."""
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
        connected_at=ctx.clock.now(),
        last_ok_at=None,
        checked_at=None,
        last_error=None,
    )


def step_context(
    ctx: WorkerContext,
    taken: ClaimedRun,
    opened: Opened,
    outputs: Mapping[str, JsonValue],
    outcomes: Mapping[str, Sequence[Outcome]],
) -> StepContext:
    """What the next step may see."""
    run, automation = taken.run, taken.automation
    return StepContext(
        org=run.org,
        run_id=run.id,
        automation_id=run.automation_id,
        mode=run.mode,
        inputs=automation.inputs,
        zone=automation.timezone,
        now=ctx.clock.now(),
        day=nominal_day(run, automation),
        event=event_of(taken),
        store=opened.store,
        accounts=opened.access,
        outputs=outputs,
        memory=Remembered(ctx, run.org, run.automation_id),
        web=_web(ctx, taken) if automation.kind is AutomationKind.WORKFLOW else None,
        reads=tuple(one.integration_id for one in automation.connections),
        automation_created_at=automation.created_at,
        outcomes=outcomes,
    )


def _web(ctx: WorkerContext, taken: ClaimedRun) -> WebReadClient:
    return ctx.access.web(taken.run.org, still_wanted=partial(check_run_wanted, ctx, taken.lease))


def nominal_day(run: Run, automation: Automation) -> date:
    """The slot's nominal date; without a slot the local day the run was queued on (templates E16)."""
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
