"""Schedules, and the fields that each cadence uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from steward.model.json import JsonObject, JsonValue


class Cadence(StrEnum):
    """The cadence of a schedule: how often it runs."""

    MANUAL = "manual"
    ONCE = "once"
    HOURLY = "hourly"
    EVERY_6_HOURS = "every_6_hours"
    DAILY = "daily"
    WEEKDAYS = "weekdays"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class SlotNote(StrEnum):
    """The reason why a slot differs from its rule."""

    GAP = "gap"
    FOLD = "fold"
    SHORT_MONTH = "short_month"


# The API's field names, in their order in responses.
FIELDS = ("cadence", "run_at", "day_of_week", "day_of_month", "date", "days", "week_of_month")

# Cadences with at most one slot a day: their skips are kept when the schedule changes.
DAILY_OR_RARER = frozenset({Cadence.ONCE, Cadence.DAILY, Cadence.WEEKDAYS, Cadence.WEEKLY, Cadence.MONTHLY})

# Cadences whose whole schedule cannot be moved by moving one run.
SEVERAL_A_DAY = frozenset({Cadence.HOURLY, Cadence.EVERY_6_HOURS})

MONDAY_TO_FRIDAY = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule; `time_of_day` is the API's `run_at`, a local `HH:MM`."""

    cadence: Cadence
    time_of_day: str | None = None
    day_of_week: int | None = None
    day_of_month: int | None = None
    date: str | None = None
    days: tuple[int, ...] | None = None
    week_of_month: int | None = None

    def to_wire(self) -> dict[str, JsonValue]:
        """Returns all seven fields by their API names, with `days` in the order in which they were sent."""
        return {
            "cadence": self.cadence.value,
            "run_at": self.time_of_day,
            "day_of_week": self.day_of_week,
            "day_of_month": self.day_of_month,
            "date": self.date,
            "days": None if self.days is None else list(self.days),
            "week_of_month": self.week_of_month,
        }

    @classmethod
    def from_wire(cls, wire: JsonObject | Mapping[str, object]) -> "Schedule":
        """Returns a schedule from its stored form; scheduling/shape.py reads those of a request.

        Raises ValueError when it does not have this shape.
        """
        days = wire.get("days")
        return cls(
            cadence=Cadence(str(wire["cadence"])),
            time_of_day=_text(wire.get("run_at")),
            day_of_week=_number(wire.get("day_of_week")),
            day_of_month=_number(wire.get("day_of_month")),
            date=_text(wire.get("date")),
            days=None if days is None else _numbers(days),
            week_of_month=_number(wire.get("week_of_month")),
        )


MANUAL = Schedule(Cadence.MANUAL)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"a kept schedule holds {value!r} where text belongs")


def _number(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"a kept schedule holds {value!r} where a whole number belongs")


def _numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"a kept schedule holds {value!r} where a list belongs")
    numbers = tuple(_number(item) for item in value)
    return tuple(number for number in numbers if number is not None)
