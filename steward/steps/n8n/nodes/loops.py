"""The node splitInBatches: passes items on in batches and collects those that return."""

from collections.abc import Iterable
from dataclasses import replace

from steward.steps.workflow.items import ItemRef, Items, Link
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    is_expression,
)


class SplitInBatchesNode(StepType):
    """Outputs batches on one output and the collected items on the other; version 1 has one output.

    Version 3 has the collected items on output 0, version 2 the batches. Items keep their original pairing,
    so that `.item` works after the loop.
    """

    types = ("splitInBatches",)
    knows_all_parameters = True
    field_use = FieldUse.PASSES_ITEMS
    versions = (1, 2, 3)
    parameters = frozenset(("batchSize", "options"))
    per_item = False
    stateful = True

    def ports(self, node: NodeDefinition) -> tuple[str, ...]:
        """Returns the outputs of this version."""
        if node.version < 2:
            return ("loop",)
        return ("loop", "done") if node.version < 3 else ("done", "loop")

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a batch size below one."""
        size = node.get("batchSize", _size_of(node.version))
        if not is_expression(size) and not (js.is_number(size) and size >= 1):
            yield StepProblem("error", "parameter", "Its batch size is not a number from 1 on. Give one.")

    async def run(self, call: StepCall) -> NodeResult:
        """Returns the next batch, or the collected items."""
        params, memory = call.first, call.memory
        size = js.number(params.get("batchSize", _size_of(call.version)))
        if not size >= 1:
            raise ItemFailed("The batch size is not a number from 1 on.")
        came = [
            replace(item, paired=_original_source(call, index), error=None)
            for index, item in enumerate(call.items)
        ]
        reset = js.truthy(params.get("options.reset", False))
        if "left" not in memory or reset:
            memory.update(left=came, back=[], round=0)
        else:
            memory["back"] = memory["back"] + came
            memory["round"] += 1
        return _next(call, int(size))


def _size_of(version: float) -> int:
    """Returns the default batch size of a version."""
    return 1 if version >= 3 else 10


def _original_source(call: StepCall, index: int) -> tuple[Link, ...]:
    """Returns the source of an item in the step before the loop."""
    source = call.sources[0]
    return () if source is None else (ItemRef(source.step, source.run, source.output, index),)


def _next(call: StepCall, size: int) -> NodeResult:
    memory = call.memory
    batch: Items = memory["left"][:size]
    memory["left"] = memory["left"][size:]
    memory["context"] = {
        "noItemsLeft": not memory["left"],
        "currentRunIndex": memory["round"],
        "maxRunIndex": memory["round"] + -(-len(memory["left"]) // size),
        "done": not batch,
    }
    if batch:
        outputs = [[], batch] if call.version >= 3 else [batch, []]
        return NodeResult(outputs[:1] if call.version < 2 else outputs)
    back: Items = memory["back"]
    if call.version < 2:
        return NodeResult([[]])
    return NodeResult([back, []] if call.version >= 3 else [[], back])
