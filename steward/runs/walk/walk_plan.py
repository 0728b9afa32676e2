"""Walks a run's plan until it ends, requests approval, or has to sleep."""

from datetime import timedelta
from functools import partial

from steward.database.runs.steps import TooMuchData, ValueState
from steward.model.run import RunStatus
from steward.runs.finish import RunEnd
from steward.runs.lease import CancelRequested
from steward.runs.walk import workflow
from steward.runs.walk.end import cancelled, end_by_outcomes, end_walked_run, stopped_by
from steward.runs.walk.request_approval import request_approval
from steward.runs.walk.sleep import put_to_sleep
from steward.runs.walk.state import ApprovalMismatch, RunTimedOut, Walk
from steward.runs.walk.stop import stop_run
from steward.runs.walk.template_steps import execute_steps
from steward.runs.writes.apply import MustWait


async def walk_to_pause(walk: Walk) -> None:
    """Executes steps until none can run, then requests approval or ends the run."""
    try:
        await _execute_steps_and_end(walk)
    except MustWait as wait:
        pause = timedelta(seconds=wait.seconds)
        await put_to_sleep(
            walk.ctx,
            walk.claimed,
            pause,
            leased_ms=walk.leased_ms(),
            settles=False,
            failing=walk.failing_since() if wait.reading is not None else None,
            wait=wait,
        )
    except CancelRequested as cancel:
        await stop_run(walk, cancelled(cancel.code))
    except ApprovalMismatch:
        walk.ctx.log.error("approval_mismatch", run=walk.run.id, org=walk.lease.org)
        message = "What was approved and what would be done differ. Nothing more was changed; run it again."
        await stop_run(walk, partial(stopped_by, RunEnd(RunStatus.FAILED, "approval_mismatch", message)))
    except RunTimedOut:
        limit = int(walk.ctx.rules.time_limit.total_seconds())
        message = f"The run took longer than {limit} seconds and was stopped."
        await stop_run(walk, partial(stopped_by, RunEnd(RunStatus.FAILED, "timed_out", message)))
    except TooMuchData:
        message = "A step returned more data than a run may store. Narrow down what the automation reads."
        await stop_run(walk, partial(stopped_by, RunEnd(RunStatus.FAILED, "too_much_data", message)))


async def _execute_steps_and_end(walk: Walk) -> None:
    failure = await (execute_steps(walk) if walk.template is not None else workflow.advance(walk))
    if walk.is_ended:
        return
    if failure is not None:
        await stop_run(walk, partial(end_by_outcomes, failure=failure))
    elif any(value.state is ValueState.HELD for value in walk.journal.values()):
        await request_approval(walk)
    else:
        await end_walked_run(walk)
