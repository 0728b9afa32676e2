"""Runs one execution of an imported step: parameters, retries, pairing and failures.

Real runs, test runs, sub-workflows and recorded cases all run steps through `execute`. plan_order.py decides
the order; runs/ records executions and requests approvals. See docs/design/imports-n8n.md#node-settings.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import OnError, Plan, PlanStep, StepKind, StepSource
from steward.sandbox.protocol import MEMORY, MESSAGE_BYTES, STOP_MESSAGES
from steward.steps.workflow.error_outputs import with_errors_moved
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import Chunk, Lang, ParameterTemplate
from steward.steps.workflow.expressions.views import (
    CodeStopped,
    ExpressionContext,
    ExpressionError,
    ExpressionVariables,
    ItemPosition,
    StepView,
    Unpaired,
)
from steward.steps.workflow.items import (
    History,
    Item,
    ItemRef,
    Items,
    Outputs,
    PairingUnknown,
    Source,
    carry_files,
    file_views,
    fill_pairing,
    trace,
)
from steward.steps.workflow.javascript.values import SCALARS
from steward.steps.workflow.memory_budget import json_size
from steward.steps.workflow.plan_order import Execution
from steward.steps.workflow.step_types import (
    UNDEFINED,
    UNKNOWN_IN_TEST,
    FailedExpression,
    ItemFailed,
    NodeResult,
    Params,
    RunEnvironment,
    StepCall,
    StepType,
    UnjoinedText,
    UnknownInTest,
    WorkflowStepFailed,
    paired_with_all,
)
from steward.steps.workflow.test_mode import (
    PartialItems,
    outputs_when_left_out,
    partial_field_guard,
    refuse_partial,
    refuse_partial_context,
)

EXPRESSION = frozenset(("expr", "lang", "chunks"))
T = TypeVar("T")


@dataclass(slots=True)
class ExecutionContext:
    """The context shared by a run's executions: plan, history, evaluator, environment and step types."""

    plan: Plan
    entry: str
    history: History
    evaluator: Evaluator
    run_environment: RunEnvironment
    types: Mapping[str, StepType]
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], datetime]
    memory: dict[str, dict[str, AnyJson]] = field(default_factory=dict)
    partials: PartialItems = field(default_factory=PartialItems)
    _branches: dict[tuple[str, str], int] = field(default_factory=dict)

    def branch(self, source: str, target: str) -> int:
        """Returns the output of `source` with the shortest path to `target`; 0 if there is none."""
        key = (source, target)
        if key not in self._branches:
            self._branches[key] = _branch(self.plan, source, target)
        return self._branches[key]


def _branch(plan: Plan, source: str, target: str) -> int:
    seen, queue = {target}, [target]
    while queue:
        current = queue.pop(0)
        for edge in plan.before(current):
            if edge.source == source:
                return _output_of(plan, source, edge.port)
            if edge.source not in seen:
                seen.add(edge.source)
                queue.append(edge.source)
    return 0


def _output_of(plan: Plan, name: str, port: str) -> int:
    for step in plan.steps:
        if step.name == name and step.origin is not None and port in step.origin.ports:
            return step.origin.ports.index(port)
    return 0


@dataclass(slots=True)
class ExecutionResult:
    """The result of an execution. `outputs` is None if the step failed, and the run with it.

    `error` is set beside outputs if a failure of the whole step was tolerated.
    """

    outputs: Outputs | None
    result: NodeResult | None = None
    error: str | None = None
    code: str | None = None


async def execute(context: ExecutionContext, execution: Execution) -> ExecutionResult:
    """Runs the step. A reader's CallError passes through to the walk."""
    step, origin = execution.step, origin_of(execution.step)
    if origin.disabled:
        return _passed_through(execution.inputs[0])
    step_type = context.types[origin.source_type]
    inputs = [items[:1] for items in execution.inputs] if origin.once else execution.inputs
    attempts, pause = _attempts(step, origin)
    for attempt in range(1, attempts + 1):
        try:
            return await _attempt(context, execution, inputs, step_type)
        except UnknownInTest as unknown:
            return ExecutionResult(
                outputs_when_left_out(step_type, step, inputs), error=str(unknown), code=UNKNOWN_IN_TEST
            )
        except (WorkflowStepFailed, CodeStopped, OverflowError, RecursionError) as failure:
            if attempt == attempts:
                return _failed(origin, inputs, failure)
            if pause:
                await context.sleep(pause)
    raise AssertionError("a step is tried at least once")


def _attempts(step: PlanStep, origin: StepSource) -> tuple[int, float]:
    """Returns the number of attempts and the seconds between two of them."""
    if origin.retry is None or step.kind not in (StepKind.DECIDE, StepKind.READ):
        return 1, 0
    return origin.retry.tries, origin.retry.wait_ms / 1000


def _passed_through(items: Items) -> ExecutionResult:
    return ExecutionResult(
        [[replace(item, paired=((index, 0),), error=None) for index, item in enumerate(items)]]
    )


async def _attempt(
    context: ExecutionContext, execution: Execution, inputs: Sequence[Items], step_type: StepType
) -> ExecutionResult:
    step = execution.step
    refuse_partial(step_type, step, inputs, execution.sources)
    memory = context.memory.setdefault(step.name, {})
    call = await _call(context, execution, inputs, step_type, memory)
    _check_choices(step_type, call)
    result = await step_type.run(call)
    outputs = fill_pairing(result.outputs, inputs)
    if step_type.keeps_files(call):
        outputs = carry_files(outputs, inputs)
    result.outputs = context.partials.mark_outputs(step_type, step, inputs, outputs)
    return _finished(execution, origin_of(step), result)


def _check_choices(kind: StepType, call: StepCall) -> None:
    """Raises ItemFailed if an expression yields an unknown choice; the import checks literal ones."""
    for path, allowed in kind.choices.items():
        raw: JsonValue = call.step.config
        for part in path.split("."):
            raw = raw.get(part) if isinstance(raw, Mapping) else None
        if isinstance(raw, Mapping) and raw.keys() == EXPRESSION and call.items:
            chosen = call.first.get(path)
            if chosen not in (None, "", UNDEFINED) and chosen not in allowed:
                raise ItemFailed(f"“{path}” is {str(chosen)[:80]!r}, which this step does not support.")


def origin_of(step: PlanStep) -> StepSource:
    """Returns the source of an imported step. Raises ValueError for other steps."""
    if step.origin is None:
        raise ValueError(f"{step.name} is not an imported step")
    return step.origin


def _failed(origin: StepSource, inputs: Sequence[Items], failure: Exception) -> ExecutionResult:
    """Returns the result of a failed step; if tolerated, its input is passed on at output 0."""
    if not isinstance(failure, WorkflowStepFailed | CodeStopped):
        failure = WorkflowStepFailed(
            "A date or number of this step is out of range, or its data are nested too deeply."
        )
    code = failure.code if isinstance(failure, CodeStopped) else "step_failed"
    if origin.on_error is OnError.STOP:
        return ExecutionResult(None, error=failure.message, code=code)
    passed = [replace(item, paired=((index, 0),)) for index, item in enumerate(inputs[0])]
    return ExecutionResult(_with_errors_moved(origin, [passed], inputs), error=failure.message, code=code)


def _with_errors_moved(origin: StepSource, outputs: Outputs, inputs: Sequence[Items]) -> Outputs:
    if origin.on_error is not OnError.ERROR_OUTPUT:
        return outputs
    return with_errors_moved(outputs, inputs, origin.ports)


def _finished(execution: Execution, origin: StepSource, result: NodeResult) -> ExecutionResult:
    outputs = result.outputs
    if not result.proposals:
        result.outputs = outputs = _with_errors_moved(origin, outputs, execution.inputs)
    if origin.always_output and not any(outputs[:1]):
        result.outputs = outputs = [[Item({}, paired_with_all(execution.inputs))], *outputs[1:]]
    return ExecutionResult(outputs, result)


async def _call(
    context: ExecutionContext,
    execution: Execution,
    inputs: Sequence[Items],
    step_type: StepType,
    memory: dict[str, JsonValue],
) -> StepCall:
    step, origin = execution.step, origin_of(execution.step)
    now = context.clock()

    def context_for(names: Iterable[str] | None) -> ExpressionContext:
        return _context_of(context, execution, names, now)

    source = execution.sources[0] if execution.sources else None
    params = await _params(context, step, inputs, step_type, context_for, source)

    def input_context(names: Iterable[str] | None) -> ExpressionContext:
        """Returns the data that a script sees; “execute once” limits it to the first item."""
        items = inputs[0]
        expression_context = replace(
            context_for(names), items=[item.json for item in items], files=file_views(items)
        )
        refuse_partial_context(context.partials, expression_context, source)
        return expression_context

    return StepCall(
        step=step,
        version=origin.source_version,
        run=execution.run,
        inputs=inputs,
        sources=execution.sources,
        params=params,
        evaluator=context.evaluator,
        expression_context=input_context,
        environment=replace(context.run_environment, now=now),
        memory=memory,
        sleep=context.sleep,
    )


def _context_of(
    context: ExecutionContext, execution: Execution, names: Iterable[str] | None, now: datetime
) -> ExpressionContext:
    """Returns the data that the step's expressions can read; `names` are the steps they name, or None."""
    history = context.history
    step_names = history.keys() if names is None else [name for name in names if name in history]
    step = execution.step
    first = next((source for source in execution.sources if source is not None), None)
    return ExpressionContext(
        items=[item.json for item in execution.inputs[0]],
        files=file_views(execution.inputs[0]),
        variables=_scope(context, execution, first, now),
        steps={name: _seen(context, name, step.name) for name in step_names if _has_run(history, name)},
        names=frozenset((context.entry, *(step_.name for step_ in context.plan.steps))),
        pairing=_pairing(history, execution),
    )


def _has_run(history: History, name: str) -> bool:
    return any(past_run.outputs is not None for past_run in history.get(name, ()))


def _seen(context: ExecutionContext, name: str, reader: str) -> StepView:
    outputs_of_runs = [past_run.outputs for past_run in context.history[name]]
    runs = [_each_output(outputs, lambda items: [item.json for item in items]) for outputs in outputs_of_runs]
    while runs and runs[-1] is None:  # a run in progress
        runs.pop()
    step = next((candidate for candidate in context.plan.steps if candidate.name == name), None)
    files = [_each_output(outputs, file_views) for outputs in outputs_of_runs]
    return StepView(
        files=files if any(any(output) for output in files if output) else (),
        runs=runs,
        branch=context.branch(name, reader),
        params=raw_parameters(step.config) if step is not None else {},
        context=context.memory.get(name, {}).get("context", {}),
    )


def _each_output(outputs: Outputs | None, view: Callable[[Items], T]) -> list[T] | None:
    return None if outputs is None else [view(items) for items in outputs]


def _pairing(history: History, execution: Execution) -> Callable[[str, int], ItemPosition | Unpaired | None]:
    source = execution.sources[0] if execution.sources else None

    def paired(name: str, index: int) -> ItemPosition | Unpaired | None:
        if source is None:
            return None
        try:
            origin_item = trace(history, ItemRef(source.step, source.run, source.output, index), name)
        except PairingUnknown as lost:
            return Unpaired(str(lost))
        return None if origin_item is None else (origin_item.run, origin_item.output, origin_item.item)

    return paired


def _scope(
    context: ExecutionContext, execution: Execution, source: Source | None, now: datetime
) -> ExpressionVariables:
    step, environment = execution.step, context.run_environment
    seed = hashlib.sha256(f"{environment.seed}|{step.name}|{execution.run}".encode()).digest()
    previous_step = next(
        (
            candidate
            for candidate in context.plan.steps
            if source is not None and candidate.name == source.step
        ),
        None,
    )
    return ExpressionVariables(
        now=now,
        timezone=environment.zone,
        run_index=execution.run,
        seed=int.from_bytes(seed[:6], "big"),
        node_id=step.name,
        node_name=step.name,
        node_version=origin_of(step).source_version,
        workflow={"id": environment.workflow_id, "name": context.plan.name, "active": environment.active},
        execution={"id": environment.seed, "mode": "production" if environment.mode == "live" else "test"},
        parameters=raw_parameters(step.config),
        previous={}
        if source is None
        else {"name": source.step, "outputIndex": source.output, "runIndex": source.run},
        input_params=raw_parameters(previous_step.config) if previous_step is not None else {},
        input_context={} if source is None else context.memory.get(source.step, {}).get("context", {}),
        of_n8n=environment.variables or None,
    )


def raw_parameters(config: JsonValue) -> AnyJson:
    """Returns a step's parameters in the form they have in the file."""
    if isinstance(config, Mapping):
        if config.keys() == EXPRESSION:
            return config["expr"]
        return {name: raw_parameters(member) for name, member in config.items()}
    if isinstance(config, list | tuple):
        return [raw_parameters(member) for member in config]
    return config


async def _params(
    context: ExecutionContext,
    step: PlanStep,
    inputs: Sequence[Items],
    step_type: StepType,
    context_for: Callable[[Iterable[str] | None], ExpressionContext],
    source: Source | None,
) -> Callable[[int], Params]:
    """Evaluates all expressions of the step in one batch and returns its parameters by item index."""
    templates: list[ParameterTemplate] = []
    tree = _prepared(step.config, (), step_type.unjoined_parameters, templates)
    if not templates:
        literal = Params(_filled(tree, ()))
        return lambda index: literal
    count = len(inputs[0])
    indexes = list(range(count)) if step_type.per_item else list(range(min(count, 1)))
    expression_context = context_for(_names(templates))
    keep_dates = step_type.reads_dates(origin_of(step).source_version)
    results = await context.evaluator.evaluate(templates, expression_context, indexes, keep_dates=keep_dates)
    refuse_partial_fields = partial_field_guard(context.partials, templates, expression_context, source)
    filled: dict[int, Params] = {}
    sizes: dict[int, int] = {}

    def params_at(index: int) -> Params:
        if index not in filled:
            refuse_partial_fields(index)
            column = [result[index] if index < len(result) else UNDEFINED for result in results]
            if sum(json_size(value, sizes) for value in column) > MESSAGE_BYTES:
                raise CodeStopped(MEMORY, STOP_MESSAGES[MEMORY])
            filled[index] = Params(_filled(tree, column))
        return filled[index]

    return params_at if step_type.per_item else lambda index: params_at(0)


def _names(templates: Sequence[ParameterTemplate]) -> frozenset[str] | None:
    names: frozenset[str] = frozenset()
    for template_ in templates:
        if template_.steps is None:
            return None
        names |= template_.steps
    return names


@dataclass(frozen=True, slots=True)
class _Slot:
    """A placeholder for an expression's value in a tree of parameters."""

    number: int


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A part of a tree that has no expressions and is the same for every item."""

    value: AnyJson


@dataclass(frozen=True, slots=True)
class _Parts:
    """A placeholder for a text whose chunks are evaluated but not joined."""

    parts: tuple[str | _Slot, ...]
    typed: bool


def _prepared(
    config: JsonValue, path: tuple[str, ...], raw: Sequence[str], templates: list[ParameterTemplate]
) -> AnyJson:
    if isinstance(config, Mapping):
        if config.keys() == EXPRESSION:
            read = template.decode_template(config)
            if len(path) == 1 and path[0] in raw:
                return _apart(read, templates)
            templates.append(read)
            return _Slot(len(templates) - 1)
        before = len(templates)
        tree = {name: _prepared(member, (*path, name), raw, templates) for name, member in config.items()}
        return tree if len(templates) > before else _Fixed(_filled(tree, ()))
    if isinstance(config, list | tuple):
        before = len(templates)
        rows = [_prepared(member, (*path, "0"), raw, templates) for member in config]
        return rows if len(templates) > before else _Fixed(_filled(rows, ()))
    return config


def _apart(read: ParameterTemplate, templates: list[ParameterTemplate]) -> _Parts:
    parts: list[str | _Slot] = []
    for part in read.parts:
        if isinstance(part, Chunk):
            lang = Lang.PATH if part.path else Lang.JS
            templates.append(replace(read, lang=lang, parts=(part,)))
            parts.append(_Slot(len(templates) - 1))
        else:
            parts.append(part)
    return _Parts(tuple(parts), read.typed)


def _filled_parts(text: _Parts, column: Sequence[AnyJson]) -> UnjoinedText | FailedExpression:
    parts = tuple(_filled(part, column) for part in text.parts)
    failed = next((part for part in parts if isinstance(part, FailedExpression)), None)
    return failed or UnjoinedText(parts, text.typed)


def _filled(tree: AnyJson, column: Sequence[AnyJson]) -> AnyJson:
    kind = type(tree)
    if kind in SCALARS:
        return tree
    if kind is _Fixed:
        return tree.value
    if isinstance(tree, _Slot):
        value = column[tree.number]
        return FailedExpression(value.message) if isinstance(value, ExpressionError) else value
    if isinstance(tree, _Parts):
        return _filled_parts(tree, column)
    if isinstance(tree, dict):
        return {name: _filled(member, column) for name, member in tree.items()}
    if isinstance(tree, list):
        return [_filled(member, column) for member in tree]
    return tree


def encode_config(parameters: JsonObject) -> JsonObject:
    """Encodes parameters for a plan: an expression becomes `{expr, lang, chunks}`."""
    return {name: _encode(value) for name, value in parameters.items()}


def _encode(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return template.read(value).encoded() if value.startswith("=") else value
    if isinstance(value, Mapping):
        return {name: _encode(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(member) for member in value]
    return value
