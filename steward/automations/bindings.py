"""Checks the requested connections of a workflow's steps.

An automation keeps one object: step name → connection. The API shows it as two fields: `bindings` has the
closed kinds of the interface, `accounts` every other kind (docs/design/imports-accounts.md#accounts).
"""

from collections.abc import Callable, Mapping
from typing import Any

from steward.automations.checks import RequestErrors
from steward.automations.workflows import bound_kinds, own_document
from steward.connectors.base.settings import TAKES_CALLS
from steward.model.connection import Connection
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import BOUND_KINDS, STEP_NEEDS, Plan, PlanStep

MAX_BINDINGS = 500


def _check_each(
    errors: RequestErrors,
    field: str,
    requested: Mapping[str, Any],
    why_refused: Callable[[str, Any], str | None],
    to_stored: Callable[[Any], JsonObject],
) -> JsonObject:
    """Returns the connections of a field as they are stored; adds errors by step."""
    if len(requested) > MAX_BINDINGS:
        errors.add(field, f"Bind at most {MAX_BINDINGS} steps.")
        return {}
    accepted: dict[str, JsonValue] = {}
    for name, connection in requested.items():
        words = why_refused(name, connection)
        if words is None:
            accepted[name] = to_stored(connection)
        else:
            errors.add(f"{field}.{name}", words)
    return accepted


def check_bound(
    errors: RequestErrors,
    plan: Plan,
    bindings: Mapping[str, Any],
    accounts: Mapping[str, Any],
    connections_by_id: Mapping[IntegrationId, Connection],
) -> JsonObject:
    """Returns the connections of all steps as they are stored; adds errors by field and step."""
    for name in bindings.keys() & accounts.keys():
        errors.add(f"accounts.{name}", "This step is also in bindings. Name it in only one of the two.")
    bound_steps = {
        step.name: step for step in plan.steps if step.origin is not None and step.origin.needs in BOUND_KINDS
    }
    account_steps = {step.name: step for step in plan.steps if _account_kinds(step)}
    checked_bindings = _check_each(
        errors,
        "bindings",
        bindings,
        lambda name, binding: _why_refused(bound_steps.get(name), binding, connections_by_id),
        lambda binding: {**binding, "target": _target(binding["target"])},
    )
    checked_accounts = _check_each(
        errors,
        "accounts",
        accounts,
        lambda name, account: _why_no_account(account_steps.get(name), account, connections_by_id),
        lambda account: _account(connections_by_id[IntegrationId(account["integration_id"])]),
    )
    return {**checked_bindings, **checked_accounts}


def _account(connection: Connection) -> JsonObject:
    return {"integration_id": connection.integration_id, "kind": connection.kind, "target": None}


def _is_account(bound: JsonValue) -> bool:
    return isinstance(bound, Mapping) and bound.get("kind") not in BOUND_KINDS


def bindings_of(bound: JsonObject) -> JsonObject:
    """Returns the connections of steps whose kinds have fields of their own in the interface."""
    return {name: binding for name, binding in bound.items() if not _is_account(binding)}


def accounts_of(bound: JsonObject) -> JsonObject:
    """Returns the API form of the step connections of all other kinds."""
    return {
        name: {"integration_id": account["integration_id"]}
        for name, account in bound.items()
        if isinstance(account, Mapping) and _is_account(account)
    }


def _why_no_account(
    step: PlanStep | None, account: Any, connections_by_id: Mapping[IntegrationId, Connection]
) -> str | None:
    """Returns the error in the account of a step, or None."""
    if step is None:
        return "This workflow has no step of that name that needs an account."
    if not isinstance(account, Mapping) or account.keys() != {"integration_id"}:
        return "Give integration_id, and nothing else."
    words = _wrong_number(account["integration_id"])
    if words is not None:
        return words
    connection = connections_by_id.get(IntegrationId(account["integration_id"]))
    if connection is None:
        return "This organization has no such connection."
    if connection.kind not in _account_kinds(step):
        return f"This step needs a connection of kind {' or '.join(_account_kinds(step))}."
    if connection.facts.get(TAKES_CALLS) is False:
        return "This connection can only send messages. Choose one that was connected with a token."
    return None


def _account_kinds(step: PlanStep) -> tuple[str, ...]:
    """Returns the kinds of connection that a step is bound to by `accounts`."""
    return tuple(kind for kind in bound_kinds(step) if kind not in STEP_NEEDS)


def _wrong_number(number: object) -> str | None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        return "integration_id must be a whole number of at least 1."
    return None


def _why_refused(
    step: PlanStep | None, binding: Any, connections_by_id: Mapping[IntegrationId, Connection]
) -> str | None:
    """Returns the error in the binding of a step, or None."""
    if step is None or step.origin is None:
        return "This workflow has no step of that name that needs a connection."
    words = _wrong_shape(binding)
    if words is not None:
        return words
    connection = connections_by_id.get(IntegrationId(binding["integration_id"]))
    if connection is None:
        return "This organization has no such connection."
    if connection.kind not in bound_kinds(step) or binding["kind"] != connection.kind:
        return f"This step needs a connection of kind {' or '.join(bound_kinds(step))}."
    if step.origin.needs != connection.kind and not _names_tab(binding["target"]):
        return "Give the tab that its rows go to as target.sheet."
    return _wrong_target(binding["target"], connection)


def _wrong_shape(binding: Any) -> str | None:
    if not isinstance(binding, Mapping) or binding.keys() != {"integration_id", "kind", "target"}:
        return "Give integration_id, kind and target, and nothing else."
    words = _wrong_number(binding["integration_id"])
    if words is not None:
        return words
    if binding["kind"] not in BOUND_KINDS:
        return f"kind must be {' or '.join(BOUND_KINDS)}."
    return None if binding["target"] is None else _wrong_target_shape(binding["target"])


def _wrong_target_shape(target: Any) -> str | None:
    if not isinstance(target, Mapping) or not set(target) <= {"spreadsheet_id", "sheet"}:
        return "target must be null, or an object with spreadsheet_id and sheet."
    if any(
        value is not None and (not isinstance(value, str) or len(value) > 200) for value in target.values()
    ):
        return "spreadsheet_id and sheet must be texts of at most 200 characters, or null."
    return None


def _names_tab(target: Any) -> bool:
    return isinstance(target, Mapping) and bool(target.get("sheet"))


def _wrong_target(target: Any, connection: Connection) -> str | None:
    if target is None:
        return None
    if connection.kind == "teams":
        return "A Teams connection has no target. Send null."
    own_id = own_document(connection)
    if own_id is not None and target.get("spreadsheet_id") not in (None, own_id):
        return "This connection is limited to one spreadsheet. Send null, or the id of that spreadsheet."
    return None


def _target(target: Any) -> JsonValue:
    if target is None:
        return None
    return {"spreadsheet_id": target.get("spreadsheet_id"), "sheet": target.get("sheet")}
