"""What an undo does with each change of a run, against a plain dictionary that stands for the store.

`UNDO_RUNS=100000` draws so many random runs, by `UNDO_EDITS_SEED`.
"""

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from steward.connectors.base.undoing import mirrored
from steward.model.change import Part
from steward.model.ids import IntegrationId
from steward.model.json import JsonValue
from steward.model.undo import (
    CHANGED_BETWEEN,
    CHANGED_SINCE,
    GONE,
    NEWER_LEFT,
    TWICE,
    ChangeVerdict,
    Found,
    Never,
    Nothing,
    PutBack,
    Seek,
    ValuesNow,
    WrittenPart,
    chains,
    verdicts,
)

STORE = IntegrationId(1)
CASES = int(os.environ.get("UNDO_RUNS", "1000"))
SEED = os.environ.get("UNDO_EDITS_SEED", "undo")
_NEVER_SET = -1


def written(
    change: int, number: int, name: str, before: int, after: int, *, looked_up: bool = False
) -> WrittenPart:
    """A part that set the value `name`."""
    return setting(change, number, {name: before}, {name: after}, looked_up=looked_up)


def setting(
    change: int, number: int, before: Mapping[str, int], after: Mapping[str, int], *, looked_up: bool = False
) -> WrittenPart:
    """A part that set several values in one request."""
    part = Part("set", STORE, ",".join(after), {}, dict(before), dict(after))
    inverse = Seek() if looked_up else PutBack(mirrored(part, {}))
    return WrittenPart(change, number, part, inverse, before, after)


def equal(_: Part, expected: JsonValue, actual: JsonValue) -> bool:
    """Values are equal as they are."""
    return expected == actual


def judged(parts: Sequence[WrittenPart], store: Mapping[str, int]) -> dict[int, ChangeVerdict]:
    """The verdicts, each chain's newest part read from `store`."""
    now = {
        part.place: ValuesNow(
            {name: store[name] for name in part.after if name in store},
            is_gone=not store.keys() >= part.after.keys(),
        )
        for part in (chain.parts[0] for chain in chains(parts))
    }
    sought = {each_part.place: Found((mirrored(each_part.part, {}),)) for each_part in parts}
    return verdicts(parts, now, sought, equal)


@dataclass
class Played:
    """A random run: what it wrote, and the store afterwards."""

    before: dict[str, int]
    parts: list[WrittenPart]
    store: dict[str, int]
    edited: set[str]
    unwritten: set[tuple[int, int]]

    def of(self, change: int) -> list[WrittenPart]:
        """The parts of one change."""
        return [part for part in self.parts if part.change == change]


def played(random_: random.Random, *, foreign: bool) -> Played:
    """A run of several changes on a few values, no value written twice alike."""
    store = {name: index for index, name in enumerate("abcd")}
    before, parts, edited, unwritten, fresh = dict(store), [], set(), set(), 100
    for change in range(random_.randrange(1, 7)):
        for number in range(1, random_.randrange(2, 5)):
            names, fresh = random_.sample("abcd", random_.choice([1, 1, 2, 3])), fresh + 10
            if foreign and random_.random() < 0.1:
                store[names[0]] = -fresh  # somebody else changed it while the run went on
                edited.add(names[0])
            after = {name: fresh + index for index, name in enumerate(names)}
            if len(after) > 1 and random_.random() < 0.2:
                after[names[1]] = store[names[1]]  # one of a block's values stays as it is
            before_part, looked_up = {name: store[name] for name in names}, random_.random() < 0.3
            parts.append(setting(change, number, before_part, after, looked_up=looked_up))
            if random_.random() < 0.9:  # else it is unknown whether it was written, and it was not
                store.update(after)
            else:
                unwritten.add((change, number))
    if foreign:
        for name in "abcd":
            if random_.random() < 0.2:
                store[name] = _NEVER_SET
                edited.add(name)
    return Played(before, parts, store, edited, unwritten)


def oracle(parts: Sequence[WrittenPart], store: dict[str, int]) -> dict[int, str]:
    """Undoes on a copy, newest change first: a change that finds another value is left as a whole."""
    results: dict[int, str] = {}
    for change in sorted({each_part.change for each_part in parts}, reverse=True):
        tried, kind = dict(store), "unchanged"
        for part in sorted((item for item in parts if item.change == change), key=lambda x: -x.number):
            present = {name: tried[name] for name in part.after}
            if present == part.after:
                tried.update(part.before)
                kind = "put_back"
            elif present != part.before:
                kind = "left"
                break
        if kind != "left":
            store.update(tried)
        results[change] = kind
    return results


def put_back(results: Mapping[int, ChangeVerdict], store: dict[str, int]) -> None:
    """Writes what is put back, newest change first, each value compared before."""
    for change in sorted(results, reverse=True):
        for part in results[change].parts:
            assert isinstance(part.before, dict)
            assert isinstance(part.after, dict)
            assert {name: store[name] for name in part.before} == part.before, part
            store.update({name: int(str(value)) for name, value in part.after.items()})


@pytest.mark.parametrize("foreign", [False, True])
def test_random_runs_are_undone_as_a_plain_dictionary_is(foreign: bool) -> None:
    """Each change is put back, back already or left, and no write finds another value than expected."""
    random_ = random.Random(f"{SEED} {foreign}")
    for _ in range(CASES):
        run = played(random_, foreign=foreign)
        chosen = {part.change for part in run.parts if random_.random() < 0.8}
        parts = [each_part for each_part in run.parts if each_part.change in chosen]
        verdict_of = judged(parts, run.store)
        expected = oracle(parts, dict(run.store))
        if not foreign:  # what was never written is in nobody's way, whatever was written over it since
            partly = {change for change in chosen if any(e.place in run.unwritten for e in run.of(change))}
            differing = {
                change
                for change, each_change_verdict in verdict_of.items()
                if each_change_verdict.kind != expected[change]
            }
            assert differing <= partly
            assert all(expected[change] == "left" != verdict_of[change].kind for change in differing)
        possible = {change for change, kind in expected.items() if kind == "put_back"}
        assert possible <= {change for change, item in verdict_of.items() if item.kind == "put_back"}
        edited = {name: run.store[name] for name in run.edited if run.store[name] == _NEVER_SET}
        put_back(verdict_of, run.store)
        assert {name: run.store[name] for name in edited} == edited


def test_a_whole_undo_without_foreign_edits_brings_back_every_value() -> None:
    """The store is as it was before the run, and a second undo finds everything back already."""
    random_ = random.Random(f"{SEED} whole")
    for _ in range(CASES):
        run = played(random_, foreign=False)
        put_back(judged(run.parts, run.store), run.store)
        assert run.store == run.before
        assert {item.kind for item in judged(run.parts, run.store).values()} == {"unchanged"}


def test_parts_of_a_change_keep_their_order_and_one_value_is_put_back_newest_first() -> None:
    """A stopped undo leaves an object as a template can find it again."""
    parts = [
        written(0, 1, "visible", 1, 2),
        written(0, 2, "tags", 10, 11),
        written(0, 3, "visible", 2, 3),
    ]
    [verdict] = judged(parts, {"visible": 3, "tags": 11}).values()
    assert [part.after for part in verdict.parts] == [{"visible": 2}, {"tags": 10}, {"visible": 1}]


def test_a_change_is_left_with_the_reason() -> None:
    """Gone, changed since, changed in between, and what hangs on a later change that is left."""
    item = [written(0, 1, "a", 1, 2)]
    assert judged(item, {})[0] == ChangeVerdict("left", words=GONE)
    assert judged(item, {"a": 9})[0] == ChangeVerdict("left", words=CHANGED_SINCE)
    between = [written(0, 1, "a", 1, 2), written(1, 1, "a", 5, 6)]
    assert judged(between, {"a": 6})[0] == ChangeVerdict("left", words=CHANGED_BETWEEN)
    assert judged(between, {"a": 6})[1].kind == "put_back"
    hanging = [written(0, 1, "a", 1, 2), written(1, 1, "a", 2, 3), written(1, 2, "b", 1, 2)]
    outcome = judged(hanging, {"a": 3, "b": 9})
    assert (outcome[1].words, outcome[0].words) == (CHANGED_SINCE, NEWER_LEFT)


def test_part_of_a_change_that_is_back_already_is_not_written_again() -> None:
    """Only what still is as the run wrote it is put back."""
    parts = [written(0, 1, "a", 1, 2), written(0, 2, "b", 1, 2)]
    [verdict] = judged(parts, {"a": 1, "b": 2}).values()
    assert [part.target for part in verdict.parts] == ["b"]


def test_what_is_looked_up_is_put_back_with_what_was_found() -> None:
    """A look-up gives parts and a note, or the reason why it gives none; an older part has its own."""
    parts = [written(0, 1, "a", 1, 2, looked_up=True), written(1, 1, "a", 2, 3, looked_up=True)]
    back = Part("delete", STORE, "a", {"id": "5"}, 3, 2)
    now = {(1, 1): ValuesNow({"a": 3})}
    found_verdicts = verdicts(parts, now, {(1, 1): Found((back,), "1 row stays."), (0, 1): TWICE}, equal)
    assert found_verdicts[1] == ChangeVerdict("put_back", (back,), "1 row stays.")
    assert found_verdicts[0] == ChangeVerdict("left", words=TWICE)
    held = verdicts(parts, now, {(1, 1): "It is held by others.", (0, 1): Found((back,))}, equal)
    assert (held[1].words, held[0].words) == ("It is held by others.", NEWER_LEFT)


def test_parts_that_share_a_value_are_one_chain_and_others_are_not() -> None:
    """A block that a later part changed in one cell is put back after it; a cell changed since leaves it."""
    parts = [
        setting(0, 1, {"a": 1, "b": 1}, {"a": 2, "b": 2}),
        setting(0, 2, {"b": 2, "c": 1}, {"b": 3, "c": 3}),
        written(0, 3, "d", 1, 2),
    ]
    [verdict] = judged(parts, {"a": 2, "b": 3, "c": 3, "d": 2}).values()
    assert [part.target for part in verdict.parts] == ["b,c", "a,b", "d"]
    [verdict] = judged(parts, {"a": 9, "b": 3, "c": 3, "d": 2}).values()
    assert verdict.words == CHANGED_SINCE
    item = [setting(0, 1, {"a": 1, "b": 1}, {"a": 2, "b": 2})]
    assert judged(item, {"a": 1, "b": 2})[0].words == CHANGED_SINCE  # it is one request
    assert judged(item, {"a": 1, "b": 1})[0].kind == "unchanged"


def test_what_leaves_nothing_is_no_part_of_an_undo_and_what_never_comes_back_leaves_its_change() -> None:
    """A tag that was made stays in the shop; a refund keeps its whole change."""
    new_part = WrittenPart(
        0, 1, Part("tag", STORE, "sale", {}, None, None), Nothing("It stays."), {"tag": 0}, {"tag": 1}
    )
    tagged = written(0, 2, "tags", 1, 2)
    [verdict] = judged([new_part, tagged], {"tags": 2}).values()
    assert [part.target for part in verdict.parts] == ["tags"]
    refund = WrittenPart(
        0, 1, Part("refund", STORE, "order", {}, 0, 1), Never("It stays."), {"order": 0}, {"order": 1}
    )
    [verdict] = judged([refund, tagged], {"tags": 2, "order": 1}).values()
    assert verdict == ChangeVerdict("left", words="It stays.")
