"""Tests which responses to the writes of a step are stored. See docs/design/writes.md#responses."""

import pytest

from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.write_response import REFUSAL_CHARACTERS, WriteResponse
from steward.runs.writes.write_responses import ResponseBudget


def outcome(state: WriteState, size: int) -> WriteOutcome:
    """Returns the outcome of a write whose response has `size` bytes of text."""
    return WriteOutcome(state, response=WriteResponse(200, {"x-shard": "a"}, "x" * size))


def test_refusals_leave_room_for_the_responses_to_applied_writes() -> None:
    """Stores only the part of a refusal that a failure quotes, so that later responses still fit."""
    budget = ResponseBudget()
    for _ in range(110):
        refusal = budget.admit(outcome(WriteState.REFUSED, 70_000))
        assert refusal == WriteResponse(200, {}, "x" * REFUSAL_CHARACTERS)
    applied = outcome(WriteState.APPLIED, 1_000_000)
    assert budget.admit(applied) == applied.response


def test_a_response_that_does_not_fit_keeps_its_status() -> None:
    """Stores only the status and headers of a response once the budget is used up to the last byte."""
    applied = outcome(WriteState.APPLIED, 100)
    assert applied.response is not None
    budget = ResponseBudget(len(applied.response.to_text()))
    assert budget.admit(applied) == applied.response
    assert budget.remaining == 0
    assert budget.admit(applied) == WriteResponse(200, {"x-shard": "a"}, "", is_too_large=True)


@pytest.mark.parametrize("state", [WriteState.CONFLICT, WriteState.NOT_SENT])
def test_a_write_that_was_not_sent_has_no_response(state: WriteState) -> None:
    """Stores no response for a write that was left out or not sent."""
    assert ResponseBudget().admit(outcome(state, 1)) is None
