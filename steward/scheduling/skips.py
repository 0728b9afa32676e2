"""Computes which slots stay skipped after a schedule change; callers read and write the rows."""

from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from steward.model.schedule import DAILY_OR_RARER, Schedule
from steward.scheduling.moves import MovedSchedule
from steward.scheduling.slots import Slot, next_slots, slot_on, slots

_MINUTE = timedelta(minutes=1)


def skips_after_move(
    schedule: Schedule,
    moved: MovedSchedule,
    zone: ZoneInfo,
    *,
    slot_at: datetime,
    nominal_at: datetime,
    spread_minutes: int,
    slots_after: datetime | None,
    stored: Mapping[datetime, datetime],
    skipped: Collection[datetime],
) -> dict[datetime, Slot]:
    """Maps each skipped `slot_at` after the moved slot to the new slot to skip instead.

    The k-th slot after the moved one becomes the k-th slot after its new time. `schedule` and `slots_after`
    are those before the move, `slot_at` and `nominal_at` belong to the moved slot; `stored` maps the
    `slot_at` of all stored rows, including skipped ones, to their nominal instants.
    """
    later = {
        stored_at: nominal
        for stored_at, nominal in stored.items()
        if nominal > nominal_at and stored_at != slot_at
    }
    skipped_nominals = [nominal for stored_at, nominal in later.items() if stored_at in skipped]
    if not skipped_nominals:
        return {}
    for slot in slots(
        schedule,
        zone,
        spread_minutes=0,
        after=nominal_at,
        until=max(skipped_nominals),
        slots_after=slots_after,
    ):
        later.setdefault(_with_spread(slot, spread_minutes), slot.nominal_at)
    in_order = [later_at for later_at, _ in sorted(later.items(), key=lambda item: item[1])]
    return _same_places(in_order, skipped, moved, zone, spread_minutes)


def skips_after_change(
    old: Schedule,
    new: Schedule,
    zone: ZoneInfo,
    *,
    spread_minutes: int,
    now: datetime,
    skipped: Mapping[datetime, str],
) -> dict[datetime, Slot]:
    """Maps each skipped `slot_at` (given with its local key) to the new slot of the same nominal date.

    Only if both cadences have at most one slot a day. Skips missing from the result are dropped. `zone` is
    the zone after the change.
    """
    if old.cadence not in DAILY_OR_RARER or new.cadence not in DAILY_OR_RARER:
        return {}
    new_skips: dict[datetime, Slot] = {}
    for slot_at, local_key in skipped.items():
        day = date.fromisoformat(local_key[:10])
        slot = slot_on(new, zone, day, spread_minutes=spread_minutes, slots_after=now)
        if slot_at > now and slot is not None:
            new_skips[slot_at] = slot
    return new_skips


def _same_places(
    in_order: Iterable[datetime],
    skipped: Collection[datetime],
    moved: MovedSchedule,
    zone: ZoneInfo,
    spread_minutes: int,
) -> dict[datetime, Slot]:
    """Maps each skipped slot to the slot at the same place, counted from the move, in the new schedule."""
    places = [(index, slot) for index, slot in enumerate(in_order) if slot in skipped]
    after_x = next_slots(
        moved.schedule,
        zone,
        spread_minutes=spread_minutes,
        after=moved.slots_after,
        count=places[-1][0] + 1,
        slots_after=moved.slots_after,
    )
    return {slot: after_x[index] for index, slot in places if index < len(after_x)}


def _with_spread(slot: Slot, spread_minutes: int) -> datetime:
    return slot.nominal_at + spread_minutes * _MINUTE
