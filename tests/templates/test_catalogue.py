"""Tests templates, stores and connections over HTTP.

See docs/design/api/connections.md#lists and docs/design/api/connections.md#templates.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.model.connection import ConnectionState
from steward.model.ids import IntegrationId, OrgId
from steward.templates import ALL
from tests.people import Caller
from tests.service import Service
from tests.templates.stage import connection

PREFIX = "/v1/automations"
WIRES: dict[str, Any] = {template.template_id: template.facts.to_wire() for template in ALL}
IDS = sorted(WIRES)


def _having(**facts: Any) -> list[str]:
    """Returns the ids of the templates whose records have these values."""
    return [name for name in IDS if all(WIRES[name][fact] == value for fact, value in facts.items())]


async def _connect(service: Service, kind: str, *, name: str = "owner", **changed: Any) -> int:
    """Creates a connection of the organization that `name` belongs to."""
    org = service.members[name].org

    async def act(tx: Tx) -> IntegrationId:
        number = await connections.new_integration_id(tx, org)
        new_connection = replace(connection(kind, number, **changed), org=OrgId(org))
        await connections.insert(tx, org, new_connection, subject=str(new_connection.integration_id))
        return number

    return int(await service.write(act, org=org))


async def test_the_list_has_every_template_by_its_id(owner: Caller) -> None:
    """Lists every template in the order of `template_id`. See docs/design/api/connections.md#lists."""
    response = await owner.get(f"{PREFIX}/templates")
    assert [template["template_id"] for template in response.data["templates"]] == IDS
    assert response.data["next_cursor"] is None


async def test_a_template_has_exactly_the_fields_of_its_record(owner: Caller) -> None:
    """Returns the fields of the template's record and its readiness, and no others.

    See docs/design/api/connections.md#templates.
    """
    response = await owner.get(f"{PREFIX}/templates/low-stock-alert")
    record = response.data["template"]
    template = next(each_template for each_template in ALL if each_template.template_id == "low-stock-alert")
    assert set(record) == set(template.facts.to_wire()) | {"readiness"}
    assert record["inputs_schema"] == template.facts.inputs_schema


async def test_readiness_is_that_of_the_callers_organization(service: Service, owner: Caller) -> None:
    """Counts only connected connections of the caller's own organization.

    See docs/design/api/connections.md#templates.
    """
    path = f"{PREFIX}/templates/low-stock-alert"
    await _connect(service, "teams", name="stranger")
    await _connect(service, "teams", state=ConnectionState.NEEDS_RECONNECTING)
    assert (await owner.get(path)).data["template"]["readiness"] == {"ready": False, "missing": ["teams"]}
    await _connect(service, "teams")
    assert (await owner.get(path)).data["template"]["readiness"] == {"ready": False, "missing": []}
    await _connect(service, "woocommerce")
    assert (await owner.get(path)).data["template"]["readiness"] == {"ready": True, "missing": []}


@pytest.mark.parametrize(
    ("filters", "template_ids"),
    [
        ({"category": "stock"}, _having(category="stock")),
        ({"changes_store": "false"}, _having(changes_store=False)),
        ({"changes_store": "true", "category": "prices"}, _having(changes_store=True, category="prices")),
        ({"platform": "woocommerce"}, [name for name in IDS if "woocommerce" in WIRES[name]["platforms"]]),
        ({"platform": "magento"}, []),
    ],
)
async def test_templates_are_filtered(
    owner: Caller, filters: dict[str, str], template_ids: list[str]
) -> None:
    """Filters by category, platform and whether a template changes the store.

    See docs/design/api/connections.md#lists.
    """
    response = await owner.get(f"{PREFIX}/templates", **filters)
    assert [template["template_id"] for template in response.data["templates"]] == template_ids


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("category", "toys"),
        ("changes_store", "yes"),
        ("platform", "Not A Platform"),
        ("q", "x"),
        ("limit", "0"),
    ],
)
async def test_a_wrong_filter_is_named(owner: Caller, name: str, value: str) -> None:
    """Answers 422 with the name of the wrong filter. See docs/design/api/conventions.md#requests."""
    response = await owner.get(f"{PREFIX}/templates", **{name: value})
    assert (response.status, list(response.errors)) == (422, [name])


async def test_a_report_needs_a_sheet_or_a_channel(service: Service, owner: Caller) -> None:
    """Reports both kinds as missing until one of them is connected. See docs/design/templates.md#rules."""
    await _connect(service, "woocommerce")
    path = f"{PREFIX}/templates/duplicate-sku-check"
    none = {"ready": False, "missing": ["spreadsheet", "teams"]}
    assert (await owner.get(path)).data["template"]["readiness"] == none
    await _connect(service, "teams")
    assert (await owner.get(path)).data["template"]["readiness"] == {"ready": True, "missing": []}


async def test_an_unknown_template_is_not_found(owner: Caller) -> None:
    """Answers 404 to an unknown or malformed template id. See docs/design/api/connections.md#lists."""
    assert (await owner.get(f"{PREFIX}/templates/no-such-template")).status == 404
    assert (await owner.get(f"{PREFIX}/templates/NO")).status == 404


async def test_pages_of_templates_give_each_once(owner: Caller) -> None:
    """Returns each template once over pages of one. See docs/design/api/conventions.md#paging."""
    template_ids, cursor = [], None
    for _ in range(len(IDS)):
        more = {"cursor": cursor} if cursor else {}
        response = await owner.get(f"{PREFIX}/templates", limit=1, **more)
        [item] = response.data["templates"]
        template_ids.append(item["template_id"])
        cursor = response.data["next_cursor"]
    assert (template_ids, cursor) == (IDS, None)


async def test_a_cursor_is_bound_to_its_filters(owner: Caller) -> None:
    """Refuses a cursor with other filters with 422 on `cursor`. See docs/design/api/conventions.md#paging."""
    cursor = (await owner.get(f"{PREFIX}/templates", limit=1)).data["next_cursor"]
    response = await owner.get(f"{PREFIX}/templates", limit=1, cursor=cursor, category="stock")
    assert (response.status, list(response.errors)) == (422, ["cursor"])


async def test_stores_are_those_an_automation_can_run_on(service: Service, owner: Caller) -> None:
    """Lists connected and broken stores by integration id, without those of another organization.

    See docs/design/api/connections.md#records.
    """
    connector = SimpleNamespace(topics={"orders/create": ("order.created",)})
    rules = replace(service.context.automation_rules, connectors={"woocommerce": connector})
    service.context = replace(service.context, automation_rules=rules)
    service.restart()
    shop = await _connect(service, "woocommerce", domain="tea.example")
    broken = await _connect(service, "woocommerce", state=ConnectionState.NEEDS_RECONNECTING)
    await _connect(service, "woocommerce", state=ConnectionState.DISCONNECTED)
    await _connect(service, "teams")
    await _connect(service, "woocommerce", name="stranger")
    stores = (await owner.get(f"{PREFIX}/stores")).data["stores"]
    assert [store["integration_id"] for store in stores] == [shop, broken]
    assert stores[0] == {
        "integration_id": shop,
        "platform": "woocommerce",
        "name": "Northwind Tea",
        "domain": "tea.example",
        "timezone": "Europe/Berlin",
        "currency": "EUR",
        "state": "connected",
        "topics": ["orders/create"],
        "connected_at": "2026-11-20T07:00:00.000Z",
    }


async def test_stores_are_filtered_by_platform_and_state(service: Service, owner: Caller) -> None:
    """Lists stores of a state and platform; an unknown state is 422.

    See docs/design/api/connections.md#lists.
    """
    gone = await _connect(service, "woocommerce", state=ConnectionState.DISCONNECTED)
    response = await owner.get(f"{PREFIX}/stores", state="disconnected", platform="woocommerce")
    assert [store["integration_id"] for store in response.data["stores"]] == [gone]
    assert (await owner.get(f"{PREFIX}/stores", platform="shopify")).data["stores"] == []
    assert list((await owner.get(f"{PREFIX}/stores", state="asleep")).errors) == ["state"]


async def test_connections_are_listed_in_full_without_secrets(service: Service, owner: Caller) -> None:
    """Lists connections of every state with the fields of their record; filters by kind and state.

    See docs/design/api/connections.md#records.
    """
    numbers = [await _connect(service, kind) for kind in ("woocommerce", "spreadsheet", "teams")]
    gone = await _connect(service, "teams", state=ConnectionState.DISCONNECTED, last_ok_at=None)
    connections = (await owner.get(f"{PREFIX}/connections")).data["connections"]
    assert [item["integration_id"] for item in connections] == [*numbers, gone]
    assert connections[1] == {
        "integration_id": numbers[1],
        "kind": "spreadsheet",
        "name": "Buying sheet",
        "state": "connected",
        "auth": "service_account",
        "account_label": None,
        "store": False,
        "last_ok_at": "2026-11-20T07:00:00.000Z",
    }
    assert connections[0]["store"] is True
    assert connections[3]["last_ok_at"] is None
    teams = (await owner.get(f"{PREFIX}/connections", kind="teams", state="connected")).data["connections"]
    assert [team["integration_id"] for team in teams] == [numbers[2]]


async def test_pages_of_connections_give_each_once(service: Service, owner: Caller) -> None:
    """Returns each connection once over pages of two. See docs/design/api/conventions.md#paging."""
    numbers = [await _connect(service, "teams") for _ in range(3)]
    first = (await owner.get(f"{PREFIX}/connections", limit=2)).data
    rest = (await owner.get(f"{PREFIX}/connections", limit=2, cursor=first["next_cursor"])).data
    integration_ids = [item["integration_id"] for item in (*first["connections"], *rest["connections"])]
    assert (integration_ids, rest["next_cursor"]) == (numbers, None)


@pytest.mark.parametrize("path", ["templates", "templates/low-stock-alert", "stores", "connections"])
async def test_callers_who_are_not_signed_in_get_401(nobody: Caller, path: str) -> None:
    """Answers 401 to a caller who is not signed in. See docs/design/api/conventions.md#order-of-refusals."""
    assert (await nobody.get(f"{PREFIX}/{path}")).status == 401
