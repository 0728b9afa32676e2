"""Pages that a person opens to see what there is to know: an inbox of 10,000 lines, preferences."""

import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial

from bench.load import get
from bench.postgres import fresh_database
from bench.rounds import Case, Env, Figure, OpenCase
from bench.servers import Server, beside_framework, framework_round
from bench.service import Bench, open_bench
from steward.database.engine.base import Tx
from steward.database.notifications import inbox, own_preferences
from steward.database.notifications.inbox import InboxGroup
from steward.model.automation import Automation
from steward.model.ids import NoticeId, RunId, new_id
from steward.model.notice import Notice, Preferences, StoredNotice, Topic, facts_of

LINES = 10_000
AUTOMATIONS = 1_000
MUTED = 500
_PAGES = {"inbox": "/app/inbox", "preferences": "/app/notification-preferences"}


@contextlib.asynccontextmanager
async def _measured(url: str, env: Env) -> AsyncIterator[OpenCase]:
    bench = await open_bench(url, env.folder)
    automations = await bench.automations(AUTOMATIONS)
    await bench.write(partial(_fill_inbox, bench=bench, automations=automations))
    muted = Preferences(muted=frozenset(automation.id for automation in automations[:MUTED]))
    owner = bench.owner
    await bench.write(partial(own_preferences.save, org=owner.org, person=owner.person, preferences=muted))
    headers = await bench.sign_in()
    await bench.service.close()
    async with beside_framework(url, env.folder, _PAGES["inbox"], headers) as (steward, framework):
        count = env.size(200, 40)
        yield OpenCase(partial(_round, steward, headers, count), partial(framework_round, framework, 2_000))


async def _fill_inbox(tx: Tx, *, bench: Bench, automations: list[Automation]) -> None:
    """Adds 10,000 unread lines of failed runs."""
    groups = []
    for number in range(LINES):
        automation = automations[number % AUTOMATIONS]
        notice = Notice(
            topic=Topic.RUN_FAILED,
            dedupe=f"bench|{number}",
            facts=facts_of(automation=automation.name, store="Bench", code="step_failed"),
            automation=automation.id,
            run=RunId(new_id(tx.now)),
        )
        stored = StoredNotice(bench.owner.org, NoticeId(new_id(tx.now)), notice, tx.now)
        group = InboxGroup(f"run_failed|{number}", stored, count=1, automations=1, first_at=tx.now)
        groups.append((bench.owner.person, group))
    await inbox.add_many(tx, bench.owner.org, groups, read=False)


async def _round(server: Server, headers: Mapping[str, str], count: int) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    for name, path in _PAGES.items():
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            await get(server.port, path, headers)
            times.append((time.perf_counter() - begun) * 1000)
        _, cpu = await server.of_one(path, headers, count)
        figures |= {f"{name}_p95": statistics.quantiles(times, n=20)[-1], f"{name}_cpu": cpu / 1000}
    return figures


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database: everything in the server's process."""
    async with _measured(f"sqlite:///{env.folder}/steward.db", env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """PostgreSQL beside the server's process."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _measured(url, env) as opened:
        yield opened


_FIGURES = (
    Figure("inbox_p95", "ms", maximum=50),
    Figure("inbox_cpu", "ms of CPU per page", "bare framework CPU"),
    Figure("preferences_p95", "ms", maximum=50),
    Figure("preferences_cpu", "ms of CPU per page", "bare framework CPU"),
)
CASES = (
    Case("inbox_sqlite", _FIGURES, on_sqlite),
    Case("inbox_postgres", _FIGURES, on_postgres, needs_postgres=True),
)
