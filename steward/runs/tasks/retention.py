"""Deletes rows that are older than their table's retention (docs/design/storage.md#retention)."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from steward.database.accounts import attempt_limits as limits
from steward.database.accounts import keys
from steward.database.engine import maintenance
from steward.database.engine.base import Engine, Tx
from steward.database.events import own_changes
from steward.database.events import retention as event_retention
from steward.database.notifications import retention as notification_retention
from steward.database.operator import partitions, processes, retention
from steward.database.org_span import EVERY_ORG, OrgSpan, next_orgs
from steward.database.runs import file_folder, run_files, workers
from steward.model.ids import AutomationId, OrgId, PersonId, RunId

K = TypeVar("K")

ROWS = 1_000
# Removing a run removes rows of at least five tables; this many per pass leave the writer free for others.
_RUNS = 200
# How long rows are kept after their end.
_KEEP_VALUES = timedelta(days=30)
KEEP_FILES = timedelta(days=30)
KEEP_TEST_FILES = timedelta(hours=24)
_KEEP_INVITATIONS = timedelta(days=30)
_DAY = timedelta(days=1)
_KEEP_FAILURES = timedelta(days=1)
_KEEP_EVENTS = timedelta(days=30)
_KEEP_BODIES = timedelta(days=7)
_KEEP_NOTICES = timedelta(days=30)
_KEEP_INBOX = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """The settings of retention, with their defaults; `file` is the SQLite database.

    `orgs` are the organizations that a pass looks into.
    """

    history: timedelta = timedelta(days=400)
    session_idle: timedelta = timedelta(minutes=30)
    session_life: timedelta = timedelta(hours=12)
    file: Path | None = None
    orgs: OrgSpan = EVERY_ORG


_Sweep = Callable[[Engine, datetime, RetentionRules], Awaitable[int]]


async def _sweep_runs(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes runs that finished before the kept history, with all their data."""

    async def find_expired(tx: Tx) -> list[tuple[OrgId, RunId]]:
        return await retention.runs_past(tx, tx.now - rules.history, _RUNS, rules.orgs)

    return await _remove_expired(
        engine, now, await engine.read(now, find_expired), partial(retention.remove_runs, max_rows=ROWS)
    )


async def _sweep_values(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes step values thirty days after their run's end; by partition on PostgreSQL."""

    async def find_expired(tx: Tx) -> list[tuple[OrgId, RunId]]:
        return await retention.values_past(tx, tx.now - _KEEP_VALUES, _RUNS, rules.orgs)

    return await _remove_expired(
        engine, now, await engine.read(now, find_expired), partial(retention.remove_values, max_rows=ROWS)
    )


async def _remove_expired(
    engine: Engine,
    now: datetime,
    expired: Sequence[tuple[OrgId, K]],
    remove: Callable[[Tx, OrgId, list[K]], Awaitable[int]],
) -> int:
    """Removes expired rows in one transaction per organization; returns how many were removed."""
    by_org: dict[OrgId, list[K]] = defaultdict(list)
    for org, key in expired:
        by_org[org].append(key)

    async def remove_of(tx: Tx, *, org: OrgId) -> int:
        return await remove(tx, org, by_org[org])

    return sum([await engine.write(now, partial(remove_of, org=org), org=org) for org in by_org])


async def _sweep_files(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes the files of runs thirty days after their end, of test runs after a day; and orphans."""
    before, test_before = now - KEEP_FILES, now - KEEP_TEST_FILES
    find_expired = partial(run_files.expired, before=before, test_before=test_before, max_rows=_RUNS)
    removed = 0
    for org, run in await engine.read(now, find_expired):
        removed += await engine.write(now, partial(run_files.remove, org=org, runs=[run]), org=org)
        if rules.file is not None:
            await asyncio.to_thread(file_folder.remove_run, file_folder.folder_of(rules.file), org, run)
    if rules.file is not None:
        await _sweep_orphans(engine, now, file_folder.folder_of(rules.file))
    return removed


async def _sweep_orphans(engine: Engine, now: datetime, folder: Path) -> None:
    """Removes files in the folder that have no row, such as after a kill."""
    for org, run in await asyncio.to_thread(lambda: list(file_folder.runs_in(folder))):
        files = await engine.read(now, partial(run_files.of_run, org=org, run=run), org=org)
        stored = {file.sha256 for file in files}
        await asyncio.to_thread(partial(file_folder.remove_orphans, folder, org, run, stored=stored, now=now))


async def _sweep_slots(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes decided slots older than the kept history."""

    async def find_expired(tx: Tx) -> list[tuple[OrgId, AutomationId, int]]:
        return await retention.slots_past(tx, tx.now - rules.history, ROWS, rules.orgs)

    expired = await engine.read(now, find_expired)

    async def remove(tx: Tx) -> int:
        return sum([await retention.remove_slot(tx, org, of, slot_at) for org, of, slot_at in expired])

    return await engine.write(now, remove, org={org for org, _, _ in expired}) if expired else 0


async def _sweep_sessions(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes sessions that have ended."""

    async def remove(tx: Tx) -> int:
        return await retention.remove_sessions(
            tx,
            idle_since=tx.now - rules.session_idle,
            made_since=tx.now - rules.session_life,
            max_rows=ROWS,
        )

    return await engine.write(now, remove)


def _without_rules(remove: Callable[[Tx], Awaitable[int]]) -> _Sweep:
    """Returns a sweep of one statement that depends on no setting."""

    async def sweep(engine: Engine, now: datetime, rules: RetentionRules) -> int:
        return await engine.write(now, remove)

    return sweep


async def _remove_invitations(tx: Tx) -> int:
    return await retention.remove_invitations(tx, tx.now - _KEEP_INVITATIONS, ROWS)


async def _remove_deferrals(tx: Tx) -> int:
    return await retention.remove_deferrals(tx, tx.now - _KEEP_FAILURES, ROWS)


async def _sweep_events(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes store events after a month: none is matched or repeated that late."""

    async def find_expired(tx: Tx) -> list[tuple[OrgId, str]]:
        return await event_retention.events_past(tx, tx.now - _KEEP_EVENTS, ROWS, rules.orgs)

    return await _remove_expired(engine, now, await engine.read(now, find_expired), event_retention.remove)


async def _sweep_bodies(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes bodies of store events after a week; by partition on PostgreSQL."""

    async def find_expired(tx: Tx) -> list[tuple[OrgId, str]]:
        return await event_retention.bodies_past(tx, tx.now - _KEEP_BODIES, ROWS, rules.orgs)

    return await _remove_expired(
        engine, now, await engine.read(now, find_expired), event_retention.remove_bodies
    )


async def _sweep_own_changes(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes records of own changes once no event can be their echo."""
    removed = 0

    async def find_expired(tx: Tx) -> tuple[datetime, list[OrgId]]:
        before = tx.now - own_changes.RETENTION
        return before, await event_retention.with_own_changes(tx, before)

    before, orgs = await engine.read(now, find_expired)
    for org in orgs:
        remove = partial(event_retention.remove_own_changes, org=org, before=before)
        removed += await engine.write(now, remove, org=org)
    return removed


async def _sweep_notices(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes notices after a month."""
    return await _sweep_notifications(
        engine, now, rules, notification_retention.notices_past, notification_retention.remove_notices
    )


async def _sweep_messages(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes messages that have ended a month after they were begun."""
    return await _sweep_notifications(
        engine, now, rules, notification_retention.messages_past, notification_retention.remove_messages
    )


async def _sweep_notifications(
    engine: Engine,
    now: datetime,
    rules: RetentionRules,
    find_past: Callable[[Tx, datetime, int, OrgSpan], Awaitable[list[tuple[OrgId, str]]]],
    remove: Callable[[Tx, OrgId, list[str]], Awaitable[int]],
) -> int:
    async def find_expired(tx: Tx) -> list[tuple[OrgId, str]]:
        return await find_past(tx, tx.now - _KEEP_NOTICES, ROWS, rules.orgs)

    return await _remove_expired(engine, now, await engine.read(now, find_expired), remove)


async def _sweep_inbox(engine: Engine, now: datetime, rules: RetentionRules) -> int:
    """Removes entries of inboxes after three months."""

    async def find_expired(tx: Tx) -> list[tuple[OrgId, PersonId, str]]:
        return await notification_retention.inbox_past(tx, tx.now - _KEEP_INBOX, ROWS)

    expired = await engine.read(now, find_expired)

    async def remove(tx: Tx) -> int:
        return sum(
            [await notification_retention.remove_entry(tx, org, person, key) for org, person, key in expired]
        )

    return await engine.write(now, remove, org={org for org, _, _ in expired}) if expired else 0


# One line adds a table; each in transactions of its own, so that none stops another.
SWEEPS: Mapping[str, _Sweep] = {
    "runs": _sweep_runs,
    "step_values": _sweep_values,
    "run_files": _sweep_files,
    "occurrences": _sweep_slots,
    "events": _sweep_events,
    "event_bodies": _sweep_bodies,
    "own_changes": _sweep_own_changes,
    "notices": _sweep_notices,
    "messages": _sweep_messages,
    "inbox": _sweep_inbox,
    "sessions": _sweep_sessions,
    "login_attempts": _without_rules(partial(limits.forget_ended, max_rows=ROWS)),
    "rate_windows": _without_rules(partial(retention.remove_windows, max_rows=ROWS)),
    "deferred_rows": _without_rules(_remove_deferrals),
    "invitations": _without_rules(_remove_invitations),
    "service_keys": _without_rules(keys.forget_retired),
    "workers": _without_rules(workers.remove_dead),
    "api_processes": _without_rules(processes.remove_expired),
}
# The most that one pass removes of a table; one that reaches its limit gets another pass at once.
MAX_PER_PASS: Mapping[str, int] = {
    "runs": _RUNS,
    "run_files": _RUNS,
    "occurrences": ROWS,
    "step_values": ROWS,
    "events": ROWS,
    "notices": ROWS,
    "messages": ROWS,
    "inbox": ROWS,
}


async def release_space(engine: Engine, now: datetime, rules: RetentionRules) -> None:
    """Returns free pages to the file system and truncates a long write-ahead log (SQLite)."""
    if engine.dialect == "sqlite":
        await engine.write(now, maintenance.release_free_pages)
        if rules.file is not None:
            await maintenance.truncate_log(rules.file)


async def rotate_partitions(engine: Engine, now: datetime) -> tuple[int, int]:
    """Creates the next monthly partitions and drops expired ones (PostgreSQL); returns how many of each."""
    if engine.dialect == "sqlite":
        return 0, 0
    created = await engine.write(now, partitions.make)
    database_now, oldest, unfinished = await _oldest_runs(engine, now)
    dropped = 0
    for table, drop_before in (
        ("step_values", partitions.border(database_now - _KEEP_VALUES, unfinished)),
        ("steps", partitions.border(database_now, oldest)),
        ("changes", partitions.border(database_now, oldest)),
        ("event_bodies", partitions.border(database_now - _KEEP_BODIES, None)),
    ):
        dropped += await engine.write(now, partial(partitions.drop, table=table, before=drop_before))
    return created, dropped


async def _oldest_runs(engine: Engine, now: datetime) -> tuple[datetime, str | None, str | None]:
    """Returns the database's time and the least ids that runs need, read span by span of organizations."""
    any_ids: list[str] = []
    open_ids: list[str] = []
    after = 0

    async def load(tx: Tx) -> tuple[datetime, OrgSpan | None]:
        span = await next_orgs(tx, after)
        if span is not None:
            since = tx.now - _KEEP_VALUES + _DAY
            any_id, open_id = await partitions.oldest_runs(tx, queued_before=since, orgs=span)
            any_ids.extend([any_id] if any_id is not None else [])
            open_ids.extend([open_id] if open_id is not None else [])
        return tx.now, span

    while True:
        database_now, span = await engine.read(now, load)
        if span is None:
            return database_now, min(any_ids, default=None), min(open_ids, default=None)
        after = span.last
