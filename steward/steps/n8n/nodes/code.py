"""The nodes code, function and functionItem: run JavaScript over the items in the sandbox."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from steward.model.plan import OnError
from steward.steps.n8n import item_files
from steward.steps.n8n.nodes.plain import passed
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.views import CodeFailed, Script, ScriptItem, ScriptMode, StaticObjects
from steward.steps.workflow.items import BinaryReference, Item, Items
from steward.steps.workflow.static_data import TOO_LARGE, StaticDataTooLarge
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    WorkflowStepFailed,
    error_item,
    error_result,
    paired_with,
)

# The shared part of `$getWorkflowStaticData` (code) and `getWorkflowStaticData` (function).
_STATIC_DATA: Final = "etWorkflowStaticData"


class CodeNode(StepType):
    """Runs a script over the items, paired as the script says or else by the general rule."""

    types: tuple[str, ...] = ("code",)
    versions: tuple[float, ...] = (1, 2)
    per_item = False
    options = frozenset()
    parameters = frozenset(("mode", "language", "jsCode", "functionCode", "pythonCode", "notice"))

    def operation(self, node: NodeDefinition) -> str:
        """Returns the operation name that all three nodes share."""
        return "code"

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a problem for a language other than JavaScript, and for a script of a Function step."""
        if node.get("language", "javaScript") != "javaScript":
            yield StepProblem("error", "parameter", "Its code is Python. Write it in JavaScript.")
        yield from _foreign_script(node, "functionCode", own_parameter="jsCode")

    async def run(self, call: StepCall) -> NodeResult:
        """Runs the script over the items."""
        script = script_of(call.step.origin.source_type if call.step.origin else "code", call.first.tree)
        if not script.text.strip():
            return NodeResult([passed(call.items)])
        names, _ = template.names_in([script.text])
        context = call.expression_context(names)
        if _STATIC_DATA in script.text:
            stored_data = await call.environment.static_data.read(call.step.name)
            context = replace(context, static_data=stored_data)
        try:
            result = await call.evaluator.run_code(script, context)
            await _keep(call, result.static_data)
        except CodeFailed as failure:
            await _keep(call, failure.static_data)
            if not failure.thrown:
                raise WorkflowStepFailed(failure.message) from None
            if call.on_error is OnError.STOP:
                raise ItemFailed(failure.message) from None
            return error_result(call, failure.message)
        out: Items = []
        failed: Items = []
        for index, script_item in enumerate(result.items):
            if script_item.error is None:
                out.append(await _item(call, script_item))
            else:
                _fail(call, index, script_item.error, out, failed)
        return NodeResult([out, failed] if call.on_error is OnError.ERROR_OUTPUT else [out])


class FunctionNode(CodeNode):
    """The predecessors of code, with a script for all items or for each item."""

    types = ("function", "functionItem")
    versions = (1,)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a problem for a script that is not text, which n8n rejects, and for one of a Code step."""
        if not str(node.get("functionCode", "=")).strip():
            yield StepProblem("error", "parameter", "It has no code. Write some, or remove the step.")
        yield from _foreign_script(node, "jsCode", own_parameter="functionCode")


class AiTransformNode(CodeNode):
    """Runs the script that n8n generated when the workflow was built; no AI takes part in a run."""

    types = ("aiTransform",)
    versions = (1,)
    parameters = frozenset(("instructions", "codeGeneratedForPrompt", "jsCode", "hint", "generateCode"))

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a problem if no script was generated."""
        if not str(node.get("jsCode") or "").strip():
            message = "No code was generated for its instructions. Generate it in n8n, or use a code step."
            yield StepProblem("error", "parameter", message)


def _foreign_script(node: NodeDefinition, name: str, *, own_parameter: str) -> Iterable[StepProblem]:
    """Yields a warning about a script in the parameter of another node type, which n8n ignores."""
    if not node.get(name):
        return
    message = f"This step does not read “{name}”: n8n ignores that, and so does a run here."
    if own_parameter not in node.parameters:
        message += " It has no other code, so the example runs that n8n puts into a new step."
    todo = "Enter the code again in n8n, and export the workflow again."
    yield StepProblem("warning", "parameter", f"{message} {todo}")


def script_of(source_type: str, parameters: object) -> Script:
    """Returns the node's script and its mode."""
    config = parameters if isinstance(parameters, dict) else {}
    if source_type in ("function", "functionItem"):
        mode = ScriptMode.FUNCTION if source_type == "function" else ScriptMode.FUNCTION_ITEM
        return Script(str(config.get("functionCode", _EXAMPLES[mode])), mode)
    runs_for_each_item = config.get("mode", "runOnceForAllItems") == "runOnceForEachItem"
    mode = ScriptMode.PER_ITEM if runs_for_each_item else ScriptMode.ALL
    return Script(str(config.get("jsCode", _EXAMPLES[mode])), mode)


# The default scripts, which add a field to each item.
_EXAMPLES = {
    ScriptMode.ALL: "return $input.all().map((item) => { item.json.myNewField = 1; return item; });",
    ScriptMode.PER_ITEM: "const item = $input.item; item.json.myNewField = 1; return item;",
    ScriptMode.FUNCTION: "items.forEach((item) => { item.json.myNewField = 1; }); return items;",
    ScriptMode.FUNCTION_ITEM: "item.myNewField = 1; return item;",
}


async def _keep(call: StepCall, static_data: StaticObjects | None) -> None:
    """Stores the static data that the script left for the next run. Raises WorkflowStepFailed."""
    if static_data is None:
        return
    try:
        await call.environment.static_data.write(call.step.name, static_data)
    except StaticDataTooLarge:
        raise WorkflowStepFailed(TOO_LARGE) from None


async def _item(call: StepCall, script_item: ScriptItem) -> Item:
    paired = None if script_item.paired is None else tuple((index, 0) for index in script_item.paired)
    binary = {name: await _file(call, name, file) for name, file in script_item.binary.items()}
    return Item(script_item.json, paired, binary=binary)


async def _file(call: StepCall, name: str, file: object) -> BinaryReference:
    """Returns a file that the script passed on, or stores one that it created as Base64."""
    if not isinstance(file, dict):
        raise ItemFailed(f"“{name}” of the item's files is not an object.")
    file_name, mime_type = (
        value if isinstance(value, str) else None for value in (file.get("fileName"), file.get("mimeType"))
    )
    if isinstance(data := file.get("data"), str):  # also new content of a received file
        content = item_files.from_base64(data)
    elif isinstance(sha256 := file.get("id"), str):
        content = await item_files.content_by_hash(call, sha256)
    else:
        message = f"The script made the file “{name}” without data. Hand it Base64 in “data”."
        raise ItemFailed(message)
    return await item_files.store(call, content, file_name=file_name, mime_type=mime_type)


def _fail(call: StepCall, number: int, error: str, out: Items, failed: Items) -> None:
    index = number if number < len(call.items) else 0
    if call.on_error is OnError.STOP:
        raise ItemFailed(error)
    if call.on_error is OnError.ERROR_OUTPUT:
        failed.append(error_item(call.items[index], index, error))
    else:
        out.append(Item({"error": error}, paired_with(index), error))
