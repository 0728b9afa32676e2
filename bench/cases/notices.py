"""What telling people costs: runs beside it, and one fact for 1,000 people until their mails are accepted."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

from bench.cases.five_steps import AUTOMATIONS, CALLERS, five_steps_round
from bench.postgres import fresh_database
from bench.rounds import Case, Figure, Opened, Place, Round
from bench.service import House, open_house
from steward import worker
from steward.accounts import people
from steward.accounts.people import CreatePerson
from steward.database.engine.base import Tx
from steward.database.notifications import notices
from steward.model.account import Role
from steward.model.notice import Notice, Topic, facts_of

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


@contextlib.asynccontextmanager
async def _runs(url: str, other: str, place: Place) -> AsyncIterator[Opened]:
    """Runs that end well, by a worker with the tasks of notifications and, on `other`, by one without."""
    count = place.size(1500, 300)
    async with (
        _busy(url, _folder(place, "with"), count, notifies=True) as own,
        _busy(other, _folder(place, "without"), count, notifies=False) as without,
    ):

        async def reference() -> Mapping[str, float]:
            return {"without notifications": (await without())["runs"]}

        yield Opened(own, reference)


def _folder(place: Place, name: str) -> Path:
    folder = place.folder / name
    folder.mkdir()
    return folder


@contextlib.asynccontextmanager
async def _busy(url: str, folder: Path, count: int, *, notifies: bool) -> AsyncIterator[Round]:
    house = await open_house(url, folder, **_SETTINGS)
    automations = await house.automations(AUTOMATIONS)
    try:
        async with _working(house, notifies=notifies):
            yield partial(five_steps_round, house, automations, count, CALLERS)
    finally:
        await house.service.close()


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


def _on_sqlite(place: Place, name: str = "steward") -> str:
    return f"sqlite:///{place.folder}/{name}.db"


@contextlib.asynccontextmanager
async def runs_on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """Runs on SQLite."""
    async with _runs(_on_sqlite(place), _on_sqlite(place, "without"), place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def runs_on_postgres(place: Place) -> AsyncIterator[Opened]:
    """Runs on PostgreSQL."""
    assert place.postgres is not None
    async with (
        fresh_database(place.postgres) as url,
        fresh_database(place.postgres) as other,
        _runs(url, other, place) as opened,
    ):
        yield opened


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


_RUNS = (Figure("runs", "runs/s", "without notifications", ratio=0.98),)
_TOLD = (Figure("p50", "s", most=1), Figure("p99", "s", most=5), Figure("cpu", "µs of the process a mail"))
CASES = (
    Case("notices_runs_sqlite", _RUNS, runs_on_sqlite),
    Case("notices_runs_postgres", _RUNS, runs_on_postgres, needs_postgres=True),
    Case("notices_told_sqlite", _TOLD, told_on_sqlite),
    Case("notices_told_postgres", _TOLD, told_on_postgres, needs_postgres=True),
)
