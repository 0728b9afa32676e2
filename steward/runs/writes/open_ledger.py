"""The open writes of a run, with the changes and connections that they belong to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.database.runs import changes, write_ledger
from steward.database.runs.write_ledger import Effect
from steward.model.change import Change, Part
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import ChangeId, IntegrationId, OrgId, RunId


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """A run's effects with their changes and connections, and the database's time when they were read."""

    now: datetime
    effects: Sequence[Effect]
    changes: Mapping[ChangeId, Change]
    connections: Mapping[IntegrationId, Connection]

    def part(self, effect: Effect) -> Part:
        """Returns the part the effect was sent for."""
        return self.changes[effect.change].proposal.parts[effect.part - 1]

    def connected(self, effect: Effect) -> Connection | None:
        """Returns the effect's connection, or None when it is deleted or not connected."""
        connection = None if effect.integration is None else self.connections.get(effect.integration)
        is_connected = connection is not None and connection.state is ConnectionState.CONNECTED
        return connection if is_connected else None

    def batch_of(self, effect: Effect) -> list[Effect]:
        """Returns all effects of the effect's batch, in the order they were sent."""
        batch = [member for member in self.effects if member.batch_key == effect.batch_key]
        return sorted(
            batch,
            key=lambda member: (self.changes[member.change].seq, self.changes[member.change].position),
        )


async def open_ledger(tx: Tx, org: OrgId, run: RunId) -> OpenLedger:
    """Reads the run's effects with the changes and connections they belong to."""
    run_effects = await write_ledger.of_run(tx, org, run)
    items = {item.id: item for item in await changes.of_run(tx, org, run)} if run_effects else {}
    named = {effect.integration for effect in run_effects if effect.integration is not None}
    return OpenLedger(tx.now, run_effects, items, await connections.among(tx, org, named))
