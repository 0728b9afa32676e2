"""Many facts and many people: few messages, every fact counted, and reads that do not grow with both.

`FLOOD=10000` sets the number of facts; without it the suite uses fewer.
"""

import json
import os
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from steward.database.engine.base import Tx, from_ms
from steward.database.runs import run_lists
from steward.database.runs.run_lists import RunFilter
from steward.model.automation import Automation
from steward.model.ids import OrgId, RunId
from steward.model.notice import ChannelName, Topic
from steward.model.notification_route import RouteFilter
from steward.model.run import RunStatus
from steward.notifications import close, deliver, fan_out, routes
from steward.notifications.routes import RouteContent
from steward.runs import finish
from steward.runs.finish import FinishRequest, RunEnd
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock
from tests.notifications.mailing_shop import NotifiedShop, open_office
from tests.notifications.notified_people import failed, join, rows_of, tell
from tests.outbound.mail_server import MailScript
from tests.runs.shop import HOST, Shop

FLOOD = int(os.environ.get("FLOOD", "600"))
FAILING = int(os.environ.get("FLOOD", "30"))
CHANNELS = [str(channel) for channel in ChannelName]
ROUTE_TOPICS = RouteFilter(topics=frozenset({Topic.RUN_FAILED}))


@pytest.fixture
async def office(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[NotifiedShop]:
    """Yields an office with a mail server and two owners."""
    async with open_office(database_url, clock, tmp_path, MailScript()) as opened:
        await join(opened.shop, "bea")
        yield opened


async def test_a_flood_is_one_message_a_person_and_every_fact_is_counted(office: NotifiedShop) -> None:
    """Mails the first notice at once and the others in one mail with 20 lines and the number of the rest."""
    await tell(office.shop, failed(0))
    await office.turn()
    office.script.received.clear()
    for first in range(1, FLOOD + 1, 500):
        numbers = range(first, min(first + 500, FLOOD + 1))
        await tell(office.shop, *(failed(number, automation=f"a{number % 7}") for number in numbers))
        while await fan_out.fan_out_due(office.ctx):
            pass
    await office.later(minutes=15)
    mails = [mail.message for mail in office.script.received]
    assert sorted(str(mail["To"]) for mail in mails) == ["ada@tea.example", "bea@tea.example"]
    for mail in mails:
        assert f"{FLOOD:,} notices about runs" in str(mail["Subject"])
        text = mail.get_body(("plain",))
        assert text is not None
        words = text.get_content()
        assert words.count("” on “Shop” failed") == 20
        assert f"and {FLOOD - 20:,} more" in words
    counts: dict[int, int] = {}
    for row in await rows_of(office.shop, "inbox"):
        counts[row["person_id"]] = counts.get(row["person_id"], 0) + row["count"]
    assert set(counts.values()) == {FLOOD + 1}


async def _add_routes(shop: Shop) -> None:
    """Adds a Teams, a Slack and a webhook route for failed runs."""
    origin = f"http://{HOST}"
    slack = await shop.connect("slack", {"webhook_url": shop.world.described()["slack"]["webhook_url"]})
    teams = shop.connections["teams"]
    for content in (
        RouteContent("Teams", ChannelName.TEAMS, ROUTE_TOPICS, integration=teams.integration_id),
        RouteContent("Slack", ChannelName.SLACK, ROUTE_TOPICS, integration=slack.integration_id),
        RouteContent("Program", ChannelName.WEBHOOK, ROUTE_TOPICS, url=f"{origin}/hooks"),
    ):
        vault = shop.service.context.vault
        await shop.write(partial(routes.create, vault=vault, actor=shop.owner, content=content))


async def _fail(shop: Shop, automation: Automation) -> None:
    """Starts a run and lets it fail."""
    ctx = shop.service.worker_context
    run = await shop.run_now(automation)
    [lease] = (await shop.claimed(1)).values()
    assert await shop.begun(lease) is not None
    end = RunEnd(RunStatus.FAILED, "step_failed", "No")
    request = FinishRequest(lease, end, run.automation_id, run.mode, ctx.automation_rules)
    await finish.end_run(ctx.engine, shop.clock.now(), request)


async def _turn_all(office: NotifiedShop) -> None:
    while await fan_out.fan_out_due(office.ctx):
        pass
    await close.close_due(office.ctx)
    for channel in office.ctx.channels:
        while await deliver.deliver_due(office.ctx, channel):
            pass


async def _count_failed_runs(tx: Tx, org: OrgId) -> int:
    """Returns the length of the list that the messages link to, read page by page."""
    failed_runs, after, count = RunFilter(statuses=(RunStatus.FAILED,)), None, 0
    while page := await run_lists.find(tx, org, failed_runs, limit=200, after=after):
        count += len(page)
        after = (from_ms(page[-1]["queued_at"]), RunId(page[-1]["id"]))
    return count


async def test_runs_that_fail_in_a_minute_reach_five_owners_and_three_routes(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Sends each receiver all failures in messages at least 15 minutes apart, webhooks excepted."""
    settings = {"STEWARD_SLACK_HOSTS": HOST}
    async with open_office(database_url, clock, tmp_path, MailScript(), **settings) as office:
        shop = office.shop
        for name in ("bea", "cid", "dot", "eve"):
            await join(shop, name)
        await _add_routes(shop)
        automations = [await shop.hiding() for _ in range(5)]
        for number in range(FAILING):
            if number % (FAILING // 15) == 0:
                await _turn_all(office)
                await clock.advance(4)
            await _fail(shop, automations[number % 5])
        await _turn_all(office)
        for _ in range(16):
            await clock.advance(60)
            await _turn_all(office)
        messages = await rows_of(shop, "messages")
        assert {row["state"] for row in messages} == {"sent"}
        by_receiver: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in messages:
            by_receiver[f"{row['channel']}|{row['person_id']}|{row['route_id']}"].append(row)
        assert len(by_receiver) == 5 + 3
        for receiver, sent in by_receiver.items():
            assert sum(row["count"] for row in sent) == FAILING
            times = sorted(row["sent_at"] for row in sent)
            if not receiver.startswith("webhook"):
                assert all(later - earlier >= 15 * 60_000 for earlier, later in pairwise(times))
        assert await shop.read(partial(_count_failed_runs, org=shop.owner.org)) == FAILING
        [*_, last] = office.script.received
        text = last.message.get_body(("plain",))
        assert text is not None
        assert f"{shop.service.settings.web_origin}/inbox" in text.get_content()


async def test_a_route_that_breaks_is_logged_once_with_its_channel(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Logs a route broken by a 410 once with its channel, and measures delays of the channels that accept."""
    async with open_office(database_url, clock, tmp_path, MailScript(), STEWARD_SLACK_HOSTS=HOST) as office:
        shop, lines = office.shop, list[str]()
        await _add_routes(shop)
        shop.fault("status", "POST", "/hooks", status=410)
        ctx = replace(office.ctx, log=Log(lines.append, clock, SecretRegister()))
        await tell(shop, failed(0))
        await fan_out.fan_out_due(ctx)
        await close.close_due(ctx)
        for channel in ctx.channels:
            while await deliver.deliver_due(ctx, channel):
                pass
        [line] = [entry for entry in map(json.loads, lines) if entry["action"] == "route_broken"]
        assert (line["level"], line["channel"]) == ("warning", "webhook")
        delays = {name: ctx.metrics.value("steward_message_delay_seconds", channel=name) for name in CHANNELS}
        assert {name for name, count in delays.items() if count} == {"email", "teams", "slack"}


async def test_a_pass_hands_out_a_bounded_number_of_notices(office: NotifiedShop) -> None:
    """Limits the pairs of notice and person in one transaction and continues in the next, without doubles."""
    ctx = replace(office.ctx, rules=replace(office.ctx.rules, fan_out_pairs=4))
    await tell(office.shop, *(failed(number) for number in range(5)))
    passes = [await fan_out.fan_out_due(ctx) for _ in range(3)]
    assert passes == [True, True, False]
    assert {row["state"] for row in await rows_of(office.shop, "notices")} == {"fanned_out"}
    assert [row["count"] for row in await rows_of(office.shop, "inbox")] == [5, 5]


async def test_leased_messages_not_begun_in_time_are_released(office: NotifiedShop) -> None:
    """Gives leased messages back without counting an attempt when a slow server leaves no time for them."""
    for name in ("cid", "dot", "eve", "fay"):
        await join(office.shop, name)
    await tell(office.shop, failed(1))
    await fan_out.fan_out_due(office.ctx)
    await close.close_due(office.ctx)

    async def take_a_minute(*_: object) -> str:
        await office.shop.clock.advance(61)
        return "250 2.1.5 Ok"

    script = office.script
    office.script.recipients.clear()
    original = script.handle_RCPT

    async def slow(server: object, session: object, envelope: object, address: str, options: object) -> str:
        await take_a_minute()
        return await original(server, session, envelope, address, options)  # type: ignore[arg-type]

    script.handle_RCPT = slow  # type: ignore[method-assign]
    await deliver.deliver_due(office.ctx, ChannelName.EMAIL)
    rows = await rows_of(office.shop, "messages")
    assert sorted((row["state"], row["attempt"]) for row in rows) == [("due", 0)] * 2 + [("sent", 1)] * 4
    script.handle_RCPT = original  # type: ignore[method-assign]
    await deliver.deliver_due(office.ctx, ChannelName.EMAIL)
    assert await office.states() == ["sent"] * 6
    assert len(script.received) == 6
