"""Many facts and many people: few messages, every fact counted, and what is read does not grow with both.

`FLOOD=10000` is the number that the bar asks for.
"""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from steward.model.notice import ChannelName
from steward.notifications import close, deliver, fan_out
from tests.fake_clock import FakeClock
from tests.notifications.office import Office, open_office
from tests.notifications.telling import failed, join, rows_of, tell
from tests.outbound.mail_server import MailScript

FLOOD = int(os.environ.get("FLOOD", "600"))


@pytest.fixture
async def office(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Office]:
    """An office with a mail server and two owners."""
    async with open_office(database_url, clock, tmp_path, MailScript()) as opened:
        await join(opened.shop, "bea")
        yield opened


async def test_a_flood_is_one_message_a_person_and_every_fact_is_counted(office: Office) -> None:
    """The first was told at once, the rest in one mail at the end of the window with 20 lines."""
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


async def test_a_pass_hands_out_so_many_notices_that_it_stays_short(office: Office) -> None:
    """Notices times people have a limit a transaction; what is left follows in the next, none twice."""
    ctx = replace(office.ctx, rules=replace(office.ctx.rules, fan_out_pairs=4))
    await tell(office.shop, *(failed(number) for number in range(5)))
    passes = [await fan_out.fan_out_due(ctx) for _ in range(3)]
    assert passes == [True, True, False]
    assert {row["state"] for row in await rows_of(office.shop, "notices")} == {"fanned_out"}
    assert [row["count"] for row in await rows_of(office.shop, "inbox")] == [5, 5]


async def test_what_was_leased_and_not_begun_in_time_is_given_back(office: Office) -> None:
    """A slow server holds four messages; the others do not outlive their lease, and lose no try."""
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
