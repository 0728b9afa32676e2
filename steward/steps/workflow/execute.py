"""Runs one execution of an imported step: parameters, retries, pairing, what a failure does (imports 3.5).

The one way a step of an items plan runs, in real runs, test runs, sub-workflows and recorded cases alike;
order is order.py's, journaling and holding changes runs/.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from steward.model.json import JsonObject, JsonValue
from steward.model.plan import OnError, Plan, PlanStep, StepKind, StepSource
from steward.sandbox.protocol import MEMORY, MESSAGE_BYTES, WORDS
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import Chunk, Lang, Template
from steward.steps.workflow.expressions.views import CodeStopped, Fault, Scope, Seen, Unpaired, World
from steward.steps.workflow.expressions.views import Spot as SeenSpot
from steward.steps.workflow.items import (
    History,
    Item,
    Items,
    Lost,
    Outputs,
    Source,
    Spot,
    fill_pairing,
    trace,
)
from steward.steps.workflow.javascript.values import SCALARS
from steward.steps.workflow.memory_budget import weight
from steward.steps.workflow.plan_order import Execution
from steward.steps.workflow.step_types import (
    UNDEFINED,
    UNKNOWN_IN_TEST,
    Call,
    Chunks,
    Failed,
    ItemFailed,
    Params,
    Result,
    Scene,
    StepBroke,
    StepType,
    UnknownInTest,
    all_of,
)
from steward.steps.workflow.test_mode import Partials, left_out, refuse_partial, refuse_seen, refuser

EXPRESSION = frozenset(("expr", "lang", "chunks"))


@dataclass(slots=True)
class Bench:
    """What executions of one run share: its plan, history, evaluator, scene and step types."""

    plan: Plan
    entry: str
    history: History
    evaluator: Evaluator
    scene: Scene
    types: Mapping[str, StepType]
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], datetime]
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    partials: Partials = field(default_factory=Partials)
    _branches: dict[tuple[str, str], int] = field(default_factory=dict)

    def branch(self, source: str, target: str) -> int:
        """The output of `source` that leads to `target` the shortest way; 0 when none does."""
        key = (source, target)
        if key not in self._branches:
            self._branches[key] = _branch(self.plan, source, target)
        return self._branches[key]


def _branch(plan: Plan, source: str, target: str) -> int:
    seen, open_ = {target}, [target]
    while open_:
        here = open_.pop(0)
        for edge in plan.before(here):
            if edge.source == source:
                return _output_of(plan, source, edge.port)
            if edge.source not in seen:
                seen.add(edge.source)
                open_.append(edge.source)
    return 0


def _output_of(plan: Plan, name: str, port: str) -> int:
    for step in plan.steps:
        if step.name == name and step.origin is not None and port in step.origin.ports:
            return step.origin.ports.index(port)
    return 0


@dataclass(slots=True)
class Done:
    """What became of an execution; `outputs` None: the step failed and the run with it.

    `error` stands beside outputs when a failure of the whole was tolerated.
    """

    outputs: Outputs | None
    result: Result | None = None
    error: str | None = None
    code: str | None = None


async def execute(bench: Bench, execution: Execution) -> Done:
    """Runs the step. A CallError of a reader passes through, for the walker."""
    step, origin = execution.step, origin_of(execution.step)
    if origin.disabled:
        given = enumerate(execution.inputs[0])
        return Done([[replace(item, paired=((place, 0),), error=None) for place, item in given]])
    kind = bench.types[origin.source_type]
    inputs = [items[:1] for items in execution.inputs] if origin.once else execution.inputs
    retry = origin.retry if step.kind in (StepKind.DECIDE, StepKind.READ) else None
    tries = retry.tries if retry is not None else 1
    memory = bench.memory.setdefault(step.name, {})
    for attempt in range(1, tries + 1):
        try:
            refuse_partial(kind, step, inputs, execution.sources)
            call = await _call(bench, execution, inputs, kind, memory)
            refuse_odd_choices(kind, call)
            result = await kind.run(call)
            result.outputs = fill_pairing(result.outputs, inputs)
            result.outputs = bench.partials.carry(kind, step, inputs, result.outputs)
            return _finished(execution, origin, result)
        except UnknownInTest as unknown:
            return Done(left_out(kind, step, inputs), error=str(unknown), code=UNKNOWN_IN_TEST)
        except (StepBroke, CodeStopped, OverflowError, RecursionError) as failure:
            if attempt == tries:
                return _failed(origin, inputs, failure)
            if retry is not None and retry.wait_ms:
                await bench.sleep(retry.wait_ms / 1000)
    raise AssertionError("a step is tried at least once")


def refuse_odd_choices(kind: StepType, call: Call) -> None:
    """Raises ItemFailed where an expression chose what its type does not have; others are told at import."""
    for path, allowed in kind.choices.items():
        raw: Any = call.step.config
        for part in path.split("."):
            raw = raw.get(part) if isinstance(raw, Mapping) else None
        if isinstance(raw, Mapping) and raw.keys() == EXPRESSION and call.items:
            chosen = call.first.get(path)
            if chosen not in (None, "", UNDEFINED) and chosen not in allowed:
                raise ItemFailed(f"“{path}” came to {str(chosen)[:80]!r}, which this step does not have.")


def origin_of(step: PlanStep) -> StepSource:
    """Where an imported step came from."""
    if step.origin is None:
        raise ValueError(f"{step.name} is not an imported step")
    return step.origin


def _failed(origin: StepSource, inputs: Sequence[Items], failure: Exception) -> Done:
    """A failure of the whole step: tolerated, its input goes on at output 0 and nothing elsewhere."""
    if not isinstance(failure, StepBroke | CodeStopped):
        failure = StepBroke(
            "A date or number of this step is out of range, or data lie too deep in one another."
        )
    code = failure.code if isinstance(failure, CodeStopped) else "step_failed"
    if origin.on_error is OnError.STOP:
        return Done(None, error=failure.message, code=code)
    passed = [replace(item, paired=((place, 0),)) for place, item in enumerate(inputs[0])]
    return Done([passed], error=failure.message, code=code)


def _finished(execution: Execution, origin: StepSource, result: Result) -> Done:
    outputs = result.outputs
    if origin.always_output and not any(outputs[:1]):
        result.outputs = outputs = [[Item({}, all_of(execution.inputs))], *outputs[1:]]
    return Done(outputs, result)


async def _call(
    bench: Bench, execution: Execution, inputs: Sequence[Items], kind: StepType, memory: dict[str, Any]
) -> Call:
    step, origin = execution.step, origin_of(execution.step)
    now = bench.clock()

    def look(names: Iterable[str] | None) -> World:
        return world_of(bench, execution, names, now)

    source = execution.sources[0] if execution.sources else None
    params = await _params(bench, step, inputs, kind, look, source)

    def look_at_inputs(names: Iterable[str] | None) -> World:
        """What a script sees: with “execute once” the first item alone, where an expression sees all."""
        world = replace(look(names), items=[item.json for item in inputs[0]])
        refuse_seen(bench.partials, world, source)
        return world

    return Call(
        step=step,
        version=origin.source_version,
        run=execution.run,
        inputs=inputs,
        sources=execution.sources,
        params=params,
        evaluator=bench.evaluator,
        look=look_at_inputs,
        scene=replace(bench.scene, now=now),
        memory=memory,
        sleep=bench.sleep,
    )


def world_of(bench: Bench, execution: Execution, names: Iterable[str] | None, now: datetime) -> World:
    """What the step's expressions look at; `names` are the steps they ask for, None: any."""
    history = bench.history
    wanted = history.keys() if names is None else [name for name in names if name in history]
    step = execution.step
    first = next((source for source in execution.sources if source is not None), None)
    return World(
        items=[item.json for item in execution.inputs[0]],
        scope=_scope(bench, execution, first, now),
        seen={name: _seen(bench, name, step.name) for name in wanted if _has_run(history, name)},
        names=frozenset((bench.entry, *(one.name for one in bench.plan.steps))),
        pairing=_pairing(history, execution),
    )


def _has_run(history: History, name: str) -> bool:
    return any(ran.outputs is not None for ran in history.get(name, ()))


def _seen(bench: Bench, name: str, asking: str) -> Seen:
    runs = [
        None if ran.outputs is None else [[item.json for item in items] for items in ran.outputs]
        for ran in bench.history[name]
    ]
    while runs and runs[-1] is None:  # a run still going on
        runs.pop()
    step = next((one for one in bench.plan.steps if one.name == name), None)
    return Seen(
        runs=runs,
        branch=bench.branch(name, asking),
        params=raw_parameters(step.config) if step is not None else {},
        context=bench.memory.get(name, {}).get("context", {}),
    )


def _pairing(history: History, execution: Execution) -> Callable[[str, int], SeenSpot | Unpaired | None]:
    source = execution.sources[0] if execution.sources else None

    def paired(name: str, place: int) -> SeenSpot | Unpaired | None:
        if source is None:
            return None
        try:
            found = trace(history, Spot(source.step, source.run, source.output, place), name)
        except Lost as lost:
            return Unpaired(str(lost))
        return None if found is None else (found.run, found.output, found.item)

    return paired


def _scope(bench: Bench, execution: Execution, source: Source | None, now: datetime) -> Scope:
    step, scene = execution.step, bench.scene
    seed = hashlib.sha256(f"{scene.seed}|{step.name}|{execution.run}".encode()).digest()
    before = next((one for one in bench.plan.steps if source is not None and one.name == source.step), None)
    return Scope(
        now=now,
        timezone=scene.zone,
        run_index=execution.run,
        seed=int.from_bytes(seed[:6], "big"),
        node_id=step.name,
        node_name=step.name,
        node_version=origin_of(step).source_version,
        workflow={"id": scene.workflow_id, "name": bench.plan.name, "active": scene.active},
        execution={"id": scene.seed, "mode": "production" if scene.mode == "live" else "test"},
        parameters=raw_parameters(step.config),
        previous={}
        if source is None
        else {"name": source.step, "outputIndex": source.output, "runIndex": source.run},
        input_params=raw_parameters(before.config) if before is not None else {},
        input_context={} if source is None else bench.memory.get(source.step, {}).get("context", {}),
    )


def raw_parameters(config: JsonValue) -> Any:
    """A step's parameters as its file had them."""
    if isinstance(config, Mapping):
        if config.keys() == EXPRESSION:
            return config["expr"]
        return {name: raw_parameters(one) for name, one in config.items()}
    if isinstance(config, list | tuple):
        return [raw_parameters(one) for one in config]
    return config


async def _params(
    bench: Bench,
    step: PlanStep,
    inputs: Sequence[Items],
    kind: StepType,
    look: Callable[[Iterable[str] | None], World],
    source: Source | None,
) -> Callable[[int], Params]:
    """The step's parameters for each item, all its expressions worked out in one go."""
    found: list[Template] = []
    tree = _prepared(step.config, (), kind.raw, found)
    if not found:
        literal = Params(_filled(tree, ()))
        return lambda place: literal
    count = len(inputs[0])
    places = list(range(count)) if kind.per_item else list(range(min(count, 1)))
    world = look(_names(found))
    answers = await bench.evaluator.evaluate(found, world, places)
    refuse = refuser(bench.partials, found, world, source)
    filled: dict[int, Params] = {}
    known: dict[int, int] = {}

    def at(place: int) -> Params:
        if place not in filled:
            refuse(place)
            column = [answer[place] if place < len(answer) else UNDEFINED for answer in answers]
            if sum(weight(value, known) for value in column) > MESSAGE_BYTES:
                raise CodeStopped(MEMORY, WORDS[MEMORY])
            filled[place] = Params(_filled(tree, column))
        return filled[place]

    return at if kind.per_item else lambda place: at(0)


def _names(templates: Sequence[Template]) -> frozenset[str] | None:
    names: frozenset[str] = frozenset()
    for one in templates:
        if one.steps is None:
            return None
        names |= one.steps
    return names


@dataclass(frozen=True, slots=True)
class _Slot:
    """The place in a tree of parameters where an expression's value goes."""

    number: int


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A part of a tree without expressions, which is the same for every item."""

    value: Any


@dataclass(frozen=True, slots=True)
class _Parts:
    """The place of a text whose chunks are not joined."""

    parts: tuple[str | _Slot, ...]
    typed: bool


def _prepared(config: Any, path: tuple[str, ...], raw: Sequence[str], found: list[Template]) -> Any:
    if isinstance(config, Mapping):
        if config.keys() == EXPRESSION:
            read = template.read_kept(config)
            if len(path) == 1 and path[0] in raw:
                return _apart(read, found)
            found.append(read)
            return _Slot(len(found) - 1)
        before = len(found)
        tree = {name: _prepared(one, (*path, name), raw, found) for name, one in config.items()}
        return tree if len(found) > before else _Fixed(_filled(tree, ()))
    if isinstance(config, list | tuple):
        before = len(found)
        rows = [_prepared(one, (*path, "0"), raw, found) for one in config]
        return rows if len(found) > before else _Fixed(_filled(rows, ()))
    return config


def _apart(read: Template, found: list[Template]) -> _Parts:
    parts: list[str | _Slot] = []
    for part in read.parts:
        if isinstance(part, Chunk):
            lang = Lang.PATH if part.path else Lang.JS
            found.append(replace(read, lang=lang, parts=(part,)))
            parts.append(_Slot(len(found) - 1))
        else:
            parts.append(part)
    return _Parts(tuple(parts), read.typed)


def _filled(tree: Any, column: Sequence[Any]) -> Any:
    kind = type(tree)
    if kind in SCALARS:
        return tree
    if kind is _Fixed:
        return tree.value
    if isinstance(tree, _Slot):
        value = column[tree.number]
        return Failed(value.message) if isinstance(value, Fault) else value
    if isinstance(tree, _Parts):
        parts = tuple(_filled(part, column) for part in tree.parts)
        broken = next((part for part in parts if isinstance(part, Failed)), None)
        return broken or Chunks(parts, tree.typed)
    if isinstance(tree, dict):
        return {name: _filled(one, column) for name, one in tree.items()}
    if isinstance(tree, list):
        return [_filled(one, column) for one in tree]
    return tree


def kept_config(parameters: JsonObject) -> JsonObject:
    """Parameters as a plan keeps them: an expression as `{expr, lang, chunks}` (imports 9)."""
    return {name: _kept(one) for name, one in parameters.items()}


def _kept(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return template.read(value).kept() if value.startswith("=") else value
    if isinstance(value, Mapping):
        return {name: _kept(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_kept(one) for one in value]
    return value
