"""Checks of what the service works on: slots, leases, deferred rows, events, notices, audit logs."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from steward.cli.doctor.installation import CheckFailed, Installation
from steward.closed_periods import health as closed_periods
from steward.database.accounts import organizations
from steward.database.automations import schedules, slot_audits
from steward.database.events import retention as event_retention
from steward.database.notifications import gauges
from steward.database.operator import health, processes
from steward.scheduling.zones import tzdata_version, use_packaged_zones

_LOST_WITHIN = timedelta(days=7)
_INTERRUPTED_WITHIN = timedelta(days=1)
_GRACE = timedelta(minutes=5)
_POISONED = 5
_NOTICE_WITHIN = timedelta(seconds=60)


async def check_tz_data(installation: Installation) -> str:
    """Checks that slots were planned with this host's zone data."""
    use_packaged_zones()
    stored_version, version = await installation.read(slot_audits.time_zone_data), tzdata_version()
    if stored_version is not None and stored_version > version:
        raise CheckFailed(
            f"The slots follow time zones {stored_version}; this release carries the older {version}."
            " Update it."
        )
    if stored_version is not None and stored_version != version:
        return f"Time zones {version}; the next start brings the slots from {stored_version} to it."
    return f"Time zones {version}."


async def check_slots(installation: Installation) -> str:
    """Checks that no slot was lost and that none is overdue."""
    limit = timedelta(minutes=installation.settings.late_limit_minutes) + _GRACE
    due = await installation.read(schedules.next_due)
    if due is not None and installation.now - due > limit:
        raise CheckFailed(
            f"A slot has been due since {due:%Y-%m-%d %H:%M} UTC and was not started. Is a worker running?"
        )
    lost = 0
    for org in await installation.read(organizations.every):
        lost += await installation.read(
            partial(health.lost_slots, org=org, since=installation.now - _LOST_WITHIN), org
        )
    if lost:
        raise CheckFailed(
            f"{lost} slots of the last 7 days had no record until the auditor wrote one. See the log."
        )
    return "Every slot of the last 7 days has its record."


async def check_leases(installation: Installation) -> str:
    """Checks that the leases of workers are held."""
    leases = await installation.read(health.leases)
    if leases.expired and not leases.alive:
        raise CheckFailed(
            f"{leases.expired} workers have stopped responding and none is alive. Start one: their runs wait."
        )
    interrupted = 0
    for org in await installation.read(organizations.every):
        recent = partial(health.interrupted_runs, org=org, since=installation.now - _INTERRUPTED_WITHIN)
        interrupted += await installation.read(recent, org)
    if interrupted:
        raise CheckFailed(
            f"{interrupted} runs of the last day failed for good: three workers were lost with each. Find out"
            " why the service crashes; the log's lines run_interrupted name the runs."
        )
    words = f"{leases.alive} workers hold their lease{_of_releases(leases.releases)}"
    if leases.expired:
        words += f"; {leases.expired} are being taken over"
    if api := await installation.read(processes.api_releases):
        words += f"; {len(api)} API processes serve beside them{_of_releases(sorted({*api}))}"
    return f"{words}."


def _of_releases(releases: Sequence[str]) -> str:
    return f" (release {', '.join(releases)})" if releases else ""


async def check_deferred_rows(installation: Installation) -> str:
    """Checks that no row is deferred again and again."""
    failing_rows = await installation.read(partial(health.failing_rows, at_least=_POISONED))
    if failing_rows:
        named = ", ".join(f"{task} {key}" for task, key in failing_rows[:5])
        raise CheckFailed(
            f"{len(failing_rows)} rows failed {_POISONED} times or more: {named}. The log says why."
        )
    return "No row keeps failing."


async def check_store_events(installation: Installation) -> str:
    """Checks that store events are matched."""
    poison = await installation.read(event_retention.with_poison)
    if poison:
        raise CheckFailed(f"{poison} store events could not be matched and were set aside. The log says why.")
    return "Every store event is matched, or will be."


async def check_notices(installation: Installation) -> str:
    """Checks that notices are passed to their channels in time."""
    gauge = await installation.read(gauges.notices)
    if gauge.poison:
        raise CheckFailed(f"{gauge.poison} notices could not be read and were set aside. The log says why.")
    if gauge.oldest_new_at is not None and installation.now - gauge.oldest_new_at > _NOTICE_WITHIN:
        raise CheckFailed(
            f"A notice has waited since {gauge.oldest_new_at:%Y-%m-%d %H:%M} UTC and was not passed to its"
            " channels. Is a worker running?"
        )
    if gauge.broken_routes:
        return (
            f"Every notice was passed to its channels; {gauge.broken_routes} routes are broken, as their"
            " owners see."
        )
    return "Every notice was passed to its channels."


async def check_closings(installation: Installation) -> str:
    """Checks that closed periods are applied as stored."""
    wrong: list[str] = []
    for org in await installation.read(organizations.every):
        wrong += await installation.read(partial(closed_periods.problems, org=org, now=installation.now), org)
    if wrong:
        raise CheckFailed(f"Closed periods: {'; '.join(wrong[:5])}.")
    return "Closed periods are applied as stored."


async def check_audit(installation: Installation) -> str:
    """Reports the results of the worker's audit log checks; reads no entries itself."""
    broken = []
    for org in await installation.read(organizations.every):
        fault = await installation.read(partial(health.audit_fault, org=org), org)
        if fault is not None:
            broken.append(f"entry {fault.seq} of organization {org} ({fault.how})")
    if broken:
        raise CheckFailed(
            f"Audit logs were altered or are incomplete: {'; '.join(broken[:5])}."
            " `steward audit verify` checks every entry."
        )
    return "No check of an audit log found a fault."
