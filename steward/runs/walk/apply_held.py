"""Applies the approved changes of held steps, and writes the last row of each."""

from datetime import datetime
from functools import partial

from steward.database.runs import write_ledger
from steward.database.runs.write_ledger import OPEN, WriteEntry
from steward.model.change import Outcome
from steward.model.plan import PlanStep
from steward.runs.walk.approved_set import verified_hash
from steward.runs.walk.held_step import ComputeOutput
from steward.runs.walk.last_row import changes_of_step, write_last_row
from steward.runs.walk.state import Walk
from steward.runs.writes import apply, ledger, reconcile, write_responses
from steward.runs.writes.apply import MustWait
from steward.runs.writes.applying_step import ApplyingStep

_WAITING = (Outcome.PROPOSED,)
_TO_APPLY = (Outcome.APPROVED, Outcome.UNKNOWN)
_NOT_DONE = (*_TO_APPLY, Outcome.DECLINED)


async def waits_for_decision(walk: Walk, step: PlanStep, iteration: str = "") -> bool:
    """Returns whether a held step's changes are still to be decided."""
    items = await walk.read(partial(changes_of_step, walk=walk, step=step, iteration=iteration))
    return any(item.outcome in _WAITING for item in items)


async def apply_step(
    walk: Walk,
    step: PlanStep,
    started_at: datetime,
    iteration: str = "",
    compute_output: ComputeOutput | None = None,
) -> None:
    """Applies the approved changes of a held step and writes its last row.

    `compute_output` computes the output of a workflow's step from the outcomes and responses of its writes.

    Raises LeaseLost, CancelRequested, ApprovalMismatch, and MustWait when the run has to sleep first.
    """
    walk.show_progress(step, started_at)
    try:
        await _apply_step(walk, step, started_at, iteration, compute_output)
    finally:
        walk.ctx.progress.pop(walk.run.id, None)


async def _apply_step(
    walk: Walk, step: PlanStep, started_at: datetime, iteration: str, compute_output: ComputeOutput | None
) -> None:
    items = await walk.read(partial(changes_of_step, walk=walk, step=step, iteration=iteration))
    change_hash = await verified_hash(walk, items)
    applying = ApplyingStep(
        ctx=walk.ctx,
        lease=walk.lease,
        changes=[item for item in items if item.outcome in _TO_APPLY],
        connections=walk.opened.connections,
        change_hash=change_hash,
        version=walk.run.plan_version or walk.run.template_version,
        done=sum(item.outcome not in _NOT_DONE for item in items),
        response_budget=write_responses.ResponseBudget() if compute_output is not None else None,
    )
    ledger.add_ledger_results(applying, await _read_entries(walk))
    await apply.apply(applying)
    until = await reconcile.settle_run(walk.ctx, walk.lease)
    if until is not None:
        raise MustWait(max((until - walk.ctx.clock.now()).total_seconds(), 0.001))
    if await _must_apply_again(walk, step, iteration):
        await _apply_step(walk, step, started_at, iteration, compute_output)
        return
    await write_last_row(walk, step, started_at, iteration, compute_output)


async def _read_entries(walk: Walk) -> list[WriteEntry]:
    return await walk.read(partial(write_ledger.of_run, org=walk.lease.org, run=walk.run.id))


async def _must_apply_again(walk: Walk, step: PlanStep, iteration: str) -> bool:
    """Returns whether an unknown write was settled, so that its change has to be applied further."""
    items = await walk.read(partial(changes_of_step, walk=walk, step=step, iteration=iteration))
    unknown = [item for item in items if item.outcome is Outcome.UNKNOWN]
    if not unknown:
        return False
    entry_by_change = {entry.change: entry for entry in await _read_entries(walk)}
    return any(item.id in entry_by_change and entry_by_change[item.id].state not in OPEN for item in unknown)
