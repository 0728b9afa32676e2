"""Computes undos: inverses of parts, chains of parts on one value, and verdicts; pure."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol, TypeAlias

from steward.model.change import Change, Part
from steward.model.ids import IntegrationId
from steward.model.json import JsonValue

GONE = "It no longer exists."
CHANGED_SINCE = "It was changed since and is left as it is."
CHANGED_BETWEEN = "It was changed by something else while the run was in progress and is left as it is."
NEWER_LEFT = "A later change of the same object is left, so this one is left too."
TWICE = "The run changed it again later, so that it cannot be looked up."


@dataclass(frozen=True, slots=True)
class PutBack:
    """The part that undoes a part; `note` is a caveat shown beside the change."""

    part: Part
    note: str | None = None


@dataclass(frozen=True, slots=True)
class NeedsLookUp:
    """A part that can be undone once `Reader.look_up_inverses` has found an id, digest or position."""

    note: str | None = None


@dataclass(frozen=True, slots=True)
class NothingToUndo:
    """A part that leaves nothing to undo."""

    words: str


@dataclass(frozen=True, slots=True)
class Irreversible:
    """A part that cannot be undone; `words` is the reason for people."""

    words: str


Inverse: TypeAlias = PutBack | NeedsLookUp | NothingToUndo | Irreversible


@dataclass(frozen=True, slots=True)
class Undoability:
    """Whether a change can be undone later, and the reason or caveat shown beside it."""

    undoable: bool
    words: str | None


def undoability(inverses: Sequence[Inverse]) -> Undoability:
    """Returns whether a change with these parts can be undone: no part may be `Irreversible`."""
    for inverse in inverses:
        if isinstance(inverse, Irreversible):
            return Undoability(False, inverse.words)
    notes = [
        inverse.note for inverse in inverses if isinstance(inverse, PutBack | NeedsLookUp) and inverse.note
    ]
    return Undoability(True, " ".join(dict.fromkeys(notes)) or None)


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part of an earlier change that was or may have been written.

    `change` is the index of the change in its run, `number` that of the part in its change. `before` and
    `after` hold the single values that the part sets, by name: parts that share a name set the same value.
    """

    change: int
    number: int
    part: Part
    inverse: Inverse
    before: Mapping[str, JsonValue]
    after: Mapping[str, JsonValue]

    @property
    def key(self) -> tuple[int, int]:
        """The index of the change and the number of the part."""
        return self.change, self.number


@dataclass(frozen=True, slots=True)
class ValuesNow:
    """The current state of the values that a part set, by name."""

    values: Mapping[str, JsonValue]
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class ValueChain:
    """The parts of a run that set one value, from newest to oldest; there is at least one."""

    name: str
    parts: tuple[WrittenPart, ...]


@dataclass(frozen=True, slots=True)
class FoundInverse:
    """The result of a look-up: the parts that undo a part; `note` says what remains."""

    parts: tuple[Part, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RememberedValue:
    """A memory value that a change stored for its automation, and the value it replaced; None: nothing."""

    space: str
    key: str
    before: JsonValue
    after: JsonValue


@dataclass(frozen=True, slots=True)
class OriginalChange:
    """A change to undo, the numbers of its parts that were or may have been written, and its memory."""

    change: Change
    numbers: tuple[int, ...]
    memory: tuple[RememberedValue, ...] = ()


@dataclass(frozen=True, slots=True)
class OriginalRun:
    """The run that an undo undoes: its start in words, and its changes in order.

    `cannot` counts the changes that were made and cannot be undone.
    """

    began: str
    originals: tuple[OriginalChange, ...]
    cannot: int


class UndoSource(Protocol):
    """Provides the run and the changes that an undo run undoes."""

    async def original_run(self) -> OriginalRun:
        """Returns the run with the changes to undo."""
        ...


# The result of a look-up, or why there is nothing to undo.
LookUpResult: TypeAlias = FoundInverse | str
_Equality: TypeAlias = Callable[[Part, JsonValue, JsonValue], bool]
_PartKey: TypeAlias = tuple[int, int]
_Value: TypeAlias = tuple[IntegrationId, str]
# For one value: why it is left unchanged; True: to be undone; False: already undone; None: not changed.
_ValueVerdict: TypeAlias = str | bool | None


@dataclass(frozen=True, slots=True)
class ChangeVerdict:
    """The decision on one change: its `parts` are undone, are already undone (unchanged), or stay."""

    kind: Literal["put_back", "unchanged", "left"]
    parts: tuple[Part, ...] = ()
    words: str | None = None


def chains(written: Sequence[WrittenPart]) -> list[ValueChain]:
    """Returns the chain of each value that was set.

    Parts with nothing to undo are in no chain; a part that sets several values is in several.
    """
    by_value: dict[_Value, list[WrittenPart]] = defaultdict(list)
    for part in sorted(written, key=lambda part: part.key, reverse=True):
        if not isinstance(part.inverse, NothingToUndo):
            for name in part.after:
                by_value[part.part.integration_id, name].append(part)
    return [ValueChain(name, tuple(parts)) for (_, name), parts in by_value.items()]


def verdicts(
    written: Sequence[WrittenPart],
    now: Mapping[_PartKey, ValuesNow],
    look_ups: Mapping[_PartKey, LookUpResult],
    same: _Equality,
) -> dict[int, ChangeVerdict]:
    """Returns the decision of an undo on each change that has a written part.

    `now` holds the values of the newest part of each chain, `look_ups` the results of look-ups, both by
    change and number. `same(part, expected, actual)` compares values as the part's operation does.
    """
    all_chains = chains(written)
    value_verdicts: dict[_PartKey, dict[str, _ValueVerdict]] = defaultdict(dict)
    for chain in all_chains:
        for part, verdict in zip(chain.parts, _judged_values(chain, now, same), strict=True):
            value_verdicts[part.key][chain.name] = verdict
    judged = {
        part.key: _judged_part(part, value_verdicts[part.key].values(), look_ups)
        for part in written
        if part.key in value_verdicts
    }
    _leave_dependents(all_chains, value_verdicts, judged)
    by_change: dict[int, list[WrittenPart]] = defaultdict(list)
    for part in sorted(written, key=lambda part: part.key):
        by_change[part.change].append(part)
    return {change: _verdict(parts, judged, look_ups) for change, parts in by_change.items()}


def _judged_values(
    chain: ValueChain, now: Mapping[_PartKey, ValuesNow], same: _Equality
) -> list[_ValueVerdict]:
    """Returns the decision on the chain's value for each part; None if the part did not change it."""
    present = now[chain.parts[0].key]
    linked = _linked(chain, same)
    between: list[_ValueVerdict] = [CHANGED_BETWEEN for _ in chain.parts[len(linked) :]]
    already = None if present.is_gone else _parts_already_back(chain, len(linked), present, same)
    if already is None:
        return [GONE if present.is_gone else CHANGED_SINCE for _ in linked] + between
    judged: list[_ValueVerdict] = []
    for index, (part, was_written) in enumerate(zip(chain.parts, linked, strict=False)):
        is_change = not same(part.part, part.before[chain.name], part.after[chain.name])
        judged.append(index >= already and was_written if is_change else None)
    return judged + between


def _linked(chain: ValueChain, same: _Equality) -> list[bool]:
    """Returns which parts, from the newest on, were written; ends at a change by others between them.

    A part with an unknown outcome counts as not written if the next part found the value unchanged.
    """
    linked = [True]
    for newer, part in pairwise(chain.parts):
        next_found = newer.before[chain.name]
        if same(part.part, part.after[chain.name], next_found):
            linked.append(True)
        elif same(part.part, part.before[chain.name], next_found):
            linked.append(False)
        else:
            break
    return linked


def _parts_already_back(chain: ValueChain, linked: int, present: ValuesNow, same: _Equality) -> int | None:
    """Returns how many of the newest `linked` parts are already undone; None if the value is another."""
    value, newest = present.values[chain.name], chain.parts[0]
    if same(newest.part, newest.after[chain.name], value):
        return 0
    for index, part in enumerate(chain.parts[:linked]):
        if same(part.part, part.before[chain.name], value):
            return index + 1
    return None


def _judged_part(
    part: WrittenPart, value_verdicts: Collection[_ValueVerdict], look_ups: Mapping[_PartKey, LookUpResult]
) -> str | bool:
    """Returns why a part stays, or True for a part to undo, and False for one that is already undone.

    A part is one request: if only some of its values are already undone, it stays.
    """
    words = next((verdict for verdict in value_verdicts if isinstance(verdict, str)), None)
    if words is not None:
        return words
    if True not in value_verdicts:
        return False
    if False in value_verdicts:
        return CHANGED_SINCE
    return _obstacle(part, look_ups) or True


def _obstacle(part: WrittenPart, look_ups: Mapping[_PartKey, LookUpResult]) -> str | None:
    """Returns why a part whose written value is still there cannot be undone; None if it can."""
    match part.inverse:
        case Irreversible(words):
            return words
        case NeedsLookUp():
            looked_up = look_ups[part.key]
            return looked_up if isinstance(looked_up, str) else None
        case _:
            return None


def _leave_dependents(
    all_chains: Sequence[ValueChain],
    value_verdicts: Mapping[_PartKey, Mapping[str, _ValueVerdict]],
    judged: dict[_PartKey, str | bool],
) -> None:
    """Keeps older parts of a chain if the change of a newer part stays; repeats until nothing changes.

    A newer part that did not change the value, or whose value is already undone, does not matter.
    """
    moved = True
    while moved:
        left_changes = {change for (change, _), verdict in judged.items() if isinstance(verdict, str)}
        moved = False
        for chain in all_chains:
            is_blocked = False
            for part in chain.parts:
                if judged[part.key] is True and is_blocked:
                    judged[part.key] = NEWER_LEFT
                    moved = moved or part.change not in left_changes
                is_in_the_way = bool(value_verdicts[part.key][chain.name]) and part.change in left_changes
                is_blocked = is_blocked or is_in_the_way


def _verdict(
    parts: Sequence[WrittenPart],
    judged: Mapping[_PartKey, str | bool],
    look_ups: Mapping[_PartKey, LookUpResult],
) -> ChangeVerdict:
    valued = [part for part in parts if part.key in judged]
    for part in valued:
        verdict = judged[part.key]
        if isinstance(verdict, str):
            return ChangeVerdict("left", words=verdict)
    back = [part for part in valued if judged[part.key] is True]
    if not back:
        return ChangeVerdict("unchanged")
    return _put_back(_in_undo_order(back), look_ups)


def _in_undo_order(parts: Sequence[WrittenPart]) -> list[WrittenPart]:
    """Returns the parts of a change in their own order, but those that share a value newest first."""
    sharing: list[tuple[set[_Value], list[int]]] = []
    for index, part in enumerate(parts):
        names = {(part.part.integration_id, name) for name in part.after}
        joined = [group for group in sharing if not names.isdisjoint(group[0])]
        sharing = [group for group in sharing if group not in joined]
        indexes = sorted([*(number for group in joined for number in group[1]), index])
        sharing.append((names.union(*(group[0] for group in joined)), indexes))
    ordered = list(parts)
    for _, indexes in sharing:
        for index, other in zip(indexes, reversed(indexes), strict=True):
            ordered[index] = parts[other]
    return ordered


def _put_back(parts: Sequence[WrittenPart], look_ups: Mapping[_PartKey, LookUpResult]) -> ChangeVerdict:
    inverse_parts: list[Part] = []
    notes: list[str] = []
    for part in parts:
        if isinstance(part.inverse, PutBack):
            inverse_parts.append(part.inverse.part)
            continue
        looked_up = look_ups[part.key]
        assert isinstance(looked_up, FoundInverse)
        inverse_parts += looked_up.parts
        notes += [looked_up.note] if looked_up.note else []
    return ChangeVerdict("put_back", tuple(inverse_parts), " ".join(notes) or None)
