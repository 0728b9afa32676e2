"""Derives the outcome of a change from its parts, and names the parts written when some were not."""

from collections.abc import Callable, Mapping, Sequence

from steward.database.engine.base import Tx
from steward.database.runs import changes, write_ledger
from steward.database.runs.changes import SettledChange
from steward.database.runs.write_ledger import LedgerState, WriteEntry
from steward.model.change import Change, Outcome, Part, worst
from steward.model.ids import OrgId, RunId

_PartResult = tuple[Outcome, str | None]

OUTCOME_OF_STATE: Mapping[LedgerState, Outcome] = {
    LedgerState.DONE: Outcome.APPLIED,
    LedgerState.REFUSED: Outcome.FAILED,
    LedgerState.CONFLICT: Outcome.CONFLICT,
    LedgerState.UNKNOWN: Outcome.UNKNOWN,
}
_STOPPED = "The run ended before the rest was made."
# Operations whose name does not say what they write.
_NAMES = {
    "inventory.set": "the stock",
    "product.set_visible": "the visibility",
    "product.set_published": "the visibility",
    "fulfillment.hold": "the hold",
}


def part_results(change: Change, entries: Sequence[WriteEntry]) -> list[_PartResult | None]:
    """Returns the ledger's result for each part of the change, in order; None for an unsettled part."""
    results = {
        entry.part: (OUTCOME_OF_STATE[entry.state], entry.message)
        for entry in entries
        if entry.state in OUTCOME_OF_STATE
    }
    return [results.get(number) for number in range(1, len(change.proposal.parts) + 1)]


def change_result(
    parts: Sequence[Part], results: Sequence[_PartResult | None], *, run_continues: bool
) -> _PartResult | None:
    """Returns the outcome and message of a change from the results of its parts.

    Parts are applied in order, each after the ones before it succeeded. While the run continues, a change
    whose last part is open has no outcome (None). Once the run has stopped, such a change has failed if one
    of its parts was written. The message of a failed change names the parts that were written.
    """
    outcome = _worst_outcome(results)
    if outcome is None:
        return None
    if outcome is Outcome.UNKNOWN:
        return outcome, changes.STILL_OPEN
    written = _parts_that(parts, results, _is_written)
    if outcome in (Outcome.FAILED, Outcome.CONFLICT):
        message = _failure_message(results)
    elif results[-1] is not None:
        return outcome, None
    elif run_continues or not written:
        return None
    else:
        message = _STOPPED
    if not written:
        return outcome, message
    return Outcome.FAILED, _partly_written(written, _parts_that(parts, results, _is_missing), message)


def _parts_that(
    parts: Sequence[Part],
    results: Sequence[_PartResult | None],
    matches: Callable[[_PartResult | None], bool],
) -> list[Part]:
    return [part for part, result in zip(parts, results, strict=True) if matches(result)]


def _is_written(result: _PartResult | None) -> bool:
    return result is not None and result[0] is Outcome.APPLIED


def _is_missing(result: _PartResult | None) -> bool:
    return result is None or result[0] not in (Outcome.APPLIED, Outcome.UNCHANGED)


def _worst_outcome(results: Sequence[_PartResult | None]) -> Outcome | None:
    """Returns the worst outcome of the settled parts; None when none is settled."""
    outcomes = [result[0] for result in results if result is not None]
    return worst(outcomes) if outcomes else None


def _failure_message(results: Sequence[_PartResult | None]) -> str | None:
    """Returns the message of the first part that was not applied and has one."""
    for result in results:
        if result is not None and result[1] and not _is_written(result):
            return result[1]
    return None


def _partly_written(written: Sequence[Part], missing: Sequence[Part], reason: str | None) -> str:
    sentences = [
        f"Only part of the change was made: {_names(written)}.",
        f"Not made: {_names(missing)}.",
        reason,
        "Check it in the store.",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _names(parts: Sequence[Part]) -> str:
    return ", ".join(dict.fromkeys(_name(part) for part in parts))


def _name(part: Part) -> str:
    """Describes what a part writes, in words that a merchant understands."""
    if part.operation == "product_tag.create":
        return f"the new tag “{part.target}”"
    if part.operation in _NAMES:
        return _NAMES[part.operation]
    for argument, verb in (("add", "put on"), ("remove", "taken off")):
        tags = part.arguments.get(argument)
        if isinstance(tags, Sequence) and not isinstance(tags, str):
            return f"tags {verb} ({', '.join(str(tag) for tag in tags)})"
    _, _, action = part.operation.partition(".")
    for prefix in ("set_", "change_", "add_"):
        action = action.removeprefix(prefix)
    return f"the {action.replace('_', ' ')}"


async def close_unapplied(tx: Tx, org: OrgId, run: RunId, *, outcome: Outcome) -> None:
    """Gives every open change its final outcome: `outcome`, unknown, or failed if partly written."""
    outcomes = []
    for change in await changes.partly_written(tx, org, run):
        results = part_results(change, await write_ledger.of_change(tx, org, change.id))
        result = change_result(change.proposal.parts, results, run_continues=False)
        if result is not None:
            outcomes.append(SettledChange(change.id, *result))
    await changes.settle(tx, org, run, outcomes)
    await changes.close_unapplied(tx, org, run, outcome=outcome)
