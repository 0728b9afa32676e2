"""Triggers of a file and the start proposed for them; schedules where a cadence equals them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.imports.n8n.unwrap import Node
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import PlanTrigger

BY_HAND = frozenset(("manualTrigger", "start", "executeWorkflowTrigger", "errorTrigger"))
SCHEDULED = frozenset(("scheduleTrigger", "cron", "interval"))
STORES = frozenset(("shopifyTrigger", "wooCommerceTrigger"))
_TRIGGER_END = ("Trigger", "trigger")
_SHOPIFY_TOPIC = re.compile(r"[a-z_]+/[a-z_]+\Z")

# Topics a store of ours can send, from n8n's own names of events.
_WOO_EVENTS = {
    f"{noun}.{verb}": f"{noun}.{verb}"
    for noun in ("order", "product", "customer", "coupon")
    for verb in ("created", "updated", "deleted", "restored")
}


def is_trigger(node: Node) -> bool:
    """Whether the node starts workflows and is no step."""
    if node.type in BY_HAND or node.type in SCHEDULED or node.type in ("webhook", "formTrigger"):
        return True
    return node.type.rpartition(".")[2].endswith(_TRIGGER_END)


@dataclass(slots=True)
class Proposed:
    """A trigger as proposed, and what was found on the way."""

    trigger: PlanTrigger
    findings: list[Finding] = field(default_factory=list)


def proposed(node: Node) -> Proposed:
    """The start a trigger node becomes."""
    if node.type in BY_HAND:
        proposal = Proposed(PlanTrigger(node.name, "manual", place=node.position))
        if node.type == "errorTrigger":
            proposal.findings.append(_foreign(node, "It starts when another workflow fails."))
        return proposal
    if node.type in SCHEDULED:
        return _scheduled(node)
    if node.type in STORES:
        return _by_event(node)
    proposal = Proposed(PlanTrigger(node.name, "manual", replaced=node.type, place=node.position))
    what = "a call from outside" if node.type == "webhook" else f"“{node.type}”"
    proposal.findings.append(_foreign(node, f"It starts by {what}, which cannot start automations here."))
    return proposal


def _foreign(node: Node, reason: str) -> Finding:
    todo = (
        "The automation's own trigger replaces it: choose a schedule or a store event, or start it manually."
    )
    return Finding(node.name, FindingLevel.WARNING, "foreign_trigger", f"{reason} {todo}")


def _by_event(node: Node) -> Proposed:
    if node.type == "wooCommerceTrigger":
        topic = _WOO_EVENTS.get(str(node.parameters.get("event", "")))
    else:
        topic_name = str(node.parameters.get("topic", ""))
        topic = topic_name if _SHOPIFY_TOPIC.match(topic_name) else None
    if topic is None:
        proposal = Proposed(PlanTrigger(node.name, "manual", replaced=node.type, place=node.position))
        proposal.findings.append(_foreign(node, "Its store event is not known here."))
        return proposal
    return Proposed(PlanTrigger(node.name, "event", topics=(topic,), place=node.position))


def _scheduled(node: Node) -> Proposed:
    schedule, nearest = schedule_of(node)
    if schedule is not None:
        return Proposed(PlanTrigger(node.name, "schedule", schedule=wire(**schedule), place=node.position))
    proposal = Proposed(
        PlanTrigger(node.name, "schedule", schedule=wire(cadence="manual"), place=node.position)
    )
    words = f"No cadence equals its schedule. The nearest is {nearest}; choose one when you set it up."
    proposal.findings.append(Finding(node.name, FindingLevel.WARNING, "schedule_not_representable", words))
    return proposal


def wire(**fields: Any) -> dict[str, Any]:
    """A schedule with all its fields."""
    names = ("cadence", "run_at", "day_of_week", "day_of_month", "date", "days", "week_of_month")
    return {name: fields.get(name) for name in names}


def schedule_of(node: Node) -> tuple[dict[str, Any] | None, str]:
    """The schedule that equals the node's, or None and the nearest cadence in words."""
    if node.type == "interval":
        return _every(node.parameters)
    if node.type == "cron":
        rules = _rows(node.parameters.get("triggerTimes"), "item")
        return _single_rule(rules, _older_rule)
    rules = _rows(node.parameters.get("rule"), "interval")
    return _single_rule(rules, _rule)


def _rows(value: Any, name: str) -> list[Mapping[str, Any]]:
    rows = value.get(name) if isinstance(value, Mapping) else None
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _single_rule(rules: list[Mapping[str, Any]], read: Any) -> tuple[dict[str, Any] | None, str]:
    if not rules:
        rules = [{}]
    schedule, nearest = read(rules[0])
    return (schedule, nearest) if len(rules) == 1 else (None, nearest)


def _every(parameters: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    unit, count = parameters.get("unit", "seconds"), parameters.get("interval", 1)
    if unit == "hours" and count == 1:
        return {"cadence": "hourly"}, ""
    if unit == "hours" and count == 6:
        return {"cadence": "every_6_hours"}, ""
    return None, "hourly" if unit != "days" else "daily"


def _time_of_day(row: Mapping[str, Any], hour: str, minute: str) -> str | None:
    """HH:MM; None when an expression or something odd decides it."""
    hours, minutes = row.get(hour, 0), row.get(minute, 0)
    if not _is_count(hours, 0, 23) or not _is_count(minutes, 0, 59):
        return None
    return f"{hours:02d}:{minutes:02d}"


def _is_count(value: object, minimum: int, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum


def _rule(row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    kind = row.get("field", "days")
    if kind == "cronExpression":
        return _cron(str(row.get("expression", "")))
    if kind == "hours":
        return _every_hours(row)
    run_at = _time_of_day(row, "triggerAtHour", "triggerAtMinute")
    if kind == "weeks":
        return _weekly(row, run_at)
    if kind == "months":
        return _monthly(row, run_at)
    if kind != "days":
        return None, "hourly"
    if run_at is not None and row.get("daysInterval", 1) == 1:
        return {"cadence": "daily", "run_at": run_at}, ""
    return None, "daily"


def _every_hours(row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    every = row.get("hoursInterval", 1)
    if row.get("triggerAtMinute", 0) == 0 and every in (1, 6):
        return {"cadence": "hourly" if every == 1 else "every_6_hours"}, ""
    return None, "every 6 hours" if _is_count(every, 4, 8) else "hourly"


def _monthly(row: Mapping[str, Any], run_at: str | None) -> tuple[dict[str, Any] | None, str]:
    day = row.get("triggerAtDayOfMonth", 1)
    if run_at is not None and row.get("monthsInterval", 1) == 1 and _is_count(day, 1, 28):
        return {"cadence": "monthly", "run_at": run_at, "day_of_month": day}, ""
    return None, "monthly; note that the last day runs in shorter months"


def _weekly(row: Mapping[str, Any], run_at: str | None) -> tuple[dict[str, Any] | None, str]:
    days = row.get("triggerAtDay", [0])
    if run_at is None or row.get("weeksInterval", 1) != 1 or not isinstance(days, list):
        return None, "weekly"
    numbers = sorted({7 if day in (0, 7) else day for day in days if _is_count(day, 0, 7)})
    if not numbers or len(numbers) != len(set(days)):
        return None, "weekly"
    return _on_days(numbers, run_at), ""


def _on_days(days: list[int], run_at: str) -> dict[str, Any]:
    if len(days) == 1:
        return {"cadence": "weekly", "run_at": run_at, "day_of_week": days[0]}
    return {"cadence": "weekdays", "run_at": run_at, "days": days}


def _older_rule(row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    mode = row.get("mode", "everyDay")
    if mode == "custom":
        return _cron(str(row.get("cronExpression", "")))
    if mode == "everyHour":
        return ({"cadence": "hourly"}, "") if row.get("minute", 0) == 0 else (None, "hourly")
    if mode == "everyX":
        return _every({"unit": row.get("unit", "hours"), "interval": row.get("value", 2)})
    run_at = _time_of_day({"hour": row.get("hour", 14), "minute": row.get("minute", 0)}, "hour", "minute")
    if run_at is None:
        return None, "monthly" if mode == "everyMonth" else "hourly"
    return _older_day_rule(row, mode, run_at)


def _older_day_rule(row: Mapping[str, Any], mode: Any, run_at: str) -> tuple[dict[str, Any] | None, str]:
    if mode == "everyDay":
        return {"cadence": "daily", "run_at": run_at}, ""
    if mode == "everyWeek":
        try:
            day = int(row.get("weekday", 1)) or 7
        except (TypeError, ValueError):
            return None, "weekly"
        return _on_days([day], run_at), ""
    if mode != "everyMonth":
        return None, "hourly"
    day = row.get("dayOfMonth", 1)
    if _is_count(day, 1, 28):
        return {"cadence": "monthly", "run_at": run_at, "day_of_month": day}, ""
    return None, "monthly"


_CRON_HOURS = {
    "*": "hourly",
    "*/1": "hourly",
    "*/6": "every_6_hours",
    "0/6": "every_6_hours",
    "0,6,12,18": "every_6_hours",
}
_DAY_NAMES = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}


def _cron(expression: str) -> tuple[dict[str, Any] | None, str]:
    """The cron expressions that are a cadence."""
    fields = _cron_fields(expression)
    if len(fields) != 5:
        return None, "daily"
    minute, hour, day, month, weekday = fields
    if month != "*":
        return None, "monthly"
    is_every_day = (day, weekday) in (("*", "*"), ("*", "?"), ("?", "*"))
    if minute == "0" and is_every_day and hour in _CRON_HOURS:
        return {"cadence": _CRON_HOURS[hour]}, ""
    if not re.fullmatch(r"\d{1,2}", minute) or not re.fullmatch(r"\d{1,2}", hour):
        return None, "hourly"
    if int(minute) > 59 or int(hour) > 23:
        return None, "daily"
    return _cron_days(f"{int(hour):02d}:{int(minute):02d}", day, weekday)


def _cron_fields(expression: str) -> list[str]:
    """The fields without the seconds, which some expressions begin with and which are left out when 0."""
    fields = expression.split()
    return fields[1:] if len(fields) == 6 and fields[0] == "0" else fields


def _cron_days(run_at: str, day: str, weekday: str) -> tuple[dict[str, Any] | None, str]:
    any_day, any_weekday = day in ("*", "?"), weekday in ("*", "?")
    if any_day and any_weekday:
        return {"cadence": "daily", "run_at": run_at}, ""
    if any_day:
        days = _cron_weekdays(weekday)
        return (_on_days(days, run_at), "") if days else (None, "weekly")
    if any_weekday and re.fullmatch(r"\d{1,2}", day) and 1 <= int(day) <= 28:
        return {"cadence": "monthly", "run_at": run_at, "day_of_month": int(day)}, ""
    return None, "monthly"


def _cron_weekdays(text: str) -> list[int]:
    weekdays: set[int] = set()
    for part in text.lower().split(","):
        first, _, last = part.partition("-")
        numbers = [
            _DAY_NAMES.get(bound, int(bound) if bound.isdigit() else -1) for bound in (first, last or first)
        ]
        if any(not 0 <= number <= 7 for number in numbers) or numbers[0] > numbers[1]:
            return []
        weekdays |= {number or 7 for number in range(numbers[0], numbers[1] + 1)}
    return sorted(weekdays)
