"""Tests where skipped runs go when their schedule changes, so that no skipped run comes back."""

from datetime import datetime, timedelta

from steward.model.schedule import Cadence, Schedule
from steward.scheduling.moves import move_this_and_later
from steward.scheduling.skips import skips_after_change, skips_after_move
from steward.scheduling.slots import key_instant
from tests.scheduling.shorthand import at, daily, monthly, once, place, weekly

_NOW = at("2026-01-12 12:00")


def _carried(
    schedule: Schedule,
    key: str,
    to: str,
    skipped: list[str],
    *,
    spread_minutes: int = 0,
    stored: dict[datetime, datetime] | None = None,
    slots_after: datetime | None = None,
) -> dict[datetime, datetime]:
    utc, spread = place("UTC"), timedelta(minutes=spread_minutes)
    moved = move_this_and_later(
        schedule, utc, key, new_run_at=at(to), now=_NOW, slots_after=slots_after, stored=stored or {}
    )
    nominal_at = key_instant(schedule.cadence, utc, key)
    skips = {at(nominal) + spread: at(nominal) for nominal in skipped}
    skips_after = skips_after_move(
        schedule,
        moved,
        utc,
        slot_at=nominal_at + spread,
        nominal_at=nominal_at,
        spread_minutes=spread_minutes,
        slots_after=slots_after,
        stored=skips | {nominal_at + spread: nominal_at} | (stored or {}),
        skipped=set(skips),
    )
    return {old: slot.slot_at for old, slot in skips_after.items()}


def test_a_skip_goes_from_the_kth_slot_after_the_old_time_to_the_kth_after_the_new() -> None:
    """Moves the skip of the k-th slot after the old time to the k-th slot after the new time.

    See docs/design/schedule.md#moving-this-and-later.
    """
    carried = _carried(
        daily("08:00"), "2026-01-15T08:00", "2026-01-15 09:30", ["2026-01-16 08:00", "2026-01-19 08:00"]
    )
    assert carried == {
        at("2026-01-16 08:00"): at("2026-01-16 09:30"),
        at("2026-01-19 08:00"): at("2026-01-19 09:30"),
    }
    carried = _carried(weekly(2, "08:00"), "2026-01-13T08:00", "2026-01-15 10:00", ["2026-12-22 08:00"])
    assert carried == {at("2026-12-22 08:00"): at("2026-12-24 10:00")}


def test_a_skip_is_counted_not_dated() -> None:
    """Counts slots instead of dates, so that moving from 31 January to 1 March loses and doubles none.

    See docs/design/schedule.md#moving-this-and-later.
    """
    carried = _carried(
        monthly(31, "08:00"), "2026-02-28T08:00", "2026-03-02 08:00", ["2026-03-31 08:00", "2026-05-31 08:00"]
    )
    assert carried == {
        at("2026-03-31 08:00"): at("2026-04-02 08:00"),
        at("2026-05-31 08:00"): at("2026-06-02 08:00"),
    }


def test_skips_are_matched_with_the_spread_added() -> None:
    """Matches skips by their instants with the spread added (R7)."""
    carried = _carried(
        daily("08:00"), "2026-01-15T08:00", "2026-01-15 09:30", ["2026-01-17 08:00"], spread_minutes=7
    )
    assert carried == {at("2026-01-17 08:07"): at("2026-01-17 09:37")}


def test_skips_before_the_moved_slot_stay_as_they_are() -> None:
    """Leaves skips before the moved slot alone. See docs/design/schedule.md#moving-this-and-later."""
    assert _carried(daily("08:00"), "2026-01-15T08:00", "2026-01-15 09:30", ["2026-01-14 08:00"]) == {}
    assert _carried(daily("08:00"), "2026-01-15T08:00", "2026-01-15 09:30", []) == {}


def test_stored_rows_of_an_earlier_schedule_are_counted_among_the_later_slots() -> None:
    """Counts stored rows of the earlier schedule among the slots after the moved one.

    See docs/design/schedule.md#moving-this-and-later.
    """
    since = at("2026-01-15 09:30")
    stored = {
        at("2026-01-14 08:00"): at("2026-01-14 08:00"),
        at("2026-01-15 08:00"): since,  # the moved row keeps its slot_at
    }
    carried = _carried(
        Schedule(Cadence.DAILY, "09:30"),
        "2026-01-13T08:00",
        "2026-01-13 09:00",
        ["2026-01-16 09:30"],
        stored=stored,
        slots_after=since,
    )
    assert carried == {at("2026-01-16 09:30"): at("2026-01-16 09:00")}


def test_a_changed_schedule_keeps_skips_on_the_same_nominal_date() -> None:
    """Keeps skips on the same date when both cadences have at most one slot a day, and drops them otherwise.

    See docs/design/schedule.md#calendar.
    """
    skipped = {at("2026-12-25 08:00"): "2026-12-25T08:00", at("2026-12-26 08:00"): "2026-12-26T08:00"}

    def skips_after(old: Schedule, new: Schedule, zone: str = "UTC") -> dict[datetime, datetime]:
        skips = skips_after_change(old, new, place(zone), spread_minutes=4, now=_NOW, skipped=skipped)
        return {at_old: slot.slot_at for at_old, slot in skips.items()}

    hourly = Schedule(Cadence.HOURLY)
    assert skips_after(daily("08:00"), daily("17:00")) == {
        at("2026-12-25 08:00"): at("2026-12-25 17:04"),
        at("2026-12-26 08:00"): at("2026-12-26 17:04"),
    }
    assert skips_after(daily("08:00"), weekly(5, "17:00")) == {at("2026-12-25 08:00"): at("2026-12-25 17:04")}
    assert skips_after(daily("08:00"), once("2026-12-26", "09:00")) == {
        at("2026-12-26 08:00"): at("2026-12-26 09:04")
    }
    tokyo = skips_after(daily("08:00"), daily("08:00"), "Asia/Tokyo")
    assert tokyo[at("2026-12-25 08:00")] == at("2026-12-24 23:04")
    assert skips_after(daily("08:00"), hourly) == skips_after(hourly, daily("08:00")) == {}
    assert skips_after(daily("08:00"), Schedule(Cadence.MANUAL)) == {}


def test_a_skip_whose_slot_has_passed_takes_no_new_one() -> None:
    """Keeps a skip whose time has passed as it is, and gives no new slot before now (R15).

    See docs/design/schedule.md#calendar.
    """
    now = at("2026-01-12 08:00")
    for slot_at, stored in ((now, 0), (now + timedelta(minutes=1), 1)):
        skips = skips_after_change(
            daily("08:00"),
            daily("17:00"),
            place("UTC"),
            spread_minutes=0,
            now=now,
            skipped={slot_at: "2026-01-12T08:00"},
        )
        assert len(skips) == stored
    gone = skips_after_change(
        daily("18:00"),
        daily("07:00"),
        place("UTC"),
        spread_minutes=0,
        now=now,
        skipped={at("2026-01-12 18:00"): "2026-01-12T18:00"},
    )
    assert gone == {}
