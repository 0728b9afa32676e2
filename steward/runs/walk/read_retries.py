"""Computes how long a run retries temporary read failures, and what it shows while it waits."""

from datetime import datetime, timedelta

from steward.database.engine.base import Tx
from steward.model.plan import PlanStep
from steward.model.run import StartedBy
from steward.outbound.errors import CallError, PlatformUnavailable, Throttled
from steward.runs import connection_checks
from steward.runs.run_context import Progress
from steward.runs.walk.state import Walk
from steward.runs.writes.apply import MustWait

# A read that the account asks to repeat later is retried for an hour after the execution's first failure. An
# event comes only once, so its run also retries without being asked to.
_RETRY_AFTER_LIMIT = timedelta(hours=1)
_EVENT_RUN_LIMIT = timedelta(minutes=15)
# How much of a platform's response a failure message quotes.
_MAX_QUOTE = 160
MIN_PAUSE, MAX_PAUSE = timedelta(seconds=15), timedelta(minutes=5)


async def fail_read(
    walk: Walk, error: CallError, execution: str, step: PlanStep | None, started_at: datetime
) -> str:
    """Returns the message of a read that failed for good; its connections are checked soon.

    Raises MustWait when the read is retried, and `error` when no step has begun yet.
    """
    wait = await _wait_for(walk, error, execution, step, started_at)
    if wait is not None:
        raise wait from error
    if step is None:
        raise error
    ctx, touched = walk.ctx, walk.opened.touched
    await connection_checks.schedule_check(ctx.engine, ctx.clock, walk.run.org, touched, kinds=[error.kind])
    return _failure_message(error)


async def _wait_for(
    walk: Walk, error: CallError, execution: str, step: PlanStep | None, started_at: datetime
) -> MustWait | None:
    """Returns the wait before a failed read is retried, or None when it has failed permanently.

    Unless the account names a time, the wait doubles from 15 seconds to 5 minutes.
    """
    since = walk.failing_since().get(execution)
    failing = timedelta(0) if since is None else await walk.read(_now) - datetime.fromisoformat(since)
    if error.wait_s is not None:
        pause, limit = timedelta(seconds=error.wait_s), _RETRY_AFTER_LIMIT
    elif walk.run.started_by is StartedBy.EVENT and isinstance(error, PlatformUnavailable | Throttled):
        pause, limit = min(max(failing, MIN_PAUSE), MAX_PAUSE), _EVENT_RUN_LIMIT
    else:
        return None
    if failing >= limit:
        return None
    current_step = None
    if step is not None:
        message = f"{step.title}. Waiting: {error.message} It is tried again in {_in_words(pause)}."
        current_step = {**Progress(walk.lease, step, started_at).wire(), "title": message}
    return MustWait(pause.total_seconds(), reading=execution, current_step=current_step)


def _failure_message(error: CallError) -> str:
    """Returns sentences about the failure, the account's response and the number of failed calls in a row."""
    if error.status is not None:
        # An HTML page is of no use to a merchant.
        is_plain = 0 < len(error.platform_text) <= _MAX_QUOTE and "<" not in error.platform_text
        status = f"It answered {error.status}" + (f" (“{error.platform_text}”)" if is_plain else "")
        return f"{error.message} {status}{_in_a_row(error.attempts)}."
    return error.message if error.attempts == 1 else f"{error.message} It was tried {error.attempts} times."


def _in_a_row(attempts: int) -> str:
    return ", and was not asked again" if attempts == 1 else f" to {attempts} calls in a row"


def _in_words(pause: timedelta) -> str:
    seconds = round(pause.total_seconds())
    if seconds < 120:
        return "1 second" if seconds == 1 else f"{seconds} seconds"
    return f"{round(seconds / 60)} minutes"


async def _now(tx: Tx) -> datetime:
    return tx.now
