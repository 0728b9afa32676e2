"""Tests that the output of tolerated failures is bounded, whatever a server responds."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from steward.model.plan import OnError, PlanStep, StepKind, StepSource
from steward.outbound.response import PlatformResponse
from steward.steps.workflow.external_calls import read_each_item
from steward.steps.workflow.items import Item
from steward.steps.workflow.memory_budget import MemoryBudgetExceeded
from steward.steps.workflow.responses import StatusFailed, status_error, with_error_objects
from steward.steps.workflow.step_types import NodeResult, StepCall

CHARACTER = "\U0001f600"  # each has four bytes


async def failed_items(number: int, on_error: OnError) -> NodeResult:
    """Returns a step's output when each of its requests is refused with a long text."""
    nothing = cast(Any, None)
    call = StepCall(
        step=PlanStep("Ask", "Ask", StepKind.READ, "http.read", {}, StepSource("x", 1.0, on_error=on_error)),
        version=1.0,
        run=0,
        inputs=[[Item({}) for _ in range(number)]],
        sources=[None],
        params=nothing,
        evaluator=nothing,
        expression_context=nothing,
        environment=nothing,
        sleep=nothing,
    )

    @with_error_objects
    async def read(index: int) -> Sequence[dict[str, Any]]:
        raise StatusFailed(PlatformResponse(404, {}, (CHARACTER * 10_000).encode()))

    return await read_each_item(call, read)


async def test_a_failure_shows_the_first_8192_characters_of_a_response() -> None:
    """Cuts the response's text after whole characters, however many bytes they have."""
    result = await failed_items(1, OnError.PASS_INPUT)
    assert [item.json for item in result.outputs[0]] == [{"error": status_error(404, CHARACTER * 8192)}]


@pytest.mark.parametrize("on_error", [OnError.PASS_INPUT, OnError.ERROR_OUTPUT])
async def test_tolerated_failures_count_as_data_of_the_step(on_error: OnError) -> None:
    """Ends the step once its failures exceed the size of a step's output."""
    await failed_items(100, on_error)
    with pytest.raises(MemoryBudgetExceeded):
        await failed_items(400, on_error)
