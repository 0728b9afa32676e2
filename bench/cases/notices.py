"""What telling people costs: runs beside it; and 1,000 facts for 1,000 people until their mails are sent."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from bench.cases.five_steps import AUTOMATIONS, CALLERS, five_steps_round
from bench.postgres import fresh_database, server_cpu
from bench.rounds import Case, Env, Figure, OpenCase
from bench.service import BY_HAND, FIVE_STEPS, Bench, open_bench
from steward import periodic_tasks, worker
from steward.accounts import people
from steward.accounts.people import CreatePerson
from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.database.engine.base import Tx
from steward.database.notifications import notices
from steward.model.account import Role
from steward.model.automation import Automation
from steward.model.ids import AutomationId
from steward.model.notice import Notice, Topic, facts_of

PEOPLE = 1000
_SENDER = "Steward <steward@bench.example>"
# No window: no mail is held back for its end.
_SETTINGS = {"env": "test", "notify_window_minutes": "0"}
_MAIL = {"smtp_url": "smtp://127.0.0.1:9", "mail_from": _SENDER, "allow_private_hosts": "127.0.0.1:9"}


class MailSink:
    """A mail server that takes everything and remembers when it accepted whose mail."""

    def __init__(self) -> None:
        self.accepted_at: dict[str, float] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speaks with one client until it goes."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            recipient = ""
            writer.write(b"220 sink\r\n")
            while command := (await reader.readline()).upper():
                if command.startswith(b"RCPT TO:"):
                    recipient = command[9:].rpartition(b">")[0].decode().lower()
                if command.startswith(b"DATA"):
                    writer.write(b"354 go on\r\n")
                    await reader.readuntil(b"\r\n.\r\n")
                    self.accepted_at[recipient] = time.perf_counter()
                writer.write(b"250 ok\r\n")
                if command.startswith(b"QUIT"):
                    break
        writer.close()


@contextlib.asynccontextmanager
async def _runs(url: str, env: Env) -> AsyncIterator[OpenCase]:
    """Runs that end well, by a worker with the tasks of notifications over one without them.

    Both kinds of rounds use one service, and so the same warm connections; its mail server is never called.
    """
    bench = await open_bench(url, env.folder, **_SETTINGS, **_MAIL)
    automations = await bench.automations(AUTOMATIONS)
    short_round = partial(_short_round, bench, url, automations, env.size(600, 100))
    try:
        yield OpenCase(partial(_paired_rounds, short_round, env.size(8, 2)))
    finally:
        await bench.service.close()


async def _paired_rounds(
    short_round: Callable[[bool], Awaitable[Mapping[str, float]]], pairs: int
) -> Mapping[str, float]:
    """Alternates short rounds (with, without, without, with, ...) and returns the medians of their ratios.

    A busy machine slows both rounds of a pair alike; the server's CPU time, which is counted in hundredths of
    a second, is compared in sum.
    """
    with_tasks: list[Mapping[str, float]] = []
    without: list[Mapping[str, float]] = []
    for number in range(pairs):
        for notifies in (True, False) if number % 2 else (False, True):
            (with_tasks if notifies else without).append(await short_round(notifies))
    ratios = {
        name: statistics.median(
            observed[name] / base[name] for observed, base in zip(with_tasks, without, strict=True)
        )
        for name in ("runs", "per_cpu")
    }
    server = sum(other["server"] for other in without)
    return ratios | (
        {"per_server_cpu": server / sum(observed["server"] for observed in with_tasks)} if server else {}
    )


async def _short_round(
    bench: Bench, url: str, automations: Sequence[Automation], count: int, notifies: bool
) -> Mapping[str, float]:
    async with _working(bench, notifies=notifies):
        await bench.service.clock.sleep(1.5)  # every task has run before
        cpu = await _server_cpu(url)
        figures = await five_steps_round(bench, automations, count, CALLERS)
        server = await _server_cpu(url) - cpu
    return {"runs": figures["runs"], "per_cpu": 1e6 / figures["cpu"], "server": server}


async def _server_cpu(url: str) -> float:
    return await server_cpu(url) if url.startswith("postgresql:") else 0.0


@contextlib.asynccontextmanager
async def _working(bench: Bench, *, notifies: bool) -> AsyncIterator[None]:
    bench.ctx.lease_confirmation.stopping = False  # set by the worker of the round before, when it stopped
    own_worker = await bench.worker()
    own_worker.notifications = bench.service.notifications if notifies else None
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(own_worker, periodic_tasks.of_worker(own_worker), stop))
    try:
        yield
    finally:
        stop.set()
        await working


@contextlib.asynccontextmanager
async def _notices(url: str, env: Env) -> AsyncIterator[OpenCase]:
    """An organization of 1,000 members, each with an automation, and a mail server in this process."""
    sink = MailSink()
    server = await asyncio.start_server(sink.serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    bench = await open_bench(
        url,
        env.folder,
        **_SETTINGS,
        smtp_url=f"smtp://{address}",
        mail_from=_SENDER,
        allow_private_hosts=address,
        mail_per_day="1000000",
    )
    makers = await bench.write(partial(_join, bench=bench, count=env.size(PEOPLE, 200)))
    try:
        async with _working(bench, notifies=True):
            yield OpenCase(partial(_notices_round, bench, sink, makers, count()))
    finally:
        server.close()
        await bench.service.close()


async def _join(tx: Tx, *, bench: Bench, count: int) -> dict[str, AutomationId]:
    """Adds members to the organization; returns by their addresses the automation that each has made."""
    rules = bench.ctx.automation_rules
    automation_ids: dict[str, AutomationId] = {}
    for number in range(count):
        command = CreatePerson(f"p{number}@bench.example", f"Person {number}", "Per", "Son")
        person = await people.create(tx, command)
        await people.add_to_organization(tx, person, bench.owner.org, Role.MEMBER)
        new_command = CreateCommand(FIVE_STEPS, f"Measured {number}", {}, dict(BY_HAND))
        created = await setup.create(tx, replace(bench.owner, person=person.id), new_command, rules=rules)
        automation_ids[command.email] = created.automation.id
    return automation_ids


async def _notices_round(
    bench: Bench, sink: MailSink, makers: Mapping[str, AutomationId], numbers: Iterator[int]
) -> Mapping[str, float]:
    """A fact of each automation, in a transaction of its own, for its maker and the owner.

    Returns the times from the commit of a fact to the acceptance of its maker's mail.
    """
    sink.accepted_at.clear()
    written_at: dict[str, float] = {}
    facts_left = iter(makers.items())
    cpu = time.process_time()

    async def writer() -> None:
        for address, automation in facts_left:
            notice = Notice(
                topic=Topic.RUN_FAILED,
                dedupe=f"bench|{next(numbers)}",
                facts=facts_of(automation="Measured", store="Bench", code="step_failed"),
                automation=automation,
            )
            await bench.write(partial(notices.add, org=bench.owner.org, notice=notice))
            written_at[address] = time.perf_counter()
            bench.service.hints.announce("notice")

    await asyncio.gather(*(writer() for _ in range(CALLERS)))
    while not makers.keys() <= sink.accepted_at.keys():
        await bench.service.clock.sleep(0.01)
    delays = sorted(sink.accepted_at[address] - written for address, written in written_at.items())
    return {
        "p50": delays[len(delays) // 2],
        "p99": delays[int(len(delays) * 0.99)],
        "cpu": (time.process_time() - cpu) / len(delays) * 1e6,
    }


def _on_sqlite(env: Env) -> str:
    return f"sqlite:///{env.folder}/steward.db"


@contextlib.asynccontextmanager
async def runs_on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """Runs on SQLite."""
    async with _runs(_on_sqlite(env), env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def runs_on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """Runs on PostgreSQL."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _runs(url, env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def notices_on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """Mails on SQLite."""
    async with _notices(_on_sqlite(env), env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def notices_on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """Mails on PostgreSQL."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _notices(url, env) as opened:
        yield opened


_OF = "of that without notifications"
_RUNS = (Figure("runs", _OF, minimum=0.98), Figure("per_cpu", _OF, minimum=0.98))
_RUNS_ON_SERVER = (*_RUNS, Figure("per_server_cpu", _OF, minimum=0.98))
_NOTICES = (
    Figure("p50", "s", maximum=1),
    Figure("p99", "s", maximum=5),
    Figure("cpu", "µs of the process a mail"),
)
CASES = (
    Case("notices_runs_sqlite", _RUNS, runs_on_sqlite),
    Case("notices_runs_postgres", _RUNS_ON_SERVER, runs_on_postgres, needs_postgres=True),
    Case("notices_told_sqlite", _NOTICES, notices_on_sqlite),
    Case("notices_told_postgres", _NOTICES, notices_on_postgres, needs_postgres=True),
)
