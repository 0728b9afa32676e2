"""The connections of a run, opened once for all its steps."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from steward.automations import readiness
from steward.connectors.base.connector import CurrentValue
from steward.connectors.base.forwarding import ForwardingReader
from steward.connectors.base.queries import ReadOp, RecordPage
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.database.runs import undos
from steward.model.automation import AutomationKind
from steward.model.change import Part
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonObject
from steward.model.undo import LookUpResult
from steward.outbound.web import KIND, NO_CONNECTION
from steward.runs.claimed_run import ClaimedRun
from steward.runs.lease import check_run_wanted
from steward.runs.run_context import RunContext
from steward.steps.base import AccountAccess, StoreAccess

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741


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
