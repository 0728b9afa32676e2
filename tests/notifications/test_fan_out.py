"""Fan-out: who receives which notice, and in which row of the inbox."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steward.model.account import Role
from steward.model.ids import AutomationId
from steward.model.notice import AutomationChoice, Notice, Preferences, Topic, facts_of
from steward.notifications import fan_out
from steward.notifications.context import NotificationContext
from tests.fake_clock import FakeClock
from tests.notifications.notified_people import failed, join, prefer, rows_of, tell
from tests.runs.shop import Shop, connect_all, open_shop


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service beside the fake shop."""
    opened = await open_shop(database_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()


def _context(shop: Shop) -> NotificationContext:
    return shop.service.notifications


async def _inbox(shop: Shop) -> list[dict[str, Any]]:
    return sorted(await rows_of(shop, "inbox"), key=lambda row: (row["person_id"], row["id"]))


async def test_notices_of_one_automation_are_one_row_until_it_is_read(shop: Shop) -> None:
    """Adds notices of one automation to one inbox row until it is read; then a new row begins."""
    await join(shop, "ada")
    for numbers in ((1, 2), (3,)):
        await tell(shop, *(failed(number) for number in numbers))
        await fan_out.fan_out_due(_context(shop))
    [row] = await _inbox(shop)
    assert (row["count"], row["automations"], row["run_id"]) == (3, 1, "run3")
    await shop.tamper("UPDATE inbox SET read_at = 1 WHERE org_id = :org")
    await tell(shop, failed(4))
    await fan_out.fan_out_due(_context(shop))
    assert {row["count"]: row["read_at"] for row in await _inbox(shop)} == {3: 1, 1: None}


@pytest.mark.parametrize(("automations", "rows"), [(50, 50), (51, 1)])
async def test_more_than_fifty_automations_in_a_pass_are_one_row(
    shop: Shop, automations: int, rows: int
) -> None:
    """Keeps a row for each of 50 automations in a pass, and merges 51 into one row that names none."""
    await join(shop, "ada")
    await tell(shop, *(failed(number, automation=f"a{number}") for number in range(automations)))
    await fan_out.fan_out_due(_context(shop))
    inbox = await _inbox(shop)
    assert len(inbox) == rows
    assert sum(row["count"] for row in inbox) == automations
    if rows == 1:
        assert (inbox[0]["automations"], inbox[0]["automation_id"]) == (51, None)


async def test_muted_automations_arrive_read(shop: Shop) -> None:
    """Puts notices of a muted automation into the inbox as read."""
    ada = await join(shop, "ada")
    await prefer(shop, ada, Preferences(muted=frozenset({AutomationId("a1")})))
    await tell(shop, failed(1), failed(2, automation="a2"))
    await fan_out.fan_out_due(_context(shop))
    assert {row["automation_id"]: row["read_at"] is not None for row in await _inbox(shop)} == {
        "a1": True,
        "a2": False,
    }


async def test_receivers_depend_on_the_topic_and_on_ownership(shop: Shop) -> None:
    """Tells owners everything, approvers of approvals and stops, and members of their own automations.

    Members who choose all automations hear of all runs; owners may choose their own.
    """
    owner, approver = await join(shop, "olga"), await join(shop, "aki", Role.APPROVER)
    maker, member = await join(shop, "mia", Role.MEMBER), await join(shop, "max", Role.MEMBER)
    curious, narrow = await join(shop, "cleo", Role.MEMBER), await join(shop, "nora")
    gone = await join(shop, "gus")
    await shop.tamper("UPDATE members SET active = FALSE WHERE org_id = :org AND person_id = :id", id=gone.id)
    await prefer(shop, curious, Preferences(automations=AutomationChoice.ALL))
    await prefer(shop, narrow, Preferences(automations=AutomationChoice.MINE))
    automation = await shop.hiding()
    await shop.tamper("UPDATE automations SET created_by = :person WHERE org_id = :org", person=maker.id)
    facts = facts_of(asked_at="2026-05-01T06:00:00.000Z", expires_at="2026-05-04T06:00:00.000Z")
    topics = (Topic.APPROVAL_WAITING, Topic.RUN_FAILED, Topic.CONNECTION_LOST, Topic.CHANGES_STOPPED)
    await tell(
        shop,
        *(Notice(topic=topic, dedupe=topic, facts=facts, automation=automation.id) for topic in topics),
    )
    await fan_out.fan_out_due(_context(shop))
    actual: dict[int, set[str]] = {}
    for row in await _inbox(shop):
        actual.setdefault(row["person_id"], set()).add(row["topic"])
    assert actual == {
        owner.id: set(topics),
        approver.id: {Topic.APPROVAL_WAITING, Topic.CHANGES_STOPPED},
        maker.id: {Topic.RUN_FAILED},
        curious.id: {Topic.RUN_FAILED},
        narrow.id: set(topics) - {Topic.RUN_FAILED},
    }
    assert member.id not in actual


async def test_a_notice_that_cannot_be_read_is_put_off_and_stops_no_other(shop: Shop) -> None:
    """Defers a notice that cannot be read, delivers the others, and marks it poison after five failures."""
    await join(shop, "ada")
    await tell(shop, failed(1), failed(2))
    await shop.tamper("UPDATE notices SET topic = 'unheard_of' WHERE org_id = :org AND run_id = 'run1'")
    for _ in range(5):
        await fan_out.fan_out_due(_context(shop))
        await shop.clock.advance(60)
    states = {row["run_id"]: row["state"] for row in await rows_of(shop, "notices")}
    assert states == {"run1": "poison", "run2": "fanned_out"}
    assert [row["count"] for row in await _inbox(shop)] == [1]


async def test_a_repeated_pass_sends_one_notice(shop: Shop) -> None:
    """Writes nothing when the fan-out of the same notices is repeated."""
    await join(shop, "ada")
    await tell(shop, failed(1))
    [row] = await rows_of(shop, "notices")
    again = partial(fan_out.fan_out, org=shop.owner.org, ids=[row["id"]], ctx=_context(shop))
    assert len(await shop.write(again)) == 1
    assert await shop.write(again) == []
    assert [row["count"] for row in await _inbox(shop)] == [1]
