"""What a run may hold in memory: at the limit, and one byte past it."""

from collections.abc import AsyncIterator

import pytest

from steward.sandbox.pool import SandboxPool
from steward.sandbox.protocol import MESSAGE_BYTES, MIB
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.views import (
    CodeStopped,
    ExpressionContext,
    ExpressionVariables,
    Script,
    ScriptMode,
)
from steward.steps.workflow.items import Item
from steward.steps.workflow.memory_budget import (
    RUN_BYTES,
    STEP_BYTES,
    MemoryBudget,
    MemoryBudgetExceeded,
    StepBudget,
    json_size,
)
from tests.expressions.cases import NOW

ONE_ITEM = ExpressionContext(items=[{"a": 1}], variables=ExpressionVariables(now=NOW, timezone="UTC"))
ITEM = 16  # what an item takes besides its fields


def _of(size: int) -> list[list[Item]]:
    """One item that counts as so many bytes."""
    bare = json_size({"text": ""}) + ITEM
    item = Item({"text": "x" * (size - bare)}, None)
    assert json_size(item.json) + ITEM == size
    return [[item]]


def test_one_execution_may_give_so_much() -> None:
    """8 MiB as JSON"""
    MemoryBudget().reserve(_of(STEP_BYTES))
    with pytest.raises(MemoryBudgetExceeded):
        MemoryBudget().reserve(_of(STEP_BYTES + 1))


def test_all_executions_of_a_run_may_hold_so_much() -> None:
    """64 MiB, those of a called workflow among them"""
    room = MemoryBudget()
    whole = _of(STEP_BYTES)
    for _ in range(RUN_BYTES // STEP_BYTES):
        room.reserve(whole)
    assert room.remaining == 0
    room.reserve([[]])
    with pytest.raises(MemoryBudgetExceeded):
        room.reserve(_of(100))
    half = MemoryBudget()
    for _ in range(RUN_BYTES // STEP_BYTES - 1):
        half.reserve(whole)
    half.for_sub_workflow().reserve(whole)
    half.reserve(whole)  # what the called workflow took is given back
    with pytest.raises(MemoryBudgetExceeded):
        half.for_sub_workflow().reserve(_of(100))


def test_values_shared_by_many_places_count_in_each() -> None:
    """Written out it would take that"""
    shared = {"text": "x" * 1000}
    assert json_size([shared] * 1000) > 1_000_000
    gathered = StepBudget()
    gathered.add("x" * (STEP_BYTES - 3))
    with pytest.raises(MemoryBudgetExceeded):
        gathered.add("")


@pytest.fixture
async def evaluator() -> AsyncIterator[Evaluator]:
    """One run's evaluator; its child ends with the test."""
    children = SandboxPool(1)
    try:
        yield Evaluator(children, "org", "run")
    finally:
        await children.close()


async def _stops(evaluator: Evaluator, text: str) -> str | None:
    try:
        await evaluator.run_code(Script(text, ScriptMode.ALL), ONE_ITEM)
    except CodeStopped as end:
        return end.code
    return None


async def test_an_answer_of_a_script_may_be_so_long(evaluator: Evaluator) -> None:
    """8 MiB of JSON: at the limit it comes whole, one byte more is code_memory"""
    around = len('{"items":[{"json":{"a":""},"paired":null}],"lines":[]}')
    longest = MESSAGE_BYTES - around
    run_code = await evaluator.run_code(
        Script(f"return {{ a: 'x'.repeat({longest}) }}", ScriptMode.ALL), ONE_ITEM
    )
    assert run_code.items[0].json == {"a": "x" * longest}
    assert await _stops(evaluator, f"return {{ a: 'x'.repeat({longest + 1}) }}") == "code_memory"
    assert await _stops(evaluator, "return { a: 1 }") is None


async def test_a_script_may_take_so_much_memory(evaluator: Evaluator) -> None:
    """128 MiB in its engine, which has some 4 of its own; the next script has all of it again"""
    holds = "const held = new Uint8Array({}); held.fill(1); return {{ a: held.length }}"
    for _ in range(2):
        assert await _stops(evaluator, holds.format(118 * MIB)) is None
        assert await _stops(evaluator, holds.format(128 * MIB)) == "code_memory"
