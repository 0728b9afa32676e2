"""Kills real processes while they make facts: each committed fact is told, and no other.

A mail comes again only when its process died before it stored the response. Every second kill is at a
random moment, the others at the failpoints in turn. `NOTICE_KILLS=1000` kills that often on each engine,
or until `NOTICE_SECONDS` have passed; `KILL_SEED` is the seed. Every few kills everything is judged and
the counts are printed. By default SQLite is killed twice.
"""

import asyncio
import contextlib
import os
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
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
from tests.processes.forked import DeathAt
from tests.processes.ports import free_port
from tests.processes.running import (
    CLOCK,
    PASSWORD,
    RunningProcess,
    add_organization,
    eventually,
    start_forked,
)

KILLS = int(os.environ.get("NOTICE_KILLS", "2"))
SECONDS = float(os.environ.get("NOTICE_SECONDS", "inf"))
KILL_SEED = os.environ.get("KILL_SEED", "1")
FAILPOINTS = ("after_fan_out", "after_message_lease", "after_message_sent")
MAX_PASSES = 8
LONGEST_LIFE_S = 1.0
# At most this many processes in a row are killed before one may send what they left.
MAX_CONSECUTIVE = 25

ENGINES = ["sqlite", "postgresql"] if "NOTICE_KILLS" in os.environ else ["sqlite"]


@pytest.fixture(params=ENGINES)
def site_url(request: pytest.FixtureRequest, session_folder: Path, tmp_path: Path) -> Iterator[str]:
    """Provides a migrated database on each engine."""
    if request.param == "sqlite":
        yield copy_migrated_sqlite(session_folder, tmp_path / "steward.db")
        return
    clones: Clones = request.getfixturevalue("clones")
    url = clones.clone()
    yield url
    clones.drop(url)


@dataclass
class MailingSite:
    """Holds a served organization of two owners, the acknowledged facts, and what their mail server got."""

    env: Mapping[str, str]
    web: httpx.AsyncClient
    script: MailScript
    engine: Engine
    service: RunningProcess
    csrf: dict[str, str] = field(default_factory=dict)
    answered_facts: set[str] = field(default_factory=set)
    content: dict[str, bytes] = field(default_factory=dict)  # of each message's first mail
    mails: Counter[str] = field(default_factory=Counter)  # number of mails by message
    unanswered: set[str] = field(default_factory=set)  # messages whose answer a kill may have lost
    kills: Counter[str] = field(default_factory=Counter)

    async def in_database(self, sql: str) -> list[dict[str, Any]]:
        """Runs a statement in the organization and returns its rows."""

        async def act(tx: Tx) -> list[dict[str, Any]]:
            return [dict(row) for row in await tx.all(sql)]

        return await self.engine.write(CLOCK.now(), act, org=OrgId(1))

    async def call(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Makes a call as the signed-in owner and returns its data; fails unless it succeeds."""
        response = await self.web.post(path, json=body, headers=self.csrf)
        assert response.status_code in (200, 201), response.text
        data: dict[str, Any] = response.json()["data"]
        return data


@pytest.fixture
async def mailed(site_url: str, tmp_path: Path) -> AsyncIterator[MailingSite]:
    """Provides the service with a mail server and no window, so that every fact becomes a mail at once."""
    script = MailScript()
    async with mail_server(script) as port:
        env = _environ(site_url, tmp_path, mail_server_address=f"127.0.0.1:{port}")
        await add_organization(env, "Test Shop", "owner")
        engine = await open_engine(read(env), CLOCK, serve=False)
        await engine.write(CLOCK.now(), _add_owner, org=OrgId(1))
        service = await start_forked("serve", env=env)
        async with httpx.AsyncClient(base_url=env["STEWARD_BASE_URL"], timeout=30) as web:
            site = MailingSite(env, web, script, engine, service)
            session = await site.call("/app/session", {"email": "owner@shop.example", "password": PASSWORD})
            site.csrf = {"X-CSRF-Token": session["session"]["csrf_token"]}
            yield site
        await site.service.kill()
        await engine.close()


def _environ(database_url: str, folder: Path, *, mail_server_address: str) -> dict[str, str]:
    address = f"127.0.0.1:{free_port()}"
    return {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": database_url,
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_METRICS_LISTEN": "off",
        "STEWARD_LOG_LEVEL": "error",
        "STEWARD_LISTEN": address,
        "STEWARD_BASE_URL": f"http://{address}",
        "STEWARD_ALLOW_PRIVATE_HOSTS": mail_server_address,
        "STEWARD_SMTP_URL": f"smtp://{mail_server_address}",
        "STEWARD_MAIL_FROM": "Steward <steward@shop.example>",
        "STEWARD_NOTIFY_WINDOW_MINUTES": "0",
        # What a person, an organization or a client may do in a time has tests of its own.
        **dict.fromkeys(
            (
                "STEWARD_MAIL_PER_DAY",
                "STEWARD_LIMIT_PERSON",
                "STEWARD_LIMIT_ORGANIZATION",
                "STEWARD_LIMIT_WEB",
            ),
            "1000000",
        ),
    }


async def _add_owner(tx: Tx) -> None:
    person = await people.create(tx, CreatePerson("bea@shop.example", "bea", "Bea", "Person"))
    await people.add_to_organization(tx, person, OrgId(1), Role.OWNER)


async def test_kills_lose_no_fact_and_no_mail(mailed: MailingSite) -> None:
    """Tells each person each fact once; a mail is repeated only after a kill, with the same bytes."""
    chance, until = Random(KILL_SEED), CLOCK.monotonic() + SECONDS
    while mailed.kills.total() < KILLS and (CLOCK.monotonic() < until or not mailed.kills):
        for _ in range(min(chance.randint(1, MAX_CONSECUTIVE), KILLS - mailed.kills.total())):
            await mailed.service.kill()
            await _live_and_die(mailed, chance)
        mailed.service = await start_forked("serve", env=mailed.env)
        await _recover(mailed)
        counts = await _judge(mailed)
        kills = ", ".join(f"{number} {moment}" for moment, number in sorted(mailed.kills.items()))
        print(f"{mailed.engine.dialect}: {mailed.kills.total()} kills ({kills}), {counts}", flush=True)


async def _live_and_die(mailed: MailingSite, chance: Random) -> None:
    """Serves and makes facts until the process is killed at a random moment or at a failpoint."""
    number = mailed.kills.total()
    failpoint = FAILPOINTS[number // 2 % len(FAILPOINTS)] if number % 2 else None
    death = DeathAt(failpoint, chance.randrange(MAX_PASSES)) if failpoint else None
    mailed.service = await start_forked("serve", env=mailed.env, death=death)
    making = asyncio.create_task(_make_facts(mailed))
    if death is None:
        await CLOCK.sleep(chance.uniform(0.0, LONGEST_LIFE_S))
        await mailed.service.kill()
    assert await mailed.service.child.wait() == -signal.SIGKILL
    await making
    mailed.kills[failpoint or "at random"] += 1
    await _tally(mailed)
    sending = await mailed.in_database("SELECT id FROM messages WHERE state = 'sending'")
    mailed.unanswered |= {row["id"] for row in sending}
    # Expires the leases of the killed deliveries.
    await mailed.in_database("UPDATE messages SET lease_until = 1, next_try_at = 1 WHERE state = 'sending'")


async def _make_facts(mailed: MailingSite) -> None:
    """Stops and resumes changes again and again until the service dies; each of them is a fact."""
    with contextlib.suppress(httpx.TransportError):
        while True:
            await _make_two_facts(mailed)


async def _make_two_facts(mailed: MailingSite) -> None:
    frozen = await mailed.call("/app/freeze", {"scope": {"kind": "organization"}})
    period = frozen["closed_period"]
    mailed.answered_facts.add(f"changes_stopped:{period['id']}:begun")
    await mailed.call(f"/app/closed-periods/{period['id']}/end", {"version": period["version"]})
    mailed.answered_facts.add(f"changes_stopped:{period['id']}:over")


async def _tally(mailed: MailingSite) -> None:
    """Counts the mails that a process sent, once all of its connections have ended."""

    async def is_cut_off() -> bool:
        return mailed.script.open_now == 0

    await eventually(is_cut_off)
    arrived: Counter[str] = Counter()
    for mail in mailed.script.received:
        message = str(mail.message["Message-ID"]).strip("<>").partition("@")[0]
        assert mail.content == mailed.content.setdefault(message, mail.content)
        assert message not in mailed.mails or message in mailed.unanswered
        arrived[message] += 1
    mailed.script.received.clear()
    assert max(arrived.values(), default=1) == 1
    mailed.mails += arrived


async def _recover(mailed: MailingSite) -> None:
    """Makes two more facts and waits until everybody has been told."""
    await _make_two_facts(mailed)

    async def is_over() -> bool:
        [row] = await mailed.in_database(
            "SELECT (SELECT count(*) FROM notices WHERE state <> 'fanned_out')"
            " + (SELECT count(*) FROM messages WHERE next_try_at IS NOT NULL) AS open"
        )
        return bool(row["open"] == 0)

    await eventually(is_over)


async def _judge(mailed: MailingSite) -> str:
    """Compares all facts with what is stored and mailed, and returns the counts."""
    await mailed.service.kill()
    await _tally(mailed)
    audited = await mailed.in_database(
        "SELECT action, object_id FROM audit_log WHERE action IN ('frozen', 'unfrozen')"
    )
    edges = {"frozen": "begun", "unfrozen": "over"}
    facts = sorted(f"changes_stopped:{row['object_id']}:{edges[row['action']]}" for row in audited)
    stored = await mailed.in_database("SELECT id, dedupe FROM notices")
    assert sorted(row["dedupe"] for row in stored) == facts
    assert mailed.answered_facts <= set(facts)
    inboxes = await mailed.in_database("SELECT sum(count) AS notices FROM inbox GROUP BY person_id")
    assert [row["notices"] for row in inboxes] == [len(facts)] * 2
    messages = await mailed.in_database("SELECT id, state FROM messages")
    assert {row["state"] for row in messages} == {"sent"}
    pairs = await mailed.in_database(
        "SELECT m.person_id, l.notice_id FROM message_notices AS l"
        " JOIN messages AS m ON m.org_id = l.org_id AND m.id = l.message_id"
    )
    of_person: dict[int, list[str]] = defaultdict(list)
    for row in pairs:
        of_person[row["person_id"]].append(row["notice_id"])
    assert [sorted(ids) for ids in of_person.values()] == [sorted(row["id"] for row in stored)] * 2
    assert set(mailed.mails) == {row["id"] for row in messages}
    repeats = mailed.mails.total() - len(messages)
    return f"{len(facts)} facts, {len(messages)} messages, {repeats} repeats"
