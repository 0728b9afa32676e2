"""Runs one execution of a flow's step: builds its environment, renders its Liquid, handles failures."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import PlanStep, StepKind
from steward.model.run import Mode
from steward.steps.shopify_flow.environment import FlowVariables
from steward.steps.shopify_flow.hydrate import READ_TASK
from steward.steps.shopify_flow.order import LOOP, ExecutionPath, FlowExecution
from steward.steps.shopify_flow.task_types import FlowCall, FlowResult, FlowType, is_liquid
from steward.steps.workflow.execute import ExecutionResult, origin_of
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import ParameterTemplate
from steward.steps.workflow.expressions.views import CodeStopped, ExpressionError, Rendered
from steward.steps.workflow.items import Item, Outputs
from steward.steps.workflow.step_types import (
    UNKNOWN_IN_TEST,
    FailedExpression,
    NodeResult,
    ResponseUse,
    RunEnvironment,
    UnknownInTest,
    WorkflowStepFailed,
)

# Every path that Liquid might read; finding too many does no harm, missing one would.
_PATHS = re.compile(r"[A-Za-z_][\w-]*(?:\s*\.\s*[A-Za-z_][\w-]*)*")
_LIQUID = re.compile(r"\{\{.*?(?:\}\}|\Z)|\{%.*?(?:%\}|\Z)", re.DOTALL)


@dataclass(slots=True)
class FlowContext:
    """The context shared by a run's executions; `steps` are the plan's steps by name."""

    steps: Mapping[str, PlanStep]
    evaluator: Evaluator
    run_environment: RunEnvironment
    types: Mapping[str, FlowType]
    clock: Callable[[], datetime]


async def execute(context: FlowContext, execution: FlowExecution) -> ExecutionResult:
    """Runs the step. A reader's CallError passes through to the walk."""
    step = execution.step
    kind = context.types[origin_of(step).source_type]
    environment = _environment_at(execution.trail, context.steps, context.types)
    run_environment = replace(context.run_environment, now=context.clock())
    try:
        config = await _evaluated(step.config, environment, context.evaluator, run_environment.now)
        result = await kind.run(FlowCall(step, environment, config, context.evaluator, run_environment))
    except UnknownInTest as unknown:
        return _unknown_in_test(context, step, str(unknown))
    except WorkflowStepFailed as failure:
        return ExecutionResult(None, error=failure.message, code="step_failed")
    except CodeStopped as stopped:
        return ExecutionResult(None, error=stopped.message, code=stopped.code)
    outputs = _outputs(step, result)
    return ExecutionResult(
        outputs,
        NodeResult(
            outputs,
            counts=result.counts,
            message=result.message,
            proposals=result.proposals,
            item_of=(0,) * len(result.proposals),
            wait_until=result.wait_until,
            response_uses={0: ResponseUse(origin_of(step).source_type, {})} if result.uses_response else {},
        ),
    )


def _unknown_in_test(context: FlowContext, step: PlanStep, path: str) -> ExecutionResult:
    """Skips a step of a test run that reads values only a real change would fill."""
    alias = path.partition(".")[0]
    named = (
        other.name
        for other in context.steps.values()
        if other.origin is not None and other.origin.alias == alias
    )
    maker = next(named, "The step before")
    if context.run_environment.mode is not Mode.TEST:
        message = f"It uses “{path[:80]}”, which “{maker[:80]}” does not output. Remove that from this step."
        return ExecutionResult(None, error=message, code="step_failed")
    message = (
        f"“{maker[:80]}” was not really done in this test run, so its output is unknown. "
        f"This step reads “{path[:80]}”, so it was left out."
    )
    lost = Item({"value": None, "unknown": [""]})
    # Neither the branch of a condition nor the elements of a list are known; only what follows them
    # continues.
    is_branch = step.kind is StepKind.DECIDE and "true" in origin_of(step).ports
    outputs = [[] if is_branch or port == LOOP else [lost] for port in origin_of(step).ports]
    return ExecutionResult(outputs, error=message, code=UNKNOWN_IN_TEST)


def _outputs(step: PlanStep, result: FlowResult) -> Outputs:
    """Returns the output of each port: one item or, for a loop body, one per element."""
    output: dict[str, JsonValue] = {"value": result.output}
    if result.unknown:
        output["unknown"] = list(result.unknown)
    outputs: Outputs = []
    for port in origin_of(step).ports:
        if port == LOOP:
            outputs.append([Item({"value": element}) for element in result.elements or ()])
        else:
            outputs.append([Item(output)] if port in result.ports else [])
    return outputs


def _environment_at(
    trail: ExecutionPath | None, steps: Mapping[str, PlanStep], types: Mapping[str, FlowType]
) -> FlowVariables:
    """Returns the variables of the step at the end of `trail`: earlier outputs and its loops' elements.

    Store objects read before a wait are no longer visible after it.
    """
    values: dict[str, JsonValue] = {}
    unknown: set[str] = set()
    until_wait: list[str] = []
    for current in _oldest_first(trail):
        step = steps.get(current.step)
        if step is None or origin_of(step).source_type == READ_TASK:  # the trigger or a reading step
            values |= current.value if isinstance(current.value, Mapping) else {}
            continue
        origin = origin_of(step)
        if current.of_loop:
            values[str(step.config.get("item"))] = current.value
        elif step.kind is StepKind.WAIT:
            for name in until_wait:
                values.pop(name, None)
            until_wait = []
        elif origin.alias is not None:
            values[origin.alias] = current.value
            unknown |= _unknown_paths(current, origin.alias)
            if types[origin.source_type].reads_store:
                until_wait.append(origin.alias)
    return FlowVariables(values, frozenset(unknown))


def _oldest_first(trail: ExecutionPath | None) -> list[ExecutionPath]:
    trails: list[ExecutionPath] = []
    while trail is not None:
        trails.append(trail)
        trail = trail.before
    return trails[::-1]


def _unknown_paths(trail: ExecutionPath, alias: str) -> set[str]:
    unknown = trail.item.json.get("unknown", ())
    return {f"{alias}.{path}".rstrip(".") for path in unknown} if isinstance(unknown, list | tuple) else set()


async def _evaluated(
    config: JsonValue, environment: FlowVariables, evaluator: Evaluator, now: datetime
) -> JsonObject:
    """Returns the config with its Liquid rendered, all texts in one message. Raises UnknownInTest."""
    texts: list[ParameterTemplate] = []
    tree = _collect_texts(config, texts)
    if not texts:
        return config if isinstance(config, Mapping) else {}
    text = "\n".join(template_.text for template_ in texts)
    for part in _LIQUID.findall(text) if environment.unknown else ():
        for path in _PATHS.findall(part):
            environment.require_known(re.sub(r"\s", "", path))
    named = {name: value for name, value in environment.values.items() if name in text}
    results = await evaluator.render(texts, named, now)
    filled = _fill(tree, results)
    assert isinstance(filled, dict)
    return filled


@dataclass(frozen=True, slots=True)
class _Slot:
    """The position of a text in a config."""

    number: int


def _collect_texts(config: JsonValue, texts: list[ParameterTemplate]) -> AnyJson:
    if isinstance(config, Mapping):
        if is_liquid(config):
            texts.append(template.decode_template(config))
            return _Slot(len(texts) - 1)
        return {name: _collect_texts(value, texts) for name, value in config.items()}
    if isinstance(config, list | tuple):
        return [_collect_texts(value, texts) for value in config]
    return config


def _fill(tree: JsonValue, results: Sequence[Rendered]) -> JsonValue:
    if isinstance(tree, _Slot):
        result = results[tree.number]
        return FailedExpression(result.message) if isinstance(result, ExpressionError) else result
    if isinstance(tree, dict):
        return {name: _fill(value, results) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_fill(value, results) for value in tree]
    return tree
