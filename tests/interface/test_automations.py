"""The fields of an automation over HTTP, as a client of the interface reads them."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.model.connection import ConnectionState
from steward.model.ids import IntegrationId
from tests.api.test_automations import AutomationsApi
from tests.people import Caller
from tests.populated_service import PopulatedService

PATH = "/v1/automations"
ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
PLATFORM = re.compile(r"[a-z][a-z0-9_]{1,63}")
DAILY = {"cadence": "daily", "run_at": "09:00"}
REQUIRED = {
    "id", "version", "kind", "import_id", "template_id", "template_version", "platform", "integration_id",
    "store_label", "name", "state", "paused_by", "paused_reason", "inputs", "schedule", "timezone",
    "spread_minutes", "next_run_at", "last_run_at", "consecutive_failures", "created_at", "updated_at",
}  # fmt: skip
OF_WORKFLOWS = {"source", "plan_version", "readiness", "send_mode", "send_mode_allowed"}


def body(populated: PopulatedService, **fields: Any) -> dict[str, Any]:
    """A body that sets up the hiding of what is sold out."""
    sound = {
        "template_id": "hide-out-of-stock-products",
        "integration_id": populated.number("woocommerce"),
        "name": "Hide",
        "inputs": {"threshold": 2},
        "schedule": DAILY,
    }
    return {**sound, **fields}


async def created(populated: PopulatedService, caller: Caller, **fields: Any) -> dict[str, Any]:
    """A new automation as answered."""
    response = await caller.post(PATH, body(populated, **fields))
    assert response.status == 201, response.body
    new_automation: dict[str, Any] = response.data["automation"]
    return new_automation


async def read(caller: Caller, automation: dict[str, Any]) -> dict[str, Any]:
    """The automation as it now is."""
    found_automation: dict[str, Any] = (await caller.get(f"{PATH}/{automation['id']}")).data["automation"]
    return found_automation


async def test_a_new_automation_has_its_fields(populated: PopulatedService, token: Caller) -> None:
    """Every field of an automation.

    Interface statements: 2.2 Id, Timestamp; 2.3 id, version, kind, import_id, template_id, template_version,
    platform, integration_id, store_label, state, inputs, schedule, next_run_at, created_at, updated_at; 9
    template_version.
    """
    automation = await created(populated, token)
    assert set(automation) >= REQUIRED
    assert ID.fullmatch(automation["id"])
    assert (automation["version"], automation["template_version"]) == (1, 1)
    assert (automation["kind"], automation["import_id"], automation["state"]) == (
        "template",
        None,
        "active",
    )
    assert automation["template_id"] == "hide-out-of-stock-products"
    assert (automation["platform"], automation["integration_id"]) == (
        "woocommerce",
        populated.number("woocommerce"),
    )
    assert automation["store_label"] == "The woocommerce"
    assert automation["inputs"]["threshold"] == 2
    fields = {"cadence", "run_at", "day_of_week", "day_of_month", "date", "days", "week_of_month"}
    assert set(automation["schedule"]) == fields
    assert {name: automation["schedule"][name] for name in DAILY} == DAILY
    for name in ("next_run_at", "created_at", "updated_at"):
        assert TIMESTAMP.fullmatch(automation[name])
    assert automation["created_at"] == automation["updated_at"]
    assert automation["next_run_at"] == "2026-05-01T07:00:00.000Z"
    assert await read(token, automation) == automation


async def test_a_connection_that_is_no_store_is_refused_for_that_alone(
    populated: PopulatedService, token: Caller
) -> None:
    """Faults of the request; a spreadsheet has no sales channels that could be missing."""
    sheet = populated.number("spreadsheet")
    response = await token.post(PATH, body(populated, integration_id=sheet))
    assert (response.status, list(response.errors)) == (422, ["integration_id"])
    automation = await created(populated, token)
    response = await token.patch(f"{PATH}/{automation['id']}", {"version": 1, "integration_id": sheet})
    assert (response.status, list(response.errors)) == (422, ["integration_id"])


async def test_template_automations_lack_workflow_fields(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 2.3 source, bindings, plan_version, readiness, connections, send_mode,
    send_mode_allowed.
    """
    automation = await created(populated, token)
    listed = (await token.get(PATH)).data["automations"][0]
    changed = (await token.patch(f"{PATH}/{automation['id']}", {"version": 1, "name": "Other"})).data[
        "automation"
    ]
    for displayed in (automation, listed, changed, await read(token, automation)):
        assert set(displayed) & OF_WORKFLOWS == set()
        assert (displayed["bindings"], displayed["connections"]) == ({}, [])


async def test_the_version_is_raised_by_every_change_and_needed_by_an_update(
    populated: PopulatedService, token: Caller
) -> None:
    """Interface statements: 2.3 version; 4.3 update, pause, resume, archive, restore; 9 automation."""
    automation = await created(populated, token)
    url = f"{PATH}/{automation['id']}"
    without = await token.patch(url, {"name": "Other"})
    assert (without.status, set(without.errors)) == (422, {"version"})
    changes: list[tuple[str, str, dict[str, Any], str]] = [
        ("PATCH", "", {"version": 1, "name": "Other"}, "active"),
        ("PATCH", "", {"version": 2, "schedule": {"cadence": "hourly"}}, "active"),
        ("POST", "/pause", {}, "paused"),
        ("POST", "/resume", {}, "active"),
        ("POST", "/archive", {}, "archived"),
        ("POST", "/restore", {}, "paused"),
    ]
    for number, (method, tail, sent, state) in enumerate(changes, 2):
        populated.service.clock.tick(1)
        response = await token.call(method, url + tail, body=sent)
        assert response.status == 200, response.body
        after = response.data["automation"]
        assert (after["version"], after["state"]) == (number, state)
        assert after["updated_at"] > automation["updated_at"]
    stale = await token.patch(url, {"version": 1, "name": "Late"})
    assert (stale.status, stale.data["automation"]["version"]) == (409, 7)


async def test_pause_person_and_reason_stay_until_resume(populated: PopulatedService, token: Caller) -> None:
    """paused_by, paused_reason, next_run_at; by the merchant, and by the service.

    See docs/design/api/automations.md#record.

    Interface statements: 2.3 paused_by, paused_reason, next_run_at.
    """
    automation = await created(populated, token)
    assert (automation["paused_by"], automation["paused_reason"]) == (None, None)
    url = f"{PATH}/{automation['id']}"
    await token.post(f"{url}/pause", {"reason": "Stocktaking"})
    paused = await read(token, automation)
    assert (paused["paused_by"], paused["paused_reason"], paused["next_run_at"]) == (
        "merchant",
        "Stocktaking",
        None,
    )
    await token.patch(url, {"version": 2, "name": "Other"})
    assert (await read(token, automation))["paused_reason"] == "Stocktaking"
    resumed = (await token.post(f"{url}/resume")).data["automation"]
    assert (resumed["paused_by"], resumed["paused_reason"]) == (None, None)
    owner = await populated.service.web("owner")
    await owner.post(f"/app/connections/{populated.number('woocommerce')}/disconnect")
    ended = await read(token, automation)
    assert (ended["state"], ended["paused_by"]) == ("paused", "system")
    assert "The woocommerce" in ended["paused_reason"]


async def test_its_zone_is_the_stores_unless_set(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 2.2 zone; 2.3 timezone."""
    store = (await token.get(f"{PATH}/stores")).data["stores"][0]
    assert (await created(populated, token))["timezone"] == store["timezone"] == "Europe/Berlin"
    there = await created(populated, token, timezone="America/New_York")
    assert there["timezone"] == "America/New_York"
    assert there["next_run_at"] == "2026-05-01T13:00:00.000Z"
    response = await token.post(PATH, body(populated, timezone="Berlin"))
    assert (response.status, set(response.errors)) == (422, {"timezone"})


async def test_the_name_takes_120_characters_and_no_more(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 2.3 name; 8 name."""
    assert (await created(populated, token, name="ä" * 120))["name"] == "ä" * 120
    response = await token.post(PATH, body(populated, name="ä" * 121))
    assert (response.status, set(response.errors)) == (422, {"name"})


async def test_every_automation_has_a_fixed_offset_of_its_own(
    populated: PopulatedService, token: Caller
) -> None:
    """Interface statements: 2.3 spread_minutes; 8 spread_minutes."""
    populated.service.restart(spread_max=9)
    seen: Counter[int] = Counter()
    for _ in range(40):
        automation = await created(populated, token)
        spread = automation["spread_minutes"]
        seen[spread] += 1
        assert automation["next_run_at"] == f"2026-05-01T07:{spread:02}:00.000Z"
        assert (await read(token, automation))["spread_minutes"] == spread
    assert set(seen) <= set(range(10))
    assert len(seen) > 3


async def test_the_last_start_and_failures_in_a_row_are_counted(
    populated: PopulatedService, token: Caller
) -> None:
    """Interface statements: 2.3 last_run_at, consecutive_failures."""
    inputs = {"threshold": 5, "teams": {"integration_id": populated.number("teams")}}
    automation = await created(
        populated, token, template_id="low-stock-alert", inputs=inputs, schedule={"cadence": "manual"}
    )
    assert (automation["last_run_at"], automation["consecutive_failures"], automation["next_run_at"]) == (
        None,
        0,
        None,
    )
    populated.shop.fault("status", "GET", "/wp-json/**", status=404, count=-1)
    for number in (1, 2):
        await token.post(f"{PATH}/{automation['id']}/runs", {"idempotency_key": f"fails-{number}"})
        await populated.shop.drain()
        after = await read(token, automation)
        assert after["consecutive_failures"] == number
        assert TIMESTAMP.fullmatch(after["last_run_at"])
    populated.shop.world.state.faults.clear()
    run = (await token.post(f"{PATH}/{automation['id']}/runs", {"idempotency_key": "good"})).data["run"]
    await populated.shop.drain()
    assert (await token.get(f"{PATH}/runs/{run['id']}")).data["run"]["status"] == "succeeded"
    assert (await read(token, automation))["consecutive_failures"] == 0


async def test_automations_and_runs_say_who_made_them(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 2.3 created_by, created_via, api_client_id, makers."""
    web = await populated.service.web("member")
    person = populated.service.members["member"].person.id
    client = populated.service.own.issued.credential.client_id
    for caller, via, client_id in ((token, "api-token", client), (web, "ui", None)):
        automation = await created(populated, caller)
        run = (await caller.post(f"{PATH}/{automation['id']}/runs", {"idempotency_key": via})).data["run"]
        for record in (automation, run, await read(token, automation)):
            actual = (record["created_by"], record["created_via"], record["api_client_id"])
            assert actual == (person, via, client_id)


async def test_a_trigger_says_how_it_starts(desk: AutomationsApi) -> None:
    """Interface statements: 2.3 trigger; 8 topics."""
    assert (await desk.create())["trigger"] == {"kind": "schedule"}
    by_event = {"schedule": {"cadence": "manual"}, "trigger": {"kind": "event", "topics": ["orders/create"]}}
    assert (await desk.create(**by_event))["trigger"]["topics"] == ["orders/create"]
    for topics in ([], [f"orders/{number}" for number in range(9)], ["x" * 81], [""]):
        wrong = {**by_event, "trigger": {"kind": "event", "topics": topics}}
        response = await desk.member.post(PATH, desk.body(**wrong))
        assert response.status == 422
        assert all(path.startswith("trigger") for path in response.errors)


async def test_a_template_without_a_store_is_labelled_by_its_connections(desk: AutomationsApi) -> None:
    """Interface statements: 2.3 version, platform, integration_id, store_label, connections, disconnected."""
    reads = [{"integration_id": number, "kind": "woocommerce"} for number in (desk.other_store, desk.store)]
    automation = await desk.create(
        template_id="stores-report",
        integration_id=...,
        inputs={},
        connections=reads,
        schedule={"cadence": "manual"},
    )
    assert (automation["platform"], automation["integration_id"], automation["connections"]) == (
        None,
        None,
        reads,
    )
    assert automation["store_label"] == "Second, Corner"
    url = f"{PATH}/{automation['id']}"
    turned = (await desk.member.patch(url, {"version": 1, "connections": reads[::-1]})).data["automation"]
    assert (turned["version"], turned["connections"]) == (2, reads[::-1])
    await disconnect(desk, desk.store)
    response = await desk.member.post(f"{url}/runs", {"idempotency_key": "one"})
    assert (response.status, response.code) == (422, "not_connected")
    assert "Corner" in response.body["message"]


async def disconnect(desk: AutomationsApi, store: IntegrationId) -> None:
    """The store is no longer connected."""
    org = desk.service.own.organization.id

    async def act(tx: Tx) -> None:
        connection = await connections.get(tx, org, store)
        assert connection is not None
        gone = replace(connection, state=ConnectionState.DISCONNECTED, version=connection.version + 1)
        assert await connections.save(tx, org, gone, expected_version=connection.version)

    await desk.service.write(act, org=org)


async def test_ids_and_names_have_their_forms(populated: PopulatedService, token: Caller) -> None:
    """Interface statements: 2.2 Id, Timestamp, TemplateId, Platform, ConnectionPlatform."""
    for template in (await token.get(f"{PATH}/templates")).data["templates"]:
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]{1,80}", template["template_id"])
        assert all(PLATFORM.fullmatch(platform) for platform in template["platforms"])
    for connection in (await token.get(f"{PATH}/connections")).data["connections"]:
        assert PLATFORM.fullmatch(connection["kind"])
    wrong = {
        "template_id": ("Low-Stock", "x", "x" * 82),
        "platform": ("Shopify", "s", "1shop", "x" * 65),
        "updated_since": ("2026-05-01", "2026-05-01T06:00:00", "yesterday"),
    }
    for field, values in wrong.items():
        for value in values:
            response = await token.get(PATH, **{field: value})
            assert (response.status, set(response.errors)) == (422, {field}), value
    kinds = await token.get(f"{PATH}/connections", kind="Teams")
    assert set(kinds.errors) == {"kind"}
    for value in ("01kqh1yqr0chg7jj4gpvf9j2cm", "01KQH1YQR0CHG7JJ4GPVF9J2C", "01KQH1YQR0CHG7JJ4GPVF9J2CI"):
        response = await token.get(f"{PATH}/occurrences", automation_id=value)
        assert set(response.errors) == {"automation_id"}
