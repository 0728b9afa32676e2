"""The calendar: stored rows and slots still to come, merged by time; read-only."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace
from zoneinfo import ZoneInfo

from steward.database.accounts import connections
from steward.database.automations import calendar
from steward.database.automations import records as automations
from steward.database.automations.calendar import Coming, Narrowing, Place
from steward.database.engine.base import Tx
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.occurrence import Occurrence, OccurrenceState
from steward.model.refusals import ValidationFailed
from steward.occurrences.projection import Nearness
from steward.scheduling.slots import Slot, slots
from steward.scheduling.zones import zone

_LOOK_BACK = timedelta(days=31)
_USUAL_RANGE = timedelta(days=14)
_LONGEST_RANGE = timedelta(days=92)
_FARTHEST = timedelta(days=366)

_INSTANT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class CalendarPageQuery:
    """A page of the calendar; `after` is the last row of the page before.

    Without `since` and `until`: the usual range. With `after` both are those of the first page and are not
    checked again, because the days between two pages must not invalidate a cursor.
    """

    limit: int
    since: datetime | None = None
    until: datetime | None = None
    automation: AutomationId | None = None
    integration: IntegrationId | None = None
    states: Collection[OccurrenceState] = ()
    after: Place | None = None


@dataclass(frozen=True, slots=True)
class CalendarPage:
    """Rows in order, their range, and whether more follow."""

    rows: tuple[Occurrence, ...]
    since: datetime
    until: datetime
    has_more: bool


@dataclass(slots=True)
class _Slots:
    """One automation's slots without a stored row, as far as the page needs them."""

    coming: Coming
    zone: ZoneInfo
    until: datetime
    nearness: Nearness
    _stream: Iterator[Slot] | None = None

    def first(self, since: datetime) -> datetime | None:
        """Returns the first slot at or after `since`; None when it lies beyond the page."""
        start = self.coming.next_slot_at
        if start is None or start > self.until:
            return None
        if start >= since:  # already worked out when the automation was written last
            return start
        self._stream = self._after(since - _INSTANT)
        return self.following(since)

    def following(self, slot_at: datetime) -> datetime | None:
        """Returns the slot after `slot_at`, which was the last one returned."""
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
        """Returns the row of an unedited slot."""
        coming = self.coming
        return Occurrence(
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


async def page(tx: Tx, org: OrgId, query: CalendarPageQuery) -> CalendarPage:
    """Returns coming and past rows with `run_at` in [since, until), by `run_at`, `slot_at`, automation.

    Raises ValidationFailed on `from`, `to`, `automation_id` and `integration_id`, all at once.
    """
    since, until = await _checked(tx, org, query)
    narrowing = Narrowing(query.automation, query.integration)
    states = frozenset(query.states or OccurrenceState)
    start = since if query.after is None else max(since, query.after[0])
    rows = await calendar.stored(
        tx,
        org,
        narrowing,
        since=start,
        until=until,
        after=query.after,
        states=states,
        limit=query.limit + 1,
    )
    if OccurrenceState.PENDING in states:
        # Past the page's last stored row nothing more is needed.
        last = rows[-1].run_at if len(rows) > query.limit else until - _INSTANT
        rows += await _unstored(tx, org, narrowing, start=start, last=last, query=query)
        rows.sort(key=place_of)
    return CalendarPage(tuple(rows[: query.limit]), since, until, len(rows) > query.limit)


def place_of(row: Occurrence) -> Place:
    """Returns the sort key of a row, for the cursor of the page after it."""
    return row.run_at, row.slot_at, row.automation_id


async def _unstored(
    tx: Tx, org: OrgId, narrowing: Narrowing, *, start: datetime, last: datetime, query: CalendarPageQuery
) -> list[Occurrence]:
    """Returns the first slots from `start` to `last` without a stored row, one more than the page holds.

    An automation due after `start` has a row at its `next_run_at`, so one more of them than the page holds
    are enough, and nothing after the last of these is needed.
    """
    limit = query.limit + 1
    coming_automations = await calendar.coming(
        tx, org, narrowing, due_by=start, until=last + _INSTANT, limit=limit
    )
    due_later = [
        automation.next_run_at for automation in coming_automations if automation.next_run_at > start
    ]
    if len(due_later) == limit:
        last = min(last, due_later[-1])
    if not coming_automations:
        return []
    stored_slots = await calendar.stored_slots(
        tx, org, [automation.id for automation in coming_automations], since=start, until=last
    )
    return _merge(
        _streams(coming_automations, last, tx.now), stored_slots, start=start, after=query.after, limit=limit
    )


def _streams(automations: Sequence[Coming], last: datetime, now: datetime) -> list[_Slots]:
    streams, nearness = [], Nearness(now)
    for automation in automations:
        automation_zone = zone(automation.timezone)
        if automation_zone is None:
            raise LookupError(f"the zone database has no {automation.timezone}")
        streams.append(_Slots(automation, automation_zone, last, nearness))
    return streams


def _merge(
    streams: Sequence[_Slots],
    stored_slots: Collection[tuple[str, datetime]],
    *,
    start: datetime,
    after: Place | None,
    limit: int,
) -> list[Occurrence]:
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
    """Returns the range, checked together with the filters; that of a later page unchecked."""
    since = tx.now if query.since is None else query.since
    until = query.until
    if until is None:  # the last days of the calendar have no fourteen behind them, nor even an instant
        until = since + _USUAL_RANGE if since <= tx.now + _FARTHEST else since
    errors = {} if query.after is not None else _range_faults(since, until, tx.now)
    if query.automation is not None and not await automations.among(tx, org, [query.automation]):
        errors["automation_id"] = ["There is no such automation. Take an id of the list of automations."]
    if query.integration is not None and await connections.get(tx, org, query.integration) is None:
        errors["integration_id"] = ["There is no such store or account. Take an id of the list of stores."]
    if errors:
        raise ValidationFailed(errors=errors)
    return since, until


def _range_faults(since: datetime, until: datetime, now: datetime) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    if since < now - _LOOK_BACK:
        errors["from"] = [f"Give a time of the last {_LOOK_BACK.days} days or later."]
    if until < since or (until == since and since <= now + _FARTHEST):
        errors["to"] = ["Give a time after from."]
    elif until - since > _LONGEST_RANGE:
        errors["to"] = [f"Give a time at most {_LONGEST_RANGE.days} days after from."]
    elif until > now + _FARTHEST:
        errors["to"] = [f"Give a time at most {_FARTHEST.days} days from now."]
    return errors
