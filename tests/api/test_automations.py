"""Automations over HTTP: fields, validation errors, replays, lists and cursors."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from steward.api.operations import OPERATIONS
from steward.api.v1.automations import OPERATIONS as AUTOMATION_OPERATIONS
from steward.database.accounts import connections
from steward.database.engine.base import Engine, Tx
from steward.model.connection import ConnectionState
from steward.model.ids import IntegrationId, OrgId
from tests.automations.world import RULES, connection
from tests.fake_clock import FakeClock
from tests.people import ApiResponse, Caller
from tests.service import Cast, Service, make_service

PATH = "/v1/automations"
DAILY = {"cadence": "daily", "run_at": "08:00"}


@dataclass
class AutomationsApi:
    """Holds the service, a member's and a stranger's callers, and connected stores of both organizations."""

    service: Service
    member: Caller
    stranger: Caller
    store: IntegrationId
    other_store: IntegrationId
    foreign_store: IntegrationId

    async def connect(self, org: OrgId, name: str, zone: str | None = None) -> IntegrationId:
        """Inserts a connected store and returns its id."""

        async def act(tx: Tx) -> IntegrationId:
            integration_id = await connections.new_integration_id(tx, org)
            new_connection = connection(org, integration_id, "woocommerce", name, zone, tx.now)
            await connections.insert(tx, org, new_connection, subject=str(integration_id))
            return integration_id

        integration: IntegrationId = await self.service.write(act, org=org)
        return integration

    def body(self, **fields: Any) -> dict[str, Any]:
        """Returns a valid body for a create request with some fields changed; `...` removes a field."""
        sound = {
            "template_id": "stock-watch",
            "name": "Stock watch",
            "inputs": {},
            "schedule": DAILY,
            "integration_id": self.store,
        }
        return {name: value for name, value in {**sound, **fields}.items() if value is not ...}

    async def create(self, **fields: Any) -> dict[str, Any]:
        """Creates an automation one second after the previous one and returns it."""
        self.service.clock.tick(1)
        response = await self.member.post(PATH, self.body(**fields))
        assert response.status == 201, response.body
        new_automation: dict[str, Any] = response.data["automation"]
        return new_automation

    async def names(self, **query: Any) -> list[str]:
        """Returns the names that a list answers on all of its pages."""
        all_names: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            response = await self.member.get(PATH, **query, **cursor)
            assert response.status == 200, response.body
            all_names += [each_automation["name"] for each_automation in response.data["automations"]]
            if response.data["next_cursor"] is None:
                return all_names
            cursor = {"cursor": response.data["next_cursor"]}


@pytest.fixture
async def desk(engine: Engine, clock: FakeClock, cast: Cast) -> AsyncIterator[AutomationsApi]:
    """Yields a desk on a service with the templates of these tests."""
    service = await make_service(engine, clock, cast=cast, automation_rules=RULES)
    in_table = {(row.method, row.path) for row in OPERATIONS}
    service.restart(extra=[row for row in AUTOMATION_OPERATIONS if (row.method, row.path) not in in_table])
    none = IntegrationId(0)
    new_desk = AutomationsApi(
        service, await service.token("member"), await service.token("stranger"), none, none, none
    )
    new_desk.store = await new_desk.connect(service.own.organization.id, "Corner", "Europe/Berlin")
    new_desk.other_store = await new_desk.connect(service.own.organization.id, "Second")
    new_desk.foreign_store = await new_desk.connect(service.other.organization.id, "Theirs")
    yield new_desk
    await service.close()


async def test_a_created_automation_has_every_field(desk: AutomationsApi) -> None:
    """Answers every field of an automation made from a template, on create and on read.

    See docs/design/api/automations.md#record.
    """
    automation = await desk.create(inputs={"threshold": 3.0})
    spread = automation["spread_minutes"]
    member = desk.service.members["member"]
    assert automation == {
        "id": automation["id"],
        "version": 1,
        "kind": "template",
        "import_id": None,
        "template_id": "stock-watch",
        "template_version": 1,
        "platform": "woocommerce",
        "integration_id": desk.store,
        "store_label": "Corner",
        "name": "Stock watch",
        "state": "active",
        "paused_by": None,
        "paused_reason": None,
        "inputs": {"threshold": 3},
        "schedule": {
            "cadence": "daily",
            "run_at": "08:00",
            "day_of_week": None,
            "day_of_month": None,
            "date": None,
            "days": None,
            "week_of_month": None,
        },
        "timezone": "Europe/Berlin",
        "spread_minutes": spread,
        "next_run_at": f"2026-05-02T06:{spread:02}:00.000Z",
        "last_run_at": None,
        "consecutive_failures": 0,
        "created_at": "2026-05-01T06:00:01.000Z",
        "updated_at": "2026-05-01T06:00:01.000Z",
        "bindings": {},
        "connections": [],
        "trigger": {"kind": "schedule"},
        "created_by": member.person.id,
        "created_via": "api-token",
        "api_client_id": desk.service.own.issued.credential.client_id,
    }
    response = await desk.member.get(f"{PATH}/{automation['id']}")
    assert (response.status, response.data) == (200, {"automation": automation})


async def test_an_event_trigger_is_returned_with_seven_fields(desk: AutomationsApi) -> None:
    """Answers an event trigger with all of its seven fields; it is `off` until the automation is active.

    See docs/design/api/automations.md#trigger.
    """
    trigger = {"kind": "event", "topics": ["orders/create"]}
    automation = await desk.create(schedule={"cadence": "manual"}, trigger=trigger)
    assert automation["state"] == "draft"
    assert automation["trigger"] == {
        "kind": "event",
        "topics": ["orders/create"],
        "words": "When an order is created",
        "listening": "off",
        "reason": None,
        "events_dropped": 0,
        "events_dropped_at": None,
    }
    response = await desk.member.post(f"{PATH}/{automation['id']}/resume")
    assert response.data["automation"]["trigger"]["listening"] == "not_yet"


async def test_the_web_app_creates_as_a_person(desk: AutomationsApi) -> None:
    """Records that a person in the web app created the automation, and no API client.

    Interface statements: 2.3 created_via.
    """
    web = await desk.service.web("owner")
    response = await web.post(PATH, desk.body())
    new_automation = response.data["automation"]
    assert (new_automation["created_via"], new_automation["api_client_id"]) == ("ui", None)


FAULTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": ..., "inputs": ..., "schedule": ...}, ["inputs", "name", "schedule"]),
    ({"name": " "}, ["name"]),
    ({"name": "x" * 121}, ["name"]),
    ({"name": "a\u0007b"}, ["name"]),
    (
        {"name": "", "schedule": {"cadence": "weekly", "run_at": "25:00"}},
        ["name", "schedule.day_of_week", "schedule.run_at"],
    ),
    ({"schedule": {"cadence": "daily", "run_at": "08:00", "more": 1}}, ["schedule.more"]),
    ({"schedule": []}, ["schedule"]),
    ({"schedule": {}}, ["schedule.cadence"]),
    ({"inputs": []}, ["inputs"]),
    ({"inputs": {"threshold": 101}}, ["inputs.threshold"]),
    ({"timezone": None}, ["timezone"]),
    ({"timezone": "europe/berlin"}, ["timezone"]),
    ({"template_id": "Nope"}, ["template_id"]),
    ({"template_id": "no-such"}, ["template_id"]),
    ({"template_id": "imported-workflow"}, ["template_id"]),
    ({"integration_id": "1"}, ["integration_id"]),
    ({"integration_id": True}, ["integration_id"]),
    ({"integration_id": 0}, ["integration_id"]),
    ({"connections": [{"integration_id": 1}]}, ["connections.0.kind"]),
    ({"connections": [{"integration_id": 1, "kind": "woocommerce", "x": 1}]}, ["connections.0.x"]),
    ({"bindings": {}}, ["bindings"]),
    ({"send_mode": "ask"}, ["send_mode"]),
    ({"state": "active"}, ["state"]),
    ({"idempotency_key": "with blank"}, ["idempotency_key"]),
    ({"idempotency_key": "x" * 201}, ["idempotency_key"]),
    ({"trigger": {"kind": "event", "topics": ["a"], "words": ""}}, ["trigger.words"]),
    ({"trigger": {"kind": "schedule", "topics": []}}, ["trigger.topics"]),
    ({"trigger": {"kind": "other"}}, ["trigger.kind"]),
    ({"trigger": {}, "timezone": "Mars", "schedule": {}}, ["schedule.cadence", "timezone", "trigger.kind"]),
    ({"trigger": None}, ["trigger"]),
]


async def test_every_fault_is_on_its_path(desk: AutomationsApi) -> None:
    """Reports every invalid or missing field of a create request under its own path.

    See docs/design/api/conventions.md#envelope and docs/design/api/conventions.md#operations.

    Interface statements: 4.3 required.
    """
    for fields, paths in FAULTS:
        response = await desk.member.post(PATH, desk.body(**fields))
        assert (response.status, response.code) == (422, "validation_failed"), fields
        assert sorted(response.errors) == paths, fields


async def test_names_are_trimmed_and_normalised(desk: AutomationsApi) -> None:
    """Trims names, normalises them to NFC and counts their length after that.

    See docs/design/api/conventions.md#requests.

    Interface statements: 2.3 name.
    """
    automation = await desk.create(name="  Cafe\u0301 " + "x" * 115)
    assert automation["name"] == "Caf\u00e9 " + "x" * 115


async def test_a_repeated_create_is_a_replay(desk: AutomationsApi) -> None:
    """Answers the first result for the same key and body, and `key_reused` for the key with another body."""
    body = desk.body(idempotency_key="a-key")
    first = await desk.member.post(PATH, body)
    second = await desk.member.post(PATH, body)
    assert (first.status, second.status) == (201, 200)
    assert second.headers["Idempotent-Replayed"] == "true"
    assert first.data == second.data
    third = await desk.member.post(PATH, {**body, "name": "Other"})
    assert (third.status, third.code, list(third.errors)) == (422, "key_reused", ["idempotency_key"])


async def test_an_unconnected_store_has_its_own_code(desk: AutomationsApi) -> None:
    """Refuses an automation on a store that needs reconnecting with `not_connected`.

    See docs/design/api/conventions.md#codes.

    Interface statements: 7 unconnected.
    """
    org = desk.service.own.organization.id

    async def disconnect(tx: Tx) -> None:
        connection = await connections.get(tx, org, desk.store)
        assert connection is not None
        lost = replace(connection, state=ConnectionState.NEEDS_RECONNECTING, version=2)
        await connections.save(tx, org, lost, expected_version=1)

    await desk.service.write(disconnect, org=org)
    response = await desk.member.post(PATH, desk.body())
    assert (response.status, response.code, list(response.errors)) == (
        422,
        "not_connected",
        ["integration_id"],
    )


async def test_an_update_replaces_given_fields(desk: AutomationsApi) -> None:
    """Replaces each field that an update names as a whole and leaves the others unchanged."""
    automation = await desk.create(inputs={"note": "x"})
    desk.service.clock.tick(1)
    response = await desk.member.patch(
        f"{PATH}/{automation['id']}", {"version": 1, "inputs": {"threshold": 9}}
    )
    assert response.status == 200
    assert response.data["automation"] == {
        **automation,
        "version": 2,
        "inputs": {"threshold": 9},
        "updated_at": "2026-05-01T06:00:02.000Z",
    }


UPDATE_FAULTS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["version"]),
    ({"version": 0}, ["version"]),
    ({"version": 1, "name": None}, ["name"]),
    ({"version": 1, "inputs": None, "schedule": None}, ["inputs", "schedule"]),
    ({"version": 1, "timezone": None, "trigger": None}, ["timezone", "trigger"]),
    ({"version": 1, "integration_id": None}, ["integration_id"]),
    ({"version": 1, "platform": "woocommerce", "state": "paused"}, ["platform", "state"]),
    ({"version": 1, "bindings": {}, "send_mode": "send"}, ["bindings", "send_mode"]),
    ({"version": 1, "template_version": 2}, ["template_version"]),
]


async def test_faults_of_an_update(desk: AutomationsApi) -> None:
    """Refuses an update without a version, with null in a required field or with a fixed field."""
    for body, paths in UPDATE_FAULTS:
        automation = await desk.create()
        response = await desk.member.patch(f"{PATH}/{automation['id']}", body)
        assert (response.status, sorted(response.errors)) == (422, paths), body


async def test_a_stale_update_returns_what_is_current(desk: AutomationsApi) -> None:
    """Answers 409 with the current automation when an update names an outdated version.

    See docs/design/api/conventions.md#envelope.

    Interface statements: 4.3 update; 7 stale_version; 9 stale.
    """
    automation = await desk.create()
    changed = await desk.member.patch(f"{PATH}/{automation['id']}", {"version": 1, "name": "First"})
    response = await desk.member.patch(f"{PATH}/{automation['id']}", {"version": 1, "name": "Second"})
    assert (response.status, response.code) == (409, "stale_version")
    assert response.data == {"occurrence": None, **changed.data}


async def test_a_life_over_http(desk: AutomationsApi) -> None:
    """Pauses, resumes, archives and restores an automation; refuses a wrong state and an outdated version."""
    automation = await desk.create()
    path = f"{PATH}/{automation['id']}"
    seen = []
    for verb, body in (
        ("pause", {"reason": " Holidays ", "version": 1}),
        ("resume", {}),
        ("archive", {"version": 3}),
        ("restore", None),
    ):
        response = await desk.member.post(f"{path}/{verb}", body)
        assert response.status == 200, response.body
        each_automation = response.data["automation"]
        seen.append(
            (
                each_automation["state"],
                each_automation["version"],
                each_automation["paused_by"],
                each_automation["paused_reason"],
            )
        )
    assert seen == [
        ("paused", 2, "merchant", "Holidays"),
        ("active", 3, None, None),
        ("archived", 4, None, None),
        ("paused", 5, "merchant", "Restored from the archive"),
    ]
    refused = await desk.member.post(f"{path}/pause")
    assert (refused.status, refused.code) == (409, "wrong_state")
    stale = await desk.member.post(f"{path}/resume", {"version": 1})
    assert (stale.status, stale.code, stale.data["automation"]["version"]) == (409, "stale_version", 5)


STATE_FAULTS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("resume", {"reason": "x"}, ["reason"]),
    ("pause", {"reason": ""}, ["reason"]),
    ("pause", {"reason": "x" * 501}, ["reason"]),
    ("archive", {"version": None}, ["version"]),
]


async def test_faults_of_a_change_of_state(desk: AutomationsApi) -> None:
    """Refuses invalid fields in the bodies of pause, resume and archive under their names."""
    for verb, body, paths in STATE_FAULTS:
        automation = await desk.create()
        response = await desk.member.post(f"{PATH}/{automation['id']}/{verb}", body)
        assert (response.status, list(response.errors)) == (422, paths), verb


async def test_a_stranger_finds_nothing(desk: AutomationsApi) -> None:
    """Answers 404 for another organization's automation, byte for byte as for one that does not exist.

    See docs/design/api/conventions.md#scope.

    Interface statements: 7 absent.
    """
    automation = await desk.create()

    def status_and_body(response: ApiResponse) -> tuple[int, Any]:
        return response.status, response.body

    for item in (automation["id"], "0" * 26):
        path = f"{PATH}/{item}"
        responses = [
            await desk.stranger.get(path),
            await desk.stranger.patch(path, {"version": 1, "name": "Mine"}),
            *[
                await desk.stranger.post(f"{path}/{verb}")
                for verb in ("pause", "resume", "archive", "restore")
            ],
        ]
        assert {response.status for response in responses} == {404}
        assert len({str(status_and_body(response)) for response in responses}) == 1
    assert (await desk.stranger.get(PATH)).data == {"automations": [], "next_cursor": None}
    foreign = await desk.stranger.get(PATH, integration_id=desk.store)
    assert foreign.data["automations"] == []


async def test_lists_are_sorted_and_paged(desk: AutomationsApi) -> None:
    """Sorts lists by each key in both directions and pages through them with any limit."""
    later = {"cadence": "daily", "run_at": "23:00"}
    for name, schedule in (("beta", later), ("Alpha", DAILY), ("gamma", {"cadence": "manual"})):
        await desk.create(name=name, schedule=schedule)
    expected = {
        "created_at": ["beta", "Alpha", "gamma"],
        "-created_at": ["gamma", "Alpha", "beta"],
        "name": ["Alpha", "beta", "gamma"],
        "next_run_at": ["beta", "Alpha", "gamma"],  # 23:00 in Berlin is today, 08:00 is tomorrow
    }
    for sort, names in expected.items():
        for limit in (1, 2, 200):
            assert await desk.names(sort=sort, limit=limit) == names
    assert await desk.names() == expected["-created_at"]


async def test_equal_keys_are_distinguished_by_id(desk: AutomationsApi) -> None:
    """Orders rows with equal sort keys by id, so that no row repeats or is missing across pages."""
    for number in range(5):
        await desk.create(name="same", schedule={"cadence": "manual"}, inputs={"threshold": number})
    for sort in ("created_at", "-created_at", "name", "next_run_at"):
        assert await desk.names(sort=sort, limit=2) == ["same"] * 5


async def test_lists_are_filtered(desk: AutomationsApi) -> None:
    """Narrows the list by each filter and by their combinations.

    See docs/design/api/automations.md#requests.

    Interface statements: 7 filter.
    """
    await desk.create(name="100% Tea")
    await desk.create(name="Stra\u00dfe", integration_id=desk.other_store)
    bound = [{"integration_id": desk.other_store, "kind": "woocommerce"}]
    await desk.create(name="Report", template_id="stores-report", integration_id=None, connections=bound)
    trigger = {"kind": "event", "topics": ["orders/create"]}
    by_event = await desk.create(name="Event", schedule={"cadence": "manual"}, trigger=trigger)
    gone = await desk.create(name="Gone")
    await desk.member.post(f"{PATH}/{gone['id']}/archive")
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["Event", "Report", "Stra\u00dfe", "100% Tea"]),
        ({"state": "archived"}, ["Gone"]),
        ({"state": "draft,archived"}, ["Gone", "Event"]),
        ({"kind": "workflow"}, []),
        ({"kind": "template", "trigger": "event"}, ["Event"]),
        ({"trigger": "schedule"}, ["Report", "Stra\u00dfe", "100% Tea"]),
        ({"template_id": "stores-report"}, ["Report"]),
        ({"template_id": "unknown-one"}, []),
        ({"platform": "woocommerce"}, ["Event", "Stra\u00dfe", "100% Tea"]),
        ({"platform": "shopify"}, []),
        ({"integration_id": desk.other_store}, ["Report", "Stra\u00dfe"]),
        ({"integration_id": desk.foreign_store}, []),
        ({"integration_id": -1}, []),
        ({"source": "workflow_tool"}, []),
        ({"q": "TEA"}, ["100% Tea"]),
        ({"q": "STRASSE"}, ["Stra\u00dfe"]),
        ({"q": "%"}, ["100% Tea"]),
        ({"q": "_"}, []),
        ({"updated_since": by_event["updated_at"]}, ["Event"]),
    ]
    for query, names in cases:
        assert await desk.names(**query) == names, query


LIST_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"state": "gone"}, "state"),
    ({"state": "draft,draft"}, "state"),
    ({"sort": "id"}, "sort"),
    ({"limit": 0}, "limit"),
    ({"q": ""}, "q"),
    ({"q": "x" * 121}, "q"),
    ({"integration_id": "1.0"}, "integration_id"),
    ({"updated_since": "2026-05-01"}, "updated_since"),
    ({"nope": 1}, "nope"),
    ({"cursor": "abc"}, "cursor"),
]


async def test_faults_of_a_list(desk: AutomationsApi) -> None:
    """Refuses each invalid query parameter of a list under its name."""
    for query, field in LIST_FAULTS:
        response = await desk.member.get(PATH, **query)
        assert (response.status, list(response.errors)) == (422, [field]), query


async def test_a_cursor_belongs_to_its_filters(desk: AutomationsApi) -> None:
    """Refuses a cursor with other filters or from another organization and takes it with another limit."""
    for _ in range(3):
        await desk.create()
    cursor = (await desk.member.get(PATH, limit=1)).data["next_cursor"]
    assert (await desk.member.get(PATH, limit=2, cursor=cursor)).status == 200
    for query in ({"sort": "name"}, {"q": "s"}, {"state": "active"}):
        response = await desk.member.get(PATH, cursor=cursor, **query)
        assert (response.status, list(response.errors)) == (422, ["cursor"])
    assert (await desk.stranger.get(PATH, cursor=cursor)).status == 422


async def test_the_web_app_shows_the_history(desk: AutomationsApi) -> None:
    """Answers the history of an automation newest first with who changed what; an unknown id is 404."""
    automation = await desk.create()
    desk.service.clock.tick(1)
    await desk.member.patch(f"{PATH}/{automation['id']}", {"version": 1, "name": "Renamed"})
    desk.service.clock.tick(1)
    web = await desk.service.web("owner")
    await web.post(f"{PATH}/{automation['id']}/pause", {"reason": "Holidays"})
    response = await web.get(f"/app/automations/{automation['id']}/history")
    assert response.status == 200
    assert response.data["next_cursor"] is None
    paused, changed, create_entry = response.data["entries"]
    assert changed["fields"] == [{"field": "name", "before": "Stock watch", "after": "Renamed"}]
    assert (create_entry["action"], create_entry["via"], create_entry["person"]["first_name"]) == (
        "created",
        "api-token",
        "Mia",
    )
    assert (paused["action"], paused["via"], paused["reason"], paused["version"]) == (
        "paused",
        "ui",
        "Holidays",
        3,
    )
    assert (await web.get(f"/app/automations/{'0' * 26}/history")).status == 404


async def test_an_automation_of_a_template_has_no_variables(desk: AutomationsApi) -> None:
    """Leaves the field out of responses, and refuses it."""
    automation = await desk.create()
    assert "variables" not in automation
    response = await desk.member.patch(
        f"{PATH}/{automation['id']}", {"version": 1, "variables": {"$env.A": "a"}}
    )
    assert (response.status, list(response.body["errors"])) == (422, ["variables"])
