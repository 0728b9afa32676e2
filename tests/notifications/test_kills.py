"""A process that dies at any failpoint of notifications loses no fact and repeats a mail only unchanged.

`NOTICE_KILLS=500` kills that often on each engine, `KILL_SEED` chooses when.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from steward import failpoint
from tests.fake_clock import FakeClock
from tests.notifications.mailing_shop import open_office
from tests.notifications.notified_people import failed, join, rows_of, tell
from tests.outbound.mail_server import MailScript

KILLS = int(os.environ.get("NOTICE_KILLS", "12"))
SEED = os.environ.get("KILL_SEED", "1")
PLACES = ("after_fan_out", "after_message_lease", "after_message_sent")


class _ProcessKilled(BaseException):
    """Ends the process in the tests."""


@pytest.fixture
def killing() -> Iterator[None]:
    """Removes the failpoint watcher after the test."""
    yield
    failpoint.watch(None)


async def test_a_killed_process_loses_no_fact_and_repeats_the_same_bytes(
    database_url: str, clock: FakeClock, tmp_path: Path, killing: None
) -> None:
    """Counts every fact after kills at every failpoint; repeated mails have the same id and bytes."""
    random = Random(SEED)
    reached: dict[str, int] = defaultdict(int)
    async with open_office(database_url, clock, tmp_path, MailScript()) as office:
        await join(office.shop, "bea")
        for kill in range(KILLS):
            location, remaining = PLACES[kill % len(PLACES)], random.randint(0, 1)

            def die(name: str, path: str = location, left_side: int = remaining) -> None:
                reached[name] += 1
                if name == path and reached[name] > left_side:
                    raise _ProcessKilled

            await tell(office.shop, *(failed(kill * 10 + number) for number in range(3)))
            reached.clear()
            failpoint.watch(die)
            try:
                await office.later(minutes=15)
            except _ProcessKilled:
                pass
            failpoint.watch(None)
            await office.later(minutes=4)
        await office.later(minutes=30)
        await office.later(minutes=5)
        assert {row["state"] for row in await rows_of(office.shop, "notices")} == {"fanned_out"}
        counts: dict[int, int] = defaultdict(int)
        for row in await rows_of(office.shop, "inbox"):
            counts[row["person_id"]] += row["count"]
        assert set(counts.values()) == {KILLS * 3}
        messages = await rows_of(office.shop, "messages")
        assert {row["state"] for row in messages} == {"sent"}
        actual: dict[int, int] = defaultdict(int)
        for row in messages:
            actual[row["person_id"]] += row["count"]
        assert set(actual.values()) == {KILLS * 3}
        by_id: dict[str, list[bytes]] = defaultdict(list)
        for mail in office.script.received:
            by_id[str(mail.message["Message-ID"])].append(mail.content)
        assert len(by_id) == len(messages)
        assert all(len(set(contents)) == 1 for contents in by_id.values())
        assert len(office.script.received) - len(by_id) <= 2 * KILLS
