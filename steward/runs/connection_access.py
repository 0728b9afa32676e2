"""The access of runs to an organization's connections."""

from collections.abc import Mapping
from typing import Protocol

from steward.connectors.base.connector import AnyWriteOperation, Reader
from steward.connectors.base.writing import WriteOutcome
from steward.model.change import Batch
from steward.model.connection import Connection
from steward.model.ids import OrgId
from steward.outbound.call_queue import Urgency
from steward.outbound.grant import WriteGrant
from steward.outbound.transport import CancelCheck
from steward.outbound.web import WebReadClient


class BatchWriter(Protocol):
    """The one method of a writer that `apply.py` uses."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one request of `batch` and returns one outcome per part, in order."""
        ...


class ConnectionAccess(Protocol):
    """The access of runs to an organization's connections."""

    async def reader(
        self,
        org: OrgId,
        connection: Connection,
        *,
        urgency: Urgency = Urgency.READ,
        check_cancelled: CancelCheck | None = None,
    ) -> Reader:
        """Returns a reader, which can send nothing but reads.

        `urgency` WRITE is for reads that belong to a write. Raises NotConnected.
        """
        ...

    async def writer(self, org: OrgId, connection: Connection, grant: WriteGrant) -> BatchWriter:
        """Returns a writer bound to `grant`; only `apply.py` calls it. Raises NotConnected."""
        ...

    def changes(self, kind: str) -> Mapping[str, AnyWriteOperation]:
        """Returns the write operations of a kind of connection, by name."""
        ...

    def receives_messages(self, kind: str) -> bool:
        """Returns whether what is written to a kind of connection is a message to people."""
        ...

    def web(self, org: OrgId, *, check_cancelled: CancelCheck | None = None) -> WebReadClient:
        """Returns reads of addresses that belong to no connection."""
        ...
