"""Sends spans to a collector by OTLP over HTTP; needs the extra `traces`."""

import asyncio
import io
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from requests.adapters import HTTPAdapter

from steward.telemetry.traces import TRACE_BYTES, Span, SpanId, Traces
from steward.version import __version__

MAX_WAITING = 2_048
BATCH = 512
_EVERY_SECONDS = 5.0
MAX_RESPONSE_BYTES = 64 * 1024
_TIMEOUT_SECONDS = 5.0
_LAST_SECONDS = 2.0
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
# An unreachable collector is counted and reported by `doctor`, not logged with every batch.
logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)


class _ShortResponses(HTTPAdapter):
    """An adapter that reads only the beginning of a response: a collector may send without end."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        """Sends a request; cuts off the body of its response at MAX_RESPONSE_BYTES."""
        response = super().send(request, **{**options, "stream": True})
        with response.raw as raw:
            response.raw = io.BytesIO(raw.read(MAX_RESPONSE_BYTES, decode_content=False))
        return response


def _session() -> requests.Session:
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _ShortResponses())
    return session


class OtlpTraces(Traces):
    """Queues spans for a thread that sends them; drops and counts spans when the queue is full."""

    is_on = True

    def __init__(
        self, url: str, *, headers: Mapping[str, str], ratio: float, on_drop: Callable[[int], None]
    ) -> None:
        self._sampled_below: float = ratio * 2 ** (8 * TRACE_BYTES)
        self._on_drop = on_drop
        self._exporter = OTLPSpanExporter(
            endpoint=url, headers=dict(headers), timeout=_TIMEOUT_SECONDS, session=_session()
        )
        self._resource = Resource(
            {"service.name": "steward", "service.version": __version__, "process.pid": os.getpid()}
        )
        self._waiting: deque[Span] = deque()
        self._is_closing = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._send_all, name="traces", daemon=True)
        self._thread.start()

    def add(self, span: Span) -> None:
        """Queues a span, or drops it when the collector does not keep up."""
        waiting = len(self._waiting)
        if waiting >= MAX_WAITING:
            self._on_drop(1)
            return
        self._waiting.append(span)
        if waiting + 1 >= BATCH:
            self._wake.set()

    def is_sampled(self, trace: int) -> bool:
        """Returns whether a trace belongs to the sampled share; every process decides alike."""
        return trace < self._sampled_below

    async def is_collector_reachable(self) -> bool:
        """Returns whether the collector accepts an empty request."""
        return await asyncio.to_thread(self._exporter.export, ()) is SpanExportResult.SUCCESS

    async def close(self) -> None:
        """Sends the remaining spans; gives up on a collector that does not answer soon."""
        self._is_closing.set()
        self._wake.set()
        await asyncio.to_thread(self._thread.join, _LAST_SECONDS)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        await asyncio.to_thread(self._thread.join, _LAST_SECONDS)

    def _send_all(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(_EVERY_SECONDS)
            self._wake.clear()
            is_last = self._is_closing.is_set()
            while size := min(len(self._waiting), BATCH):
                self._send([self._waiting.popleft() for _ in range(size)])

    def _send(self, batch: list[Span]) -> None:
        spans = [self._readable(span) for span in batch]
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            self._on_drop(len(spans))

    def _readable(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(span.id),
            parent=None if span.parent is None else _context(span.parent),
            resource=self._resource,
            attributes=dict(span.attributes),
            links=() if span.link is None else (Link(_context(span.link, is_remote=True)),),
            kind=SpanKind[span.kind.name],
            status=Status(StatusCode.ERROR if span.is_error else StatusCode.UNSET),
            start_time=_nanoseconds(span.started_at),
            end_time=_nanoseconds(span.ended_at),
        )


def _context(span: SpanId, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(span.trace, span.span, is_remote, _SAMPLED)


def _nanoseconds(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000_000) * 1_000
