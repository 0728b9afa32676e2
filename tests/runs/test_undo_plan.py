"""Tests what an undo decides for each change, against a dictionary that stands for the store.

`UNDO_RUNS=100000` draws that many random runs, seeded by `UNDO_EDITS_SEED`.
"""

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from steward.connectors.base.inverses import mirrored
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
    FoundInverse,
    Irreversible,
    NeedsLookUp,
    NothingToUndo,
    PutBack,
    ValuesNow,
    WrittenPart,
    chains,
    verdicts,
)

STORE = IntegrationId(1)
CASES = int(os.environ.get("UNDO_RUNS", "1000"))
SEED = os.environ.get("UNDO_EDITS_SEED", "undo")
_NEVER_SET = -1


def single_value_part(
    change: int, number: int, name: str, before: int, after: int, *, looked_up: bool = False
) -> WrittenPart:
    """Builds a part that set the value `name`."""
    return set_part(change, number, {name: before}, {name: after}, looked_up=looked_up)


def set_part(
    change: int, number: int, before: Mapping[str, int], after: Mapping[str, int], *, looked_up: bool = False
) -> WrittenPart:
    """Builds a part that set several values in one request."""
    part = Part("set", STORE, ",".join(after), {}, dict(before), dict(after))
    inverse = NeedsLookUp() if looked_up else PutBack(mirrored(part, {}))
    return WrittenPart(change, number, part, inverse, before, after)


def equal(_: Part, expected: JsonValue, actual: JsonValue) -> bool:
    """Compares values as they are."""
    return expected == actual


def verdicts_for(parts: Sequence[WrittenPart], store: Mapping[str, int]) -> dict[int, ChangeVerdict]:
    """Returns the verdicts, with each chain's newest part read from `store`."""
    now = {
        part.key: ValuesNow(
            {name: store[name] for name in part.after if name in store},
            is_gone=not store.keys() >= part.after.keys(),
        )
        for part in (chain.parts[0] for chain in chains(parts))
    }
    look_ups = {each_part.key: FoundInverse((mirrored(each_part.part, {}),)) for each_part in parts}
    return verdicts(parts, now, look_ups, equal)


@dataclass
class RandomRun:
    """A random run: its parts, and the store before and after."""

    before: dict[str, int]
    parts: list[WrittenPart]
    store: dict[str, int]
    edited: set[str]
    unwritten: set[tuple[int, int]]

    def of(self, change: int) -> list[WrittenPart]:
        """Returns the parts of one change."""
        return [part for part in self.parts if part.change == change]


def random_run(random_: random.Random, *, foreign: bool) -> RandomRun:
    """Draws a run of several changes to a few values, in which no value is written twice alike."""
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
            parts.append(set_part(change, number, before_part, after, looked_up=looked_up))
            if random_.random() < 0.9:  # else it is unknown whether it was written, and it was not
                store.update(after)
            else:
                unwritten.add((change, number))
    if foreign:
        for name in "abcd":
            if random_.random() < 0.2:
                store[name] = _NEVER_SET
                edited.add(name)
    return RandomRun(before, parts, store, edited, unwritten)


def oracle(parts: Sequence[WrittenPart], store: dict[str, int]) -> dict[int, str]:
    """Undoes on a copy, newest change first; skips a change whole if one of its values differs."""
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
    """Writes the restored values, newest change first, after comparing each."""
    for change in sorted(results, reverse=True):
        for part in results[change].parts:
            assert isinstance(part.before, dict)
            assert isinstance(part.after, dict)
            assert {name: store[name] for name in part.before} == part.before, part
            store.update({name: int(str(value)) for name, value in part.after.items()})


@pytest.mark.parametrize("foreign", [False, True])
def test_random_runs_are_undone_as_a_plain_dictionary_is(foreign: bool) -> None:
    """The verdicts match the oracle, and no write meets a value other than the expected one."""
    random_ = random.Random(f"{SEED} {foreign}")
    for _ in range(CASES):
        run = random_run(random_, foreign=foreign)
        chosen = {part.change for part in run.parts if random_.random() < 0.8}
        parts = [each_part for each_part in run.parts if each_part.change in chosen]
        verdict_of = verdicts_for(parts, run.store)
        expected = oracle(parts, dict(run.store))
        if not foreign:  # what was never written is in nobody's way, whatever was written over it since
            partly = {change for change in chosen if any(e.key in run.unwritten for e in run.of(change))}
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
    """A complete undo restores the store, and a second one has nothing to do."""
    random_ = random.Random(f"{SEED} whole")
    for _ in range(CASES):
        run = random_run(random_, foreign=False)
        put_back(verdicts_for(run.parts, run.store), run.store)
        assert run.store == run.before
        assert {item.kind for item in verdicts_for(run.parts, run.store).values()} == {"unchanged"}


def test_parts_of_a_change_keep_their_order_and_one_value_is_put_back_newest_first() -> None:
    """A stopped undo leaves an object that the template still recognizes."""
    parts = [
        single_value_part(0, 1, "visible", 1, 2),
        single_value_part(0, 2, "tags", 10, 11),
        single_value_part(0, 3, "visible", 2, 3),
    ]
    [verdict] = verdicts_for(parts, {"visible": 3, "tags": 11}).values()
    assert [part.after for part in verdict.parts] == [{"visible": 2}, {"tags": 10}, {"visible": 1}]


def test_a_change_is_left_with_the_reason() -> None:
    """A change is skipped if its object is gone, was edited, or a later skipped change depends on it."""
    item = [single_value_part(0, 1, "a", 1, 2)]
    assert verdicts_for(item, {})[0] == ChangeVerdict("left", words=GONE)
    assert verdicts_for(item, {"a": 9})[0] == ChangeVerdict("left", words=CHANGED_SINCE)
    between = [single_value_part(0, 1, "a", 1, 2), single_value_part(1, 1, "a", 5, 6)]
    assert verdicts_for(between, {"a": 6})[0] == ChangeVerdict("left", words=CHANGED_BETWEEN)
    assert verdicts_for(between, {"a": 6})[1].kind == "put_back"
    hanging = [
        single_value_part(0, 1, "a", 1, 2),
        single_value_part(1, 1, "a", 2, 3),
        single_value_part(1, 2, "b", 1, 2),
    ]
    outcome = verdicts_for(hanging, {"a": 3, "b": 9})
    assert (outcome[1].words, outcome[0].words) == (CHANGED_SINCE, NEWER_LEFT)


def test_part_of_a_change_that_is_back_already_is_not_written_again() -> None:
    """Only parts whose value is still the run's are restored."""
    parts = [single_value_part(0, 1, "a", 1, 2), single_value_part(0, 2, "b", 1, 2)]
    [verdict] = verdicts_for(parts, {"a": 1, "b": 2}).values()
    assert [part.target for part in verdict.parts] == ["b"]


def test_a_look_up_gives_parts_or_a_reason_to_skip() -> None:
    """A look-up gives parts and a note, or a reason to skip; each part has its own look-up."""
    parts = [
        single_value_part(0, 1, "a", 1, 2, looked_up=True),
        single_value_part(1, 1, "a", 2, 3, looked_up=True),
    ]
    back = Part("delete", STORE, "a", {"id": "5"}, 3, 2)
    now = {(1, 1): ValuesNow({"a": 3})}
    found_verdicts = verdicts(
        parts, now, {(1, 1): FoundInverse((back,), "1 row stays."), (0, 1): TWICE}, equal
    )
    assert found_verdicts[1] == ChangeVerdict("put_back", (back,), "1 row stays.")
    assert found_verdicts[0] == ChangeVerdict("left", words=TWICE)
    held = verdicts(parts, now, {(1, 1): "It is held by others.", (0, 1): FoundInverse((back,))}, equal)
    assert (held[1].words, held[0].words) == ("It is held by others.", NEWER_LEFT)


def test_parts_that_share_a_value_are_one_chain_and_others_are_not() -> None:
    """Parts that share a value are restored newest first; an edit of one cell skips the block."""
    parts = [
        set_part(0, 1, {"a": 1, "b": 1}, {"a": 2, "b": 2}),
        set_part(0, 2, {"b": 2, "c": 1}, {"b": 3, "c": 3}),
        single_value_part(0, 3, "d", 1, 2),
    ]
    [verdict] = verdicts_for(parts, {"a": 2, "b": 3, "c": 3, "d": 2}).values()
    assert [part.target for part in verdict.parts] == ["b,c", "a,b", "d"]
    [verdict] = verdicts_for(parts, {"a": 9, "b": 3, "c": 3, "d": 2}).values()
    assert verdict.words == CHANGED_SINCE
    item = [set_part(0, 1, {"a": 1, "b": 1}, {"a": 2, "b": 2})]
    assert verdicts_for(item, {"a": 1, "b": 2})[0].words == CHANGED_SINCE  # it is one request
    assert verdicts_for(item, {"a": 1, "b": 1})[0].kind == "unchanged"


def test_an_undo_ignores_created_tags_and_skips_refunded_changes() -> None:
    """A created tag is ignored by the undo; a refund makes it skip the whole change."""
    new_part = WrittenPart(
        0, 1, Part("tag", STORE, "sale", {}, None, None), NothingToUndo("It stays."), {"tag": 0}, {"tag": 1}
    )
    tagged = single_value_part(0, 2, "tags", 1, 2)
    [verdict] = verdicts_for([new_part, tagged], {"tags": 2}).values()
    assert [part.target for part in verdict.parts] == ["tags"]
    refund = WrittenPart(
        0, 1, Part("refund", STORE, "order", {}, 0, 1), Irreversible("It stays."), {"order": 0}, {"order": 1}
    )
    [verdict] = verdicts_for([refund, tagged], {"tags": 2, "order": 1}).values()
    assert verdict == ChangeVerdict("left", words="It stays.")
