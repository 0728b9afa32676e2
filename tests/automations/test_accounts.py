"""Tests accounts of workflow steps: closed kinds are in `bindings`, all others in `accounts`."""

from datetime import UTC, datetime
from typing import Any

import pytest

from steward.automations.bindings import MAX_BINDINGS, accounts_of, bindings_of, check_bound
from steward.automations.checks import RequestErrors
from steward.automations.workflows import WorkflowState, readiness_wire, unconfigured
from steward.model import plan_json
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonObject
from steward.model.plan import Plan, PlanStep, StepKind, StepSource, in_line
from steward.model.refusals import ValidationFailed

NOW = datetime(2026, 5, 4, 10, tzinfo=UTC)


def _connection(number: int, kind: str, state: ConnectionState = ConnectionState.CONNECTED) -> Connection:
    return Connection(
        org=OrgId(1),
        integration_id=IntegrationId(number),
        kind=kind,
        is_store=False,
        name=kind,
        domain=None,
        zone=None,
        currency=None,
        state=state,
        auth=Auth.KEY,
        account_label=None,
        facts={},
        version=1,
        connected_at=NOW,
        last_ok_at=None,
        checked_at=None,
        last_error=None,
    )


def _step(name: str, needs: str | None) -> PlanStep:
    origin = StepSource(source_type="x", source_version=1, needs=needs, account={"credential": "x"})
    return PlanStep(name, name, StepKind.SEND, "x", {}, origin)


PLAN = in_line((_step("Ask", "http_api"), _step("Tell", "teams"), _step("Pass", None)))
CONNECTIONS = {
    connection.integration_id: connection
    for connection in (
        _connection(1, "http_api"),
        _connection(2, "teams"),
        _connection(3, "http_api", ConnectionState.NEEDS_RECONNECTING),
    )
}
TEAMS = {"integration_id": 2, "kind": "teams", "target": None}


def _errors(bindings: JsonObject, accounts: JsonObject, plan: Plan = PLAN) -> dict[str, Any]:
    faults = RequestErrors()
    check_bound(faults, plan, bindings, accounts, CONNECTIONS)
    try:
        faults.refuse()
    except ValidationFailed as refused:
        return dict(refused.errors)
    return {}


def test_both_fields_are_kept_as_one_and_shown_apart() -> None:
    """Bindings of either field are stored as one object, and each field answers its own steps."""
    stored_check_bound = check_bound(
        RequestErrors(), PLAN, {"Tell": TEAMS}, {"Ask": {"integration_id": 1}}, CONNECTIONS
    )
    assert bindings_of(stored_check_bound) == {"Tell": TEAMS}
    assert accounts_of(stored_check_bound) == {"Ask": {"integration_id": 1}}


@pytest.mark.parametrize(
    ("step", "account", "words"),
    [
        ("No such step", {"integration_id": 1}, "This workflow has no step of that name"),
        ("Pass", {"integration_id": 1}, "This workflow has no step of that name"),
        ("Tell", {"integration_id": 2}, "This workflow has no step of that name"),
        ("Ask", {"integration_id": 9}, "This organization has no such connection."),
        ("Ask", {"integration_id": 2}, "This step needs a connection of kind http_api."),
        ("Ask", {"integration_id": 0}, "integration_id must be a whole number of at least 1."),
        ("Ask", {"integration_id": True}, "integration_id must be a whole number of at least 1."),
        ("Ask", {"integration_id": 1, "kind": "http_api"}, "Give integration_id, and nothing else."),
        ("Ask", 1, "Give integration_id, and nothing else."),
    ],
)
def test_an_account_that_cannot_be_used_is_refused_by_its_step(step: str, account: Any, words: str) -> None:
    """Each error names the field and the step; another organization's connection is unknown."""
    [(field, [message])] = _errors({}, {step: account}).items()
    assert field == f"accounts.{step}"
    assert message.startswith(words)


def test_a_step_is_not_bound_by_both_fields() -> None:
    """A step named in both fields is refused, whichever of them fits."""
    assert "accounts.Tell" in _errors({"Tell": TEAMS}, {"Tell": {"integration_id": 1}})


def test_a_binding_does_not_name_a_step_of_another_kind() -> None:
    """`bindings` refuses a step whose kind belongs into `accounts`."""
    assert list(_errors({"Ask": TEAMS}, {})) == ["bindings.Ask"]


def test_five_hundred_accounts_can_be_named() -> None:
    """500 accounts are accepted; one more is refused as a whole."""
    plan = in_line(tuple(_step(f"Ask {number}", "http_api") for number in range(MAX_BINDINGS + 1)))
    accounts = {f"Ask {number}": {"integration_id": 1} for number in range(MAX_BINDINGS)}
    assert _errors({}, accounts, plan) == {}
    more = accounts | {f"Ask {MAX_BINDINGS}": {"integration_id": 1}}
    assert list(_errors({}, more, plan)) == ["accounts"]


def test_a_step_without_a_usable_account_is_unbound() -> None:
    """Readiness lists such a step with its reason, apart from the closed kinds; `missing` stays empty."""
    for accounts, why in (({}, "no_connection"), ({"Ask": {"integration_id": 3}}, "needs_reconnecting")):
        bound = check_bound(RequestErrors(), PLAN, {}, accounts, CONNECTIONS)
        missing = unconfigured(PLAN, bound, None, CONNECTIONS)
        assert readiness_wire(WorkflowState(PLAN, {}, missing)) == {
            "ready": False,
            "missing": [],
            "unconfigured": [{"step": "Tell", "kind": "teams", "target": None, "why": "no_connection"}],
            "unbound": [{"step": "Ask", "kind": "http_api", "why": why}],
            "unset": [],
        }


def test_account_details_in_the_file_are_kept_with_the_plan() -> None:
    """The account data of an import are stored with its plan and read back unchanged."""
    assert plan_json.from_json(plan_json.to_json(PLAN)) == PLAN
