"""Moves a run and all later ones by changing the schedule and adapting the stored rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from steward.automations import due, history, next_runs
from steward.automations.due_slots import LockedAutomation
from steward.automations.rules import AutomationRules
from steward.database.automations import occurrences
from steward.database.automations import records as automations
from steward.database.automations.history import HistoryAction
from steward.database.automations.occurrences import StoredSlot
from steward.database.engine.base import Tx
from steward.model.account import Actor
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import StaleVersion, ValidationFailed
from steward.model.schedule import SEVERAL_A_DAY, Cadence
from steward.occurrences.slot import (
    EditedOccurrence,
    LockedSlot,
    edited_occurrence,
    is_exempt_at,
    row_edits,
    write_row,
    zone_of,
)
from steward.scheduling.moves import MovedSchedule, move_this_and_later
from steward.scheduling.skips import skips_after_move
from steward.scheduling.slots import Slot, key_instant, slots

_INSTANT = timedelta(milliseconds=1)
# A row moved repeatedly lies no further from its slot than a run can be moved ahead.
_LOOK_BACK = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The relevant stored rows other than the chosen one, each with its nominal instant."""

    chosen: datetime
    others: dict[datetime, tuple[StoredSlot, datetime]]

    @property
    def nominals(self) -> dict[datetime, datetime]:
        """Returns the nominal instants of the other rows by their `slot_at`."""
        return {slot_at: nominal_at for slot_at, (_, nominal_at) in self.others.items()}

    def earlier(self) -> list[StoredSlot]:
        """Returns the rows of the runs before the chosen one."""
        return [row for row, nominal_at in self.others.values() if nominal_at < self.chosen]

    def later(self) -> list[StoredSlot]:
        """Returns the rows of the runs after the chosen one."""
        return [row for row, nominal_at in self.others.values() if nominal_at > self.chosen]


async def move_later(
    tx: Tx, actor: Actor, slot: LockedSlot, *, run_at: datetime, rules: AutomationRules
) -> EditedOccurrence:
    """Moves a pending run and every later one (docs/design/schedule.md#moving-this-and-later).

    Raises ValidationFailed on `scope` or `run_at`.
    """
    automation, slots_after = slot.automation, slot.locked.timing.slots_after
    rows = await _rows(tx, slot)
    moved = move_this_and_later(
        automation.schedule,
        zone_of(automation),
        slot.row.local_key,
        new_run_at=run_at,
        now=tx.now,
        slots_after=slots_after,
        stored=rows.nominals,
    )
    _check_free(slot, rows, run_at)
    is_exempt = is_exempt_at(slot, run_at)
    locked = await due.decide_due(tx, slot.locked, rules=rules)
    rows = await _rows(tx, slot)
    kept_rows = _between(locked, rows, slot.row.slot_at)
    carried = _carried(locked, moved, rows, slot.row.slot_at, now=tx.now)
    await _drop(tx, locked, rows.later())
    await _keep(tx, locked, rows.earlier(), kept_rows)
    chosen = replace(
        slot.row,
        run_at=run_at,
        local_key=moved.local_key,
        moved_from=slot.row.run_at,
        version=slot.row.version + 1,
        exempt=is_exempt,
    )
    await write_row(tx, slot, chosen)
    await occurrences.insert_many(tx, automation.org, automation.id, carried)
    return await _change(tx, actor, locked, moved, before=slot.row, after=chosen)


async def _change(
    tx: Tx,
    actor: Actor,
    locked: LockedAutomation,
    moved: MovedSchedule,
    *,
    before: StoredSlot,
    after: StoredSlot,
) -> EditedOccurrence:
    """Stores the schedule as the automation's next version, with slots beginning after the new time."""
    old = locked.automation
    automation = replace(old, schedule=moved.schedule, version=old.version + 1, updated_at=tx.now)
    if await automations.save(tx, old.org, automation, expected_version=old.version) == 0:
        raise StaleVersion(data={"occurrence": None, "automation": old})
    fields = row_edits(before, after)
    if moved.schedule != old.schedule:
        fields.append(history.schedule_edit(old.schedule, moved.schedule))
    await history.add_entry(tx, actor, automation, action=HistoryAction.MOVED, fields=fields)
    locked = await next_runs.begin_slots(
        tx, LockedAutomation(automation, locked.timing), slots_after=moved.slots_after
    )
    return edited_occurrence(locked, after)


async def _rows(tx: Tx, slot: LockedSlot) -> _Rows:
    """Reads the stored rows other than the chosen one.

    Past rows cannot be neighbours of a future time.
    """
    automation, chosen = slot.automation, slot.row
    automation_zone, cadence = zone_of(automation), automation.schedule.cadence
    stored: list[StoredSlot] = []
    if cadence not in SEVERAL_A_DAY:  # refused in any case
        since = min(tx.now, chosen.slot_at) - _LOOK_BACK
        stored = await occurrences.open_rows(tx, automation.org, automation.id, since=since)
    others = {
        row.slot_at: (row, key_instant(cadence, automation_zone, row.local_key))
        for row in stored
        if row.slot_at != chosen.slot_at
        and (row.slot_at > tx.now or row.run_at > tx.now or row.state is OccurrenceState.PENDING)
    }
    return _Rows(key_instant(cadence, automation_zone, chosen.local_key), others)


def _check_free(slot: LockedSlot, rows: _Rows, run_at: datetime) -> None:
    """Raises ValidationFailed if another pending run that stays is planned at that instant."""
    stays = rows.earlier() + _between(slot.locked, rows, slot.row.slot_at)
    if any(row.run_at == run_at and row.state is OccurrenceState.PENDING for row in stays):
        message = "Another run of this automation is planned for that time. Choose another time."
        raise ValidationFailed(errors={"run_at": [message]})


def _between(locked: LockedAutomation, rows: _Rows, chosen: datetime) -> list[StoredSlot]:
    """Returns unstored slots before the chosen one as rows that keep their times."""
    automation, timing = locked.automation, locked.timing
    if timing.next_slot_at is None or automation.schedule.cadence is Cadence.ONCE:
        return []
    stream = slots(
        automation.schedule,
        zone_of(automation),
        spread_minutes=automation.spread_minutes,
        after=timing.next_slot_at - _INSTANT,
        until=rows.chosen + timedelta(minutes=automation.spread_minutes),
        slots_after=timing.slots_after,
    )
    return [
        StoredSlot(slot_at=slot.slot_at, run_at=slot.slot_at, local_key=slot.local_key, is_from_move=True)
        for slot in stream
        if slot.slot_at not in rows.others and slot.slot_at != chosen
    ]


def _carried(
    locked: LockedAutomation, moved: MovedSchedule, rows: _Rows, chosen: datetime, *, now: datetime
) -> list[StoredSlot]:
    """Returns rows that carry a person's decisions on the k-th later slot over to the k-th new slot."""
    automation = locked.automation
    decided = {row.slot_at: row for row in rows.later() if row.is_persons and row.slot_at > now}
    places: dict[datetime, Slot] = skips_after_move(
        automation.schedule,
        moved,
        zone_of(automation),
        slot_at=chosen,
        nominal_at=rows.chosen,
        spread_minutes=automation.spread_minutes,
        slots_after=locked.timing.slots_after,
        stored=rows.nominals,
        skipped=decided,
    )
    return [decided[slot_at].carried_to(slot.slot_at, slot.local_key) for slot_at, slot in places.items()]


async def _drop(tx: Tx, locked: LockedAutomation, later: Sequence[StoredSlot]) -> None:
    """Deletes rows of later runs; those whose slot has passed are recorded as skipped."""
    org, automation = locked.automation.org, locked.automation.id
    past = [row.slot_at for row in later if row.slot_at <= tx.now and row.state is OccurrenceState.PENDING]
    await occurrences.skip_pending(tx, org, automation, slots=past, reason=SkipReason.BY_MERCHANT)
    coming = [row.slot_at for row in later if row.slot_at > tx.now]
    await occurrences.delete_coming(tx, org, automation, slots=coming)


async def _keep(
    tx: Tx, locked: LockedAutomation, earlier: Sequence[StoredSlot], new_rows: Sequence[StoredSlot]
) -> None:
    """Keeps the times of earlier runs; marks skipped ones as rows of the old schedule too."""
    org, automation = locked.automation.org, locked.automation.id
    await occurrences.insert_many(tx, org, automation, new_rows)
    for row in earlier:
        if row.is_skipped_by_person and not row.is_from_move and row.slot_at > tx.now:
            await occurrences.update(tx, org, automation, row=replace(row, is_from_move=True), was=row)
