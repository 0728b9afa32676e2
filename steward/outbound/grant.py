"""The permission to write: names the committed effects of a batch; only runs/writes/apply.py creates it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.model.change import batch_key
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.outbound.errors import CallRefused


@dataclass(frozen=True, slots=True)
class WriteGrant:
    """The writes that a run may send now, and until when.

    `effects` maps each effect key whose intent is committed to its connection. `confirmed_until` returns
    the end of the lease as last confirmed. `send_by` is 5 s after the instant for which closed periods were
    checked: a request that has not started by then is not sent
    (`docs/design/writes.md#protocol-of-one-write`).
    """

    org: OrgId
    run: RunId
    epoch: int
    change_hash: str
    effects: Mapping[str, IntegrationId]
    confirmed_until: Callable[[], datetime]
    send_by: datetime

    def check(self, effect_keys: Sequence[str], key: str, *, connection: IntegrationId) -> None:
        """Raises CallRefused unless every effect is named, for this connection, under its own batch key."""
        if not effect_keys:
            raise CallRefused("a write names the effect it is for")
        if len(set(effect_keys)) != len(effect_keys):
            raise CallRefused("a write names an effect once")
        for effect in effect_keys:
            if effect not in self.effects:
                raise CallRefused("a write is for an effect whose intent is kept")
            if self.effects[effect] != connection:
                raise CallRefused("a write goes to the connection of its effect")
        if key != batch_key(effect_keys):
            raise CallRefused("a write carries the key of its effects")

    def check_time(self, now: datetime) -> None:
        """Raises CallRefused after the confirmed end of the lease, or too long after the intent."""
        if now >= self.confirmed_until():
            raise CallRefused("the run's lease is not confirmed any more")
        if now > self.send_by:
            raise CallRefused("the intent is too old to be sent")
