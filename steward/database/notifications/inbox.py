"""The inbox: adds the notices of the fan-out to each person's list."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Json, PerEngine, Tx, ms
from steward.model.ids import OrgId, PersonId, new_id
from steward.model.json import JsonValue
from steward.model.notice import StoredNotice

_HEAD = (
    "INSERT INTO inbox AS i (org_id, person_id, id, group_key, topic, automation_id, run_id, approval_id,"
    " integration_id, route_id, count, automations, facts, first_at, last_at, read_at)"
)
_MERGE = (
    " ON CONFLICT (org_id, person_id, group_key) WHERE read_at IS NULL DO UPDATE SET"
    " count = i.count + excluded.count, last_at = excluded.last_at, facts = excluded.facts,"
    " run_id = excluded.run_id, approval_id = excluded.approval_id,"
    " automations = CASE WHEN i.automations < excluded.automations THEN excluded.automations"
    " ELSE i.automations END"
)
_ADD = PerEngine(
    sqlite=_HEAD + " SELECT :org, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4,"
    " r.value ->> 5, r.value ->> 6, r.value ->> 7, r.value ->> 8, r.value ->> 9, r.value ->> 10,"
    " r.value ->> 11, r.value ->> 12, r.value ->> 13, :read_at FROM json_each(:rows) AS r WHERE true",
    postgresql=_HEAD + " SELECT :org, (r.value ->> 0)::bigint, r.value ->> 1, r.value ->> 2, r.value ->> 3,"
    " r.value ->> 4, r.value ->> 5, r.value ->> 6, (r.value ->> 7)::bigint, r.value ->> 8,"
    " (r.value ->> 9)::bigint, (r.value ->> 10)::bigint, r.value ->> 11, (r.value ->> 12)::bigint,"
    " (r.value ->> 13)::bigint, CAST(:read_at AS bigint)"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r",
)
_ADD_OR_MERGE = PerEngine(_ADD.sqlite + _MERGE, _ADD.postgresql + _MERGE)


@dataclass(frozen=True, slots=True)
class InboxGroup:
    """Notices of one group for the inbox, represented by the newest one.

    `automations` is the number of their automations.
    """

    key: str
    newest: StoredNotice
    count: int
    automations: int
    first_at: datetime


async def add_many(tx: Tx, org: OrgId, groups: Sequence[tuple[PersonId, InboxGroup]], *, read: bool) -> None:
    """Adds groups to people's lists: to their unread rows, or as new ones; `read` for muted ones.

    No two groups may have both person and key in common.
    """
    if not groups:
        return
    rows = [_row(tx, person, group) for person, group in groups]
    statement = _ADD if read else _ADD_OR_MERGE
    await tx.execute(statement, {"org": org, "rows": Json(rows), "read_at": tx.now if read else None})


def _row(tx: Tx, person: PersonId, group: InboxGroup) -> list[JsonValue]:
    notice = group.newest.notice
    is_one = group.automations == 1
    return [
        person,
        new_id(tx.now),
        group.key,
        notice.topic,
        notice.automation if is_one else None,
        notice.run if is_one else None,
        notice.approval if is_one else None,
        notice.integration,
        notice.route,
        group.count,
        group.automations,
        json.dumps(notice.facts, ensure_ascii=False, separators=(",", ":")),
        ms(group.first_at),
        ms(group.newest.created_at),
    ]
