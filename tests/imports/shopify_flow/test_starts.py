"""Tests the starts of flows: topics of the store, and cadences that equal the flow's rule.

See docs/design/imports-n8n.md#triggers-and-schedules.
"""

from typing import Any

import pytest

from steward.connectors.shopify.topics import TOPICS
from steward.imports.shopify_flow.read import read_value
from steward.imports.shopify_flow.schedules import read_recurrence
from steward.imports.shopify_flow.tasks import TRIGGERS
from steward.imports.storage import shown_trigger
from tests.imports.shopify_flow.flows import FLOW, began, condition, flow, http

NEW_YORK = "DTSTART;TZID=America/New_York:20260105T083000"  # a Monday


def cadence(rule: str, start: str = NEW_YORK) -> dict[str, Any] | None:
    """Returns the cadence of a rule, without the fields that it leaves open."""
    schedule = read_recurrence(f'["{start}\\nRRULE:{rule}"]').schedule
    return (
        None if schedule is None else {name: value for name, value in schedule.items() if value is not None}
    )


@pytest.mark.parametrize(
    ("rule", "schedule"),
    [
        ("FREQ=DAILY", {"cadence": "daily", "run_at": "08:30"}),
        ("FREQ=DAILY;INTERVAL=1;BYHOUR=6;BYMINUTE=5", {"cadence": "daily", "run_at": "06:05"}),
        ("FREQ=WEEKLY", {"cadence": "weekly", "run_at": "08:30", "day_of_week": 1}),
        ("FREQ=WEEKLY;BYDAY=SU", {"cadence": "weekly", "run_at": "08:30", "day_of_week": 7}),
        ("FREQ=WEEKLY;BYDAY=FR,MO;WKST=SU", {"cadence": "weekdays", "run_at": "08:30", "days": [1, 5]}),
        ("FREQ=MONTHLY", {"cadence": "monthly", "run_at": "08:30", "day_of_month": 5}),
        ("FREQ=MONTHLY;BYMONTHDAY=28", {"cadence": "monthly", "run_at": "08:30", "day_of_month": 28}),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", {"cadence": "monthly", "run_at": "08:30", "day_of_month": 31}),
        (
            "FREQ=MONTHLY;BYDAY=2MO",
            {"cadence": "monthly", "run_at": "08:30", "day_of_week": 1, "week_of_month": 2},
        ),
        (
            "FREQ=MONTHLY;BYDAY=-1FR",
            {"cadence": "monthly", "run_at": "08:30", "day_of_week": 5, "week_of_month": -1},
        ),
        (
            "FREQ=MONTHLY;BYDAY=FR;BYSETPOS=-1",
            {"cadence": "monthly", "run_at": "08:30", "day_of_week": 5, "week_of_month": -1},
        ),
    ],
)
def test_a_rule_that_a_cadence_equals(rule: str, schedule: dict[str, Any]) -> None:
    """Proposes the cadence that equals the rule. See docs/design/imports-n8n.md#triggers-and-schedules."""
    assert cadence(rule) == schedule


def test_hourly_rules_must_begin_at_the_hours_of_a_cadence() -> None:
    """Proposes hourly cadences only for rules that begin on the hours of the cadence.

    See docs/design/imports-n8n.md#triggers-and-schedules.
    """
    noon = "DTSTART;TZID=Asia/Kolkata:20260101T120000"
    assert cadence("FREQ=HOURLY", noon) == {"cadence": "hourly"}
    assert cadence("FREQ=HOURLY;INTERVAL=6", noon) == {"cadence": "every_6_hours"}
    assert cadence("FREQ=HOURLY;INTERVAL=6", noon.replace("T12", "T13")) is None
    assert cadence("FREQ=HOURLY") is None


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;INTERVAL=2",
        "FREQ=DAILY;COUNT=5",
        "FREQ=DAILY;UNTIL=20300101T000000Z",
        "FREQ=DAILY;BYHOUR=6,18",
        "FREQ=HOURLY;INTERVAL=2",
        "FREQ=MINUTELY",
        "FREQ=MONTHLY;BYMONTHDAY=29",
        "FREQ=MONTHLY;BYMONTHDAY=1,15",
        "FREQ=MONTHLY;BYDAY=5MO",
        "FREQ=MONTHLY;BYDAY=MO",
        "FREQ=YEARLY",
        "FREQ=WEEKLY;BYDAY=XX",
        "",
    ],
)
def test_a_rule_without_an_equal_cadence_names_the_nearest(rule: str) -> None:
    """Proposes a manual start with the rule's time zone and reports `schedule_not_representable`.

    See docs/design/imports-n8n.md#triggers-and-schedules.
    """
    recurrence = [f"{NEW_YORK}\nRRULE:{rule}"]
    read_flow = read_value(flow(began(FLOW + "scheduled_time", recurrence=recurrence), http(2)))
    assert [(finding.step, finding.code) for finding in read_flow.findings][:1] == [
        ("Scheduled time", "schedule_not_representable")
    ]
    trigger = shown_trigger(read_flow.plan)
    assert trigger is not None
    assert (trigger["schedule"]["cadence"], trigger["timezone"]) == ("manual", "America/New_York")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "[1]",
        "{}",
        '["RRULE:FREQ=DAILY"]',
        '["DTSTART:20261399T990000\\nRRULE:FREQ=DAILY"]',
        f'["{NEW_YORK}\\nRRULE:FREQ=DAILY", "{NEW_YORK}\\nRRULE:FREQ=WEEKLY"]',
    ],
)
def test_an_unreadable_recurrence_has_no_cadence(text: str) -> None:
    """Reads no schedule from several rules, none or any other text.

    See docs/design/imports-n8n.md#triggers-and-schedules.
    """
    assert read_recurrence(text).schedule is None


def test_every_trigger_has_topics_the_store_sends() -> None:
    """Proposes only topics that a Shopify store sends. See docs/design/connectors.md#topics."""
    assert {topic for flow_trigger in TRIGGERS.values() for topic in flow_trigger.topics} <= set(TOPICS)


def test_triggers_become_topics_with_findings_for_differences() -> None:
    """Proposes the topic of the trigger; reports a wider or an unknown trigger as `foreign_trigger`.

    See docs/design/imports-shopify-flow.md#tasks and docs/design/imports-n8n.md#triggers-and-schedules.
    """
    exact = read_value(flow(began("order_paid"), http(2)))
    assert shown_trigger(exact.plan) == {
        "kind": "event",
        "topics": ["orders/paid"],
        "schedule": None,
        "timezone": None,
    }
    assert [finding.code for finding in exact.findings if finding.step == "Order paid"] == []
    wider = read_value(flow(began("product_status_updated"), condition(2, "(oldStatus == 'ACTIVE')")))
    assert [(finding.step, finding.code, finding.level) for finding in wider.findings] == [
        ("Product status updated", "foreign_trigger", "warning"),
        ("Check if condition is met", "parameter", "error"),
    ]
    foreign = read_value(flow(began("vendor::thing::happened"), http(2, body="{{ order.name }}")))
    assert shown_trigger(foreign.plan) is None
    assert [(item.step, item.code) for item in foreign.findings if item.level == "error"] == [
        ("Send HTTP request", "parameter")
    ]
    assert ("Happened", "foreign_trigger") in [(entry.step, entry.code) for entry in foreign.findings]
