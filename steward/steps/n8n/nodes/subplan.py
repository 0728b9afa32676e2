"""The node executeWorkflow: runs a sub-workflow, once for all items or for each."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import OnError
from steward.steps.n8n.nodes.set_fields import converted
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    SubWorkflowResult,
    WorkflowStepFailed,
    error_item,
    is_expression,
    paired_with,
)

_ITSELF: Final = re.compile(r"=\s*\{\{\s*\$workflow\.id\s*\}\}\s*")
# The Python types accepted for an input field of a called workflow, by its declared type.
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class ExecuteWorkflowNode(StepType):
    """Calls a workflow that is embedded in the node, or an import that a person chose for it.

    Its kind and connection are those of the steps inside (model/called.py), whose changes and sends it
    proposes as its own. Returned items are paired by the general rule or, if it runs for each item, with that
    item.
    """

    types = ("executeWorkflow",)
    versions = (1, 1.1, 1.2, 1.3, 1.4)
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
        """Yields sub-workflows that cannot be called, must still be chosen, or would not be waited for."""
        source = node.get("source", "database")
        if calls_itself(node.parameters):
            pass  # the export reader embeds the workflow in the plan
        elif source == "database":
            yield _unchosen_problem(node)
        elif source != "parameter":
            message = "The workflow it calls is read from a file or an address. Put its JSON into this step."
            yield StepProblem("error", "sub_workflow_missing", message)
        elif not isinstance(node.get("workflowJson"), str) or node.literal("workflowJson") is None:
            message = "The workflow it calls is decided by an expression. Put its JSON into this step."
            yield StepProblem("error", "sub_workflow_missing", message)
        if node.get("options.waitForSubWorkflow", True) is not True:
            message = "In n8n it continues without waiting for the called workflow; here it waits for it."
            yield StepProblem("warning", "parameter", f"{message} Nothing to do.")

    async def run(self, call: StepCall) -> NodeResult:
        """Returns the items of the sub-workflow's last step."""
        plan = call.environment.sub_workflow(call.step.name)
        run_inner = call.environment.run_sub_workflow
        if plan is None or run_inner is None:
            raise WorkflowStepFailed("No workflow is chosen for this step. Choose one of your imports.")
        items = [_input_item(call, index, item) for index, item in enumerate(call.items)]
        result = NodeResult([[]])
        failed: Items = []
        if call.first.text("mode", "once") != "each":
            try:
                _add_called(result, await run_inner(call.step.name, plan, items), None)
            except WorkflowStepFailed as failure:
                _tolerate(call, 0, failure, result.outputs[0], failed)
            return _step_result(call, result, failed)
        for index, item in enumerate(items):
            try:
                called = await run_inner(call.step.name, plan, [replace(item, paired=paired_with(0))])
            except WorkflowStepFailed as failure:
                _tolerate(call, index, failure, result.outputs[0], failed)
                continue
            call.budget.add(*(item_.json for item_ in called.items))
            _add_called(result, called, index)
        return _step_result(call, result, failed)


def _unchosen_problem(node: NodeDefinition) -> StepProblem:
    """Returns the problem of a step that calls a workflow in n8n's database."""
    workflow = node.get("workflowId")
    named = node.get("workflowId.cachedResultName")
    workflow = node.get("workflowId.value", workflow)
    if not isinstance(workflow, str | int) or not str(workflow).strip():
        return StepProblem(
            "error", "sub_workflow_missing", "It names no workflow to call. Choose one in n8n."
        )
    if is_expression(workflow):
        message = "An expression decides which workflow it calls, which is not supported."
        message = f"{message} Put the JSON of the called one into this step."
        return StepProblem("error", "sub_workflow_missing", message)
    is_named = isinstance(named, str) and named and not is_expression(named)
    called = f"the workflow “{named[:80]}”" if is_named else "another workflow"
    message = f"It calls {called}. Import that one too, and choose it when you set this one up."
    return StepProblem("warning", "sub_workflow_missing", message)


def _input_item(call: StepCall, index: int, item: Item) -> Item:
    """Returns an item in the form the called workflow receives, with the fields that the step sets."""
    params = call.params(index)
    values = params.get("workflowInputs.value") if params.text("source", "database") == "database" else None
    json = js.deep_copy(item.json)
    if isinstance(values, Mapping):
        rows = {row.text("displayName", row.text("id")): row for row in params.rows("workflowInputs.schema")}
        texts = params.flag("workflowInputs.convertFieldsToString")
        convert = params.flag("workflowInputs.attemptToConvertTypes")
        for name, value in values.items():
            kind = rows[name].text("type") if name in rows else ""
            json[name] = _input(name, js.deep_copy(value), kind, texts=texts, convert=convert)
        for name, row in rows.items():
            if row.flag("removed"):
                json.pop(name, None)
    return Item(json, paired_with(index), binary=item.binary)


def _input(name: str, value: AnyJson, kind: str, *, texts: bool, convert: bool) -> AnyJson:
    """Returns the value of an input field of the called workflow. Raises ItemFailed for a wrong type."""
    if value is None or value is js.UNDEFINED or kind not in _TYPES:
        return None if value is js.UNDEFINED else value
    if convert or (texts and kind == "string"):
        return converted(value, kind, name)
    if isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "boolean"):
        return value
    raise ItemFailed(f"“{name}” of the called workflow takes a value of type {kind}. Set one, or convert it.")


def _step_result(call: StepCall, result: NodeResult, failed: Items) -> NodeResult:
    """Returns the result with its error output, and with the step's input items if n8n does not wait."""
    if call.first.get("options.waitForSubWorkflow", True) is not True:
        result.outputs[0] = [
            replace(item, paired=paired_with(index)) for index, item in enumerate(call.items)
        ]
        result.item_of, result.response_uses = (-1,) * len(result.item_of), {}
    return _with_error_output(call, result, failed)


def _tolerate(call: StepCall, index: int, failure: WorkflowStepFailed, out: Items, failed: Items) -> None:
    """Adds the error item of a failed call, or raises the failure if it stops the step.

    Versions before 1.3 drop all errors but the first, since they put them on outputs that nothing can follow.
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


def _add_called(result: NodeResult, called: SubWorkflowResult, index: int | None) -> NodeResult:
    """Adds the result of another run; pairs its items with the item at `index`, if set."""
    items = result.outputs[0]
    shift = len(items)
    items += (
        called.items if index is None else [replace(item, paired=paired_with(index)) for item in called.items]
    )
    result.proposals += called.proposals
    result.item_of += tuple(
        item_index + shift if item_index >= 0 else item_index for item_index in called.item_of
    )
    result.response_uses = {
        **result.response_uses,
        **{shift + index: use for index, use in called.response_uses.items()},
    }
    result.counts = result.counts.plus(called.counts)
    return result


def calls_itself(parameters: JsonObject) -> bool:
    """Returns whether the step calls its own workflow through its trigger for calls."""
    workflow = parameters.get("workflowId")
    workflow = workflow.get("value") if isinstance(workflow, Mapping) else workflow
    is_stored = parameters.get("source", "database") == "database"
    return is_stored and isinstance(workflow, str) and _ITSELF.fullmatch(workflow) is not None


def inline(parameters: JsonValue) -> AnyJson:
    """Returns the sub-workflow's JSON, or UNDEFINED if it is invalid."""
    text = parameters.get("workflowJson") if js.is_object(parameters) else None
    return js.parse_json(text) if isinstance(text, str) else js.UNDEFINED
