"""What puts changes back: inverses of parts, chains of parts on one value, and verdicts; pure."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol, TypeAlias

from steward.model.change import Change, Part
from steward.model.ids import IntegrationId
from steward.model.json import JsonValue

GONE = "It no longer exists."
CHANGED_SINCE = "It was changed since and is left as it is."
CHANGED_BETWEEN = "It was changed by something else while the run was going on, and is left as it is."
NEWER_LEFT = "A later change of the same object is left, so this one is left too."
TWICE = "The run changed it twice, and only the later change can be looked up."


@dataclass(frozen=True, slots=True)
class PutBack:
    """The part that puts a part back; `note` is a caveat shown beside the change."""

    part: Part
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Seek:
    """A part can be put back once an id, a digest or a place was looked up (`Reader.seek`)."""

    note: str | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """The part leaves nothing that has to be put back."""

    words: str


@dataclass(frozen=True, slots=True)
class Never:
    """The part cannot be undone; `words` is the reason that people read."""

    words: str


Inverse: TypeAlias = PutBack | Seek | Nothing | Never


@dataclass(frozen=True, slots=True)
class Undoability:
    """Whether a change can be undone later, and the reason or caveat shown beside it."""

    undoable: bool
    words: str | None


def undoability(inverses: Sequence[Inverse]) -> Undoability:
    """Returns whether a change with these parts can be undone: no part of it may be `Never`."""
    for inverse in inverses:
        if isinstance(inverse, Never):
            return Undoability(False, inverse.words)
    notes = [inverse.note for inverse in inverses if isinstance(inverse, PutBack | Seek) and inverse.note]
    return Undoability(True, " ".join(dict.fromkeys(notes)) or None)


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part of an earlier change that was or may have been written.

    `change` counts the changes of the run in their order, `number` the parts of the change. Parts with the
    same `value_key` set the same value of the same object.
    """

    change: int
    number: int
    part: Part
    inverse: Inverse
    value_key: str


@dataclass(frozen=True, slots=True)
class ValueNow:
    """The value that a part set, as it is now."""

    value: JsonValue
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a look-up gave: the parts that put a part back; `note` tells what of it is left."""

    parts: tuple[Part, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Remembered:
    """A value that a change made its automation remember, and what was there before; None: nothing."""

    space: str
    key: str
    before: JsonValue
    after: JsonValue


@dataclass(frozen=True, slots=True)
class Original:
    """A change to undo, the numbers of its parts that were or may have been written, and its memory."""

    change: Change
    numbers: tuple[int, ...]
    memory: tuple[Remembered, ...] = ()


@dataclass(frozen=True, slots=True)
class OriginalRun:
    """The run that an undo puts back: when it began, as people read it, and its changes in their order.

    `cannot` counts the changes that were made and cannot be undone.
    """

    began: str
    originals: tuple[Original, ...]
    cannot: int


class UndoSource(Protocol):
    """Where an undo run reads what it puts back."""

    async def original_run(self) -> OriginalRun:
        """Returns the run with the changes to undo."""
        ...


# What a look-up gave, or why there is nothing to put back.
Sought: TypeAlias = Found | str
Same: TypeAlias = Callable[[Part, JsonValue, JsonValue], bool]
_Place: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ChangeVerdict:
    """What an undo does with one change: put its `parts` back, nothing as it is back already, or leave it."""

    kind: Literal["put_back", "unchanged", "left"]
    parts: tuple[Part, ...] = ()
    words: str | None = None


def chains(written: Sequence[WrittenPart]) -> list[list[WrittenPart]]:
    """Returns the parts that set the same value, each chain from its newest part to its oldest.

    Parts that leave nothing to put back are in no chain.
    """
    by_value: dict[tuple[IntegrationId, str], list[WrittenPart]] = defaultdict(list)
    for each in sorted(written, key=lambda each: (each.change, each.number), reverse=True):
        if not isinstance(each.inverse, Nothing):
            by_value[each.part.integration_id, each.value_key].append(each)
    return list(by_value.values())


def verdicts(
    written: Sequence[WrittenPart],
    now: Mapping[_Place, ValueNow],
    sought: Mapping[_Place, Sought],
    same: Same,
) -> dict[int, ChangeVerdict]:
    """Returns what an undo does with each change that has a written part.

    `now` holds the value of the newest part of each chain, `sought` what was looked up, both by change and
    number. `same(part, expected, actual)` compares values as the part's operation does.
    """
    judged: dict[_Place, str | bool] = {}  # words: left; True: to be put back; False: back already
    all_chains = chains(written)
    for chain in all_chains:
        judged |= _judged_chain(chain, now[_place(chain[0])], sought, same)
    _leave_what_hangs_on_left(all_chains, judged)
    by_change: dict[int, list[WrittenPart]] = defaultdict(list)
    for each in sorted(written, key=_place):
        by_change[each.change].append(each)
    return {change: _verdict(parts, judged, sought) for change, parts in by_change.items()}


def _place(each: WrittenPart) -> _Place:
    return each.change, each.number


def _judged_chain(
    chain: Sequence[WrittenPart], now: ValueNow, sought: Mapping[_Place, Sought], same: Same
) -> dict[_Place, str | bool]:
    linked = _linked(chain, same)
    judged: dict[_Place, str | bool] = {_place(each): CHANGED_BETWEEN for each in chain[len(linked) :]}
    chain = chain[: len(linked)]
    already = None if now.is_gone else _parts_already_back(chain, now.value, same)
    for index, (each, was_written) in enumerate(zip(chain, linked, strict=True)):
        if already is None:
            judged[_place(each)] = GONE if now.is_gone else CHANGED_SINCE
        elif index < already or not was_written:
            judged[_place(each)] = False
        else:
            judged[_place(each)] = _obstacle(each, index == 0, sought) or True
    return judged


def _linked(chain: Sequence[WrittenPart], same: Same) -> list[bool]:
    """Returns of the parts from the newest on whether they were written, up to a change between them.

    A part of which that is unknown left the value as it was where the next part found it so.
    """
    linked = [True]
    for newer, each in pairwise(chain):
        if same(each.part, each.part.after, newer.part.before):
            linked.append(True)
        elif same(each.part, each.part.before, newer.part.before):
            linked.append(False)
        else:
            break
    return linked


def _parts_already_back(chain: Sequence[WrittenPart], value: JsonValue, same: Same) -> int | None:
    """Returns how many parts from the newest on are back already; None for a value that no part left."""
    if same(chain[0].part, chain[0].part.after, value):
        return 0
    for index, each in enumerate(chain):
        if same(each.part, each.part.before, value):
            return index + 1
    return None


def _obstacle(each: WrittenPart, is_newest: bool, sought: Mapping[_Place, Sought]) -> str | None:
    """Returns why a part whose value is as it was written cannot be put back, or None."""
    match each.inverse:
        case Never(words):
            return words
        case Seek():
            if not is_newest:
                return TWICE
            found = sought[_place(each)]
            return found if isinstance(found, str) else None
        case _:
            return None


def _leave_what_hangs_on_left(
    all_chains: Sequence[Sequence[WrittenPart]], judged: dict[_Place, str | bool]
) -> None:
    """Leaves the older parts of a chain whose newer part is left with its change, until nothing changes."""
    moved = True
    while moved:
        left = {change for (change, _), verdict in judged.items() if isinstance(verdict, str)}
        moved = False
        for chain in all_chains:
            is_blocked = False
            for each in chain:
                verdict = judged[_place(each)]
                if verdict is True and is_blocked:
                    judged[_place(each)] = NEWER_LEFT
                    moved = moved or each.change not in left
                is_blocked = is_blocked or (verdict is not False and each.change in left)


def _verdict(
    parts: Sequence[WrittenPart], judged: Mapping[_Place, str | bool], sought: Mapping[_Place, Sought]
) -> ChangeVerdict:
    valued = [each for each in parts if _place(each) in judged]
    for each in valued:
        verdict = judged[_place(each)]
        if isinstance(verdict, str):
            return ChangeVerdict("left", words=verdict)
    back = [each for each in valued if judged[_place(each)] is True]
    if not back:
        return ChangeVerdict("unchanged")
    return _put_back(_in_undo_order(back), sought)


def _in_undo_order(parts: Sequence[WrittenPart]) -> list[WrittenPart]:
    """Returns the parts of a change in their own order, those that set the same value newest first."""
    newest_first: dict[tuple[IntegrationId, str], list[WrittenPart]] = defaultdict(list)
    for each in parts:
        newest_first[each.part.integration_id, each.value_key].append(each)
    return [newest_first[each.part.integration_id, each.value_key].pop() for each in parts]


def _put_back(parts: Sequence[WrittenPart], sought: Mapping[_Place, Sought]) -> ChangeVerdict:
    inverse_parts: list[Part] = []
    notes: list[str] = []
    for each in parts:
        if isinstance(each.inverse, PutBack):
            inverse_parts.append(each.inverse.part)
            continue
        found = sought[_place(each)]
        assert isinstance(found, Found)
        inverse_parts += found.parts
        notes += [found.note] if found.note else []
    return ChangeVerdict("put_back", tuple(inverse_parts), " ".join(notes) or None)
