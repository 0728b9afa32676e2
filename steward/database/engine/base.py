"""The interface to both databases: transactions, named parameters, and macros for SQL that differs."""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

from steward.model.ids import OrgId
from steward.model.json import JsonValue

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
Dialect = Literal["sqlite", "postgresql"]
Args = Mapping[str, object]

# Time limit on PostgreSQL of a statement of retention, partitions and checks of the audit log.
LONG_SECONDS = 30.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# Created once: json.dumps creates an encoder at every call with non-default options.
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class Row(Protocol):
    """A row, by column name."""

    def __getitem__(self, key: str) -> Any: ...

    def keys(self) -> Iterable[str]:
        """Returns the column names."""
        ...


class PerEngine(NamedTuple):
    """A statement whose text differs between the engines."""

    sqlite: str
    postgresql: str


Sql = str | PerEngine


@dataclass(frozen=True, slots=True)
class Json:
    """An argument stored as JSON text."""

    value: JsonValue


class Tx(Protocol):
    """A transaction; the functions of database/ await nothing else."""

    @property
    def now(self) -> datetime:
        """The instant of this transaction, aware, UTC; used for everything written."""
        ...

    @property
    def dialect(self) -> Dialect:
        """The database engine of the transaction."""
        ...

    @property
    def test_now(self) -> datetime | None:
        """The instant a test has set for the database's clock; None outside tests and on SQLite."""
        ...

    async def first(self, sql: Sql, args: Args | None = None) -> Row | None:
        """Returns the first row, or None."""
        ...

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """Returns every row."""
        ...

    async def execute(self, sql: Sql, args: Args | None = None) -> int:
        """Runs a statement and returns the number of rows it changed."""
        ...

    async def many(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        """Runs a statement once for each of `rows` and returns the number of rows it changed.

        The values of a row need no conversion, and are in the order in which the statement first names them.
        """
        ...

    async def set_tenant(self, orgs: Collection[OrgId]) -> None:
        """Sets the tenant context of row-level security to these organizations; does nothing on SQLite."""
        ...

    async def extend_time_limit(self, seconds: float) -> None:
        """Extends the time limit of each later statement of this transaction; does nothing on SQLite."""
        ...


# The body of a transaction: reads and writes through its Tx and returns a result. An engine may run it again
# after a conflict, so it has no other effects.
Act = Callable[[Tx], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class Batchable(Generic[I, T]):
    """An act that shares one call with waiting acts of its kind.

    `run_batch` receives the items of the waiting acts and returns one result per item, in order. When it
    raises, each act runs by itself, unless the call took too long or its connection was lost. On SQLite,
    where waiting writes share a commit in any case, acts are batched only with `on_sqlite`. `weight` is the
    number of bytes that the item holds while it waits.

    `autocommit` states that on PostgreSQL each statement of `run_batch` calls a function that sets the tenant
    context itself, and that only the last statement writes: no transaction is begun, not even for one item.
    """

    item: I
    run_one: Callable[[Tx, I], Awaitable[T]]
    run_batch: Callable[[Tx, Sequence[I]], Awaitable[Sequence[T]]]
    on_sqlite: bool = False
    weight: int = 0
    autocommit: bool = False

    @property
    def kind(self) -> str:
        """What the acts of this kind write, as logs and metrics name it: the module of `run_batch`."""
        return self.run_batch.__module__.rpartition(".")[2]

    def __call__(self, tx: Tx) -> Awaitable[T]:
        """Runs the act for its own item only."""
        return self.run_one(tx, self.item)


@dataclass(frozen=True, slots=True)
class Autocommit(Generic[T]):
    """An act of one statement, which on PostgreSQL calls a function that sets or needs no tenant context.

    It runs there without a transaction.
    """

    act: Act[T]

    def __call__(self, tx: Tx) -> Awaitable[T]:
        """Runs the act."""
        return self.act(tx)


@dataclass(frozen=True, slots=True)
class WeightedAct(Generic[T]):
    """An act with the number of bytes it holds while it waits."""

    act: Act[T]
    weight: int

    def __call__(self, tx: Tx) -> Awaitable[T]:
        """Runs the act."""
        return self.act(tx)


class Engine(Protocol):
    """A database that runs acts in transactions; after a transient failure it runs an act again."""

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""
        ...

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Runs `act` in one transaction, commits it durably, and returns its result.

        `org` are the organizations whose rows it may see and write (the tenant context). An `urgent` write,
        such as a heartbeat, does not queue behind others. Raises Unavailable when the write is not possible.
        """
        ...

    async def read(
        self,
        now: datetime,
        act: Act[T],
        *,
        org: OrgId | Collection[OrgId] = (),
        small: bool = False,
        sets_tenant: bool = False,
    ) -> T:
        """Runs `act`, which writes nothing.

        `small` promises that it reads a few rows by key or index, and `sets_tenant` that its first statement
        sets the tenant context itself, as authentication does.
        """
        ...

    async def close(self) -> None:
        """Closes every connection after open transactions have finished."""
        ...


class NeedsSlowPath(Exception):
    """Raised by a batch when an item needs the slow path; each item is then processed by itself."""


class ForeignAwait(Exception):
    """Raised when an act awaits something other than its Tx, such as a network call or a sleep."""


class Busy(Exception):
    """Raised when the database is busy; the act may be run again."""


def ms(instant: datetime) -> int:
    """Returns an instant as stored: milliseconds since 1970 UTC."""
    return (instant - _EPOCH) // _MILLISECOND


def from_ms(stored: int) -> datetime:
    """Returns a stored instant as an aware UTC datetime."""
    return _EPOCH + timedelta(milliseconds=stored)


def from_ms_or_none(stored: int | None) -> datetime | None:
    """Returns a stored instant as an aware UTC datetime; None for None."""
    return None if stored is None else from_ms(stored)


def orgs_of(org: OrgId | Collection[OrgId]) -> Collection[OrgId]:
    """Returns one organization or several as a collection."""
    return org if isinstance(org, Collection) else (org,)


def to_column(value: object, dialect: Dialect) -> object:
    """Returns an argument in the driver's form. Raises TypeError for an unsupported type."""
    kind = type(value)
    if kind in _NATIVE_TYPES:
        return value
    if kind is datetime:
        return ms(cast("datetime", value))
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Json):
        return _encoded(value.value)
    if isinstance(value, datetime):
        return ms(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [item if type(item) in _NATIVE_TYPES else to_column(item, dialect) for item in value]
        return json.dumps(items) if dialect == "sqlite" else items
    raise TypeError(f"no column takes {kind.__name__}")


def _encoded(content: JsonValue) -> str:
    # Most values are empty, and the encoder costs more than a look-up.
    if content or type(content) not in _EMPTY_JSON:
        return _ENCODE(content)
    return _EMPTY_JSON[type(content)]


_LIST = re.compile(r"\b(NOT )?IN \(:([a-z_]+)\)")
_NAME = re.compile(r"'[^']*'|::|:([a-z_][a-z_0-9]*)")
_MACROS: Mapping[Dialect, Mapping[str, str]] = {
    "sqlite": {"{now}": ":now", "{for_update}": "", "{skip_locked}": ""},
    "postgresql": {
        "{now}": "steward_now()",
        "{for_update}": "FOR UPDATE",
        "{skip_locked}": "FOR UPDATE SKIP LOCKED",
    },
}


class Statement(NamedTuple):
    """A statement in the driver's syntax, its argument names in order, and the function that picks them."""

    text: str
    names: tuple[str, ...]
    pick: Callable[[Args], tuple[object, ...]]
    has_now: bool


@lru_cache(maxsize=2048)
def prepare(sql: Sql, dialect: Dialect) -> Statement:
    """Translates the macros, lists and named parameters of `sql` into the syntax of `dialect`."""
    text = sql if isinstance(sql, str) else getattr(sql, dialect)
    for macro, spelling in _MACROS[dialect].items():
        text = text.replace(macro, spelling)
    if dialect == "sqlite":
        text = _LIST.sub(r"\1IN (SELECT value FROM json_each(:\2))", text)
    else:
        text = _LIST.sub(lambda match: f"{'<> ALL' if match[1] else '= ANY'}(:{match[2]})", text)
    prefix = "?" if dialect == "sqlite" else "$"
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if not name:
            return match[0]
        if name not in names:
            names.append(name)
        return f"{prefix}{names.index(name) + 1}"

    return Statement(_NAME.sub(number, text), tuple(names), _picker(names), "now" in names)


def _picker(names: Sequence[str]) -> Callable[[Args], tuple[object, ...]]:
    if len(names) > 1:
        return itemgetter(*names)  # one call for all of them
    return lambda args: tuple(args[name] for name in names)


_EMPTY_JSON: Mapping[type, str] = {dict: "{}", list: "[]"}
_NATIVE_TYPES = frozenset({str, int, type(None), bytes, bool, float})


def bind(statement: Statement, args: Args | None, now: datetime, *, dialect: Dialect) -> Sequence[object]:
    """Returns the statement's arguments, converted and in order; `now` is supplied when `args` lacks it."""
    values_by_name = args or {}
    if statement.has_now and "now" not in values_by_name:
        values_by_name = {**values_by_name, "now": ms(now)}
    values = statement.pick(values_by_name)
    if _NATIVE_TYPES.issuperset(map(type, values)):
        return values
    return [value if type(value) in _NATIVE_TYPES else to_column(value, dialect) for value in values]
