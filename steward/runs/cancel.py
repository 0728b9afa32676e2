"""A person cancels a run: at once while it waits, at its next border while it runs (engine 15)."""

from steward.lanes import ending
from steward.model.account import Actor
from steward.model.ids import RunId
from steward.model.refusals import WrongState
from steward.model.run import TERMINAL, Run, RunStatus
from steward.store import fair, run_queue, runs
from steward.store.engine import Tx


async def cancel(tx: Tx, actor: Actor, run: RunId) -> Run:
    """Cancels the run, or notes the wish while it runs. Raises NotFound, WrongState (already ended)."""
    automation = await runs.automation_of(tx, actor.org, run)
    hot = await run_queue.hot(tx, actor.org, run)
    if hot is None or hot.status in TERMINAL:
        raise WrongState("This run has ended. It can no longer be cancelled.")
    begun = hot.status is RunStatus.RUNNING or (hot.status is RunStatus.QUEUED and hot.started_at is not None)
    if begun:
        vt = await fair.present(tx)
        done = await run_queue.ask_to_cancel(tx, actor.org, run, code="by_person", vt=vt)
    else:
        done = await ending.end(
            tx, actor.org, run, automation=automation, since=hot.status, how=ending.BY_PERSON
        )
    if not done:
        raise WrongState("The run changed state meanwhile. Read it again.")
    return await runs.get(tx, actor.org, run)
