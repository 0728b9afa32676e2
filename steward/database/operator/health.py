"""The state of the database and of its pending work, for the operator, without contents of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from steward.database.accounts import audit_heads
from steward.database.engine.base import PerEngine, Tx, from_ms
from steward.database.run_indexes import BY_KIND
from steward.model.audit import Fault
from steward.model.ids import OrgId
from steward.model.run import RunStatus, kinds

# Tables that begin with the organization but are read for all organizations.
_SHARED = ("dir_orgs", "fairness_orgs")
# With SQLite's default of 2 MiB, the check would read the pages of a large file repeatedly.
_CHECK_CACHE_KIB = 256 * 1024
# The tables whose rows change most: `0001_schema.postgres.sql` makes the server vacuum them early.
QUEUE_TABLES = ("runs", "schedules", "events", "listeners")
DURABLE_IF_ON = ("fsync", "full_page_writes", "synchronous_commit")
# A transaction that is open for longer is reported to the operator.
LONG_READER = timedelta(minutes=1)
_REPLIES_EVERY = timedelta(seconds=10)  # PostgreSQL's wal_receiver_status_interval
# Counting stops here: this number means "at least this many".
_MAX_REST_ROWS = 1_000
# Counted from queueing: a run is ended 90 days after its start, and waits for less than the rest.
_LONGEST_RUN = timedelta(days=120)


@dataclass(frozen=True, slots=True)
class Leases:
    """The numbers of workers whose lease is valid, and whose lease has expired."""

    alive: int
    expired: int
    releases: tuple[str, ...]  # of the workers whose lease is valid


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that keeps dead rows from being removed; without the content that it reads.

    `kind` is session, prepared, slot or standby; all but sessions have 0 as `process` and their name in
    `application`.
    """

    kind: str
    since: datetime
    process: int
    role: str
    application: str


@dataclass(frozen=True, slots=True)
class Standbys:
    """The standbys that stream from the PostgreSQL server, by whether commits wait for them.

    `is_waiting` says whether the server is configured to wait for a standby, even if there is none.
    """

    synchronous: int
    asynchronous: int
    is_waiting: bool


@dataclass(frozen=True, slots=True)
class Follower:
    """A streaming standby, or a replication slot, which retains what its standby has not received yet.

    `state` is the standby's as PostgreSQL names it (`sync`, `quorum`, `async`), and `active` or `inactive`
    for a slot. `rows_since` is the transaction since which dead rows are kept for its readers; None when
    none are. `clock_ahead` is None for a slot.
    """

    kind: str
    name: str
    state: str
    rows_since: int | None
    clock_ahead: timedelta | None
    kept_bytes: int

    @property
    def is_synchronous(self) -> bool:
        """Whether commits wait for the standby."""
        return self.state in ("sync", "quorum")

    @property
    def clock_skew(self) -> timedelta | None:
        """The least difference of the standby's clock that explains its last reply, up to ten seconds old."""
        if self.clock_ahead is None:
            return None
        return max(self.clock_ahead, -self.clock_ahead - _REPLIES_EVERY, timedelta())


@dataclass(slots=True)
class RowHolds:
    """Since when standbys and slots have kept dead rows; PostgreSQL only reports since which transaction."""

    _since: dict[tuple[str, str, int], datetime] = field(default_factory=dict)

    def update(self, followers: Sequence[Follower], now: datetime) -> list[OpenTransaction]:
        """Returns holds on dead rows as open transactions that begin when they are first seen here."""
        holds = [
            (follower.kind, follower.name, follower.rows_since)
            for follower in followers
            if follower.rows_since is not None
        ]
        self._since = {hold: self._since.get(hold, now) for hold in holds}
        return [OpenTransaction(kind, since, 0, "", name) for (kind, name, _), since in self._since.items()]


async def damage_of_file(tx: Tx) -> str | None:
    """Reads the whole SQLite file. Returns the first damage that SQLite's own check finds, or None."""
    await tx.first(f"PRAGMA cache_size = -{_CHECK_CACHE_KIB}")
    row = await tx.first("PRAGMA quick_check(1)")
    finding = "no response" if row is None else str(row["quick_check"])
    return None if finding == "ok" else finding


async def settings_of_server(tx: Tx) -> dict[str, str]:
    """Returns PostgreSQL's settings that decide whether commits are kept and damage is noticed."""
    settings = {}
    for name in (*DURABLE_IF_ON, "synchronous_standby_names", "data_checksums"):
        row = await tx.first(f"SELECT current_setting('{name}') AS value")
        settings[name] = "" if row is None else str(row["value"])
    return settings


async def leases(tx: Tx) -> Leases:
    """Counts the workers that hold their lease and that lost it, and the releases that are running."""
    row = await tx.first(
        "SELECT coalesce(sum(CASE WHEN lease_until >= {now} THEN 1 ELSE 0 END), 0) AS alive,"
        " coalesce(sum(CASE WHEN lease_until < {now} THEN 1 ELSE 0 END), 0) AS expired"
        " FROM workers WHERE state IN ('alive', 'stopping')"
    )
    assert row is not None
    releases = await tx.all(
        "SELECT DISTINCT version FROM workers"
        " WHERE state IN ('alive', 'stopping') AND lease_until >= {now} ORDER BY version"
    )
    versions = tuple(release["version"] for release in releases)
    return Leases(int(row["alive"]), int(row["expired"]), versions)


async def lost_slots(tx: Tx, org: OrgId, since: datetime) -> int:
    """Counts the organization's slots since an instant that had no record until the auditor wrote one."""
    row = await tx.first(
        "SELECT count(*) AS lost FROM occurrences"
        " WHERE org_id = :org AND run_at >= :since AND by_auditor = :yes",
        {"org": org, "since": since, "yes": True},
    )
    return int(row["lost"]) if row else 0


async def interrupted_runs(tx: Tx, org: OrgId, since: datetime) -> int:
    """Counts an organization's runs since an instant that failed with the loss of three workers."""
    row = await tx.first(
        "SELECT count(*) AS many FROM runs WHERE org_id = :org AND kind IN (:kinds)"
        f" AND {BY_KIND.format(run='runs')}"
        " AND queued_at >= :oldest AND finished_at >= :since AND code = 'interrupted'",
        {
            "org": org,
            "kinds": kinds([RunStatus.FAILED]),
            "oldest": since - _LONGEST_RUN,
            "since": since,
        },
    )
    return int(row["many"]) if row else 0


async def database_now(tx: Tx) -> datetime:
    """Returns the time that decides what is due: the server's on PostgreSQL, this process's on SQLite."""
    row = await tx.first(
        PerEngine(
            "SELECT :now AS instant",
            "SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint AS instant",
        )
    )
    assert row is not None
    return from_ms(int(row["instant"]))


async def open_transactions(tx: Tx) -> list[OpenTransaction]:
    """Returns the database's open transactions, oldest first, at most 20; none on SQLite."""
    if tx.dialect == "sqlite":
        return []
    rows = await tx.all("SELECT kind, since, process, role, application FROM queue_open_transactions()")
    return [
        OpenTransaction(row["kind"], from_ms(row["since"]), row["process"], row["role"], row["application"])
        for row in rows
    ]


async def standbys(tx: Tx) -> Standbys | None:
    """Returns the standbys of the server; None on SQLite, and when `steward_queue` may not see them."""
    if tx.dialect == "sqlite" or not await sees_sessions(tx):
        return None
    row = await tx.first("SELECT synchronous, asynchronous, is_waiting FROM queue_standbys()")
    return None if row is None else Standbys(row["synchronous"], row["asynchronous"], row["is_waiting"])


async def followers(tx: Tx) -> list[Follower]:
    """Returns slots, then standbys, at most 20; none on SQLite or when `steward_queue` may not see them."""
    if tx.dialect == "sqlite" or not await sees_sessions(tx):
        return []
    rows = await tx.all(
        "SELECT kind, follower, state, rows_since, clock_ahead_ms, kept_bytes FROM queue_followers()"
        " ORDER BY kind, follower"
    )
    return [
        Follower(
            row["kind"],
            row["follower"],
            row["state"],
            row["rows_since"],
            None if row["clock_ahead_ms"] is None else timedelta(milliseconds=row["clock_ahead_ms"]),
            row["kept_bytes"] or 0,
        )
        for row in rows
    ]


async def dead_rows(tx: Tx) -> dict[str, int]:
    """Returns PostgreSQL's count of dead rows in each table of the queue; empty on SQLite."""
    if tx.dialect == "sqlite":
        return {}
    rows = await tx.all(
        "SELECT relname AS name, n_dead_tup AS many FROM pg_stat_all_tables"
        " WHERE schemaname = 'public' AND relname IN (:tables)",
        {"tables": QUEUE_TABLES},
    )
    return {row["name"]: row["many"] for row in rows}


async def rest_rows(tx: Tx, *, cap: int = _MAX_REST_ROWS) -> dict[str, int]:
    """Counts the rows of each partitioned table that have no partition for their month, up to `cap`."""
    if tx.dialect == "sqlite":
        return {}
    rows = await tx.all("SELECT parent AS name, many FROM queue_default_partition_rows(:cap)", {"cap": cap})
    return {row["name"]: row["many"] for row in rows}


async def transaction_age(tx: Tx) -> int | None:
    """Returns the age in transactions of the oldest row that is not frozen; None on SQLite."""
    if tx.dialect == "sqlite":
        return None
    row = await tx.first(
        "SELECT age(datfrozenxid) AS age FROM pg_database WHERE datname = current_database()"
    )
    assert row is not None
    return int(row["age"])


async def sees_sessions(tx: Tx) -> bool:
    """Returns whether `open_transactions` sees other roles' sessions; True on SQLite."""
    if tx.dialect == "sqlite":
        return True
    row = await tx.first("SELECT queue_sees_sessions() AS sees")
    return row is not None and bool(row["sees"])


async def failing_rows(tx: Tx, at_least: int) -> list[tuple[str, str]]:
    """Returns (task, key) of rows on which a periodic task failed at least `at_least` times.

    The last failure comes first; at most 20.
    """
    rows = await tx.all(
        "SELECT task, key FROM deferred_rows WHERE failures >= :least ORDER BY last_failed_at DESC LIMIT 20",
        {"least": at_least},
    )
    return [(row["task"], row["key"]) for row in rows]


async def row_security_gaps(tx: Tx) -> list[str]:
    """Returns tables and roles without row-level security in effect; empty on SQLite."""
    if tx.dialect == "sqlite":
        return []
    rows = await tx.all(
        "SELECT c.relname AS name FROM pg_class AS c"
        " JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary"
        " JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]"
        " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attname = 'org_id'"
        " AND c.relname NOT IN (:shared) AND NOT (c.relrowsecurity AND c.relforcerowsecurity)"
        " UNION ALL"
        " SELECT r.rolname FROM pg_roles AS r WHERE r.rolname IN ('steward_app', 'steward_queue')"
        " AND (r.rolsuper OR r.rolbypassrls OR r.rolcanlogin OR r.rolcreaterole"
        " OR EXISTS (SELECT 1 FROM pg_class AS c WHERE c.relowner = r.oid))"
        " UNION ALL"
        " SELECT 'audit_log' FROM pg_class AS c WHERE c.oid = 'public.audit_log'::regclass"
        " AND (has_table_privilege('steward_app', c.oid, 'UPDATE')"
        " OR has_table_privilege('steward_app', c.oid, 'DELETE'))",
        {"shared": list(_SHARED)},
    )
    return [row["name"] for row in rows]


async def audit_fault(tx: Tx, org: OrgId) -> Fault | None:
    """Returns the fault that the last check of an organization's audit log found, or None."""
    head = await audit_heads.get(tx, org)
    return None if head is None else head.fault
