"""Mail to members: sent once, retried and given up, with a mail server that answers as a test decides."""

import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import time
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from steward.database.engine.base import Engine
from steward.database.notifications import messages
from steward.model.notice import (
    ChannelName,
    MailChoice,
    Notice,
    NoticeGroup,
    Preferences,
    QuietHours,
    Topic,
    facts_of,
)
from steward.notifications import account_mail, close, deliver, fan_out
from steward.notifications.account_mail import AccountMail
from tests.fake_clock import FakeClock
from tests.notifications.mailing_shop import NotifiedShop, open_office
from tests.notifications.notified_people import failed, join, prefer, rows_of, tell
from tests.outbound.mail_server import MailScript

# `WAITING=1000` sets the number of waiting mails; the suite uses fewer.
WAITING = int(os.environ.get("WAITING", "40"))
RUNS_DIGEST = {**Preferences().email, NoticeGroup.RUNS: MailChoice.DIGEST}


@pytest.fixture
async def office(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[NotifiedShop]:
    """Yields an office whose mail server accepts everything."""
    async with open_office(database_url, clock, tmp_path, MailScript()) as opened:
        yield opened


async def test_a_waiting_approval_reaches_its_people(office: NotifiedShop) -> None:
    """Mails a waiting approval to one recipient, with links to its page and the preferences alone."""
    run = await office.shop.waiting(await office.shop.hiding())
    [mail] = office.script.received
    approval = await office.shop.approval(run)
    assert mail.recipients == ["ada@tea.example"]
    headers = mail.message
    named = f"“{approval.automation_name}” on “{approval.store_label}”"
    assert headers["Subject"] == f"[test] {named} asks for approval of {approval.counts['total']} changes"
    assert headers["From"] == "Steward <steward@tea.example>"
    assert headers["Auto-Submitted"] == "auto-generated"
    assert headers["X-Auto-Response-Suppress"] == "All"
    assert headers["References"] == f"<automation-{approval.automation_id}@tea.example>"
    [row] = await rows_of(office.shop, "messages")
    assert headers["Message-ID"] == f"<{row['id']}@tea.example>"
    text = headers.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    origin = office.shop.service.settings.web_origin
    assert f"{origin}/approvals/{approval.id}" in text
    assert set(re.findall(r"https?://\S+", text)) == {
        f"{origin}/approvals/{approval.id}", f"{origin}/account/notifications",
    }  # fmt: skip
    assert await office.states() == ["sent"]


async def test_a_flood_is_one_mail_a_window_and_counts_all(office: NotifiedShop) -> None:
    """Sends the first notice at once and all others in one mail at the end of the window."""
    await tell(office.shop, failed(0))
    await office.turn()
    for batch in range(4):
        numbers = range(1 + batch * 300, 301 + batch * 300)
        await tell(office.shop, *(failed(number, automation=f"a{number % 7}") for number in numbers))
        await office.later(minutes=2)
        while await fan_out.fan_out_due(office.ctx):
            pass
    assert len(office.script.received) == 1
    await office.later(minutes=8)
    assert [row["count"] for row in await rows_of(office.shop, "messages")].count(1200) == 1
    [_, flood] = office.script.received
    text = flood.message.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert "1,200 notices about runs" in flood.message["Subject"] or "1,200 runs" in flood.message["Subject"]
    assert "and 1,180 more" in text
    assert text.count("/runs/run") == 20


async def test_a_subject_names_no_automation_if_some_notices_are_only_counted(office: NotifiedShop) -> None:
    """Names an automation in the subject if all notices are of it and listed, and else counts them all."""
    await tell(office.shop, failed(0))
    await office.turn()
    await tell(office.shop, *(failed(number, automation="b") for number in range(1, 31)))
    await fan_out.fan_out_due(office.ctx)
    await office.shop.clock.advance(1)
    await tell(office.shop, *(failed(number, automation="a") for number in range(31, 51)))
    await office.later(minutes=15)
    [_, unlisted] = office.script.received
    text = unlisted.message.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert "Automation a" in text
    assert "Automation b" not in text
    assert unlisted.message["Subject"] == "[test] 50 notices about runs"
    await tell(office.shop, *(failed(number, automation="a") for number in range(51, 71)))
    await office.later(minutes=15)
    [_, _, listed] = office.script.received
    assert listed.message["Subject"] == "[test] “Automation a” on “Shop”: 20 runs failed"


async def test_decided_approvals_are_dropped_from_messages(office: NotifiedShop) -> None:
    """Drops a decided approval from its message and does not send a message that is empty then."""
    run = await office.shop.waiting(await office.shop.hiding())
    again = await office.shop.waiting(await office.shop.hiding())
    assert len(office.script.received) == 1
    await office.shop.reject(again)
    await office.later(minutes=15)
    assert len(office.script.received) == 1
    assert sorted(await office.states()) == ["obsolete", "sent"]
    await office.shop.reject(run)


async def test_nothing_is_sent_to_people_who_left_or_turned_it_off(office: NotifiedShop) -> None:
    """Sends nothing to a person who left or switched the mails off, checked when the message closes."""
    await tell(office.shop, failed(1))
    await office.turn()
    await tell(office.shop, failed(2))
    await office.turn()
    await office.shop.tamper("UPDATE members SET active = FALSE WHERE org_id = :org")
    await office.later(minutes=15)
    assert sorted(await office.states()) == ["obsolete", "sent"]
    bea = await join(office.shop, "bea")
    off = {**Preferences().email, NoticeGroup.RUNS: MailChoice.OFF}
    await prefer(office.shop, bea, Preferences(email=off))
    await tell(office.shop, failed(3))
    await office.turn()
    assert len(office.script.received) == 1
    assert {row["person_id"] for row in await rows_of(office.shop, "inbox")} >= {bea.id}


async def test_a_closed_mail_is_dropped_when_its_receiver_muted_all_its_notices(office: NotifiedShop) -> None:
    """Does not send a closed mail when its receiver has switched off every group that it tells of."""
    bea = await join(office.shop, "bea")
    stopped = Notice(topic=Topic.CHANGES_STOPPED, dedupe="stopped", facts=facts_of(name="Freeze"))
    await tell(office.shop, failed(1), stopped)
    await fan_out.fan_out_due(office.ctx)
    await close.close_due(office.ctx)
    runs_off = {**Preferences().email, NoticeGroup.RUNS: MailChoice.OFF}
    all_off = {**runs_off, NoticeGroup.AUTOMATIONS: MailChoice.OFF}
    await prefer(office.shop, bea, Preferences(email=runs_off))
    await prefer(office.shop, office.ada, Preferences(email=all_off))
    await office.turn()
    assert [mail.recipients for mail in office.script.received] == [["bea@tea.example"]]
    assert sorted(await office.states()) == ["obsolete", "sent"]


async def test_a_digest_waits_for_its_time(office: NotifiedShop) -> None:
    """Sends a digest at 08:00 in the organization's zone on a working day with everything in one mail."""
    await prefer(office.shop, office.ada, Preferences(email=RUNS_DIGEST, timezone="Europe/Berlin"))
    await tell(office.shop, failed(1))  # Friday, 08:00 in Berlin
    await office.turn()
    await office.later(days=2, hours=23, minutes=59)
    await tell(office.shop, failed(2))
    await office.turn()
    assert office.script.received == []
    await office.later(minutes=1)
    [mail] = office.script.received
    assert mail.message["Subject"] == "[test] Digest: “Automation a1” on “Shop”: 2 runs failed"


async def test_quiet_hours_hold_everything_but_an_approval_that_would_expire(office: NotifiedShop) -> None:
    """Holds a notice during quiet hours and sends it at their end."""
    night = QuietHours(time(0), time(12), frozenset(range(7)))
    await prefer(office.shop, office.ada, Preferences(quiet_hours=night, timezone="UTC"))
    await tell(office.shop, failed(1))
    await office.turn()
    assert office.script.received == []
    await office.later(hours=6)
    assert len(office.script.received) == 1


async def test_a_message_that_a_lost_worker_had_is_sent_again_with_the_same_bytes(
    office: NotifiedShop,
) -> None:
    """Sends a message again with the same bytes when the outcome of the first attempt was not stored."""
    await tell(office.shop, failed(1))
    await fan_out.fan_out_due(office.ctx)
    await close.close_due(office.ctx)
    broken = replace(office.ctx, engine=cast("Engine", _FailingEngine(office.ctx.engine)))
    with pytest.raises(ConnectionError):
        await deliver.deliver_due(broken, ChannelName.EMAIL)
    assert await office.states() == ["sending"]
    await office.later(minutes=2)
    assert len(office.script.received) == 1
    await office.later(minutes=2)
    first, second = office.script.received
    assert first.content == second.content
    assert await office.states() == ["sent"]
    assert [row["attempt"] for row in await rows_of(office.shop, "messages")] == [2]


class _FailingEngine:
    """An engine that fails after its first write, so that the lease is stored and the outcome is not."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.writes = engine, 0
        self.dialect = engine.dialect

    async def read(self, *args: Any, **more: Any) -> Any:
        return await self.engine.read(*args, **more)

    async def write(self, *args: Any, **more: Any) -> Any:
        self.writes += 1
        if self.writes > 1:
            raise ConnectionError("the process is gone")
        return await self.engine.write(*args, **more)


async def test_a_temporary_refusal_is_tried_again_later_each_time(
    sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Retries after 5 s to 12 hours, give or take a fifth, and expires the message after a day."""
    script = MailScript(recipients={"ada@tea.example": "451 4.7.1 Greylisted, try again later"})
    async with open_office(sqlite_url, clock, tmp_path, script) as office:
        await tell(office.shop, failed(1))
        await office.turn()
        waits = []
        while await office.states() == ["due"]:
            [row] = await rows_of(office.shop, "messages")
            assert row["last_status"] == 451
            waits.append(row["next_try_at"] / 1000 - clock.now().timestamp())
            await office.later(seconds=waits[-1])
        assert await office.states() == ["expired"]
        bases = (5, 60, 300, 1800, 7200, 21_600, 43_200)
        assert all(0.79 * base <= wait <= 1.21 * base for wait, base in zip(waits, bases, strict=False))
        assert 6 <= len(waits) <= 7
        assert script.received == []


async def test_a_person_whose_mail_is_refused_three_times_gets_the_inbox_alone(
    sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Stops mailing a person after three refusals in a row; the inbox still receives everything."""
    script = MailScript(recipients={"ada@tea.example": "550 5.1.1 No such user"})
    async with open_office(sqlite_url, clock, tmp_path, script) as office:
        for number in range(2):
            await tell(office.shop, failed(number))
            await office.later(minutes=15)
        script.recipients.clear()
        await tell(office.shop, failed(2))
        await office.later(minutes=15)
        script.recipients["ada@tea.example"] = "550 5.1.1 No such user"
        for number in range(3, 8):
            await tell(office.shop, failed(number))
            await office.later(minutes=15)
        states = await office.states()
        assert states == ["refused", "refused", "sent", "refused", "refused", "refused"]
        assert [row["mail_refusals"] for row in await rows_of(office.shop, "notification_preferences")] == [3]
        assert [row["count"] for row in await rows_of(office.shop, "inbox")] == [8]


async def test_while_the_server_is_down_messages_wait_and_lose_no_try(
    sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Keeps messages due without counting attempts while the server is down, then sends each once."""
    script = MailScript()
    async with open_office(sqlite_url, clock, tmp_path, script) as office:
        channel: Any = office.ctx.channels[ChannelName.EMAIL]
        gone = replace(channel, server=replace(channel.server, address="smtp://127.0.0.1:9"))
        away = replace(office.ctx, channels={ChannelName.EMAIL: gone})
        people = WAITING
        for number in range(people - 1):
            await join(office.shop, f"p{number}")
        await tell(office.shop, failed(1))
        await fan_out.fan_out_due(office.ctx)
        while await close.close_due(office.ctx):
            pass
        for _ in range(10):
            assert not await deliver.deliver_due(away, ChannelName.EMAIL)
            await office.shop.clock.advance(36 * 60)
        rows = await rows_of(office.shop, "messages")
        assert {row["state"] for row in rows} == {"due"}
        assert {row["attempt"] for row in rows} == {0}
        assert office.ctx.metrics.value("steward_messages_total", channel="email", outcome="try_again") <= 14
        while await deliver.deliver_due(office.ctx, ChannelName.EMAIL):
            pass
        await office.later(minutes=1)
        assert len(script.received) == people
        assert await office.states() == ["sent"] * people


async def test_an_organization_has_a_daily_mail_limit(
    sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Defers mails beyond the organization's daily limit to the next day and says so."""
    async with open_office(sqlite_url, clock, tmp_path, MailScript()) as office:
        office.shop.service = replace(
            office.shop.service,
            notifications=replace(office.ctx, rules=replace(office.ctx.rules, mail_per_day=1)),
        )
        await tell(office.shop, failed(1))
        await office.turn()
        await tell(office.shop, failed(2))
        await office.later(minutes=15)
        assert len(office.script.received) == 1
        [waiting] = [row for row in await rows_of(office.shop, "messages") if row["state"] == "due"]
        assert "used up" in waiting["error"]
        await office.later(hours=18)
        assert len(office.script.received) == 2


async def test_a_mail_of_ones_account_is_sealed_until_it_is_sent(
    sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Stores an account mail sealed and erases it after delivery."""
    async with open_office(sqlite_url, clock, tmp_path, MailScript()) as office:
        shop, link = office.shop, "https://steward.example/invitation#secret"
        mail = AccountMail("new@tea.example", "You are invited", ["Ada invited you."], link)
        vault = shop.service.context.vault
        queue = partial(account_mail.send, vault=vault, org=shop.owner.org, person=office.ada.id, mail=mail)
        await shop.write(queue)
        assert b"secret" not in str(await rows_of(shop, "messages")).encode()
        await office.turn()
        [received] = office.script.received
        assert received.recipients == ["new@tea.example"]
        assert link in received.message.get_body(("plain",)).get_content()  # type: ignore[union-attr]
        [row] = await rows_of(shop, "messages")
        assert (row["state"], row["sealed"]) == ("sent", None)


async def test_after_a_restore_nothing_that_may_have_been_sent_is_sent(office: NotifiedShop) -> None:
    """Marks unfinished messages as obsolete after a restore and sends new notices to the inbox alone."""
    await tell(office.shop, failed(1))
    await office.turn()
    await tell(office.shop, failed(2))
    await fan_out.fan_out_due(office.ctx)
    await tell(office.shop, failed(3))
    await office.shop.write(partial(messages.forget_before_restore, org=office.shop.owner.org))
    await office.later(hours=1)
    assert len(office.script.received) == 1
    assert sorted(await office.states()) == ["obsolete", "sent"]
    assert [row["count"] for row in await rows_of(office.shop, "inbox")] == [3]
