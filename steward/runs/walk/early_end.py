"""Ends a continued run before its next step: cancelled, interrupted too often, or too old."""

from collections.abc import Callable
from functools import partial

from steward.model.run import RunStatus
from steward.runs import finish
from steward.runs.claimed_run import MAX_RUN_AGE, ClaimedRun
from steward.runs.finish import RunEnd
from steward.runs.walk.end import cancelled, stopped_by
from steward.runs.walk.state import Walk

_ATTEMPTS = 3
_INTERRUPTED_WORDS = (
    "This run was interrupted by the service three times and was stopped. The automation is not at fault:"
    " run it again, and tell the operator of the service if it happens again."
)


def end_at_start(claimed: ClaimedRun) -> Callable[[Walk], RunEnd] | None:
    """Returns how the run ends before a further step; None when it continues."""
    if claimed.state.cancel_code is not None:
        return cancelled(claimed.state.cancel_code)
    if claimed.lease.attempt > _ATTEMPTS:
        return partial(stopped_by, RunEnd(RunStatus.FAILED, finish.INTERRUPTED, _INTERRUPTED_WORDS))
    if claimed.exceeds_max_age:
        message = f"The run went on for more than {MAX_RUN_AGE.days} days, waits included, and was stopped."
        return partial(stopped_by, RunEnd(RunStatus.FAILED, "timed_out", message))
    return None
