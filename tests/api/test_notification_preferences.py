"""A person's notification preferences and the alert settings of an automation."""

from typing import Any

from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.model.ids import IntegrationId, new_id
from tests.automations.world import connection
from tests.service import Service

PATH = "/app/notification-preferences"
STANDARD = {
    "email": {"approvals": "now", "runs": "now", "automations": "now", "connections": "now"},
    "automations": "mine",
    "muted": [],
    "quiet_hours": None,
    "wake_for_expiry": True,
    "digest": {"at": "08:00", "days": [1, 2, 3, 4, 5]},
    "timezone": "Europe/Berlin",
}


async def automation(service: Service) -> str:
    """Creates an automation of the owner on a new store and returns its id."""
    org = service.own.organization.id

    async def connect(tx: Tx) -> IntegrationId:
        integration = await connections.new_integration_id(tx, org)
        new_connection = connection(org, integration, "woocommerce", "The shop", None, tx.now)
        await connections.insert(tx, org, new_connection, subject=str(integration))
        return integration

    body = {
        "template_id": "hide-out-of-stock-products",
        "name": "Tell me",
        "inputs": {},
        "schedule": {"cadence": "manual"},
        "integration_id": await service.write(connect, org=org),
    }
    response = await (await service.web("owner")).post("/v1/automations", body)
    assert response.status == 201, response.body
    automation_id: str = response.data["automation"]["id"]
    return automation_id


async def test_preferences_begin_with_their_defaults(service: Service) -> None:
    """Starts owners with alerts of all automations and others with their own, in the organization's zone."""
    expected = {"preferences": STANDARD, "mail": False, "mail_test": None}
    assert (await (await service.web("member")).get(PATH)).data == expected
    owner = await service.web("owner")
    assert (await owner.get(PATH)).data["preferences"] == {**STANDARD, "automations": "all"}
    await owner.patch("/app/organization", {"timezone": "America/New_York"})
    assert (await owner.get(PATH)).data["preferences"]["timezone"] == "America/New_York"


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"email": {"runs": "digest"}}, {"email": {**STANDARD["email"], "runs": "digest"}}),  # type: ignore[dict-item]
    ({"automations": "all"}, {}),
    ({"quiet_hours": {"from": "22:00", "to": "07:00", "days": [6, 7]}}, {}),
    ({"wake_for_expiry": False}, {}),
    ({"digest": {"at": "17:30", "days": [5]}}, {}),
    ({"timezone": "Asia/Tokyo"}, {}),
]


async def test_each_field_is_changed_by_itself(service: Service) -> None:
    """Changes the given fields alone, and no other person's preferences."""
    web = await service.web("member")
    expected = dict(STANDARD)
    for body, difference in CHANGES:
        expected |= body | difference
        response = await web.patch(PATH, body)
        assert (response.status, response.data["preferences"]) == (200, expected)
        assert (await web.get(PATH)).data == response.data
    back = {"quiet_hours": None, "automations": None, "timezone": None}
    expected |= {name: STANDARD[name] for name in back}
    assert (await web.patch(PATH, back)).data["preferences"] == expected
    others = (await (await service.web("approver")).get(PATH)).data["preferences"]
    assert others == STANDARD


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"email": {"runs": "later"}}, "email.runs"),
    ({"email": {"orders": "now"}}, "email.orders"),
    ({"email": None}, "email"),
    ({"automations": "none"}, "automations"),
    ({"quiet_hours": {"from": "22:00", "to": "22:00", "days": [1]}}, "quiet_hours.to"),
    ({"quiet_hours": {"from": "24:00", "to": "07:00", "days": [1]}}, "quiet_hours.from"),
    ({"quiet_hours": {"from": "T0800", "to": "07:00", "days": [1]}}, "quiet_hours.from"),
    ({"quiet_hours": {"from": "22:00", "to": "07:00", "days": []}}, "quiet_hours.days"),
    ({"digest": {"at": "08:00", "days": [0]}}, "digest.days.0"),
    ({"digest": {"at": "08:00", "days": [8]}}, "digest.days.0"),
    ({"digest": {"at": "08:00", "days": [1, 1]}}, "digest.days"),
    ({"digest": None}, "digest"),
    ({"timezone": "Europe/Atlantis"}, "timezone"),
    ({"wake_for_expiry": None}, "wake_for_expiry"),
    ({"push": {}}, "push"),
]


async def test_an_invalid_preference_names_its_field(service: Service) -> None:
    """Names the invalid field and changes nothing."""
    web = await service.web("member")
    for body, path in WRONG:
        response = await web.patch(PATH, body)
        assert (response.status, set(response.errors)) == (422, {path}), body
    assert (await web.get(PATH)).data["preferences"] == STANDARD


async def test_an_automation_is_muted_for_oneself(service: Service) -> None:
    """Mutes an automation for one person by either endpoint, and refuses unknown automations by id."""
    automation_id = await automation(service)
    alerts = f"/app/automations/{automation_id}/alerts"
    web = await service.web("member")
    assert (await web.patch(alerts, {"muted": True})).data["muted"] is True
    assert (await web.get(PATH)).data["preferences"]["muted"] == [{"id": automation_id, "name": "Tell me"}]
    assert (await (await service.web("owner")).get(alerts)).data["muted"] is False
    absent = new_id(service.clock.now())
    response = await web.patch(PATH, {"muted": [automation_id, absent]})
    assert response.errors == {"muted": [f"There is no automation {absent}."]}
    assert (await web.patch(PATH, {"muted": []})).data["preferences"]["muted"] == []
    assert (await web.get(alerts)).data["muted"] is False


async def test_at_most_500_automations_are_muted(service: Service) -> None:
    """Looks up 500 muted automations and refuses 501 with a single message."""
    web = await service.web("member")
    ids = [new_id(service.clock.now()) for _ in range(501)]
    at_limit = await web.patch(PATH, {"muted": ids[:500]})
    assert len(at_limit.errors["muted"]) == 500
    beyond = await web.patch(PATH, {"muted": ids})
    assert (beyond.status, len(beyond.errors["muted"])) == (422, 1)


async def test_the_periods_without_success_are_chosen_for_each_automation(service: Service) -> None:
    """Takes 1 to 50 periods for an automation, or null for the service's default."""
    automation_id = await automation(service)
    path = f"/app/automations/{automation_id}/alerts"
    web = await service.web("member")
    standard = {"quiet_after": None, "default_quiet_after": 3, "quiet_since": None, "muted": False}
    assert (await web.get(path)).data == standard
    for number in (1, 50):
        assert (await web.patch(path, {"quiet_after": number})).data == {**standard, "quiet_after": number}
    for wrong in (0, 51, "3"):
        assert set((await web.patch(path, {"quiet_after": wrong})).errors) == {"quiet_after"}
    assert (await web.patch(path, {"muted": False})).data["quiet_after"] == 50
    assert (await web.patch(path, {"quiet_after": None})).data == standard


async def test_anybody_may_ask_what_is_offered(service: Service) -> None:
    """Tells without a session whether mail is sent and whether setup is needed."""
    offered = {"mail": False, "setup_needed": False, "undo_days": 365}
    assert (await service.nobody().get("/app/options")).data == offered
    service.restart(mail=True)
    assert (await service.nobody().get("/app/options")).data == {**offered, "mail": True}
