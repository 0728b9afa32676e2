"""What a run may hold in memory: at the limit, and one byte past it."""

from collections.abc import AsyncIterator

import pytest

from steward.sandbox.pool import Children
from steward.sandbox.protocol import MESSAGE_BYTES, MIB
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.views import CodeStopped, Mode, Scope, Script, World
from steward.steps.workflow.items import Item
from steward.steps.workflow.memory_budget import STEP_BYTES, WALK_BYTES, Gathered, Room, TooMuch, weight
from tests.expressions.cases import NOW

ONE = World(items=[{"a": 1}], scope=Scope(now=NOW, timezone="UTC"))
ITEM = 16  # what an item takes besides its fields


def _of(size: int) -> list[list[Item]]:
    """One item that counts as so many bytes."""
    bare = weight({"text": ""}) + ITEM
    item = Item({"text": "x" * (size - bare)}, None)
    assert weight(item.json) + ITEM == size
    return [[item]]


def test_one_execution_may_give_so_much() -> None:
    """8 MiB as JSON"""
    Room().take(_of(STEP_BYTES))
    with pytest.raises(TooMuch):
        Room().take(_of(STEP_BYTES + 1))


def test_all_executions_of_a_run_may_hold_so_much() -> None:
    """64 MiB, those of a called workflow among them"""
    room = Room()
    whole = _of(STEP_BYTES)
    for _ in range(WALK_BYTES // STEP_BYTES):
        room.take(whole)
    assert room.left == 0
    room.take([[]])
    with pytest.raises(TooMuch):
        room.take(_of(100))
    half = Room()
    for _ in range(WALK_BYTES // STEP_BYTES - 1):
        half.take(whole)
    half.within().take(whole)
    half.take(whole)  # what the called workflow took is given back
    with pytest.raises(TooMuch):
        half.within().take(_of(100))


def test_what_stands_in_many_places_counts_in_each() -> None:
    """Written out it would take that"""
    shared = {"text": "x" * 1000}
    assert weight([shared] * 1000) > 1_000_000
    gathered = Gathered()
    gathered.add("x" * (STEP_BYTES - 3))
    with pytest.raises(TooMuch):
        gathered.add("")


@pytest.fixture
async def evaluator() -> AsyncIterator[Evaluator]:
    """One run's evaluator; its child ends with the test."""
    children = Children(1)
    try:
        yield Evaluator(children, "org", "run")
    finally:
        await children.close()


async def _stops(evaluator: Evaluator, text: str) -> str | None:
    try:
        await evaluator.run_code(Script(text, Mode.ALL), ONE)
    except CodeStopped as end:
        return end.code
    return None


async def test_an_answer_of_a_script_may_be_so_long(evaluator: Evaluator) -> None:
    """8 MiB of JSON: at the limit it comes whole, one byte more is code_memory"""
    around = len('{"items":[{"json":{"a":""},"paired":null}],"lines":[]}')
    longest = MESSAGE_BYTES - around
    made = await evaluator.run_code(Script(f"return {{ a: 'x'.repeat({longest}) }}", Mode.ALL), ONE)
    assert made.items[0].json == {"a": "x" * longest}
    assert await _stops(evaluator, f"return {{ a: 'x'.repeat({longest + 1}) }}") == "code_memory"
    assert await _stops(evaluator, "return { a: 1 }") is None


async def test_a_script_may_take_so_much_memory(evaluator: Evaluator) -> None:
    """128 MiB in its engine, which has some 4 of its own; the next script has all of it again"""
    holds = "const held = new Uint8Array({}); held.fill(1); return {{ a: held.length }}"
    for _ in range(2):
        assert await _stops(evaluator, holds.format(118 * MIB)) is None
        assert await _stops(evaluator, holds.format(128 * MIB)) == "code_memory"
