"""code, function and functionItem: JavaScript over the items, in a confined child (imports 5.4)."""

from collections.abc import Iterable

from steward.model.plan import OnError
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.views import CodeFailed, Made, Mode, Script
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.step_types import (
    Asked,
    Call,
    ItemFailed,
    Problem,
    Result,
    StepBroke,
    StepType,
    error_item,
    same,
    tolerated,
)


class Code(StepType):
    """Pairs as the script says; without a word of it as the general rule fills in."""

    types = ("code", "function", "functionItem")
    versions = (1, 2)
    per_item = False
    options = frozenset()
    known = frozenset(("mode", "language", "jsCode", "functionCode", "pythonCode", "notice"))

    def operation(self, asked: Asked) -> str:
        """One name for all three."""
        return "code"

    def check(self, asked: Asked) -> Iterable[Problem]:
        """JavaScript only."""
        if asked.get("language", "javaScript") != "javaScript":
            yield Problem("error", "parameter", "Its code is Python. Write it in JavaScript.")
        elif not str(asked.get("jsCode") or asked.get("functionCode") or "").strip():
            yield Problem("error", "parameter", "It has no code. Write some, or remove the step.")

    async def run(self, call: Call) -> Result:
        """What the script gives."""
        script = script_of(call.step.origin.source_type if call.step.origin else "code", call.first.tree)
        names, _ = template.names_in([script.text])
        try:
            result = await call.evaluator.run_code(script, call.look(names))
        except CodeFailed as failure:
            if not failure.thrown:
                raise StepBroke(failure.message) from None
            if call.on_error is OnError.STOP:
                raise ItemFailed(failure.message) from None
            return tolerated(call, failure.message)
        out: Items = []
        failed: Items = []
        for place, made in enumerate(result.items):
            if made.error is None:
                out.append(_item(made))
            else:
                _fail(call, place, made.error, out, failed)
        return Result([out, failed] if call.on_error is OnError.ERROR_OUTPUT else [out])


def script_of(source_type: str, parameters: object) -> Script:
    """The step's script and how it is run."""
    given = parameters if isinstance(parameters, dict) else {}
    if source_type in ("function", "functionItem"):
        mode = Mode.FUNCTION if source_type == "function" else Mode.FUNCTION_ITEM
        return Script(str(given.get("functionCode", "")), mode)
    each_item = given.get("mode", "runOnceForAllItems") == "runOnceForEachItem"
    return Script(str(given.get("jsCode", "")), Mode.EACH if each_item else Mode.ALL)


def _item(made: Made) -> Item:
    paired = None if made.paired is None else tuple((place, 0) for place in made.paired)
    return Item(made.json, paired)


def _fail(call: Call, number: int, error: str, out: Items, failed: Items) -> None:
    place = number if number < len(call.items) else 0
    if call.on_error is OnError.STOP:
        raise ItemFailed(error)
    if call.on_error is OnError.ERROR_OUTPUT:
        failed.append(error_item(call.items[place], place, error))
    else:
        out.append(Item({"error": error}, same(place), error))
