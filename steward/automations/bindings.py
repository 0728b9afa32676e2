"""Bindings of a workflow's steps to connections, checked as they are asked for."""

from collections.abc import Mapping
from typing import Any

from steward.automations.checks import Faults
from steward.automations.workflows import bound_kinds, own_document
from steward.model.connection import Connection
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import BOUND_KINDS, Plan, PlanStep

MOST_BINDINGS = 500


def check_bindings(
    faults: Faults,
    plan: Plan,
    requested: Mapping[str, Any],
    connections_by_id: Mapping[IntegrationId, Connection],
) -> JsonObject:
    """Bindings as kept; faults are named by step."""
    steps = {
        step.name: step for step in plan.steps if step.origin is not None and step.origin.needs in BOUND_KINDS
    }
    if len(requested) > MOST_BINDINGS:
        faults.add("bindings", f"Bind at most {MOST_BINDINGS} steps.")
        return {}
    bindings: dict[str, JsonValue] = {}
    for name, binding in requested.items():
        words = _why_refused(steps.get(name), binding, connections_by_id)
        if words is not None:
            faults.add(f"bindings.{name}", words)
            continue
        bindings[name] = {
            "integration_id": binding["integration_id"],
            "kind": binding["kind"],
            "target": _target(binding["target"]),
        }
    return bindings


def _why_refused(
    step: PlanStep | None, binding: Any, connections_by_id: Mapping[IntegrationId, Connection]
) -> str | None:
    """Returns what is wrong with the binding of a step; None when nothing is."""
    if step is None or step.origin is None:
        return "This workflow has no step of that name that needs a connection."
    words = _wrong_shape(binding)
    if words is not None:
        return words
    connection = connections_by_id.get(IntegrationId(binding["integration_id"]))
    if connection is None:
        return "This organisation has no such connection."
    if connection.kind not in bound_kinds(step) or binding["kind"] != connection.kind:
        return f"This step needs a connection of kind {' or '.join(bound_kinds(step))}."
    if step.origin.needs != connection.kind and not _names_tab(binding["target"]):
        return "Name the tab its rows go to, as sheet of the target."
    return _wrong_target(binding["target"], connection)


def _wrong_shape(binding: Any) -> str | None:
    if not isinstance(binding, Mapping) or binding.keys() != {"integration_id", "kind", "target"}:
        return "Give integration_id, kind and target, and nothing else."
    number = binding["integration_id"]
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        return "integration_id is a whole number from 1 on."
    if binding["kind"] not in BOUND_KINDS:
        return f"kind is {' or '.join(BOUND_KINDS)}."
    return None if binding["target"] is None else _wrong_target_shape(binding["target"])


def _wrong_target_shape(target: Any) -> str | None:
    if not isinstance(target, Mapping) or not set(target) <= {"spreadsheet_id", "sheet"}:
        return "target is null, or spreadsheet_id and sheet."
    if any(
        value is not None and (not isinstance(value, str) or len(value) > 200) for value in target.values()
    ):
        return "spreadsheet_id and sheet are texts of at most 200 characters, or null."
    return None


def _names_tab(target: Any) -> bool:
    return isinstance(target, Mapping) and bool(target.get("sheet"))


def _wrong_target(target: Any, connection: Connection) -> str | None:
    if target is None:
        return None
    if connection.kind == "teams":
        return "A Teams connection has no target: give null."
    own_id = own_document(connection)
    if own_id is not None and target.get("spreadsheet_id") not in (None, own_id):
        return "This connection is one spreadsheet already: give null or that one."
    return None


def _target(target: Any) -> JsonValue:
    if target is None:
        return None
    return {"spreadsheet_id": target.get("spreadsheet_id"), "sheet": target.get("sheet")}
