"""What is kept and for how long, table by table (engine 17); leaves the statements to store/."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from steward.database.accounts import attempt_limits as limits
from steward.database.accounts import keys
from steward.database.engine import maintenance as upkeep
from steward.database.engine.base import Engine, Tx
from steward.database.events import own_changes
from steward.database.events import retention as events_kept
from steward.database.operator import partitions as months
from steward.database.operator import retention
from steward.database.runs import workers
from steward.model.ids import AutomationId, OrgId, RunId

ROWS = 1_000
# A run takes at least a row of five tables with it; so many a pass keep the writer free for others.
RUNS = 200
VALUES_FOR = timedelta(days=30)
INVITATIONS_FOR = timedelta(days=30)
FAILURES_FOR = timedelta(days=1)
EVENTS_FOR = timedelta(days=30)
BODIES_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """The settings retention obeys (contract 8), with their defaults; `file` is the SQLite database."""

    history: timedelta = timedelta(days=400)
    session_idle: timedelta = timedelta(minutes=30)
    session_life: timedelta = timedelta(hours=12)
    file: Path | None = None


Sweep = Callable[[Engine, datetime, RetentionRules], Awaitable[int]]


async def sweep_runs(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Runs finished longer ago than is kept, with all they hold."""

    async def pick(tx: Tx) -> list[tuple[OrgId, RunId]]:
        return await retention.runs_past(tx, tx.now - keeping.history, RUNS)

    return await _of_runs(engine, now, await engine.read(now, pick), retention.remove_runs)


async def sweep_values(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Values of steps, thirty days after their run's end; by the month on PostgreSQL."""

    async def pick(tx: Tx) -> list[tuple[OrgId, RunId]]:
        return await retention.values_past(tx, tx.now - VALUES_FOR, RUNS)

    return await _of_runs(engine, now, await engine.read(now, pick), retention.remove_values)


async def _of_runs(
    engine: Engine,
    now: datetime,
    found: Sequence[tuple[OrgId, RunId]],
    remove: Callable[..., Awaitable[int]],
) -> int:
    by_org: dict[OrgId, list[RunId]] = defaultdict(list)
    for org, run in found:
        by_org[org].append(run)
    removed = 0
    for org, runs in by_org.items():
        removed += await engine.write(now, partial(remove, org=org, runs=runs, most=ROWS), org=org)
    return removed


async def sweep_slots(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Decided slots as old as the runs that are kept."""

    async def pick(tx: Tx) -> list[tuple[OrgId, AutomationId, int]]:
        return await retention.slots_past(tx, tx.now - keeping.history, ROWS)

    found = await engine.read(now, pick)

    async def remove(tx: Tx) -> int:
        return sum([await retention.remove_slot(tx, org, of, slot_at) for org, of, slot_at in found])

    return await engine.write(now, remove, org={org for org, _, _ in found}) if found else 0


async def sweep_sessions(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Sessions that have ended."""

    async def remove(tx: Tx) -> int:
        return await retention.remove_sessions(
            tx, idle_since=tx.now - keeping.session_idle, made_since=tx.now - keeping.session_life, most=ROWS
        )

    return await engine.write(now, remove)


def _simple(remove: Callable[[Tx], Awaitable[int]]) -> Sweep:
    async def sweep(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
        return await engine.write(now, remove)

    return sweep


async def _invitations(tx: Tx) -> int:
    return await retention.remove_invitations(tx, tx.now - INVITATIONS_FOR, ROWS)


async def _failures(tx: Tx) -> int:
    return await retention.remove_deferrals(tx, tx.now - FAILURES_FOR, ROWS)


async def sweep_events(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Store events a month after they came: none is matched or repeated that late."""

    async def pick(tx: Tx) -> list[tuple[OrgId, str]]:
        return await events_kept.past(tx, tx.now - EVENTS_FOR, ROWS)

    return await _of_events(engine, now, await engine.read(now, pick), events_kept.remove)


async def sweep_bodies(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """Bodies of store events after a week; by the month on PostgreSQL."""

    async def pick(tx: Tx) -> list[tuple[OrgId, str]]:
        return await events_kept.bodies_past(tx, tx.now - BODIES_FOR, ROWS)

    return await _of_events(engine, now, await engine.read(now, pick), events_kept.remove_bodies)


async def _of_events(
    engine: Engine,
    now: datetime,
    found: Sequence[tuple[OrgId, str]],
    remove: Callable[..., Awaitable[int]],
) -> int:
    by_org: dict[OrgId, list[str]] = defaultdict(list)
    for org, event in found:
        by_org[org].append(event)
    removed = 0
    for org, events in by_org.items():
        removed += await engine.write(now, partial(remove, org=org, events=events), org=org)
    return removed


async def sweep_own_changes(engine: Engine, now: datetime, keeping: RetentionRules) -> int:
    """What automations changed, once no event can be its echo any more."""
    removed = 0

    async def pick(tx: Tx) -> tuple[datetime, list[OrgId]]:
        before = tx.now - own_changes.KEPT
        return before, await events_kept.with_own_changes(tx, before)

    before, orgs = await engine.read(now, pick)
    for org in orgs:
        remove = partial(events_kept.remove_own_changes, org=org, before=before)
        removed += await engine.write(now, remove, org=org)
    return removed


# One line adds a table; each in transactions of its own, so that none stops another.
SWEEPS: Mapping[str, Sweep] = {
    "runs": sweep_runs,
    "step_values": sweep_values,
    "occurrences": sweep_slots,
    "events": sweep_events,
    "event_bodies": sweep_bodies,
    "own_changes": sweep_own_changes,
    "sessions": sweep_sessions,
    "login_attempts": _simple(partial(limits.forget_ended, most=ROWS)),
    "rate_windows": _simple(partial(retention.remove_windows, most=ROWS)),
    "deferred_rows": _simple(_failures),
    "invitations": _simple(_invitations),
    "service_keys": _simple(keys.forget_retired),
    "workers": _simple(workers.remove_dead),
}
# What one pass removes at most; a table that gave as many is come back to at once.
FULL: Mapping[str, int] = {"runs": RUNS, "occurrences": ROWS, "step_values": ROWS, "events": ROWS}


async def shrink(engine: Engine, now: datetime, keeping: RetentionRules) -> None:
    """Gives room that became free back to the file system, and cuts a long write-ahead log short (SQLite)."""
    if engine.dialect == "sqlite":
        await engine.write(now, upkeep.give_back)
        if keeping.file is not None:
            await upkeep.shorten_log(keeping.file)


async def turn_months(engine: Engine, now: datetime) -> tuple[int, int]:
    """Makes the next months and drops those of which nothing is kept (PostgreSQL): how many of each."""
    if engine.dialect == "sqlite":
        return 0, 0
    made = await engine.write(now, months.make)

    async def look(tx: Tx) -> tuple[datetime, RunId | None, RunId | None]:
        return tx.now, *await months.oldest_runs(tx)

    then, oldest, unfinished = await engine.read(now, look)
    dropped = 0
    for table, least in (
        ("step_values", months.border(then - VALUES_FOR, unfinished)),
        ("steps", months.border(then, oldest)),
        ("changes", months.border(then, oldest)),
        ("event_bodies", months.border(then - BODIES_FOR, None)),
    ):
        dropped += await engine.write(now, partial(months.drop, table=table, before=least))
    return made, dropped
