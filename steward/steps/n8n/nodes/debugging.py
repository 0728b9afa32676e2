"""The node debugHelper: passes items on, or fails on purpose."""

from collections.abc import Iterable
from types import MappingProxyType

from steward.steps.n8n.nodes.plain import passed
from steward.steps.workflow.step_types import (
    FieldUse,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    WorkflowStepFailed,
)

_RUNS = frozenset(("doNothing", "throwError"))


class DebugNode(StepType):
    """Supports passing items on and throwing errors, but not random data and memory exhaustion."""

    types = ("debugHelper",)
    field_use = FieldUse.PASSES_ITEMS
    per_item = False
    choices = MappingProxyType({"category": _RUNS | {"oom", "randomData"}})
    parameters = frozenset(
        ("category", "throwErrorType", "throwErrorMessage", "memorySizeValue", "randomDataType")
    ) | frozenset(
        ("nanoidAlphabet", "nanoidLength", "randomDataSeed", "randomDataCount", "randomDataSingleArray")
    )

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields the unsupported modes."""
        if node.get("category", "throwError") not in _RUNS:
            message = "It makes random data or fills the memory, which is not supported. Remove the step."
            yield StepProblem("error", "parameter", message)

    async def run(self, call: StepCall) -> NodeResult:
        """Passes the items on. Raises WorkflowStepFailed in its failing mode."""
        if call.first.text("category", "throwError") == "throwError":
            raise WorkflowStepFailed(call.first.text("throwErrorMessage") or "This step fails on purpose.")
        return NodeResult([passed(call.items)])
