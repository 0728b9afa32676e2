"""Each fact writes one notice in its transaction; success writes none."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from steward import periodic_tasks
from steward.connections import connect
from steward.connectors.base.connector import Health
from steward.database.engine.base import Tx
from steward.model.approval import ApprovalStatus
from steward.model.connection import ConnectionState
from steward.model.json import JsonObject
from steward.model.notice import Topic
from steward.model.run import Mode, Run, RunStatus
from steward.outbound.errors import Unauthorized
from steward.runs import approval, finish
from steward.runs.finish import FinishRequest, RunEnd
from steward.runs.tasks import timers
from tests.automations.world import DAILY, World, make_world
from tests.fake_clock import FakeClock
from tests.notifications.notified_people import told
from tests.runs.shop import Shop, connect_all, open_shop


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service beside the fake shop."""
    opened = await open_shop(database_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()


async def _topics(shop: Shop) -> list[str]:
    return [row["topic"] for row in await told(shop)]


async def test_an_approval_sends_notices_at_its_start_half_and_nine_tenths(shop: Shop) -> None:
    """Tells of an approval at once, at 50 % and at 90 % of its time, and not after the decision."""
    run = await shop.waiting(await shop.hiding())
    [waiting] = await told(shop)
    approval = await shop.approval(run)
    assert (waiting["topic"], waiting["approval_id"], waiting["run_id"]) == (
        Topic.APPROVAL_WAITING, approval.id, run.id,
    )  # fmt: skip
    assert waiting["facts"]["changes"] == approval.counts["total"]
    await shop.pass_time(hours=35, minutes=59)
    assert len(await told(shop)) == 1
    await shop.pass_time(minutes=1)
    assert [row["facts"].get("percent") for row in await told(shop)] == [None, 50]
    await shop.pass_time(hours=28, minutes=48)
    assert [row["facts"].get("percent") for row in await told(shop)] == [None, 50, 90]
    await shop.approve(run)
    await shop.pass_time(hours=4)
    assert len(await told(shop)) == 3


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("hours", [1, 720])
async def test_the_shortest_and_the_longest_approval_send_notices_in_time(
    database_url: str, clock: FakeClock, tmp_path: Path, hours: int
) -> None:
    """Tells at 50 % and 90 % of approvals of 1 and 720 hours, not a second before."""
    shop = await open_shop(database_url, clock, tmp_path, STEWARD_APPROVAL_HOURS=f"{hours}")
    await connect_all(shop)
    run = await shop.waiting(await shop.hiding())
    asked_at = (await shop.approval(run)).created_at
    percents: list[int | None] = [None]
    for percent in (50, 90):
        warned_at = asked_at + timedelta(hours=hours) * percent / 100
        await shop.pass_time(seconds=(warned_at - clock.now()).total_seconds() - 1)
        assert [row["facts"].get("percent") for row in await told(shop)] == percents
        await shop.pass_time(seconds=1)
        percents.append(percent)
        assert [row["facts"].get("percent") for row in await told(shop)] == percents
    [task] = [
        task for task in periodic_tasks.of_worker(await shop.registered_worker()) if task.name == "warn"
    ]
    assert task.every <= timedelta(seconds=30)
    await shop.service.close()


async def test_approvals_wake_the_fan_out(shop: Shop) -> None:
    """Wakes the fan-out when an approval is requested and when it expires."""
    woken = shop.service.hints.of("notice")
    assert not woken.is_set()
    await shop.waiting(await shop.hiding())
    assert woken.is_set()
    woken.clear()
    await shop.clock.advance(timedelta(hours=73).total_seconds())
    await timers.expire_approvals(shop.service.worker_context)
    assert woken.is_set()


async def test_a_decided_approval_sends_no_further_notice(shop: Shop) -> None:
    """Sends no reminder of an approval that was rejected."""
    run = await shop.waiting(await shop.hiding())
    await shop.reject(run)
    await shop.pass_time(hours=71)
    assert await _topics(shop) == [Topic.APPROVAL_WAITING]


async def test_after_a_standstill_only_the_latest_step_sends_a_notice(shop: Shop) -> None:
    """Skips the 50 % notice when 90 % of the time has passed, and both when all of it has."""
    first = await shop.waiting(await shop.hiding())
    await shop.clock.advance(timedelta(hours=70).total_seconds())
    asked_approval = await shop.approval(first)
    for _ in range(2):
        await shop.write(partial(approval.warn, org=shop.owner.org, approval=asked_approval.id))
    assert [row["facts"].get("percent") for row in await told(shop)] == [None, 90]
    await shop.clock.advance(timedelta(hours=2).total_seconds())
    await shop.write(partial(approval.warn, org=shop.owner.org, approval=asked_approval.id))
    assert len(await told(shop)) == 2


async def test_an_expired_approval_sends_one_notice(shop: Shop) -> None:
    """Writes one notice of an expired approval and none of the run that it ends."""
    run = await shop.waiting(await shop.hiding())
    await shop.pass_time(hours=73)
    assert (await shop.approval(run)).status is ApprovalStatus.EXPIRED
    assert (await _topics(shop))[-1] == Topic.APPROVAL_EXPIRED
    assert (await _topics(shop)).count(Topic.RUN_FAILED) == 0


async def _end(shop: Shop, run: Run, end: RunEnd) -> None:
    ctx = shop.service.worker_context
    [lease] = (await shop.claimed(1)).values()
    assert lease.run == run.id
    assert await shop.begun(lease) is not None
    request = FinishRequest(lease, end, run.automation_id, run.mode, ctx.automation_rules)
    await finish.end_run(ctx.engine, shop.clock.now(), request)


@pytest.mark.parametrize(
    ("end", "topic"),
    [
        (RunEnd(RunStatus.FAILED, "step_failed", "No"), Topic.RUN_FAILED),
        (RunEnd(RunStatus.FAILED, "some_changes_failed", "No"), Topic.RUN_PARTLY_FAILED),
        (RunEnd(RunStatus.FAILED, "all_conflicted", "No"), Topic.RUN_PARTLY_FAILED),
        (RunEnd(RunStatus.FAILED, "outcome_unknown", "No"), Topic.RUN_OUTCOME_UNKNOWN),
        (RunEnd(RunStatus.SUCCEEDED), None),
        (RunEnd(RunStatus.CANCELLED, "by_person", "No"), None),
    ],
)
async def test_a_notice_of_a_failed_run_says_what_failed(
    shop: Shop, end: RunEnd, topic: Topic | None
) -> None:
    """Writes the notice that the failure calls for, and none for success, cancellation or test runs."""
    automation = await shop.hiding()
    await _end(shop, await shop.run_now(automation), end)
    await _end(shop, await shop.run_now(automation, Mode.TEST), end)
    rows = await told(shop)
    assert [row["topic"] for row in rows] == ([topic] if topic else [])
    for row in rows:
        assert row["facts"] == {
            "automation": automation.name,
            "store": automation.store_label,
            "code": end.code,
        }


async def test_a_run_that_no_worker_started_sends_a_notice(shop: Shop) -> None:
    """Writes a notice of a run that no worker started, with the code `not_started`."""
    await shop.run_now(await shop.hiding())
    await shop.clock.advance(timedelta(hours=25).total_seconds())
    hired = await shop.registered_worker()
    await periodic_tasks.expire_unstarted(hired)
    [row] = await told(shop)
    assert (row["topic"], row["facts"]["code"]) == (Topic.RUN_FAILED, "not_started")


async def test_an_automation_paused_by_the_service_sends_a_notice(shop: Shop) -> None:
    """Writes one notice of the pause after five failures in a row, beside the five of the runs."""
    automation = await shop.set_up("hide-out-of-stock-products", {}, {"cadence": "daily", "run_at": "08:00"})
    for _ in range(5):
        await _end(shop, await shop.run_now(automation), RunEnd(RunStatus.FAILED, "step_failed", "No"))
    topics = await _topics(shop)
    assert topics.count(Topic.RUN_FAILED) == 5
    assert topics.count(Topic.AUTOMATION_PAUSED) == 1


async def test_a_lost_connection_sends_one_notice(shop: Shop) -> None:
    """Writes one notice of a lost connection, however many checks fail."""
    lost = shop.connections["woocommerce"]
    health = Health(ok=False, error=Unauthorized())
    for _ in range(2):
        check = partial(connect.record_check, org=lost.org, integration=lost.integration_id, health=health)
        assert (await shop.write(check)).connection.state is ConnectionState.NEEDS_RECONNECTING
    [row] = await told(shop)
    assert (row["topic"], row["integration_id"]) == (Topic.CONNECTION_LOST, lost.integration_id)


async def test_slots_that_were_too_late_are_one_notice_a_pass(engine: object, clock: FakeClock) -> None:
    """Writes one notice for all slots that one pass finds too late, with their number."""
    world: World = await make_world(engine, clock)  # type: ignore[arg-type]
    automation = await world.create(schedule=DAILY)
    await clock.advance(timedelta(days=3).total_seconds())
    await world.dispatch()

    async def rows(tx: Tx) -> list[JsonObject]:
        query = "SELECT topic, count FROM notices WHERE org_id = :org"
        return [dict(row) for row in await tx.all(query, {"org": automation.org})]

    [row] = await world.engine.read(clock.now(), rows, org=automation.org)
    late = [slot for slot in await world.rows(automation) if slot.reason is not None]
    assert row == {"topic": Topic.SLOT_TOO_LATE, "count": len(late)}
    assert len(late) >= 2
