"""Public ids (ULIDs) and the typed ids of the service."""

import os
import re
import secrets
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType

OrgId = NewType("OrgId", int)
PersonId = NewType("PersonId", int)
IntegrationId = NewType("IntegrationId", int)
WorkerId = NewType("WorkerId", int)
AutomationId = NewType("AutomationId", str)
RunId = NewType("RunId", str)
ChangeId = NewType("ChangeId", str)
ApprovalId = NewType("ApprovalId", str)
NoticeId = NewType("NoticeId", str)
MessageId = NewType("MessageId", str)
RouteId = NewType("RouteId", str)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_SHIFTS = tuple(range(120, -1, -10))
ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def new_id(now: datetime) -> str:
    """Returns a new public id (ULID): 48 bits of `now` in milliseconds, then 80 random bits."""
    v, p = int.from_bytes(os.urandom(10), "big"), _PAIRS
    return (  # without a loop, because every request gets an id
        f"{_head((now - _EPOCH) // _MILLISECOND)}{p[v >> 70]}{p[v >> 60 & 1023]}{p[v >> 50 & 1023]}"
        f"{p[v >> 40 & 1023]}{p[v >> 30 & 1023]}{p[v >> 20 & 1023]}{p[v >> 10 & 1023]}{p[v & 1023]}"
    )


@lru_cache(maxsize=64)
def _head(milliseconds: int) -> str:
    """Returns the ten characters of an id that encode its time."""
    return "".join([_PAIRS[(milliseconds >> shift) & 1023] for shift in range(40, -1, -10)])


class RisingIds:
    """Generates ids that increase with every call, even within a millisecond; one instance per process."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: datetime) -> str:
        """Returns a new public id, greater than the one before."""
        value = ((now - _EPOCH) // _MILLISECOND << 80) | secrets.randbits(79)
        if value <= self._last or value >> 80 == self._last >> 80:
            value = self._last + 1 + secrets.randbits(40)
        self._last = value
        return "".join([_PAIRS[(value >> shift) & 1023] for shift in _SHIFTS])


def first_id(instant: datetime) -> str:
    """Returns the smallest id that can be created at `instant`: every smaller id is older."""
    value = (instant - _EPOCH) // _MILLISECOND << 80
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in _SHIFTS])


def is_id(text: str) -> bool:
    """Returns whether `text` has the form of a public id."""
    return ID.fullmatch(text) is not None
