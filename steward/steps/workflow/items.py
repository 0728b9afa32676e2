"""Items, what the steps of an imported workflow hand on, and where each came from (imports 3.1, 3.6)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from steward.model.json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Spot:
    """One item of the history: a step's run, its output and the item's place."""

    step: str
    run: int
    output: int
    item: int


# What an output item came from: an input item, (item, input), or one that came at an earlier run (loops).
Link: TypeAlias = tuple[int, int] | Spot


@dataclass(frozen=True, slots=True)
class Item:
    """One item; `paired` None: not known where it came from. `error`: it stands for a failure.

    `partial`: in a test run, that it may have fields that are not known (engine 10.2).
    """

    json: Mapping[str, JsonValue]
    paired: tuple[Link, ...] | None = None
    error: str | None = None
    partial: bool = False

    def kept(self) -> JsonValue:
        """As journaled."""
        paired: JsonValue = None if self.paired is None else [_kept(link) for link in self.paired]
        if self.partial:
            return [self.json, paired, self.error, True]
        return [self.json, paired] if self.error is None else [self.json, paired, self.error]


def _kept(link: Link) -> JsonValue:
    return [link.step, link.run, link.output, link.item] if isinstance(link, Spot) else list(link)


Items: TypeAlias = list[Item]
Outputs: TypeAlias = list[Items]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the items of one input came from: an output of one run of a step."""

    step: str
    output: int = 0
    run: int = 0


@dataclass(slots=True)
class Ran:
    """One run of a step, as later steps may look back at it. `outputs` None: it failed."""

    outputs: Outputs | None
    sources: Sequence[Source | None]
    error: str | None = None
    params: JsonObject = field(default_factory=dict)


# Every run of every step so far, the trigger among them, by step name and run index.
History: TypeAlias = dict[str, list[Ran]]


class Lost(Exception):
    """The item a step asks for cannot be told: pairing is missing on the way, or leads to several."""


def kept_outputs(outputs: Outputs) -> JsonValue:
    """Outputs as journaled."""
    return [[item.kept() for item in items] for items in outputs]


def read_outputs(kept: JsonValue) -> Outputs:
    """Outputs from the journal."""
    return [[_read(item) for item in items] for items in _lists(kept)]


def _lists(value: object) -> Sequence[Sequence[object]]:
    return value if isinstance(value, list) else []


def _read(kept: object) -> Item:
    parts = kept if isinstance(kept, list) else [{}, None]
    links = None if parts[1] is None else tuple(_link(link) for link in parts[1])
    return Item(parts[0], links, parts[2] if len(parts) > 2 else None, len(parts) > 3)


def _link(kept: Sequence[Any]) -> Link:
    return (kept[0], kept[1]) if len(kept) == 2 else Spot(kept[0], kept[1], kept[2], kept[3])


def of_trigger(objects: Iterable[JsonObject]) -> Items:
    """The items a trigger gives."""
    return [Item(json, ((place, 0),)) for place, json in enumerate(objects)]


def fill_pairing(outputs: Outputs, inputs: Sequence[Items]) -> Outputs:
    """Pairs what a type left unpaired: with one input item, or as many out as in (imports 3.6)."""
    given = [items for items in inputs if items]
    total = sum(len(items) for items in given)
    return [_fill(items, inputs, total) for items in outputs]


def _fill(items: Items, inputs: Sequence[Items], total: int) -> Items:
    if all(item.paired is not None for item in items):
        return items
    if total == 1:
        only = next(place for place, given in enumerate(inputs) if given)
        return [item if item.paired is not None else _paired(item, ((0, only),)) for item in items]
    if len(inputs) == 1 and len(items) == len(inputs[0]):
        return [
            item if item.paired is not None else _paired(item, ((place, 0),))
            for place, item in enumerate(items)
        ]
    return items


def _paired(item: Item, links: tuple[Link, ...]) -> Item:
    return Item(item.json, links, item.error, item.partial)


def trace(history: History, start: Spot, wanted: str) -> Spot | None:
    """The item of `wanted` that the item at `start` came from; None: it did not come through there.

    Raises Lost when pairing is missing on the way, or when it leads to several items (imports 3.6).
    """
    found: set[Spot] = set()
    seen: set[Spot] = set()
    open_: list[Spot] = [start]
    while open_:
        spot = open_.pop()
        if spot in seen:
            continue
        seen.add(spot)
        if spot.step == wanted:
            found.add(spot)
            continue
        open_ += _before(history, spot)
    if len(found) > 1:
        raise Lost(f"Several items of “{wanted}” lead to this item. Use .first(), .last() or .all().")
    return next(iter(found), None)


def _before(history: History, spot: Spot) -> list[Spot]:
    ran = history[spot.step][spot.run]
    if not ran.sources:
        return []  # a trigger: nothing lies before it
    item = _at(ran, spot)
    if item is None or item.paired is None:
        raise Lost(f"It cannot be told which item of “{spot.step}” this item came from.")
    found = []
    for link in item.paired:
        if isinstance(link, Spot):
            found.append(link)
            continue
        place, input_ = link
        source = ran.sources[input_] if input_ < len(ran.sources) else None
        if source is not None:
            found.append(Spot(source.step, source.run, source.output, place))
    return found


def _at(ran: Ran, spot: Spot) -> Item | None:
    if ran.outputs is None or spot.output >= len(ran.outputs) or spot.item >= len(ran.outputs[spot.output]):
        return None
    return ran.outputs[spot.output][spot.item]
