"""Evaluates templates made only of paths in this process; the sandbox evaluates all others."""

from collections.abc import Sequence

from steward.model.json import JsonObject
from steward.sandbox.protocol import MEMORY, MESSAGE_BYTES, STOP_MESSAGES
from steward.steps.workflow.expressions.paths import (
    UNDEFINED,
    InheritedMember,
    Path,
    PathRoot,
    Value,
    as_text,
    follow_path,
)
from steward.steps.workflow.expressions.template import Lang, ParameterTemplate
from steward.steps.workflow.expressions.views import (
    CodeStopped,
    ExpressionContext,
    ExpressionError,
    Outcome,
    StepView,
    Unpaired,
)


class PathRootMissing(Exception):
    """Raised if the root of a path does not exist; becomes an expression error."""


def evaluate_paths(
    template: ParameterTemplate, context: ExpressionContext, indexes: Sequence[int]
) -> list[Outcome] | None:
    """Returns the template's outcome for each index, or None if it needs JavaScript."""
    if template.lang is Lang.LITERAL:
        return [_text_of_literal(template)] * len(indexes)
    if template.lang is not Lang.PATH:
        return None
    try:
        if template.typed:
            return _typed(template, context, indexes)
        return _each_joined(template, context, indexes)
    except InheritedMember:
        return None


def _text_of_literal(template: ParameterTemplate) -> str:
    """Returns the text of a template without chunks."""
    return "".join(part for part in template.parts if isinstance(part, str))


def _typed(template: ParameterTemplate, context: ExpressionContext, indexes: Sequence[int]) -> list[Outcome]:
    part = template.parts[0]
    path = None if isinstance(part, str) else part.path
    if path is None:
        raise InheritedMember(template.text)
    if path.root is PathRoot.JSON:
        items, keys = context.items, path.keys
        return [follow_path(items[index], keys) if index < len(items) else UNDEFINED for index in indexes]
    return [_outcome(path, context, index) for index in indexes]


def _outcome(path: Path, context: ExpressionContext, index: int) -> Outcome:
    try:
        return follow_path(root_value(path, context, index), path.keys)
    except PathRootMissing as error:
        return ExpressionError(str(error))


def _each_joined(
    template: ParameterTemplate, context: ExpressionContext, indexes: Sequence[int]
) -> list[Outcome]:
    """Joins the parts of each text. Raises CodeStopped if it exceeds the size of a sandbox message."""
    outcomes: list[Outcome] = []
    remaining_bytes = MESSAGE_BYTES
    for index in indexes:
        outcomes.append(outcome := _joined(template, context, index, remaining_bytes))
        remaining_bytes -= len(outcome) if isinstance(outcome, str) else 0
    return outcomes


def _joined(
    template: ParameterTemplate, context: ExpressionContext, index: int, remaining_bytes: int
) -> Outcome:
    parts: list[str] = []
    try:
        for part in template.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            if part.path is None:
                raise InheritedMember(part.code)
            text = as_text(follow_path(root_value(part.path, context, index), part.path.keys))
            if text is None:
                raise InheritedMember(part.code)
            parts.append(text)
            remaining_bytes -= len(text)
            if remaining_bytes < 0:
                raise CodeStopped(MEMORY, STOP_MESSAGES[MEMORY])
    except PathRootMissing as error:
        return ExpressionError(str(error))
    return "".join(parts)


def root_value(path: Path, context: ExpressionContext, index: int) -> Value:
    """Returns the value at the root of the path. Raises PathRootMissing."""
    items = context.items
    match path.root:
        case PathRoot.JSON:
            return items[index] if index < len(items) else UNDEFINED
        case PathRoot.ITEM_INDEX:
            return index
        case PathRoot.RUN_INDEX:
            return context.variables.run_index
        case PathRoot.FIRST:
            return items[0] if items else UNDEFINED
        case PathRoot.LAST:
            return items[-1] if items else UNDEFINED
    return _of_step(path.root, path.step or "", context, index)


def _of_step(root: PathRoot, name: str, context: ExpressionContext, index: int) -> Value:
    if name not in context.names and name not in context.steps:
        raise PathRootMissing(f"There is no step “{name}”. Check the name.")
    step = context.steps.get(name)
    if step is None:
        raise PathRootMissing(
            f"The step “{name}” has not run, so it has no items yet. Ask with isExecuted first."
        )
    if root is PathRoot.STEP_ITEM:
        return _paired(step, name, context, index)
    items = _items_of_last_run(step)
    if root is PathRoot.NODE:
        if index >= len(items):
            raise PathRootMissing(f"The step “{name}” has no item {index}. Use .first(), .last() or .all().")
        return items[index]
    if not items:
        return UNDEFINED
    return items[0 if root is PathRoot.STEP_FIRST else -1]


def _items_of_last_run(step: StepView) -> Sequence[JsonObject]:
    outputs = step.runs[-1] if step.runs else None
    return outputs[step.branch] if outputs and step.branch < len(outputs) else ()


def _paired(step: StepView, name: str, context: ExpressionContext, index: int) -> Value:
    if index >= len(context.items):
        raise PathRootMissing(f"There is no item {index} to pair with “{name}”.")
    position = context.pairing(name, index)
    if isinstance(position, Unpaired):
        raise PathRootMissing(position.message)
    if position is None:
        return UNDEFINED
    run, output, item = position
    outputs = step.runs[run] if run < len(step.runs) else None
    if not outputs or output >= len(outputs) or item >= len(outputs[output]):
        return UNDEFINED
    return outputs[output][item]
