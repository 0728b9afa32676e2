"""The slot auditor: every slot whose time has gone by has exactly one record, or somebody is told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from steward.automations.due import Locked
from steward.database.automations import occurrences, slot_audits
from steward.database.automations import records as automations
from steward.database.automations.occurrences import Decided, StoredSlot
from steward.database.engine.base import Engine, Tx
from steward.model.automation import Automation, AutomationState
from steward.model.ids import AutomationId, OrgId
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.occurrences.slot import place_of
from steward.scheduling.slots import Slot, slots
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics

EVERY = timedelta(hours=1)
BATCH = 100
# Dispatch has this long beyond the late limit before a slot without a record is missing.
GRACE = timedelta(minutes=5)

_INSTANT = timedelta(milliseconds=1)


@dataclass(slots=True)
class _Findings:
    """What one pass found, told once it is committed."""

    audited: int = 0
    late: int = 0
    missing: list[tuple[OrgId, AutomationId, datetime]] = field(default_factory=list)
    unexpected: list[tuple[OrgId, AutomationId, datetime]] = field(default_factory=list)


async def audit_slots(
    engine: Engine,
    now: datetime,
    *,
    started: datetime,
    late_limit: timedelta,
    log: Log,
    metrics: Metrics,
) -> bool:
    """Audits one batch of automations: each once an hour, and all after `started`, the process's start.

    True when there is more to do at once (engine 13, "Slot auditor").
    """
    until = now - late_limit - GRACE
    before = max(until - EVERY, min(until, started - late_limit - GRACE))

    keys = await engine.read(now, partial(slot_audits.due, before=before, until=until, most=BATCH))
    if not keys:
        return False
    own: dict[OrgId, list[AutomationId]] = {}
    for org, automation in keys:
        own.setdefault(org, []).append(automation)
    findings = await engine.write(now, partial(_audit, wanted=own, back=late_limit + GRACE), org=sorted(own))
    _tell(findings, log, metrics)
    return len(keys) == BATCH and findings.audited > 0


async def _audit(tx: Tx, *, wanted: dict[OrgId, list[AutomationId]], back: timedelta) -> _Findings:
    until = tx.now - back
    locked: dict[OrgId, list[Locked]] = {}
    for org in sorted(wanted):
        timings = await slot_audits.lock(tx, org, wanted[org])
        found = await automations.among(tx, org, timings) if timings else {}
        locked[org] = [Locked(one, timings[key]) for key, one in found.items()]
    findings = _Findings()
    for org, own in locked.items():
        await _audit_org(tx, org, own, until=until, findings=findings)
    return findings


async def _audit_org(
    tx: Tx, org: OrgId, own: Sequence[Locked], *, until: datetime, findings: _Findings
) -> None:
    """Compares the slots of one organisation's automations with their rows, and writes what is missing."""
    ready = [one for one in own if one.timing.next_run_at is None or one.timing.next_run_at > until]
    since = {
        one.automation.id: max(one.timing.audited_until, one.timing.slots_after + _INSTANT)  # R15
        for one in ready
        if one.automation.state is AutomationState.ACTIVE
    }
    stored = await occurrences.open_of(tx, org, since) if since else {}
    lost: list[Decided] = []
    for one in ready:
        automation = one.automation
        if automation.id in since:
            rows = [
                row for row in stored.get(automation.id, []) if since[automation.id] <= row.slot_at < until
            ]
            expected = list(_slots_of(automation, one.timing.slots_after, since[automation.id], until))
            lost += _compare(automation, rows, expected, findings)
    if lost:
        await occurrences.decide(tx, org, lost, by_auditor=True)
    await slot_audits.set_audited(
        tx, org, {one.automation.id: max(until, one.timing.audited_until) for one in ready}
    )
    findings.audited += len(ready)


def _compare(
    automation: Automation, rows: Sequence[StoredSlot], expected: Sequence[Slot], findings: _Findings
) -> list[Decided]:
    """What is missing, as rows to be written; what else is wrong goes into the findings."""
    known = {row.slot_at for row in rows}
    named = {slot.slot_at for slot in expected}
    missing = [slot for slot in expected if slot.slot_at not in known]
    key = (automation.org, automation.id)
    findings.missing += [(*key, slot.slot_at) for slot in missing]
    findings.unexpected += [
        (*key, row.slot_at) for row in rows if row.slot_at not in named and _is_unasked(row)
    ]
    findings.late += sum(row.reason is SkipReason.TOO_LATE and not row.by_auditor for row in rows)
    return [
        Decided(
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


def _is_unasked(row: StoredSlot) -> bool:
    """Whether only the service itself can have made this row: no person edited it or kept it."""
    is_edited = row.version > 0 or row.moved_from is not None or row.is_skipped_by_person
    return row.state is not OccurrenceState.PENDING and not row.kept and not is_edited


def _slots_of(
    automation: Automation, slots_after: datetime, since: datetime, until: datetime
) -> Iterator[Slot]:
    return slots(
        automation.schedule,
        place_of(automation),
        spread_minutes=automation.spread_minutes,
        after=since - _INSTANT,
        until=until,
        slots_after=slots_after,
    )


def _tell(findings: _Findings, log: Log, metrics: Metrics) -> None:
    """Logs and counts; a missing slot is a lost promise."""
    for org, automation, slot_at in findings.missing:
        log.error("slot_missing", org=org, automation=automation, slot_at=slot_at)
    for org, automation, slot_at in findings.unexpected:
        log.error("slot_unexpected", org=org, automation=automation, slot_at=slot_at)
    metrics.count("steward_slots_missing_total", len(findings.missing))
    metrics.count("steward_slots_unexpected_total", len(findings.unexpected))
    metrics.count("steward_slots_late_total", findings.late)
