"""A plain model of one automation's calendar that shares no code with the service.

It knows only zones without clock changes: slots are compared with their own walk in tests/scheduling.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from typing import Any

DAY = timedelta(days=1)
LATE = timedelta(minutes=10)
FAR = timedelta(days=366)
FOREVER = datetime.max.replace(tzinfo=UTC)
BY_MERCHANT, TOO_LATE, RUNNING = "by_merchant", "skipped_too_late", "skipped_previous_running"

Row = dict[str, Any]
Schedule = dict[str, Any]


class ExpectedRefusal(Exception):
    """The refusal that the service must give: a code, or the field of a 422."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def row(slot_at: datetime, nominal: datetime, **fields: Any) -> Row:
    """Builds a stored row."""
    plain = {
        "slot_at": slot_at,
        "run_at": slot_at,
        "nominal": nominal,
        "state": "pending",
        "reason": None,
        "moved_from": None,
        "version": 0,
        "exempt": False,
        "closed_name": None,
    }
    return {**plain, **fields}


def is_by_person(row: Row) -> bool:
    """Tells whether a person skipped a row."""
    return row["reason"] == BY_MERCHANT and row["closed_name"] is None


def is_decided_by_person(row: Row) -> bool:
    """Tells whether a person skipped a row or let it through a closing: that goes with its date."""
    return is_by_person(row) or (row["exempt"] and row["state"] == "pending")


@dataclass(frozen=True)
class Closing:
    """One version of a period that closes once: no run begins in [start, end) while it is valid."""

    id: str
    name: str
    is_own: bool  # of the automation alone, not of the organization
    start: datetime
    end: datetime
    valid_from: datetime
    valid_until: datetime = FOREVER

    def holds(self, instant: datetime) -> bool:
        """Tells whether an instant is closed."""
        return self.start <= instant < self.end and self.valid_from <= instant < self.valid_until


@dataclass
class Plan:
    """The rows of one automation and what is still to come."""

    schedule: Schedule
    offset: timedelta
    spread: timedelta
    now: datetime
    version: int = 1
    state: str = "active"
    is_live: bool = False
    rows: dict[datetime, Row] = field(default_factory=dict)
    closings: list[Closing] = field(default_factory=list)
    slots_after: datetime = field(init=False)
    seen: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.slots_after = self.seen = self.now

    def copy(self) -> "Plan":
        """Returns a copy."""
        return deepcopy(self)

    # Slots -------------------------------------------------------------------------------------------------

    def nominals(self, schedule: Schedule, since: datetime, until: datetime) -> Iterator[datetime]:
        """Returns the nominal instants in (since, until) in order."""
        day = (since + self.offset).date() - DAY
        last = (until + self.offset).date() + DAY
        while day <= last:
            if self.is_named(schedule, day.isoweekday()):
                for location in self.times(schedule):
                    instant = datetime.combine(day, location, UTC) - self.offset
                    if since < instant < until:
                        yield instant
            day += DAY

    def is_named(self, schedule: Schedule, weekday: int) -> bool:
        """Tells whether the schedule runs on that weekday."""
        if schedule["cadence"] == "weekly":
            return bool(schedule["day_of_week"] == weekday)
        if schedule["cadence"] == "weekdays":
            return weekday in (schedule.get("days") or [1, 2, 3, 4, 5])
        return True

    def times(self, schedule: Schedule) -> list[time]:
        """Returns the schedule's times of day."""
        if schedule["cadence"] == "hourly":
            return [time(hour) for hour in range(24)]
        if schedule["cadence"] == "every_6_hours":
            return [time(0), time(6), time(12), time(18)]
        return [time.fromisoformat(schedule["run_at"])]

    def generated(self, until: datetime) -> Iterator[Row]:
        """Returns the rows of slots that are neither stored nor decided, in order."""
        for nominal in self.nominals(self.schedule, self.slots_after, until - self.spread):
            slot_at = nominal + self.spread
            if slot_at > self.seen and slot_at not in self.rows:
                yield row(slot_at, nominal)

    def next_run_at(self) -> datetime | None:
        """Returns the smallest `run_at` of the pending rows."""
        if self.state != "active":
            return None
        slots = self.generated(max(self.seen, self.slots_after) + 400 * DAY)
        coming = [row for row in self.rows.values() if row["state"] == "pending"]
        coming += islice((slot for slot in slots if self.closing_of(slot) is None), 1)
        return min((row["run_at"] for row in coming if self.closing_of(row) is None), default=None)

    # Closings ----------------------------------------------------------------------------------------------

    def closing_of(self, row: Row) -> str | None:
        """Returns the name of the closing that leaves a pending row out, or None."""
        return None if row["exempt"] else self.closing_at(row["run_at"])

    def closing_at(self, instant: datetime, read_at: datetime | None = None) -> str | None:
        """Returns the name of the closing that holds an instant, by rule R19.

        Of the versions that are valid at `read_at` or later, else of all.
        """
        holding = [closing for closing in self.closings if closing.holds(instant)]
        if read_at is not None:
            holding = [closing for closing in holding if closing.valid_until > read_at]
        holding.sort(key=lambda closing: (not closing.is_own, FOREVER - closing.end, closing.id))
        return holding[0].name if holding else None

    def close(self, closing: Closing) -> None:
        """Begins a version of a period."""
        self.closings.append(closing)

    def end_version(self, closing: Closing) -> None:
        """Ends a version of a period now."""
        self.closings.remove(closing)
        self.closings.append(replace(closing, valid_until=self.now))

    def is_exempt_at(self, record: Row, run_at: datetime) -> bool:
        """Tells whether a row that is moved there is let through; refuses another closing."""
        entered = {(each.id, each.start) for each in self.closings if each.holds(run_at)}
        left = {(each.id, each.start) for each in self.closings if each.holds(record["run_at"])}
        if entered and not (record["exempt"] and entered <= left):
            raise ExpectedRefusal("run_at")
        return bool(entered)

    def projected(self, until: datetime) -> set[datetime]:
        """Returns the slots before `until` beyond fourteen days or fifty slots; the next slot never is."""
        since = max(self.slots_after, self.now - self.spread)
        slots = [nominal + self.spread for nominal in self.nominals(self.schedule, since, until)]
        coming = [slot for slot in slots if slot > self.now]
        far = {slot for slot in coming[1:] if slot > self.now + 14 * DAY}
        return (far | set(coming[50:])) - self.rows.keys()

    def is_projected(self, slot_at: datetime) -> bool:
        """Tells whether a slot lies beyond what the calendar promises."""
        return slot_at in self.projected(slot_at + DAY)

    def calendar(self, since: datetime, until: datetime) -> list[Row]:
        """Returns what the calendar shows in [since, until)."""
        displayed = []
        for row in self.rows.values():
            is_coming = row["state"] == "pending" or (
                row["reason"] == BY_MERCHANT and row["run_at"] > self.now
            )
            if self.state == "archived" or (is_coming and self.state != "active"):
                continue
            displayed.append(row)
        if self.state == "active":
            displayed += list(self.generated(until))
        projected = self.projected(until + DAY)
        records = [
            {**self._shown(record), "projected": record["slot_at"] in projected}
            for record in displayed
            if since <= record["run_at"] < until
        ]
        return sorted(records, key=lambda item: (item["run_at"], item["slot_at"]))

    def _shown(self, record: Row) -> Row:
        """Returns a row, one that a closing leaves out as skipped; a due one by the periods of now."""
        is_open = record["state"] != "pending" or record["exempt"]
        name = None if is_open else self.closing_at(record["run_at"], self.now)
        if name is None:
            return record
        return {**record, "state": "skipped", "reason": BY_MERCHANT, "closed_name": name}

    # The service's doing -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Dispatches the due slots by rules D1, D1b, D2, D3 and D6."""
        if self.state != "active":
            return
        due = [row for row in self.rows.values() if row["state"] == "pending" and row["run_at"] <= self.now]
        due += [entry for entry in self.generated(self.now + DAY) if entry["slot_at"] <= self.now]
        for record in sorted(due, key=lambda item: (item["run_at"], item["slot_at"])):
            self.rows[record["slot_at"]] = record
            closed_name = self.closing_of(record)
            if closed_name is not None:
                record.update(state="skipped", reason=BY_MERCHANT, closed_name=closed_name)
            elif self.now > record["run_at"] + LATE:
                record.update(state="skipped", reason=TOO_LATE)
            elif self.is_live:
                record.update(state="skipped", reason=RUNNING)
            else:
                record.update(state="queued")
                self.is_live = True
        if due:
            self.seen = max(self.seen, self.now)

    def _begin(self, slots_after: datetime) -> None:
        self.slots_after, self.seen = slots_after, self.now

    def _drop(self, is_dropped: Callable[[Row], bool]) -> None:
        """Deletes open rows of future slots; pending ones whose slot is past stay as skipped."""
        for row in list(self.rows.values()):
            is_open = row["state"] == "pending" or is_by_person(row)
            if not is_open or not is_dropped(row):
                continue
            if row["slot_at"] > self.now:
                del self.rows[row["slot_at"]]
            elif row["state"] == "pending":
                row.update(state="skipped", reason=BY_MERCHANT)

    # What people do ----------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Decides due slots and ends queued runs."""
        if self.state != "active":
            raise ExpectedRefusal("wrong_state")
        self.tick()
        self.state, self.is_live, self.version = "paused", False, self.version + 1

    def resume(self) -> None:
        """Skips what was planned inside the pause."""
        if self.state != "paused":
            raise ExpectedRefusal("wrong_state")
        for row in self.rows.values():
            if row["state"] == "pending" and row["run_at"] <= self.now:
                row.update(state="skipped", reason=TOO_LATE)
        self.state, self.version = "active", self.version + 1
        self._begin(max(self.now, self.slots_after))

    def archive(self) -> None:
        """Deletes coming rows."""
        if self.state == "archived":
            raise ExpectedRefusal("wrong_state")
        self.tick()
        self._drop(lambda item: item["state"] == "pending" or item["run_at"] > self.now)
        self.state, self.is_live, self.version = "archived", False, self.version + 1
        self.slots_after = min(self.now, self.slots_after)

    def restore(self) -> None:
        """Restores the automation as paused."""
        if self.state != "archived":
            raise ExpectedRefusal("wrong_state")
        self.state, self.version = "paused", self.version + 1

    def update(self, schedule: Schedule) -> None:
        """Replaces the schedule: skips stay on their dates, everything else is derived again."""
        if self.state == "archived":
            raise ExpectedRefusal("wrong_state")
        if schedule == self.schedule:
            return
        self.tick()
        decided = [row for row in self.rows.values() if is_decided_by_person(row)]
        decided = [row for row in decided if row["slot_at"] > self.now]
        one_a_day = {"daily", "weekdays", "weekly"}
        is_carried = {schedule["cadence"], self.schedule["cadence"]} <= one_a_day
        self._drop(lambda _: True)
        self.schedule, self.version = schedule, self.version + 1
        self._begin(self.now)
        for record in decided if is_carried else []:
            day = (record["nominal"] + self.offset).date()
            midnight = datetime.combine(day, time(0), UTC) - self.offset
            for nominal in self.nominals(schedule, midnight - timedelta(seconds=1), midnight + DAY):
                slot_at = nominal + self.spread
                if nominal > self.now and slot_at not in self.rows:
                    self.rows[slot_at] = row(slot_at, nominal, **_carried(record))

    def find(self, slot_at: datetime) -> Row:
        """Finds the slot, stored or generated."""
        if slot_at in self.rows:
            return self.rows[slot_at]
        seen = self.seen if self.state == "active" else self.now
        nominal = slot_at - self.spread
        is_slot = nominal in self.nominals(
            self.schedule, nominal - timedelta(seconds=1), nominal + timedelta(seconds=1)
        )
        if is_slot and nominal > self.slots_after and seen < slot_at <= self.now + FAR:
            return row(slot_at, nominal)
        raise ExpectedRefusal("slot_at")

    def version_of(self, slot_at: datetime) -> int:
        """Returns the version that a caller would have read."""
        return int(self.rows.get(slot_at, {"version": 0})["version"])

    def _open(self, slot_at: datetime) -> Row:
        record = self.find(slot_at)
        if record["state"] != "pending" or self.closing_of(record) or self.state != "active":
            raise ExpectedRefusal("wrong_state")
        return record

    def skip(self, slot_at: datetime) -> None:
        """Skips a slot as a person."""
        record = self._open(slot_at)
        if self.is_projected(slot_at):
            raise ExpectedRefusal("wrong_state")
        self.rows[slot_at] = record
        record.update(state="skipped", reason=BY_MERCHANT, exempt=False, version=record["version"] + 1)

    def unskip(self, slot_at: datetime, by_person: bool) -> None:
        """Removes a person's skip, and lets a run of a closing through, which a token may not."""
        record = self.find(slot_at)
        is_left_out = record["state"] == "pending" and self.closing_of(record) is not None
        if not (is_by_person(record) or is_left_out):
            raise ExpectedRefusal("wrong_state")
        is_exempt = self.closing_at(record["run_at"]) is not None
        if record["run_at"] <= self.now or self.state != "active":
            raise ExpectedRefusal("wrong_state")
        if is_exempt and (self.is_projected(slot_at) or not by_person):
            raise ExpectedRefusal("wrong_state")
        self.rows[slot_at] = record
        record.update(state="pending", reason=None, exempt=is_exempt, version=record["version"] + 1)

    def move(self, slot_at: datetime, run_at: datetime) -> None:
        """Moves one slot as a person."""
        record = self._open(slot_at)
        if not self.now < run_at <= self.now + FAR:
            raise ExpectedRefusal("run_at")
        if run_at == record["run_at"]:
            return
        planned = [other for other in self.rows.values() if other["state"] == "pending"]
        planned += list(self.generated(run_at + DAY))
        if any(other["run_at"] == run_at and other["slot_at"] != slot_at for other in planned):
            raise ExpectedRefusal("run_at")
        is_exempt = self.is_exempt_at(record, run_at)
        self.rows[slot_at] = record
        moved_from, version = record["run_at"], record["version"] + 1
        record.update(run_at=run_at, moved_from=moved_from, exempt=is_exempt, version=version)

    def move_later(self, slot_at: datetime, to: datetime) -> None:
        """Moves a slot and every later one as a person."""
        record = self._open(slot_at)
        if record["run_at"] <= self.now:
            raise ExpectedRefusal("wrong_state")
        if self.schedule["cadence"] in ("hourly", "every_6_hours"):
            raise ExpectedRefusal("scope")
        if not self.now < to <= self.now + FAR:
            raise ExpectedRefusal("run_at")
        chosen = record["nominal"]
        others = self._others(slot_at)
        around = [other["nominal"] for other in others]
        around += list(
            self.nominals(self.schedule, max(self.slots_after, chosen - 40 * DAY), chosen + 40 * DAY)
        )
        if any(to <= near < chosen or chosen < near <= to for near in around):
            raise ExpectedRefusal("run_at")
        generated = [other for other in self.generated(chosen + self.spread) if other["slot_at"] != slot_at]
        stays = [other for other in others if other["nominal"] < chosen] + generated
        if any(other["run_at"] == to and other["state"] == "pending" for other in stays):
            raise ExpectedRefusal("run_at")
        is_exempt = self.is_exempt_at(record, to)
        self.tick()
        self._carry_out(record, to, is_exempt)

    def _others(self, slot_at: datetime) -> list[Row]:
        """Returns the other rows that are not over."""
        return [
            other
            for other in self.rows.values()
            if other["slot_at"] != slot_at
            and (other["slot_at"] > self.now or other["run_at"] > self.now or other["state"] == "pending")
        ]

    def _carry_out(self, one: Row, to: datetime, is_exempt: bool) -> None:
        slot_at, chosen = one["slot_at"], one["nominal"]
        others = self._others(slot_at)
        for stored in [
            other for other in self.generated(chosen + self.spread) if other["slot_at"] != slot_at
        ]:
            self.rows[stored["slot_at"]] = stored
        later = {other["slot_at"]: other for other in others if other["nominal"] > chosen}
        decided = [other for other in later.values() if is_decided_by_person(other)]
        decided = [other for other in decided if other["slot_at"] > self.now]
        order = {other["slot_at"]: other["nominal"] for other in later.values()}
        if decided:
            until = max(other["nominal"] for other in decided)
            for nominal in self.nominals(self.schedule, max(chosen, self.slots_after), until):
                if nominal + self.spread != slot_at:
                    order.setdefault(nominal + self.spread, nominal)
        places = sorted(order, key=lambda location: order[location])
        self._drop(lambda other: other["slot_at"] in later)
        self.schedule = self._moved(chosen, to)
        self.rows[slot_at] = one
        version = one["version"] + 1
        one.update(run_at=to, nominal=to, moved_from=one["run_at"], exempt=is_exempt, version=version)
        again = list(self.nominals(self.schedule, to, to + (len(places) + 2) * 8 * DAY)) if decided else []
        for other in decided:
            nominal = again[places.index(other["slot_at"])]
            if nominal + self.spread not in self.rows:
                self.rows[nominal + self.spread] = row(nominal + self.spread, nominal, **_carried(other))
        self.version += 1
        self._begin(to)

    def _moved(self, chosen: datetime, to: datetime) -> Schedule:
        """Returns the schedule after a move of this and later slots.

        See docs/design/schedule.md#moving-this-and-later.
        """
        was, local = (chosen + self.offset).isoweekday(), to + self.offset
        changed = {**self.schedule, "run_at": f"{local:%H:%M}"}
        if (chosen + self.offset).date() != local.date():
            if changed["cadence"] == "weekly":
                changed["day_of_week"] = local.isoweekday()
            if changed["cadence"] == "weekdays":
                days = set(changed.get("days") or [1, 2, 3, 4, 5]) - {was}
                changed["days"] = sorted(days | {local.isoweekday()})
        return changed


def _carried(record: Row) -> Row:
    """Returns what a person decided of a row, which goes with its date."""
    return {name: record[name] for name in ("state", "reason", "exempt", "version")}
