"""Computes the output of a workflow's step once its changes are done."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from steward.model.plan import DataMode
from steward.runs.walk import held_step
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.shopify_flow.walk import flow_output_after_changes
from steward.steps.workflow.execute import origin_of
from steward.steps.workflow.items import decode_outputs
from steward.steps.workflow.output_after_changes import (
    ChangeResult,
    OutputAfterChanges,
    StepAfterChanges,
    decode_response_uses,
    output_after_changes,
)
from steward.steps.workflow.plan_order import Execution


def output_function_of(execution: Execution, mode: DataMode | None) -> held_step.ComputeOutput:
    """Returns the function that computes the execution's output from the outcomes of its changes."""
    return partial(_output_of_execution, execution, mode)


def _output_of_execution(
    execution: Execution, mode: DataMode | None, held_step: held_step.HeldStep, done: Sequence[ChangeResult]
) -> OutputAfterChanges | None:
    origin = origin_of(execution.step)
    output: Mapping[str, Any] = held_step.output if isinstance(held_step.output, dict) else {}
    step = StepAfterChanges(
        planned=decode_outputs(output.get("out")),
        item_of=held_step.item_of or (),
        response_uses=decode_response_uses(output.get("answers")),
        on_error=origin.on_error,
        inputs=[items[:1] for items in execution.inputs] if origin.once else execution.inputs,
        always_output=origin.always_output,
    )
    return (
        flow_output_after_changes(step, done)
        if mode is DataMode.ENVIRONMENT
        else output_after_changes(step, done, BY_TYPE)
    )
