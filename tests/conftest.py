"""What every test may ask for: time, and a fresh migrated database on both engines.

The cast and the short ways to a state are in people.py and builders.py, a running service in service.py.
"""

import gc
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.constants_ast import constants_from_module

from steward.database.engine.base import Engine
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.postgres import PostgresEngine
from steward.database.engine.sqlite import SqliteEngine
from steward.model.account import Actor
from tests.authz.two_organizations import RowsOfTwo
from tests.databases import (
    MIGRATED,
    WITH_CAST,
    WITH_POPULATED,
    WITH_SHOP,
    WITH_TWO,
    Clones,
    copy_sqlite,
    load_rows,
    make_templates,
)
from tests.event_loop import SessionLoop
from tests.fake_clock import FakeClock
from tests.populated_service import PopulatedRows
from tests.postgres_server import NoPostgres, shared_server, stop_shared, temporary_folder
from tests.service import Cast, approver, member, nobody, owner, service, stranger
from tests.shared_sandbox import shared_sandbox
from tests.source import ROOT
from tests.warm_databases import WarmDatabases

__all__ = ["approver", "member", "nobody", "owner", "service", "stranger"]  # fixtures for every test

# A property is judged by what it computes and never by how fast the machine is.
settings.register_profile("steward", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steward")

# Of a connection that is given up while asyncpg asks for TLS, it leaves an error that nobody reads: the event
# loop reports it in whichever test comes later. The servers of the tests have no TLS.
os.environ["PGSSLMODE"] = "disable"
# httpx imports sniffio at each request to an application: where it is absent, that searches every path again.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]
# Seconds for a statement and for a connection: only tests of deadlines depend on how fast the machine is.
PATIENCE = 300.0

# Whose tests take half a minute and more: they come first, so that no worker ends long after the other.
# So do all browser tests: mostly one worker runs them, and no other starts a browser and a service for them.
_FIRST = ("tests/test_recipes.py", "tests/processes/test_commands.py", "tests/web/")
# The tests in these files read the syntax trees of all Python files, which takes seconds and much memory in
# each process: they run together, so that mostly one worker does it.
_SOURCE_READERS = ("tests/test_", "tests/outbound/test_errors.py", "tests/telemetry/test_operate.py")

# Whose tests use warm databases: the others have not been tried with them.
_WARM = tuple(
    f"tests/{suite}/"
    for suite in (
        "accounts",
        "api",
        "authz",
        "automations",
        "closed_periods",
        "connectors",
        "crash",
        "events",
        "imports",
        "interface",
        "notifications",
        "occurrences",
        "runs",
        "services",
        "templates",
    )
)

# The database that a test with this fixture begins with.
_TEMPLATES = {
    "cast": WITH_CAST,
    "owner_of_shop": WITH_SHOP,
    "rows_of_two": WITH_TWO,
    "populated_rows": WITH_POPULATED,
}

_Part = TypeVar("_Part")
_SESSION = pytest.StashKey[dict[str, str]]()
_SKIPPED = "SKIPPED LOUDLY"


def pytest_configure(config: pytest.Config) -> None:
    """Makes the folder that all workers of this session share, or takes the one it was given.

    The variable is taken out of the environment: a service that a test starts refuses unknown ones.
    """
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", temporary_folder())  # of tmp_path
    supplied = getattr(config, "workerinput", None)
    if supplied:
        config.args = [part for path in config.args for part in _own_share_first(_parts_of(path), config)]
    if supplied or config.getoption("dist", "no") == "no":  # pytest-xdist's controller collects nothing
        gc.disable()  # Until all is collected: nearly all that is imported and collected stays.
    required = os.environ.pop("STEWARD_TEST_REQUIRE_POSTGRES", "")
    config.stash[_SESSION] = (
        supplied["steward_session"]
        if supplied
        else {
            "folder": tempfile.mkdtemp(prefix="steward-session-"),
            "starter": str(os.getpid()),
            "required": required,
        }
    )


def _parts_of(path: str) -> list[str]:
    """Returns the folders and files of tests below the folder of all tests, or any other path itself."""
    if Path(path).absolute() != ROOT / "tests":
        return [path]
    parts = (ROOT / "tests").iterdir()
    return sorted(str(part) for part in parts if part.is_dir() or part.name.startswith("test_"))


def _own_share_first(parts: Sequence[_Part], config: pytest.Config) -> list[_Part]:
    """Returns the parts in an order that differs for each worker.

    In a fresh clone, workers that import the parts in the same order all compile each part at the same time.
    So each worker begins with different parts and later reads what the others have compiled.
    """
    worker = config.workerinput  # type: ignore[attr-defined]
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    return [part for share in range(count) for part in parts[(number + share) % count :: count]]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: pytest.Session) -> None:
    """Tells a worker which session it belongs to."""
    node.workerinput["steward_session"] = node.config.stash[_SESSION]  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_collection_modifyitems")
def pytest_sort_items(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Restores one order of tests for all workers, before any plugin shuffles it.

    Hypothesis also reads the constants of every module of the service and stores them in files: workers share
    that work too.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)
        if len(config.args) > 1:
            names = sorted(name for name in sys.modules if name.startswith("steward."))
            for name in _own_share_first(names, config):
                constants_from_module(sys.modules[name])
    return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the longest and the browser tests to the front, then those that read the source.

    Each part keeps its random order.
    """
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    if item.nodeid.startswith(_FIRST):
        return 0
    return 1 if item.nodeid.startswith(_SOURCE_READERS) else 2


def pytest_collection_finish() -> None:
    """Keeps what was imported and collected out of every later garbage collection, as a service does."""
    gc.enable()
    gc.freeze()  # with the little that is garbage: to look for it takes half a second
    gc.set_threshold(10_000, 20, 20)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stops the session's PostgreSQL after the last worker has gone."""
    session = config.stash.get(_SESSION, None)
    if session is not None and int(session["starter"]) == os.getpid():
        stop_shared(Path(session["folder"]))
        shutil.rmtree(session["folder"], ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints a line a suite (tests, seconds of one process), then what was tried twice or skipped loudly."""
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, int] = defaultdict(int)
    loud: set[str] = set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport):
                continue
            suite = report.nodeid.partition("::")[0].removeprefix("tests/").partition("/")[0]
            seconds[suite] += report.duration
            tests[suite] += report.when == "call"
            if report.skipped and _SKIPPED in (words := str(report.longrepr)):
                loud.add(words.partition(_SKIPPED)[2].strip(": ()'\""))
    terminalreporter.section("suites, seconds of one test process")
    for suite in sorted(seconds, key=lambda name: -seconds[name]):
        terminalreporter.write_line(f"{seconds[suite]:8.1f} s {tests[suite]:6d} tests  {suite}")
    if seed := terminalreporter.config.getoption("randomly_seed", default=None):
        terminalreporter.write_line(f"random order: --randomly-seed={seed}")
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_line(f"FAILED AT FIRST: {report.nodeid}", red=True, bold=True)
        terminalreporter.write_line(report.longreprtext)
    for words in sorted(loud):
        terminalreporter.write_line(f"{_SKIPPED}: {words}", red=True, bold=True)


@pytest.fixture(scope="session")
def session_loop() -> Iterator[SessionLoop]:
    """The event loop of all async tests of this process."""
    loop = SessionLoop()
    yield loop
    loop.end()


@pytest.fixture(scope="session")
def anyio_backend(session_loop: SessionLoop) -> tuple[str, dict[str, object]]:
    """Async tests run on asyncio with uvloop, as the service does."""
    return "asyncio", {"loop_factory": lambda: session_loop}


@pytest.fixture(scope="session", autouse=True)
def sandbox_of_session() -> Iterator[None]:
    """Ends the children that tests share, if there were any."""
    yield
    if shared_sandbox.cache_info().currsize:
        shared_sandbox().shut_down()


@pytest.fixture
def clock() -> FakeClock:
    """The time of this test; it stands still until the test moves it."""
    return FakeClock()


@pytest.fixture(scope="session")
def session_folder(pytestconfig: pytest.Config) -> Path:
    """The folder that all test workers of this session share."""
    return Path(pytestconfig.stash[_SESSION]["folder"])


@pytest.fixture(scope="session")
def clones(pytestconfig: pytest.Config, session_folder: Path) -> Iterator[Clones]:
    """This worker's way to fresh PostgreSQL databases; absence fails under make test, else skips loudly."""
    session = pytestconfig.stash[_SESSION]
    try:
        server = shared_server(
            session_folder,
            starter=int(session["starter"]),
            prepare=lambda server: make_templates(server, session_folder),
        )
    except NoPostgres as refused:
        if session["required"]:
            pytest.fail(f"PostgreSQL is part of these tests: {refused}")
        pytest.skip(f"{_SKIPPED}: {refused}")
    clones = Clones(server, os.environ.get("PYTEST_XDIST_WORKER", "main"))
    yield clones
    clones.close()


@pytest.fixture(scope="session")
def warm_databases(clones: Clones, session_loop: SessionLoop) -> Iterator[WarmDatabases]:
    """The PostgreSQL databases that tests of this process use one after the other."""
    databases = WarmDatabases(clones, session_loop)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(asyncpg, "connect", databases.connect)
        yield databases
    databases.close()


def _template(request: pytest.FixtureRequest) -> str:
    """The database that this test's is a copy of."""
    names = [name for name in _TEMPLATES if name in request.fixturenames]
    assert len(names) < 2, f"a database holds the rows of one of {names}"
    return _TEMPLATES[names[0]] if names else MIGRATED


@pytest.fixture
def sqlite_url(request: pytest.FixtureRequest, session_folder: Path, tmp_path: Path) -> str:
    """Returns a fresh migrated SQLite database, for what only SQLite has."""
    return copy_sqlite(session_folder, tmp_path / "steward.db", _template(request))


@pytest.fixture
def postgresql_url(request: pytest.FixtureRequest, clones: Clones) -> Iterator[str]:
    """Returns a fresh migrated PostgreSQL database, for what only PostgreSQL has."""
    url = clones.clone(_template(request))
    yield url
    clones.drop_meanwhile(url)


@pytest.fixture
def warm_postgresql_url(request: pytest.FixtureRequest, warm_databases: WarmDatabases) -> Iterator[str]:
    """A migrated PostgreSQL database as at first, with connections that earlier tests have used."""
    url = warm_databases.lend(_template(request))
    yield url
    warm_databases.give_back(url)


@pytest.fixture
def cold_database() -> None:
    """Gives the test a PostgreSQL database and connections that no other test has used."""


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh migrated database, once on each engine."""
    is_warm = request.param == "postgresql" and request.node.nodeid.startswith(_WARM)
    is_warm &= "cold_database" not in request.fixturenames
    url: str = request.getfixturevalue(f"warm_{request.param}_url" if is_warm else f"{request.param}_url")
    return url


@pytest.fixture
def cast(request: pytest.FixtureRequest, session_folder: Path) -> Cast:
    """The cast, which the database of a test that asks for it holds from the beginning."""
    return load_rows(session_folder, WITH_CAST, _url(request), Cast)


@pytest.fixture
def owner_of_shop(request: pytest.FixtureRequest, session_folder: Path) -> Actor:
    """The owner of a connected organization that the database of a test with this fixture holds already."""
    return load_rows(session_folder, WITH_SHOP, _url(request), Actor)


@pytest.fixture
def rows_of_two(request: pytest.FixtureRequest, session_folder: Path) -> RowsOfTwo:
    """Two populated organizations, which the database of a test that asks for them holds already."""
    return load_rows(session_folder, WITH_TWO, _url(request), RowsOfTwo)


@pytest.fixture
def populated_rows(request: pytest.FixtureRequest, session_folder: Path) -> PopulatedRows:
    """The cast with its connections, which the database of a test with this fixture holds already."""
    return load_rows(session_folder, WITH_POPULATED, _url(request), PopulatedRows)


def _url(request: pytest.FixtureRequest) -> str:
    """The database of this test."""
    names = [
        name for name in ("database_url", "sqlite_url", "postgresql_url") if name in request.fixturenames
    ]
    url: str = request.getfixturevalue(names[0])
    return url


@pytest.fixture
async def engine(database_url: str, clock: FakeClock) -> AsyncIterator[Engine]:
    """An open engine over a fresh migrated database, once on each engine."""
    opened: Engine
    if is_sqlite(database_url):
        opened = SqliteEngine(sqlite_path(database_url), clock=clock)
    else:
        opened = await PostgresEngine.open(
            database_url, size=4, clock=clock, test=True, deadline=PATIENCE, heartbeat_deadline=PATIENCE
        )
    yield opened
    await opened.close()
