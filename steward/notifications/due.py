"""Computes when a message is due and when it is retried: windows, quiet hours, digests and backoff.

See docs/design/notifications.md#when-a-message-is-due.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from steward.model.notice import Digest, MailChoice, QuietHours
from steward.scheduling.zones import instant_of

# The maximum delay of a message about an approval, as a share of its lifetime, but at least a minute.
_APPROVAL_SHARE = 0.05
_APPROVAL_SOONEST = timedelta(minutes=1)
# The wait after each failed delivery, ±20 %; the last value applies to all further ones.
BACKOFF = tuple(timedelta(seconds=seconds) for seconds in (5, 60, 300, 1800, 7200, 21_600, 43_200))
RETRY_FOR = timedelta(hours=24)
_SPREAD = 0.2
_LONGEST_RETRY_AFTER = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ApprovalSpan:
    """An approval in a message: when its notice was created, and the span for the decision."""

    noticed_at: datetime
    requested_at: datetime
    expires_at: datetime

    @property
    def latest(self) -> datetime:
        """The latest instant to which a window may delay the message."""
        share = (self.expires_at - self.requested_at) * _APPROVAL_SHARE
        return self.noticed_at + max(share, _APPROVAL_SOONEST)


@dataclass(frozen=True, slots=True)
class DueRules:
    """The rules for when a message to a receiver is due on a channel; a route has only a window."""

    window: timedelta
    last_closed_at: datetime | None
    choice: MailChoice = MailChoice.NOW
    quiet_hours: QuietHours | None = None
    wake_for_expiry: bool = True
    digest: Digest | None = None
    zone: ZoneInfo | None = None


def due_at(now: datetime, rules: DueRules, approvals: Sequence[ApprovalSpan]) -> datetime:
    """Returns when a message that gets a notice at `now` is due; `approvals` are those in the message."""
    if rules.choice is MailChoice.DIGEST and rules.digest is not None and rules.zone is not None:
        due = next_digest(now, rules.digest, rules.zone)
    else:
        due = _end_of_window(now, rules, approvals)
    if rules.quiet_hours is not None and rules.zone is not None:
        due = end_of_quiet(due, rules.quiet_hours, rules.zone)
    if rules.wake_for_expiry and any(now < approval.expires_at < due for approval in approvals):
        return now
    return due


def _end_of_window(now: datetime, rules: DueRules, approvals: Sequence[ApprovalSpan]) -> datetime:
    if rules.last_closed_at is None or rules.last_closed_at + rules.window <= now:
        return now
    soonest = min([approval.latest for approval in approvals], default=rules.last_closed_at + rules.window)
    return max(now, min(rules.last_closed_at + rules.window, soonest))


def next_digest(now: datetime, digest: Digest, zone: ZoneInfo) -> datetime:
    """Returns the first digest time after `now`; a digest without days is sent every day."""
    day = now.astimezone(zone).date() - _DAY
    while True:
        digest_at, _ = instant_of(day, digest.at, zone)
        if digest_at > now and (not digest.days or day.weekday() in digest.days):
            return digest_at
        day += _DAY


def end_of_quiet(moment: datetime, quiet: QuietHours, zone: ZoneInfo) -> datetime:
    """Returns `moment`, or the end of the quiet hours around it; adjoining ones count as one.

    Quiet hours with equal start and end are empty.
    """
    if quiet.start == quiet.end:
        return moment
    day = moment.astimezone(zone).date() - 2 * _DAY
    for offset in range(11):  # looks ahead nine days
        start, end = _quiet_of(day + offset * _DAY, quiet, zone)
        if (day + offset * _DAY).weekday() in quiet.days and start <= moment < end:
            moment = end
    return moment


def _quiet_of(day: date, quiet: QuietHours, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Returns the start and end of the quiet hours that begin on a day, possibly ending on the next."""
    last = day if quiet.end > quiet.start else day + _DAY
    return instant_of(day, quiet.start, zone)[0], instant_of(last, quiet.end, zone)[0]


def next_attempt(
    now: datetime, message: str, *, attempt: int, ends_at: datetime, retry_after: timedelta | None
) -> datetime | None:
    """Returns when to retry a message after its failed `attempt`-th delivery; None if that is too late.

    A receiver's `retry_after` is honoured up to an hour. The spread is derived from the message's id.
    """
    base = BACKOFF[min(attempt, len(BACKOFF)) - 1]
    share = zlib.crc32(f"{message}|{attempt}".encode()) / 0xFFFFFFFF
    wait = base * (1 - _SPREAD + 2 * _SPREAD * share)
    if retry_after is not None:
        wait = max(wait, min(retry_after, _LONGEST_RETRY_AFTER))
    return now + wait if now + wait < ends_at else None
