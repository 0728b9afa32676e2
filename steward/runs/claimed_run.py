"""A run as its worker holds it: its row, its automation and its journal."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.database.runs.steps import StepValue
from steward.database.runs.transitions import Lease, RunState
from steward.model.automation import Automation
from steward.model.run import Run
from steward.run_queue.summaries import START
from steward.steps.base import StoreEvent


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run leased to this worker, its automation as of the start, and its journal."""

    lease: Lease
    run: Run
    state: RunState
    automation: Automation
    journal: tuple[StepValue, ...]
    exceeds_max_age: bool = False  # it started over MAX_RUN_AGE ago


def sends_wait_for_approval(claimed: "ClaimedRun") -> bool:
    """Returns whether the sends of a workflow's run wait for approval, as decided at its start."""
    start_output = next((value.output for value in claimed.journal if value.name == START), None)
    return not isinstance(start_output, dict) or start_output.get("asks") is not False


def event_of(claimed: "ClaimedRun") -> StoreEvent | None:
    """Returns the event the run came from, as at its first start; None for other runs."""
    event = claimed.run.event
    if event is None:
        return None
    start_output = next((value.output for value in claimed.journal if value.name == START), None)
    pointer = start_output.get("event") if isinstance(start_output, dict) else None
    if not isinstance(pointer, dict):
        return None
    occurred = pointer.get("occurred_at")
    return StoreEvent(
        topic=event.topic,
        object_type=pointer.get("object_type", ""),
        object_id=pointer.get("object_id", ""),
        parent_id=pointer.get("parent_id"),
        id=event.id,
        occurred_at=None if occurred is None else datetime.fromisoformat(occurred),
        received_at=event.received_at,
        payload=pointer.get("payload"),
    )


# A run older than this takes no further step; time asleep or waiting for approval counts.
MAX_RUN_AGE = timedelta(days=90)
