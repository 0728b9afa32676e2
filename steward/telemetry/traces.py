"""Traces: their spans, and the collector they are sent to, if one is set."""

import hashlib
import random
import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

TRACE_BYTES = 16
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_SPAN_BYTES = 8


class SpanKind(StrEnum):
    """The kind of the other side of a span: none, a caller, or an account."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


class SpanId(NamedTuple):
    """The id of a span and of its trace."""

    trace: int
    span: int


class Span(NamedTuple):
    """A span from one instant to another. Attributes hold only ids, numbers and words of the code."""

    name: str
    id: SpanId
    started_at: datetime
    ended_at: datetime
    attributes: Mapping[str, str | int]
    parent: SpanId | None = None
    link: SpanId | None = None
    kind: SpanKind = SpanKind.INTERNAL
    is_error: bool = False


class Traces:
    """Collects spans. This class drops them all; `is_on` False tells callers not to create any."""

    is_on = False

    def add(self, span: Span) -> None:
        """Queues a span for sending."""

    def is_sampled(self, trace: int) -> bool:
        """Returns whether a trace belongs to the share that is sent."""
        return self.is_on

    async def is_collector_reachable(self) -> bool:
        """Returns whether the collector accepts an empty request."""
        return False

    async def close(self) -> None:
        """Sends the remaining spans, for a few seconds at most."""


NO_TRACES = Traces()

# The run that the current task executes: its calls belong to the run's trace.
current_run: ContextVar[str | None] = ContextVar("current_run", default=None)
# The trace of the request that the current task serves.
current_trace: ContextVar[int | None] = ContextVar("current_trace", default=None)


@lru_cache(maxsize=1_024)  # each call and each log line of a run needs it
def run_span(run: str) -> SpanId:
    """Returns the id of a run's root span, derived from the run's id so that every process sends the same."""
    return SpanId(_number(TRACE_BYTES, "run", run), _number(_SPAN_BYTES, "run", run))


def span_within(run: str, *parts: object) -> SpanId:
    """Returns the id of a span in a run's trace; `parts` distinguish it from other spans."""
    return SpanId(run_span(run).trace, _number(_SPAN_BYTES, run, *parts))


def new_span(trace: int | None = None) -> SpanId:
    """Returns a random span id, in a new trace unless `trace` is set."""
    trace_id = random.getrandbits(8 * TRACE_BYTES) if trace is None else trace
    return SpanId(trace_id, random.getrandbits(8 * _SPAN_BYTES))


def link_of(traceparent: bytes) -> SpanId | None:
    """Returns the id of the span named by a caller's `traceparent` header; None without one."""
    match = _TRACEPARENT.fullmatch(traceparent)
    return None if match is None else SpanId(int(match[1], 16), int(match[2], 16))


def trace_id_text(trace: int) -> str:
    """Returns the id of a trace as collectors show it."""
    return f"{trace:0{2 * TRACE_BYTES}x}"


def _number(size: int, *parts: object) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:size])
