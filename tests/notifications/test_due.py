"""The due time of a message against an independent walk along the clock, minute by minute.

The walk knows local time alone: it converts each minute to the zone and compares what the wall clock shows.
`DUE_CASES=100000` tries that many cases, `DUE_SEED` chooses them.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest

from steward.model.notice import Digest, MailChoice, QuietHours
from steward.notifications.due import (
    BACKOFF,
    ApprovalSpan,
    DueRules,
    due_at,
    end_of_quiet,
    next_attempt,
    next_digest,
)
from steward.scheduling.zones import zone, zone_names

MINUTE = timedelta(minutes=1)
CASES = int(os.environ.get("DUE_CASES", "100"))
SEED = os.environ.get("DUE_SEED", "1")
WINDOW = timedelta(minutes=15)
NOW = datetime(2026, 5, 1, 6, 0, tzinfo=UTC)
EVERY_DAY = frozenset(range(7))


def _changing_zones() -> list[str]:
    """Returns the zones whose clocks change within 2026."""
    names = []
    for name in sorted(zone_names()):
        tz = zone(name)
        assert tz is not None
        offsets = {datetime(2026, month, 1, tzinfo=UTC).astimezone(tz).utcoffset() for month in range(1, 13)}
        if len(offsets) > 1:
            names.append(name)
    return names


@cache
def _changes(tz: ZoneInfo) -> list[datetime]:
    """Returns the hours of 2026 in which the zone's clock changes."""
    hours = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(365 * 24)]
    return [
        after
        for before, after in pairwise(hours)
        if before.astimezone(tz).utcoffset() != after.astimezone(tz).utcoffset()
    ]


def _wall(moment: datetime, tz: ZoneInfo) -> datetime:
    return moment.astimezone(tz).replace(tzinfo=None)


def _first_reached(day_start: datetime, wall: datetime, tz: ZoneInfo) -> datetime:
    """Returns the first minute at which the wall clock shows `wall`; in a gap, as much later as it jumps."""
    instant = day_start
    while _wall(instant, tz) < wall:
        instant += MINUTE
    if _wall(instant, tz) == wall:
        return instant
    jump = _wall(instant, tz) - _wall(instant - MINUTE, tz) - MINUTE  # the clock jumped over it
    late = wall + jump
    while _wall(instant, tz) < late:
        instant += MINUTE
    return instant


def _walked_instant(day: datetime, local_time: time, tz: ZoneInfo) -> datetime:
    """Returns when the wall clock reaches a time of a day; the walk begins a day before."""
    start = (day - timedelta(days=1)).replace(tzinfo=UTC) - timedelta(hours=15)
    wall = datetime.combine(day.date(), local_time)
    start += max(timedelta(0), (wall - _wall(start, tz)) - timedelta(hours=2, minutes=30)) // MINUTE * MINUTE
    return _first_reached(start, wall, tz)


def _walked_digest(now: datetime, digest: Digest, tz: ZoneInfo) -> datetime:
    day = _wall(now, tz).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    while True:
        if day.weekday() in digest.days:
            instant = _walked_instant(day, digest.at, tz)
            if instant > now:
                return instant
        day += timedelta(days=1)


def _walked_quiet(moment: datetime, quiet: QuietHours, tz: ZoneInfo) -> datetime:
    """Walks minute by minute to one outside every quiet period."""
    first = _wall(moment, tz).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
    spans = []
    for number in range(9):
        day = first + timedelta(days=number)
        if day.weekday() in quiet.days:
            last = day if quiet.end > quiet.start else day + timedelta(days=1)
            spans.append((_walked_instant(day, quiet.start, tz), _walked_instant(last, quiet.end, tz)))
    while any(start <= moment < end for start, end in spans):
        moment += MINUTE
    return moment


def _walked_due(now: datetime, rules: DueRules, approvals: Sequence[ApprovalSpan]) -> datetime:
    """Walks to the end of the window, a share of an approval's time or the digest, and past quiet hours."""
    assert rules.zone is not None
    assert rules.digest is not None
    assert rules.quiet_hours is not None
    location = now
    if rules.choice is MailChoice.DIGEST:
        location = _walked_digest(now, rules.digest, rules.zone)
    elif rules.last_closed_at is not None:
        latest = [
            approval.noticed_at + max(MINUTE, (approval.expires_at - approval.requested_at) * 5 / 100)
            for approval in approvals
        ]
        while location - rules.last_closed_at < rules.window and all(
            location < instant for instant in latest
        ):
            location += MINUTE
    location = _walked_quiet(location, rules.quiet_hours, rules.zone)
    is_urgent = any(now < each_approval.expires_at < location for each_approval in approvals)
    return now if rules.wake_for_expiry and is_urgent else location


def _any_approval(now: datetime, random: Random) -> ApprovalSpan:
    """Returns an approval told of up to three minutes ago that lives from 20 minutes to days."""
    noticed_at = now - MINUTE * random.randint(0, 3)
    requested_at = noticed_at - random.choice((0, 1, 9)) * timedelta(minutes=20)
    return ApprovalSpan(
        noticed_at, requested_at, noticed_at + timedelta(minutes=20 * random.choice((1, 3, 15, 216)))
    )


def test_digest_and_quiet_hours_are_those_of_a_walk_along_the_clock() -> None:
    """Agrees with the walk for random zones, clock changes, windows, digests, quiet hours and approvals."""
    random, names = Random(SEED), _changing_zones()
    assert len(names) > 100
    for _ in range(CASES):
        tz = zone(random.choice(names))
        assert tz is not None
        near = random.choice([*_changes(tz), NOW])
        now = near + MINUTE * random.randint(-2 * 1440, 2 * 1440)
        days = frozenset(random.sample(range(7), random.randint(1, 7)))
        instant, end = [time(random.randrange(24), random.choice((0, 15, 30, 59))) for _ in range(2)]
        digest = Digest(instant, days)
        assert next_digest(now, digest, tz) == _walked_digest(now, digest, tz), (tz, now, digest)
        if instant != end:
            quiet = QuietHours(instant, end, days if len(days) < 7 else frozenset(range(6)))
            assert end_of_quiet(now, quiet, tz) == _walked_quiet(now, quiet, tz), (tz, now, quiet)
            rules = DueRules(
                MINUTE * random.choice((1, 15, 60)),
                random.choice((None, now - MINUTE * random.randint(0, 61))),
                random.choice((MailChoice.NOW, MailChoice.DIGEST)),
                quiet,
                random.random() < 0.5,
                digest,
                tz,
            )
            approvals = [_any_approval(now, random) for _ in range(random.randint(0, 2))]
            expected = _walked_due(now, rules, approvals)
            assert due_at(now, rules, approvals) == expected, (now, rules, approvals)


@pytest.mark.parametrize(
    ("since_last", "expected"),
    [(None, 0), (timedelta(minutes=15), 0), (timedelta(minutes=14, seconds=59), 1), (timedelta(0), 900)],
)
def test_the_first_goes_at_once_and_the_next_with_the_window(
    since_last: timedelta | None, expected: int
) -> None:
    """Sends the first message at once and the next one when the window of the last has ended."""
    rules = DueRules(WINDOW, None if since_last is None else NOW - since_last)
    assert due_at(NOW, rules, []) == NOW + timedelta(seconds=expected)


@pytest.mark.parametrize(
    ("lifetime", "expected"),
    [
        (timedelta(minutes=10), 60),
        (timedelta(minutes=30), 90),
        (timedelta(hours=5), 900),
        (timedelta(hours=72), 900),
    ],
)
def test_an_approval_sends_its_notice_within_a_share_of_its_lifetime(
    lifetime: timedelta, expected: int
) -> None:
    """Tells of an approval within 5 % of its time, at least a minute and at most the window."""
    rules = DueRules(WINDOW, NOW)
    approval = ApprovalSpan(NOW, NOW, NOW + lifetime)
    assert due_at(NOW, rules, [approval]) == NOW + timedelta(seconds=expected)


def test_quiet_hours_and_digests_do_not_let_an_approval_expire_before_they_are_sent() -> None:
    """Sends an approval that would expire in quiet hours at once, unless the person declines to be woken."""
    quiet = QuietHours(time(0), time(12), EVERY_DAY)
    rules = DueRules(WINDOW, None, quiet_hours=quiet, zone=ZoneInfo("UTC"))
    noon = NOW.replace(hour=12)
    short, long = ApprovalSpan(NOW, NOW, noon - MINUTE), ApprovalSpan(NOW, NOW, noon)
    assert due_at(NOW, rules, [short]) == NOW
    assert due_at(NOW, rules, [long]) == noon
    assert due_at(NOW, replace(rules, wake_for_expiry=False), [short]) == noon
    digest = replace(rules, choice=MailChoice.DIGEST, digest=Digest(time(8), EVERY_DAY))
    assert due_at(NOW, digest, []) == noon  # 08:00 lies in the quiet hours
    assert due_at(NOW, replace(digest, quiet_hours=None), []) == NOW.replace(hour=8)


def test_tries_spread_around_their_times_and_end_with_the_message() -> None:
    """Spreads retries 20 % around their times, honours Retry-After up to an hour, ends with the message."""
    end = NOW + timedelta(days=1)
    for attempt, base in enumerate(BACKOFF[:-1], 1):
        tries = [
            next_attempt(NOW, f"m{number}", attempt=attempt, ends_at=end, retry_after=None)
            for number in range(50)
        ]
        waits = [instant - NOW for instant in tries if instant is not None]
        assert len(waits) == 50
        assert base * 0.8 <= min(waits) < max(waits) <= base * 1.2
    request = [timedelta(minutes=5), timedelta(hours=3)]
    tries = [next_attempt(NOW, "m", attempt=1, ends_at=end, retry_after=wait) for wait in request]
    assert tries == [NOW + timedelta(minutes=5), NOW + timedelta(hours=1)]
    assert next_attempt(NOW, "m", attempt=1, ends_at=NOW + timedelta(seconds=1), retry_after=None) is None
