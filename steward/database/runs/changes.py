"""Changes of runs: proposed once and never rewritten, except for their outcome."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms, from_ms_or_none, to_column
from steward.database.engine.bulk import BulkInsert
from steward.model.change import (
    Action,
    Change,
    FieldChange,
    FieldKind,
    ObjectRef,
    Outcome,
    Part,
    Proposal,
)
from steward.model.ids import ChangeId, IntegrationId, OrgId, RunId
from steward.model.instants import wire_time
from steward.model.json import JsonObject, JsonValue

_COLUMNS = (
    "id, run_id, seq, name, iteration, position, round, integration_id, object_type, object_id, wire,"
    " before_json, after_json, parts, undo_of_change,"
    " item_hash, outcome, message, applied_at"
)


COLUMN_NAMES = tuple(name.strip() for name in _COLUMNS.split(","))


@dataclass(frozen=True, slots=True)
class PublicChange:
    """The API form of a change, with its position in the list."""

    id: ChangeId
    seq: int
    position: int
    wire: str


class ChangeOutcome(NamedTuple):
    """The outcome of one change, and the execution and approval round that proposed it."""

    name: str
    iteration: str
    round: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class SettledChange:
    """The outcome of one change, and its message."""

    change: ChangeId
    outcome: Outcome
    message: str | None


_INSERT = BulkInsert(
    "changes",
    {
        "org_id": "bigint",
        "run_id": "text",
        "id": "text",
        "seq": "bigint",
        "name": "text",
        "iteration": "text",
        "position": "bigint",
        "round": "bigint",
        "integration_id": "bigint",
        "object_type": "text",
        "object_id": "text",
        "wire": "text",
        "before_json": "text",
        "after_json": "text",
        "parts": "text",
        "item_hash": "text",
        "outcome": "text",
        "message": "text",
        "undoable": "boolean",
        "undo_of_change": "text",
    },
)


async def insert(tx: Tx, org: OrgId, wires: Iterable[tuple[Change, JsonObject]]) -> None:
    """Stores changes with their API form, without outcome, message and applied_at."""
    await _INSERT.insert(tx, (_inserted_row(org, change, wire, tx) for change, wire in wires))


def _inserted_row(org: OrgId, change: Change, wire: JsonObject, tx: Tx) -> tuple[object, ...]:
    """Returns the values of the columns of `_INSERT`."""
    proposal = change.proposal
    return (
        org,
        change.run_id,
        change.id,
        change.seq,
        change.name,
        change.iteration,
        change.position,
        change.round,
        proposal.integration_id,
        proposal.object.type,
        proposal.object.id,
        to_column(Json(wire), tx.dialect),
        to_column(Json({field.field: field.before for field in proposal.fields}), tx.dialect),
        to_column(Json({field.field: field.after for field in proposal.fields}), tx.dialect),
        to_column(Json([part.wire() for part in proposal.parts]), tx.dialect),
        change.item_hash,
        str(change.outcome),
        change.message,
        change.undoable,
        proposal.undo_of,
    )


async def of_run(
    tx: Tx, org: OrgId, run: RunId, *, outcomes: Collection[Outcome] = tuple(Outcome)
) -> list[Change]:
    """Returns the run's changes with one of `outcomes`, in order of step and position."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM changes"
        " WHERE org_id = :org AND run_id = :run AND outcome IN (:outcomes) ORDER BY seq, position",
        {"org": org, "run": run, "outcomes": list(outcomes)},
    )
    return [change_of_row(row) for row in rows]


async def of_execution(tx: Tx, org: OrgId, run: RunId, *, name: str, iteration: str) -> list[Change]:
    """Returns the changes that one execution of a step proposed, in order.

    The cost does not depend on the run's other changes.
    """
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM changes"
        " WHERE org_id = :org AND run_id = :run AND name = :name AND iteration = :iteration"
        " ORDER BY seq, position",
        {"org": org, "run": run, "name": name, "iteration": iteration},
    )
    return [change_of_row(row) for row in rows]


async def of_round(tx: Tx, org: OrgId, run: RunId, *, round_: int) -> list[Change]:
    """Returns every change of one approval round, in order."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM changes"
        " WHERE org_id = :org AND run_id = :run AND round = :round ORDER BY seq, position",
        {"org": org, "run": run, "round": round_},
    )
    return [change_of_row(row) for row in rows]


async def public_changes(
    tx: Tx,
    org: OrgId,
    run: RunId,
    *,
    seq: int | None = None,
    round_: int | None = None,
    outcomes: Collection[Outcome] = (),
    after: tuple[int, int] | None = None,
    undo_runs: Sequence[RunId] = (),
    limit: int,
) -> list[PublicChange]:
    """Returns the API form of the changes of a step, a round or the whole run, by seq and position.

    That is also the order of their ids. `undo_runs` are the run's undo runs, whose changes undid some of
    these.
    """
    where: list[str] = []
    more: dict[str, object] = {"limit": limit}
    if seq is not None:
        where.append("seq = :seq")
        more["seq"] = seq
    if round_ is not None:
        where.append("round = :round")
        more["round"] = round_
    if outcomes:
        where.append("outcome IN (:outcomes)")
        more["outcomes"] = list(outcomes)
    if after is not None:
        where.append("(seq, position) > (:after_seq, :after_position)")
        more |= {"after_seq": after[0], "after_position": after[1]}
    rows = await tx.all(
        "SELECT id, seq, position, wire, outcome, message, applied_at FROM changes"
        f" WHERE org_id = :org AND run_id = :run{''.join(f' AND {condition}' for condition in where)}"
        " ORDER BY seq, position LIMIT :limit",
        {"org": org, "run": run, **more},
    )
    undone = await _undone_by(tx, org, undo_runs, rows)
    return [
        PublicChange(ChangeId(row["id"]), row["seq"], row["position"], _public_json(row, undone))
        for row in rows
    ]


async def _undone_by(
    tx: Tx, org: OrgId, undo_runs: Sequence[RunId], originals: Sequence[Row]
) -> dict[str, str]:
    """Returns the newest change that undid each of these changes; changes never undone are absent."""
    if not undo_runs or not originals:
        return {}
    rows = await tx.all(
        "SELECT undo_of_change, max(id) AS id FROM changes"
        " WHERE org_id = :org AND run_id IN (:runs) AND outcome = 'applied'"
        " AND undo_of_change IN (:changes) GROUP BY undo_of_change",
        {"org": org, "runs": list(undo_runs), "changes": [row["id"] for row in originals]},
    )
    return {row["undo_of_change"]: row["id"] for row in rows}


async def first_of(
    tx: Tx, org: OrgId, run: RunId, *, names: Collection[str], undo_runs: Sequence[RunId] = (), limit: int
) -> dict[tuple[str, str], list[str]]:
    """Returns the first `limit` changes of each of these steps in API form, by step name and iteration."""
    rows = await tx.all(
        "SELECT id, name, iteration, wire, outcome, message, applied_at FROM changes"
        " WHERE org_id = :org AND run_id = :run AND name IN (:names) AND position < :most"
        " ORDER BY name, iteration, position",
        {"org": org, "run": run, "names": list(names), "most": limit},
    )
    undone = await _undone_by(tx, org, undo_runs, rows)
    changes_by_step: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        changes_by_step.setdefault((row["name"], row["iteration"]), []).append(_public_json(row, undone))
    return changes_by_step


async def decide(
    tx: Tx, org: OrgId, run: RunId, *, round_: int, to: Outcome, only: Sequence[ChangeId] | None = None
) -> int:
    """Sets the proposed changes of a round, or only those in `only`, to `to`. Returns their number."""
    named = " AND id IN (:ids)" if only is not None else ""
    args: dict[str, object] = {"org": org, "run": run, "round": round_, "to": to}
    if only is not None:
        args["ids"] = list(only)
    return await tx.execute(
        "UPDATE changes SET outcome = :to"
        f" WHERE org_id = :org AND run_id = :run AND round = :round AND outcome = 'proposed'{named}",
        args,
    )


_OPEN = (
    "EXISTS (SELECT 1 FROM write_ledger AS e WHERE e.org_id = changes.org_id AND e.change_id = changes.id"
    " AND e.state IN ('intent', 'unknown'))"
)
_BEGUN = (
    "EXISTS (SELECT 1 FROM write_ledger AS e WHERE e.org_id = changes.org_id AND e.change_id = changes.id"
    " AND e.state = 'done')"
)
STILL_OPEN = "It is unknown whether this took effect. Check it in the store before you repeat it."
_NO_WORDS = "''"


def _appended(words: str) -> str:
    """Returns SQL that adds `words` (an SQL text) once to a change's message.

    It removes the text that the outcome is unknown.
    """
    earlier_message = f"trim(replace(replace(coalesce(message, ''), :open, ''), {words}, ''))"
    return f"nullif(trim({earlier_message} || ' ' || {words}), '')"


async def partly_written(tx: Tx, org: OrgId, run: RunId) -> list[Change]:
    """Returns changes without a final outcome that have a written part and no part in doubt."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM changes WHERE org_id = :org AND run_id = :run"
        f" AND outcome IN ('approved', 'unknown') AND {_BEGUN} AND NOT {_OPEN} ORDER BY seq, position",
        {"org": org, "run": run},
    )
    return [change_of_row(row) for row in rows]


async def close_unapplied(tx: Tx, org: OrgId, run: RunId, *, outcome: Outcome) -> int:
    """Sets the unapplied changes of an ended run to `outcome`. Returns the number of rows.

    The ledger takes precedence: a change whose write is still open becomes unknown.
    """
    return await tx.execute(
        f"UPDATE changes SET outcome = CASE WHEN {_OPEN} THEN 'unknown' ELSE :outcome END,"
        f" message = CASE WHEN {_OPEN} THEN {_appended(':open')} ELSE {_appended(_NO_WORDS)} END"
        " WHERE org_id = :org AND run_id = :run AND (outcome IN ('proposed', 'approved')"
        f" OR (outcome = 'unknown' AND NOT {_OPEN}))",
        {"org": org, "run": run, "outcome": outcome, "open": STILL_OPEN},
    )


_SETTLE = (
    f"UPDATE changes SET outcome = r.value ->> 1, message = {_appended('(r.value ->> 2)')},"
    " applied_at = CASE WHEN r.value ->> 1 = 'applied' THEN coalesce(applied_at, CAST(:now AS bigint)) END"
    " FROM {rows} AS r"
    " WHERE changes.org_id = :org AND changes.run_id = :run AND changes.id = r.value ->> 0"
)
_SETTLE_ALL = PerEngine(
    # Without the list of ids, SQLite would scan all changes of the run.
    sqlite=_SETTLE.replace("{rows}", "json_each(:rows)")
    + " AND changes.id IN (SELECT k.value ->> 0 FROM json_each(:rows) AS k)",
    postgresql=_SETTLE.replace("{rows}", "jsonb_array_elements(CAST(:rows AS jsonb))"),
)


async def settle(tx: Tx, org: OrgId, run: RunId, outcomes: Sequence[SettledChange]) -> None:
    """Stores outcomes of changes.

    A message is appended to the step's own, and replaces the text that the outcome is unknown.
    """
    if outcomes:
        rows = [[settled.change, settled.outcome, settled.message or ""] for settled in outcomes]
        await tx.execute(_SETTLE_ALL, {"org": org, "run": run, "rows": Json(rows), "open": STILL_OPEN})


async def outcomes(tx: Tx, org: OrgId, run: RunId) -> list[ChangeOutcome]:
    """Returns the outcome of each change of a run, in the order of `of_run`."""
    rows = await tx.all(
        "SELECT name, iteration, round, outcome FROM changes WHERE org_id = :org AND run_id = :run"
        " ORDER BY seq, position",
        {"org": org, "run": run},
    )
    return [
        ChangeOutcome(row["name"], row["iteration"], row["round"], Outcome(row["outcome"])) for row in rows
    ]


async def count(tx: Tx, org: OrgId, run: RunId) -> int:
    """Counts the changes that the run has proposed in all its rounds."""
    row = await tx.first(
        "SELECT count(*) AS n FROM changes WHERE org_id = :org AND run_id = :run", {"org": org, "run": run}
    )
    return int(row["n"]) if row else 0


def _public_json(row: Row, undone: Mapping[str, str]) -> str:
    applied: datetime | None = from_ms_or_none(row["applied_at"])
    tail = {
        "outcome": row["outcome"],
        "message": row["message"],
        "applied_at": wire_time(applied) if applied else None,
        "undone_by": undone.get(row["id"]),
    }
    return str(row["wire"])[:-1] + "," + json.dumps(tail, ensure_ascii=False)[1:]


def change_of_row(row: Row) -> Change:
    """Returns the change in a row of `COLUMN_NAMES`."""
    wire = json.loads(row["wire"])
    return Change(
        id=ChangeId(row["id"]),
        run_id=RunId(row["run_id"]),
        seq=row["seq"],
        name=row["name"],
        iteration=row["iteration"],
        position=row["position"],
        round=row["round"],
        proposal=_proposal(row, wire),
        item_hash=row["item_hash"],
        outcome=Outcome(row["outcome"]),
        message=row["message"],
        applied_at=from_ms(row["applied_at"]) if row["applied_at"] is not None else None,
        undoable=bool(wire["reversible"]),
        undo_words=_words(wire["undo_words"]),
    )


def _proposal(row: Row, wire: dict[str, JsonValue]) -> Proposal:
    shown_object, fields = wire["object"], wire["fields"]
    before, after = json.loads(row["before_json"]), json.loads(row["after_json"])
    assert isinstance(shown_object, dict)
    assert isinstance(fields, list)
    integration = row["integration_id"]
    return Proposal(
        object=ObjectRef(
            row["object_type"], row["object_id"], shown_object["label"], shown_object.get("url")
        ),
        action=Action(str(wire["action"])),
        fields=tuple(
            FieldChange(
                field["field"],
                field["label"],
                before[field["field"]],
                after[field["field"]],
                FieldKind(field["kind"]),
                field.get("currency"),
            )
            for field in fields
        ),
        parts=tuple(Part.from_wire(part) for part in json.loads(row["parts"])),
        integration_id=IntegrationId(integration) if integration is not None else None,
        message=row["message"],
        undo_of=ChangeId(row["undo_of_change"]) if row["undo_of_change"] else None,
    )


def _words(value: JsonValue) -> str | None:
    return None if value is None else str(value)
