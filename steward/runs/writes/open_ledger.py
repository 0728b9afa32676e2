"""The open writes of a run, with the changes and connections that they belong to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.database.runs import changes, write_ledger
from steward.database.runs.write_ledger import WriteEntry
from steward.model.change import Change, Part
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import ChangeId, IntegrationId, OrgId, RunId


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """A run's writes with their changes and connections, and the database's time when they were read."""

    now: datetime
    entries: Sequence[WriteEntry]
    changes: Mapping[ChangeId, Change]
    connections: Mapping[IntegrationId, Connection]

    def part(self, entry: WriteEntry) -> Part:
        """Returns the part the write was sent for."""
        return self.changes[entry.change].proposal.parts[entry.part - 1]

    def connected(self, entry: WriteEntry) -> Connection | None:
        """Returns the write's connection, or None when it is deleted or not connected."""
        connection = None if entry.integration is None else self.connections.get(entry.integration)
        is_connected = connection is not None and connection.state is ConnectionState.CONNECTED
        return connection if is_connected else None

    def batch_of(self, entry: WriteEntry) -> list[WriteEntry]:
        """Returns all writes of the write's batch, in the order they were sent."""
        batch = [member for member in self.entries if member.batch_key == entry.batch_key]
        return sorted(
            batch,
            key=lambda member: (self.changes[member.change].seq, self.changes[member.change].position),
        )


async def open_ledger(tx: Tx, org: OrgId, run: RunId) -> OpenLedger:
    """Reads the run's writes with the changes and connections they belong to."""
    run_entries = await write_ledger.of_run(tx, org, run)
    items = {item.id: item for item in await changes.of_run(tx, org, run)} if run_entries else {}
    named = {entry.integration for entry in run_entries if entry.integration is not None}
    return OpenLedger(tx.now, run_entries, items, await connections.among(tx, org, named))
