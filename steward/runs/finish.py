"""Ends a run a worker has: status, last words, failures in a row, lane and promotion (engine 4.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from steward.automations import lifecycle
from steward.automations.rules import AutomationRules
from steward.database.automations import streaks
from steward.database.engine.base import Batchable, Engine, Tx
from steward.database.runs import active_run as lanes
from steward.database.runs import checkpoints
from steward.database.runs import fast_runs as plain_runs
from steward.database.runs import transitions as run_queue
from steward.database.runs.checkpoints import Point
from steward.database.runs.fast_runs import Closed, Success
from steward.database.runs.transitions import Lease
from steward.model.change import Outcome
from steward.model.ids import AutomationId
from steward.model.json import JsonObject, JsonValue
from steward.model.run import Counts, Mode, RunStatus
from steward.run_queue import queue as lane
from steward.runs import change_outcomes
from steward.runs.worker_context import LeaseLost

FAILURES_TO_PAUSE = 5
RESULT_BYTES = 65_536
# The code of a run whose workers were lost too often: the service failed, and not the automation.
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class End:
    """How a run ends."""

    status: RunStatus
    code: str | None = None
    message: str | None = None
    summary: JsonObject | None = None
    result: JsonObject | None = None


async def finish(
    tx: Tx, lease: Lease, end: End, *, automation: AutomationId, mode: Mode, rules: AutomationRules
) -> None:
    """Ends the run under its lane's lock and promotes the next. Raises LeaseLost."""
    org = lease.org
    await lanes.lock(tx, org, [automation])
    if not await run_queue.finish(tx, lease, end.status):
        raise LeaseLost(lease)
    await run_queue.set_outcome(
        tx,
        org,
        lease.run,
        code=end.code,
        message=end.message,
        summary=end.summary,
        result=end.result if end.status in (RunStatus.SUCCEEDED, RunStatus.FAILED) else None,
    )
    if end.status is not RunStatus.SUCCEEDED:
        await change_outcomes.drop_open(tx, org, lease.run, to=Outcome.CANCELLED)
    if mode is Mode.TEST:
        return
    await lane.promote_next(tx, org, automation)
    await _streak(tx, lease, end, automation, rules=rules)


@dataclass(frozen=True, slots=True)
class Finish:
    """A run to be ended, and how."""

    lease: Lease
    end: End
    automation: AutomationId
    mode: Mode
    rules: AutomationRules

    @property
    def went_well(self) -> bool:
        """Whether nothing but the run, its lane and its schedule has to be written."""
        return self.end.status is RunStatus.SUCCEEDED and self.end.code is None


@dataclass(frozen=True, slots=True)
class _Ending:
    """A run to be ended well, with its last step where that is not kept yet."""

    wanted: Finish
    point: Point | None = None


async def end_run(engine: Engine, now: datetime, wanted: Finish) -> None:
    """Ends a run durably; what ended well may share one call with other runs'. Raises LeaseLost."""
    org = wanted.lease.org
    if wanted.went_well:
        shared = Batchable(_Ending(wanted), _alone, _together, autocommit=True)
        if (await engine.write(now, shared, org=org)).ended:
            return
    await engine.write(now, partial(_by_itself, wanted=wanted), org=org)


async def end_with_step(engine: Engine, now: datetime, wanted: Finish, point: Point) -> Closed:
    """Keeps the last step of a run that went well and ends it, in one commit and maybe in one call with other
    runs'; one that is to be cancelled, or has lost its lane, takes the step alone. Raises LeaseLost."""
    shared = Batchable(_Ending(wanted, point), _alone, _together, weight=len(point.output), autocommit=True)
    closed = await engine.write(now, shared, org=wanted.lease.org)
    if not closed.ours:
        raise LeaseLost(wanted.lease)
    return closed


async def _alone(tx: Tx, ending: _Ending) -> Closed:
    if ending.point is not None:
        if tx.dialect == "postgresql":  # the run's row comes last in the lock order (engine 2)
            await lanes.lock(tx, ending.wanted.lease.org, [ending.wanted.automation])
        ours, cancel = await checkpoints.keep(tx, ending.point)
        if not ours or cancel is not None:
            return Closed(ours, False, cancel)
    await _by_itself(tx, ending.wanted)
    return Closed(True, True, None)


async def _by_itself(tx: Tx, wanted: Finish) -> None:
    await finish(
        tx,
        wanted.lease,
        wanted.end,
        automation=wanted.automation,
        mode=wanted.mode,
        rules=wanted.rules,
    )


async def _together(tx: Tx, endings: Sequence[_Ending]) -> Sequence[Closed]:
    """What became of each; what is not ended is lost, or not of the usual kind."""
    return await plain_runs.close(
        tx,
        [
            Success(
                one.wanted.lease,
                one.wanted.automation,
                one.wanted.mode is Mode.LIVE,
                one.wanted.end.message,
                run_queue.json_text(one.wanted.end.summary),
                run_queue.json_text(one.wanted.end.result),
                one.point,
            )
            for one in endings
        ],
    )


async def _streak(
    tx: Tx, lease: Lease, end: End, automation: AutomationId, *, rules: AutomationRules
) -> None:
    if end.status is RunStatus.SUCCEEDED:
        await streaks.succeeded(tx, lease.org, automation)
    elif end.status is RunStatus.FAILED and end.code != INTERRUPTED:
        failures = await streaks.failed(tx, lease.org, automation)
        if failures >= FAILURES_TO_PAUSE:
            reason = f"{failures} runs failed in a row. The last one: {end.message}"
            await lifecycle.pause_by_service(tx, lease.org, automation, reason=reason, rules=rules)


def fitting(result: JsonObject | None) -> JsonObject | None:
    """A result of at most 64 KiB: its longest list is halved until it fits (contract 3.2)."""
    while result is not None and len((run_queue.json_text(result) or "").encode()) > RESULT_BYTES:
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


def verdict(totals: Counts) -> tuple[RunStatus, str | None]:
    """Status and code of a run that walked to its end, by what became of its changes (contract 4.3)."""
    if totals.unknown:
        return RunStatus.FAILED, "outcome_unknown"
    if totals.failed:
        return RunStatus.FAILED, "some_changes_failed"
    if totals.conflicts and not (totals.applied + totals.unchanged + totals.sent):
        return RunStatus.FAILED, "all_conflicted"
    return RunStatus.SUCCEEDED, None


def words(code: str | None, totals: Counts) -> str | None:
    """The run's message for a code of `verdict`; counts honestly (engine 11.4)."""
    asked = (
        totals.applied + totals.unchanged + totals.conflicts + totals.failed + totals.unknown + totals.sent
    )
    done = totals.applied + totals.sent
    if code == "outcome_unknown" and not totals.unknown:
        return (
            f"{done} of {asked} done. When the run ended it could not be told of all of them whether they"
            " took effect; it was found out since."
        )
    if code == "outcome_unknown":
        return (
            f"{done} of {asked} done; of {totals.unknown} it cannot be told whether they took effect."
            " Look at them before repeating them."
        )
    if code == "some_changes_failed":
        return f"{done} of {asked} done, {totals.conflicts} left alone, {totals.failed} failed."
    if code == "all_conflicted":
        return f"All {asked} had been changed by somebody else meanwhile and were left alone."
    return None
