"""The ledger: every complete request in order of arrival, with the objects it changed."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steward.fake_platforms.exchange import FakeRequest, FakeResponse, Row

READS = ("GET", "HEAD", "OPTIONS")
_MARK = "_steward_op"


@dataclass(slots=True)
class LedgerEntry:
    """A request; `applied` and `status` are set once it is complete."""

    seq: int
    arrived_at: datetime
    service: str
    kind: str
    request: FakeRequest
    body: Any
    objects: tuple[Row, ...] = ()
    applied: bool = False
    status: int | None = None
    fault: str | None = None

    def as_row(self) -> Row:
        """Returns the entry in the control surface's form."""
        query: Row = {}
        for name, value in self.request.query:
            earlier = query.get(name, [])
            values = [*(earlier if isinstance(earlier, list) else [earlier]), value]
            query[name] = values if name in query else value
        return {
            "seq": self.seq,
            "at": self.arrived_at.strftime("%Y-%m-%dT%H:%M:%S.")
            + f"{self.arrived_at.microsecond // 1000:03d}Z",
            "service": self.service,
            "kind": self.kind,
            "method": self.request.method,
            "path": self.request.path,
            "query": query,
            "body_sha256": hashlib.sha256(self.request.body).hexdigest(),
            "body": self.body,
            "idempotency_key": self.request.headers.get("idempotency-key"),
            "marks": list(dict.fromkeys(_marks(self.body, self.service))),
            "objects": list(self.objects),
            "applied": self.applied,
            "answered": self.status,
            "fault": self.fault,
        }


def _marks(body: Any, service: str) -> Iterator[str]:
    if service == "teams":
        attachments = body.get("attachments") if isinstance(body, dict) else None
        for attachment in attachments if isinstance(attachments, list) else []:
            card = attachment.get("content") if isinstance(attachment, dict) else None
            if isinstance(card, dict) and card.get("id") is not None:
                yield str(card["id"])
    else:
        yield from _marked(body)


def _marked(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _marked(item)
    elif isinstance(value, dict):
        if value.get("key") == _MARK and "value" in value:
            yield str(value["value"])
        if value.get("metadataKey") == _MARK and "metadataValue" in value:
            yield str(value["metadataValue"])
        for item in value.values():
            yield from _marked(item)


class Ledger:
    """Entries in order of arrival; reads and writes share one sequence."""

    def __init__(self) -> None:
        self._entries: list[LedgerEntry] = []
        self.writes_total = 0
        self.reads_total = 0

    @property
    def last_seq(self) -> int:
        """Returns the number of the newest entry; 0 when there is none."""
        return len(self._entries)

    def record_arrival(self, request: FakeRequest, service: str, *, arrived_at: datetime) -> LedgerEntry:
        """Records a complete request before it is served."""
        kind = "read" if request.method in READS else "write"
        body = request.json() if request.body else None
        entry = LedgerEntry(len(self._entries) + 1, arrived_at, service, kind, request, body)
        self._entries.append(entry)
        if kind == "write":
            self.writes_total += 1
        else:
            self.reads_total += 1
        return entry

    def complete(self, entry: LedgerEntry, response: FakeResponse | None, *, status: int | None) -> None:
        """Completes an entry with the service's response (null: it was not called) and the sent status."""
        if response is not None:
            entry.objects = tuple(touched.as_row() for touched in response.changed_objects)
            entry.applied = bool(response.changed_objects)
        entry.status = status

    def entries(
        self, after: int = 0, *, service: str | None = None, reads: bool = False
    ) -> Iterator[LedgerEntry]:
        """Yields entries with a number above `after`, oldest first."""
        for entry in self._entries[max(after, 0) :]:
            if (reads or entry.kind == "write") and service in (None, entry.service):
                yield entry

    def writes(self) -> list[Row]:
        """Returns every write in the control surface's form."""
        return [entry.as_row() for entry in self.entries()]
