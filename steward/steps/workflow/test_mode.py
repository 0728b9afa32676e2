"""Tracks what a test run cannot know: the results of changes and sends that are not made.

A partial item has all fields that are known and may have more. A step may read the fields it has; any other
field is unknown until a real run. A step that would read such a field is skipped, and so are the steps that
depend on it. See docs/design/imports-n8n.md#test-runs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from steward.model.json import JsonObject
from steward.model.plan import PlanStep
from steward.steps.workflow.expressions import message
from steward.steps.workflow.expressions.native import PathRootMissing, root_value
from steward.steps.workflow.expressions.paths import PathRoot
from steward.steps.workflow.expressions.template import Chunk, ParameterTemplate
from steward.steps.workflow.expressions.views import ExpressionContext
from steward.steps.workflow.items import Item, Items, Outputs, Source
from steward.steps.workflow.step_types import FieldUse, StepType, UnknownInTest, paired_with


@dataclass(slots=True)
class PartialItems:
    """The partial items of a walk by the id of their JSON, which is kept alive so that ids stay unique."""

    items_by_id: dict[int, JsonObject] = field(default_factory=dict)

    def note(self, outputs: Outputs | None) -> None:
        """Remembers the partial items of an execution's outputs."""
        for items in outputs or ():
            for item in items:
                if item.partial:
                    self.items_by_id[id(item.json)] = item.json

    def has(self, value: object) -> bool:
        """Returns whether the value is the JSON of a partial item."""
        return id(value) in self.items_by_id

    def mark_outputs(
        self, step_type: StepType, step: PlanStep, inputs: Sequence[Items], outputs: Outputs
    ) -> Outputs:
        """Returns the outputs of a step with the items marked that came from partial ones."""
        takes = step_type.field_use_of(step)
        if not self.items_by_id or takes is FieldUse.REPLACES_ITEMS:
            return outputs

        def is_partial(item: Item) -> bool:
            if takes is FieldUse.PASSES_ITEMS:
                return self.has(item.json)
            return any(_came_from_partial(link, inputs) for link in item.paired or ())

        return [
            [replace(item_, partial=True) if is_partial(item_) else item_ for item_ in items]
            for items in outputs
        ]


def _came_from_partial(link: object, inputs: Sequence[Items]) -> bool:
    if not isinstance(link, tuple):
        return False
    index, number = link
    return number < len(inputs) and index < len(inputs[number]) and inputs[number][index].partial


def refuse_partial(
    step_type: StepType, step: PlanStep, inputs: Sequence[Items], sources: Sequence[Source | None]
) -> None:
    """Raises UnknownInTest if a step type that reads fields itself would run on partial items."""
    if step_type.field_use_of(step) is not FieldUse.READS:
        return
    for items, source in zip(inputs, sources, strict=False):
        if source is not None and any(item.partial for item in items):
            raise UnknownInTest(_words(source.step, None))


def refuse_partial_context(partials: PartialItems, context: ExpressionContext, source: Source | None) -> None:
    """Raises UnknownInTest if a script could read partial items."""
    if source is not None and any(partials.has(json) for json in context.items):
        raise UnknownInTest(_words(source.step, None))
    _refuse_steps(partials, context, context.steps)


def _refuse_steps(partials: PartialItems, context: ExpressionContext, names: Iterable[str]) -> None:
    for name in names:
        step = context.steps.get(name)
        for outputs in step.runs if step is not None else ():
            if any(partials.has(json) for items in outputs or () for json in items):
                raise UnknownInTest(_words(name, None))


def partial_field_guard(
    partials: PartialItems,
    templates: Sequence[ParameterTemplate],
    context: ExpressionContext,
    source: Source | None,
) -> Callable[[int], None]:
    """Returns a function that raises UnknownInTest if an expression reads an unknown field of an item."""
    chunks = [
        (template, part) for template in templates for part in template.parts if isinstance(part, Chunk)
    ]

    def refuse(index: int) -> None:
        for template, chunk in chunks:
            if chunk.path is not None:
                _refuse_path(partials, chunk, context, index, source)
            else:
                _refuse_script(partials, replace(template, parts=(chunk,)), context, index, source)

    return refuse if partials.items_by_id else lambda index: None


def _refuse_path(
    partials: PartialItems, chunk: Chunk, context: ExpressionContext, index: int, source: Source | None
) -> None:
    path = chunk.path
    assert path is not None
    try:
        value = root_value(path, context, index)
    except PathRootMissing:
        return
    if not partials.has(value) or not isinstance(value, Mapping):
        return
    name = path.keys[0] if path.keys else None
    if name is None or name not in value:
        of_input = path.root in (PathRoot.JSON, PathRoot.FIRST, PathRoot.LAST)
        raise UnknownInTest(_words(source.step if of_input and source else path.step, name))


def _refuse_script(
    partials: PartialItems,
    template: ParameterTemplate,
    context: ExpressionContext,
    index: int,
    source: Source | None,
) -> None:
    """Checks a script by its text; a script that may read the whole item counts as reading it."""
    fields = message.current_item_fields([template])
    input_step = source.step if source else None
    if fields is None and any(partials.has(json) for json in context.items):
        raise UnknownInTest(_words(input_step, None))
    if fields is not None and index < len(context.items):
        _refuse_missing_fields(partials, context.items[index], fields, input_step)
    _refuse_steps(partials, context, context.steps if template.steps is None else template.steps)


def _refuse_missing_fields(
    partials: PartialItems, json: JsonObject, fields: Iterable[str], input_step: str | None
) -> None:
    missing = min((name for name in fields if name not in json), default=None)
    if missing is not None and partials.has(json):
        raise UnknownInTest(_words(input_step, missing))


def _words(step: str | None, name: str | None) -> str:
    part = "all of it" if name is None else f"“{name[:80]}” of it"
    return (
        f"“{(step or 'The step before')[:80]}” was not really done in this test run, so its output is "
        f"unknown. This step reads {part}, so it was left out."
    )


def outputs_when_left_out(step_type: StepType, step: PlanStep, inputs: Sequence[Items]) -> Outputs:
    """Returns the outputs of a skipped step: items without known fields, so that later steps run.

    Returns nothing if the step would have chosen an output or the number of items.
    """
    ports = step.origin.ports if step.origin is not None else ()
    own_ports = [port for port in ports if port != "error"]
    if len(own_ports) != 1 or step_type.field_use_of(step) is FieldUse.PASSES_ITEMS:
        return [[] for _ in ports]
    return [[Item({}, paired_with(index), partial=True) for index in range(len(inputs[0]))]]
