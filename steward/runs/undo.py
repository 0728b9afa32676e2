"""Starts undo runs, and reports whether a finished run can be undone and how much of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from steward.automations import readiness
from steward.database.accounts import audit, connections, idempotency
from steward.database.automations import records as automations
from steward.database.engine.base import Row, Tx
from steward.database.runs import records as runs
from steward.database.runs import undos
from steward.database.runs.undos import UndoCounts
from steward.model.account import Actor, maker
from steward.model.automation import Automation
from steward.model.ids import ChangeId, OrgId, RunId, new_id
from steward.model.json import JsonObject, digest
from steward.model.refusals import (
    KeyReused,
    NotConnected,
    TooManyWaiting,
    Unavailable,
    ValidationFailed,
    WrongState,
)
from steward.model.run import TERMINAL, Mode, Run, StartedBy
from steward.run_queue import queue as run_queue
from steward.runs.start import StartedRun

_KEY = "undo"


@dataclass(frozen=True, slots=True)
class UndoRules:
    """The limits of undos: how long runs can be undone, when writes are settled, how many may wait."""

    valid_for: timedelta
    quiet: timedelta
    max_waiting: int


@dataclass(frozen=True, slots=True)
class UndoCommand:
    """Undoes a run: all changes that can be undone, or the named ones."""

    run: RunId
    idempotency_key: str
    changes: Sequence[ChangeId] | None = None
    mode: Mode = Mode.LIVE


@dataclass(frozen=True, slots=True)
class UndoFacts:
    """Whether a finished live run can be undone now, and what of it was undone.

    `obstacle` says why it cannot be undone, for people; None if it can.
    """

    obstacle: str | None
    counts: UndoCounts
    until: datetime | None
    open_run: RunId | None
    runs: tuple[RunId, ...]


_NOTHING_TO_UNDO = UndoFacts(
    "This run changed nothing, so there is nothing to put back.", UndoCounts(0, 0, 0), None, None, ()
)


async def facts_of_row(tx: Tx, row: Row, rules: UndoRules) -> UndoFacts | None:
    """Returns `facts_of` for a run's row with `has_changes`; a run without changes costs no further read."""
    if row["mode"] == Mode.TEST or row["status"] not in TERMINAL:
        return None
    return await facts_of(tx, runs.record(row), rules) if row["has_changes"] else _NOTHING_TO_UNDO


async def facts_of(tx: Tx, run: Run, rules: UndoRules) -> UndoFacts | None:
    """Returns the facts of the run's undo; None for a test run and for one that has not ended."""
    if run.mode is Mode.TEST or run.status not in TERMINAL or run.finished_at is None:
        return None
    undo_runs = await undos.of_run(tx, run.org, run.id)
    counts = await undos.counts(tx, run.org, run.id, undo_runs.runs)
    until = run.finished_at + rules.valid_for
    obstacle = _permanent_obstacle(tx, counts, until, rules)
    if obstacle is None and await undos.settles_until(tx, run.org, run.id, quiet=rules.quiet) is not None:
        obstacle = "It is not known yet whether some of its changes took effect. Try again in a few minutes."
    if obstacle is None and undo_runs.open_run is not None:
        obstacle = "Another undo of this run is in progress."
    listed_runs = undo_runs.runs[: undos.SHOWN_RUNS]
    return UndoFacts(obstacle, counts, until if counts.undoable else None, undo_runs.open_run, listed_runs)


def _permanent_obstacle(tx: Tx, counts: UndoCounts, until: datetime, rules: UndoRules) -> str | None:
    """Returns why the run can never be undone (any more), or None."""
    if not counts.changes:
        return _NOTHING_TO_UNDO.obstacle
    if not counts.undoable:
        return "Nothing that this run did can be put back."
    if tx.now > until:
        return f"This run ended more than {rules.valid_for.days} days ago and can no longer be undone."
    return None


async def undo(tx: Tx, actor: Actor, command: UndoCommand, *, rules: UndoRules) -> StartedRun:
    """Creates an undo run, or returns the one that its idempotency key created before.

    Raises NotFound, KeyReused, WrongState, ValidationFailed (`errors.changes`), NotConnected, TooManyWaiting.
    """
    org = actor.org
    original = await runs.get(tx, org, command.run)
    if earlier_run := await _replay(tx, actor, command):
        return earlier_run
    automation = await automations.get(tx, org, original.automation_id)
    locked_queue = await run_queue.lock(tx, org, automation.id)
    facts = await _checked_facts(tx, original, command, rules)
    chosen = await _checked_changes(tx, org, command)
    await _check_connected(tx, org, command.run, chosen)
    run = RunId(new_id(tx.now))
    is_stored = await idempotency.store(
        tx,
        org,
        _KEY,
        key=command.idempotency_key,
        object_id=run,
        automation=automation.id,
        request_sha256=digest([command.run, command.mode]),
    )
    if not is_stored:  # another request with the same key committed first
        earlier_run = await _replay(tx, actor, command)
        if earlier_run is None:
            raise Unavailable(retry_after=1)
        return earlier_run
    if await run_queue.waiting(tx, org, automation.id, rules.max_waiting) >= rules.max_waiting:
        raise TooManyWaiting(errors={})  # the idempotency key is rolled back with the transaction
    await run_queue.enqueue(tx, locked_queue, _request(actor, command, automation, run))
    await undos.insert(tx, org, run, of_run=command.run, chosen=chosen)
    detail: JsonObject = {
        "undo_of": command.run,
        "changes": facts.counts.undoable if chosen is None else len(chosen),
    }
    await audit.by_person(tx, actor, "undo_started", object_kind="run", object_id=run, detail=detail)
    return StartedRun(await runs.get(tx, org, run), replayed=False)


def _request(actor: Actor, command: UndoCommand, automation: Automation, run: RunId) -> run_queue.RunRequest:
    """Returns the run to enqueue: its plan is built in, so it has no version of the automation's plan."""
    return run_queue.RunRequest(
        automation=replace(automation, plan_version=None),
        mode=command.mode,
        started_by=StartedBy.HAND,
        maker=maker(actor),
        idempotency_key=command.idempotency_key,
        run_id=run,
        undo_of=command.run,
    )


async def _replay(tx: Tx, actor: Actor, command: UndoCommand) -> StartedRun | None:
    stored_key = await idempotency.find(tx, actor.org, _KEY, key=command.idempotency_key)
    if stored_key is None:
        return None
    run = await runs.get(tx, actor.org, RunId(stored_key.object_id))
    if run.undo_of != command.run:
        message = "This key already started an undo of another run. Use a new one."
        raise KeyReused(errors={"idempotency_key": [message]})
    return StartedRun(run, replayed=True)


async def _checked_facts(tx: Tx, original: Run, command: UndoCommand, rules: UndoRules) -> UndoFacts:
    """Returns the facts of a run that can be undone. Raises WrongState."""
    if original.mode is Mode.TEST:
        raise WrongState("A test run changes nothing, so there is nothing to put back.")
    facts = await facts_of(tx, original, rules)
    if facts is None:
        raise WrongState("This run has not ended. Undo it when it has, or cancel it.")
    obstacle = facts.obstacle
    if obstacle is not None and not (command.mode is Mode.TEST and facts.open_run is not None):
        raise WrongState(obstacle)
    return facts


async def _checked_changes(tx: Tx, org: OrgId, command: UndoCommand) -> Sequence[ChangeId] | None:
    """Returns the chosen changes, None for all. Raises ValidationFailed for one that cannot be undone."""
    if command.changes is None:
        return None
    undoable = await undos.undoable_ids(tx, org, command.run)
    unknown = next((change for change in command.changes if change not in undoable), None)
    if unknown is not None:
        message = f"{unknown} is not a change of this run that can be undone. Leave it out."
        raise ValidationFailed(errors={"changes": [message]})
    return command.changes


async def _check_connected(tx: Tx, org: OrgId, run: RunId, chosen: Sequence[ChangeId] | None) -> None:
    problem = await connection_problem(tx, org, run, chosen)
    if problem is not None:
        raise NotConnected(problem, errors={})


async def connection_problem(tx: Tx, org: OrgId, run: RunId, chosen: Sequence[ChangeId] | None) -> str | None:
    """Returns which connection of the changes to put back cannot be used now; None when all can."""
    needed = await undos.integrations(tx, org, run, chosen)
    connections_by_id = await connections.among(tx, org, needed) if needed else {}
    for integration in needed:
        problem = readiness.why_unusable(connections_by_id.get(integration))
        if problem is not None:
            return problem
    return None
