"""Converts the items of a step one by one and handles those that fail."""

from collections.abc import Awaitable, Callable, Iterable

from steward.model.plan import OnError
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.step_types import ItemFailed, NodeResult, StepCall, error_item, paired_with


async def convert_each_item(
    call: StepCall, convert: Callable[[int, Item], Awaitable[Iterable[Item]]]
) -> NodeResult:
    """Converts the items one by one; handles failed items by the step's `on_error`.

    Raises ItemFailed if `on_error` is STOP, MemoryBudgetExceeded.
    """
    out: Items = []
    failed: Items = []
    for index, item in enumerate(call.items):
        try:
            converted = list(await convert(index, item))
        except ItemFailed as failure:
            if call.on_error is OnError.STOP:
                raise
            call.budget.add(failure.error)
            if call.on_error is OnError.PASS_INPUT:
                out.append(Item({"error": failure.error}, paired_with(index), failure.message))
            else:
                failed.append(error_item(item, index, failure.message, failure.error))
            continue
        call.budget.add(*(item.json for item in converted))
        out += converted
    return NodeResult([out, failed] if call.on_error is OnError.ERROR_OUTPUT else [out])
