"""Presents and exports the audit log, with names in place of ids and a sentence for each entry."""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from steward.database.accounts import audit, audit_heads, audit_labels
from steward.database.engine.base import Tx, from_ms
from steward.model.account import Actor
from steward.model.audit import ACTIONS, START, ChainedEntry
from steward.model.ids import OrgId
from steward.model.instants import wire_time
from steward.model.json import JsonObject

ExportFormat = Literal["ndjson", "csv"]
ROWS = 1000
_COLUMNS = ("seq", "at", "actor", "action", "words", "object_kind", "object_id", "object", "detail", "hash")
# The fields of an entry in a line of NDJSON, as they are stored; beside them `org`, `detail` and `previous`.
_HASHED = ("seq", "id", "at", "actor_kind", "actor", "action", "object_kind", "object_id", "hash")
_ACTORS = {"operator": "The operator", "service": "Steward"}
_FORMER = {"person": "a former member", "credential": "a removed credential"}
_FIELD = re.compile(r"\{(\w+)\}")
# A cell that a spreadsheet would evaluate as a formula (docs/design/security.md).
_FORMULA = re.compile(r"[\t\r]|\s*[=+\-@\uff0b\uff0d\uff1d\uff20]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class NamedEntry:
    """An entry with the current names of its actor and its object."""

    entry: ChainedEntry
    actor_name: str
    object_label: str | None
    detail: JsonObject

    @property
    def words(self) -> str:
        """The entry as a sentence without its full stop."""
        fields = {**self.detail, "object": self.object_label or self.entry.object_id or ""}
        action = ACTIONS.get(self.entry.action)
        phrase = self.entry.action if action is None else action.words
        return f"{self.actor_name} {_FIELD.sub(lambda name: str(fields.get(name[1], '')), phrase)}".strip()


async def with_names(tx: Tx, org: OrgId, entries: Sequence[ChainedEntry]) -> list[NamedEntry]:
    """Returns the entries with the names they need, looked up by one query per kind of object."""
    ids: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        for kind, key in ((entry.actor_kind, entry.actor), (entry.object_kind, entry.object_id)):
            if kind is not None and key is not None:
                ids[kind].add(key)
    names = {kind: await audit_labels.labels(tx, org, kind, keys) for kind, keys in ids.items()}

    def name_of(kind: str | None, key: str | None) -> str | None:
        if kind is None or key is None:
            return None
        return names[kind].get(key) or _FORMER.get(kind)

    def actor_of(entry: ChainedEntry) -> str:
        name = _ACTORS.get(entry.actor_kind) or name_of(entry.actor_kind, entry.actor) or "Somebody"
        return name[:1].upper() + name[1:]

    return [
        NamedEntry(
            entry, actor_of(entry), name_of(entry.object_kind, entry.object_id), json.loads(entry.detail)
        )
        for entry in entries
    ]


@dataclass(slots=True)
class Export:
    """An export of the entries `first` to `last` in batches; `seq` is the last entry exported."""

    org: OrgId
    form: ExportFormat
    first: int
    last: int
    seq: int = 0
    previous: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether every entry was exported."""
        return max(self.seq, self.first - 1) >= self.last

    async def batch(self, tx: Tx) -> list[str]:
        """Returns the lines of the next entries."""
        self.seq = max(self.seq, self.first - 1)
        if self.previous is None:
            self.previous = await audit.hash_of(tx, self.org, self.seq) or START
        entries = await audit.after(tx, self.org, self.seq, limit=ROWS)
        lines = []
        for line in await with_names(tx, self.org, [entry for entry in entries if entry.seq <= self.last]):
            lines.append(_csv_line(_cells(line)) if self.form == "csv" else _ndjson_line(line, self.previous))
            self.previous = line.entry.hash
        # A missing entry ends the export; checking the file reports it.
        self.seq = min(self.last, entries[-1].seq) if entries else self.last
        return lines

    def opening(self) -> str:
        """Returns the header line of a CSV file; empty for NDJSON."""
        return _csv_line(_COLUMNS) if self.form == "csv" else ""

    async def closing(self, tx: Tx) -> str:
        """Returns the last line of an NDJSON file, the chain's head; empty for CSV."""
        head = await audit_heads.get(tx, self.org)
        if self.form == "csv" or head is None:
            return ""
        facts = {"org": self.org, "seq": head.seq, "hash": head.hash, "at": wire_time(head.at)}
        return json.dumps({"head": {**facts, "first": self.first, "last": self.last}}) + "\n"


async def record_export(tx: Tx, org: OrgId, actor: Actor | None) -> int:
    """Records that a person or the operator exports the log; returns the number of that entry."""
    if actor is None:
        entry = audit.AuditEntry("operator", "audit_exported", object_kind="organization", object_id=str(org))
        await audit.record(tx, org, entry)
    else:
        await audit.by_person(tx, actor, "audit_exported", object_kind="organization", object_id=str(org))
    head = await audit_heads.lock(tx, org)
    return head.seq


async def is_anchored(tx: Tx, org: OrgId, *, seq: int, entry_hash: str) -> bool:
    """Returns whether the entry `seq` has this hash."""
    return await audit.hash_of(tx, org, seq) == entry_hash


async def range_of(
    tx: Tx, org: OrgId, *, since: datetime | None, until: datetime | None, after: int, limit: int
) -> tuple[int, int, int | None]:
    """Returns the first and last entry of one file, and the `after` of the next file, if any."""
    first, last = await audit.bounds(tx, org, since=since, until=until)
    first = max(first, after + 1)
    if last - first + 1 > limit:
        return first, first + limit - 1, first + limit - 1
    return first, last, None


def entry_of_line(line: str) -> tuple[ChainedEntry, str]:
    """Parses a line of an NDJSON export into the entry and the hash of the entry before it.

    Raises ValueError for a line that is not an entry.
    """
    try:
        fields = json.loads(line)
        entry = ChainedEntry(
            org=OrgId(fields["org"]),
            detail=fields["detail"],
            **{name: fields[name] for name in _HASHED},
        )
        return entry, str(fields["previous"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"a line is not an entry of an export: {error}") from error


def _ndjson_line(line: NamedEntry, previous: str) -> str:
    entry = line.entry
    fields = {
        "org": entry.org,
        **{name: getattr(entry, name) for name in _HASHED},
        # As text: its bytes are hashed.
        "detail": entry.detail,
        "previous": previous,
        "words": line.words,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"


def _cells(line: NamedEntry) -> tuple[str, ...]:
    entry = line.entry
    values = (
        *(str(entry.seq), wire_time(from_ms(entry.at)), line.actor_name, entry.action, line.words),
        *(entry.object_kind or "", entry.object_id or "", line.object_label or "", entry.detail, entry.hash),
    )
    return tuple(values)


def _csv_line(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_without_formula(cell) for cell in cells])
    return out.getvalue()


def _without_formula(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell
