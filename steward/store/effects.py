"""The ledger of writes: an intent before a byte leaves, its outcome after (engine 11)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.model.change import Recovery
from steward.model.ids import ChangeId, IntegrationId, OrgId, RunId
from steward.store.engine import Both, Row, Tx, at
from steward.store.ticks import NOT_PUT_OFF


class EffectState(StrEnum):
    """How far an effect is; `not_sent`: nothing left, a new attempt may follow."""

    INTENT = "intent"
    DONE = "done"
    REFUSED = "refused"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"
    NOT_SENT = "not_sent"


OPEN = (EffectState.INTENT, EffectState.UNKNOWN)
_COLUMNS = (
    "effect_key, run_id, change_id, part, batch_key, integration_id, class, state, attempt,"
    " request_sha256, intent_at, settle_after, message"
)


@dataclass(frozen=True, slots=True)
class Effect:
    """One part's write."""

    key: str
    run: RunId
    change: ChangeId
    part: int
    batch_key: str | None
    integration: IntegrationId | None
    recovery: Recovery
    state: EffectState
    attempt: int
    request_sha256: str
    intent_at: datetime
    settle_after: datetime
    message: str | None


@dataclass(frozen=True, slots=True)
class Intent:
    """What is about to be sent for one part."""

    key: str
    change: ChangeId
    part: int
    batch_key: str
    integration: IntegrationId | None
    recovery: Recovery
    request_sha256: str
    deadline_ms: int
    quiet_ms: int


async def intend(tx: Tx, org: OrgId, run: RunId, *, epoch: int, intent: Intent) -> int:
    """Keeps an intent, or the next attempt of one that was not sent; its attempt, 0 when none is left.

    An effect that is settled or still open is never intended again: the caller has to look at it first.
    """
    row = await tx.one(
        "INSERT INTO effects (org_id, effect_key, run_id, change_id, part, batch_key, integration_id, class,"
        " state, epoch, attempt, request_sha256, intent_at, call_deadline_at, settle_after)"
        " VALUES (:org, :key, :run, :change, :part, :batch, :integration, :class, 'intent', :epoch, 1,"
        " :request, {now}, {now} + :deadline, {now} + :deadline + :quiet)"
        " ON CONFLICT (org_id, effect_key) DO UPDATE"
        " SET state = 'intent', epoch = excluded.epoch, attempt = effects.attempt + 1,"
        " batch_key = excluded.batch_key, intent_at = excluded.intent_at,"
        " call_deadline_at = excluded.call_deadline_at, settle_after = excluded.settle_after"
        " WHERE effects.state = 'not_sent' AND effects.attempt < 5"
        " AND effects.request_sha256 = excluded.request_sha256"
        " RETURNING attempt",
        {
            "org": org,
            "key": intent.key,
            "run": run,
            "change": intent.change,
            "part": intent.part,
            "batch": intent.batch_key,
            "integration": intent.integration,
            "class": intent.recovery,
            "epoch": epoch,
            "request": intent.request_sha256,
            "deadline": intent.deadline_ms,
            "quiet": intent.quiet_ms,
        },
    )
    return int(row["attempt"]) if row else 0


async def settle(tx: Tx, org: OrgId, key: str, *, state: EffectState, by: str, message: str | None) -> bool:
    """Keeps the outcome of an open effect; False when it was settled before."""
    touched = await tx.execute(
        "UPDATE effects SET state = :state, message = :message,"
        " settled_at = CASE WHEN :state = 'unknown' THEN settled_at ELSE CAST(:now AS bigint) END,"
        " settled_by = CASE WHEN :state = 'unknown' THEN settled_by ELSE CAST(:by AS text) END"
        " WHERE org_id = :org AND effect_key = :key AND state IN ('intent', 'unknown')",
        {"org": org, "key": key, "state": state, "by": by, "message": message},
    )
    return touched == 1


async def postpone(tx: Tx, org: OrgId, key: str, *, until: datetime) -> None:
    """Looks at an open effect again later."""
    await tx.execute(
        "UPDATE effects SET settle_after = :until"
        " WHERE org_id = :org AND effect_key = :key AND state IN ('intent', 'unknown')",
        {"org": org, "key": key, "until": until},
    )


async def of_run(tx: Tx, org: OrgId, run: RunId) -> list[Effect]:
    """Every effect of a run."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM effects WHERE org_id = :org AND run_id = :run ORDER BY change_id, part",
        {"org": org, "run": run},
    )
    return [_effect(row) for row in rows]


async def of_change(tx: Tx, org: OrgId, change: ChangeId) -> list[Effect]:
    """The effects of a change, one for each of its parts that was begun."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM effects WHERE org_id = :org AND change_id = :change ORDER BY part",
        {"org": org, "change": change},
    )
    return [_effect(row) for row in rows]


async def to_settle(tx: Tx, most: int = 100) -> list[tuple[OrgId, RunId]]:
    """Finished runs that have open effects whose time to be looked at has come; without those put off."""
    rows = await tx.all(
        Both(
            "SELECT DISTINCT org_id, run_id FROM effects AS e"
            " WHERE state IN ('intent', 'unknown') AND settle_after <= {now} AND EXISTS"
            " (SELECT 1 FROM runs AS r WHERE r.org_id = e.org_id AND r.id = e.run_id AND r.queue = 'done')"
            f"{NOT_PUT_OFF.format(tick='settle', key='e.run_id')} LIMIT :most",
            "SELECT DISTINCT org_id, run_id FROM queue_settle(:most)",
        ),
        {"most": most},
    )
    return [(OrgId(row["org_id"]), RunId(row["run_id"])) for row in rows]


def _effect(row: Row) -> Effect:
    integration = row["integration_id"]
    return Effect(
        key=row["effect_key"],
        run=RunId(row["run_id"]),
        change=ChangeId(row["change_id"]),
        part=row["part"],
        batch_key=row["batch_key"],
        integration=IntegrationId(integration) if integration is not None else None,
        recovery=Recovery(row["class"]),
        state=EffectState(row["state"]),
        attempt=row["attempt"],
        request_sha256=row["request_sha256"],
        intent_at=at(row["intent_at"]),
        settle_after=at(row["settle_after"]),
        message=row["message"],
    )
