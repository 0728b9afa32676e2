"""Runs one execution of a flow's step: what it sees, its texts, what its failure does (imports 8)."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from steward.model.json import JsonValue
from steward.model.plan import PlanStep, StepKind
from steward.model.run import Mode
from steward.steps.shopify_flow.environment import Environment
from steward.steps.shopify_flow.hydrate import READ_TASK
from steward.steps.shopify_flow.kinds import FlowCall, FlowResult, FlowType, is_liquid
from steward.steps.shopify_flow.order import LOOP, FlowExecution, Trail
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
    RunEnvironment,
    UnknownInTest,
    WorkflowStepFailed,
)

# Names a text may ask for, wherever they stand in it: rather one too many than one too few.
_PATHS = re.compile(r"[A-Za-z_][\w-]*(?:\s*\.\s*[A-Za-z_][\w-]*)*")
_LIQUID = re.compile(r"\{\{.*?(?:\}\}|\Z)|\{%.*?(?:%\}|\Z)", re.DOTALL)


@dataclass(slots=True)
class FlowBench:
    """What the executions of one run share; `steps` are the plan's by name."""

    steps: Mapping[str, PlanStep]
    evaluator: Evaluator
    scene: RunEnvironment
    types: Mapping[str, FlowType]
    clock: Callable[[], datetime]


async def execute(bench: FlowBench, execution: FlowExecution) -> ExecutionResult:
    """Runs the step. A CallError of a reader passes through, for the walker."""
    step = execution.step
    kind = bench.types[origin_of(step).source_type]
    environment = seen_from(execution.trail, bench.steps, bench.types)
    scene = replace(bench.scene, now=bench.clock())
    try:
        config = await _worked_out(step.config, environment, bench.evaluator, scene.now)
        result = await kind.run(FlowCall(step, environment, config, bench.evaluator, scene))
    except UnknownInTest as unknown:
        return _not_known(bench, step, str(unknown))
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
        ),
    )


def _not_known(bench: FlowBench, step: PlanStep, path: str) -> ExecutionResult:
    """It would read what only the real change tells: a test run leaves it out (engine 10.2)."""
    alias = path.partition(".")[0]
    named = (one.name for one in bench.steps.values() if one.origin is not None and one.origin.alias == alias)
    maker = next(named, "The step before")
    if bench.scene.mode is not Mode.TEST:
        words = f"It uses “{path[:80]}”, which “{maker[:80]}” does not hand on. Remove that from this step."
        return ExecutionResult(None, error=words, code="step_failed")
    words = (
        f"“{maker[:80]}” was not really done in this test run, and only then is it known what it hands on. "
        f"This step reads “{path[:80]}”, so it was left out."
    )
    lost = Item({"value": None, "unknown": [""]})
    # Neither branch of a condition, and no element of a list, can be told; what only comes after goes on.
    is_branch = step.kind is StepKind.DECIDE and "true" in origin_of(step).ports
    outputs = [[] if is_branch or port == LOOP else [lost] for port in origin_of(step).ports]
    return ExecutionResult(outputs, error=words, code=UNKNOWN_IN_TEST)


def _outputs(step: PlanStep, result: FlowResult) -> Outputs:
    """What goes on by each port: one item, of a for-each's body one for each element."""
    given: dict[str, JsonValue] = {"value": result.output}
    if result.unknown:
        given["unknown"] = list(result.unknown)
    found: Outputs = []
    for port in origin_of(step).ports:
        if port == LOOP:
            found.append([Item({"value": element}) for element in result.each or ()])
        else:
            found.append([Item(given)] if port in result.ports else [])
    return found


def seen_from(
    trail: Trail | None, steps: Mapping[str, PlanStep], types: Mapping[str, FlowType]
) -> Environment:
    """What a step at the end of `trail` sees: the steps before it on its own way, and its loops' elements.

    What told of the store before a wait is gone after it (imports 8.2).
    """
    way: list[Trail] = []
    while trail is not None:
        way.append(trail)
        trail = trail.before
    values: dict[str, JsonValue] = {}
    unknown: set[str] = set()
    gone: list[str] = []
    for one in reversed(way):
        step = steps.get(one.step)
        origin = None if step is None else origin_of(step)
        if step is None or origin is None or origin.source_type == READ_TASK:  # the trigger, or what it read
            values |= one.value if isinstance(one.value, Mapping) else {}
        elif one.of_loop:
            values[str(step.config.get("item"))] = one.value
        elif step.kind is StepKind.WAIT:
            for name in gone:
                values.pop(name, None)
            gone = []
        elif origin.alias is not None:
            values[origin.alias] = one.value
            unknown |= {f"{origin.alias}.{path}".rstrip(".") for path in _unknown(one)}
            if types[origin.source_type].of_store:
                gone.append(origin.alias)
    return Environment(values, frozenset(unknown))


def _unknown(trail: Trail) -> Sequence[str]:
    found = trail.item.json.get("unknown", ())
    return [str(path) for path in found] if isinstance(found, list | tuple) else ()


async def _worked_out(
    config: Any, environment: Environment, evaluator: Evaluator, now: datetime
) -> Mapping[str, Any]:
    """The config with every text of Liquid worked out, all in one message. Raises UnknownInTest."""
    found: list[ParameterTemplate] = []
    tree = _gathered(config, found)
    if not found:
        return config if isinstance(config, Mapping) else {}
    text = "\n".join(one.text for one in found)
    for part in _LIQUID.findall(text) if environment.unknown else ():
        for path in _PATHS.findall(part):
            environment.ask(re.sub(r"\s", "", path))
    named = {name: value for name, value in environment.values.items() if name in text}
    answers = await evaluator.render(found, named, now)
    filled = _filled(tree, answers)
    assert isinstance(filled, dict)
    return filled


@dataclass(frozen=True, slots=True)
class _Slot:
    """The place in a config where a text goes."""

    number: int


def _gathered(config: Any, found: list[ParameterTemplate]) -> Any:
    if isinstance(config, Mapping):
        if is_liquid(config):
            found.append(template.decode_template(config))
            return _Slot(len(found) - 1)
        return {name: _gathered(one, found) for name, one in config.items()}
    if isinstance(config, list | tuple):
        return [_gathered(one, found) for one in config]
    return config


def _filled(tree: Any, answers: Sequence[Rendered]) -> Any:
    if isinstance(tree, _Slot):
        answer = answers[tree.number]
        return FailedExpression(answer.message) if isinstance(answer, ExpressionError) else answer
    if isinstance(tree, dict):
        return {name: _filled(one, answers) for name, one in tree.items()}
    if isinstance(tree, list):
        return [_filled(one, answers) for one in tree]
    return tree
