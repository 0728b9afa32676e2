"""Real processes: kill -9 at random while facts are made. Each fact that committed is told, none is lost.

The outcome is judged and printed after every few kills. `NOTICE_KILLS=500` kills so often on each engine, or
until `NOTICE_SECONDS` have passed; `KILL_SEED` chooses when. Without them SQLite is killed once.
"""

import asyncio
import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from steward.accounts import people
from steward.accounts.people import CreatePerson
from steward.config import read
from steward.database.engine.base import Engine, Tx
from steward.model.account import Role
from steward.model.ids import OrgId
from steward.startup import open_engine
from tests.databases import Clones, copy_migrated_sqlite
from tests.outbound.mail_server import MailScript, mail_server
from tests.processes.running import CLOCK, Site, eventually, open_site

KILLS = int(os.environ.get("NOTICE_KILLS", "1"))
SECONDS = float(os.environ.get("NOTICE_SECONDS", "inf"))
KILL_SEED = os.environ.get("KILL_SEED", "1")
LONGEST_LIFE_S = 1.5
# At most so many processes in a row are killed before one may tell what they left.
MOST_IN_A_ROW = 3

ENGINES = ["sqlite", "postgresql"] if "NOTICE_KILLS" in os.environ else ["sqlite"]


@pytest.fixture(params=ENGINES)
def site_url(request: pytest.FixtureRequest, session_folder: Path, tmp_path: Path) -> Iterator[str]:
    """A fresh migrated database on each engine."""
    if request.param == "sqlite":
        yield copy_migrated_sqlite(session_folder, tmp_path / "steward.db")
        return
    clones: Clones = request.getfixturevalue("clones")
    url = clones.clone()
    yield url
    clones.drop(url)


@dataclass
class Mailed:
    """A served organisation of two owners, and what their mail server got."""

    site: Site
    script: MailScript
    engine: Engine
    first_content: dict[str, bytes] = field(default_factory=dict)  # of each message
    mails: int = 0

    async def in_database(self, sql: str) -> list[dict[str, Any]]:
        """Runs a statement in the organisation, as time or a reader would."""

        async def act(tx: Tx) -> list[dict[str, Any]]:
            return [dict(row) for row in await tx.all(sql)]

        return await self.engine.write(CLOCK.now(), act, org=OrgId(1))


@pytest.fixture
async def mailed(site_url: str, tmp_path: Path) -> AsyncIterator[Mailed]:
    """The service with a mail server and no window, so that every fact becomes a mail at once."""
    script = MailScript()
    async with mail_server(script) as port:
        mail = {
            "STEWARD_SMTP_URL": f"smtp://127.0.0.1:{port}",
            "STEWARD_MAIL_FROM": "Steward <steward@shop.example>",
            "STEWARD_NOTIFY_WINDOW_MINUTES": "0",
        }
        async with open_site(site_url, tmp_path, private_hosts=[f"127.0.0.1:{port}"], **mail) as site:
            engine = await open_engine(read(dict(site.env)), CLOCK, serve=False)
            await engine.write(CLOCK.now(), _add_owner, org=OrgId(1))
            yield Mailed(site, script, engine)
            await engine.close()


async def _add_owner(tx: Tx) -> None:
    person = await people.create(tx, CreatePerson("bea@shop.example", "bea", "Bea", "Person"))
    await people.add_to_organization(tx, person, OrgId(1), Role.OWNER)


async def _make_facts(site: Site) -> None:
    """Stops all changes and lets them go on, again and again, until the service dies: each is a fact."""
    with contextlib.suppress(httpx.TransportError):
        while True:
            await _make_two_facts(site)


async def _make_two_facts(site: Site) -> None:
    frozen = await site.call("POST", "/app/freeze", {"scope": {"kind": "organization"}})
    period = frozen["closed_period"]
    await site.call("POST", f"/app/closed-periods/{period['id']}/end", {"version": period["version"]})


async def test_random_kills_lose_no_fact_and_no_mail(mailed: Mailed) -> None:
    """One notice a fact and person; every mail accepted, repeated after a kill alone and with its bytes."""
    site, chance, until = mailed.site, Random(KILL_SEED), CLOCK.monotonic() + SECONDS
    kills = 0
    while kills < KILLS and (CLOCK.monotonic() < until or not kills):
        in_a_row = min(chance.randint(1, MOST_IN_A_ROW), KILLS - kills)
        for number in range(in_a_row):
            if number:
                await site.serve_again()
            making = asyncio.create_task(_make_facts(site))
            await CLOCK.sleep(chance.uniform(0.0, LONGEST_LIFE_S))
            await site.service.kill()
            await making
        kills += in_a_row
        await _recover(mailed)
        judged = await _judge(mailed, kills=in_a_row)
        print(f"{mailed.engine.dialect}: {kills} kills, {judged}", flush=True)


async def _recover(mailed: Mailed) -> None:
    """Serves again, as once the leases of killed deliveries have passed, until everybody is told."""
    await mailed.in_database("UPDATE messages SET lease_until = 1, next_try_at = 1 WHERE state = 'sending'")
    await mailed.in_database("UPDATE messages SET next_try_at = 1 WHERE state = 'due'")
    await mailed.site.serve_again()
    await _make_two_facts(mailed.site)

    async def is_over() -> bool:
        [row] = await mailed.in_database(
            "SELECT (SELECT count(*) FROM notices WHERE state <> 'fanned_out')"
            " + (SELECT count(*) FROM messages WHERE next_try_at IS NOT NULL) AS open"
        )
        return bool(row["open"] == 0)

    await eventually(is_over)


async def _judge(mailed: Mailed, *, kills: int) -> str:
    """Compares all facts with what is stored and mailed, `kills` after the last time; returns the counts."""
    [audited] = await mailed.in_database(
        "SELECT count(*) AS facts FROM audit_log WHERE action IN ('frozen', 'unfrozen')"
    )
    notices = sorted(row["id"] for row in await mailed.in_database("SELECT id FROM notices"))
    assert len(notices) == audited["facts"] > 0
    inboxes = await mailed.in_database("SELECT sum(count) AS notices FROM inbox GROUP BY person_id")
    assert [row["notices"] for row in inboxes] == [len(notices)] * 2
    messages = await mailed.in_database("SELECT id, state FROM messages")
    assert {row["state"] for row in messages} == {"sent"}
    pairs = await mailed.in_database(
        "SELECT m.person_id, l.notice_id FROM message_notices AS l"
        " JOIN messages AS m ON m.org_id = l.org_id AND m.id = l.message_id"
    )
    of_person: dict[int, list[str]] = defaultdict(list)
    for row in pairs:
        of_person[row["person_id"]].append(row["notice_id"])
    assert [sorted(ids) for ids in of_person.values()] == [notices] * 2
    _judge_mails(mailed, {row["id"] for row in messages}, kills=kills)
    repeats = mailed.mails - len(messages)
    return f"{len(notices)} facts, {len(messages)} mails, {repeats} repeats"


def _judge_mails(mailed: Mailed, messages: set[str], *, kills: int) -> None:
    """Every message arrived; again at most once for each kill, never once judged, and with the same bytes."""
    arrived: Counter[str] = Counter()
    judged_before = set(mailed.first_content)
    for mail in mailed.script.received:
        message = str(mail.message["Message-ID"]).strip("<>").partition("@")[0]
        assert mail.content == mailed.first_content.setdefault(message, mail.content)
        arrived[message] += 1
    assert set(mailed.first_content) == messages
    assert judged_before.isdisjoint(arrived)
    assert max(arrived.values()) <= kills + 1
    mailed.mails += len(mailed.script.received)
    mailed.script.received.clear()
