"""The audit log's closed table of actions, and the chain of hashes that binds its entries.

See docs/design/audit.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from steward.model.ids import OrgId
from steward.model.json import digest

ActorKind = Literal["person", "credential", "service", "operator"]
FaultKind = Literal["altered", "missing", "doubled", "order", "head", "anchor"]

# The first value of what is hashed: another form of entries gets another number.
_FORM = 2
# The hash before the first entry.
START = ""

# Every action with its words, which follow the actor's name. `{object}` is the object's name, and the other
# fields are those of the entry's detail.
ACTIONS: Final[Mapping[str, str]] = {
    "approved": "approved the changes of {object}",
    "audit_exported": "exported the audit log",
    "automations_switched_off": "switched all automations off",
    "automations_switched_on": "switched all automations on",
    "closed_period_changed": "changed the closed time {object}",
    "closed_period_ended": "ended the closed time {object}",
    "closed_period_made": "made the closed time {object}",
    "connected": "connected {object}",
    "credential_disabled": "switched the API credential {object} off",
    "credential_enabled": "switched the API credential {object} on",
    "credential_issued": "issued the API credential {object}",
    "credential_rotated": "gave the API credential {object} a new secret",
    "delivery_sent_again": "had a delivery of the route {object} sent again",
    "disconnected": "disconnected {object}",
    "encryption_rotated": "rotated the encryption keys",
    "frozen": "stopped all changes ({object})",
    "invitation_accepted": "accepted an invitation",
    "member_activated": "let {object} in again",
    "member_added": "added {object} as {role}",
    "member_deactivated": "took access from {object}",
    "organization_changed": "changed the settings of the organisation",
    "organization_created": "created the organisation",
    "organization_erased": "erased the data of the organisation",
    "partly_approved": "approved the changes of {object} except {left_out}",
    "password_changed": "changed their password",
    "password_reset": "set a new password by a link sent by e-mail",
    "password_set": "set a password for {object}",
    "person_activated": "switched the account of {object} on",
    "person_deactivated": "switched the account of {object} off",
    "person_erased": "erased the personal data of {object}",
    "person_invited": "invited {object} as {role}",
    "reconnected": "gave {object} new access data",
    "rejected": "rejected the changes of {object}",
    "restored": "restored the database from a copy of {taken_at}",
    "role_changed": "made {object} {role}",
    "route_changed": "changed the route {object}",
    "route_deleted": "deleted the route {object}",
    "route_made": "made the route {object}",
    "route_secret_rotated": "gave the route {object} a new secret",
    "signed_in": "signed in",
    "undo_started": "started to undo changes of {object}",
    "unfrozen": "let changes go on ({object})",
}


@dataclass(frozen=True, slots=True)
class ChainedEntry:
    """One entry as stored; `at` in milliseconds, `detail` the stored JSON text."""

    org: OrgId
    seq: int
    id: str
    at: int
    actor_kind: ActorKind
    actor: str | None
    action: str
    object_kind: str | None
    object_id: str | None
    detail: str
    hash: str = ""

    def hash_after(self, previous: str) -> str:
        """Returns the hash of this entry behind one whose hash is `previous`."""
        return digest(
            [
                *(_FORM, self.org, self.seq, self.id, self.at, self.actor_kind, self.actor, self.action),
                *(self.object_kind, self.object_id, self.detail, previous),
            ]
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """The first entry that is wrong, and how."""

    seq: int
    how: FaultKind


@dataclass(slots=True)
class ChainCheck:
    """Checks entries in their order; `seq` and `hash` are those of the last sound one."""

    seq: int = 0
    hash: str = START

    def accept(self, entry: ChainedEntry) -> Fault | None:
        """Takes the next entry; returns what is wrong with the chain at it."""
        if entry.seq == self.seq:
            return Fault(entry.seq, "doubled")
        if entry.seq < self.seq:
            return Fault(entry.seq, "order")
        if entry.seq > self.seq + 1:
            return Fault(self.seq + 1, "missing")
        if entry.hash != entry.hash_after(self.hash):
            return Fault(entry.seq, "altered")
        self.seq, self.hash = entry.seq, entry.hash
        return None

    def end(self, head_seq: int, head_hash: str) -> Fault | None:
        """Returns what is wrong between the last entry and the head."""
        if self.seq < head_seq:
            return Fault(self.seq + 1, "missing")
        if (self.seq, self.hash) != (head_seq, head_hash):
            return Fault(self.seq, "head")
        return None
