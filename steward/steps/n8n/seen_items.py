"""The items that removeDuplicates has seen in earlier runs, as static data of its step or workflow.

See docs/design/static-data.md.
"""

import hashlib
import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Final

from steward.model.json import JsonObject, JsonValue
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.static_data import StaticDataTooLarge
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    WorkflowStepFailed,
    is_expression,
    paired_with,
)

COMPARES: Final = "removeItemsSeenInPreviousExecutions"
FORGETS: Final = "clearDeduplicationHistory"
_NEW, _HIGHER, _LATER = (
    "removeItemsWithAlreadySeenKeyValues",
    "removeItemsUpToStoredIncrementalKey",
    "removeItemsUpToStoredDate",
)
_VALUES: Final = {_NEW: "dedupeValue", _HIGHER: "incrementalDedupeValue", _LATER: "dateDedupeValue"}
_HISTORY: Final = 10_000  # default number of values
_OF_WORKFLOW: Final = "removeDuplicates\tworkflow"  # cannot be a node name: unwrap removes tabs
_HASH_BYTES: Final = 12


def history_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields the problems of comparing with earlier runs, and a note on which runs count."""
    if node.get("operation") == FORGETS:
        if node.get("mode", "cleanDatabase") != "cleanDatabase":
            yield StepProblem("error", "parameter", "What it forgets is not known. Choose another operation.")
        return
    logic = node.get("logic", _NEW)
    if logic not in _VALUES:
        yield StepProblem("error", "parameter", "Which items it keeps is not known. Choose another setting.")
        return
    name = _VALUES[str(logic)]
    if not is_expression(node.get(name)):
        message = "It does not say which value of an item it compares. Fill it in in n8n and import it again."
        yield StepProblem("error", "parameter", message)
    message = (
        "It compares with the runs that succeeded here; what n8n has seen before is new to the first run."
    )
    yield StepProblem("warning", "parameter", f"{message} Check what the first run does.")


async def compare_with_history(call: StepCall) -> NodeResult:
    """Returns the new items, and on the second output those seen before. Raises ItemFailed."""
    logic = call.first.text("logic", _NEW)
    values = [call.params(index).get(_VALUES[logic]) for index in range(len(call.items))]
    history = await _history(call)
    if logic == _NEW:
        is_new, after = _unseen(values, history.get("seen"), _limit(call))
        changed: JsonObject = {**history, "seen": after}
    else:
        numbers = [_ordered(value, is_date=logic == _LATER) for value in values]
        name = "date" if logic == _LATER else "number"
        before = history.get(name)
        last = before if isinstance(before, int | float) else -float("inf")
        is_new = [number > last for number in numbers]
        changed = {**history, name: max([*numbers, last])} if numbers else history
    await _keep(call, changed)
    new_items: Items = []
    seen_before: Items = []
    for index, item in enumerate(call.items):
        (new_items if is_new[index] else seen_before).append(
            Item(item.json, paired_with(index), binary=item.binary)
        )
    return NodeResult([new_items, seen_before])


async def clear_history(call: StepCall) -> NodeResult:
    """Empties the history and passes the items on."""
    await _keep(call, {})
    items = [Item(item.json, paired_with(index), binary=item.binary) for index, item in enumerate(call.items)]
    return NodeResult([items])


def _unseen(values: Sequence[JsonValue], stored: object, limit: int) -> tuple[list[bool], list[JsonValue]]:
    """Returns whether each value is new, and the updated history, cut to the newest `limit` values."""
    before = [value for value in stored if isinstance(value, str)] if isinstance(stored, list) else []
    hashes = [_hash(value) for value in values]
    earlier_hashes = set(before)
    after = list(dict.fromkeys([*before, *hashes]))
    return [value not in earlier_hashes for value in hashes], list(after[-limit:])


def _hash(value: js.Value) -> str:
    if js.is_missing(value) or value == "":
        raise ItemFailed("The value that is compared is empty. Check which field it names.")
    text = js.text(value) if isinstance(value, str | bool) or js.is_number(value) else js.json_text(value)
    return b64encode(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_HASH_BYTES]).decode()


def _ordered(value: JsonValue, *, is_date: bool) -> float:
    """Returns a number, or a date's milliseconds, as a finite float. Raises ItemFailed."""
    if not is_date:
        number = (
            js.number(value) if js.is_number(value) or (isinstance(value, str) and value.strip()) else None
        )
        if number is None or not math.isfinite(number):
            raise ItemFailed(f"{js.json_text(value)[:80]} is not a number, so it cannot be compared.")
        return number
    date = js_dates.parse(value, UTC) if isinstance(value, str) else None
    if date is None:
        raise ItemFailed(f"{js.json_text(value)[:80]} is not a date, so it cannot be compared.")
    return date.timestamp() * 1000


def _limit(call: StepCall) -> int:
    size = js.number(call.first.get("options.historySize", _HISTORY))
    if size != size or not 1 <= size <= 1_000_000:
        raise ItemFailed("The history size is not a number from 1 on.")
    return int(size)


def _owner(call: StepCall) -> str:
    scope = call.first.text("options.scope", "node")
    return _OF_WORKFLOW if scope == "workflow" else call.step.name


async def _history(call: StepCall) -> JsonObject:
    objects = await call.environment.static_data.read(_owner(call))
    return objects["node"]


async def _keep(call: StepCall, history: JsonObject) -> None:
    try:
        await call.environment.static_data.write(_owner(call), {"node": history})
    except StaticDataTooLarge:
        message = (
            "What this workflow keeps from run to run is larger than 1 MiB. Choose a smaller history size."
        )
        raise WorkflowStepFailed(message) from None
