"""The inbox under the bell: a person's own notices, the unread count, and its cost in a long list."""

import json
from functools import partial
from typing import Any

from steward.database.engine.base import Args, Json, Row, Sql, Tx, ms, to_column
from steward.database.notifications import inbox_pages
from steward.model.ids import OrgId, PersonId, new_id
from steward.model.instants import wire_time
from steward.model.notice import Topic
from tests.service import Service

INBOX = "/app/inbox"
READ = "/app/inbox/read"
_INSERT = (
    "INSERT INTO inbox"
    " (org_id, person_id, id, group_key, topic, automation_id, count, facts, first_at, last_at)"
    " VALUES (:org, :person, :id, :key, :topic, :automation, 1, :facts, :at, :at)"
)


async def put(service: Service, name: str, number: int, *, since: int = 0) -> list[str]:
    """Writes this many unread lines for one of the cast a millisecond apart; returns their ids in order."""
    member = service.members[name]
    now = service.clock.now()
    ids = [new_id(now) for _ in range(number)]
    facts = str(to_column(Json({"automation": "Hide what is sold out"}), "sqlite"))
    first = ms(now) + since
    rows = [
        (member.org, member.person.id, id_, f"run_failed|{id_}", "run_failed", id_, facts, first + index)
        for index, id_ in enumerate(ids)
    ]

    async def insert(tx: Tx) -> None:
        await tx.many(_INSERT, rows)

    await service.write(insert, org=member.org)
    return ids


async def listed(service: Service, name: str, **query: Any) -> list[str]:
    """Returns the ids on all pages of a person's inbox."""
    web = await service.web(name)
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = (await web.get(INBOX, **query, **({"cursor": cursor} if cursor else {}))).data
        ids += [line["id"] for line in page["notices"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return ids


async def test_everybody_has_an_inbox_of_their_own(service: Service) -> None:
    """Answers a person's own notices in words with a link, and none of other people or organizations."""
    [automation_id] = await put(service, "member", 1)
    await put(service, "owner", 1)
    await put(service, "stranger", 1)
    response = await (await service.web("member")).get(INBOX)
    timestamp = wire_time(service.clock.now())
    assert response.data == {
        "notices": [
            {
                "id": automation_id,
                "topic": "run_failed",
                "text": "“Hide what is sold out” failed",
                "automation_id": automation_id,
                "run_id": None,
                "approval_id": None,
                "integration_id": None,
                "count": 1,
                "first_at": timestamp,
                "last_at": timestamp,
                "read": False,
                "url": f"{service.context.rules.web_origin}/automations/{automation_id}",
            }
        ],
        "unread": 1,
        "mail_down_since": None,
        "next_cursor": None,
    }


async def test_an_inbox_is_paged_newest_first(service: Service) -> None:
    """Answers every line once across pages, newest first, also with the unread filter."""
    ids = await put(service, "member", 5)
    assert await listed(service, "member", limit=2) == ids[::-1]
    await (await service.web("member")).post(READ, {"ids": ids[1:2]})
    assert await listed(service, "member", limit=2, unread="true") == [ids[4], ids[3], ids[2], ids[0]]


async def test_lines_are_marked_as_read_by_id_or_up_to_a_time(service: Service) -> None:
    """Marks lines as read and answers the unread count; another person's ids change nothing."""
    ids = await put(service, "member", 4)
    others = await put(service, "owner", 1)
    web = await service.web("member")
    assert (await web.post(READ, {"ids": [*ids[:1], *others]})).data == {"unread": 3}
    assert (await (await service.web("owner")).get(INBOX)).data["unread"] == 1
    newest = (await web.get(INBOX)).data["notices"][1]
    assert (await web.post(READ, {"until": newest["last_at"]})).data == {"unread": 1}
    assert (await web.post(READ, {"until": newest["last_at"]})).data == {"unread": 1}


async def test_entries_are_marked_read_by_ids_or_by_a_time(service: Service) -> None:
    """Takes either ids or a time, and at most 200 ids."""
    web = await service.web("member")
    ids = [new_id(service.clock.now()) for _ in range(201)]
    assert (await web.post(READ, {"ids": ids[:200]})).status == 200
    for body in ({}, {"ids": ids}, {"ids": ids[:1], "until": "2026-05-01T00:00:00Z"}, {"ids": ["x"]}):
        response = await web.post(READ, body)
        assert response.status == 422
        assert set(response.errors) <= {"ids", "ids.0"}


class _Recorded:
    """Wraps a transaction and records its statements."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.statements: list[tuple[Sql, Args]] = []

    async def all(self, sql: Sql, args: Args) -> list[Row]:
        """Records and runs a statement of several rows."""
        self.statements.append((sql, args))
        return await self.tx.all(sql, args)

    async def first(self, sql: Sql, args: Args) -> Row | None:
        """Records and runs a statement of one row."""
        self.statements.append((sql, args))
        return await self.tx.first(sql, args)


async def _read_of_10000(tx: Tx, org: OrgId, person: PersonId) -> list[str]:
    """Returns the query plans of what `GET /app/inbox` runs; PostgreSQL's are JSON with measured rows."""
    recorded: Any = _Recorded(tx)
    for unread in (False, True):
        lines = await inbox_pages.find(recorded, org, person, unread=unread, after=None, limit=51)
        after = (ms(lines[-1].last_at), lines[-1].id)
        await inbox_pages.find(recorded, org, person, unread=unread, after=after, limit=51)
    assert await inbox_pages.count_unread(recorded, org, person) == inbox_pages.MAX_UNREAD
    how = "EXPLAIN QUERY PLAN" if tx.dialect == "sqlite" else "EXPLAIN (ANALYZE, FORMAT JSON)"
    plans = []
    for sql, args in recorded.statements:
        rows = await tx.all(f"{how} {sql}", args)
        plans.append(" ".join(str(row["detail" if tx.dialect == "sqlite" else "QUERY PLAN"]) for row in rows))
    return plans


def _most_rows(plan: dict[str, Any]) -> int:
    """Returns the most rows that any node of a plan read or returned."""
    automation_id = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    return max(automation_id, *(_most_rows(inner) for inner in plan.get("Plans", [])), 0)


async def test_a_page_of_an_inbox_of_10000_lines_reads_a_page(service: Service) -> None:
    """Reads no more rows than a page needs and sorts nothing in an inbox of 10,000 lines."""
    await put(service, "member", 10_000)
    member = service.members["member"]
    engine, now = service.context.engine, service.clock.now()
    read = partial(_read_of_10000, org=member.org, person=member.person.id)
    plans = await engine.read(now, read, org=member.org)
    assert len(plans) == 5
    for plan in plans:
        if engine.dialect == "sqlite":
            assert "inbox_" in plan
            assert "TEMP B-TREE" not in plan
        else:
            assert _most_rows(json.loads(plan)[0]["Plan"]) <= inbox_pages.MAX_UNREAD


async def test_every_topic_can_stand_in_an_inbox(service: Service) -> None:
    """Answers a sentence for every topic."""
    member = service.members["member"]
    now = service.clock.now()

    async def insert(tx: Tx) -> None:
        about = (None, "{}", ms(now))
        owner = (member.org, member.person.id)
        rows = [(*owner, new_id(now), topic.value, topic.value, *about) for topic in Topic]
        await tx.many(_INSERT, rows)

    await service.write(insert, org=member.org)
    lines = (await (await service.web("member")).get(INBOX)).data["notices"]
    assert {line["topic"] for line in lines} == set(Topic)
    assert all(line["text"] for line in lines)
