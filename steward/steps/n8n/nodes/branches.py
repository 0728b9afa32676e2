"""The nodes if, filter and switch: conditions choose each item's output."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, tzinfo
from types import MappingProxyType

from steward.model.json import JsonObject, JsonValue
from steward.model.plan import OnError, PlanStep
from steward.steps.n8n import conditions, older_conditions
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import dates as js_dates
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
    is_expression,
    paired_with,
)

_MatchResults = Mapping[tuple[str, str], bool]

_MAX_OUTPUTS = 100


class _ConditionNode(StepType):
    """The base of if, filter and switch: conditions of current and older versions."""

    def reads_dates(self, version: float) -> bool:
        """Returns whether conditions have a type, so that values are parsed as dates."""
        return version >= (3 if "switch" in self.types else 2)

    def conditions_of(self, node: NodeDefinition) -> Iterable[JsonValue]:
        """Returns the raw condition sets of the node."""
        return (node.get("conditions"),)

    def older_rows(self, node: NodeDefinition) -> Iterable[JsonObject]:
        """Returns the raw comparisons of older versions."""
        return [row for kind in older_conditions.KINDS for row in _rows(node.get(f"conditions.{kind}"))]

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields conditions in a form that n8n does not write, and unknown comparisons."""
        for condition_set in self.conditions_of(node):
            yield from _unread_problems(condition_set, is_older=not self.reads_dates(node.version))
            rows = condition_set.get("conditions") if isinstance(condition_set, Mapping) else None
            for row in rows if isinstance(rows, list) else ():
                operator = row.get("operator") if isinstance(row, Mapping) else None
                operator_fields = operator if isinstance(operator, Mapping) else {}
                kind, name = (
                    str(operator_fields.get("type", "string")),
                    str(operator_fields.get("operation", "equals")),
                )
                if not conditions.is_known_comparison(kind, name):
                    message = (
                        f"It compares with “{name[:80]}” of {kind[:80]}, which does not exist in n8n: the"
                        " condition never holds, here as there. Choose another comparison."
                    )
                    yield StepProblem("warning", "parameter", message)
        yield from _older_problems(self.older_rows(node))


def _unread_problems(condition_set: JsonValue, *, is_older: bool) -> Iterable[StepProblem]:
    """Yields condition sets in a form that n8n does not write, whose result would be uncertain."""
    if not isinstance(condition_set, Mapping) or not condition_set:
        return
    if is_older and condition_set.keys() <= set(older_conditions.KINDS):
        return
    if is_older or not isinstance(condition_set.get("conditions"), list):
        message = "Its conditions are not written as this version of the step reads them."
    elif condition_set["conditions"] and "combinator" not in condition_set:
        message = "It does not say whether all of its conditions must hold or one."
    elif condition_set.get("combinator", "and") not in ("and", "or"):
        message = f"It joins its conditions by “{str(condition_set['combinator'])[:40]}”, which is not known."
    else:
        return
    yield StepProblem(
        "error", "parameter", f"{message} Enter them again in n8n, and export the workflow again."
    )


def _older_problems(rows: Iterable[JsonObject]) -> Iterable[StepProblem]:
    """Yields unknown comparisons of older versions."""
    for row in rows:
        operation = row.get("operation", "equal")
        if not is_expression(operation) and operation not in older_conditions.OPERATIONS:
            message = (
                f"It compares with “{str(operation)[:80]}”, which is not known. Choose another comparison."
            )
            yield StepProblem("error", "parameter", message)


def _rows(rows: JsonValue) -> list[JsonObject]:
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


async def _slow_matches(call: StepCall, paths: Iterable[str]) -> _MatchResults:
    """Evaluates the patterns that google-re2 does not support, once for all items."""
    pairs: list[tuple[str, str]] = []
    for index in range(len(call.items)):
        for path in paths:
            pairs += _patterns(call.params(index), path)
    return await conditions.matched_in_sandbox(pairs, call.evaluator)


def _patterns(params: Params, path: str) -> Iterable[tuple[str, str]]:
    for row in params.rows(f"{path}.conditions"):
        operation = row.text("operator.operation")
        if operation in ("regex", "notRegex"):
            pattern, text = _pair(row, "rightValue", "leftValue")
            yield pattern, text
            yield pattern, text.lower()  # for comparisons that ignore case
    for row in (*params.rows(f"{path}.string"), *params.rows(f"{path}.rules")):
        if row.text("operation") in ("regex", "notRegex"):
            yield _pair(row, "value2", "value1")


def _pair(row: Params, pattern: str, text: str) -> tuple[str, str]:
    return js.text(row.tree.get(pattern, "")), js.text(row.tree.get(text, ""))


def _zone(call: StepCall) -> tzinfo:
    return js_dates.zone_of(call.environment.zone) or UTC


def judged(params: Params, path: str, call: StepCall, match_results: _MatchResults) -> bool:
    """Returns whether a condition set of version 2 or later holds for one item. Raises ItemFailed."""
    condition_set = params.get(path, {})
    if not isinstance(condition_set, Mapping):
        raise ItemFailed("The conditions of this step cannot be read.")
    options = dict(condition_set.get("options") or {})
    if params.flag("options.ignoreCase"):
        options["caseSensitive"] = False
    if params.flag("options.looseTypeValidation") or params.flag("looseTypeValidation"):
        options["typeValidation"] = "loose"
    return conditions.holds(condition_set, conditions.rules_of(options, _zone(call), match_results))


def _older(params: Params, call: StepCall, match_results: _MatchResults, *, one_is_enough: bool) -> bool:
    holding = (
        older_conditions.row_holds(kind, row, _zone(call), match_results)
        for kind in older_conditions.KINDS
        for row in params.rows(f"conditions.{kind}")
    )
    return any(holding) if one_is_enough else all(holding)


class IfNode(_ConditionNode):
    """The node if: outputs true and false; if the step tolerates errors, a failure counts as false."""

    types = ("if",)
    knows_all_parameters = True
    field_use = FieldUse.PASSES_ITEMS
    versions = (1, 2, 2.1, 2.2, 2.3)
    options = frozenset(("ignoreCase", "looseTypeValidation"))
    choices = MappingProxyType(
        {
            "combineOperation": frozenset(("all", "any")),
        }
    )
    parameters = frozenset(("conditions", "combineOperation", "options", "looseTypeValidation"))
    version_parameters = MappingProxyType({"combineOperation": (1, 2), "looseTypeValidation": (2, math.inf)})
    version_defaults = MappingProxyType({"combineOperation": "all"})

    def ports(self, node: NodeDefinition) -> tuple[str, ...]:
        """Returns true, then false."""
        return ("true", "false")

    async def run(self, call: StepCall) -> NodeResult:
        """Passes each item to one of the two outputs."""
        match_results = await _slow_matches(call, ("conditions",))
        yes: Items = []
        no: Items = []
        for index, item in enumerate(call.items):
            passed = Item(item.json, paired_with(index))
            (yes if _holds(call, index, match_results, ("combineOperation", "any")) else no).append(passed)
        return NodeResult([yes, no])


def _holds(call: StepCall, index: int, match_results: _MatchResults, any_choice: tuple[str, str]) -> bool:
    """Returns whether an item matches; in version 1 one condition is enough by `any_choice`."""
    params = call.params(index)
    name, value = any_choice
    try:
        if call.version < 2:
            return _older(params, call, match_results, one_is_enough=params.text(name) == value)
        return judged(params, "conditions", call, match_results)
    except ItemFailed as failure:
        if call.on_error is OnError.STOP:
            raise ItemFailed(f"{failure.message} (item {index + 1})") from None
        return False


class FilterNode(_ConditionNode):
    """The node filter: matching items on output 0, the others on output 1.

    With an error output, the others are in no output.
    """

    types = ("filter",)
    knows_all_parameters = True
    field_use = FieldUse.PASSES_ITEMS
    versions = (1, 2, 2.1, 2.2, 2.3)
    options = frozenset(("ignoreCase", "looseTypeValidation"))
    choices = MappingProxyType(
        {
            "combineConditions": frozenset(("AND", "OR")),
        }
    )
    parameters = frozenset(("conditions", "combineConditions", "options", "looseTypeValidation"))
    version_parameters = MappingProxyType({"combineConditions": (1, 2), "looseTypeValidation": (2, math.inf)})
    version_defaults = MappingProxyType({"combineConditions": "AND"})

    def ports(self, node: NodeDefinition) -> tuple[str, ...]:
        """Returns matching, then discarded."""
        return ("out:0", "out:1")

    async def run(self, call: StepCall) -> NodeResult:
        """Passes each item to one of the two outputs."""
        match_results = await _slow_matches(call, ("conditions",))
        matching: Items = []
        discarded: Items = []
        for index, item in enumerate(call.items):
            passed = Item(item.json, paired_with(index))
            is_match = _holds(call, index, match_results, ("combineConditions", "OR"))
            (matching if is_match else discarded).append(passed)
        if call.on_error is OnError.ERROR_OUTPUT:
            message = f"{len(discarded)} items were in no output, as n8n does with an error output here."
            return NodeResult([matching, []], message=message if discarded else None)
        return NodeResult([matching, discarded])


class SwitchNode(_ConditionNode):
    """The node switch: outputs by rules or by number, with an optional fallback."""

    types = ("switch",)
    field_use = FieldUse.PASSES_ITEMS
    versions = (1, 2, 3, 3.1, 3.2, 3.3, 3.4)
    options = frozenset(
        ("ignoreCase", "looseTypeValidation", "fallbackOutput", "allMatchingOutputs", "renameFallbackOutput")
    )
    choices = MappingProxyType(
        {
            "mode": frozenset(("rules", "expression")),
            "dataType": frozenset(("boolean", "dateTime", "number", "string")),
        }
    )
    parameters = frozenset(
        (
            "mode",
            "rules",
            "options",
            "numberOutputs",
            "output",
            "dataType",
            "value1",
            "fallbackOutput",
            "outputsAmount",
            "looseTypeValidation",
        )
    )
    version_parameters = MappingProxyType(
        {
            **dict.fromkeys(("dataType", "value1", "fallbackOutput"), (1, 3)),
            "outputsAmount": (2, 3),
            **dict.fromkeys(("numberOutputs", "looseTypeValidation"), (3, math.inf)),
        }
    )
    version_defaults = MappingProxyType(
        {"dataType": "number", "fallbackOutput": -1, "outputsAmount": 4, "numberOutputs": 4}
    )

    def conditions_of(self, node: NodeDefinition) -> Iterable[JsonValue]:
        """Returns the condition sets of the rules; n8n ignores rules if an expression chooses the output."""
        rows = node.get("rules.values", []) if node.get("mode") != "expression" else []
        return (
            [row.get("conditions") for row in rows if isinstance(row, Mapping)]
            if isinstance(rows, list)
            else []
        )

    def older_rows(self, node: NodeDefinition) -> Iterable[JsonObject]:
        """Returns the raw rules of versions 1 and 2, unless an expression chooses the output."""
        if node.version >= 3 or node.get("mode") == "expression":
            return ()
        return _rows(node.get("rules.rules"))

    def ports(self, node: NodeDefinition) -> tuple[str, ...]:
        """Returns an output per rule, or the configured number of outputs, plus the fallback."""
        cases = tuple(f"case:{number}" for number in range(self._case_count(node)))
        has_rules = node.version >= 3 and node.get("mode", "rules") != "expression"
        if has_rules and node.get("options.fallbackOutput") == "extra":
            return (*cases, "fallback")
        return cases

    def _case_count(self, node: NodeDefinition) -> int:
        if node.version < 2:
            return 4
        if node.get("mode", "rules") == "expression":
            count = node.literal("outputsAmount" if node.version < 3 else "numberOutputs", 4)
            return min(count, _MAX_OUTPUTS) if isinstance(count, int) else 4
        rows = node.get("rules.rules" if node.version < 3 else "rules.values", [])
        return len(rows) if isinstance(rows, list) else 0

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a problem if the number of outputs depends on data."""
        yield from super().check(node)
        if node.version >= 3 and node.get("mode", "rules") == "rules" and not node.get("rules.values"):
            yield StepProblem("error", "parameter", "It has no rule. Write one, or remove the step.")
        if node.get("mode") == "expression" and isinstance(node.get("numberOutputs", 4), str):
            message = "The number of its outputs is an expression. Give a number."
            yield StepProblem("error", "parameter", message)

    async def run(self, call: StepCall) -> NodeResult:
        """Passes each item to the first matching output, to all of them, or to none."""
        match_results = await _slow_matches(call, _rule_paths(call))
        count = _own_ports(call.step)
        outputs: list[Items] = [[] for _ in range(count)]
        failed: Items = []
        for index, item in enumerate(call.items):
            try:
                for output in self._outputs(call, index, match_results, count):
                    outputs[output].append(Item(item.json, paired_with(index)))
            except ItemFailed as failure:
                if call.on_error is OnError.STOP:
                    raise
                into = failed if call.on_error is OnError.ERROR_OUTPUT else outputs[0]
                into.append(Item({"error": failure.message}, None, failure.message))
        return NodeResult([*outputs, failed] if call.on_error is OnError.ERROR_OUTPUT else outputs)

    def _outputs(self, call: StepCall, index: int, match_results: _MatchResults, count: int) -> list[int]:
        params = call.params(index)
        if params.get("mode", "rules") == "expression":
            return [_numbered(params.get("output", js.UNDEFINED), count)]
        if call.version < 3:
            return _older_outputs(params, call, match_results, count)
        outputs = [
            number
            for number, row in enumerate(params.rows("rules.values"))
            if judged(_with_options(row, params), "conditions", call, match_results)
        ]
        if outputs:
            return outputs if params.flag("options.allMatchingOutputs") else outputs[:1]
        return _fallback(params.get("options.fallbackOutput"), count)


def _with_options(row: Params, params: Params) -> Params:
    return Params({**row.tree, "options": params.get("options", {}) or {}})


def _rule_paths(call: StepCall) -> list[str]:
    rows = call.params(0).rows("rules.values") if call.items else []
    return ["rules"] + [f"rules.values.{number}.conditions" for number in range(len(rows))]


def _own_ports(step: PlanStep) -> int:
    ports = step.origin.ports if step.origin is not None else ()
    return sum(port != "error" for port in ports)


def _numbered(value: JsonValue, count: int) -> int:
    """Returns the output at an index. Raises ItemFailed, or WorkflowStepFailed if it is invalid."""
    number = (
        js.number(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    )
    if math.isnan(number) or not float(number).is_integer():
        raise WorkflowStepFailed("The output is not a whole number. Check the expression of this step.")
    if not 0 <= number < count:
        raise ItemFailed(f"There is no output {int(number)}; this step has outputs 0 to {count - 1}.")
    return int(number)


def _fallback(value: JsonValue, count: int) -> list[int]:
    if value == "extra":
        return [count - 1]
    number = js.number(value) if isinstance(value, int | str) and value != "none" else math.nan
    return [int(number)] if not math.isnan(number) and 0 <= number < count else []


def _older_outputs(params: Params, call: StepCall, match_results: _MatchResults, count: int) -> list[int]:
    kind = params.text("dataType", "number")
    first = params.get("value1", js.UNDEFINED)
    for number, row in enumerate(params.rows("rules.rules")):
        if older_conditions.row_holds(kind, row, _zone(call), match_results, first=first):
            return [_numbered(row.get("output", 0), count) if call.version < 2 else number]
    fallback = params.get("fallbackOutput", -1)
    return [_numbered(fallback, count)] if js.is_number(fallback) and fallback >= 0 else []
