"""Moves items that consist only of an error to the error output, as n8n does for every node.

See docs/decisions/0314-an-item-that-is-only-an-error-leaves-by-the-error-output.md.
"""

from collections.abc import Sequence
from dataclasses import replace

from steward.steps.workflow.items import Item, Items, Outputs
from steward.steps.workflow.javascript import values as js

ERROR_PORT = "error"
_ERROR_SHAPES = ({"error"}, {"error", "message"})


def with_errors_moved(outputs: Outputs, inputs: Sequence[Items], ports: Sequence[str]) -> Outputs:
    """Returns the outputs with items that are only an error moved to the last, the error output.

    Such an item also gets the fields of its source item.
    """
    padded: Outputs = [*outputs, *([] for _ in ports[len(outputs) :])]
    main, last = padded[:-1], padded[-1]
    moved = [_with_input(item, inputs) for items in main for item in items if _is_error(item)]
    if not moved:
        return outputs
    return [*([item for item in items if not _is_error(item)] for items in main), [*last, *moved]]


def _is_error(item: Item) -> bool:
    return item.json.keys() in _ERROR_SHAPES and js.truthy(item.json["error"])


def _with_input(item: Item, inputs: Sequence[Items]) -> Item:
    link = item.paired[0] if item.paired else None
    if not isinstance(link, tuple):
        return item
    index, number = link
    if number >= len(inputs) or index >= len(inputs[number]):
        return item
    return replace(item, json={**inputs[number][index].json, **item.json})
