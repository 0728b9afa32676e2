"""A million schedules at once: organizations and automations written straight into the tables."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import asyncpg

from bench.service import FIVE_STEPS
from steward.database.engine.base import ms
from steward.model.schedule import Schedule
from steward.scheduling import slots
from steward.scheduling.zones import LAST, zone

FIRST_ORG = 1_000
MINUTES = 1_440
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Etc/UTC")

# One text for both engines but for the series, which counts `n` from 0 up. An id is a number in the ids' own
# alphabet, digits alone, spread so that what is due at one time lies all over the table.
_ID = "'01JD3Z0' || (1000000000000000000 + ({before} + n) * CAST(618033989 AS bigint) % 1000000007)"
_ORG = "{first} + ({before} + n) % {orgs}"
_ORGS = (
    "INSERT INTO dir_orgs (org_id, name, name_norm)"
    " SELECT {first} + n, 'Many ' || n, 'many ' || n FROM {series}",
    "INSERT INTO organizations (org_id, name, zone, automations_on, send_without_approval, created_at)"
    " SELECT {first} + n, 'Many ' || n, 'Etc/UTC', {yes}, {no}, {now} FROM {series}",
)
_AUTOMATIONS = (
    "INSERT INTO automations (org_id, id, version, kind, template_id, template_version, store_label, name,"
    " name_folded, state, inputs, schedule, timezone, spread_minutes, trigger_json, connections, bindings,"
    f" created_at, updated_at) SELECT {_ORG}, {_ID}, 1, 'template', '{{template}}', 1, 'Shop',"
    " 'Many ' || n, 'many ' || n, 'active', '{{}}', '{schedule}', '{zone}', 0, '{{\"kind\":\"schedule\"}}',"
    " '[]', '{{}}', {now} + n, {now} FROM {series}",
    "INSERT INTO schedules (org_id, automation_id, due_at, next_run_at, next_slot_at, slots_after,"
    f" consecutive_failures, audited_until) SELECT {_ORG}, {_ID}, {{slot}}, {{slot}}, {{slot}}, {{now}}, 0,"
    " {now} FROM {series}",
)


def _statements(
    count: int, orgs: int, now: datetime, *, postgres: bool, minutes: int = MINUTES
) -> Iterator[str]:
    """What fills the tables: daily automations of the first minutes of the day, in four zones."""
    yes, no = ("true", "false") if postgres else ("1", "0")
    fixed = {"first": FIRST_ORG, "orgs": orgs, "now": ms(now), "yes": yes, "no": no, "template": FIVE_STEPS}
    for text in _ORGS:
        yield text.format(series=_series(orgs, postgres=postgres), **fixed)
    for minute in range(minutes):
        name = ZONES[minute % len(ZONES)]
        env = zone(name)
        assert env is not None
        schedule = Schedule.from_wire({"cadence": "daily", "run_at": f"{minute // 60:02}:{minute % 60:02}"})
        first = next(slots.slots(schedule, env, spread_minutes=0, after=now, until=LAST))
        before = count * minute // minutes
        share = count * (minute + 1) // minutes - before
        for text in _AUTOMATIONS:
            yield text.format(
                series=_series(share, postgres=postgres),
                before=before,
                schedule=json.dumps(schedule.to_wire()),
                zone=name,
                slot=ms(first.slot_at),
                **fixed,
            )


def _series(count: int, *, postgres: bool) -> str:
    if postgres:
        return f"generate_series(0, {count - 1}) AS n"
    return (
        f"(WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {count - 1})"
        " SELECT n FROM s)"
    )


_RUNS = (
    """INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq,
        approval_id, leased_ms, queued_at, started_at, waiting_since, expires_at, automation_name,
        automation_version, template_id, template_version, started_by)
    SELECT a.org_id, replace(a.id, '01JD3Z0', '01JD3ZR'), a.id, 'live', 'waiting_approval', 'parked', 0, 1, 1,
        1, replace(a.id, '01JD3Z0', '01JD3ZA'), 40, {now}, {now}, {now}, {now} + 259200000, 'Many', 1,
        '{template}', 1, 'schedule'
    FROM automations AS a WHERE a.id LIKE '01JD3Z0%'""",
    """INSERT INTO approvals (org_id, id, run_id, automation_id, round, kind, version, status, change_hash,
        counts, warnings, follows, created_at, expires_at)
    SELECT r.org_id, r.approval_id, r.id, r.automation_id, 1, 'changes', 1, 'pending', '{hash}',
        '{{"total":1}}', '[]', '{{}}', {now}, {now} + 259200000
    FROM runs AS r WHERE r.id LIKE '01JD3ZR%'""",
)
_READY = (
    """INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq,
        leased_ms, queued_at, automation_name, automation_version, template_id, template_version, started_by)
    SELECT {org}, '01JD3ZQ' || (1000000000000000000 + n), '{automation}', 'test', 'queued', 'ready', n, 0, 1,
        0, 0, {now}, 'Many', 1, '{template}', 1, 'hand'
    FROM {series}""",
    "INSERT INTO fairness_orgs (org_id, last_vt) VALUES ({org}, {count})",
)


async def park(url: str, now: datetime) -> None:
    """A run that waits for approval for each automation `fill` has written."""
    texts = [text.format(now=ms(now), template=FIVE_STEPS, hash="0" * 64) for text in _RUNS]
    await _execute(url, texts)


async def queue(url: str, now: datetime, *, org: int, automation: str, count: int) -> None:
    """As many ready test runs of one automation, stamped one after the other."""
    series = _series(count, postgres=not url.startswith("sqlite:///"))
    values = {"now": ms(now), "template": FIVE_STEPS, "org": org, "automation": automation, "count": count}
    await _execute(url, [text.format(series=series, **values) for text in _READY])


async def fill(url: str, now: datetime, *, count: int, orgs: int, minutes: int = MINUTES) -> None:
    """Writes organizations and automations, each with its schedule from `now` on, over minutes of a day."""
    postgres = not url.startswith("sqlite:///")
    await _execute(url, _statements(count, orgs, now, postgres=postgres, minutes=minutes))


async def _execute(url: str, statements: Iterable[str]) -> None:
    if url.startswith("sqlite:///"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        try:
            file.execute("PRAGMA synchronous = OFF")
            file.execute("PRAGMA cache_size = -600000")
            file.execute("BEGIN")
            for text in statements:
                file.execute(text)
            file.execute("COMMIT")
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            file.close()
        return
    connection: Any = await asyncpg.connect(url)
    try:
        # The rows are consistent as they are written: their references need no look-up each.
        await connection.execute("SET session_replication_role = replica")
        async with connection.transaction():
            for text in statements:
                await connection.execute(text)
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
