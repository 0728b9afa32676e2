"""Tests the memory limits of runs, at the limit and one byte above it."""

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
ITEM = 16  # what an item counts beside its fields


def _of(size: int) -> list[list[Item]]:
    """Returns one item that counts as this many bytes."""
    bare = json_size({"text": ""}) + ITEM
    item = Item({"text": "x" * (size - bare)}, None)
    assert json_size(item.json) + ITEM == size
    return [[item]]


def test_the_output_of_an_execution_has_a_size_limit() -> None:
    """Accepts 8 MiB of JSON from one execution."""
    MemoryBudget().reserve(_of(STEP_BYTES))
    with pytest.raises(MemoryBudgetExceeded):
        MemoryBudget().reserve(_of(STEP_BYTES + 1))


def test_the_outputs_of_a_run_have_a_size_limit() -> None:
    """Accepts 64 MiB from all executions of a run, including those of a called workflow."""
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
    half.reserve(whole)  # the memory of a called workflow is released
    with pytest.raises(MemoryBudgetExceeded):
        half.for_sub_workflow().reserve(_of(100))


def test_shared_values_count_in_each_place() -> None:
    """Counts a shared value once for each place, as its JSON would."""
    shared = {"text": "x" * 1000}
    assert json_size([shared] * 1000) > 1_000_000
    gathered = StepBudget()
    gathered.add("x" * (STEP_BYTES - 3))
    with pytest.raises(MemoryBudgetExceeded):
        gathered.add("")


@pytest.fixture
async def evaluator() -> AsyncIterator[Evaluator]:
    """Provides the evaluator of one run and ends its sandbox processes after the test."""
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


async def test_the_result_of_a_script_has_a_size_limit(evaluator: Evaluator) -> None:
    """Returns a script's result of 8 MiB of JSON; one byte more gives `code_memory`."""
    around = len('{"items":[{"json":{"a":""},"paired":null}],"lines":[]}')
    longest = MESSAGE_BYTES - around
    run_code = await evaluator.run_code(
        Script(f"return {{ a: 'x'.repeat({longest}) }}", ScriptMode.ALL), ONE_ITEM
    )
    assert run_code.items[0].json == {"a": "x" * longest}
    assert await _stops(evaluator, f"return {{ a: 'x'.repeat({longest + 1}) }}") == "code_memory"
    assert await _stops(evaluator, "return { a: 1 }") is None


async def test_the_memory_of_a_script_is_limited(evaluator: Evaluator) -> None:
    """Limits a script to 128 MiB, of which the engine uses about 4; the next script has all of it again."""
    holds = "const held = new Uint8Array({}); held.fill(1); return {{ a: held.length }}"
    for _ in range(2):
        assert await _stops(evaluator, holds.format(118 * MIB)) is None
        assert await _stops(evaluator, holds.format(128 * MIB)) == "code_memory"
