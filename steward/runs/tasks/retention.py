"""Deletes rows that are older than their table's retention (docs/design/storage.md#retention)."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from steward.database.accounts import attempt_limits as limits
from steward.database.accounts import keys
from steward.database.engine import maintenance
from steward.database.engine.base import Engine, Tx
from steward.database.events import own_changes
from steward.database.events import retention as events_kept
from steward.database.notifications import retention as notices_kept
from steward.database.operator import partitions, processes, retention
from steward.database.org_span import EVERY_ORG, OrgSpan, next_orgs
from steward.database.runs import file_folder, run_files, workers
from steward.model.ids import AutomationId, OrgId, PersonId, RunId

ROWS = 1_000
# Removing a run removes rows of at least five tables; this many per pass leave the writer free for others.
_RUNS = 200
_VALUES_FOR = timedelta(days=30)
FILES_FOR = timedelta(days=30)
TEST_FILES_FOR = timedelta(hours=24)
_INVITATIONS_FOR = timedelta(days=30)
_DAY = timedelta(days=1)
_FAILURES_FOR = timedelta(days=1)
_EVENTS_FOR = timedelta(days=30)
_BODIES_FOR = timedelta(days=7)
_NOTICES_FOR = timedelta(days=30)
_INBOX_FOR = timedelta(days=90)


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


async def _sweep_runs(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes runs that finished longer ago than the history is kept, with everything they hold."""

    async def pick(tx: Tx) -> list[tuple[OrgId, RunId]]:
        return await retention.runs_past(tx, tx.now - keeping.history, _RUNS, keeping.orgs)

    return await _of_runs(engine, now, await engine.read(now, pick), retention.remove_runs)


async def _sweep_values(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes step values thirty days after their run's end; by partition on PostgreSQL."""

    async def pick(tx: Tx) -> list[tuple[OrgId, RunId]]:
        return await retention.values_past(tx, tx.now - _VALUES_FOR, _RUNS, keeping.orgs)

    return await _of_runs(engine, now, await engine.read(now, pick), retention.remove_values)


async def _of_runs(
    engine: Engine,
    now: datetime,
    expired: Sequence[tuple[OrgId, RunId]],
    remove: Callable[..., Awaitable[int]],
) -> int:
    by_org: dict[OrgId, list[RunId]] = defaultdict(list)
    for org, run in expired:
        by_org[org].append(run)
    removed = 0
    for org, runs in by_org.items():
        removed += await engine.write(now, partial(remove, org=org, runs=runs, max_rows=ROWS), org=org)
    return removed


async def _sweep_files(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes the files of runs thirty days after their end, of test runs after a day; and orphans."""
    before, test_before = now - FILES_FOR, now - TEST_FILES_FOR
    pick = partial(run_files.expired, before=before, test_before=test_before, max_rows=_RUNS)
    removed = 0
    for org, run in await engine.read(now, pick):
        removed += await engine.write(now, partial(run_files.remove, org=org, runs=[run]), org=org)
        if keeping.file is not None:
            await asyncio.to_thread(file_folder.remove_run, file_folder.folder_of(keeping.file), org, run)
    if keeping.file is not None:
        await _sweep_orphans(engine, now, file_folder.folder_of(keeping.file))
    return removed


async def _sweep_orphans(engine: Engine, now: datetime, folder: Path) -> None:
    for org, run in await asyncio.to_thread(lambda: list(file_folder.runs_in(folder))):
        files = await engine.read(now, partial(run_files.of_run, org=org, run=run), org=org)
        stored = {file.sha256 for file in files}
        await asyncio.to_thread(partial(file_folder.remove_orphans, folder, org, run, stored=stored, now=now))


async def _sweep_slots(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes decided slots older than the kept history."""

    async def pick(tx: Tx) -> list[tuple[OrgId, AutomationId, int]]:
        return await retention.slots_past(tx, tx.now - keeping.history, ROWS, keeping.orgs)

    expired = await engine.read(now, pick)

    async def remove(tx: Tx) -> int:
        return sum([await retention.remove_slot(tx, org, of, slot_at) for org, of, slot_at in expired])

    return await engine.write(now, remove, org={org for org, _, _ in expired}) if expired else 0


async def _sweep_sessions(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes sessions that have ended."""

    async def remove(tx: Tx) -> int:
        return await retention.remove_sessions(
            tx,
            idle_since=tx.now - keeping.session_idle,
            made_since=tx.now - keeping.session_life,
            max_rows=ROWS,
        )

    return await engine.write(now, remove)


def _simple(remove: Callable[[Tx], Awaitable[int]]) -> _Sweep:
    async def sweep(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
        return await engine.write(now, remove)

    return sweep


async def _invitations(tx: Tx) -> int:
    return await retention.remove_invitations(tx, tx.now - _INVITATIONS_FOR, ROWS)


async def _failures(tx: Tx) -> int:
    return await retention.remove_deferrals(tx, tx.now - _FAILURES_FOR, ROWS)


async def _sweep_events(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes store events after a month: none is matched or repeated that late."""

    async def pick(tx: Tx) -> list[tuple[OrgId, str]]:
        return await events_kept.past(tx, tx.now - _EVENTS_FOR, ROWS, keeping.orgs)

    return await _of_events(engine, now, await engine.read(now, pick), events_kept.remove)


async def _sweep_bodies(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes bodies of store events after a week; by partition on PostgreSQL."""

    async def pick(tx: Tx) -> list[tuple[OrgId, str]]:
        return await events_kept.bodies_past(tx, tx.now - _BODIES_FOR, ROWS, keeping.orgs)

    return await _of_events(engine, now, await engine.read(now, pick), events_kept.remove_bodies)


async def _of_events(
    engine: Engine,
    now: datetime,
    expired: Sequence[tuple[OrgId, str]],
    remove: Callable[..., Awaitable[int]],
) -> int:
    by_org: dict[OrgId, list[str]] = defaultdict(list)
    for org, event in expired:
        by_org[org].append(event)
    removed = 0
    for org, events in by_org.items():
        removed += await engine.write(now, partial(remove, org=org, events=events), org=org)
    return removed


async def _sweep_own_changes(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes records of own changes once no event can be their echo."""
    removed = 0

    async def pick(tx: Tx) -> tuple[datetime, list[OrgId]]:
        before = tx.now - own_changes.RETENTION
        return before, await events_kept.with_own_changes(tx, before)

    before, orgs = await engine.read(now, pick)
    for org in orgs:
        remove = partial(events_kept.remove_own_changes, org=org, before=before)
        removed += await engine.write(now, remove, org=org)
    return removed


async def _sweep_notices(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes notices after a month."""
    return await _of_notifications(
        engine, now, keeping, notices_kept.notices_past, notices_kept.remove_notices
    )


async def _sweep_messages(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes messages that have ended a month after they were begun."""
    return await _of_notifications(
        engine, now, keeping, notices_kept.messages_past, notices_kept.remove_messages
    )


async def _of_notifications(
    engine: Engine,
    now: datetime,
    keeping: RetentionRules,
    past: Callable[[Tx, datetime, int, OrgSpan], Awaitable[list[tuple[OrgId, str]]]],
    remove: Callable[..., Awaitable[int]],
) -> int:
    async def pick(tx: Tx) -> list[tuple[OrgId, str]]:
        return await past(tx, tx.now - _NOTICES_FOR, ROWS, keeping.orgs)

    by_org: dict[OrgId, list[str]] = defaultdict(list)
    for org, key in await engine.read(now, pick):
        by_org[org].append(key)
    return sum(
        [
            await engine.write(now, partial(remove, org=org, keys=keys), org=org)
            for org, keys in by_org.items()
        ]
    )


async def _sweep_inbox(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Removes entries of inboxes after three months."""

    async def pick(tx: Tx) -> list[tuple[OrgId, PersonId, str]]:
        return await notices_kept.inbox_past(tx, tx.now - _INBOX_FOR, ROWS)

    expired = await engine.read(now, pick)

    async def remove(tx: Tx) -> int:
        return sum([await notices_kept.remove_entry(tx, org, person, key) for org, person, key in expired])

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
    "login_attempts": _simple(partial(limits.forget_ended, max_rows=ROWS)),
    "rate_windows": _simple(partial(retention.remove_windows, max_rows=ROWS)),
    "deferred_rows": _simple(_failures),
    "invitations": _simple(_invitations),
    "service_keys": _simple(keys.forget_retired),
    "workers": _simple(workers.remove_dead),
    "api_processes": _simple(processes.remove_expired),
}
# What one pass removes at most; a table that reaches this limit gets another pass at once.
FULL: Mapping[str, int] = {
    "runs": _RUNS,
    "run_files": _RUNS,
    "occurrences": ROWS,
    "step_values": ROWS,
    "events": ROWS,
    "notices": ROWS,
    "messages": ROWS,
    "inbox": ROWS,
}


async def shrink(engine: Engine, now: datetime, keeping: RetentionRules) -> None:
    """Returns free pages to the file system and truncates a long write-ahead log (SQLite)."""
    if engine.dialect == "sqlite":
        await engine.write(now, maintenance.release_free_pages)
        if keeping.file is not None:
            await maintenance.truncate_log(keeping.file)


async def rotate_partitions(engine: Engine, now: datetime) -> tuple[int, int]:
    """Creates the next monthly partitions and drops expired ones (PostgreSQL); returns how many of each."""
    if engine.dialect == "sqlite":
        return 0, 0
    created = await engine.write(now, partitions.make)

    then, oldest, unfinished = await _oldest_runs(engine, now)
    dropped = 0
    for table, drop_before in (
        ("step_values", partitions.border(then - _VALUES_FOR, unfinished)),
        ("steps", partitions.border(then, oldest)),
        ("changes", partitions.border(then, oldest)),
        ("event_bodies", partitions.border(then - _BODIES_FOR, None)),
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
            since = tx.now - _VALUES_FOR + _DAY
            any_id, open_id = await partitions.oldest_runs(tx, queued_before=since, orgs=span)
            any_ids.extend([any_id] if any_id is not None else [])
            open_ids.extend([open_id] if open_id is not None else [])
        return tx.now, span

    while True:
        then, span = await engine.read(now, load)
        if span is None:
            return then, min(any_ids, default=None), min(open_ids, default=None)
        after = span.last
