"""The two steps of an undo run: read the changed values again, and propose to put them back."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from steward.model.change import Action, Change, FieldChange, Outcome, Part, Proposal
from steward.model.ids import ChangeId, IntegrationId
from steward.model.json import AnyJson, JsonValue
from steward.model.run import Counts
from steward.model.undo import (
    CHANGED_SINCE,
    ChangeVerdict,
    FoundInverse,
    LookUpResult,
    NeedsLookUp,
    OriginalChange,
    UndoSource,
    ValueChain,
    ValuesNow,
    WrittenPart,
    chains,
    verdicts,
)
from steward.steps.base import AccountAccess, MemoryWrite, StepContext, StepOutput, StepResult

READ, PUT_BACK = "read", "put_back"
_READ_TOGETHER = 100
_SHOWN_CHARACTERS = 60
# The action that undoes an action; for all others it is an update.
_BACK = {
    Action.PUBLISH: Action.UNPUBLISH,
    Action.UNPUBLISH: Action.PUBLISH,
    Action.CREATE: Action.DELETE,
    Action.DELETE: Action.CREATE,
}
_DELETIONS = frozenset({"sheet.delete_rows", "metafield.delete", "redirect.delete"})
_OUTCOMES: Mapping[str, Outcome] = {"unchanged": Outcome.UNCHANGED, "left": Outcome.CONFLICT}


class ReadValues(StepOutput, frozen=True):
    """The output of the first step: the written parts and their current values.

    `parts` holds the numbers of each change's written parts, `values` the current value of each chain's
    newest part, `look_ups` the results of look-ups, all by change id; `cannot` counts the changes that cannot
    be undone.
    """

    parts: list[tuple[str, list[int]]] = msgspec.field(default_factory=list)
    values: list[tuple[str, int, AnyJson, bool]] = msgspec.field(default_factory=list)
    look_ups: list[tuple[str, int, str | None, list[dict[str, AnyJson]], str | None]] = msgspec.field(
        default_factory=list
    )
    cannot: int = 0


@dataclass(frozen=True, slots=True)
class _Undo:
    """The original changes of an undo, newest last, and their written parts."""

    originals: Sequence[OriginalChange]
    written: Sequence[WrittenPart]

    def id_of(self, part: WrittenPart) -> ChangeId:
        """Returns the id of the change that a part belongs to."""
        return self.originals[part.change].change.id


@dataclass(slots=True)
class _ToRead:
    """The parts of one account to read: the newest of each chain, and the parts that these overwrote."""

    newest: dict[tuple[int, int], WrittenPart] = field(default_factory=dict)
    overwritten: dict[tuple[int, int], WrittenPart] = field(default_factory=dict)

    def add(self, chain: ValueChain) -> None:
        """Adds the parts of a chain."""
        newest, *older = chain.parts
        self.newest[newest.key] = newest
        self.overwritten |= {part.key: part for part in older}


async def read(ctx: StepContext) -> StepResult:
    """Reads the current value of each chain's newest part, and looks up missing ids and digests."""
    run = await _source(ctx).original_run()
    originals = [original for original in run.originals if original.numbers]
    undo = _Undo(originals, _written(ctx, originals))
    by_account: dict[IntegrationId, _ToRead] = defaultdict(_ToRead)
    for chain in chains(undo.written):
        by_account[chain.parts[0].part.integration_id].add(chain)
    values = ReadValues(
        parts=[(original.change.id, list(original.numbers)) for original in originals],
        cannot=run.cannot,
    )
    for integration, to_read in by_account.items():
        await _read_account(_account(ctx, integration), to_read, undo, values)
    count = len({part.part.target for to_read in by_account.values() for part in to_read.newest.values()})
    objects = "1 object" if count == 1 else f"{count} objects"
    return values.as_result(f"Read {objects} again", read=count)


async def _read_account(
    account: AccountAccess, to_read: _ToRead, undo: _Undo, values_now: ReadValues
) -> None:
    looked_up = await _look_up(account, list(to_read.newest.values()), undo, values_now)
    overwritten = [part for key, part in to_read.overwritten.items() if key not in to_read.newest]
    await _look_up(account, overwritten, undo, values_now, is_overwritten=True)
    for key in looked_up:  # the look-up found the written value unchanged
        part = to_read.newest.pop(key)
        values_now.values.append((undo.id_of(part), part.number, part.part.after, False))
    others = list(to_read.newest.values())
    for start in range(0, len(others), _READ_TOGETHER):
        page = others[start : start + _READ_TOGETHER]
        values = await account.reader.current([part.part for part in page])
        for part, now in zip(page, values, strict=True):
            values_now.values.append((undo.id_of(part), part.number, now.value, now.is_gone))


async def _look_up(
    account: AccountAccess,
    parts: Sequence[WrittenPart],
    undo: _Undo,
    values: ReadValues,
    *,
    is_overwritten: bool = False,
) -> list[tuple[int, int]]:
    """Stores the look-up results of the parts and returns the keys of the parts whose inverse was found."""
    to_look_up = [part for part in parts if isinstance(part.inverse, NeedsLookUp)]
    if not to_look_up:
        return []
    look_up_results = await account.reader.look_up_inverses(
        [part.part for part in to_look_up], is_overwritten=is_overwritten
    )
    for part, result in zip(to_look_up, look_up_results, strict=True):
        values.look_ups.append((undo.id_of(part), part.number, *_stored(result)))
    return [
        part.key
        for part, result in zip(to_look_up, look_up_results, strict=True)
        if isinstance(result, FoundInverse)
    ]


def _stored(result: LookUpResult) -> tuple[str | None, list[dict[str, JsonValue]], str | None]:
    if isinstance(result, str):
        return result, [], None
    return None, [dict(part.wire()) for part in result.parts], result.note


async def put_back(ctx: StepContext) -> StepResult:
    """Proposes to put the changes back, newest first; also lists those already back or left alone."""
    run, read_values = await _source(ctx).original_run(), ctx.output(READ, ReadValues)
    by_id = {original.change.id: original for original in run.originals}
    originals = [
        replace(by_id[ChangeId(change)], numbers=tuple(numbers)) for change, numbers in read_values.parts
    ]
    written = _written(ctx, originals)
    index = {original.change.id: number for number, original in enumerate(originals)}
    parts = {part.key: part.part for part in written}
    now = _values_now(ctx, read_values, index, parts)
    look_ups = _looked_up(read_values, index)

    def same(part: Part, expected: JsonValue, actual: JsonValue) -> bool:
        return _account(ctx, part.integration_id).changes[part.operation].same(expected, actual)

    judged = verdicts(written, now, look_ups, same)
    proposals: list[Proposal] = []
    outcomes: dict[int, Outcome] = {}
    memory: list[MemoryWrite] = []
    for number in sorted(judged, reverse=True):
        verdict, position = judged[number], len(proposals)
        if verdict.words == CHANGED_SINCE:
            values = [now[number, part].values for part in originals[number].numbers if (number, part) in now]
            verdict = replace(verdict, words=_with_values(CHANGED_SINCE, values))
        proposals.append(_proposal(run.began, originals[number].change, verdict))
        if verdict.kind in _OUTCOMES:
            outcomes[position] = _OUTCOMES[verdict.kind]
        memory += _forgotten(originals[number], position)
    result = StepResult({}, counts=Counts(matched=len(proposals)), proposals=tuple(proposals))
    return replace(result, memory=tuple(memory), known=outcomes)


def _values_now(
    ctx: StepContext,
    read_values: ReadValues,
    index: Mapping[ChangeId, int],
    parts: Mapping[tuple[int, int], Part],
) -> dict[tuple[int, int], ValuesNow]:
    """Returns the current values of the parts, by index of the change and number of the part."""
    now: dict[tuple[int, int], ValuesNow] = {}
    for change, number, value, is_gone in read_values.values:
        key = index[ChangeId(change)], number
        now[key] = ValuesNow({} if is_gone else _values(ctx, parts[key], value), is_gone)
    return now


def _looked_up(read_values: ReadValues, index: Mapping[ChangeId, int]) -> dict[tuple[int, int], LookUpResult]:
    """Returns the look-up results of the parts, by index of the change and number of the part."""
    return {
        (index[ChangeId(change)], number): _look_up_result(words, wires, note)
        for change, number, words, wires, note in read_values.look_ups
    }


def _source(ctx: StepContext) -> UndoSource:
    if ctx.undo is None:
        raise ValueError("this run is not an undo")
    return ctx.undo


def _account(ctx: StepContext, integration: IntegrationId) -> AccountAccess:
    if ctx.store is not None and ctx.store.connection.integration_id == integration:
        return ctx.store
    return ctx.accounts[integration]


def _written(ctx: StepContext, originals: Sequence[OriginalChange]) -> list[WrittenPart]:
    written: list[WrittenPart] = []
    for index, original in enumerate(originals):
        for number in original.numbers:
            part = original.change.proposal.parts[number - 1]
            inverse = _account(ctx, part.integration_id).changes[part.operation].inverse(part)
            before, after = _values(ctx, part, part.before), _values(ctx, part, part.after)
            written.append(WrittenPart(index, number, part, inverse, before, after))
    return written


def _values(ctx: StepContext, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
    return _account(ctx, part.integration_id).changes[part.operation].values(part, value)


def _look_up_result(
    words: str | None, wires: Iterable[Mapping[str, JsonValue]], note: str | None
) -> LookUpResult:
    return words if words is not None else FoundInverse(tuple(Part.from_wire(wire) for wire in wires), note)


def _proposal(began: str, change: Change, verdict: ChangeVerdict) -> Proposal:
    original = change.proposal
    words: list[str | None] = [verdict.words]
    if verdict.kind == "put_back":
        words = [f"Puts back a change of the run of {began}.", verdict.words]
    elif verdict.kind == "unchanged":
        words = ["It already has its earlier value."]
    return Proposal(
        object=original.object,
        action=_action(original.action, verdict.parts),
        fields=tuple(_swapped(field) for field in original.fields),
        parts=verdict.parts,
        integration_id=original.integration_id,
        message=" ".join(word for word in words if word) or None,
        undo_of=change.id,
    )


def _with_values(words: str, values_by_field: Sequence[Mapping[str, JsonValue]]) -> str:
    """Appends the current values of a change to the text if they are short."""
    texts = [text for values in values_by_field for value in values.values() for text in _texts(value)]
    listed = ", ".join(dict.fromkeys(texts))
    return f"{words} It is {listed} now." if 0 < len(listed) <= _SHOWN_CHARACTERS else words


def _texts(value: JsonValue) -> list[str]:
    """Returns the texts and numbers within a value; omits booleans, which mean nothing on their own."""
    if isinstance(value, Mapping):
        return [text for member in value.values() for text in _texts(member)]
    if isinstance(value, list | tuple):
        return [text for member in value for text in _texts(member)]
    return [] if value is None or isinstance(value, bool) or value == "" else [str(value)]


def _action(original: Action, parts: Sequence[Part]) -> Action:
    if any(part.operation in _DELETIONS for part in parts):
        return Action.DELETE
    return _BACK.get(original, Action.UPDATE)


def _swapped(field: FieldChange) -> FieldChange:
    return replace(field, before=field.after, after=field.before)


def _forgotten(original: OriginalChange, position: int) -> list[MemoryWrite]:
    """Returns the writes that restore the automation's memory, newest first, once a change is put back."""
    return [
        MemoryWrite(
            remembered.space,
            remembered.key,
            remembered.before,
            position,
            (Outcome.APPLIED, Outcome.UNCHANGED),
            is_guarded=True,
            over=remembered.after,
        )
        for remembered in reversed(original.memory)
    ]
