"""The ledger: every request that arrived whole, in order of arrival, with what it changed."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steward.fake_platforms.exchange import Answer, Asked, Row

READS = ("GET", "HEAD", "OPTIONS")
MARK = "_steward_op"


@dataclass(slots=True)
class Entry:
    """One request of contract 9.2; `applied` and `answered` are filled when it is over."""

    seq: int
    at: datetime
    service: str
    kind: str
    asked: Asked
    body: Any
    objects: tuple[Row, ...] = ()
    applied: bool = False
    answered: int | None = None
    fault: str | None = None

    def as_row(self) -> Row:
        """The form the control surface shows."""
        query: Row = {}
        for name, value in self.asked.query:
            held = query.get(name)
            query[name] = value if held is None else [*(held if isinstance(held, list) else [held]), value]
        return {
            "seq": self.seq,
            "at": self.at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.at.microsecond // 1000:03d}Z",
            "service": self.service,
            "kind": self.kind,
            "method": self.asked.method,
            "path": self.asked.path,
            "query": query,
            "body_sha256": hashlib.sha256(self.asked.body).hexdigest(),
            "body": self.body,
            "idempotency_key": self.asked.headers.get("idempotency-key"),
            "marks": list(dict.fromkeys(_marks(self.body, self.service))),
            "objects": list(self.objects),
            "applied": self.applied,
            "answered": self.answered,
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
        if value.get("key") == MARK and "value" in value:
            yield str(value["value"])
        if value.get("metadataKey") == MARK and "metadataValue" in value:
            yield str(value["metadataValue"])
        for item in value.values():
            yield from _marked(item)


class Ledger:
    """Entries in order of arrival; reads and writes share one sequence."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self.writes_total = 0
        self.reads_total = 0

    @property
    def last_seq(self) -> int:
        """The number of the newest entry, 0 when there is none."""
        return len(self._entries)

    def arrive(self, asked: Asked, service: str, *, at: datetime) -> Entry:
        """Notes a request that has arrived whole, before anything is done about it."""
        kind = "read" if asked.method in READS else "write"
        body = asked.json() if asked.body else None
        entry = Entry(len(self._entries) + 1, at, service, kind, asked, body)
        self._entries.append(entry)
        if kind == "write":
            self.writes_total += 1
        else:
            self.reads_total += 1
        return entry

    def finish(self, entry: Entry, answer: Answer | None, *, answered: int | None) -> None:
        """Completes an entry: what the service did (None: nothing was asked of it) and what was sent back."""
        if answer is not None:
            entry.objects = tuple(touched.as_row() for touched in answer.touched)
            entry.applied = bool(answer.touched)
        entry.answered = answered

    def entries(self, after: int = 0, *, service: str | None = None, reads: bool = False) -> Iterator[Entry]:
        """Entries with a number above `after`, oldest first."""
        for entry in self._entries[max(after, 0) :]:
            if (reads or entry.kind == "write") and service in (None, entry.service):
                yield entry

    def writes(self) -> list[Row]:
        """Every write as the control surface shows it: for tests in process."""
        return [entry.as_row() for entry in self.entries()]
