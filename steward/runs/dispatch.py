"""The dispatch tick: which automations are due, in batches; automations/due.py decides their slots."""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from steward.automations import due, lifecycle, plain, readiness
from steward.automations.due import Locked
from steward.automations.plain import Started
from steward.automations.rules import AutomationRules
from steward.database import due_rows as ticks
from steward.database.automations import records as automations
from steward.database.automations import schedules
from steward.database.automations.schedules import Timing
from steward.database.engine.base import Autocommit, Dialect, Engine, Tx, ms
from steward.database.operator import status as stats
from steward.failpoint import failpoint
from steward.model.ids import AutomationId, OrgId
from steward.model.refusals import Unavailable
from steward.telemetry.log import Log

# Automations in one transaction, some 20 ms of SQLite's only writer and few locks held on PostgreSQL;
# transactions at once; automations in one look. SQLite gains by looking further: neighbours then share a
# transaction, and so the pages it writes.
BATCH = {"sqlite": 500, "postgresql": 200}
AT_ONCE = {"sqlite": 1, "postgresql": 4}
LOOK = {"sqlite": 6_000, "postgresql": 800}
# Slots of an automation, and automations, in one transaction of the long way: after a standstill each may
# have as many slots as go at once.
MOST_SLOTS = 100
LONG_WAY = 50
FAILURES_TO_PAUSE = 5

Key = tuple[OrgId, AutomationId]


@dataclass(frozen=True, slots=True)
class Done:
    """What one transaction decided: the automations' timings, and how late each started run was made."""

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
    """Decides slots that are due, of one batch of automations; True when there is more to do at once.

    An automation that cannot be decided never stops the others: it is put off, and paused by the service
    after five failures (engine 16). `delays` takes how late each started run was made.
    """
    made = [] if delays is None else delays
    most = LOOK[engine.dialect]
    # One statement needs no snapshot: on PostgreSQL two round trips less for a tick that finds nothing.
    found = await engine.read(now, Autocommit(partial(schedules.due, most=most)))
    if not found:
        return False
    failpoint("before_dispatch")
    parts = _parts(found, engine.dialect)
    keys = [key for part in parts for key in part]
    more = len(found) == most or len(keys) < len(found)
    started = await _plain(engine, now, parts, rules)
    made += started.delays
    left = sorted(set(keys) - set(started.automations))
    if not left:
        failpoint("after_dispatch")
        return more
    # Of these as many as before: a look that goes further must not make a tick of minutes.
    most = BATCH[engine.dialect] * AT_ONCE[engine.dialect]
    more = more or len(left) > most
    decided = await _the_long_way(engine, now, left[:most], rules=rules, log=log)
    failpoint("after_dispatch")
    made += decided.delays
    behind = any(timing.next_run_at is not None and timing.next_run_at <= now for timing in decided.timings)
    return behind or (more and bool(decided.timings or started.automations))


async def _the_long_way(
    engine: Engine, now: datetime, keys: Sequence[Key], *, rules: AutomationRules, log: Log
) -> Done:
    """Decides the slots of `keys`, some automations at a time; where one of them fails, each by itself."""
    timings: list[Timing] = []
    delays: list[timedelta] = []
    for first in range(0, len(keys), LONG_WAY):
        some = keys[first : first + LONG_WAY]
        decided = await _attempt(engine, now, some, rules)
        parts = [decided] if isinstance(decided, Done) else await _one_by_one(engine, now, some, rules, log)
        timings += [timing for one in parts for timing in one.timings]
        delays += [late for one in parts for late in one.delays]
    return Done(timings, delays, [])


def _parts(keys: Sequence[Key], dialect: Dialect) -> list[list[Key]]:
    """`keys` in parts of one transaction each. Of those at once no organisation is in two, for its stamps are
    taken in turn (engine 9): of one with more than a transaction holds, the rest is left out."""
    most = BATCH[dialect]
    if AT_ONCE[dialect] == 1:
        ordered = sorted(keys)
        return [ordered[first : first + most] for first in range(0, len(ordered), most)]
    by_org: dict[OrgId, list[Key]] = {}
    for key in keys:
        by_org.setdefault(key[0], []).append(key)
    parts: list[list[Key]] = [[] for _ in range(min(AT_ONCE[dialect], len(by_org)))]
    for own in sorted(by_org.values(), key=len, reverse=True):
        min(parts, key=len).extend(own)
    return [part[:most] for part in parts]


async def _plain(
    engine: Engine, now: datetime, parts: Sequence[Sequence[Key]], rules: AutomationRules
) -> Started:
    """Makes runs of the slots nothing stands in the way of.

    None at all of a part that cannot be dealt with at once: its slots go the long way, row by row.
    """
    done: list[Started] = []
    at_once = AT_ONCE[engine.dialect]
    for first in range(0, len(parts), at_once):
        acts = [
            engine.write(
                now, partial(plain.start, keys=part, rules=rules), org=sorted({org for org, _ in part})
            )
            for part in parts[first : first + at_once]
        ]
        # Gathered, because only the worker's loop may catch everything (house 7).
        for outcome in await asyncio.gather(*acts, return_exceptions=True):
            if isinstance(outcome, Unavailable) or not isinstance(outcome, Started | Exception):
                raise outcome
            if isinstance(outcome, Started):
                done.append(outcome)
    return Started(
        [key for one in done for key in one.automations], [late for one in done for late in one.delays]
    )


async def _attempt(
    engine: Engine, now: datetime, keys: Sequence[Key], rules: AutomationRules
) -> Done | Exception:
    """Decides the slots of `keys` in one transaction; the exception of a row that cannot be decided.

    Raises Unavailable: then it is the database that cannot go on, not a row.
    """
    act = partial(_decide, keys=keys, rules=rules)
    orgs = sorted({org for org, _ in keys})
    # Gathered, because only the worker's loop may catch everything (house 7).
    [outcome] = await asyncio.gather(engine.write(now, act, org=orgs), return_exceptions=True)
    if isinstance(outcome, Unavailable) or not isinstance(outcome, Done | Exception):
        raise outcome
    if isinstance(outcome, Done):
        for org, automation in outcome.withdrawn:  # apart: a batch that started runs locks no more (engine 2)
            pause = partial(_pause_withdrawn, org=org, automation=automation, rules=rules)
            await engine.write(now, pause, org=org)
    return outcome


async def _decide(tx: Tx, *, keys: Sequence[Key], rules: AutomationRules) -> Done:
    wanted: dict[OrgId, list[AutomationId]] = {}
    for org, automation in keys:
        wanted.setdefault(org, []).append(automation)
    timings = {org: await schedules.lock_due(tx, org, own) for org, own in sorted(wanted.items())}
    locked: dict[OrgId, dict[AutomationId, Locked]] = {}
    for org, own in timings.items():
        found = await automations.own_rows(tx, org, own) if own else {}
        locked[org] = {key: Locked(automation, own[key]) for key, automation in found.items()}
    started: list[timedelta] = []
    decided = await due.decide_many(
        tx,
        {org: own for org, own in locked.items() if own},
        rules=rules,
        most=MOST_SLOTS,
        started=started,
    )
    done = [automation for own in decided.values() for automation in own]
    if done:
        await ticks.clear(tx, lifecycle.DISPATCH, done)
    withdrawn = [
        (one.automation.org, one.automation.id)
        for own_locked in locked.values()
        for one in own_locked.values()
        if readiness.is_withdrawn(one.automation, rules.templates)
    ]
    return Done([timing for own in decided.values() for timing in own.values()], started, withdrawn)


async def _pause_withdrawn(tx: Tx, *, org: OrgId, automation: AutomationId, rules: AutomationRules) -> None:
    """A template that is no longer offered pauses its automations (contract 4.1)."""
    words = "Its template is no longer part of the service."
    await lifecycle.pause_by_service(tx, org, automation, reason=words, rules=rules)


async def _one_by_one(
    engine: Engine, now: datetime, keys: Sequence[Key], rules: AutomationRules, log: Log
) -> list[Done]:
    """Each automation in a transaction of its own; what was decided of those that can be."""
    decided = []
    for key in keys:
        outcome = await _attempt(engine, now, [key], rules)
        if isinstance(outcome, Done):
            decided.append(outcome)
            continue
        org, automation = key
        message = f"{type(outcome).__name__}: {outcome}"
        put_off = partial(ticks.defer, tick=lifecycle.DISPATCH, key=automation, message=message)
        failures = await engine.write(now, put_off)
        log.error("dispatch_failed", outcome, org=org, automation=automation, failures=failures)
        if failures >= FAILURES_TO_PAUSE:
            pause = partial(lifecycle.pause_broken, org=org, automation=automation)
            await engine.write(now, pause, org=org)
    return decided


async def tell(tx: Tx, *, delays: Sequence[timedelta]) -> None:
    """Adds to the row in which the scheduler says how it goes, for the last hour (engine 3.5)."""
    before = await stats.scheduler(tx)
    present = ms(tx.now) // 60_000
    kept = {minute: counts for minute, counts in (before.minutes if before else ()) if minute > present - 60}
    counts = kept.setdefault(present, [0] * (len(stats.DELAY_STEPS) + 1))
    for delay in delays:
        counts[bisect_left(stats.DELAY_STEPS, delay.total_seconds())] += 1
    oldest = await schedules.next_due(tx)
    due_since = oldest if oldest is not None and oldest <= tx.now else None
    await stats.write_scheduler(tx, sorted(kept.items()), due_since)
