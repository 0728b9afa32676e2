"""The node executeWorkflow: runs a sub-workflow, once for all items or for each."""

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from steward.model.plan import OnError
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    SubWorkflowResult,
    WorkflowStepFailed,
    error_item,
    paired_with,
)


class ExecuteWorkflowNode(StepType):
    """Only a workflow inside the node itself is supported; one called by its id is not in the file.

    Kind and connection are those of the steps inside (imports/n8n/called.py), whose changes and sends it
    proposes as its own. Returned items are paired by the general rule; if run for each item, with that item.
    """

    types = ("executeWorkflow",)
    versions = (1, 1.1, 1.2, 1.3, 1.4)
    per_item = False
    options = frozenset(("waitForSubWorkflow",))
    choices = MappingProxyType(
        {
            "mode": frozenset(("once", "each")),
        }
    )
    parameters = frozenset(
        (
            "source",
            "workflowId",
            "workflowJson",
            "mode",
            "options",
            "workflowInputs",
            "workflowUrl",
            "workflowPath",
            "operation",
        )
    )

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields sub-workflows that are not in the file or not waited for."""
        if node.get("source", "database") != "parameter":
            words = "The workflow it calls is not in the file. Put its JSON into this step in n8n."
            yield StepProblem("error", "sub_workflow_missing", words)
        elif not isinstance(node.get("workflowJson"), str) or node.literal("workflowJson") is None:
            words = "The workflow it calls is decided by an expression. Put its JSON into this step."
            yield StepProblem("error", "sub_workflow_missing", words)
        if node.get("options.waitForSubWorkflow", True) is not True:
            words = "It continues without waiting for the called workflow, which does not happen here."
            yield StepProblem("warning", "parameter", f"{words} It waits; nothing to do.")

    async def run(self, call: StepCall) -> NodeResult:
        """Returns the items of the sub-workflow's last step."""
        plan = call.environment.sub_workflow(call.step.name)
        run_inner = call.environment.run_sub_workflow
        if plan is None or run_inner is None:
            raise WorkflowStepFailed(
                "The called workflow is not here. Import it again with the workflow inside."
            )
        result = NodeResult([[]])
        failed: Items = []
        if call.first.text("mode", "once") != "each":
            try:
                _with(result, await run_inner(call.step.name, plan, _in(call.items)), None)
            except WorkflowStepFailed as failure:
                _tolerate(call, 0, failure, result.outputs[0], failed)
            return _with_error_output(call, result, failed)
        for index, item in enumerate(call.items):
            try:
                called = await run_inner(call.step.name, plan, _in([item]))
            except WorkflowStepFailed as failure:
                _tolerate(call, index, failure, result.outputs[0], failed)
                continue
            call.budget.add(*(item_.json for item_ in called.items))
            _with(result, called, index)
        return _with_error_output(call, result, failed)


def _tolerate(call: StepCall, index: int, failure: WorkflowStepFailed, out: Items, failed: Items) -> None:
    """Adds the error item of a failed call. Raises the failure if it stops the step.

    Versions before 1.3 put the error of each item but the first at outputs that nothing can be connected to.
    """
    if call.on_error is OnError.STOP or not call.items:
        raise failure
    if call.version < 1.3 and index > 0:
        return
    if call.on_error is OnError.ERROR_OUTPUT:
        failed.append(error_item(call.items[index], index, failure.message))
    else:
        out.append(Item({"error": failure.message}, paired_with(index), failure.message))


def _with_error_output(call: StepCall, result: NodeResult, failed: Items) -> NodeResult:
    if call.on_error is OnError.ERROR_OUTPUT:
        result.outputs.append(failed)
    return result


def _with(result: NodeResult, called: SubWorkflowResult, index: int | None) -> NodeResult:
    """Adds the result of one more run; its items are paired with the item at `index`, if set."""
    items = result.outputs[0]
    shift = len(items)
    items += (
        called.items if index is None else [replace(item, paired=paired_with(index)) for item in called.items]
    )
    result.proposals += called.proposals
    result.item_of += tuple(
        item_index + shift if item_index >= 0 else item_index for item_index in called.item_of
    )
    result.answers = {**result.answers, **{shift + at: use for at, use in called.answers.items()}}
    result.counts = result.counts.plus(called.counts)
    return result


def _in(items: Items) -> Items:
    return [
        Item(js.deep_copy(item.json), ((index, 0),), binary=item.binary) for index, item in enumerate(items)
    ]


def inline(parameters: Any) -> Any:
    """Returns the sub-workflow's JSON, or UNDEFINED if it is invalid."""
    text = parameters.get("workflowJson") if js.is_object(parameters) else None
    return js.parse_json(text) if isinstance(text, str) else js.UNDEFINED
