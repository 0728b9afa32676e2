"""Real processes: kill -9 at random while facts are made. Each fact that committed is told, none is lost.

`NOTICE_KILLS=500` kills so often on each engine, `KILL_SEED` chooses when; without it SQLite is killed once.
"""

import asyncio
import contextlib
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
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
KILL_SEED = os.environ.get("KILL_SEED", "1")
LONGEST_LIFE_S = 1.5


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


async def _make_facts(site: Site, over: asyncio.Event) -> None:
    """All changes are stopped and let go on, again and again: each is a fact. A call may be cut off."""
    while not over.is_set():
        with contextlib.suppress(httpx.HTTPError, AssertionError):
            frozen = await site.call("POST", "/app/freeze", {"scope": {"kind": "organization"}})
            period = frozen["closed_period"]
            await site.call("POST", f"/app/closed-periods/{period['id']}/end", {"version": period["version"]})


async def test_random_kills_lose_no_fact_and_no_mail(mailed: Mailed) -> None:
    """One notice a fact and person; every mail accepted, repeats with the same id and bytes."""
    site, chance, over = mailed.site, Random(KILL_SEED), asyncio.Event()
    making = asyncio.create_task(_make_facts(site, over))
    for _ in range(KILLS):
        await CLOCK.sleep(chance.uniform(0.0, LONGEST_LIFE_S))
        await site.service.kill()
        await site.serve_again()
    over.set()
    await making
    await site.service.kill()
    # As when the leases of killed deliveries have passed.
    await mailed.in_database("UPDATE messages SET lease_until = 1, next_try_at = 1 WHERE state = 'sending'")
    await mailed.in_database("UPDATE messages SET next_try_at = 1 WHERE state = 'due'")
    await site.serve_again()

    async def is_over() -> bool:
        [row] = await mailed.in_database(
            "SELECT (SELECT count(*) FROM notices WHERE state <> 'fanned_out')"
            " + (SELECT count(*) FROM messages WHERE next_try_at IS NOT NULL) AS open"
        )
        return bool(row["open"] == 0)

    await eventually(is_over)
    await _judge(mailed)


async def _judge(mailed: Mailed) -> None:
    [facts] = await mailed.in_database(
        "SELECT count(*) AS facts FROM audit_log WHERE action IN ('frozen', 'unfrozen')"
    )
    told = await mailed.in_database("SELECT id, dedupe FROM notices")
    assert len(told) == facts["facts"] > 0
    rows = await mailed.in_database("SELECT person_id, sum(count) AS told FROM inbox GROUP BY person_id")
    assert [row["told"] for row in rows] == [len(told)] * 2
    messages = await mailed.in_database("SELECT id, person_id, state FROM messages")
    assert {row["state"] for row in messages} == {"sent"}
    pairs = await mailed.in_database(
        "SELECT m.person_id, l.notice_id FROM message_notices AS l"
        " JOIN messages AS m ON m.org_id = l.org_id AND m.id = l.message_id"
    )
    of_person: dict[int, list[str]] = defaultdict(list)
    for row in pairs:
        of_person[row["person_id"]].append(row["notice_id"])
    assert [sorted(ids) for ids in of_person.values()] == [sorted(row["id"] for row in told)] * 2
    by_id: dict[str, set[bytes]] = defaultdict(set)
    for mail in mailed.script.received:
        by_id[str(mail.message["Message-ID"]).strip("<>").partition("@")[0]].add(mail.content)
    assert set(by_id) == {row["id"] for row in messages}
    assert all(len(contents) == 1 for contents in by_id.values())
    repeats = len(mailed.script.received) - len(by_id)
    print(f"{KILLS} kills, {len(told)} facts, {len(by_id)} mails, {repeats} repeats")
