"""The two steps of an undo run: reading again what a run changed, and putting it back."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from steward.model.change import Action, Change, FieldChange, Outcome, Part, Proposal
from steward.model.ids import ChangeId, IntegrationId
from steward.model.json import JsonValue
from steward.model.run import Counts
from steward.model.undo import (
    ChangeVerdict,
    Found,
    Original,
    Seek,
    Sought,
    UndoSource,
    ValueNow,
    WrittenPart,
    chains,
    verdicts,
)
from steward.steps.base import AccountAccess, MemoryWrite, StepContext, StepOutput, StepResult

READ, PUT_BACK = "read", "put_back"
_READ_TOGETHER = 100
_SHOWN_CHARACTERS = 60
# What undoes an action, as people read it; everything else is an update.
_BACK = {
    Action.PUBLISH: Action.UNPUBLISH,
    Action.UNPUBLISH: Action.PUBLISH,
    Action.CREATE: Action.DELETE,
    Action.DELETE: Action.CREATE,
}
_DELETIONS = frozenset({"sheet.delete_rows", "metafield.delete", "redirect.delete"})
_OUTCOMES: Mapping[str, Outcome] = {"unchanged": Outcome.UNCHANGED, "left": Outcome.CONFLICT}


class FoundValues(StepOutput, frozen=True):
    """What the first step hands on: the parts that were written, and what was read of them.

    `parts` holds the numbers of the written parts of each change, `values` and `sought` what was found of the
    newest part of each chain, all by the id of the change; `cannot` counts what cannot be undone.
    """

    parts: list[tuple[str, list[int]]] = msgspec.field(default_factory=list)
    values: list[tuple[str, int, Any, bool]] = msgspec.field(default_factory=list)
    sought: list[tuple[str, int, str | None, list[dict[str, Any]], str | None]] = msgspec.field(
        default_factory=list
    )
    cannot: int = 0


@dataclass(frozen=True, slots=True)
class _Undo:
    """The originals of an undo, newest last, and their written parts."""

    originals: Sequence[Original]
    written: Sequence[WrittenPart]

    def id_of(self, each: WrittenPart) -> ChangeId:
        """Returns the id of the change that a part belongs to."""
        return self.originals[each.change].change.id


async def read(ctx: StepContext) -> StepResult:
    """Reads the value of the newest part of each chain again, and looks up ids and digests."""
    run = await _source(ctx).original_run()
    originals = [original for original in run.originals if original.numbers]
    undo = _Undo(originals, _written(ctx, originals))
    newest: dict[IntegrationId, list[WrittenPart]] = defaultdict(list)
    for chain in chains(undo.written):
        newest[chain[0].part.integration_id].append(chain[0])
    found = FoundValues(
        parts=[(original.change.id, list(original.numbers)) for original in originals],
        cannot=run.cannot,
    )
    for integration, parts in newest.items():
        await _read_account(_account(ctx, integration), parts, undo, found)
    count = len({each.part.target for parts in newest.values() for each in parts})
    objects = "1 object" if count == 1 else f"{count} objects"
    return found.as_result(f"Read {objects} again", read=count)


async def _read_account(
    account: AccountAccess, parts: Sequence[WrittenPart], undo: _Undo, found: FoundValues
) -> None:
    seekers = [each for each in parts if isinstance(each.inverse, Seek)]
    answers = await account.reader.seek([each.part for each in seekers]) if seekers else []
    looked_up: set[tuple[int, int]] = set()
    for each, answer in zip(seekers, answers, strict=True):
        words, wires, note = _stored(answer)
        found.sought.append((undo.id_of(each), each.number, words, wires, note))
        if isinstance(answer, Found):  # found as it was written
            looked_up.add((each.change, each.number))
            found.values.append((undo.id_of(each), each.number, each.part.after, False))
    others = [each for each in parts if (each.change, each.number) not in looked_up]
    for start in range(0, len(others), _READ_TOGETHER):
        page = others[start : start + _READ_TOGETHER]
        values = await account.reader.current([each.part for each in page])
        for each, now in zip(page, values, strict=True):
            found.values.append((undo.id_of(each), each.number, now.value, now.is_gone))


def _stored(answer: Sought) -> tuple[str | None, list[dict[str, JsonValue]], str | None]:
    if isinstance(answer, str):
        return answer, [], None
    return None, [dict(part.wire()) for part in answer.parts], answer.note


async def put_back(ctx: StepContext) -> StepResult:
    """Proposes what puts the changes back, newest first; what is back already or left is listed with them."""
    run, found = await _source(ctx).original_run(), ctx.output(READ, FoundValues)
    by_id = {original.change.id: original for original in run.originals}
    originals = [replace(by_id[ChangeId(change)], numbers=tuple(numbers)) for change, numbers in found.parts]
    written = _written(ctx, originals)
    index = {original.change.id: number for number, original in enumerate(originals)}
    now = {
        (index[ChangeId(change)], number): ValueNow(value, is_gone)
        for change, number, value, is_gone in found.values
    }
    sought = {
        (index[ChangeId(change)], number): _sought(words, wires, note)
        for change, number, words, wires, note in found.sought
    }

    def same(part: Part, expected: JsonValue, actual: JsonValue) -> bool:
        return _account(ctx, part.integration_id).changes[part.operation].same(expected, actual)

    judged = verdicts(written, now, sought, same)
    proposals: list[Proposal] = []
    known: dict[int, Outcome] = {}
    memory: list[MemoryWrite] = []
    for number in sorted(judged, reverse=True):
        verdict, position = judged[number], len(proposals)
        proposals.append(_proposal(run.began, originals[number].change, verdict))
        if verdict.kind in _OUTCOMES:
            known[position] = _OUTCOMES[verdict.kind]
        memory += _forgotten(originals[number], position)
    result = StepResult({}, counts=Counts(matched=len(proposals)), proposals=tuple(proposals))
    return replace(result, memory=tuple(memory), known=known)


def _source(ctx: StepContext) -> UndoSource:
    if ctx.undo is None:
        raise ValueError("this run is no undo")
    return ctx.undo


def _account(ctx: StepContext, integration: IntegrationId) -> AccountAccess:
    if ctx.store is not None and ctx.store.connection.integration_id == integration:
        return ctx.store
    return ctx.accounts[integration]


def _written(ctx: StepContext, originals: Sequence[Original]) -> list[WrittenPart]:
    written: list[WrittenPart] = []
    for index, original in enumerate(originals):
        for number in original.numbers:
            part = original.change.proposal.parts[number - 1]
            operation = _account(ctx, part.integration_id).changes[part.operation]
            written.append(
                WrittenPart(index, number, part, operation.inverse(part), operation.value_key(part))
            )
    return written


def _sought(words: str | None, wires: Iterable[Mapping[str, JsonValue]], note: str | None) -> Sought:
    return words if words is not None else Found(tuple(Part.from_wire(wire) for wire in wires), note)


def _proposal(began: str, change: Change, verdict: ChangeVerdict) -> Proposal:
    original = change.proposal
    words: list[str | None] = [verdict.words]
    if verdict.kind == "put_back":
        words = [f"Puts back a change of the run of {began}.", verdict.words]
    elif verdict.kind == "unchanged":
        words = ["It is as it was before already."]
    return Proposal(
        object=original.object,
        action=_action(original.action, verdict.parts),
        fields=tuple(_swapped(field) for field in original.fields),
        parts=verdict.parts,
        integration_id=original.integration_id,
        message=" ".join(word for word in words if word) or None,
        undo_of=change.id,
    )


def _action(original: Action, parts: Sequence[Part]) -> Action:
    if any(part.operation in _DELETIONS for part in parts):
        return Action.DELETE
    return _BACK.get(original, Action.UPDATE)


def _swapped(field: FieldChange) -> FieldChange:
    return replace(field, before=field.after, after=field.before)


def _forgotten(original: Original, position: int) -> list[MemoryWrite]:
    """Returns what the automation remembers again once the change is put back, the newest value first."""
    return [
        MemoryWrite(
            each.space,
            each.key,
            each.before,
            position,
            (Outcome.APPLIED, Outcome.UNCHANGED),
            is_guarded=True,
            over=each.after,
        )
        for each in reversed(original.memory)
    ]
