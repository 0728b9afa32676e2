"""The node compareDatasets: compares two lists by keys, with four outputs."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.nodes.lists import names_of
from steward.steps.n8n.nodes.merge import check_fields_present, check_pair_count, fields_to_match, matched
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
)


class CompareDatasetsNode(StepType):
    """Pairs items of one list with themselves, and matching items with both sources."""

    types = ("compareDatasets",)
    versions = (1, 2, 2.1, 2.2, 2.3)
    per_item = False
    stateful = True  # it modifies its input items in place, and a resumed run has to repeat that
    options = frozenset(("disableDotNotation", "fuzzyCompare", "multipleMatches", "skipFields"))
    choices = MappingProxyType(
        {
            "preferWhenMix": frozenset(("input1", "input2")),
            "options.multipleMatches": frozenset(("first", "all")),
        }
    )
    parameters = frozenset(
        ("mergeByFields", "resolve", "fuzzyCompare", "preferWhenMix", "exceptWhenMix", "options", "infoBox")
    )

    def inputs(self, node: NodeDefinition) -> int:
        """Returns 2, for the inputs A and B."""
        return 2

    def ports(self, node: NodeDefinition) -> tuple[str, ...]:
        """Returns the outputs: only in A, same, different, only in B."""
        return ("out:0", "out:1", "out:2", "out:3")

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unknown ways of resolving differences."""
        if node.literal("resolve", "includeBoth") not in (
            "includeBoth",
            "mix",
            "preferInput1",
            "preferInput2",
        ):
            yield StepProblem(
                "error", "parameter", "What it does with differences is not known. Choose again."
            )
        if node.version < 2 and node.get("resolve") is None:
            message = "What this older version does with differences is not set. Choose it in n8n."
            yield StepProblem("error", "parameter", message)

    def keeps_files(self, call: StepCall) -> bool:
        """Items keep their files."""
        return True

    async def run(self, call: StepCall) -> NodeResult:
        """Returns the four lists."""
        params = call.first
        pairs = fields_to_match(params)
        fuzzy = params.flag("fuzzyCompare") or params.flag("options.fuzzyCompare")
        first, second = call.inputs[0], call.inputs[1]
        dots = not params.flag("options.disableDotNotation")
        if call.version < 2.1:
            check_fields_present(call.inputs, pairs, dots=dots)
        matches = matched(
            first,
            second,
            pairs,
            fuzzy=fuzzy,
            dots=dots,
            only_first=params.text("options.multipleMatches", "first") == "first",
        )
        check_pair_count(matches)
        only_a: Items = []
        same: Items = []
        different: Items = []
        for index, others in enumerate(matches.of_first):
            if not others:
                only_a.append(Item(first[index].json, ((index, 0),)))
            for other in others:
                links = ((index, 0), (other, 1))
                a, b = first[index].json, second[other].json
                if _equal(a, b, pairs, params, fuzzy=fuzzy):
                    same.append(Item(a, links))
                else:
                    different.append(Item(_difference(a, b, pairs, params, fuzzy=fuzzy), links))
        only_b = [
            Item(item.json, ((index, 1),))
            for index, item in enumerate(second)
            if index not in matches.of_second
        ]
        return NodeResult([only_a, same, different, only_b])


def _alike(first: JsonValue, second: JsonValue, *, fuzzy: bool) -> bool:
    return (js.fuzzy_key if fuzzy else js.strict_key)(first) == (js.fuzzy_key if fuzzy else js.strict_key)(
        second
    )


def _skipped(params: Params) -> set[str]:
    return set(names_of(params.get("options.skipFields", "")))


def _names(a: JsonObject, b: JsonObject) -> list[str]:
    return list(dict.fromkeys((*a, *b)))


def _equal(
    a: Mapping[str, AnyJson],
    b: Mapping[str, AnyJson],
    pairs: list[tuple[str, str]],
    params: Params,
    *,
    fuzzy: bool,
) -> bool:
    aside = _skipped(params) | {name for pair in pairs for name in pair}
    return all(
        _alike(a.get(name, js.UNDEFINED), b.get(name, js.UNDEFINED), fuzzy=fuzzy)
        for name in _names(a, b)
        if name not in aside
    )


def _difference(
    a: JsonObject, b: JsonObject, pairs: list[tuple[str, str]], params: Params, *, fuzzy: bool
) -> JsonObject:
    resolve = params.text("resolve", "includeBoth")
    if resolve == "preferInput1":
        return dict(a)
    if resolve == "preferInput2":
        return dict(b)
    if resolve == "mix":
        best, other = (a, b) if params.text("preferWhenMix", "input1") == "input1" else (b, a)
        # n8n merges into the preferred input item itself, so the previous step shows the mix too.
        mixed = best if isinstance(best, dict) else dict(best)
        for name in names_of(params.get("exceptWhenMix", "")):
            mixed[name] = js.to_json(other.get(name))
        return mixed
    return _side_by_side(a, b, pairs, params, fuzzy=fuzzy)


def _side_by_side(
    a: Mapping[str, AnyJson],
    b: Mapping[str, AnyJson],
    pairs: list[tuple[str, str]],
    params: Params,
    *,
    fuzzy: bool,
) -> JsonObject:
    aside = _skipped(params)
    same: dict[str, JsonValue] = {}
    different: dict[str, JsonValue] = {}
    skipped: dict[str, JsonValue] = {}
    for name in _names(a, b):
        first, second = a.get(name, js.UNDEFINED), b.get(name, js.UNDEFINED)
        sides = {"inputA": js.to_json(first), "inputB": js.to_json(second)}
        if name in aside:
            skipped[name] = sides
        elif _alike(first, second, fuzzy=fuzzy):
            same[name] = js.to_json(first)
        else:
            different[name] = sides
    comparison: dict[str, JsonValue] = {
        "keys": {name_: js.to_json(js.get_path(a, name_)) for name_, _ in pairs}
    }
    comparison |= {"same": same, "different": different}
    return comparison | ({"skipped": skipped} if skipped else {})
