"""A person's session in the web app, as authentication reads it."""

from dataclasses import dataclass
from datetime import datetime

from steward.model.account import Membership, Person
from steward.model.ids import OrgId


@dataclass(frozen=True, slots=True)
class Session:
    """A live session; `chosen` is the membership of the organisation it works in, when one is chosen."""

    session_hash: str
    person: Person
    org: OrgId | None
    chosen: Membership | None
    automations_on: bool
    zone: str
    created_at: datetime
    seen_at: datetime
