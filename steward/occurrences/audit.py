"""The slot auditor: checks that every past slot has exactly one record.

See docs/design/schedule.md#slot-auditor.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from steward.automations.due_slots import LockedAutomation
from steward.database.automations import occurrences, slot_audits
from steward.database.automations import records as automations
from steward.database.automations.occurrences import DecidedSlot, StoredSlot
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import facts
from steward.database.operator import health
from steward.model.automation import Automation, AutomationState
from steward.model.ids import AutomationId, OrgId
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.occurrences import quiet
from steward.occurrences.slot import zone_of
from steward.scheduling.slots import Slot, slots
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics

_EVERY = timedelta(hours=1)
PASS_EVERY = timedelta(seconds=10)
# For all workers together: 1,000,000 automations an hour; each further million takes an hour more.
_MAX_PER_PASS = 1_000_000 * PASS_EVERY // timedelta(hours=1)
BATCH = 100
QUIET_PERIODS = 3
# After the late limit, dispatch has this long before a slot without a record counts as missing.
_GRACE = timedelta(minutes=5)

_INSTANT = timedelta(milliseconds=1)


@dataclass(slots=True)
class _Findings:
    """The findings of one pass, which are reported after its commit."""

    audited: int = 0
    late: int = 0
    closed: int = 0
    missing: list[tuple[OrgId, AutomationId, datetime]] = field(default_factory=list)
    unexpected: list[tuple[OrgId, AutomationId, datetime]] = field(default_factory=list)


async def audit_slots(
    engine: Engine,
    now: datetime,
    *,
    late_limit: timedelta,
    log: Log,
    metrics: Metrics,
    quiet_periods: int = QUIET_PERIODS,
    started: datetime | None = None,
    every: timedelta = _EVERY,
    max_rows: int = _MAX_PER_PASS,
) -> bool:
    """Audits the automations whose last audit is longest ago, in batches.

    An automation is due if its last audit is longer ago than `every`, or was before `started`, the start of
    the process. All workers together audit about `max_rows` automations in a pass. Sends a
    notice about automations without a success in `quiet_periods` of their own periods. Returns False, because
    any rest can wait for the next pass.
    """
    settle_time = late_limit + _GRACE
    until = now - settle_time
    before = until - every if started is None else max(until - every, min(until, started - settle_time))
    workers = (await engine.read(now, health.leases)).alive
    remaining = max(max_rows // max(workers, 1), 1)
    round_time = every
    while remaining > 0:
        limit = min(BATCH, remaining)
        due = partial(slot_audits.due, before=before, until=until, max_rows=limit)
        keys, audited_until = await engine.read(now, due)
        if audited_until is not None:
            round_time = max(round_time, until - audited_until)
        automations_by_org: dict[OrgId, list[AutomationId]] = {}
        for org, automation in keys:
            automations_by_org.setdefault(org, []).append(automation)
        act = partial(
            _audit,
            automations_by_org=automations_by_org,
            settle_time=settle_time,
            quiet_periods=quiet_periods,
        )
        findings = await engine.write(now, act, org=sorted(automations_by_org)) if keys else _Findings()
        _report(findings, log, metrics)
        remaining = remaining - limit if findings.audited and len(keys) == limit else 0
    metrics.set("steward_audit_round_seconds", round_time.total_seconds())
    return False


async def _audit(
    tx: Tx, *, automations_by_org: dict[OrgId, list[AutomationId]], settle_time: timedelta, quiet_periods: int
) -> _Findings:
    """Audits a batch of automations, up to `settle_time` ago, with their schedules locked."""
    until = tx.now - settle_time
    locked: dict[OrgId, list[LockedAutomation]] = {}
    for org in sorted(automations_by_org):
        timings = await slot_audits.lock(tx, org, automations_by_org[org])
        automations_by_id = await automations.among(tx, org, timings) if timings else {}
        locked[org] = [
            LockedAutomation(automation, timings[key]) for key, automation in automations_by_id.items()
        ]
    findings = _Findings()
    for org, locked_automations in locked.items():
        await _audit_org(tx, org, locked_automations, until=until, findings=findings)
        await quiet.check(tx, org, locked_automations, periods=quiet_periods)
    return findings


async def _audit_org(
    tx: Tx,
    org: OrgId,
    locked_automations: Sequence[LockedAutomation],
    *,
    until: datetime,
    findings: _Findings,
) -> None:
    """Compares the slots of one organization's automations with their rows and writes missing rows."""
    ready = [locked for locked in locked_automations if _is_dispatched(locked, until)]
    since = _audit_starts(ready)
    stored = await occurrences.open_of(tx, org, since) if since else {}
    lost: list[DecidedSlot] = []
    for locked in ready:
        automation = locked.automation
        start = since.get(automation.id)
        if start is not None:
            rows = [row for row in stored.get(automation.id, []) if start <= row.slot_at < until]
            expected = list(_slots_of(automation, locked.timing.slots_after, start, until))
            missing = _compare(automation, rows, expected, findings)
            lost += missing
            slots_missing = [slot.slot_at for slot in missing]
            await facts.slots_too_late(tx, org, automation.id, slots_missing, missing=True)
    if lost:
        await occurrences.decide(tx, org, lost, by_auditor=True)
    await slot_audits.set_audited(
        tx, org, {locked.automation.id: max(until, locked.timing.audited_until) for locked in ready}
    )
    findings.audited += len(ready)


def _is_dispatched(locked: LockedAutomation, until: datetime) -> bool:
    """Returns whether every slot of the automation up to `until` has been dispatched."""
    return locked.timing.due_at is None or locked.timing.due_at > until


def _audit_starts(ready: Sequence[LockedAutomation]) -> dict[AutomationId, datetime]:
    """Returns, for each active automation, the instant from which its slots are audited."""
    return {
        locked.automation.id: max(locked.timing.audited_until, locked.timing.slots_after + _INSTANT)
        for locked in ready
        if locked.automation.state is AutomationState.ACTIVE
    }


def _compare(
    automation: Automation, rows: Sequence[StoredSlot], expected: Sequence[Slot], findings: _Findings
) -> list[DecidedSlot]:
    """Returns missing slots as rows to write; adds everything else that is wrong to the findings."""
    stored_instants = {row.slot_at for row in rows}
    missing = [slot for slot in expected if slot.slot_at not in stored_instants]
    key = (automation.org, automation.id)
    findings.missing += [(*key, slot.slot_at) for slot in missing]
    findings.unexpected += [(*key, slot_at) for slot_at in _unexpected(rows, expected)]
    findings.closed += sum(
        row.closed_name is not None and row.state is OccurrenceState.SKIPPED for row in rows
    )
    findings.late += sum(row.reason is SkipReason.TOO_LATE and not row.by_auditor for row in rows)
    return [
        DecidedSlot(
            automation.id,
            slot.slot_at,
            slot.slot_at,
            slot.local_key,
            OccurrenceState.SKIPPED,
            SkipReason.TOO_LATE,
            None,
        )
        for slot in missing
    ]


def _unexpected(rows: Sequence[StoredSlot], expected: Sequence[Slot]) -> list[datetime]:
    """Returns the instants of rows that belong to no slot and were not created by a person."""
    expected_instants = {slot.slot_at for slot in expected}
    return [row.slot_at for row in rows if row.slot_at not in expected_instants and _is_unedited(row)]


def _is_unedited(row: StoredSlot) -> bool:
    """Returns whether only the service can have made this row, without edits by a person."""
    is_edited = row.version > 0 or row.moved_from is not None or row.is_skipped_by_person
    return row.state is not OccurrenceState.PENDING and not row.is_from_move and not is_edited


def _slots_of(
    automation: Automation, slots_after: datetime, since: datetime, until: datetime
) -> Iterator[Slot]:
    return slots(
        automation.schedule,
        zone_of(automation),
        spread_minutes=automation.spread_minutes,
        after=since - _INSTANT,
        until=until,
        slots_after=slots_after,
    )


def _report(findings: _Findings, log: Log, metrics: Metrics) -> None:
    """Logs and counts the findings."""
    for org, automation, slot_at in findings.missing:
        log.error("slot_missing", org=org, automation=automation, slot_at=slot_at)
    for org, automation, slot_at in findings.unexpected:
        log.error("slot_unexpected", org=org, automation=automation, slot_at=slot_at)
    metrics.count("steward_slots_missing_total", len(findings.missing))
    metrics.count("steward_slots_unexpected_total", len(findings.unexpected))
    metrics.count("steward_slots_late_total", findings.late)
    metrics.count("steward_slots_closed_total", findings.closed)
