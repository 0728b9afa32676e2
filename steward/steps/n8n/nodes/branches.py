"""if, filter and switch: items go where their conditions say, paired with themselves (imports 4, 15)."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, tzinfo
from types import MappingProxyType
from typing import Any

from steward.model.plan import OnError, PlanStep
from steward.steps.n8n import conditions, older_conditions
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    Asked,
    Call,
    ItemFailed,
    Params,
    Problem,
    Result,
    StepBroke,
    StepType,
    Takes,
    is_expression,
    same,
)

Answers = Mapping[tuple[str, str], bool]

MOST_OUTPUTS = 100


class _Judging(StepType):
    """What if, filter and switch share: reading conditions of both shapes."""

    loose_older = 2

    def conditions_of(self, asked: Asked) -> Iterable[Any]:
        """The condition sets of the step, raw."""
        return (asked.get("conditions"),)

    def check(self, asked: Asked) -> Iterable[Problem]:
        """That every comparison is known."""
        for one in self.conditions_of(asked):
            rows = one.get("conditions") if isinstance(one, Mapping) else None
            for row in rows if isinstance(rows, list) else ():
                operator = row.get("operator") if isinstance(row, Mapping) else None
                given = operator if isinstance(operator, Mapping) else {}
                kind, name = str(given.get("type", "string")), str(given.get("operation", "equals"))
                if not conditions.known(kind, name):
                    words = (
                        f"It compares with “{name}” of {kind}, which is not known. Choose another comparison."
                    )
                    yield Problem("error", "parameter", words)
        yield from _older_problems(asked)


def _older_problems(asked: Asked) -> Iterable[Problem]:
    """Comparisons of the older shape that are not known; it has none for which a type is told."""
    kinds = older_conditions.KINDS
    rows = [row for kind in kinds for row in _rows(asked.get(f"conditions.{kind}"))]
    for row in (*rows, *_rows(asked.get("rules.rules"))):
        operation = row.get("operation", "equal")
        if not is_expression(operation) and operation not in older_conditions.OPERATIONS:
            words = (
                f"It compares with “{str(operation)[:80]}”, which is not known. Choose another comparison."
            )
            yield Problem("error", "parameter", words)


def _rows(given: Any) -> list[Mapping[str, Any]]:
    return [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []


async def _hard(call: Call, paths: Iterable[str]) -> Answers:
    """What google-re2 cannot answer, asked once for the whole step."""
    asked: list[tuple[str, str]] = []
    for place in range(len(call.items)):
        for path in paths:
            asked += _patterns(call.params(place), path)
    return await conditions.hard_patterns(asked, call.evaluator)


def _patterns(params: Params, path: str) -> Iterable[tuple[str, str]]:
    for row in params.rows(f"{path}.conditions"):
        operation = row.text("operator.operation")
        if operation in ("regex", "notRegex"):
            pattern, text = _pair(row, "rightValue", "leftValue")
            yield pattern, text
            yield pattern, text.lower()  # what is compared without regard to case
    for row in (*params.rows(f"{path}.string"), *params.rows(f"{path}.rules")):
        if row.text("operation") in ("regex", "notRegex"):
            yield _pair(row, "value2", "value1")


def _pair(row: Params, pattern: str, text: str) -> tuple[str, str]:
    return js.text(row.tree.get(pattern, "")), js.text(row.tree.get(text, ""))


def _zone(call: Call) -> tzinfo:
    return js_dates.zone_of(call.scene.zone) or UTC


def judged(params: Params, path: str, call: Call, answers: Answers) -> bool:
    """Whether a condition set of version 2 and later holds for one item. Raises ItemFailed."""
    found = params.get(path, {})
    if not isinstance(found, Mapping):
        raise ItemFailed("The conditions of this step cannot be read.")
    options = dict(found.get("options") or {})
    if params.flag("options.ignoreCase"):
        options["caseSensitive"] = False
    if params.flag("options.looseTypeValidation") or params.flag("looseTypeValidation"):
        options["typeValidation"] = "loose"
    return conditions.holds(found, conditions.rules_of(options, _zone(call), answers))


def _older(params: Params, call: Call, answers: Answers, *, one_is_enough: bool) -> bool:
    found = (
        older_conditions.row_holds(kind, row, _zone(call), answers)
        for kind in older_conditions.KINDS
        for row in params.rows(f"conditions.{kind}")
    )
    return any(found) if one_is_enough else all(found)


class If(_Judging):
    """Outputs true and false; a condition that fails and is tolerated counts as false."""

    types = ("if",)
    takes_of = Takes.WHOLE
    versions = (1, 2, 2.1, 2.2, 2.3)
    options = frozenset(("ignoreCase", "looseTypeValidation"))
    choices = MappingProxyType(
        {
            "combineOperation": frozenset(("all", "any")),
            "conditions.combinator": frozenset(("and", "or")),
        }
    )
    known = frozenset(("conditions", "combineOperation", "options", "looseTypeValidation"))

    def ports(self, asked: Asked) -> tuple[str, ...]:
        """True, then false."""
        return ("true", "false")

    async def run(self, call: Call) -> Result:
        """Each item at one of the two."""
        answers = await _hard(call, ("conditions",))
        yes: Items = []
        no: Items = []
        for place, item in enumerate(call.items):
            passed = Item(item.json, same(place))
            (yes if _holds(call, place, answers) else no).append(passed)
        return Result([yes, no])


def _holds(call: Call, place: int, answers: Answers) -> bool:
    params = call.params(place)
    try:
        if call.version < 2:
            any_ = params.text("combineOperation", "all") == "any"
            any_ = any_ or params.text("combineConditions", "AND") == "OR"
            return _older(params, call, answers, one_is_enough=any_)
        return judged(params, "conditions", call, answers)
    except ItemFailed as failure:
        if call.on_error is OnError.STOP:
            raise ItemFailed(f"{failure.message} (item {place + 1})") from None
        return False


class Filter(_Judging):
    """Output 0 what is kept, output 1 what is not; with an error output the latter is lost (imports 15)."""

    types = ("filter",)
    takes_of = Takes.WHOLE
    versions = (1, 2, 2.1, 2.2, 2.3)
    options = frozenset(("ignoreCase", "looseTypeValidation"))
    choices = MappingProxyType(
        {
            "combineConditions": frozenset(("AND", "OR")),
            "conditions.combinator": frozenset(("and", "or")),
        }
    )
    known = frozenset(("conditions", "combineConditions", "options", "looseTypeValidation"))

    def ports(self, asked: Asked) -> tuple[str, ...]:
        """Kept, then discarded."""
        return ("out:0", "out:1")

    async def run(self, call: Call) -> Result:
        """Each item kept or discarded."""
        answers = await _hard(call, ("conditions",))
        kept: Items = []
        rest: Items = []
        for place, item in enumerate(call.items):
            passed = Item(item.json, same(place))
            (kept if _holds(call, place, answers) else rest).append(passed)
        if call.on_error is OnError.ERROR_OUTPUT:
            words = f"{len(rest)} items were in no output, as the tool does with an error output here."
            return Result([kept, []], message=words if rest else None)
        return Result([kept, rest])


class Switch(_Judging):
    """Outputs by rules or by a number; the fallback is an output of its own or one of them."""

    types = ("switch",)
    takes_of = Takes.WHOLE
    versions = (1, 2, 3, 3.1, 3.2, 3.3)
    options = frozenset(
        ("ignoreCase", "looseTypeValidation", "fallbackOutput", "allMatchingOutputs", "renameFallbackOutput")
    )
    choices = MappingProxyType(
        {
            "mode": frozenset(("rules", "expression")),
            "dataType": frozenset(("boolean", "dateTime", "number", "string")),
        }
    )
    known = frozenset(
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

    def conditions_of(self, asked: Asked) -> Iterable[Any]:
        """Those of each rule."""
        rows = asked.get("rules.values", [])
        return (
            [row.get("conditions") for row in rows if isinstance(row, Mapping)]
            if isinstance(rows, list)
            else []
        )

    def ports(self, asked: Asked) -> tuple[str, ...]:
        """One a rule, or as many as the step says, and the fallback's own."""
        if asked.version < 2:
            return tuple(f"case:{number}" for number in range(4))
        if asked.get("mode", "rules") == "expression":
            name = "outputsAmount" if asked.version < 3 else "numberOutputs"
            count = asked.literal(name, 4)
            return tuple(
                f"case:{number}"
                for number in range(min(count, MOST_OUTPUTS) if isinstance(count, int) else 4)
            )
        rows = asked.get("rules.rules" if asked.version < 3 else "rules.values", [])
        count = len(rows) if isinstance(rows, list) else 0
        ports = tuple(f"case:{number}" for number in range(count))
        if asked.version >= 3 and asked.get("options.fallbackOutput") == "extra":
            return (*ports, "fallback")
        return ports

    def check(self, asked: Asked) -> Iterable[Problem]:
        """How many outputs there are must not depend on data."""
        yield from super().check(asked)
        rules = asked.get("rules.values") or asked.get("rules.rules")
        if asked.version >= 3 and asked.get("mode", "rules") == "rules" and not rules:
            yield Problem("error", "parameter", "It has no rule. Write one, or remove the step.")
        if asked.get("mode") == "expression" and isinstance(asked.get("numberOutputs", 4), str):
            words = "The number of its outputs is an expression. Give a number."
            yield Problem("error", "parameter", words)

    async def run(self, call: Call) -> Result:
        """Each item at one output, at several with all matching outputs, or at none."""
        answers = await _hard(call, _rule_paths(call))
        count = _own_ports(call.step)
        outputs: list[Items] = [[] for _ in range(count)]
        failed: Items = []
        for place, item in enumerate(call.items):
            try:
                for output in self._outputs(call, place, answers, count):
                    outputs[output].append(Item(item.json, same(place)))
            except ItemFailed as failure:
                if call.on_error is OnError.STOP:
                    raise
                into = failed if call.on_error is OnError.ERROR_OUTPUT else outputs[0]
                into.append(Item({"error": failure.message}, None, failure.message))
        return Result([*outputs, failed] if call.on_error is OnError.ERROR_OUTPUT else outputs)

    def _outputs(self, call: Call, place: int, answers: Answers, count: int) -> list[int]:
        params = call.params(place)
        if params.get("mode", "rules") == "expression":
            return [_numbered(params.get("output", js.UNDEFINED), count)]
        if call.version < 3:
            return _older_outputs(params, call, answers, count)
        found = [
            number
            for number, row in enumerate(params.rows("rules.values"))
            if judged(_with_options(row, params), "conditions", call, answers)
        ]
        if found:
            return found if params.flag("options.allMatchingOutputs") else found[:1]
        return _fallback(params.get("options.fallbackOutput"), count)


def _with_options(row: Params, params: Params) -> Params:
    return Params({**row.tree, "options": params.get("options", {}) or {}})


def _rule_paths(call: Call) -> list[str]:
    rows = call.params(0).rows("rules.values") if call.items else []
    return ["rules"] + [f"rules.values.{number}.conditions" for number in range(len(rows))]


def _own_ports(step: PlanStep) -> int:
    ports = step.origin.ports if step.origin is not None else ()
    return sum(port != "error" for port in ports)


def _numbered(value: Any, count: int) -> int:
    """The output of a number. Raises ItemFailed when there is none; anything odd fails the step."""
    number = (
        js.number(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    )
    if math.isnan(number) or not float(number).is_integer():
        raise StepBroke("The output is not a whole number. Check the expression of this step.")
    if not 0 <= number < count:
        raise ItemFailed(f"There is no output {int(number)}; this step has outputs 0 to {count - 1}.")
    return int(number)


def _fallback(value: Any, count: int) -> list[int]:
    if value == "extra":
        return [count - 1]
    number = js.number(value) if isinstance(value, int | str) and value != "none" else math.nan
    return [int(number)] if not math.isnan(number) and 0 <= number < count else []


def _older_outputs(params: Params, call: Call, answers: Answers, count: int) -> list[int]:
    kind = params.text("dataType", "number")
    left = params.get("value1", js.UNDEFINED)
    for number, row in enumerate(params.rows("rules.rules")):
        if older_conditions.row_holds(kind, row, _zone(call), answers, left=left):
            return [_numbered(row.get("output", 0), count) if call.version < 2 else number]
    fallback = params.get("fallbackOutput", -1)
    return [_numbered(fallback, count)] if js.is_number(fallback) and fallback >= 0 else []
