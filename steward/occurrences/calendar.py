"""The calendar: stored rows merged with future slots by time; it only reads."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace
from zoneinfo import ZoneInfo

from steward.closed_periods import applicable
from steward.closed_periods.applicable import ApplicablePeriods
from steward.database.accounts import connections
from steward.database.automations import calendar
from steward.database.automations import records as automations
from steward.database.automations.calendar import (
    CalendarFilter,
    CalendarKey,
    CalendarRow,
    ScheduledAutomation,
)
from steward.database.engine.base import Tx
from steward.model.closed_period import ClosedPeriod
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.occurrence import Occurrence, OccurrenceState
from steward.model.refusals import ValidationFailed
from steward.occurrences.projection import Nearness
from steward.occurrences.slot import skipped_if_closed
from steward.scheduling.slots import Slot, slots
from steward.scheduling.zones import zone

_LOOK_BACK = timedelta(days=31)
_USUAL_RANGE = timedelta(days=14)
_LONGEST_RANGE = timedelta(days=92)
_FARTHEST = timedelta(days=366)

_INSTANT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class CalendarPageQuery:
    """A page of the calendar; `after` is the last row of the previous page.

    Without `since` and `until`, it has the usual range. With `after`, both come from the first page and are
    not checked again, since a cursor must not expire with time.
    """

    limit: int
    since: datetime | None = None
    until: datetime | None = None
    automation: AutomationId | None = None
    integration: IntegrationId | None = None
    states: Collection[OccurrenceState] = ()
    after: CalendarKey | None = None


@dataclass(frozen=True, slots=True)
class CalendarPage:
    """Rows in order, their range, and whether more follow."""

    rows: tuple[Occurrence, ...]
    since: datetime
    until: datetime
    has_more: bool


@dataclass(slots=True)
class _Slots:
    """An automation's slots without a stored row, as far as a page needs them."""

    coming: ScheduledAutomation
    zone: ZoneInfo
    until: datetime
    nearness: Nearness
    closed: Sequence[ClosedPeriod] = ()
    _stream: Iterator[Slot] | None = None

    def first(self, since: datetime) -> datetime | None:
        """Returns the first slot at or after `since`, or None if it lies beyond the page."""
        start = self.coming.next_slot_at
        if start is None or start > self.until:
            return None
        if start >= since:  # as computed when the automation was last written
            return start
        self._stream = self._after(since - _INSTANT)
        return self.following(since)

    def following(self, slot_at: datetime) -> datetime | None:
        """Returns the slot after `slot_at`, which must be the last one returned."""
        if self._stream is None:
            self._stream = self._after(slot_at)
        slot = next(self._stream, None)
        return None if slot is None else slot.slot_at

    def _after(self, after: datetime) -> Iterator[Slot]:
        return slots(
            self.coming.schedule,
            self.zone,
            spread_minutes=self.coming.spread_minutes,
            after=after,
            until=self.until + _INSTANT,
            slots_after=self.coming.slots_after,
        )

    def occurrence(self, slot_at: datetime) -> Occurrence:
        """Returns the row of an unedited slot, skipped if a closed period excludes it."""
        coming = self.coming
        occurrence = Occurrence(
            coming.id,
            coming.name,
            coming.version,
            coming.timezone,
            slot_at,
            slot_at,
            is_projected=self.nearness.is_projected(
                slot_at,
                coming.schedule,
                self.zone,
                spread_minutes=coming.spread_minutes,
                slots_after=coming.slots_after,
            ),
        )
        return skipped_if_closed(occurrence, self.closed)


async def page(tx: Tx, org: OrgId, query: CalendarPageQuery) -> CalendarPage:
    """Returns past and coming rows with `run_at` in [since, until), by `run_at`, `slot_at`, automation.

    Raises ValidationFailed with all errors on `from`, `to`, `automation_id` and `integration_id`.
    """
    since, until = await _checked(tx, org, query)
    states = frozenset(query.states or OccurrenceState)
    periods = await applicable.read(tx, org, since=tx.now)
    rows: list[Occurrence] = []
    after, has_more = query.after, True
    while has_more and len(rows) <= query.limit:
        # Rows are filtered late, since pending rows that a closed period excludes count as skipped.
        some, has_more = await _rows(
            tx, org, replace(query, after=after), periods, states=states, since=since, until=until
        )
        after = calendar_key(some[-1]) if some else after
        rows += [row for row in some if row.state in states]
    return CalendarPage(tuple(rows[: query.limit]), since, until, len(rows) > query.limit)


async def _rows(
    tx: Tx,
    org: OrgId,
    query: CalendarPageQuery,
    periods: ApplicablePeriods,
    *,
    states: frozenset[OccurrenceState],
    since: datetime,
    until: datetime,
) -> tuple[list[Occurrence], bool]:
    """Returns the rows after the cursor, at most one over the limit, and whether there are more.

    They include pending rows that count as skipped.
    """
    narrowing = CalendarFilter(query.automation, query.integration)
    closes = bool(periods.periods) and OccurrenceState.SKIPPED in states
    wanted_states = states | {OccurrenceState.PENDING} if closes else states
    start = since if query.after is None else max(since, query.after[0])
    stored = await calendar.stored(
        tx,
        org,
        narrowing,
        since=start,
        until=until,
        after=query.after,
        states=wanted_states,
        limit=query.limit + 1,
    )
    rows = [_as_judged(row, periods) for row in stored]
    if OccurrenceState.PENDING in wanted_states:
        # nothing after the page's last stored row is needed
        last = rows[-1].run_at if len(rows) > query.limit else until - _INSTANT
        rows += await _unstored(tx, org, narrowing, periods, start=start, last=last, query=query)
        rows.sort(key=calendar_key)
    has_more = len(rows) > query.limit
    return rows[: query.limit + 1], has_more


def _as_judged(row: CalendarRow, periods: ApplicablePeriods) -> Occurrence:
    """Returns a stored row; a pending one becomes skipped if a closed period excludes it."""
    occurrence = row.occurrence
    if occurrence.state is not OccurrenceState.PENDING or row.is_exempt:
        return occurrence
    return skipped_if_closed(occurrence, periods.on_runs_of(occurrence.automation_id, row.integration))


def calendar_key(row: Occurrence) -> CalendarKey:
    """Returns the sort key of a row, which is the cursor for the page after it."""
    return row.run_at, row.slot_at, row.automation_id


async def _unstored(
    tx: Tx,
    org: OrgId,
    narrowing: CalendarFilter,
    periods: ApplicablePeriods,
    *,
    start: datetime,
    last: datetime,
    query: CalendarPageQuery,
) -> list[Occurrence]:
    """Returns the first slots from `start` to `last` without a stored row, one more than a page holds.

    An automation due after `start` has a row at its `due_at`. One more of them than a page holds is therefore
    enough, and nothing after the last one's `due_at` is needed.
    """
    limit = query.limit + 1
    coming_automations = await calendar.coming(
        tx, org, narrowing, due_by=start, until=last + _INSTANT, limit=limit
    )
    due_later = [automation.due_at for automation in coming_automations if automation.due_at > start]
    if len(due_later) == limit:
        last = min(last, due_later[-1])
    if not coming_automations:
        return []
    stored_slots = await calendar.stored_slots(
        tx, org, [automation.id for automation in coming_automations], since=start, until=last
    )
    return _merge(
        _streams(coming_automations, periods, last, tx.now),
        stored_slots,
        start=start,
        after=query.after,
        limit=limit,
    )


def _streams(
    automations: Sequence[ScheduledAutomation], periods: ApplicablePeriods, last: datetime, now: datetime
) -> list[_Slots]:
    streams, nearness = [], Nearness(now)
    for automation in automations:
        automation_zone = zone(automation.timezone)
        if automation_zone is None:
            raise LookupError(f"the zone database has no {automation.timezone}")
        closed = periods.on_runs_of(automation.id, automation.integration)
        streams.append(_Slots(automation, automation_zone, last, nearness, closed))
    return streams


def _merge(
    streams: Sequence[_Slots],
    stored_slots: Collection[tuple[str, datetime]],
    *,
    start: datetime,
    after: CalendarKey | None,
    limit: int,
) -> list[Occurrence]:
    """Returns up to `limit` rows of the streams after the cursor, by time, without stored slots."""
    heap = [
        (first, stream.coming.id, number)
        for number, stream in enumerate(streams)
        if (first := stream.first(start)) is not None
    ]
    heapify(heap)
    rows: list[Occurrence] = []
    while heap and len(rows) < limit:
        slot_at, automation, number = heap[0]
        stream = streams[number]
        is_after_cursor = after is None or (slot_at, slot_at, automation) > after
        if is_after_cursor and (automation, slot_at) not in stored_slots:
            rows.append(stream.occurrence(slot_at))
        following = stream.following(slot_at)
        if following is None:
            heappop(heap)
        else:
            heapreplace(heap, (following, automation, number))
    return rows


async def _checked(tx: Tx, org: OrgId, query: CalendarPageQuery) -> tuple[datetime, datetime]:
    """Returns the range, checked together with the filters; for later pages it is not checked."""
    since = tx.now if query.since is None else query.since
    until = query.until
    if until is None:  # at the end of the calendar, fourteen days later may be no date or no instant
        until = since + _USUAL_RANGE if since <= tx.now + _FARTHEST else since
    errors = {} if query.after is not None else _range_faults(since, until, tx.now)
    if query.automation is not None and not await automations.among(tx, org, [query.automation]):
        errors["automation_id"] = ["There is no such automation. Use an id from the list of automations."]
    if query.integration is not None and await connections.get(tx, org, query.integration) is None:
        errors["integration_id"] = ["There is no such store or account. Use an id from the list of stores."]
    if errors:
        raise ValidationFailed(errors=errors)
    return since, until


def _range_faults(since: datetime, until: datetime, now: datetime) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    if since < now - _LOOK_BACK:
        errors["from"] = [f"Give a time that is at most {_LOOK_BACK.days} days in the past."]
    if until < since or (until == since and since <= now + _FARTHEST):
        errors["to"] = ["Give a time after from."]
    elif until - since > _LONGEST_RANGE:
        errors["to"] = [f"Give a time that is at most {_LONGEST_RANGE.days} days after from."]
    elif until > now + _FARTHEST:
        errors["to"] = [f"Give a time that is at most {_FARTHEST.days} days from now."]
    return errors
