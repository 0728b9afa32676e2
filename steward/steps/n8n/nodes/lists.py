"""splitOut, aggregate, sort and limit: lists of items made longer, shorter or ordered (imports 6, 15)."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from types import MappingProxyType
from typing import Any

from steward.steps.workflow.expressions.views import CodeFailed
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.memory_budget import STEP_BYTES, TooMuch, weight
from steward.steps.workflow.step_types import (
    Asked,
    Call,
    ItemFailed,
    Params,
    Problem,
    Result,
    StepType,
    Takes,
    all_of,
    each,
    same,
)

FILES = "It gathers files, which steps do not keep here. Remove the option."
RANDOM = "Its random order is the same whenever a run is continued."


def names_of(value: Any) -> list[str]:
    """Field names of a comma separated text or a list."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return [js.text(one) for one in value] if js.is_list(value) else []


def field_at(json: Mapping[str, Any], name: str, *, dots: bool) -> Any:
    """A field by its path, or by its plain name."""
    return js.at(json, name) if dots and name not in json else json.get(name, js.UNDEFINED)


class SplitOut(StepType):
    """An item for each element of a list; each paired with the item the list was in."""

    types = ("splitOut",)
    options = frozenset(("destinationFieldName", "disableDotNotation", "includeBinary"))
    choices = MappingProxyType(
        {
            "include": frozenset(("noOtherFields", "allOtherFields", "selectedOtherFields")),
        }
    )
    known = frozenset(("fieldToSplitOut", "include", "fieldsToInclude", "options"))

    async def run(self, call: Call) -> Result:
        """All elements of all items, in order."""
        return each(call, lambda place, item: split_out(call.params(place), place, item))


def split_out(params: Params, place: int, item: Item) -> Items:
    """The elements of one item's lists."""
    dots = not params.flag("options.disableDotNotation")
    fields = names_of(params.get("fieldToSplitOut", ""))
    if not fields:
        raise ItemFailed("Name the field to split out.")
    renamed = names_of(params.get("options.destinationFieldName", ""))
    if renamed and len(renamed) != len(fields):
        raise ItemFailed("Name as many destination fields as fields to split out.")
    include = params.text("include", "noOtherFields")
    lists = [_elements(field_at(item.json, field, dots=dots)) for field in fields]
    rest = _rest(params, item, fields, include, dots=dots)
    out: Items = []
    count = max(len(one) for one in lists)
    if weight(rest) * count > STEP_BYTES:
        raise TooMuch
    for number in range(count):
        into = dict(rest)
        for index, field in enumerate(fields):
            if number >= len(lists[index]):
                continue
            value = lists[index][number]
            target = renamed[index] if renamed else field
            alone = include == "noOtherFields" and len(fields) == 1 and not renamed
            if alone and js.is_object(value):
                into |= value
            elif alone and js.is_list(value):
                into |= {str(at): one for at, one in enumerate(value)}
            else:
                into[target] = value
        out.append(Item(into, same(place)))
    return out


def _elements(value: Any) -> Sequence[Any]:
    if value is js.UNDEFINED:
        return []
    if js.is_object(value):
        return list(value.values())
    return list(value) if js.is_list(value) else [value]


def _rest(params: Params, item: Item, fields: Sequence[str], include: str, *, dots: bool) -> dict[str, Any]:
    if include == "allOtherFields":
        kept: dict[str, Any] = dict(js.copied(item.json)) if dots else dict(item.json)
        for field in fields:
            if dots:
                js.drop(kept, field)
            else:
                kept.pop(field, None)
        return kept
    if include == "selectedOtherFields":
        wanted = {}
        for name in names_of(params.get("fieldsToInclude", "")):
            value = field_at(item.json, name, dots=dots)
            if value is not js.UNDEFINED:
                wanted[name] = value
        return wanted
    return {}


class Aggregate(StepType):
    """One item of all, paired with every one of them: `.item` behind it is an error (imports 3.6)."""

    types = ("aggregate",)
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
    known = frozenset(
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

    def check(self, asked: Asked) -> Iterable[Problem]:
        """Files are not kept."""
        if asked.get("options.includeBinaries"):
            yield Problem("error", "binary", FILES)

    async def run(self, call: Call) -> Result:
        """The one item."""
        params = call.first
        if params.text("aggregate", "aggregateIndividualFields") == "aggregateAllItemData":
            json = aggregate_all(params, call.items)
        else:
            json = aggregate_fields(params, call.items)
        return Result([[Item(json, all_of([call.items]))]])


def aggregate_all(params: Params, items: Items) -> dict[str, Any]:
    """Whole items, or some of their fields, as one list."""
    include = params.text("include", "allFields")
    wanted = names_of(params.get("fieldsToInclude", ""))
    unwanted = set(names_of(params.get("fieldsToExclude", "")))
    rows: list[Any] = []
    for item in items:
        if include == "specifiedFields":
            row = {name: item.json[name] for name in wanted if name in item.json}
        elif include == "allFieldsExcept":
            row = {name: value for name, value in item.json.items() if name not in unwanted}
        else:
            row = dict(item.json)
        if row:
            rows.append(row)
    return {params.text("destinationFieldName", "data"): rows}


def aggregate_fields(params: Params, items: Items) -> dict[str, Any]:
    """Each named field's values as a list."""
    dots = not params.flag("options.disableDotNotation")
    into: dict[str, Any] = {}
    named: set[str] = set()
    rows = params.rows("fieldsToAggregate.fieldToAggregate")
    if not rows:
        raise ItemFailed("Name the fields to aggregate.")
    for row in rows:
        field = row.text("fieldToAggregate")
        if not field:
            raise ItemFailed("Name the fields to aggregate.")
        name = (row.text("outputFieldName") if row.flag("renameField") else "") or field
        if name in named:
            raise ItemFailed(f"The output field “{name}” is named twice.")
        named.add(name)
        values: list[Any] = []
        for item in items:
            value = field_at(item.json, field, dots=dots)
            if js.is_missing(value) and not params.flag("options.keepMissing"):
                continue
            value = None if value is js.UNDEFINED else value
            if params.flag("options.mergeLists") and js.is_list(value):
                values += list(value)
            else:
                values.append(value)
        if dots:
            js.put(into, name, values)
        else:
            into[name] = values
    return into


class Sort(StepType):
    """By fields, or by a comparing script; each item keeps its pairing."""

    types = ("sort",)
    per_item = False
    options = frozenset(("disableDotNotation",))
    choices = MappingProxyType(
        {
            "type": frozenset(("simple", "random", "code")),
        }
    )
    known = frozenset(("type", "sortFieldsUi", "code", "options"))
    raw = ()

    def check(self, asked: Asked) -> Iterable[Problem]:
        """Random order is fixed by the run's seed."""
        if asked.get("type") == "random":
            yield Problem("warning", "parameter", RANDOM)

    async def run(self, call: Call) -> Result:
        """The same items in another order."""
        kind = call.first.text("type", "simple")
        if kind == "code":
            places = await ordered_by_code(call, call.first.text("code"))
        elif kind == "random":
            places = shuffled(call)
        else:
            places = ordered(call.items, call.first)
        return Result([[Item(call.items[place].json, same(place)) for place in places]])


async def ordered_by_code(call: Call, text: str) -> list[int]:
    """Places in the order of a comparing script. Raises ItemFailed."""
    try:
        return await call.evaluator.order(text, call.look(()))
    except CodeFailed as failure:
        raise ItemFailed(failure.message) from None


def shuffled(call: Call) -> list[int]:
    """A random order that a continued run repeats."""
    seed = f"{call.scene.seed}|{call.step.name}|{call.run}"
    return sorted(
        range(len(call.items)), key=lambda place: hashlib.sha256(f"{seed}|{place}".encode()).digest()
    )


def ordered(items: Items, params: Params) -> list[int]:
    """Places in the order of the named fields. Raises ItemFailed when a field is in no item."""
    dots = not params.flag("options.disableDotNotation")
    rows = params.rows("sortFieldsUi.sortField")
    if not rows:
        raise ItemFailed("Name a field to sort by.")
    keys = [(row.text("fieldName"), row.text("order", "ascending") == "descending") for row in rows]
    for name, _ in keys:
        if items and all(field_at(item.json, name, dots=dots) is js.UNDEFINED for item in items):
            raise ItemFailed(f"No item has the field “{name}” to sort by.")

    def compare(one: int, two: int) -> int:
        for name, downward in keys:
            left = field_at(items[one].json, name, dots=dots)
            right = field_at(items[two].json, name, dots=dots)
            if not is_same(left, right):  # what cannot be ordered counts as greater, as with the origin
                return -1 if is_less(left, right) is not downward else 1
        return 0

    return sorted(range(len(items)), key=cmp_to_key(compare))


def is_less(left: Any, right: Any) -> bool:
    """`left < right` as the language has it; texts without regard to case."""
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() < right.lower()
    one, two = js.number(left), js.number(right)
    return one < two


def is_same(left: Any, right: Any) -> bool:
    """Whether two values sort alike."""
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    return left is right or (bool(left == right) and isinstance(left, bool) == isinstance(right, bool))


class Limit(StepType):
    """The first or the last so many items, each paired with itself."""

    types = ("limit",)
    takes_of = Takes.WHOLE
    per_item = False
    options: frozenset[str] = frozenset()
    choices = MappingProxyType(
        {
            "keep": frozenset(("firstItems", "lastItems")),
        }
    )
    known = frozenset(("maxItems", "keep"))

    async def run(self, call: Call) -> Result:
        """Some of the items."""
        return Result([limited(call.items, call.first)])


def limited(items: Items, params: Params) -> Items:
    """The items that stay."""
    most = js.number(params.get("maxItems", 1))
    if most != most:
        raise ItemFailed("The number of items to keep is not a number.")
    paired = [Item(item.json, same(place)) for place, item in enumerate(items)]
    count = int(most)
    if count >= len(paired):
        return paired
    if params.text("keep", "firstItems") == "firstItems":
        return paired[:count]
    return paired[len(paired) - count :]
