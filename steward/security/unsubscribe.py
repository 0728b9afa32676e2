"""The signed address in a digest that unsubscribes a person from digests."""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass

from steward.model.ids import OrgId, PersonId

_TOKEN = re.compile(r"([1-9][0-9]{0,15})\.([1-9][0-9]{0,15})\.([A-Za-z0-9_-]{43})")
_PURPOSE = b"steward unsubscribe digest 1\x00"


@dataclass(frozen=True, slots=True)
class Subscriber:
    """The person and organization that an unsubscribe address is for."""

    org: OrgId
    person: PersonId


def unsubscribe_token(key: bytes, org: OrgId, person: PersonId) -> str:
    """Returns the unsubscribe token of a person's digests in one organization."""
    return f"{org}.{person}.{_signature(key, org, person)}"


def subscriber_of(key: bytes, token: str) -> Subscriber | None:
    """Returns whom the token belongs to; None for a token with a wrong signature."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    org, person = OrgId(int(match[1])), PersonId(int(match[2]))
    if not hmac.compare_digest(match[3], _signature(key, org, person)):
        return None
    return Subscriber(org, person)


def _signature(key: bytes, org: OrgId, person: PersonId) -> str:
    digest = hmac.digest(key, _PURPOSE + f"{org}.{person}".encode("ascii"), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
