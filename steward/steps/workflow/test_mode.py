"""What a test run cannot know of the items that changes and sends would hand on, and who asks (engine 10.2).

A partial item has what is known of it and may have more: a field it has can be read, one it lacks is not
known before the run is real. Whoever would read such a field is left out, and so is what depends on it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from steward.model.plan import PlanStep
from steward.steps.workflow.expressions import message
from steward.steps.workflow.expressions.native import NotThere, root_value
from steward.steps.workflow.expressions.paths import Root
from steward.steps.workflow.expressions.template import Chunk, Template
from steward.steps.workflow.expressions.views import World
from steward.steps.workflow.items import Item, Items, Outputs, Source
from steward.steps.workflow.step_types import StepType, Takes, UnknownInTest, same


@dataclass(slots=True)
class Partials:
    """The partial items of a walk by their json, which is kept alive so that its identity stays its own."""

    known: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def note(self, outputs: Outputs | None) -> None:
        """An execution handed these on."""
        for items in outputs or ():
            for item in items:
                if item.partial:
                    self.known[id(item.json)] = item.json

    def has(self, value: object) -> bool:
        """Whether it is the json of a partial item."""
        return id(value) in self.known

    def carry(self, kind: StepType, step: PlanStep, inputs: Sequence[Items], outputs: Outputs) -> Outputs:
        """The outputs of a step with what of them is partial again marked so."""
        takes = kind.takes(step)
        if not self.known or takes is Takes.NOTHING:
            return outputs

        def is_partial(item: Item) -> bool:
            if takes is Takes.WHOLE:
                return self.has(item.json)
            return any(_came_from_partial(link, inputs) for link in item.paired or ())

        return [
            [replace(one, partial=True) if is_partial(one) else one for one in items] for items in outputs
        ]


def _came_from_partial(link: object, inputs: Sequence[Items]) -> bool:
    if not isinstance(link, tuple):
        return False
    place, number = link
    return number < len(inputs) and place < len(inputs[number]) and inputs[number][place].partial


def refuse_partial(
    kind: StepType, step: PlanStep, inputs: Sequence[Items], sources: Sequence[Source | None]
) -> None:
    """A type that looks into its items itself cannot be run on partial ones. Raises UnknownInTest."""
    if kind.takes(step) is not Takes.FIELDS:
        return
    for items, source in zip(inputs, sources, strict=False):
        if source is not None and any(item.partial for item in items):
            raise UnknownInTest(_words(source.step, None))


def refuse_seen(partials: Partials, world: World, source: Source | None) -> None:
    """A script is given partial items to look at. Raises UnknownInTest."""
    if source is not None and any(partials.has(json) for json in world.items):
        raise UnknownInTest(_words(source.step, None))
    _refuse_steps(partials, world, world.seen)


def _refuse_steps(partials: Partials, world: World, names: Iterable[str]) -> None:
    for name in names:
        seen = world.seen.get(name)
        for outputs in seen.runs if seen is not None else ():
            if any(partials.has(json) for items in outputs or () for json in items):
                raise UnknownInTest(_words(name, None))


def refuser(
    partials: Partials, templates: Sequence[Template], world: World, source: Source | None
) -> Callable[[int], None]:
    """Looks, for a place, whether an expression asks for what is not known. Raises UnknownInTest."""
    chunks = [(one, part) for one in templates for part in one.parts if isinstance(part, Chunk)]

    def at(place: int) -> None:
        for template, chunk in chunks:
            if chunk.path is not None:
                _refuse_path(partials, chunk, world, place, source)
            else:
                _refuse_script(partials, replace(template, parts=(chunk,)), world, place, source)

    return at if partials.known else lambda place: None


def _refuse_path(partials: Partials, chunk: Chunk, world: World, place: int, source: Source | None) -> None:
    path = chunk.path
    assert path is not None
    try:
        value = root_value(path, world, place)
    except NotThere:
        return
    if not partials.has(value) or not isinstance(value, Mapping):
        return
    name = path.keys[0] if path.keys else None
    if name is None or name not in value:
        of_input = path.root in (Root.JSON, Root.FIRST, Root.LAST)
        raise UnknownInTest(_words(source.step if of_input and source else path.step, name))


def _refuse_script(
    partials: Partials, template: Template, world: World, place: int, source: Source | None
) -> None:
    """As far as it can be told from its text: what may look at the whole counts as looking at it."""
    fields = message.fields_of([template])
    items = world.items if fields is None else world.items[place : place + 1]
    for json in items:
        missing = [name for name in sorted(fields or ()) if name not in json]
        if partials.has(json) and (fields is None or missing):
            raise UnknownInTest(_words(source.step if source else None, missing[0] if missing else None))
    _refuse_steps(partials, world, world.seen if template.steps is None else template.steps)


def _words(step: str | None, name: str | None) -> str:
    what = "all of it" if name is None else f"“{name[:80]}” of it"
    return (
        f"“{(step or 'The step before')[:80]}” was not really done in this test run, and only then is it "
        f"known what it hands on. This step reads {what}, so it was left out."
    )


def left_out(kind: StepType, step: PlanStep, inputs: Sequence[Items]) -> Outputs:
    """What goes on behind an execution that was left out: items nothing is known of, so that what only comes
    after it runs; nothing where it would have chosen a way, or how many there are."""
    ports = step.origin.ports if step.origin is not None else ()
    own = [port for port in ports if port != "error"]
    if len(own) != 1 or kind.takes(step) is Takes.WHOLE:
        return [[] for _ in ports]
    return [[Item({}, same(place), partial=True) for place in range(len(inputs[0]))]]
