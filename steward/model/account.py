"""Organizations, people, credentials and the actor of a call."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.model.ids import OrgId, PersonId


class Scope(StrEnum):
    """The permissions of an API credential."""

    READ = "automations:read"
    WRITE = "automations:write"
    APPROVE = "automations:approve"


class Role(StrEnum):
    """A person's role in one organization."""

    MEMBER = "member"
    APPROVER = "approver"
    OWNER = "owner"


class CreatedVia(StrEnum):
    """How a record was created."""

    UI = "ui"
    API_TOKEN = "api-token"


TOKEN_SCOPES = frozenset({Scope.READ, Scope.WRITE})
ROLE_SCOPES = {
    Role.MEMBER: frozenset({Scope.READ, Scope.WRITE}),
    Role.APPROVER: frozenset(Scope),
    Role.OWNER: frozenset(Scope),
}


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization (tenant): the owner of rows."""

    id: OrgId
    name: str
    zone: str
    automations_on: bool
    send_without_approval: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Person:
    """A human's account."""

    id: PersonId
    email: str
    username: str
    first_name: str
    last_name: str
    active: bool


@dataclass(frozen=True, slots=True)
class Membership:
    """A person's place in an organization."""

    org: OrgId
    organization_name: str
    role: Role
    active: bool


class MemberState(StrEnum):
    """The state of a person's membership in an organization."""

    INVITED = "invited"
    ACTIVE = "active"
    DEACTIVATED = "deactivated"


@dataclass(frozen=True, slots=True)
class Member:
    """A person in one organization, as its people see them; if invited, with only the invitation's data."""

    id: PersonId
    email: str
    username: str
    first_name: str
    last_name: str
    role: Role
    state: MemberState
    has_joined: bool
    added_at: datetime
    last_seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class Credential:
    """An API credential of an organization, without its secret."""

    client_id: str
    org: OrgId
    label: str
    enabled: bool
    epoch: int
    created_at: datetime
    rotated_at: datetime | None
    last_login_at: datetime | None


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller: a person in one organization, by a token or in the web app."""

    org: OrgId
    person: PersonId
    scopes: frozenset[Scope]
    via: CreatedVia
    client_id: str | None = None
    role: Role | None = None
    session_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Creator:
    """The creator of a record; all three are null when the service itself created it."""

    created_by: PersonId | None
    created_via: CreatedVia | None
    api_client_id: str | None


BY_SERVICE = Creator(None, None, None)


def maker(actor: Actor) -> Creator:
    """Returns `actor` as the creator of a record."""
    return Creator(actor.person, actor.via, actor.client_id)


@dataclass(frozen=True, slots=True)
class Session:
    """A live session; `chosen` is the person's membership of the chosen organization, if any."""

    session_hash: str
    person: Person
    org: OrgId | None
    chosen: Membership | None
    automations_on: bool
    zone: str
    created_at: datetime
    seen_at: datetime
