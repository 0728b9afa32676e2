"""executeWorkflow: another workflow inside the step, once for all items or for each (imports 6)."""

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import Asked, Call, Called, Problem, Result, StepBroke, StepType, same


class ExecuteWorkflow(StepType):
    """The workflow is in the step itself; one of the tool's own by its number is not in the file.

    Its class and its connection are those of the steps inside (imports/n8n/called.py); what it
    would change or send is proposed as its own. What comes back is paired as the general rule fills in; run
    for each item, with that item.
    """

    types = ("executeWorkflow",)
    versions = (1, 1.1, 1.2)
    per_item = False
    options = frozenset(("waitForSubWorkflow",))
    choices = MappingProxyType(
        {
            "mode": frozenset(("once", "each")),
        }
    )
    known = frozenset(
        (
            "source",
            "workflowId",
            "workflowJson",
            "mode",
            "options",
            "workflowInputs",
            "workflowUrl",
            "workflowPath",
        )
    )

    def check(self, asked: Asked) -> Iterable[Problem]:
        """That the called workflow is here, and is waited for."""
        if asked.get("source", "database") != "parameter":
            words = "The workflow it calls is not in the file. Put its JSON into this step in the tool."
            yield Problem("error", "sub_workflow_missing", words)
        elif not isinstance(asked.get("workflowJson"), str) or asked.literal("workflowJson") is None:
            words = "The workflow it calls is decided by an expression. Put its JSON into this step."
            yield Problem("error", "sub_workflow_missing", words)
        if asked.get("options.waitForSubWorkflow", True) is not True:
            words = "It goes on without waiting for the called workflow, which does not happen here."
            yield Problem("warning", "parameter", f"{words} It waits; nothing to do.")

    async def run(self, call: Call) -> Result:
        """The items of the called workflow's last step."""
        plan = call.scene.plan(call.step.name)
        run_inner = call.scene.inner
        if plan is None or run_inner is None:
            raise StepBroke("The called workflow is not here. Import it again with the workflow inside.")
        result = Result([[]])
        if call.first.text("mode", "once") != "each":
            return _with(result, await run_inner(call.step.name, plan, _in(call.items)), None)
        for place, item in enumerate(call.items):
            made = await run_inner(call.step.name, plan, _in([item]))
            call.gathered.add(*(one.json for one in made.items))
            _with(result, made, place)
        return result


def _with(result: Result, made: Called, place: int | None) -> Result:
    """What was gathered so far with one more run; its items are paired with the item at `place`."""
    items = result.outputs[0]
    shift = len(items)
    items += made.items if place is None else [replace(one, paired=same(place)) for one in made.items]
    result.proposals += made.proposals
    result.item_of += tuple(at + shift if at >= 0 else at for at in made.item_of)
    result.counts = result.counts.plus(made.counts)
    return result


def _in(items: Items) -> Items:
    return [Item(js.copied(item.json), ((place, 0),)) for place, item in enumerate(items)]


def inline(parameters: Any) -> Any:
    """The JSON of the called workflow; UNDEFINED when it cannot be read."""
    text = parameters.get("workflowJson") if js.is_object(parameters) else None
    return js.parsed(text) if isinstance(text, str) else js.UNDEFINED
