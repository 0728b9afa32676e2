"""Which notices no longer hold: their approval is decided, their connection or automation works again."""

from collections.abc import Collection, Iterable, Sequence

from steward.database.engine.base import Tx
from steward.model.ids import NoticeId, OrgId
from steward.model.notice import WAITING_TOPICS, StoredNotice, Topic

_WAITING = (
    "SELECT id AS key FROM approvals WHERE org_id = :org AND id IN (:keys) AND status = 'pending'"
    " AND expires_at > {now}"
)
_LOST = (
    "SELECT integration_id AS key FROM connections"
    " WHERE org_id = :org AND integration_id IN (:keys) AND state = 'needs_reconnecting'"
)
_PAUSED = "SELECT id AS key FROM automations WHERE org_id = :org AND id IN (:keys) AND state = 'paused'"
_QUIET = (
    "SELECT automation_id AS key FROM automation_watch"
    " WHERE org_id = :org AND automation_id IN (:keys) AND quiet_since IS NOT NULL"
)


async def void(tx: Tx, org: OrgId, stored: Sequence[StoredNotice]) -> set[NoticeId]:
    """Returns those of the notices that no longer hold."""
    gone = await _gone(tx, org, _WAITING, [(s.id, s.notice.approval) for s in _of(stored, WAITING_TOPICS)])
    lost = _of(stored, {Topic.CONNECTION_LOST})
    gone |= await _gone(tx, org, _LOST, [(s.id, s.notice.integration) for s in lost])
    paused = _of(stored, {Topic.AUTOMATION_PAUSED})
    gone |= await _gone(tx, org, _PAUSED, [(s.id, s.notice.automation) for s in paused])
    quiet = _of(stored, {Topic.AUTOMATION_QUIET})
    return gone | await _gone(tx, org, _QUIET, [(s.id, s.notice.automation) for s in quiet])


def _of(stored: Iterable[StoredNotice], topics: Collection[Topic]) -> list[StoredNotice]:
    return [each for each in stored if each.notice.topic in topics]


async def _gone(
    tx: Tx, org: OrgId, holding: str, keys: Sequence[tuple[NoticeId, str | int | None]]
) -> set[NoticeId]:
    if not keys:
        return set()
    rows = await tx.all(holding, {"org": org, "keys": [key for _, key in keys]})
    still = {row["key"] for row in rows}
    return {notice for notice, key in keys if key not in still}
