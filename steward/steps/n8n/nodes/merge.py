"""The node merge: appends, combines or joins the items of several inputs."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import PlanStep
from steward.steps.n8n.nodes.lists import names_of
from steward.steps.workflow.items import Item, Items, Link
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    WorkflowStepFailed,
)

_MAX_PAIRS = 500_000  # pairs that a cross join may create in the service's memory

_MODES = {
    1: frozenset(
        (
            "append",
            "keepKeyMatches",
            "mergeByIndex",
            "mergeByKey",
            "multiplex",
            "passThrough",
            "removeKeyMatches",
            "wait",
        )
    ),
    2: frozenset(("append", "combine", "chooseBranch")),
    3: frozenset(("append", "combine", "chooseBranch")),
}


_WHOLE = frozenset(("append", "chooseBranch", "passThrough", "wait"))


class MergeNode(StepType):
    """Waits for all connected inputs; chooseBranch never runs without all of them."""

    types = ("merge",)
    versions = (1, 2, 2.1, 3, 3.1, 3.2)
    per_item = False
    options = frozenset(
        ("clashHandling", "fuzzyCompare", "disableDotNotation", "multipleMatches", "includeUnpaired")
    ) | frozenset(("emptyQueryResult",))  # only of a merge by SQL, which is an error as a whole
    choices = MappingProxyType(
        {
            "combineBy": frozenset(("combineByFields", "combineByPosition", "combineAll")),
            "combinationMode": frozenset(("mergeByFields", "mergeByPosition", "multiplex")),
            "joinMode": frozenset(
                ("keepMatches", "keepNonMatches", "keepEverything", "enrichInput1", "enrichInput2")
            ),
            "outputDataFrom": frozenset(("both", "input1", "input2")),
            "join": frozenset(("left", "inner", "outer")),
            "overwrite": frozenset(("always", "blank", "undefined")),
            "output": frozenset(("specifiedInput", "input1", "input2", "empty")),
            "chooseBranchMode": frozenset(("waitForAll",)),
            "options.multipleMatches": frozenset(("all", "first")),
            "options.clashHandling.values.mergeMode": frozenset(("deepMerge", "shallowMerge")),
        }
    )
    parameters = frozenset(
        (
            "mode",
            "join",
            "propertyName1",
            "propertyName2",
            "overwrite",
            "output",
            "combinationMode",
            "combineBy",
            "mergeByFields",
            "fieldsToMatchString",
            "advanced",
            "joinMode",
            "outputDataFrom",
            "options",
            "chooseBranchMode",
            "numberInputs",
            "useDataOfInput",
            "query",
        )
    )
    version_parameters = MappingProxyType(
        {
            **dict.fromkeys(("join", "propertyName1", "propertyName2", "overwrite"), (1, 2)),
            "combinationMode": (2, 3),
            **dict.fromkeys(("mergeByFields", "fieldsToMatchString", "advanced"), (2, math.inf)),
            **dict.fromkeys(("joinMode", "outputDataFrom", "chooseBranchMode"), (2, math.inf)),
            **dict.fromkeys(("combineBy", "numberInputs", "useDataOfInput", "query"), (3, math.inf)),
        }
    )
    version_defaults = MappingProxyType(
        {
            **{"join": "left", "overwrite": "always", "joinMode": "keepMatches", "outputDataFrom": "both"},
            **{"combinationMode": "mergeByFields", "combineBy": "combineByFields"},
            **{"chooseBranchMode": "waitForAll", "numberInputs": 2},
        }
    )

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """Returns READS if it joins by fields, else PASSES_ITEMS."""
        return FieldUse.PASSES_ITEMS if step.config.get("mode", "append") in _WHOLE else FieldUse.READS

    def inputs(self, node: NodeDefinition) -> int:
        """Returns two, or the number set from version 3 on."""
        count = node.literal("numberInputs", 2) if node.version >= 3 else 2
        return count if isinstance(count, int) and 2 <= count <= 10 else 2

    def demands_all(self, step: PlanStep) -> bool:
        """Returns whether it chooses a branch, which requires all inputs."""
        return step.config.get("mode") in ("chooseBranch", "passThrough", "wait")

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields SQL, and modes or inputs that depend on data."""
        mode = node.get("mode", "append")
        if mode == "combineBySql":
            yield StepProblem("error", "parameter", "It merges by SQL. Join by fields or position instead.")
        elif mode not in _MODES[int(node.version)]:
            yield StepProblem(
                "error", "parameter", "Its mode is not known or an expression. Choose a fixed mode."
            )
        if node.version >= 2 and mode == "combine" and _joins_by_no_field(node):
            message = "It joins by fields and names none, so it fails, here as in n8n. Name the fields."
            yield StepProblem("warning", "parameter", message)
        clash = node.literal("options.clashHandling.values.resolveClash", "preferLast")
        if not re.fullmatch(r"preferLast|addSuffix|preferInput[1-9][0-9]?", str(clash)):
            message = "What it does with fields both inputs have is not known. Choose it again."
            yield StepProblem("error", "parameter", message)

    def keeps_files(self, call: StepCall) -> bool:
        """Items keep their files."""
        return True

    async def run(self, call: StepCall) -> NodeResult:
        """Combines the inputs."""
        params = call.first
        mode = params.text("mode", "append")
        if mode == "append":
            return NodeResult([_append(call.inputs)])
        if call.version < 2:
            return NodeResult([_OLDER[mode](call, params)])
        if mode == "chooseBranch":
            return NodeResult([_chosen(call, params)])
        by = params.text("combinationMode" if call.version < 3 else "combineBy", "combineByFields")
        if by in ("mergeByPosition", "combineByPosition"):
            return NodeResult([_by_position(call, params)])
        if by in ("multiplex", "combineAll"):
            return NodeResult([_all_pairs(call, params)])
        return NodeResult([_by_fields(call, params)])


def _joins_by_no_field(node: NodeDefinition) -> bool:
    """Returns whether it combines by fields without any being named."""
    by = node.get("combinationMode" if node.version < 3 else "combineBy")
    if by not in (None, "mergeByFields", "combineByFields"):
        return False
    rows = node.get("mergeByFields.values")
    names = node.get("fieldsToMatchString")
    return not rows and (not names or node.get("advanced") is True)


def _append(inputs: Sequence[Items]) -> Items:
    return [
        Item(item.json, ((index, number),))
        for number, items in enumerate(inputs)
        for index, item in enumerate(items)
    ]


def _paired_items(call: StepCall, number: int) -> Items:
    items = call.inputs[number] if number < len(call.inputs) else []
    return [Item(item.json, ((index, number),)) for index, item in enumerate(items)]


def _chosen(call: StepCall, params: Params) -> Items:
    output = params.text("output", "specifiedInput" if call.version >= 3 else "input1")
    if output == "empty":
        return [Item({}, None)]
    if output in ("input1", "input2"):
        return _paired_items(call, int(output[-1]) - 1)
    number = js.number(params.get("useDataOfInput", 1))
    return _paired_items(call, int(number) - 1 if number == number and number >= 1 else 0)


@dataclass(frozen=True, slots=True)
class Clash:
    """The rules for merging fields: which input wins, whether to merge deeply and skip empty values."""

    resolve: str
    deep: bool
    fill_empty: bool

    def preferred(self, count: int) -> int:
        """Returns the index of the input that wins."""
        if self.resolve.startswith("preferInput"):
            number = js.number(self.resolve.removeprefix("preferInput"))
            return int(number) - 1 if number == number and 1 <= number <= count else count - 1
        return count - 1

    def joined(self, objects: Sequence[JsonObject]) -> JsonObject:
        """Merges the objects, in the order of their inputs."""
        best = self.preferred(len(objects))
        into: dict[str, JsonValue] = {}
        for fields in (*objects[:best], *objects[best + 1 :], objects[best]):
            _merge_into(into, fields, deep=self.deep, fill_empty=self.fill_empty)
        return into


def _merge_into(
    into: dict[str, AnyJson], over: Mapping[str, AnyJson], *, deep: bool, fill_empty: bool
) -> None:
    for name, value in over.items():
        present = into.get(name, js.UNDEFINED)
        if (
            fill_empty
            and (js.is_missing(value) or value == "")
            and not (js.is_missing(present) or present == "")
        ):
            continue
        into[name] = _merged(present, value, fill_empty=fill_empty) if deep else js.deep_copy(value)


def _merged(present: JsonValue, value: JsonValue, *, fill_empty: bool) -> AnyJson:
    """Merges a value into another: objects by field, lists by index."""
    if isinstance(present, dict) and isinstance(value, Mapping):
        _merge_into(present, value, deep=True, fill_empty=fill_empty)
        return present
    if isinstance(present, list) and js.is_object(value):
        return present
    if isinstance(present, list) and js.is_list(value):
        laid = [
            _merged(element, other_element, fill_empty=fill_empty)
            for element, other_element in zip(present, value, strict=False)
        ]
        return laid + present[len(laid) :] + js.deep_copy(value[len(present) :])
    return js.deep_copy(value)


def _clash(params: Params, default: str) -> Clash:
    values = params.get("options.clashHandling.values", {})
    values = values if isinstance(values, Mapping) else {}
    return Clash(
        resolve=str(values.get("resolveClash", default)),
        deep=values.get("mergeMode", "deepMerge") != "shallowMerge",
        fill_empty=bool(values.get("overrideEmpty", False)),
    )


def _suffixed(json: JsonObject, number: int) -> dict[str, JsonValue]:
    return {f"{name}_{number + 1}": value for name, value in json.items()}


def _links(*places: tuple[int, int]) -> tuple[Link, ...]:
    return tuple(places)


def _by_position(call: StepCall, params: Params) -> Items:
    clash = _clash(params, "preferLast")
    inputs = call.inputs
    lengths = [len(items) for items in inputs]
    count = max(lengths) if params.flag("options.includeUnpaired") else min(lengths)
    out: Items = []
    incomplete = Clash("preferLast", clash.deep, clash.fill_empty)
    for index in range(count):
        row = [(number, items[index]) for number, items in enumerate(inputs) if index < len(items)]
        links = tuple((index, number) for number, _ in row)
        if clash.resolve == "addSuffix":
            out.append(Item(_with_suffixes(row), links))
        else:
            resolving = clash if len(row) == len(inputs) else incomplete
            out.append(Item(resolving.joined([item.json for _, item in row]), links))
    return out


def _with_suffixes(row: Sequence[tuple[int, Item]]) -> JsonObject:
    fields: dict[str, JsonValue] = {}
    for number, item in row:
        fields |= _suffixed(item.json, number)
    # like n8n, also adds the last input's fields under their own names
    return {**fields, **row[-1][1].json} if len(row) > 1 else fields


def _all_item_pairs(outer: Items, inner: Items) -> Iterator[tuple[tuple[int, Item], tuple[int, Item]]]:
    """Pairs every item with every other. Raises WorkflowStepFailed first if there would be too many pairs."""
    if len(outer) * len(inner) > _MAX_PAIRS:
        message = f"It would join {len(outer)} items with {len(inner)}, each with each. Join fewer."
        raise WorkflowStepFailed(message)
    return product(enumerate(outer), enumerate(inner))


def _all_pairs(call: StepCall, params: Params) -> Items:
    clash = _clash(params, "preferLast" if call.version >= 3 else "preferInput2")
    out: Items = []
    swapped = clash.resolve == "preferInput1"
    outer, inner = call.inputs[1 if swapped else 0], call.inputs[0 if swapped else 1]
    for (first_index, first), (second_index, second) in _all_item_pairs(outer, inner):
        place1, place2 = (second_index, first_index) if swapped else (first_index, second_index)
        json1, json2 = (second.json, first.json) if swapped else (first.json, second.json)
        links = _links((place1, 0), (place2, 1))
        if clash.resolve == "addSuffix":
            out.append(Item(_suffixed(json1, 0) | _suffixed(json2, 1), links))
        else:
            out.append(Item(clash.joined([json1, json2]), links))
    return out


@dataclass(frozen=True, slots=True)
class Matches:
    """The indexes of matching items: for each first item its matches, and all matched second items."""

    of_first: Sequence[Sequence[int]]
    of_second: frozenset[int]


def fields_to_match(params: Params) -> list[tuple[str, str]]:
    """Returns the pairs of field names to join by. Raises ItemFailed if there are none."""
    if params.has("fieldsToMatchString") and not params.flag("advanced"):
        pairs = [(name, name) for name in names_of(params.text("fieldsToMatchString"))]
    else:
        rows = params.rows("mergeByFields.values")
        pairs = [(row.text("field1"), row.text("field2")) for row in rows]
    if not pairs or any(not first or not second for first, second in pairs):
        raise ItemFailed("Name the fields by which the inputs are joined.")
    return pairs


def check_fields_present(inputs: Sequence[Items], pairs: Sequence[tuple[str, str]], *, dots: bool) -> None:
    """Raises ItemFailed if a field is missing from every item of a non-empty input."""
    for number, items in enumerate(inputs[:2]):
        for name in (pair[number] for pair in pairs):
            if items and all(_field(item, name, dots=dots) is js.UNDEFINED for item in items):
                raise ItemFailed(f"No item of input {number + 1} has the field “{name[:80]}” to join by.")


def matched(
    first: Items,
    second: Items,
    pairs: Sequence[tuple[str, str]],
    *,
    fuzzy: bool,
    dots: bool,
    only_first: bool,
) -> Matches:
    """Returns which items of the two inputs match."""
    first_names, second_names = [name for name, _ in pairs], [name for _, name in pairs]
    indexes_by_key = _indexes_by_key(second, second_names, fuzzy=fuzzy, dots=dots)
    of_first: list[Sequence[int]] = []
    of_second: set[int] = set()
    matched_keys: set[str] = set()
    for item in first:
        key = _key(item, first_names, fuzzy=fuzzy, dots=dots)
        indexes = indexes_by_key.get(key, []) if key is not None else []
        if only_first:
            indexes = indexes[:1]
        of_first.append(indexes)
        if key is not None and key not in matched_keys:  # equal items have the same matches
            matched_keys.add(key)
            of_second.update(indexes)
    return Matches(of_first, frozenset(of_second))


def _indexes_by_key(items: Items, names: Sequence[str], *, fuzzy: bool, dots: bool) -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        key = _key(item, names, fuzzy=fuzzy, dots=dots)
        if key is not None:
            indexes.setdefault(key, []).append(index)
    return indexes


def _field(item: Item, name: str, *, dots: bool) -> AnyJson:
    return js.get_path(item.json, name) if dots else item.json.get(name, js.UNDEFINED)


def _key(item: Item, names: Sequence[str], *, fuzzy: bool, dots: bool) -> str | None:
    values = [_field(item, name, dots=dots) for name in names]
    if not fuzzy and any(value is js.UNDEFINED for value in values):
        return None
    return "\x00".join(js.fuzzy_key(value) if fuzzy else js.strict_key(value) for value in values)


def _by_fields(call: StepCall, params: Params) -> Items:
    first, second = call.inputs[0], call.inputs[1]
    join = params.text("joinMode", "keepMatches")
    clash = _clash(params, "preferInput1" if join == "enrichInput2" else "preferLast")
    pairs, dots = fields_to_match(params), not params.flag("options.disableDotNotation")
    if call.version < 2.1:
        check_fields_present(call.inputs, pairs, dots=dots)
    matches = matched(
        first,
        second,
        pairs,
        fuzzy=params.flag("options.fuzzyCompare") or params.flag("fuzzyCompare"),
        dots=dots,
        only_first=params.text("options.multipleMatches", "all") == "first",
    )
    return _JOINS.get(join, _keep_matches)(call, params, matches, clash)


def check_pair_count(matches: Matches) -> None:
    """Raises WorkflowStepFailed if more items match than the service's memory can hold in pairs."""
    if sum(map(len, matches.of_first)) > _MAX_PAIRS:
        raise WorkflowStepFailed("It would join too many items that have the same values. Join fewer.")


def _pairs(call: StepCall, matches: Matches, clash: Clash) -> Items:
    check_pair_count(matches)
    out: Items = []
    for index, of_second in enumerate(matches.of_first):
        for other in of_second:
            first, second = call.inputs[0][index].json, call.inputs[1][other].json
            links = _links((index, 0), (other, 1))
            if clash.resolve == "addSuffix":
                out.append(Item(_suffixed(first, 0) | _suffixed(second, 1), links))
            else:
                out.append(Item(clash.joined([first, second]), links))
    return out


def _unmatched(call: StepCall, matches: Matches, number: int, clash: Clash | None = None) -> Items:
    """Returns the items of one input that have no match."""
    out: Items = []
    for index, item in enumerate(call.inputs[number]):
        is_alone = not matches.of_first[index] if number == 0 else index not in matches.of_second
        if is_alone:
            suffix = clash is not None and clash.resolve == "addSuffix"
            out.append(Item(_suffixed(item.json, number) if suffix else item.json, ((index, number),)))
    return out


def _keep_matches(call: StepCall, params: Params, matches: Matches, clash: Clash) -> Items:
    source = params.text("outputDataFrom", "both")
    if source == "input1":
        return [item for index, item in enumerate(_paired_items(call, 0)) if matches.of_first[index]]
    if source == "input2":
        return [item for index, item in enumerate(_paired_items(call, 1)) if index in matches.of_second]
    return _pairs(call, matches, clash)


def _keep_non_matches(call: StepCall, params: Params, matches: Matches, clash: Clash) -> Items:
    source = params.text("outputDataFrom", "both")
    if source in ("input1", "input2"):
        return _unmatched(call, matches, int(source[-1]) - 1)
    return [
        Item({**item.json, "_source": f"input{number + 1}"}, item.paired)
        for number in (0, 1)
        for item in _unmatched(call, matches, number)
    ]


def _keep_everything(call: StepCall, params: Params, matches: Matches, clash: Clash) -> Items:
    return (
        _pairs(call, matches, clash)
        + _unmatched(call, matches, 0, clash)
        + _unmatched(call, matches, 1, clash)
    )


_JOINS: dict[str, Callable[[StepCall, Params, Matches, Clash], Items]] = {
    "keepMatches": _keep_matches,
    "keepNonMatches": _keep_non_matches,
    "keepEverything": _keep_everything,
    "enrichInput1": lambda call, params, matches, clash: (
        _pairs(call, matches, clash) + _unmatched(call, matches, 0, clash)
    ),
    "enrichInput2": lambda call, params, matches, clash: (
        _pairs(call, matches, clash) + _unmatched(call, matches, 1, clash)
    ),
}


def _older_index(call: StepCall, params: Params) -> Items:
    first, second = call.inputs[0], call.inputs[1]
    join = params.text("join", "left")
    count = {"inner": min(len(first), len(second)), "outer": max(len(first), len(second))}.get(
        join, len(first)
    )
    out: Items = []
    for index in range(count):
        sides = [(number, items[index]) for number, items in enumerate((first, second)) if index < len(items)]
        into: dict[str, JsonValue] = {}
        for _, item in sides:
            into |= item.json
        out.append(Item(into, tuple((index, number) for number, _ in sides)))
    return out


def _older_matches(call: StepCall, params: Params) -> Matches:
    pair = (params.text("propertyName1"), params.text("propertyName2"))
    if not all(pair):
        raise ItemFailed("Name the fields by which the inputs are joined.")
    index_by_key: dict[str, int] = {}
    for index, item in enumerate(call.inputs[1]):
        key = js.get_path(item.json, pair[1])
        if js.truthy(key):  # in this version 0, false and '' do not match anything
            index_by_key[js.text(key)] = index  # if several items have the same key, the last one counts
    of_first: list[Sequence[int]] = []
    for item in call.inputs[0]:
        key = js.get_path(item.json, pair[0])
        is_comparable = isinstance(key, str) or js.is_number(key)
        position = index_by_key.get(js.text(key)) if is_comparable else None
        of_first.append(() if position is None else (position,))
    return Matches(of_first, frozenset(index for indexes in of_first for index in indexes))


def _older_key(call: StepCall, params: Params) -> Items:
    matches = _older_matches(call, params)
    overwrite, key_name = params.text("overwrite", "always"), params.text("propertyName2")
    out: Items = []
    for index, item in enumerate(call.inputs[0]):
        other = next(iter(matches.of_first[index]), None)
        if other is None:
            out.append(Item(item.json, ((index, 0),)))
            continue
        into = dict(item.json)
        for name, value in call.inputs[1][other].json.items():
            is_blank = into.get(name) in (None, "")
            if (overwrite == "blank" and not is_blank) or (overwrite == "undefined" and name in into):
                continue
            if name != key_name:
                into[name] = value
        out.append(Item(into, _links((index, 0), (other, 1))))
    return out


def _older_pairs(call: StepCall, params: Params) -> Items:
    return [
        Item({**first.json, **second.json}, _links((first_index, 0), (second_index, 1)))
        for (first_index, first), (second_index, second) in _all_item_pairs(call.inputs[0], call.inputs[1])
    ]


def _older_some(call: StepCall, params: Params, *, matching: bool) -> Items:
    matches = _older_matches(call, params).of_first
    return [item for index, item in enumerate(_paired_items(call, 0)) if bool(matches[index]) is matching]


_OLDER: dict[str, Callable[[StepCall, Params], Items]] = {
    "mergeByIndex": _older_index,
    "mergeByKey": _older_key,
    "keepKeyMatches": lambda call, params: _older_some(call, params, matching=True),
    "removeKeyMatches": lambda call, params: _older_some(call, params, matching=False),
    "multiplex": _older_pairs,
    "passThrough": lambda call, params: _paired_items(
        call, 1 if params.text("output", "input1") == "input2" else 0
    ),
    "wait": lambda call, params: [Item({}, None)],
}
