"""Injected faults: which request they hit; application.py carries them out."""

import re
from dataclasses import dataclass
from typing import Any

from steward.fake_platforms.exchange import Row

_KINDS = ("status", "status_after", "delay", "drop_before", "drop_after", "throttle")
_FIELDS = {"method", "path", "kind", "status", "body", "delay_ms", "retry_after", "skip", "count"}
_METHODS = ("*", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class BadFault(ValueError):
    """Raised for a fault that cannot be created; the text says why."""


@dataclass(slots=True)
class InjectedFault:
    """A fault; `seen` counts matching requests, whether hit or not."""

    id: str
    method: str
    path: str
    kind: str
    status: int | None
    body: Any
    delay_ms: int
    retry_after: int
    skip: int
    count: int
    pattern: re.Pattern[str]
    hits: int = 0
    seen: int = 0

    def as_row(self) -> Row:
        """Returns the form the control surface shows."""
        names = ("id", "method", "path", "kind", "status", "body", "delay_ms", "retry_after")
        row = {name: getattr(self, name) for name in names}
        return {**row, "skip": self.skip, "count": self.count, "hits": self.hits}

    @property
    def is_spent(self) -> bool:
        """Returns whether it has hit as often as it may."""
        return self.count != -1 and self.hits >= self.count


def glob(path: str) -> re.Pattern[str]:
    """Returns a glob as a pattern for whole paths: `*` within a segment, `**` across segments."""
    parts = re.split(r"(\*\*|\*)", path)
    wild = {"**": ".*", "*": "[^/]*"}
    return re.compile("".join(wild.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _whole(body: Row, name: str, *, default: int, minimum: int, maximum: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise BadFault(f"{name} must be a whole number from {minimum} to {maximum}")
    return value


class FaultList:
    """The active faults, oldest first."""

    def __init__(self) -> None:
        self._all: dict[str, InjectedFault] = {}
        self._count = 0

    def make(self, body: Any) -> InjectedFault:
        """Adds a fault. Raises BadFault."""
        if not isinstance(body, dict):
            raise BadFault("a fault is a JSON object")
        unknown = sorted(set(body) - _FIELDS)
        if unknown:
            raise BadFault(f"a fault has no field {unknown[0]!r}")
        method, path, kind = body.get("method", "*"), body.get("path", "**"), body.get("kind")
        if method not in _METHODS:
            raise BadFault("method must be an HTTP method in capitals or *")
        if not isinstance(path, str) or not path:
            raise BadFault("path must be a glob")
        if kind not in _KINDS:
            raise BadFault("kind must be one of " + ", ".join(_KINDS))
        status = _whole(body, "status", default=0, minimum=100, maximum=599) or None
        if kind in ("status", "status_after") and status is None:
            raise BadFault(f"a fault of kind {kind} needs a status")
        self._count += 1
        fault = InjectedFault(
            id=f"f{self._count}",
            method=method,
            path=path,
            kind=kind,
            status=status,
            body=body.get("body"),
            delay_ms=_whole(body, "delay_ms", default=0, minimum=0, maximum=600_000),
            retry_after=_whole(body, "retry_after", default=1, minimum=0, maximum=86_400),
            skip=_whole(body, "skip", default=0, minimum=0, maximum=1_000_000),
            count=_whole(body, "count", default=1, minimum=-1, maximum=1_000_000),
            pattern=glob(path),
        )
        self._all[fault.id] = fault
        return fault

    def all(self) -> list[InjectedFault]:
        """Returns all faults in order of creation, including spent ones."""
        return list(self._all.values())

    def remove(self, fault_id: str) -> bool:
        """Removes one fault; returns False when there is none with this id."""
        return self._all.pop(fault_id, None) is not None

    def clear(self) -> None:
        """Removes all faults."""
        self._all.clear()

    def match_request(self, method: str, path: str) -> InjectedFault | None:
        """Returns the fault, if any, that hits this request, and counts the hit."""
        for fault in self._all.values():
            if fault.is_spent or fault.method not in ("*", method) or not fault.pattern.fullmatch(path):
                continue
            fault.seen += 1
            if fault.seen > fault.skip:
                fault.hits += 1
                return fault
        return None
