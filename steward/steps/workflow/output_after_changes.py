"""Computes the output of a workflow's step once its changes and sends are done.

Each item follows its own changes: if they were made, it becomes what the response says; if one failed, the
step's `on_error` decides; if they were not made (declined, or the object changed meanwhile), it is dropped.
The computation has no side effects. See docs/design/imports-n8n.md#responses.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from steward.model.change import Outcome
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import OnError
from steward.model.write_response import WriteResponse
from steward.steps.workflow.error_outputs import ERROR_PORT, with_errors_moved
from steward.steps.workflow.items import Item, Items, Outputs
from steward.steps.workflow.memory_budget import MemoryBudgetExceeded, json_size
from steward.steps.workflow.step_types import ItemFailed, ResponseUse, SentItem, error_item, paired_with_all

_LOST = "It was sent and done, but the response was lost. No step after this one was run."
_TOO_LARGE = (
    "It was sent, but the response is larger than a step may pass on (1 MiB, 7 MiB for all items)."
    " Let the address answer with less."
)
_TOO_DEEP = "It was sent, but the values in its response are nested too deeply to be passed on."
_WRITTEN = (Outcome.APPLIED, Outcome.UNCHANGED)


class ResponseReader(Protocol):
    """The part of a step type that turns answers into items."""

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns the items that the response turns a sent item into. Raises ItemFailed."""
        ...

    def refusal(self, message: str, response: WriteResponse | None) -> ItemFailed:
        """Returns the failure of an item whose change was refused or whose answer is unusable."""
        ...


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The outcome of one change of a step, with its recorded response."""

    outcome: Outcome
    message: str | None = None
    response: WriteResponse | None = None


@dataclass(frozen=True, slots=True)
class OutputAfterChanges:
    """The output of a step; `outputs` is None if the step ends the run with `message` and `code`."""

    outputs: Outputs | None
    message: str | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class StepAfterChanges:
    """A step whose changes have ended: its planned outputs and its failure settings.

    `item_of` holds, for each change, the index of the resulting item in output 0, or -1; `response_uses` says
    how items are derived from a response; `inputs` are the items that the step received.
    """

    planned: Outputs
    item_of: Sequence[int]
    response_uses: Mapping[int, ResponseUse]
    on_error: OnError
    inputs: Sequence[Items] = ()
    always_output: bool = False


@dataclass(slots=True)
class _Collected:
    """The items of output 0 and of the error output collected so far."""

    step: StepAfterChanges
    items: Items = field(default_factory=list)
    failed: Items = field(default_factory=list)

    def fail(self, item: Item, failure: ItemFailed) -> None:
        """Handles a failed item by the step's `on_error`, which is not STOP."""
        message = failure.message
        if self.step.on_error is OnError.PASS_INPUT:
            self.items.append(Item({"error": failure.error}, item.paired, message))
            return
        index = _input_index(item)
        inputs = self.step.inputs[0] if self.step.inputs else []
        source = inputs[index] if index is not None and index < len(inputs) else Item({})
        self.failed.append(
            replace(error_item(source, index or 0, message, failure.error), paired=item.paired)
        )


def _input_index(item: Item) -> int | None:
    link = item.paired[0] if item.paired else None
    return link[0] if isinstance(link, tuple) else None


def output_after_changes(
    step: StepAfterChanges, done: Sequence[ChangeResult], types: Mapping[str, ResponseReader]
) -> OutputAfterChanges:
    """Returns the step's output after all its changes, given in order by `done`."""
    by_item: dict[int, list[ChangeResult]] = {}
    for number, change in zip(step.item_of, done, strict=True):
        by_item.setdefault(number, []).append(change)
    if any(_is_lost(number, change, step) for number, change in zip(step.item_of, done, strict=True)):
        return OutputAfterChanges(None, _LOST, "outcome_unknown")
    collected = _Collected(step)
    first, *others = step.planned or [[]]
    for number, item in [(-1, Item({})), *enumerate(first)]:
        try:
            items = _items_after(item, by_item.get(number), step.response_uses.get(number), types)
        except ItemFailed as failure:
            if step.on_error is OnError.STOP:
                return OutputAfterChanges(None, failure.message, "step_failed")
            if number >= 0:
                collected.fail(item, failure)
            continue
        if number >= 0:
            collected.items += items
    return OutputAfterChanges(
        _outputs(collected, others, was_made=any(change.outcome in _WRITTEN for change in done))
    )


def _outputs(collected: _Collected, others: Sequence[Items], *, was_made: bool) -> Outputs:
    step = collected.step
    items = collected.items
    if step.always_output and not items and was_made:
        items = [Item({}, paired_with_all(step.inputs))]
    errors, *more = others or [[]]
    outputs = [items, [*errors, *collected.failed], *more] if collected.failed else [items, *others]
    if step.on_error is not OnError.ERROR_OUTPUT:
        return outputs
    return with_errors_moved(outputs, step.inputs, ("out:0", ERROR_PORT))


def _is_lost(number: int, change: ChangeResult, step: StepAfterChanges) -> bool:
    """Returns whether later steps depend on the response to the change, which is unknown."""
    if change.response is not None:
        return False
    if change.outcome is Outcome.UNKNOWN:
        return True
    use = step.response_uses.get(number)
    return change.outcome is Outcome.APPLIED and use is not None and use.is_needed


def _items_after(
    item: Item,
    changes: Sequence[ChangeResult] | None,
    use: ResponseUse | None,
    types: Mapping[str, ResponseReader],
) -> Items:
    """Returns the items that an item becomes after its changes. Raises ItemFailed."""
    if changes is None:
        return [item]
    _check_done(changes, None if use is None else types[use.source_type])
    if any(change.outcome not in _WRITTEN for change in changes):
        return []
    response = next((change.response for change in reversed(changes) if change.response is not None), None)
    if use is None or response is None:
        return [item]
    if response.is_too_large:
        raise types[use.source_type].refusal(_TOO_LARGE, None)
    return _response_items(item, response, use, types)


def _check_done(changes: Iterable[ChangeResult], reader: ResponseReader | None) -> None:
    """Raises ItemFailed if a change failed or its outcome is unknown."""
    for change in changes:
        if change.outcome is Outcome.FAILED:
            message = change.message or "It was refused."
            raise ItemFailed(message) if reader is None else reader.refusal(message, change.response)
        if change.outcome is Outcome.UNKNOWN and change.response is not None:
            message = (
                f"The response was the status {change.response.status}: whether it was done is not known."
            )
            raise ItemFailed(message) if reader is None else reader.refusal(message, change.response)


def _response_items(
    item: Item, response: WriteResponse, use: ResponseUse, types: Mapping[str, ResponseReader]
) -> Items:
    """Returns the items that the response turns an item into, paired with its source. Raises ItemFailed."""
    reader = types[use.source_type]
    to_items = [*reader.items_of_response(SentItem(item, use.settings), response)]
    try:
        for items_of_response in to_items:
            json_size(items_of_response.json)
    except (MemoryBudgetExceeded, RecursionError):
        raise reader.refusal(_TOO_DEEP, None) from None
    return [
        items_of_response
        if items_of_response.paired is not None
        else replace(items_of_response, paired=item.paired)
        for items_of_response in to_items
    ]


def encode_response_uses(response_uses: Mapping[int, ResponseUse]) -> JsonValue:
    """Encodes for the journal which items are derived from a response, and how."""
    return {
        str(number): [use.source_type, use.settings, use.is_needed] for number, use in response_uses.items()
    }


def decode_response_uses(encoded: JsonValue) -> dict[int, ResponseUse]:
    """Decodes what `encode_response_uses` returned."""
    uses: dict[int, ResponseUse] = {}
    for number, fields in encoded.items() if isinstance(encoded, Mapping) else ():
        source_type, settings, is_needed = fields if isinstance(fields, list) else ("", {}, True)
        uses[int(number)] = ResponseUse(str(source_type), _settings(settings), bool(is_needed))
    return uses


def _settings(encoded: JsonValue) -> JsonObject:
    return encoded if isinstance(encoded, Mapping) else {}
