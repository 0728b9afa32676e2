"""The node itemLists, the predecessor of splitOut, aggregate, sort, limit and others."""

from collections.abc import Iterable
from types import MappingProxyType

from steward.steps.n8n.nodes import keys, lists, summarize
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    for_each_item,
    paired_with,
    paired_with_all,
)

_OPERATIONS = frozenset(
    ("splitOutItems", "aggregateItems", "concatenateItems", "removeDuplicates", "sort", "limit", "summarize")
)


class ItemListsNode(StepType):
    """Delegates to the node of its operation; up to version 2, aggregating is aggregateItems."""

    types = ("itemLists",)
    versions = (1, 2, 2.1, 2.2, 3, 3.1)
    options = frozenset(
        (
            "destinationFieldName",
            "disableDotNotation",
            "includeBinary",
            "includeBinaries",
            "mergeLists",
            "keepMissing",
            "removeOtherFields",
            "outputFormat",
            "skipEmptySplitFields",
            "continueIfFieldNotFound",
        )
    )
    choices = MappingProxyType(
        {
            "aggregate": frozenset(("aggregateIndividualFields", "aggregateAllItemData")),
            "type": frozenset(("simple", "random", "code")),
            "keep": frozenset(("firstItems", "lastItems")),
            "compare": frozenset(("allFields", "allFieldsExcept", "selectedFields")),
        }
    )
    parameters = frozenset(
        (
            "resource",
            "operation",
            "fieldToSplitOut",
            "include",
            "fieldsToInclude",
            "fieldsToExclude",
            "options",
            "fieldsToAggregate",
            "aggregate",
            "destinationFieldName",
            "compare",
            "fieldsToCompare",
            "type",
            "sortFieldsUi",
            "code",
            "maxItems",
            "keep",
            "fieldsToSummarize",
            "fieldsToSplitBy",
        )
    )

    def operation(self, node: NodeDefinition) -> str:
        """Returns `itemLists.sort`, for example."""
        return f"itemLists.{node.literal('operation', 'splitOutItems')}"

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unknown operations."""
        if node.get("operation", "splitOutItems") not in _OPERATIONS:
            yield StepProblem("error", "parameter", "Its operation is not known. Choose another one.")
        if node.get("operation") == "sort" and node.get("type") == "random":
            yield StepProblem("warning", "parameter", lists.RANDOM)

    def keeps_files(self, call: StepCall) -> bool:
        """Returns True for sorting, limiting and removing duplicates; for splitting, its option."""
        operation = call.first.text("operation", "splitOutItems")
        if operation == "splitOutItems":
            return call.first.flag("options.includeBinary")
        return operation in ("sort", "limit", "removeDuplicates")

    async def run(self, call: StepCall) -> NodeResult:
        """Runs the node of its operation."""
        operation = call.first.text("operation", "splitOutItems")
        if operation == "splitOutItems":
            return for_each_item(
                call, lambda index, item: lists.split_out(_split_params(call, index), index, item)
            )
        if operation == "sort":
            return NodeResult(
                [[Item(call.items[index_].json, paired_with(index_)) for index_ in await _order(call)]]
            )
        return NodeResult([_listed(call, operation)])


def _listed(call: StepCall, operation: str) -> Items:
    params = call.first
    if operation == "limit":
        return lists.limited(call.items, params)
    if operation == "removeDuplicates":
        return keys.without_duplicates(params, call.items)
    if operation == "summarize":
        return summarize.summarized(params, call.items)
    if operation not in ("aggregateItems", "concatenateItems"):
        raise ItemFailed(f"The operation “{operation}” is not known.")
    if params.text("aggregate", "aggregateIndividualFields") == "aggregateAllItemData":
        json = lists.aggregate_all(params, call.items)
    else:
        json = lists.aggregate_fields(params, call.items)
    item = Item(json, paired_with_all([call.items]))
    return [lists.with_gathered_files(item, params, call.items)]


async def _order(call: StepCall) -> list[int]:
    kind = call.first.text("type", "simple")
    if kind == "code":
        return await lists.ordered_by_code(call, call.first.text("code"))
    return lists.shuffled(call) if kind == "random" else lists.ordered(call.items, call.first)


def _split_params(call: StepCall, index: int) -> Params:
    """Returns the parameters with field names as text; up to version 2 they are objects."""
    params = call.params(index)
    rows = params.rows("fieldsToInclude.fields")
    if not rows:
        return params
    return Params({**params.tree, "fieldsToInclude": [row.text("fieldName") for row in rows]})
