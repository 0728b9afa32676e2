"""The servers that a PostgreSQL URL names; new connections go to the one that accepts writes."""

import random
import socket
import ssl
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from steward.clock import Clock, SystemClock
from steward.database.engine.observer import UNOBSERVED, EngineObserver

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection

# Time limit to connect to one of several servers. A frozen server still accepts TCP connections, so only a
# time limit detects it.
_CONNECT_SECONDS = 2.0
_PLANS_KEPT = 16
# Base and array types with a lower OID are the same on every server.
_FIRST_SERVER_OID = 10_000
_TYPES: dict[int, list[asyncpg.Record]] = {}
# As a statement of the introspection: after it, asyncpg prepares an unnamed statement again.
_UNNAMED = SimpleNamespace(name="")
# The PostgreSQL function that warns when a commit did not wait for its standby. It identifies the warning,
# whose text depends on the server's language.
_COMMIT_WAIT = "SyncRepWaitForLSN"
UNREACHABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InternalClientError,  # cut off during a statement; or a standby in `Hosts`
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)


class NoServer(ConnectionError):
    """Raised when no server accepts a connection; says why for each, without the URL's secrets."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))


class ServerConnection(_Connection):
    """A connection with the state that the engine keeps for it."""

    host = 0  # the position of its server in the URL, from 1
    losses = 0  # the value of `Hosts.losses` when it was last known to work
    is_committing = False  # a commit was sent and not yet confirmed
    has_context = False  # a small read left its tenant context on it
    is_unconfirmed = False  # a commit was confirmed before the standby had it
    opened_at = 0.0  # on the monotonic clock, as is the next
    idle_since = 0.0
    _calls = 0
    _plans_kept = _PLANS_KEPT
    _is_lost = False

    def lose(self) -> bool:
        """Closes the connection without notifying the server. Returns True on the first call."""
        is_first, self._is_lost = not self._is_lost, True
        self.terminate()
        return is_first

    def plans_are_old(self) -> bool:
        """Counts a use of the connection; returns True when its cached plans have to be discarded.

        That is after 16 uses, and then each time the number has grown fourfold. The server analyzes new
        tables only after about a minute, so early plans are made for tables that were nearly empty.
        """
        self._calls += 1
        if self._calls <= self._plans_kept:
            return False
        self._plans_kept *= 4
        return True

    def get_reset_query(self) -> str:
        """Returns the statements that `reset` sends after the rollback; keeps the settings of `prepare`."""
        return "SET app.orgs = ''"

    async def _introspect_types(
        self, typeoids: Iterable[int], timeout: float | None
    ) -> tuple[list[asyncpg.Record], object]:
        """Returns the type information that asyncpg needs; types of every server are read once per process.

        Overridden because the server plans that query for 10 ms and more on each new connection, and so
        delays its first statements with arrays.
        """
        facts: list[asyncpg.Record] = []
        for oid in typeoids:
            rows = _TYPES.get(oid)
            if rows is None:
                rows, _ = await super()._introspect_types([oid], timeout)  # type: ignore[misc]
                if oid < _FIRST_SERVER_OID:
                    _TYPES[oid] = rows
            facts += rows
        return facts, _UNNAMED

    def _process_log_message(self, fields: dict[str, str], last_query: str) -> None:
        """Records a commit that was confirmed before the standby had it.

        Overridden because `reset` removes log listeners.
        """
        if fields.get("R") == _COMMIT_WAIT:
            self.is_unconfirmed = True


class Hosts:
    """The servers of a URL, in the order in which they are tried: those that failed last come last.

    `postgresql://user@db1,db2:5433/steward` names several; each connection then goes to the one that accepts
    writes, unless the URL sets `target_session_attrs` itself.
    """

    def __init__(
        self, url: str, *, clock: Clock | None = None, observer: EngineObserver = UNOBSERVED
    ) -> None:
        self._urls = list(enumerate(server_urls(url), start=1))
        self._clock = clock or SystemClock()
        self._observer = observer
        self._lost_since: float | None = None
        self.losses = 0
        random.shuffle(self._urls)

    @property
    def are_many(self) -> bool:
        """Whether the URL names more than one server."""
        return len(self._urls) > 1

    async def connect(self, _url: str = "", *, timeout: float, **options: Any) -> ServerConnection:
        """Connects to the first server that accepts the connection; each is tried once.

        Each has at most `timeout` seconds, and of several servers at most 2. Raises NoServer when all fail
        with one of UNREACHABLE; any other error is raised at once.
        """
        limit = min(timeout, _CONNECT_SECONDS) if self.are_many else timeout
        options["connection_class"] = ServerConnection
        reasons: dict[int, str] = {}
        started_at = self._clock.monotonic()
        for number, url in list(self._urls):
            losses = self.losses
            try:
                connection: Any = await asyncpg.connect(url, timeout=limit, **options)
            except UNREACHABLE as error:
                reasons[number] = f"{_server_name(url)}: {_describe(error, limit)}"
                self._try_last(number)
            else:
                assert isinstance(connection, ServerConnection)
                connection.host = number
                connection.losses = losses
                self._observer.connected(number, self._clock.monotonic() - started_at)
                self._note_recovery(number)
                return connection
        self._note_loss("not_opened")
        raise NoServer([reasons[number] for number in sorted(reasons)])

    def _try_last(self, number: int) -> None:
        self._urls.sort(key=lambda other: other[0] == number)

    def count_loss(self, reason: str) -> None:
        """Counts a lost connection, so that connections open now are checked before they are used again."""
        self.losses += 1
        self._note_loss(reason)

    def _note_loss(self, reason: str) -> None:
        if self._lost_since is None:
            self._lost_since = self._clock.monotonic()
        self._observer.connection_lost(reason)

    def _note_recovery(self, host: int) -> None:
        if self._lost_since is not None:
            seconds, self._lost_since = self._clock.monotonic() - self._lost_since, None
            self._observer.recovered(host, seconds)

    async def still_serves(self, connection: ServerConnection) -> bool:
        """Returns whether a connection still works after another was lost; terminates it if not."""
        losses = self.losses
        try:
            in_recovery = await connection.fetchval("SELECT pg_is_in_recovery()", timeout=_CONNECT_SECONDS)
        except UNREACHABLE:
            in_recovery = None
        except BaseException:  # such as a cancellation, after which the connection cannot be used
            connection.terminate()
            raise
        if in_recovery is None or (in_recovery and self.are_many):
            connection.terminate()
            return False
        connection.losses = losses
        self._note_recovery(connection.host)
        return True


def server_urls(url: str) -> list[str]:
    """Returns one URL for each server that `url` names; a URL without a host counts as one server."""
    parts = urlsplit(url)
    user, separator, hosts = parts.netloc.rpartition("@")
    names = hosts.split(",")
    if len(names) == 1:
        return [url]
    query = {"target_session_attrs": "read-write", **dict(parse_qsl(parts.query))}
    return [
        parts._replace(netloc=f"{user}{separator}{name}", query=urlencode(query)).geturl() for name in names
    ]


def _server_name(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2] or "the local server"


def _describe(error: Exception, limit: float) -> str:
    """Describes the failure at one server, for its operator."""
    match error:
        case asyncpg.TargetServerAttributeNotMatched():
            return "a standby, or another server that takes no writes"
        case asyncpg.ConnectionDoesNotExistError():  # asyncpg's own error, not the server's
            return "closes the connection"
        case asyncpg.PostgresError():
            return f"answers “{error}”"
        case TimeoutError():
            return f"no response within {round(limit, 1):g} s"
        case ConnectionRefusedError():
            return "refuses connections"
        case socket.gaierror(errno=socket.EAI_NONAME):
            return "a host whose name is not known here"
        case ssl.SSLError():
            return f"no secure connection ({error})"
        case ConnectionError():
            return "closes the connection"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
