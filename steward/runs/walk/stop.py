"""Ends a run before its plan's end: settles its open writes and cancels what was not written."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from steward.database.engine.base import Tx
from steward.database.runs import transitions
from steward.database.runs.steps import TooMuchData, ValueState
from steward.failpoint import failpoint
from steward.model.change import Outcome
from steward.run_queue import summaries
from steward.runs import change_outcomes
from steward.runs.finish import RunEnd
from steward.runs.lease import CancelRequested, LeaseLost
from steward.runs.walk.end import end_run
from steward.runs.walk.last_row import changes_of_step, write_last_row
from steward.runs.walk.sleep import put_to_sleep
from steward.runs.walk.state import Walk
from steward.runs.writes import reconcile

_NOT_BEGUN = (Outcome.DECLINED, Outcome.CANCELLED)


def was_stopping(walk: Walk) -> bool:
    """Returns whether a stop of the run had already cancelled changes when its worker was lost.

    The reason for that stop is not stored; a cancelled change is the only trace of it.
    """
    return any(Outcome.CANCELLED in outcomes for outcomes in walk.outcomes.values())


async def stop_run(walk: Walk, end: Callable[[Walk], RunEnd]) -> None:
    """Ends a run before its plan's end, after its open writes are settled.

    `end` is called once every change has its outcome. Until open writes can be settled the run sleeps. A
    worker that takes it over after changes were cancelled ends it too (`was_stopping`).
    """
    until = await reconcile.settle_run(walk.ctx, walk.lease)
    if until is not None:
        await put_to_sleep(walk.ctx, walk.claimed, until, leased_ms=walk.leased_ms(), settles=True)
        return
    await _stop_steps(walk)
    load = partial(summaries.outcomes_of, org=walk.lease.org, run=walk.run.id)
    walk.outcomes = dict((await walk.read(load))[0])
    await end_run(walk.ctx, walk.claimed, end(walk))


async def _stop_steps(walk: Walk) -> None:
    """Ends the open changes of a run that stops; writes the last row of each held step that has begun.

    Written changes stay and update the memory, unwritten ones are cancelled, and doubtful ones stay unknown.
    Raises LeaseLost.
    """

    async def drop(tx: Tx) -> None:
        is_owner, _ = await transitions.lock_lease(tx, walk.lease)
        if not is_owner:
            raise LeaseLost(walk.lease)
        await change_outcomes.close_unapplied(tx, walk.lease.org, walk.run.id, outcome=Outcome.CANCELLED)

    await walk.ctx.engine.write(walk.ctx.clock.now(), drop, org=walk.lease.org)
    failpoint("after_drop")
    for value in list(walk.journal.values()):
        if value.state is not ValueState.HELD:
            continue
        step = walk.plan.step(value.name)
        items = await walk.read(partial(changes_of_step, walk=walk, step=step, iteration=value.iteration))
        if all(item.outcome in _NOT_BEGUN for item in items):
            continue
        with suppress(CancelRequested, TooMuchData):  # the run ends in any case
            await write_last_row(walk, step, walk.ctx.clock.now(), value.iteration)
