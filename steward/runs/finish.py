"""Ends a run: status, summary, consecutive failures, promotion of the next run."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeAlias

from steward.automations import pauses
from steward.automations.rules import AutomationRules
from steward.database.automations import streaks
from steward.database.engine.base import Batchable, Engine, Tx
from steward.database.notifications import facts
from steward.database.runs import active_run, checkpoints, fast_runs, transitions
from steward.database.runs.checkpoints import StepCheckpoint
from steward.database.runs.fast_runs import FinishResult, RunToFinish
from steward.database.runs.transitions import Lease
from steward.model.change import Outcome
from steward.model.ids import AutomationId
from steward.model.json import JsonObject, JsonValue
from steward.model.limits import FAILURES_TO_PAUSE, MAX_RESULT_BYTES
from steward.model.run import Counts, Mode, RunStatus
from steward.run_queue import queue as run_queue
from steward.runs import change_outcomes
from steward.runs.lease import LeaseLost

# What a run that succeeded also writes, in the transaction that ends it.
EndWrites: TypeAlias = Callable[[Tx], Awaitable[None]]
# The code of a run whose workers were lost too often: the service failed, and not the automation.
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run."""

    status: RunStatus
    code: str | None = None
    message: str | None = None
    summary: JsonObject | None = None
    result: JsonObject | None = None


async def finish(
    tx: Tx,
    lease: Lease,
    end: RunEnd,
    *,
    automation: AutomationId,
    mode: Mode,
    rules: AutomationRules,
    is_undo: bool,
) -> None:
    """Ends the run under its queue's lock and promotes the next. Raises LeaseLost.

    The end of an undo says nothing about the automation, so its failures are not counted.
    """
    org = lease.org
    await active_run.lock(tx, org, [automation])
    is_owner = await transitions.finish(
        tx,
        lease,
        end.status,
        code=end.code,
        message=end.message,
        summary=end.summary,
        result=end.result if end.status in (RunStatus.SUCCEEDED, RunStatus.FAILED) else None,
    )
    if not is_owner:
        raise LeaseLost(lease)
    if end.status is not RunStatus.SUCCEEDED:
        await change_outcomes.close_unapplied(tx, org, lease.run, outcome=Outcome.CANCELLED)
    if mode is Mode.TEST:
        return
    await run_queue.promote_next(tx, org, automation)
    if not is_undo:
        await _update_streak(tx, lease, end, automation, rules=rules)
    await facts.run_ended(tx, org, lease.run, automation=automation, status=end.status, code=end.code)


@dataclass(frozen=True, slots=True)
class FinishRequest:
    """A run to end, and how."""

    lease: Lease
    end: RunEnd
    automation: AutomationId
    mode: Mode
    rules: AutomationRules
    on_success: EndWrites | None = None  # what a run that succeeded also writes
    is_undo: bool = False

    @property
    def is_success(self) -> bool:
        """Whether the fast path can end it: only the run, its queue and its streak are written."""
        is_plain = self.end.status is RunStatus.SUCCEEDED and self.end.code is None
        return is_plain and self.on_success is None and not self.is_undo


@dataclass(frozen=True, slots=True)
class _Ending:
    """A run to end, with its last step when that is not stored yet."""

    request: FinishRequest
    last_checkpoint: StepCheckpoint | None = None


async def end_run(engine: Engine, now: datetime, request: FinishRequest) -> None:
    """Ends a run durably; the ends of successful runs are batched (group commit). Raises LeaseLost."""
    org = request.lease.org
    if request.is_success:
        batchable = Batchable(_Ending(request), _finish_one_with_step, _finish_batch, autocommit=True)
        if (await engine.write(now, batchable, org=org)).ended:
            return
    await engine.write(now, partial(_finish_one, request=request), org=org)


async def end_with_step(
    engine: Engine, now: datetime, request: FinishRequest, last_checkpoint: StepCheckpoint
) -> FinishResult:
    """Stores the last step of a successful run and ends the run, in one commit that others may share.

    If the run is to be cancelled, only the step is stored. Raises LeaseLost.
    """
    batchable = Batchable(
        _Ending(request, last_checkpoint),
        _finish_one_with_step,
        _finish_batch,
        weight=len(last_checkpoint.output),
        autocommit=True,
    )
    result = await engine.write(now, batchable, org=request.lease.org)
    if not result.is_owner:
        raise LeaseLost(request.lease)
    return result


async def _finish_one_with_step(tx: Tx, ending: _Ending) -> FinishResult:
    if ending.last_checkpoint is not None:
        if tx.dialect == "postgresql":  # the run's row comes last in the lock order
            await active_run.lock(tx, ending.request.lease.org, [ending.request.automation])
        is_owner, cancel = await checkpoints.write_one(tx, ending.last_checkpoint)
        if not is_owner or cancel is not None:
            return FinishResult(is_owner, False, cancel)
    await _finish_one(tx, ending.request)
    return FinishResult(True, True, None)


async def _finish_one(tx: Tx, request: FinishRequest) -> None:
    await finish(
        tx,
        request.lease,
        request.end,
        automation=request.automation,
        mode=request.mode,
        rules=request.rules,
        is_undo=request.is_undo,
    )
    if request.on_success is not None and request.end.status is RunStatus.SUCCEEDED:
        await request.on_success(tx)


async def _finish_batch(tx: Tx, endings: Sequence[_Ending]) -> Sequence[FinishResult]:
    """Ends successful runs in one call, except those that were lost or need the slow path."""
    return await fast_runs.finish_runs(
        tx,
        [
            RunToFinish(
                ending.request.lease,
                ending.request.automation,
                ending.request.mode is Mode.LIVE,
                ending.request.end.message,
                transitions.json_text(ending.request.end.summary),
                transitions.json_text(ending.request.end.result),
                ending.last_checkpoint,
            )
            for ending in endings
        ],
    )


async def _update_streak(
    tx: Tx, lease: Lease, end: RunEnd, automation: AutomationId, *, rules: AutomationRules
) -> None:
    """Counts the automation's failures in a row; pauses the automation at the limit."""
    if end.status is RunStatus.SUCCEEDED:
        await streaks.reset_failures(tx, lease.org, automation)
    elif end.status is RunStatus.FAILED and end.code != INTERRUPTED:
        failures = await streaks.count_failure(tx, lease.org, automation)
        if failures >= FAILURES_TO_PAUSE:
            reason = f"{failures} runs failed in a row. The last one: {end.message}"
            await pauses.pause_by_service(tx, lease.org, automation, reason=reason, rules=rules)


def shrink_result(result: JsonObject | None) -> JsonObject | None:
    """Returns a result of at most 64 KiB: its longest list is halved until it fits."""
    while result is not None and len((transitions.json_text(result) or "").encode()) > MAX_RESULT_BYTES:
        lists = {key: value for key, value in result.items() if _is_list(value)}
        longest = max(lists, key=lambda key: len(_items(lists[key])), default=None)
        if longest is None or not _items(lists[longest]):
            return None
        items = _items(lists[longest])
        result = {**result, longest: list(items[: len(items) // 2])}
    return result


def _is_list(value: JsonValue) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _items(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def final_status(totals: Counts) -> tuple[RunStatus, str | None]:
    """Returns status and code of a run that reached the end of its plan, by its changes' outcomes."""
    if totals.unknown:
        return RunStatus.FAILED, "outcome_unknown"
    if totals.failed:
        return RunStatus.FAILED, "some_changes_failed"
    if totals.conflicts and not (totals.applied + totals.unchanged + totals.sent):
        return RunStatus.FAILED, "all_conflicted"
    return RunStatus.SUCCEEDED, None


def final_message(code: str | None, totals: Counts) -> str | None:
    """Returns the run's message for a code of `final_status`."""
    total = (
        totals.applied + totals.unchanged + totals.conflicts + totals.failed + totals.unknown + totals.sent
    )
    done = totals.applied + totals.sent
    if code == "outcome_unknown" and not totals.unknown:
        return (
            f"{done} of {total} done. When the run ended, the outcome of some was unknown; it is known now."
        )
    if code == "outcome_unknown":
        return (
            f"{done} of {total} done; it is unknown whether {totals.unknown} took effect."
            " Check them before you repeat them."
        )
    if code == "some_changes_failed":
        conflicts = (
            f", {totals.conflicts} changed in the meantime and left unchanged" if totals.conflicts else ""
        )
        return f"{done} of {total} done{conflicts}, {totals.failed} failed."
    if code == "all_conflicted":
        if total == 1:
            return "The one change was left out: somebody else had changed its object in the meantime."
        return f"All {total} had been changed by somebody else in the meantime and were left unchanged."
    return None
