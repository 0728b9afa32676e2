"""Dispatch of due automations in batches; `automations/due.py` decides their slots."""

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

from steward.automations import due, fast_path, lifecycle, pauses, readiness
from steward.automations.due_slots import LockedAutomation
from steward.automations.fast_path import FastStarts
from steward.automations.rules import AutomationRules
from steward.database import due_rows
from steward.database.automations import records as automations
from steward.database.automations import schedules
from steward.database.automations.schedules import Timing
from steward.database.engine.base import Autocommit, Dialect, Engine, Tx, ms
from steward.database.operator import status as stats
from steward.database.runs import workers
from steward.failpoint import failpoint
from steward.model.ids import AutomationId, OrgId
from steward.model.limits import FAILURES_TO_PAUSE
from steward.model.refusals import Unavailable
from steward.telemetry.log import Log
from steward.version import __version__

# Automations of one transaction: some 20 ms of SQLite's only writer, and few locks on PostgreSQL.
BATCH = {"sqlite": 500, "postgresql": 200}
# Concurrent transactions.
_CONCURRENCY = {"sqlite": 1, "postgresql": 4}
# Automations of one read. SQLite reads more of them, so that neighbouring rows share a transaction and the
# pages that it writes.
READ_LIMIT = {"sqlite": 6_000, "postgresql": 800}
# Limits of one transaction of the slow path: automations, and slots of each. After a standstill an automation
# may have many due slots; those of one transaction share a notice.
SLOW_PATH_BATCH = 50
_SLOTS_PER_AUTOMATION = 100

Key = tuple[OrgId, AutomationId]


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of one transaction: the automations' timings, and how late each run started."""

    timings: list[Timing]
    delays: list[timedelta]
    withdrawn: list[Key]


async def dispatch_due(
    engine: Engine,
    now: datetime,
    *,
    rules: AutomationRules,
    log: Log,
    delays: list[timedelta] | None = None,
) -> bool:
    """Decides due slots of one batch of automations; returns True when there is more to do at once.

    An automation that cannot be decided never stops the others: it is deferred, and paused after five
    failures. `delays` collects how late each started run was.
    """
    start_delays = [] if delays is None else delays
    limit = READ_LIMIT[engine.dialect]
    # One statement needs no snapshot: on PostgreSQL two round trips less for a tick that finds nothing.
    due_keys = await engine.read(now, Autocommit(partial(schedules.due, max_rows=limit)))
    if not due_keys:
        return False
    failpoint("before_dispatch")
    parts = _parts(due_keys, engine.dialect)
    keys = list(chain.from_iterable(parts))
    more = len(due_keys) == limit or len(keys) < len(due_keys)
    started = await _fast_path(engine, now, parts, rules)
    start_delays += started.delays
    remaining = sorted(set(keys) - set(started.automations))
    if not remaining:
        failpoint("after_dispatch")
        return more
    # One round of the fast path: with the larger read limit this task would take minutes.
    limit = BATCH[engine.dialect] * _CONCURRENCY[engine.dialect]
    more = more or len(remaining) > limit
    decided = await _slow_path(engine, now, remaining[:limit], rules=rules, log=log)
    failpoint("after_dispatch")
    start_delays += decided.delays
    return _is_behind(decided.timings, now) or (more and bool(decided.timings or started.automations))


def _is_behind(timings: Sequence[Timing], now: datetime) -> bool:
    """Returns whether an automation has a further slot that is due."""
    return any(timing.due_at is not None and timing.due_at <= now for timing in timings)


async def _slow_path(
    engine: Engine, now: datetime, keys: Sequence[Key], *, rules: AutomationRules, log: Log
) -> Decisions:
    """Decides the slots of `keys` in batches; when a batch fails, each automation on its own."""
    timings: list[Timing] = []
    delays: list[timedelta] = []
    for first in range(0, len(keys), SLOW_PATH_BATCH):
        batch_keys = keys[first : first + SLOW_PATH_BATCH]
        decided = await _attempt(engine, now, batch_keys, rules)
        parts = (
            [decided]
            if isinstance(decided, Decisions)
            else await _one_by_one(engine, now, batch_keys, rules, log)
        )
        timings += [timing for part in parts for timing in part.timings]
        delays += [late for part in parts for late in part.delays]
    return Decisions(timings, delays, [])


def _parts(keys: Sequence[Key], dialect: Dialect) -> list[list[Key]]:
    """Splits `keys` into one list per transaction.

    Of lists that run concurrently no two hold the same organization, because its fairness stamps are taken in
    turn: what exceeds a transaction's limit is left for the next call.
    """
    limit = BATCH[dialect]
    if _CONCURRENCY[dialect] == 1:
        ordered = sorted(keys)
        return [ordered[first : first + limit] for first in range(0, len(ordered), limit)]
    by_org: dict[OrgId, list[Key]] = {}
    for key in keys:
        by_org.setdefault(key[0], []).append(key)
    parts: list[list[Key]] = [[] for _ in range(min(_CONCURRENCY[dialect], len(by_org)))]
    for keys_of_org in sorted(by_org.values(), key=len, reverse=True):
        min(parts, key=len).extend(keys_of_org)
    return [part[:limit] for part in parts]


async def _fast_path(
    engine: Engine, now: datetime, parts: Sequence[Sequence[Key]], rules: AutomationRules
) -> FastStarts:
    """Starts the runs of slots that qualify for the fast path.

    A list that fails as a whole starts none: its slots take the slow path.
    """
    done: list[FastStarts] = []
    concurrency = _CONCURRENCY[engine.dialect]
    for first in range(0, len(parts), concurrency):
        done += await _start_at_once(engine, now, parts[first : first + concurrency], rules)
    return FastStarts(
        [key for starts in done for key in starts.automations],
        [late for starts in done for late in starts.delays],
    )


async def _start_at_once(
    engine: Engine, now: datetime, parts: Sequence[Sequence[Key]], rules: AutomationRules
) -> list[FastStarts]:
    """Starts the runs of all `parts` at the same time and returns what the lists that succeeded started."""
    writes = [
        engine.write(
            now, partial(fast_path.start, keys=part, rules=rules), org=sorted({org for org, _ in part})
        )
        for part in parts
    ]
    done: list[FastStarts] = []
    # Gathered, because only the worker's loop may catch everything.
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(outcome, Unavailable) or not isinstance(outcome, FastStarts | Exception):
            raise outcome
        if isinstance(outcome, FastStarts):
            done.append(outcome)
    return done


async def _attempt(
    engine: Engine, now: datetime, keys: Sequence[Key], rules: AutomationRules
) -> Decisions | Exception:
    """Decides the slots of `keys` in one transaction; returns the exception of a row that cannot be decided.

    Raises Unavailable when the database is unavailable.
    """
    act = partial(_decide, keys=keys, rules=rules)
    orgs = sorted({org for org, _ in keys})
    outcome = await due_rows.attempt(engine.write(now, act, org=orgs))
    if isinstance(outcome, Decisions):
        for org, automation in outcome.withdrawn:  # not in the batch: it locks nothing after starting runs
            pause = partial(_pause_withdrawn, org=org, automation=automation, rules=rules)
            await engine.write(now, pause, org=org)
    return outcome


async def _decide(tx: Tx, *, keys: Sequence[Key], rules: AutomationRules) -> Decisions:
    """Decides the due slots of `keys` in this transaction."""
    locked = await _lock_automations(tx, keys)
    delays: list[timedelta] = []
    decided = await due.decide_many(
        tx,
        {org: by_id for org, by_id in locked.items() if by_id},
        rules=rules,
        max_slots=_SLOTS_PER_AUTOMATION,
        delays=delays,
    )
    done = [automation for by_id in decided.values() for automation in by_id]
    if done:
        await due_rows.clear(tx, lifecycle.DISPATCH, done)
    withdrawn = _withdrawn(locked, rules)
    return Decisions([timing for by_id in decided.values() for timing in by_id.values()], delays, withdrawn)


async def _lock_automations(tx: Tx, keys: Sequence[Key]) -> dict[OrgId, dict[AutomationId, LockedAutomation]]:
    """Locks the schedules of `keys` that are still due, all before the first row is read."""
    automations_by_org: dict[OrgId, list[AutomationId]] = {}
    for org, automation in keys:
        automations_by_org.setdefault(org, []).append(automation)
    timings = {org: await schedules.lock_due(tx, org, ids) for org, ids in sorted(automations_by_org.items())}
    locked: dict[OrgId, dict[AutomationId, LockedAutomation]] = {}
    for org, due_timings in timings.items():
        rows = await automations.own_rows(tx, org, due_timings) if due_timings else {}
        locked[org] = {
            key: LockedAutomation(automation, due_timings[key]) for key, automation in rows.items()
        }
    return locked


def _withdrawn(
    locked: Mapping[OrgId, Mapping[AutomationId, LockedAutomation]], rules: AutomationRules
) -> list[Key]:
    """Returns the automations whose template is no longer offered."""
    return [
        (row.automation.org, row.automation.id)
        for by_id in locked.values()
        for row in by_id.values()
        if readiness.is_withdrawn(row.automation, rules.templates)
    ]


async def _pause_withdrawn(tx: Tx, *, org: OrgId, automation: AutomationId, rules: AutomationRules) -> None:
    """Pauses an automation whose template is no longer offered, unless another release may offer it."""
    if await workers.is_other_release_alive(tx, __version__):
        return
    message = "Its template is no longer part of the service."
    await pauses.pause_by_service(tx, org, automation, reason=message, rules=rules)


async def _one_by_one(
    engine: Engine, now: datetime, keys: Sequence[Key], rules: AutomationRules, log: Log
) -> list[Decisions]:
    """Decides each automation in its own transaction; returns the decisions that succeeded."""
    decided = []
    for key in keys:
        outcome = await _attempt(engine, now, [key], rules)
        if isinstance(outcome, Decisions):
            decided.append(outcome)
            continue
        org, automation = key
        message = f"{type(outcome).__name__}: {outcome}"
        defer = partial(due_rows.defer, task=lifecycle.DISPATCH, key=automation, message=message)
        failures = await engine.write(now, defer)
        log.error("dispatch_failed", outcome, org=org, automation=automation, failures=failures)
        if failures >= FAILURES_TO_PAUSE:
            pause = partial(pauses.pause_broken, org=org, automation=automation)
            await engine.write(now, pause, org=org)
    return decided


async def record_delays(tx: Tx, *, delays: Sequence[timedelta]) -> None:
    """Adds the delays to the scheduler's histogram of the last hour."""
    before = await stats.scheduler(tx)
    present = ms(tx.now) // 60_000
    minutes = {
        minute: counts for minute, counts in (before.minutes if before else ()) if minute > present - 60
    }
    counts = minutes.setdefault(present, [0] * (len(stats.DELAY_STEPS) + 1))
    for delay in delays:
        counts[bisect_left(stats.DELAY_STEPS, delay.total_seconds())] += 1
    oldest = await schedules.next_due(tx)
    due_since = oldest if oldest is not None and oldest <= tx.now else None
    await stats.write_scheduler(tx, sorted(minutes.items()), due_since)
