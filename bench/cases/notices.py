"""What telling people costs: runs beside it, and one fact for 1,000 people until their mails are accepted."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from bench.cases.five_steps import AUTOMATIONS, CALLERS, five_steps_round
from bench.postgres import fresh_database, server_cpu
from bench.rounds import Case, Figure, Opened, Place
from bench.service import House, open_house
from steward import worker
from steward.accounts import people
from steward.accounts.people import CreatePerson
from steward.database.engine.base import Tx
from steward.database.notifications import notices
from steward.model.account import Role
from steward.model.notice import Notice, Topic, facts_of

Database = Callable[[Path], AbstractAsyncContextManager[str]]  # a fresh one, in the folder if it is a file

PEOPLE = 1000
# Longer than any round: no mail is held back for the end of a window.
_SETTINGS = {"env": "test", "notify_window_minutes": "0"}


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


def _runs(place: Place, database: Database) -> Opened:
    """Runs that end well, by a worker with the tasks of notifications and, as the reference, without them.

    Each round has a database and a worker of its own: what another one does would count in both.
    """

    async def reference() -> Mapping[str, float]:
        rates = await _runs_round(place, database, notifies=False)
        return {f"{name} without notifications": rate for name, rate in rates.items()}

    return Opened(partial(_runs_round, place, database, notifies=True), reference)


async def _runs_round(place: Place, database: Database, *, notifies: bool) -> Mapping[str, float]:
    count = place.size(1500, 300)
    with tempfile.TemporaryDirectory(dir=place.folder) as name:
        folder = Path(name)
        async with database(folder) as url:
            house = await open_house(url, folder, **_SETTINGS)
            automations = await house.automations(AUTOMATIONS)
            async with _working(house, notifies=notifies):
                cpu = await _server_cpu(url)
                figures = await five_steps_round(house, automations, count, CALLERS)
                server = await _server_cpu(url) - cpu
            await house.service.close()
    rates = {"runs": figures["runs"], "per_cpu": 1e6 / figures["cpu"]}
    return rates | ({"per_server_cpu": count / server} if server else {})


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
        mail_from="Steward <steward@bench.example>",
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
    yield _runs(place, lambda folder: contextlib.nullcontext(f"sqlite:///{folder}/steward.db"))


@contextlib.asynccontextmanager
async def runs_on_postgres(place: Place) -> AsyncIterator[Opened]:
    """Runs on PostgreSQL."""
    assert place.postgres is not None
    server = place.postgres
    yield _runs(place, lambda _: fresh_database(server))


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


_RUNS = (
    Figure("runs", "runs/s", "runs without notifications", ratio=0.98),
    Figure("per_cpu", "runs/s of CPU of the process", "per_cpu without notifications", ratio=0.98),
)
_RUNS_ON_SERVER = (
    *_RUNS,
    Figure(
        "per_server_cpu", "runs/s of CPU of the server", "per_server_cpu without notifications", ratio=0.98
    ),
)
_TOLD = (Figure("p50", "s", most=1), Figure("p99", "s", most=5), Figure("cpu", "µs of the process a mail"))
CASES = (
    Case("notices_runs_sqlite", _RUNS, runs_on_sqlite),
    Case("notices_runs_postgres", _RUNS_ON_SERVER, runs_on_postgres, needs_postgres=True),
    Case("notices_told_sqlite", _TOLD, told_on_sqlite),
    Case("notices_told_postgres", _TOLD, told_on_postgres, needs_postgres=True),
)
