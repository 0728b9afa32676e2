"""What telling people costs: runs beside it, and one fact for 1,000 people until their mails are accepted."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.cases.five_steps import AUTOMATIONS, CALLERS, five_steps_round
from bench.postgres import fresh_database, server_cpu
from bench.rounds import Case, Figure, Opened, Place
from bench.service import House, open_house, wire
from steward import worker
from steward.accounts import people
from steward.accounts.people import CreatePerson
from steward.clock import SystemClock
from steward.database.engine.base import Tx
from steward.database.notifications import notices
from steward.model.account import Actor, Role
from steward.model.automation import Automation
from steward.model.notice import Notice, Topic, facts_of

PEOPLE = 1000
_SENDER = "Steward <steward@bench.example>"
# No window: no mail is held back for its end.
_SETTINGS = {"env": "test", "notify_window_minutes": "0"}
_MAIL = {"smtp_url": "smtp://127.0.0.1:9", "mail_from": _SENDER, "allow_private_hosts": "127.0.0.1:9"}


class MailSink:
    """A mail server that takes everything and remembers when."""

    def __init__(self) -> None:
        self.accepted_at: list[float] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speaks with one client until it goes."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            writer.write(b"220 sink\r\n")
            while command := (await reader.readline()).upper():
                if command.startswith(b"DATA"):
                    writer.write(b"354 go on\r\n")
                    await reader.readuntil(b"\r\n.\r\n")
                    self.accepted_at.append(time.perf_counter())
                writer.write(b"250 ok\r\n")
                if command.startswith(b"QUIT"):
                    break
        writer.close()


@dataclass
class _Site:
    """A database with automations, and who owns them; each round opens a service of its own over it."""

    url: str
    folder: Path
    owner: Actor
    automations: Sequence[Automation]
    started: int = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[House]:
        """A service with a mail server, which is never called."""
        house = await wire(self.url, self.folder, clock=SystemClock(), **_SETTINGS, **_MAIL)
        house.owner, house.started = self.owner, self.started
        try:
            yield house
        finally:
            self.started = house.started
            await house.service.close()


async def _runs(url: str, place: Place) -> Opened:
    """Runs that end well, by a worker with the tasks of notifications over one without them."""
    house = await open_house(url, place.folder, **_SETTINGS)
    site = _Site(url, place.folder, house.owner, await house.automations(AUTOMATIONS))
    await house.service.close()
    short_round = partial(_short_round, site, place.size(300, 100))
    return Opened(partial(_paired_rounds, short_round, place.size(8, 2)))


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
            own[name] / other[name] for own, other in zip(with_tasks, without, strict=True)
        )
        for name in ("runs", "per_cpu")
    }
    server = sum(other["server"] for other in without)
    return ratios | ({"per_server_cpu": server / sum(own["server"] for own in with_tasks)} if server else {})


async def _short_round(site: _Site, count: int, notifies: bool) -> Mapping[str, float]:
    async with site.open() as house, _working(house, notifies=notifies):
        await house.service.clock.sleep(1.5)  # every task has run before
        cpu = await _server_cpu(site.url)
        figures = await five_steps_round(house, site.automations, count, CALLERS)
        server = await _server_cpu(site.url) - cpu
    return {"runs": figures["runs"], "per_cpu": 1e6 / figures["cpu"], "server": server}


async def _server_cpu(url: str) -> float:
    return await server_cpu(url) if url.startswith("postgresql:") else 0.0


@contextlib.asynccontextmanager
async def _working(house: House, *, notifies: bool) -> AsyncIterator[None]:
    own = await house.worker()
    own.notifications = house.service.notifications if notifies else None
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(own, worker.periodic_tasks(own), stop))
    try:
        yield
    finally:
        stop.set()
        await working


@contextlib.asynccontextmanager
async def _told(url: str, place: Place) -> AsyncIterator[Opened]:
    """An organisation of 1,000 owners and a mail server in this process."""
    sink = MailSink()
    server = await asyncio.start_server(sink.serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    house = await open_house(
        url,
        place.folder,
        **_SETTINGS,
        smtp_url=f"smtp://{address}",
        mail_from=_SENDER,
        allow_private_hosts=address,
        mail_per_day="1000000",
    )
    count = place.size(PEOPLE, 200)
    await house.write(partial(_join, house=house, count=count - 1))
    numbers = iter(range(1_000_000))
    try:
        async with _working(house, notifies=True):
            yield Opened(lambda: _told_round(house, sink, count, next(numbers)))
    finally:
        server.close()
        await house.service.close()


async def _join(tx: Tx, *, house: House, count: int) -> None:
    for number in range(count):
        command = CreatePerson(f"p{number}@bench.example", f"Person {number}", "Per", "Son")
        person = await people.create(tx, command)
        await people.add_to_organization(tx, person, house.owner.org, Role.OWNER)


async def _told_round(house: House, sink: MailSink, count: int, number: int) -> Mapping[str, float]:
    """One fact: from its commit to the acceptance of each person's mail."""
    sink.accepted_at.clear()
    # A topic that is still true when the message is closed.
    notice = Notice(topic=Topic.CHANGES_STOPPED, dedupe=f"bench|{number}", facts=facts_of(name="Bench"))
    cpu = time.process_time()
    await house.write(partial(notices.add, org=house.owner.org, notice=notice))
    written_at = time.perf_counter()
    house.service.hints.announce("notice")
    while len(sink.accepted_at) < count:
        await house.service.clock.sleep(0.01)
    delays = sorted(at - written_at for at in sink.accepted_at)
    return {
        "p50": delays[len(delays) // 2],
        "p99": delays[int(len(delays) * 0.99)],
        "cpu": (time.process_time() - cpu) / count * 1e6,
    }


def _on_sqlite(place: Place) -> str:
    return f"sqlite:///{place.folder}/steward.db"


@contextlib.asynccontextmanager
async def runs_on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """Runs on SQLite."""
    yield await _runs(_on_sqlite(place), place)


@contextlib.asynccontextmanager
async def runs_on_postgres(place: Place) -> AsyncIterator[Opened]:
    """Runs on PostgreSQL."""
    assert place.postgres is not None
    async with fresh_database(place.postgres) as url:
        yield await _runs(url, place)


@contextlib.asynccontextmanager
async def told_on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """Mails on SQLite."""
    async with _told(_on_sqlite(place), place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def told_on_postgres(place: Place) -> AsyncIterator[Opened]:
    """Mails on PostgreSQL."""
    assert place.postgres is not None
    async with fresh_database(place.postgres) as url, _told(url, place) as opened:
        yield opened


_OF = "of that without notifications"
_RUNS = (Figure("runs", _OF, least=0.98), Figure("per_cpu", _OF, least=0.98))
_RUNS_ON_SERVER = (*_RUNS, Figure("per_server_cpu", _OF, least=0.98))
_TOLD = (Figure("p50", "s", most=1), Figure("p99", "s", most=5), Figure("cpu", "µs of the process a mail"))
CASES = (
    Case("notices_runs_sqlite", _RUNS, runs_on_sqlite),
    Case("notices_runs_postgres", _RUNS_ON_SERVER, runs_on_postgres, needs_postgres=True),
    Case("notices_told_sqlite", _TOLD, told_on_sqlite),
    Case("notices_told_postgres", _TOLD, told_on_postgres, needs_postgres=True),
)
