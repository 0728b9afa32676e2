"""Templates of paths alone, worked out in this process (imports 5.3); leaves the rest to the child."""

from collections.abc import Sequence

from steward.model.json import JsonObject
from steward.sandbox.protocol import MEMORY, MESSAGE_BYTES, WORDS
from steward.steps.workflow.expressions.paths import UNDEFINED, Inherited, Path, Root, Value, as_text, follow
from steward.steps.workflow.expressions.template import Lang, Template
from steward.steps.workflow.expressions.views import CodeStopped, Fault, Outcome, Seen, Unpaired, World


class NotThere(Exception):
    """An expression error: what a path begins at is not there."""


def natively(template: Template, world: World, places: Sequence[int]) -> list[Outcome] | None:
    """What a template comes to for each place, or None when JavaScript has a say in it."""
    if template.lang is Lang.LITERAL:
        return [text_of_literal(template)] * len(places)
    if template.lang is not Lang.PATH:
        return None
    try:
        if template.typed:
            return _typed(template, world, places)
        return _each_joined(template, world, places)
    except Inherited:
        return None


def text_of_literal(template: Template) -> str:
    """The text of a template without chunks."""
    return "".join(part for part in template.parts if isinstance(part, str))


def _typed(template: Template, world: World, places: Sequence[int]) -> list[Outcome]:
    part = template.parts[0]
    path = None if isinstance(part, str) else part.path
    if path is None:
        raise Inherited(template.text)
    if path.root is Root.JSON:
        items, keys = world.items, path.keys
        return [follow(items[place], keys) if place < len(items) else UNDEFINED for place in places]
    return [_outcome(path, world, place) for place in places]


def _outcome(path: Path, world: World, place: int) -> Outcome:
    try:
        return follow(root_value(path, world, place), path.keys)
    except NotThere as wrong:
        return Fault(str(wrong))


def _each_joined(template: Template, world: World, places: Sequence[int]) -> list[Outcome]:
    """Raises CodeStopped for more text than a message could bring (imports 5.3)."""
    made: list[Outcome] = []
    left = MESSAGE_BYTES
    for place in places:
        made.append(one := _joined(template, world, place, left))
        left -= len(one) if isinstance(one, str) else 0
    return made


def _joined(template: Template, world: World, place: int, left: int) -> Outcome:
    parts: list[str] = []
    try:
        for part in template.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            if part.path is None:
                raise Inherited(part.code)
            text = as_text(follow(root_value(part.path, world, place), part.path.keys))
            if text is None:
                raise Inherited(part.code)
            parts.append(text)
            left -= len(text)
            if left < 0:
                raise CodeStopped(MEMORY, WORDS[MEMORY])
    except NotThere as wrong:
        return Fault(str(wrong))
    return "".join(parts)


def root_value(path: Path, world: World, place: int) -> Value:
    """What the path begins at. Raises NotThere."""
    items = world.items
    match path.root:
        case Root.JSON:
            return items[place] if place < len(items) else UNDEFINED
        case Root.ITEM_INDEX:
            return place
        case Root.RUN_INDEX:
            return world.scope.run_index
        case Root.FIRST:
            return items[0] if items else UNDEFINED
        case Root.LAST:
            return items[-1] if items else UNDEFINED
    return _of_step(path.root, path.step or "", world, place)


def _of_step(root: Root, name: str, world: World, place: int) -> Value:
    if name not in world.names and name not in world.seen:
        raise NotThere(f"There is no step “{name}”. Check the name.")
    seen = world.seen.get(name)
    if seen is None:
        raise NotThere(f"The step “{name}” has not run, so it has no items yet. Ask with isExecuted first.")
    if root is Root.STEP_ITEM:
        return _paired(seen, name, world, place)
    outputs = seen.runs[-1] if seen.runs else None
    items: Sequence[JsonObject] = outputs[seen.branch] if outputs and seen.branch < len(outputs) else ()
    if root is Root.NODE:
        if place >= len(items):
            raise NotThere(f"The step “{name}” has no item {place}. Use .first(), .last() or .all().")
        return items[place]
    if not items:
        return UNDEFINED
    return items[0 if root is Root.STEP_FIRST else -1]


def _paired(seen: Seen, name: str, world: World, place: int) -> Value:
    if place >= len(world.items):
        raise NotThere(f"There is no item {place} to find the one of “{name}” by.")
    spot = world.pairing(name, place)
    if isinstance(spot, Unpaired):
        raise NotThere(spot.message)
    if spot is None:
        return UNDEFINED
    run, output, item = spot
    outputs = seen.runs[run] if run < len(seen.runs) else None
    if not outputs or output >= len(outputs) or item >= len(outputs[output]):
        return UNDEFINED
    return outputs[output][item]
