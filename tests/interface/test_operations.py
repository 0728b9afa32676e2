"""The operations and rules a client of the interface builds on."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from steward.api.http.operation import Access
from steward.api.operations import OPERATIONS
from steward.model.account import Scope
from steward.model.instants import read_time
from tests.interface.test_automations import PATH, created
from tests.people import ApiResponse, Caller
from tests.populated_service import PopulatedService

MOVE = {"slot_at", "run_at", "scope", "occurrence_version", "automation_version"}


async def run_now(caller: Caller, automation: dict[str, Any], key: str, **more: Any) -> ApiResponse:
    """POST of a run."""
    return await caller.post(f"{PATH}/{automation['id']}/runs", {"idempotency_key": key, **more})


async def coming(caller: Caller, automation: dict[str, Any]) -> dict[str, Any]:
    """The next coming run."""
    response = await caller.get(f"{PATH}/occurrences", automation_id=automation["id"])
    row: dict[str, Any] = response.data["occurrences"][0]
    return row


def moved(row: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The body of a move of a row as read, two hours later."""
    later = read_time(row["run_at"])
    assert later is not None
    body = {
        "slot_at": row["slot_at"],
        "run_at": (later + timedelta(hours=2)).isoformat(),
        "scope": "this",
        "occurrence_version": row["version"],
        "automation_version": row["automation_version"],
        **changes,
    }
    return {name: value for name, value in body.items() if value is not ...}


async def test_choices_for_set_up_are_listed(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 4.3 templates, stores, connections, destinations, status."""
    templates = (await token.get(f"{PATH}/templates")).data["templates"]
    assert {template["template_id"] for template in templates} >= {"low-stock-alert"}
    for template in templates:
        assert set(template["readiness"]) == {"ready", "missing"}
        assert set(template["readiness"]["missing"]) <= {
            connection["kind"] for connection in template["connections"]
        }
    stores = (await token.get(f"{PATH}/stores")).data["stores"]
    assert [store["integration_id"] for store in stores] == [populated.number("woocommerce")]
    connections = (await token.get(f"{PATH}/connections")).data["connections"]
    assert {(item["name"], item["state"]) for item in connections} == {
        ("The woocommerce", "connected"),
        ("The spreadsheet", "connected"),
        ("The teams", "connected"),
    }
    sheets = await token.get(f"{PATH}/destinations", integration_id=populated.number("spreadsheet"))
    assert [destination["kind"] for destination in sheets.data["destinations"]] == ["spreadsheet"]
    assert (await token.get(f"{PATH}/status")).data["automations_enabled"] is True


async def test_one_that_was_created_is_returned(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 4.3 create."""
    automation = await created(populated, token, name="Mine")
    assert (automation["name"], automation["inputs"]["threshold"], automation["state"]) == (
        "Mine",
        2,
        "active",
    )
    listed = (await token.get(PATH)).data["automations"]
    assert [item["id"] for item in listed] == [automation["id"]]


async def test_a_key_starts_one_run_only(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 4.3 runs, key, other; 7 reused."""
    record, two = await created(populated, token), await created(populated, token)
    first = await run_now(token, record, "k")
    again = await run_now(token, record, "k")
    assert (first.status, first.data["run"]["status"]) == (201, "queued")
    assert (again.status, again.data["run"]["id"]) == (200, first.data["run"]["id"])
    assert again.headers["idempotent-replayed"] == "true"
    other = await run_now(token, two, "k")
    assert (other.status, set(other.errors)) == (422, {"idempotency_key"})
    runs = (await token.get(f"{PATH}/runs")).data["runs"]
    assert [run["id"] for run in runs] == [first.data["run"]["id"]]


async def test_a_run_is_followed_to_its_end(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 4.3 mode, run, after_seq, finished."""
    automation = await created(populated, token)
    run = (await run_now(token, automation, "k", mode="test")).data["run"]
    url = f"{PATH}/runs/{run['id']}"
    queued = (await token.get(url)).data["run"]
    assert (queued["status"], queued["steps"], queued["summary"], queued["result"]) == (
        "queued",
        [],
        None,
        None,
    )
    await populated.shop.drain()
    ended = (await token.get(url)).data["run"]
    assert ended["status"] == "succeeded"
    numbers = [step["seq"] for step in ended["steps"]]
    assert numbers == list(range(1, ended["last_seq"] + 1))
    assert ended["summary"]["text"]
    assert ended["result"]
    newer = (await token.get(url, after_seq=numbers[-2])).data["run"]["steps"]
    assert newer == ended["steps"][-1:]
    assert populated.shop.writes() == []
    assert ended["summary"]["counts"]["proposed"] > 0


async def test_a_run_is_cancelled_and_a_finished_one_is_not(
    populated: PopulatedService, token: Caller
) -> None:
    """Interface statements: 4.3 cancel; 7 wrong_state."""
    run = (await run_now(token, await created(populated, token), "k")).data["run"]
    response = await token.post(f"{PATH}/runs/{run['id']}/cancel")
    assert (response.status, response.data["run"]["status"]) == (200, "cancelled")
    again = await token.post(f"{PATH}/runs/{run['id']}/cancel")
    assert (again.status, again.code) == (409, "wrong_state")


async def test_a_move_names_its_missing_fields(populated: PopulatedService, token: Caller) -> None:
    """Every field is required.

    Interface statements: 4.2 automationId, required, slot_at, run_at, occurrence_version, automation_version.
    """
    automation = await created(populated, token)
    url = f"{PATH}/{automation['id']}/occurrences/move"
    row = await coming(token, automation)
    assert set((await token.post(url, {})).errors) == MOVE
    wrong = moved(
        row,
        slot_at="soon",
        run_at="2026-05-02 09:00",
        scope="all",
        occurrence_version=-1,
        automation_version=0,
    )
    assert set((await token.post(url, wrong)).errors) == MOVE
    assert (await token.post(f"{PATH}/no-id/occurrences/move", moved(row))).status == 404
    response = await token.post(url, moved(row))
    assert response.status == 200
    for changes in ({"occurrence_version": 0}, {"automation_version": 9}):
        stale = await token.post(url, moved(response.data["occurrence"], **changes))
        assert (stale.status, stale.code) == (409, "stale_version")
        assert stale.data["occurrence"] == response.data["occurrence"]


async def test_a_time_that_has_passed_is_refused(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 4.2 rule 3; 7 past."""
    automation = await created(populated, token)
    row = await coming(token, automation)
    past = moved(row, run_at="2026-05-01T05:59:00Z")
    response = await token.post(f"{PATH}/{automation['id']}/occurrences/move", past)
    assert (response.status, set(response.errors)) == (422, {"run_at"})
    once = {"cadence": "once", "date": "2026-04-30", "run_at": "09:00"}
    gone = await token.patch(f"{PATH}/{automation['id']}", {"version": 1, "schedule": once})
    assert (gone.status, set(gone.errors)) == (422, {"schedule.date"})


async def test_a_scheduled_run_starts_within_ten_minutes(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 8 start."""
    populated.service.restart(spread_max=9)
    created_items = [await created(populated, token) for _ in range(5)]
    await populated.shop.pass_time(hours=1)
    for _ in range(10):
        await populated.shop.pass_time(minutes=1)
    later = await populated.service.token("member")
    for automation in created_items:
        runs = (await later.get(f"{PATH}/runs", automation_id=automation["id"])).data["runs"]
        started, slot = read_time(runs[-1]["started_at"]), read_time("2026-05-01T07:00:00Z")
        assert started is not None
        assert slot is not None
        assert timedelta(0) <= started - slot <= timedelta(minutes=10)


async def test_a_token_acts_in_its_own_organization_alone(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 5 organization; 5.4 bound."""
    automation = await created(populated, token)
    stranger = await populated.service.token("stranger")
    assert (await stranger.get(f"{PATH}/{automation['id']}")).status == 404
    assert (await stranger.get(PATH)).data["automations"] == []
    payload = token.headers["Authorization"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    member = populated.service.members["member"]
    assert (claims["sub"], claims["org"]) == (str(member.person.id), member.org)
    assert populated.service.own.issued.secret not in json.dumps(claims)
    mixed = {**claims, "org": populated.service.other.organization.id}
    head, _, signature = token.headers["Authorization"].split(".")
    forged = base64.urlsafe_b64encode(json.dumps(mixed).encode()).decode().rstrip("=")
    stranger.headers["Authorization"] = f"{head}.{forged}.{signature}"
    assert (await stranger.get(PATH)).status == 401


async def test_a_login_gives_nothing_to_refresh_with(populated: PopulatedService) -> None:
    """Interface statements: 5.1 answer; 5.4 refresh."""
    response = await populated.service.log_in("member")
    assert "refresh_token" not in response.body
    assert set(response.body) == {
        "access_token", "token_type", "expires_in", "scope", "service_url", "direct", "user",
        "organization", "expires_at", "success", "contract_version", "data",
    }  # fmt: skip
    assert response.body["scope"] == "automations:read automations:write"
    form = b"grant_type=refresh_token&refresh_token=x"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    path = "/v2/api/automations/login"
    refused = await populated.service.nobody().call("POST", path, content=form, headers=headers)
    assert (refused.status, "grant_type" in refused.errors) == (422, True)


READS = {
    "POST /v1/automations/schedule/preview",
    "POST /v1/automations/imports/preview",
    "POST /v1/automations/imports/{import_id}/preview",
}
DECISIONS = {
    "POST /v1/automations/approvals/{approval_id}/approve",
    "POST /v1/automations/approvals/{approval_id}/reject",
}


@pytest.mark.parametrize("scope", list(Scope))
def test_each_operation_needs_the_scope_of_what_it_does(scope: Scope) -> None:
    """Interface statements: 4 scope; 5.3 read, write, approve."""
    rows = {
        f"{row.method} {row.path}" for row in OPERATIONS if row.access is Access.API and row.scope is scope
    }
    every = {f"{row.method} {row.path}" for row in OPERATIONS if row.access is Access.API}
    reading = {name for name in every if name.startswith("GET ") or name in READS}
    expected = {Scope.READ: reading, Scope.WRITE: every - reading - DECISIONS, Scope.APPROVE: DECISIONS}
    assert rows == expected[scope]
