"""Tests which answers to the writes of a step are kept. See docs/design/writes.md#responses."""

import pytest

from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.write_response import REFUSAL_CHARACTERS, WriteResponse
from steward.runs.writes.write_responses import ResponseBudget


def outcome(state: WriteState, size: int) -> WriteOutcome:
    """Returns the outcome of a write that was answered with so much text."""
    return WriteOutcome(state, response=WriteResponse(200, {"x-shard": "a"}, "x" * size))


def test_refusals_leave_room_for_the_answers_of_made_writes() -> None:
    """Keeps of a refusal what a failure tells of it, so that a later response still has room."""
    room = ResponseBudget()
    for _ in range(110):
        refusal = room.admit(outcome(WriteState.REFUSED, 70_000))
        assert refusal == WriteResponse(200, {}, "x" * REFUSAL_CHARACTERS)
    made = outcome(WriteState.APPLIED, 1_000_000)
    assert room.admit(made) == made.response


def test_an_answer_without_room_keeps_its_status() -> None:
    """Keeps status and headers of a response once the room is used up to the last byte."""
    made = outcome(WriteState.APPLIED, 100)
    assert made.response is not None
    room = ResponseBudget(len(made.response.to_text()))
    assert room.admit(made) == made.response
    assert room.remaining == 0
    assert room.admit(made) == WriteResponse(200, {"x-shard": "a"}, "", is_too_large=True)


@pytest.mark.parametrize("state", [WriteState.CONFLICT, WriteState.NOT_SENT])
def test_a_write_that_was_not_sent_has_no_answer(state: WriteState) -> None:
    """Keeps no response of a write that was left out or not sent."""
    assert ResponseBudget().admit(outcome(state, 1)) is None
