"""The node summarize: aggregates groups of items."""

import math
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType

from steward.model.json import AnyJson, JsonValue
from steward.steps.n8n.nodes.lists import field_at, names_of
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
)

_NAMES = {
    "append": "appended",
    "average": "average",
    "concatenate": "concatenated",
    "count": "count",
    "countUnique": "unique_count",
    "max": "max",
    "min": "min",
    "sum": "sum",
}
SUMMARY_NAMES = tuple(_NAMES.values())  # prefixes of the output field names


_Group = tuple[tuple[AnyJson, ...], list[int]]


class SummarizeNode(StepType):
    """Outputs an item per group, or one item with nested groups."""

    types = ("summarize",)
    knows_all_parameters = True
    versions = (1, 1.1)
    per_item = False
    options = frozenset(
        ("continueIfFieldNotFound", "disableDotNotation", "outputFormat", "skipEmptySplitFields")
    )
    choices = MappingProxyType(
        {
            "options.outputFormat": frozenset(("separateItems", "singleItem")),
        }
    )
    parameters = frozenset(("fieldsToSummarize", "fieldsToSplitBy", "options"))

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unknown aggregations."""
        rows = node.get("fieldsToSummarize.values", [])
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and row.get("aggregation", "count") not in _NAMES:
                yield StepProblem(
                    "error", "parameter", "It aggregates in a way that is not known. Choose another."
                )

    async def run(self, call: StepCall) -> NodeResult:
        """Aggregates the items."""
        return NodeResult([summarized(call.first, call.items)])


def summarized(params: Params, items: Items) -> Items:
    """Aggregates each group. Raises ItemFailed."""
    dots = not params.flag("options.disableDotNotation")
    rows = params.rows("fieldsToSummarize.values")
    if not rows:
        raise ItemFailed("Name the fields to summarize.")
    for row in rows:
        _check_field(row, items, params, dots=dots)
    split = names_of(params.get("fieldsToSplitBy", ""))
    skip = params.flag("options.skipEmptySplitFields")
    groups = _groups(items, split, dots=dots, skip=skip)
    if params.text("options.outputFormat", "separateItems") == "singleItem" and split:
        return [_nested(groups, rows, items, dots=dots)]
    out: Items = []
    for values, places in groups:
        json = _figures(rows, [items[index] for index in places], dots=dots)
        for name, value in zip(split, values, strict=True):
            if value is not js.UNDEFINED:
                json[_plain(name)] = value
        out.append(Item(json, tuple((index, 0) for index in places)))
    return out


def _nested(groups: Sequence[_Group], rows: Sequence[Params], items: Items, *, dots: bool) -> Item:
    tree: dict[str, AnyJson] = {}
    for values, places in groups:
        branch = tree
        for value in values[:-1]:
            branch = branch.setdefault(js.text(value), {})
        branch[js.text(values[-1])] = _figures(rows, [items[index] for index in places], dots=dots)
    return Item(tree, tuple((index, 0) for _, places in groups for index in places))


def _check_field(row: Params, items: Items, params: Params, *, dots: bool) -> None:
    name = row.text("field")
    if params.flag("options.continueIfFieldNotFound"):
        return
    if all(field_at(item.json, name, dots=dots) is js.UNDEFINED for item in items):
        raise ItemFailed(f"No item has the field “{name}” to summarize.")


def _groups(items: Items, split: Sequence[str], *, dots: bool, skip: bool) -> list[_Group]:
    """Groups items, in the order in which values of the first field, then of the second, appear."""
    return _grouped(items, list(range(len(items))), split, (), dots=dots, skip=skip)


def _grouped(
    items: Items,
    places: list[int],
    split: Sequence[str],
    so_far: tuple[JsonValue, ...],
    *,
    dots: bool,
    skip: bool,
) -> list[_Group]:
    if not split:
        return [(so_far, places)]
    values_by_key: dict[str, tuple[JsonValue, list[int]]] = {}
    for index in places:
        value = field_at(items[index].json, split[0], dots=dots)
        if skip and (js.is_missing(value) or value == ""):
            continue
        key = "undefined" if value is js.UNDEFINED else js.json_text(value)
        values_by_key.setdefault(key, (value, []))[1].append(index)
    return [
        group
        for value, inside in values_by_key.values()
        for group in _grouped(items, inside, split[1:], (*so_far, value), dots=dots, skip=skip)
    ]


def _plain(name: str) -> str:
    return name.replace("]", "").replace("[", "_").replace(".", "_")


def _figures(rows: Sequence[Params], items: Sequence[Item], *, dots: bool) -> dict[str, JsonValue]:
    into: dict[str, JsonValue] = {}
    for row in rows:
        kind = row.text("aggregation", "count")
        name = row.text("field")
        values = [field_at(item.json, name, dots=dots) for item in items]
        if kind not in _FIGURE:
            raise ItemFailed(f"The aggregation “{kind}” is not known.")
        into[f"{_NAMES[kind]}_{_plain(name)}"] = _FIGURE[kind](values, row)
    return into


def _present_values(values: Sequence[AnyJson], row: Params) -> list[JsonValue]:
    """Returns the values to aggregate; empty ones only if the row includes them."""
    if row.flag("includeEmpty"):
        return [None if value is js.UNDEFINED else value for value in values]
    return [value for value in values if not js.is_missing(value) and value != ""]


def _numbers(values: Sequence[JsonValue]) -> list[float]:
    return [value for value in values if js.is_number(value)]


def _total(values: Sequence[JsonValue]) -> float:
    """Adds floats one by one, which reproduces n8n's rounding errors."""
    total: float = 0
    for value in _numbers(values):
        total += value
    return total


def _extreme(values: Sequence[JsonValue], pick: Callable[..., AnyJson]) -> AnyJson:
    present = [value for value in values if not js.is_missing(value) and value != ""]
    numbers = _numbers(present)
    if numbers:
        return pick(numbers)
    texts = {js.text_order(value): value for value in present if isinstance(value, str)}
    return texts[pick(texts)] if texts else None


def _average(values: Sequence[JsonValue]) -> JsonValue:
    numbers = _numbers(values)
    return js.plain_number(_total(numbers) / len(numbers)) if numbers else math.nan


def _unique(values: Sequence[JsonValue], row: Params) -> int:
    return len({js.json_text(value) for value in _present_values(values, row)})


def _concatenated(values: Sequence[JsonValue], row: Params) -> str:
    between = row.text("separateBy", ",")
    if between == "other":
        between = row.text("customSeparator")
    return between.join(_piece(value) for value in _present_values(values, row))


def _piece(value: js.Value) -> str:
    if js.is_missing(value):
        return ""
    return js.json_text(value) if js.is_object(value) or js.is_list(value) else js.text(value)


_FIGURE: dict[str, Callable[[Sequence[AnyJson], Params], AnyJson]] = {
    "append": _present_values,
    "average": lambda values, row: js.to_json(_average(values)),
    "concatenate": _concatenated,
    "count": lambda values, row: len(_present_values(values, row)),
    "countUnique": _unique,
    "max": lambda values, row: _extreme(values, max),
    "min": lambda values, row: _extreme(values, min),
    "sum": lambda values, row: _total(values),
}
