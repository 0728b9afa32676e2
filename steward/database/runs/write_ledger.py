"""The write ledger: intents before sending, outcomes after it (docs/design/writes.md#two-tables)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.database.due_rows import NOT_DEFERRED
from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms
from steward.model.change import Recovery
from steward.model.ids import ChangeId, IntegrationId, OrgId, RunId


class LedgerState(StrEnum):
    """The state of a write; `not_sent`: nothing was sent, and a new attempt may follow."""

    INTENT = "intent"
    DONE = "done"
    REFUSED = "refused"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"
    NOT_SENT = "not_sent"


OPEN = (LedgerState.INTENT, LedgerState.UNKNOWN)
_COLUMNS = (
    "write_key, run_id, change_id, part, batch_key, integration_id, idempotency_class, state, attempt,"
    " request_sha256, intent_at, reconcile_after, message"
)


@dataclass(frozen=True, slots=True)
class WriteEntry:
    """The recorded write of one part."""

    key: str
    run: RunId
    change: ChangeId
    part: int
    batch_key: str | None
    integration: IntegrationId | None
    recovery: Recovery
    state: LedgerState
    attempt: int
    request_sha256: str
    intent_at: datetime
    settle_after: datetime
    message: str | None


@dataclass(frozen=True, slots=True)
class Intent:
    """A write of one part that is about to be sent."""

    key: str
    change: ChangeId
    part: int
    batch_key: str
    integration: IntegrationId | None
    recovery: Recovery
    request_sha256: str
    deadline_ms: int
    quiet_ms: int


@dataclass(frozen=True, slots=True)
class EntryOutcome:
    """The outcome of one write, and its message."""

    key: str
    state: LedgerState
    message: str | None


_INTENT_HEAD = (
    "INSERT INTO write_ledger (org_id, write_key, run_id, change_id, part, batch_key, integration_id,"
    " idempotency_class,"
    " state, epoch, attempt, request_sha256, intent_at, call_deadline_at, reconcile_after)"
)
_INTENT_TAIL = (
    " ON CONFLICT (org_id, write_key) DO UPDATE"
    " SET state = 'intent', epoch = excluded.epoch, attempt = write_ledger.attempt + 1,"
    " batch_key = excluded.batch_key, intent_at = excluded.intent_at,"
    " call_deadline_at = excluded.call_deadline_at, reconcile_after = excluded.reconcile_after"
    " WHERE write_ledger.state = 'not_sent' AND write_ledger.attempt < 5"
    " AND write_ledger.request_sha256 = excluded.request_sha256"
    " RETURNING write_key"
)
_INTEND = PerEngine(
    sqlite=_INTENT_HEAD + " SELECT :org, r.value ->> 0, :run, r.value ->> 1, r.value ->> 2, r.value ->> 3,"
    " r.value ->> 4, r.value ->> 5, 'intent', :epoch, 1, r.value ->> 6, {now}, {now} + (r.value ->> 7),"
    " {now} + (r.value ->> 7) + (r.value ->> 8) FROM json_each(:rows) AS r WHERE true" + _INTENT_TAIL,
    postgresql=_INTENT_HEAD + " SELECT :org, r.value ->> 0, :run, r.value ->> 1, (r.value ->> 2)::bigint,"
    " r.value ->> 3, (r.value ->> 4)::bigint, r.value ->> 5, 'intent', :epoch, 1, r.value ->> 6, {now},"
    " {now} + (r.value ->> 7)::bigint, {now} + (r.value ->> 7)::bigint + (r.value ->> 8)::bigint"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r" + _INTENT_TAIL,
)
_SETTLE = (
    "UPDATE write_ledger SET state = r.value ->> 1, message = r.value ->> 2,"
    " resolved_at = CASE WHEN r.value ->> 1 = 'unknown' THEN resolved_at ELSE CAST(:now AS bigint) END,"
    " resolved_by = CASE WHEN r.value ->> 1 = 'unknown' THEN resolved_by ELSE CAST(:by AS text) END"
    " FROM {rows} AS r"
    " WHERE org_id = :org AND write_key = r.value ->> 0 AND state IN ('intent', 'unknown')"
)
_SETTLE_ALL = PerEngine(
    # Without the list of keys, SQLite would scan all writes of the organization.
    sqlite=_SETTLE.replace("{rows}", "json_each(:rows)")
    + " AND write_key IN (SELECT k.value ->> 0 FROM json_each(:rows) AS k)",
    postgresql=_SETTLE.replace("{rows}", "jsonb_array_elements(CAST(:rows AS jsonb))"),
)


async def record_intents(
    tx: Tx, org: OrgId, run: RunId, *, epoch: int, intents: Sequence[Intent]
) -> set[str]:
    """Stores intents, or the next attempt of writes that were not sent; returns the keys of those stored.

    A key is not stored if its write is open or settled, has had five attempts, or was for a different
    request; the caller has to handle it.
    """
    rows = [
        [
            intent.key,
            intent.change,
            intent.part,
            intent.batch_key,
            intent.integration,
            intent.recovery,
            intent.request_sha256,
            intent.deadline_ms,
            intent.quiet_ms,
        ]
        for intent in intents
    ]
    stored = await tx.all(_INTEND, {"org": org, "run": run, "epoch": epoch, "rows": Json(rows)})
    return {row["write_key"] for row in stored}


async def settle(tx: Tx, org: OrgId, outcomes: Sequence[EntryOutcome], *, by: str) -> int:
    """Stores the outcomes of open writes. Returns how many were still open."""
    rows = [[outcome.key, outcome.state, outcome.message] for outcome in outcomes]
    return await tx.execute(_SETTLE_ALL, {"org": org, "by": by, "rows": Json(rows)})


@dataclass(frozen=True, slots=True)
class SealedResponse:
    """The encrypted response of one write, and the number of the data key that opens it."""

    key: str
    change: ChangeId
    part: int
    key_no: int
    sealed: bytes


async def store_response(tx: Tx, org: OrgId, key: str, *, key_no: int, sealed: bytes) -> None:
    """Stores the encrypted response of a write, in the transaction that settles it."""
    await tx.execute(
        "UPDATE write_ledger SET answer = :sealed, answer_key_no = :key_no"
        " WHERE org_id = :org AND write_key = :key",
        {"org": org, "key": key, "key_no": key_no, "sealed": sealed},
    )


async def responses_of(tx: Tx, org: OrgId, run: RunId, changes: Sequence[ChangeId]) -> list[SealedResponse]:
    """Returns the responses to the writes of these changes, in the order of their parts."""
    if not changes:
        return []
    rows = await tx.all(
        "SELECT write_key, change_id, part, answer_key_no, answer FROM write_ledger"
        " WHERE org_id = :org AND run_id = :run AND answer IS NOT NULL AND change_id IN (:changes)"
        " ORDER BY change_id, part",
        {"org": org, "run": run, "changes": list(changes)},
    )
    return [
        SealedResponse(
            row["write_key"],
            ChangeId(row["change_id"]),
            row["part"],
            row["answer_key_no"],
            bytes(row["answer"]),
        )
        for row in rows
    ]


async def postpone(tx: Tx, org: OrgId, key: str, *, until: datetime) -> None:
    """Postpones the next look-up of an open write."""
    await tx.execute(
        "UPDATE write_ledger SET reconcile_after = :until"
        " WHERE org_id = :org AND write_key = :key AND state IN ('intent', 'unknown')",
        {"org": org, "key": key, "until": until},
    )


async def of_run(tx: Tx, org: OrgId, run: RunId) -> list[WriteEntry]:
    """Returns every write of a run."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM write_ledger WHERE org_id = :org AND run_id = :run ORDER BY change_id, part",
        {"org": org, "run": run},
    )
    return [_write_entry(row) for row in rows]


async def of_change(tx: Tx, org: OrgId, change: ChangeId) -> list[WriteEntry]:
    """Returns the writes of a change, one for each part whose write was begun."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM write_ledger WHERE org_id = :org AND change_id = :change ORDER BY part",
        {"org": org, "change": change},
    )
    return [_write_entry(row) for row in rows]


async def in_flight(tx: Tx, org: OrgId, *, integration: IntegrationId | None) -> int:
    """Counts writes without an outcome yet, to one connection or to all."""
    narrowed = "" if integration is None else " AND integration_id = :integration"
    row = await tx.first(
        f"SELECT count(*) AS writes FROM write_ledger WHERE org_id = :org AND state = 'intent'{narrowed}",
        {"org": org, "integration": integration},
    )
    return 0 if row is None else int(row["writes"])


async def to_settle(tx: Tx, limit: int = 100) -> list[tuple[OrgId, RunId]]:
    """Returns finished runs with open writes that are due for a look-up, without deferred ones."""
    rows = await tx.all(
        PerEngine(
            "SELECT DISTINCT org_id, run_id FROM write_ledger AS e"
            " WHERE state IN ('intent', 'unknown') AND reconcile_after <= {now} AND EXISTS"
            " (SELECT 1 FROM runs AS r WHERE r.org_id = e.org_id AND r.id = e.run_id AND r.queue = 'done')"
            f"{NOT_DEFERRED.format(task='settle', key='e.run_id')} LIMIT :most",
            "SELECT DISTINCT org_id, run_id FROM queue_to_reconcile(:most)",
        ),
        {"most": limit},
    )
    return [(OrgId(row["org_id"]), RunId(row["run_id"])) for row in rows]


def _write_entry(row: Row) -> WriteEntry:
    integration = row["integration_id"]
    return WriteEntry(
        key=row["write_key"],
        run=RunId(row["run_id"]),
        change=ChangeId(row["change_id"]),
        part=row["part"],
        batch_key=row["batch_key"],
        integration=IntegrationId(integration) if integration is not None else None,
        recovery=Recovery(row["idempotency_class"]),
        state=LedgerState(row["state"]),
        attempt=row["attempt"],
        request_sha256=row["request_sha256"],
        intent_at=from_ms(row["intent_at"]),
        settle_after=from_ms(row["reconcile_after"]),
        message=row["message"],
    )
