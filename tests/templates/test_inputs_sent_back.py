"""Tests that inputs as the API answers them can be sent back without a change.

See docs/design/api/automations.md#record and docs/design/api/automations.md#requests.
"""

from typing import Any

from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.model.ids import IntegrationId, OrgId
from steward.templates import ALL
from steward.templates.base import ConnectionUse, Template
from tests.people import Caller
from tests.service import Service
from tests.templates.schema_inputs import Inputs
from tests.templates.stage import connection

PATH = "/v1/automations"
MANUAL = {"cadence": "manual"}
# What the check of a connection returned: the names that inputs of these tests use.
FACTS: dict[str, Any] = {
    "shopify": {
        "channels": [["1", "Online Store", True], ["2", "Name", True]],
        "locations": [["1", "Name", True]],
        "rights": ["read_all_orders"],
    },
    "spreadsheet": {"subject": "1AbC"},
}


async def _connected(service: Service, kind: str) -> int:
    org = service.own.organization.id

    async def act(tx: Tx) -> int:
        number = await connections.new_integration_id(tx, org)
        new_connection = connection(kind, IntegrationId(number), org=OrgId(org), facts=FACTS.get(kind, {}))
        await connections.insert(tx, org, new_connection, subject=str(number))
        return int(number)

    return await service.write(act, org=org)


def _homes(template: Template, number: dict[str, int]) -> list[dict[str, Any]]:
    """Returns what automations of the template run on: a store of each platform, or connections."""
    if template.facts.platforms:
        return [{"integration_id": number[kind]} for kind in template.facts.platforms]
    kinds = {need.kind for need in template.facts.connections if need.use is ConnectionUse.READ}
    read = ("woocommerce", "shopify") if "store" in kinds else ("spreadsheet",)
    return [{"connections": [{"integration_id": number[kind], "kind": kind} for kind in read]}]


async def test_returned_inputs_can_be_sent_back(service: Service) -> None:
    """Answers 200 with the same version and inputs, for every template on each of its platforms.

    See docs/design/api/automations.md#requests.
    """
    kinds = ("woocommerce", "shopify", "spreadsheet", "teams", "cloud_s3")
    number = {kind: await _connected(service, kind) for kind in kinds}
    other_store = await _connected(service, "woocommerce")
    owner = await service.token("owner")
    sale = {"template_id": "sale-start", "name": "Sale", "schedule": MANUAL}
    started = {
        kind: await _created(
            owner,
            {**sale, "integration_id": number[kind], "inputs": {"products": {"all": True}, "percent": 5}},
        )
        for kind in ("woocommerce", "shopify")
    }
    known_by_name: dict[str, Any] = {
        "sheet": {"integration_id": number["spreadsheet"]},
        "place": {"spreadsheet_id": "1AbC", "tab": "Prices"},
        "teams": {"integration_id": number["teams"]},
        "file": {"integration_id": number["cloud_s3"], "path": "feed.csv"},
        "source_integration_id": other_store,
        "products": {"tags_any": ["tea"]},
    }
    for template in ALL:
        body = {"template_id": template.template_id, "name": template.template_id, "schedule": MANUAL}
        for home in _homes(template, number):
            sale_of = {number[kind]: automation["id"] for kind, automation in started.items()}
            new_inputs = Inputs(
                template, {**known_by_name, "sale_automation_id": sale_of.get(home.get("integration_id", 0))}
            )
            for item in (new_inputs.fewest(), new_inputs.fullest()):
                responses = [await _sent_back(owner, {**body, **home, "inputs": inputs}) for inputs in item]
                assert any(responses), (template.template_id, home)


async def _created(owner: Caller, body: dict[str, Any]) -> dict[str, Any]:
    response = await owner.post(PATH, body)
    assert response.status == 201, (body, response.body)
    new_automation: dict[str, Any] = response.data["automation"]
    return new_automation


async def _sent_back(owner: Caller, body: dict[str, Any]) -> bool:
    """Sends back the inputs that creating answered.

    Returns False when the store does not accept these inputs.
    """
    response = await owner.post(PATH, body)
    if response.status == 422:
        return False
    new_automation = response.data["automation"]
    response = await owner.patch(
        f"{PATH}/{new_automation['id']}",
        {"version": new_automation["version"], "inputs": new_automation["inputs"]},
    )
    assert response.status == 200, (new_automation, response.body)
    assert response.data["automation"]["version"] == new_automation["version"], (
        new_automation,
        response.data,
    )
    assert response.data["automation"]["inputs"] == new_automation["inputs"]
    return True
