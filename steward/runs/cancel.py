"""Cancels a run for a person: at once while it waits, at its next checkpoint while it runs."""

from steward.database.engine.base import Tx
from steward.database.runs import fairness, transitions
from steward.database.runs import records as runs
from steward.model.account import Actor
from steward.model.ids import AutomationId, RunId
from steward.model.refusals import WrongState
from steward.model.run import TERMINAL, Run, RunStatus
from steward.run_queue import ending

# A run can change its state this often during a cancel: it is claimed, it parks, its approval is decided.
_TRIES = 4


async def cancel(tx: Tx, actor: Actor, run: RunId) -> Run:
    """Cancels the run, or requests it while it runs. Raises NotFound, WrongState (already ended)."""
    automation = await runs.automation_of(tx, actor.org, run)
    for _ in range(_TRIES):
        if await _try(tx, actor, run, automation):
            return await runs.get(tx, actor.org, run)
    raise WrongState("The run changed state in the meantime. Reload it.")


async def _try(tx: Tx, actor: Actor, run: RunId, automation: AutomationId) -> bool:
    """Makes one attempt, based on the run's current state.

    Returns False when a worker or a decision changed that state in the meantime. Raises WrongState.
    """
    state = await transitions.read_state(tx, actor.org, run)
    if state is None or state.status in TERMINAL:
        raise WrongState("This run has ended. It can no longer be cancelled.")
    has_started = state.status is RunStatus.RUNNING or state.started_at is not None
    if has_started and state.status in (RunStatus.RUNNING, RunStatus.QUEUED):
        vt = await fairness.current_stamp(tx)
        return await transitions.request_cancel(tx, actor.org, run, code="by_person", vt=vt)
    return await ending.end(
        tx, actor.org, run, automation=automation, from_status=state.status, ending=ending.BY_PERSON
    )
