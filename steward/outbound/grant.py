"""The permission to write: names the committed intents of a batch; only runs/writes/apply.py creates it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.model.change import batch_key
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.outbound.errors import CallRefused


@dataclass(frozen=True, slots=True)
class WriteGrant:
    """The writes that a run may send now, and until when.

    `connections` maps each write key whose intent is committed to its connection. `confirmed_until` returns
    the end of the lease as last confirmed. `send_by` is 5 s after the instant for which closed periods were
    checked: a request that has not started by then is not sent
    (`docs/design/writes.md#protocol-of-one-write`).
    """

    org: OrgId
    run: RunId
    epoch: int
    change_hash: str
    connections: Mapping[str, IntegrationId]
    confirmed_until: Callable[[], datetime]
    send_by: datetime

    def check(self, write_keys: Sequence[str], key: str, *, connection: IntegrationId) -> None:
        """Raises CallRefused unless every write has an intent for this connection under its batch key."""
        if not write_keys:
            raise CallRefused("a write names the key of its intent")
        if len(set(write_keys)) != len(write_keys):
            raise CallRefused("a write names each key once")
        for write_key in write_keys:
            if write_key not in self.connections:
                raise CallRefused("a write has a committed intent")
            if self.connections[write_key] != connection:
                raise CallRefused("a write goes to the connection of its intent")
        if key != batch_key(write_keys):
            raise CallRefused("a write carries the key of its batch")

    def check_time(self, now: datetime) -> None:
        """Raises CallRefused after the confirmed end of the lease, or too long after the intent."""
        if now >= self.confirmed_until():
            raise CallRefused("the run's lease is not confirmed any more")
        if now > self.send_by:
            raise CallRefused("the intent is too old to be sent")
