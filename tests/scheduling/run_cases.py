"""Runs a file of worked schedule cases: `python tests/scheduling/run_cases.py FILE`.

Prints each case that differs and ends with "N of M equal"; exits with 1 unless all are equal. See
docs/design/schedule.md#slot-rules.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

if __name__ == "__main__":  # started by its path, so the repository is not on sys.path yet
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from steward.model.instants import wire_time
from steward.model.refusals import ValidationFailed
from steward.model.schedule import Schedule
from steward.scheduling.moves import move_this_and_later
from steward.scheduling.shape import read_schedule
from steward.scheduling.slots import find_slot, next_slots, slot_before
from steward.scheduling.spread import spread_minutes
from steward.scheduling.zones import use_packaged_zones, zone

Case = Mapping[str, object]


@dataclass(frozen=True)
class Outcome:
    """Holds what the file expects of a case and what the service computes, in comparable form."""

    name: str
    expected: object
    computed: object

    @property
    def is_equal(self) -> bool:
        return self.expected == self.computed


def outcomes(document: Mapping[str, object]) -> Iterator[Outcome]:
    """Yields the outcome of every case of every list. Raises KeyError on an unknown list."""
    for name, cases in document.items():
        if isinstance(cases, list):
            for number, case in enumerate(cases):
                yield _outcome(name, number, case)


def _outcome(name: str, number: int, case: Case) -> Outcome:
    """Returns a case's outcome. A case that raises counts as different, and the next one follows."""
    case_name = f"{name}/{case.get('id', number)}"
    work = _LISTS[name]
    try:
        return Outcome(case_name, *work(case))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return Outcome(case_name, "a case", f"{type(error).__name__}: {error}")


def _next(case: Case) -> tuple[object, object]:
    schedule, zone = _schedule(case), _zone(case)
    slots = next_slots(
        schedule,
        zone,
        spread_minutes=case["spread_minutes"],
        after=_instant(case["from"]),
        count=3,
        slots_after=_instant(case["since"]) if "since" in case else None,
    )
    instants = [slot.slot_at for slot in slots]
    local = [moment.astimezone(zone).strftime("%a %Y-%m-%d %H:%M %z") for moment in instants]
    expected = [_instant(text) for text in case["next"]]
    return (expected, case.get("local", local)), (instants, local)


def _this_and_later(case: Case) -> tuple[object, object]:
    schedule, zone = _schedule(case), _zone(case)
    nominal_at, new_run_at = _instant(case["slot_nominal"]), _instant(case["new_run_at"])
    slot = find_slot(schedule, zone, nominal_at, spread_minutes=0)
    if slot is None:
        return "a slot", "no such slot"
    expected: object
    if "refused" in case:
        refused = case["refused"]
        expected = (refused["status"], refused["code"], [refused["field"]])
    else:
        expected = (Schedule.from_wire(case["schedule_after"]), [_instant(text) for text in case["later"]])
    before = slot_before(schedule, zone, nominal_at)
    earliest = min([nominal_at, new_run_at] + ([before.nominal_at] if before else []))
    try:
        moved = move_this_and_later(
            schedule,
            zone,
            slot.local_key,
            new_run_at=new_run_at,
            now=earliest - timedelta(minutes=1),
            slots_after=None,
            stored={},
        )
    except ValidationFailed as refusal:
        return expected, (422, refusal.code, list(refusal.errors or {}))
    later = next_slots(
        moved.schedule,
        zone,
        spread_minutes=case["spread_minutes"],
        after=new_run_at,
        count=3,
        slots_after=moved.slots_after,
    )
    return expected, (moved.schedule, [slot.slot_at for slot in later])


def _spread(case: Case) -> tuple[object, object]:
    return case["spread_minutes"], spread_minutes(case["automation_id"], case["spread_max"])


def _validation(case: Case) -> tuple[object, object]:
    schedule = read_schedule(case["schedule"], zone=_zone(case), now=_instant(case["now"]))
    expected = case["stored"] if "stored" in case else case["errors"]
    return expected, schedule.to_wire() if isinstance(schedule, Schedule) else sorted(schedule)


_LISTS: Mapping[str, Callable[[Case], tuple[object, object]]] = {
    "cases": _next,
    "since": _next,
    "this_and_later": _this_and_later,
    "spread": _spread,
    "validation": _validation,
}


def _schedule(case: Case) -> Schedule:
    return Schedule.from_wire(case["schedule"])


def _zone(case: Case) -> ZoneInfo:
    timezone = zone(case["zone"])
    if timezone is None:
        raise KeyError(f"no zone {case['zone']!r}")
    return timezone


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def main(arguments: list[str]) -> int:
    """Runs the cases of one file. Returns 0 when all are equal, 1 if not, 2 without a file."""
    if len(arguments) != 1:
        print("usage: python tests/scheduling/run_cases.py FILE")
        return 2
    path = Path(arguments[0])
    if not path.is_file():
        print(f"There is no file {path}.")
        return 2
    use_packaged_zones()
    document = json.loads(path.read_text(encoding="utf-8"))
    every = list(outcomes(document))
    for outcome in every:
        if not outcome.is_equal:
            print(f"{outcome.name}: expected {_show(outcome.expected)}, found {_show(outcome.computed)}")
    equal = sum(outcome.is_equal for outcome in every)
    print(f"{equal} of {len(every)} equal")
    return 0 if every and equal == len(every) else 1


def _show(value: object) -> str:
    if isinstance(value, datetime):
        return wire_time(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_show, value))}]"
    return repr(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
