"""The nodes splitOut, aggregate, sort and limit."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cmp_to_key
from types import MappingProxyType

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.workflow.expressions.views import CodeFailed
from steward.steps.workflow.items import BinaryReference, Item, Items
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.memory_budget import STEP_BYTES, MemoryBudgetExceeded, json_size
from steward.steps.workflow.step_types import (
    FieldUse,
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

RANDOM = "Its random order is the same whenever a run is continued."


def names_of(value: JsonValue) -> list[str]:
    """Returns the field names of a comma-separated text or a list."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return [js.text(element) for element in value] if js.is_list(value) else []


def field_at(json: JsonObject, name: str, *, dots: bool) -> AnyJson:
    """Returns a field by its path, or by its plain name."""
    return js.get_path(json, name) if dots and name not in json else json.get(name, js.UNDEFINED)


class SplitOutNode(StepType):
    """The node splitOut: outputs an item for each element of a list."""

    types = ("splitOut",)
    knows_all_parameters = True
    options = frozenset(("destinationFieldName", "disableDotNotation", "includeBinary"))
    choices = MappingProxyType(
        {
            "include": frozenset(("noOtherFields", "allOtherFields", "selectedOtherFields")),
        }
    )
    parameters = frozenset(("fieldToSplitOut", "include", "fieldsToInclude", "options"))

    def keeps_files(self, call: StepCall) -> bool:
        """Returns whether the option to include files is on."""
        return call.first.flag("options.includeBinary")

    async def run(self, call: StepCall) -> NodeResult:
        """Splits the lists of all items."""
        return for_each_item(call, lambda index, item: split_out(call.params(index), index, item))


def _fields_to_split(params: Params) -> tuple[list[str], list[str]]:
    """Returns the fields that hold the lists, and the new names of their elements, if any."""
    fields = names_of(params.get("fieldToSplitOut", ""))
    if not fields:
        raise ItemFailed("Name the field to split out.")
    renamed = names_of(params.get("options.destinationFieldName", ""))
    if renamed and len(renamed) != len(fields):
        raise ItemFailed("Name as many destination fields as fields to split out.")
    return fields, renamed


def split_out(params: Params, item_index: int, item: Item) -> Items:
    """Returns the elements of one item's lists as items."""
    dots = not params.flag("options.disableDotNotation")
    fields, renamed = _fields_to_split(params)
    include = params.text("include", "noOtherFields")
    lists = [_elements(field_at(item.json, field, dots=dots)) for field in fields]
    other_fields = _other_fields(params, item, fields, include, dots=dots)
    out: Items = []
    count = max(len(elements) for elements in lists)
    if json_size(other_fields) * count > STEP_BYTES:
        raise MemoryBudgetExceeded
    is_spread = include == "noOtherFields" and len(fields) == 1 and not renamed
    for number in range(count):
        into = dict(other_fields)
        for target, elements in zip(renamed or fields, lists, strict=True):
            if number < len(elements):
                into |= _element_fields(elements[number], target, is_spread=is_spread)
        out.append(Item(into, paired_with(item_index)))
    return out


def _element_fields(value: JsonValue, target: str, *, is_spread: bool) -> JsonObject:
    """Returns an element's own members if `is_spread`, else the element as the field `target`."""
    if is_spread and js.is_object(value):
        return value
    if is_spread and js.is_list(value):
        return {str(position): member for position, member in enumerate(value)}
    return {target: value}


def _elements(value: AnyJson) -> Sequence[JsonValue]:
    if value is js.UNDEFINED:
        return []
    if js.is_object(value):
        return [member for _, member in js.members(value)]
    return list(value) if js.is_list(value) else [value]


def _other_fields(
    params: Params, item: Item, fields: Sequence[str], include: str, *, dots: bool
) -> dict[str, JsonValue]:
    if include == "allOtherFields":
        other_fields: dict[str, JsonValue] = dict(js.deep_copy(item.json)) if dots else dict(item.json)
        for field in fields:
            if dots:
                js.delete_path(other_fields, field)
            else:
                other_fields.pop(field, None)
        return other_fields
    if include == "selectedOtherFields":
        selected = {}
        for name in names_of(params.get("fieldsToInclude", "")):
            value = field_at(item.json, name, dots=dots)
            if value is not js.UNDEFINED:
                selected[name] = value
        return selected
    return {}


class AggregateNode(StepType):
    """The node aggregate: one item, paired with all items; `.item` is therefore an error in later steps."""

    types = ("aggregate",)
    knows_all_parameters = True
    per_item = False
    options = frozenset(
        ("disableDotNotation", "mergeLists", "keepMissing", "includeBinaries", "keepOnlyUnique")
    )
    choices = MappingProxyType(
        {
            "aggregate": frozenset(("aggregateIndividualFields", "aggregateAllItemData")),
            "include": frozenset(("allFields", "specifiedFields", "allFieldsExcept")),
        }
    )
    parameters = frozenset(
        (
            "aggregate",
            "fieldsToAggregate",
            "destinationFieldName",
            "include",
            "fieldsToInclude",
            "fieldsToExclude",
            "options",
        )
    )

    async def run(self, call: StepCall) -> NodeResult:
        """Returns the one item."""
        params = call.first
        if params.text("aggregate", "aggregateIndividualFields") == "aggregateAllItemData":
            json = aggregate_all(params, call.items)
        else:
            json = aggregate_fields(params, call.items)
        return NodeResult(
            [[with_gathered_files(Item(json, paired_with_all([call.items])), params, call.items)]]
        )


def with_gathered_files(item: Item, params: Params, items: Items) -> Item:
    """Returns the item with the files of all items if the options ask for them.

    A file whose name is taken gets a number (`data_1`); with `keepOnlyUnique` equal files are kept once.
    """
    if not params.flag("options.includeBinaries"):
        return item
    only_unique = params.flag("options.keepOnlyUnique")
    files: dict[str, BinaryReference] = {}
    for source in items:
        for name, file in source.binary.items():
            if only_unique and file in files.values():
                continue
            number, free = 0, name
            while free in files:
                number += 1
                free = f"{name}_{number}"
            files[free] = file
    return replace(item, binary=files)


def aggregate_all(params: Params, items: Items) -> JsonObject:
    """Returns all items, or some of their fields, as one list."""
    include = params.text("include", "allFields")
    included = names_of(params.get("fieldsToInclude", ""))
    unwanted = set(names_of(params.get("fieldsToExclude", "")))
    rows: list[JsonValue] = []
    for item in items:
        if include == "specifiedFields":
            row = {name: item.json[name] for name in included if name in item.json}
        elif include == "allFieldsExcept":
            row = {name: value for name, value in item.json.items() if name not in unwanted}
        else:
            row = dict(item.json)
        if row:
            rows.append(row)
    return {params.text("destinationFieldName", "data"): rows}


def _field_values(params: Params, items: Items, field: str, *, dots: bool) -> list[AnyJson]:
    values: list[JsonValue] = []
    for item in items:
        value = field_at(item.json, field, dots=dots)
        if not params.flag("options.keepMissing"):
            if js.is_missing(value):
                continue
            if js.is_list(value):
                value = [element for element in value if element is not None]
        value = None if value is js.UNDEFINED else value
        if params.flag("options.mergeLists") and js.is_list(value):
            values += list(value)
        else:
            values.append(value)
    return values


def aggregate_fields(params: Params, items: Items) -> JsonObject:
    """Returns the values of each named field as a list. Raises ItemFailed for a repeated name."""
    dots = not params.flag("options.disableDotNotation")
    into: dict[str, JsonValue] = {}
    named: set[str] = set()
    for row in params.rows("fieldsToAggregate.fieldToAggregate"):
        field = row.text("fieldToAggregate")
        if not field:
            continue
        new_name = row.text("outputFieldName") if row.flag("renameField") else ""
        if (new_name or field) in named:
            raise ItemFailed(f"The output field “{new_name or field}” is named twice.")
        named.add(new_name or field)
        name = new_name or (field.rpartition(".")[2] if dots else field)
        values = _field_values(params, items, field, dots=dots)
        if dots:
            js.set_path(into, name, values)
        else:
            into[name] = values
    return into


class SortNode(StepType):
    """The node sort: sorts by fields, at random, or by a comparison script."""

    types = ("sort",)
    knows_all_parameters = True
    per_item = False
    options = frozenset(("disableDotNotation",))
    choices = MappingProxyType(
        {
            "type": frozenset(("simple", "random", "code")),
        }
    )
    parameters = frozenset(("type", "sortFieldsUi", "code", "options"))
    unjoined_parameters = ()

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields problems of the comparison script."""
        if node.get("type") == "random":
            yield StepProblem("warning", "parameter", RANDOM)

    def keeps_files(self, call: StepCall) -> bool:
        """Items keep their files."""
        return True

    async def run(self, call: StepCall) -> NodeResult:
        """Returns the items in sorted order."""
        kind = call.first.text("type", "simple")
        if kind == "code":
            places = await ordered_by_code(call, call.first.text("code"))
        elif kind == "random":
            places = shuffled(call)
        else:
            places = ordered(call.items, call.first)
        return NodeResult([[Item(call.items[index].json, paired_with(index)) for index in places]])


async def ordered_by_code(call: StepCall, text: str) -> list[int]:
    """Returns the indexes in the order of a comparison script. Raises ItemFailed."""
    try:
        return await call.evaluator.order(text, call.expression_context(()))
    except CodeFailed as failure:
        raise ItemFailed(failure.message) from None


def shuffled(call: StepCall) -> list[int]:
    """Returns the indexes in a random order that a resumed run repeats."""
    seed = f"{call.environment.seed}|{call.step.name}|{call.run}"
    return sorted(
        range(len(call.items)), key=lambda index: hashlib.sha256(f"{seed}|{index}".encode()).digest()
    )


def ordered(items: Items, params: Params) -> list[int]:
    """Returns the indexes sorted by the named fields. Raises ItemFailed if no item has a field."""
    dots = not params.flag("options.disableDotNotation")
    rows = params.rows("sortFieldsUi.sortField")
    if not rows:
        raise ItemFailed("Name a field to sort by.")
    keys = [(row.text("fieldName"), row.text("order", "ascending") == "descending") for row in rows]
    for name, _ in keys:
        if items and all(field_at(item.json, name, dots=dots) is js.UNDEFINED for item in items):
            raise ItemFailed(f"No item has the field “{name}” to sort by.")

    def compare(a: int, b: int) -> int:
        for name, downward in keys:
            first = field_at(items[a].json, name, dots=dots)
            second = field_at(items[b].json, name, dots=dots)
            if not is_same(first, second):  # as in n8n, values that cannot be compared count as greater
                return -1 if _is_less(first, second) is not downward else 1
        return 0

    return sorted(range(len(items)), key=cmp_to_key(compare))


def _is_less(first: JsonValue, second: JsonValue) -> bool:
    """Returns JavaScript's `first < second`, ignoring the case of texts."""
    if isinstance(first, str) and isinstance(second, str):
        return js.text_order(first.lower()) < js.text_order(second.lower())
    a, b = js.number(first), js.number(second)
    return a < b


def is_same(first: JsonValue, second: JsonValue) -> bool:
    """Returns whether two values are equal for sorting."""
    if isinstance(first, str) and isinstance(second, str):
        return first.lower() == second.lower()
    return first is second or (bool(first == second) and isinstance(first, bool) == isinstance(second, bool))


class LimitNode(StepType):
    """The node limit: returns the first or last items."""

    types = ("limit",)
    knows_all_parameters = True
    field_use = FieldUse.PASSES_ITEMS
    per_item = False
    options: frozenset[str] = frozenset()
    choices = MappingProxyType(
        {
            "keep": frozenset(("firstItems", "lastItems")),
        }
    )
    parameters = frozenset(("maxItems", "keep"))

    async def run(self, call: StepCall) -> NodeResult:
        """Returns some of the items."""
        return NodeResult([limited(call.items, call.first)])


def limited(items: Items, params: Params) -> Items:
    """Returns the first or last items, up to the limit."""
    max_items = js.number(params.get("maxItems", 1))
    if max_items != max_items:
        raise ItemFailed("The number of items to keep is not a number.")
    paired = [Item(item.json, paired_with(index)) for index, item in enumerate(items)]
    max_items = max(max_items, -len(paired))  # a slice has no infinite bounds
    if max_items >= len(paired):
        return paired
    if params.text("keep", "firstItems") == "firstItems":
        return paired[: int(max_items)]
    return paired[int(len(paired) - max_items) :]
