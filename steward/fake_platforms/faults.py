"""Faults on request: which request is hit, and by what; carrying them out is left to world.py."""

import re
from dataclasses import dataclass
from typing import Any

from steward.fake_platforms.exchange import Row

KINDS = ("status", "status_after", "delay", "drop_before", "drop_after", "throttle")
_FIELDS = {"method", "path", "kind", "status", "body", "delay_ms", "retry_after", "skip", "count"}
_METHODS = ("*", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class BadFault(ValueError):
    """A fault that cannot be made; the text says why."""


@dataclass(slots=True)
class Fault:
    """One fault of contract 9.2; `seen` counts the matching requests, let through or hit."""

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
        """The form the control surface shows."""
        names = ("id", "method", "path", "kind", "status", "body", "delay_ms", "retry_after")
        row = {name: getattr(self, name) for name in names}
        return {**row, "skip": self.skip, "count": self.count, "hits": self.hits}

    @property
    def is_spent(self) -> bool:
        """Whether it has hit as often as it may."""
        return self.count != -1 and self.hits >= self.count


def glob(path: str) -> re.Pattern[str]:
    """A glob as a pattern for whole paths: `*` within a segment, `**` across (contract 9.2)."""
    parts = re.split(r"(\*\*|\*)", path)
    wild = {"**": ".*", "*": "[^/]*"}
    return re.compile("".join(wild.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _whole(ask: Row, name: str, *, default: int, least: int, most: int) -> int:
    value = ask.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadFault(f"{name} must be a whole number from {least} to {most}")
    return value


class Faults:
    """The faults in force, earliest made first."""

    def __init__(self) -> None:
        self._all: dict[str, Fault] = {}
        self._made = 0

    def make(self, ask: Any) -> Fault:
        """Adds a fault; raises BadFault in words."""
        if not isinstance(ask, dict):
            raise BadFault("a fault is a JSON object")
        unknown = sorted(set(ask) - _FIELDS)
        if unknown:
            raise BadFault(f"a fault has no field {unknown[0]!r}")
        method, path, kind = ask.get("method", "*"), ask.get("path", "**"), ask.get("kind")
        if method not in _METHODS:
            raise BadFault("method must be an HTTP method in capitals or *")
        if not isinstance(path, str) or not path:
            raise BadFault("path must be a glob")
        if kind not in KINDS:
            raise BadFault("kind must be one of " + ", ".join(KINDS))
        status = _whole(ask, "status", default=0, least=100, most=599) or None
        if kind in ("status", "status_after") and status is None:
            raise BadFault(f"a fault of kind {kind} needs a status")
        self._made += 1
        fault = Fault(
            id=f"f{self._made}",
            method=method,
            path=path,
            kind=kind,
            status=status,
            body=ask.get("body"),
            delay_ms=_whole(ask, "delay_ms", default=0, least=0, most=600_000),
            retry_after=_whole(ask, "retry_after", default=1, least=0, most=86_400),
            skip=_whole(ask, "skip", default=0, least=0, most=1_000_000),
            count=_whole(ask, "count", default=1, least=-1, most=1_000_000),
            pattern=glob(path),
        )
        self._all[fault.id] = fault
        return fault

    def all(self) -> list[Fault]:
        """Every fault, spent ones too, in order of making."""
        return list(self._all.values())

    def remove(self, fault_id: str) -> bool:
        """Takes one fault away; False when there is none of that id."""
        return self._all.pop(fault_id, None) is not None

    def clear(self) -> None:
        """Takes all faults away."""
        self._all.clear()

    def strike(self, method: str, path: str) -> Fault | None:
        """The fault that hits this request, counted as hit; at most one (contract 9.2)."""
        for fault in self._all.values():
            if fault.is_spent or fault.method not in ("*", method) or not fault.pattern.fullmatch(path):
                continue
            fault.seen += 1
            if fault.seen > fault.skip:
                fault.hits += 1
                return fault
        return None
