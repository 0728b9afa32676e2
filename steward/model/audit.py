"""The audit log's closed table of actions, and the hash chain that binds its entries.

See docs/design/audit.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from steward.model.ids import OrgId
from steward.model.json import digest

ActorKind = Literal["person", "credential", "service", "operator"]
Level = Literal["info", "attention"]
_FaultKind = Literal["altered", "missing", "doubled", "order", "head", "anchor"]

# The first hashed value: another form of entries gets another number.
_FORM = 2
# The hash before the first entry.
START = ""


@dataclass(frozen=True, slots=True)
class AuditAction:
    """The words of an action after the actor's name, and whether owners should look at its entries.

    `{object}` is the object's name, and the other fields are those of the entry's detail. `attention` marks
    refused sign-ins, actions that give somebody access, and actions that remove or replace data.
    """

    words: str
    level: Level = "info"


ACTIONS: Final[Mapping[str, AuditAction]] = {
    "approved": AuditAction("approved the changes of {object}"),
    "audit_exported": AuditAction("exported the audit log"),
    "automations_switched_off": AuditAction("switched all automations off"),
    "automations_switched_on": AuditAction("switched all automations on"),
    "closed_period_changed": AuditAction("changed the closed time {object}"),
    "closed_period_ended": AuditAction("ended the closed time {object}"),
    "closed_period_made": AuditAction("created the closed time {object}"),
    "connected": AuditAction("connected {object}"),
    "credential_disabled": AuditAction("switched the API credential {object} off"),
    "credential_enabled": AuditAction("switched the API credential {object} on", "attention"),
    "credential_issued": AuditAction("issued the API credential {object}", "attention"),
    "credential_rotated": AuditAction("gave the API credential {object} a new secret", "attention"),
    "delivery_sent_again": AuditAction("had a delivery of the route {object} sent again"),
    "disconnected": AuditAction("disconnected {object}"),
    "encryption_rotated": AuditAction("rotated the encryption keys"),
    "frozen": AuditAction("stopped all changes ({object})"),
    "invitation_accepted": AuditAction("accepted an invitation"),
    "login_failed": AuditAction("refused logins with the API credential {object} ({times})", "attention"),
    "member_activated": AuditAction("let {object} in again", "attention"),
    "member_added": AuditAction("added {object} as {role}", "attention"),
    "member_deactivated": AuditAction("took access from {object}"),
    "organization_changed": AuditAction("changed the settings of the organization"),
    "organization_created": AuditAction("created the organization"),
    "organization_erased": AuditAction("erased the data of the organization", "attention"),
    "partly_approved": AuditAction("approved the changes of {object} except {left_out}"),
    "password_changed": AuditAction("changed their password"),
    "password_reset": AuditAction("set a new password by a link sent by e-mail", "attention"),
    "password_set": AuditAction("set a password for {object}", "attention"),
    "person_activated": AuditAction("switched the account of {object} on", "attention"),
    "person_deactivated": AuditAction("switched the account of {object} off"),
    "person_erased": AuditAction("erased the personal data of {object}", "attention"),
    "person_invited": AuditAction("invited {object} as {role}", "attention"),
    "reconnected": AuditAction("gave {object} new access data"),
    "rejected": AuditAction("rejected the changes of {object}"),
    "restored": AuditAction("restored the database from a copy of {taken_at}", "attention"),
    "role_changed": AuditAction("made {object} {role}", "attention"),
    "route_changed": AuditAction("changed the route {object}"),
    "route_deleted": AuditAction("deleted the route {object}"),
    "route_made": AuditAction("created the route {object}"),
    "route_secret_rotated": AuditAction("gave the route {object} a new secret"),
    "sign_in_failed": AuditAction("refused sign-ins as {object} ({times})", "attention"),
    "signed_in": AuditAction("signed in"),
    "undo_started": AuditAction("started to undo changes of {object}"),
    "unfrozen": AuditAction("resumed changes ({object})"),
}


def level_of(action: str) -> Level:
    """Returns the level of an action; `info` for an unknown action of a later release."""
    return ACTIONS[action].level if action in ACTIONS else "info"


@dataclass(frozen=True, slots=True)
class ChainedEntry:
    """An entry as stored; `at` is in milliseconds, `detail` is the stored JSON text."""

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
        """Returns the hash of this entry after an entry with the hash `previous`."""
        return digest(
            [
                *(_FORM, self.org, self.seq, self.id, self.at, self.actor_kind, self.actor, self.action),
                *(self.object_kind, self.object_id, self.detail, previous),
            ]
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """The first faulty entry, and its fault."""

    seq: int
    how: _FaultKind


@dataclass(slots=True)
class ChainCheck:
    """Checks entries in order; `seq` and `hash` are those of the last valid entry."""

    seq: int = 0
    hash: str = START

    def accept(self, entry: ChainedEntry) -> Fault | None:
        """Checks the next entry; returns the chain's fault at this entry, if any."""
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
        """Returns the fault between the last entry and the head, if any."""
        if self.seq < head_seq:
            return Fault(self.seq + 1, "missing")
        if (self.seq, self.hash) != (head_seq, head_hash):
            return Fault(self.seq, "head")
        return None
