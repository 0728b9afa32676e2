"""Tests triggers and occurrences as the API answers them and as the database stores them."""

import pytest

from steward.model.ids import AutomationId, RunId
from steward.model.occurrence import Occurrence, OccurrenceState, SkipReason
from steward.model.run import RunStatus
from steward.model.trigger import EventTrigger, Listening, ScheduleTrigger, trigger_from_json
from tests.scheduling.shorthand import at


def test_a_schedule_trigger_is_returned_as_its_kind_only() -> None:
    """Answers a schedule trigger with its kind alone. See docs/design/api/automations.md#trigger."""
    assert ScheduleTrigger().to_wire() == {"kind": "schedule"}
    assert trigger_from_json(ScheduleTrigger().to_json()) == ScheduleTrigger()


def test_an_event_trigger_is_returned_with_all_seven_fields() -> None:
    """Answers all seven fields; `reason` is null unless listening has failed.

    See docs/design/api/automations.md#trigger.
    """
    trigger = EventTrigger(
        ("orders/create",), "When an order is created", Listening.FAILED, "refused", 3, at("2026-01-10 08:00")
    )
    assert trigger.to_wire() == {
        "kind": "event",
        "topics": ["orders/create"],
        "words": "When an order is created",
        "listening": "failed",
        "reason": "refused",
        "events_dropped": 3,
        "events_dropped_at": "2026-01-10T08:00:00.000Z",
    }
    quiet = EventTrigger(("orders/create",), listening=Listening.YES, reason="refused")
    assert quiet.to_wire()["reason"] is None
    assert quiet.to_wire()["events_dropped_at"] is None


def test_only_the_topics_of_an_event_trigger_are_kept() -> None:
    """Stores kind and topics alone; anything else in a stored trigger raises ValueError.

    See docs/design/api/automations.md#requests.
    """
    trigger = EventTrigger(("a/b", "c/d"), "words", Listening.YES)
    assert trigger.to_json() == {"kind": "event", "topics": ["a/b", "c/d"]}
    assert trigger_from_json(trigger.to_json()) == EventTrigger(("a/b", "c/d"))
    for wrong in ({"kind": "event", "topics": "a/b"}, {"kind": "cron"}):
        with pytest.raises(ValueError):
            trigger_from_json(wrong)


def test_an_occurrence_is_returned_with_all_thirteen_fields() -> None:
    """Answers an occurrence with all fields of its record.

    See docs/design/api/calendar.md#occurrence and docs/design/api/automations.md#record.
    """
    row = Occurrence(
        AutomationId("01KAGQ3W8ZJ4T6V9X2B5C7D8EF"),
        "Prices from the buying sheet",
        4,
        "Europe/Berlin",
        at("2026-11-22 05:02"),
        at("2026-11-22 09:30"),
        moved_from=at("2026-11-22 05:02"),
        version=1,
    )
    assert row.to_wire() == {
        "automation_id": "01KAGQ3W8ZJ4T6V9X2B5C7D8EF",
        "automation_name": "Prices from the buying sheet",
        "automation_version": 4,
        "timezone": "Europe/Berlin",
        "slot_at": "2026-11-22T05:02:00.000Z",
        "run_at": "2026-11-22T09:30:00.000Z",
        "state": "pending",
        "reason": None,
        "run_id": None,
        "run_status": None,
        "moved_from": "2026-11-22T05:02:00.000Z",
        "version": 1,
        "projected": False,
    }


@pytest.mark.parametrize("reason", SkipReason)
def test_states_reasons_and_run_statuses_are_the_interfaces_words(reason: SkipReason) -> None:
    """Answers each state, skip reason and run status with the word of the interface.

    See docs/design/api/calendar.md#occurrence.
    """
    row = Occurrence(
        AutomationId("A"), "", 1, "UTC", at("2026-01-01 00:00"), at("2026-01-01 00:00"),
        OccurrenceState.SKIPPED, reason,
    )  # fmt: skip
    assert (row.to_wire()["state"], row.to_wire()["reason"]) == ("skipped", reason.value)
    queued = Occurrence(
        AutomationId("A"), "", 1, "UTC", at("2026-01-01 00:00"), at("2026-01-01 00:00"),
        OccurrenceState.QUEUED, run_id=RunId("R"), run_status=RunStatus.WAITING_APPROVAL,
    )  # fmt: skip
    assert queued.to_wire()["run_status"] == "waiting_approval"
    assert set(SkipReason) == {
        "skipped_previous_running", "skipped_waiting_approval", "skipped_too_late", "by_merchant"
    }  # fmt: skip
