"""A workflow with a Slack step over the API: connected, imported, bound, run, approved and answered."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_clock import FakeClock
from tests.imports.exports import chain, code, node
from tests.runs.shop import Shop
from tests.service import Service, settle
from tests.services.fakes import FakeService
from tests.services.running import shop_beside
from tests.services.slack import TOKEN, slack

IMPORTS = "/v1/automations/imports"
GENERAL = {"__rl": True, "mode": "name", "value": "general"}
SAY = {"select": "channel", "channelId": GENERAL, "text": "Sold out", "otherOptions": {}}


@pytest.fixture
def api() -> FakeService:
    """Returns the fake of Slack's API."""
    return slack()


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path, api: FakeService) -> AsyncIterator[Shop]:
    """Yields a service beside Slack with a worker."""
    async with shop_beside(database_url, clock, tmp_path, api) as opened:
        yield opened


async def test_a_message_is_asked_for_then_sent_without_asking(shop: Shop, api: FakeService) -> None:
    """Requires the step's account, sends after approval, and without approval in the mode `send`."""
    service = Service(shop.service.context, shop.clock, lines=[], wake_hints=[])
    await service.write(lambda tx: settle(tx, service))
    web, token = await service.web("owner"), await service.token("owner")
    connected = await web.post(
        "/app/connections", {"kind": "slack", "name": "Shop chat", "settings": {"bot_token": TOKEN}}
    )
    assert connected.status == 201, connected.body
    number = connected.data["connection"]["integration_id"]
    assert connected.data["connection"]["account_label"] == "Shop (steward)"
    channels = await token.get(f"/v1/automations/destinations?integration_id={number}")
    assert [destination["name"] for destination in channels.data["destinations"]] == ["#general", "#ops"]
    then = code("Then", "return [{json: {at: $input.first().json.message_timestamp.length}}]")
    export = chain(node("Say", "slack", 2.2, SAY), then)
    response = await token.post(IMPORTS, {"source": "workflow_tool", "name": "Tell", "content": export})
    assert response.data["import"]["supported"], str(response.data["import"]["issues"])
    assert response.data["import"]["needs"] == ["slack"], response.body
    request_body = {"name": "Tell", "schedule": {"cadence": "manual"}, "idempotency_key": "one-import"}
    second_response = await token.post(f"{IMPORTS}/{response.data['import']['id']}/automations", request_body)
    assert second_response.status == 201, str(second_response.body)
    automation = second_response.data["automation"]
    unbound = [{"step": "Say", "kind": "slack", "why": "no_connection"}]
    assert automation["readiness"]["unbound"] == unbound
    path = f"/v1/automations/{automation['id']}"
    bound = await token.patch(
        path, {"version": automation["version"], "accounts": {"Say": {"integration_id": number}}}
    )
    assert bound.status == 200, bound.body
    assert bound.data["automation"]["readiness"]["ready"] is True
    run = (await token.post(f"{path}/runs", {"idempotency_key": "two-runs"})).data["run"]
    await shop.drain()
    waiting = (await token.get(f"/v1/automations/runs/{run['id']}")).data["run"]
    assert (waiting["status"], api.sent()) == ("waiting_approval", [])
    await approve(web, waiting["approval_id"])
    await shop.drain()
    ended = (await token.get(f"/v1/automations/runs/{run['id']}")).data["run"]
    assert ended["status"] == "succeeded", ended
    assert [request.body for request in api.sent()] == [{"channel": "#general", "text": "Sold out"}]
    sending = await web.patch(path, {"version": bound.data["automation"]["version"], "send_mode": "send"})
    assert sending.status == 200, sending.body
    run = (await token.post(f"{path}/runs", {"idempotency_key": "three-runs"})).data["run"]
    await shop.drain()
    ended = (await token.get(f"/v1/automations/runs/{run['id']}")).data["run"]
    assert (ended["status"], len(api.sent())) == ("succeeded", 2), ended
    displayed = str((ended, connected.body, bound.body))
    assert TOKEN not in displayed


async def approve(web: Any, approval_id: str) -> None:
    """Approves everything as the owner in the web app."""
    path = f"/v1/automations/approvals/{approval_id}"
    approval = (await web.get(path)).data["approval"]
    request_body = {"version": approval["version"], "change_hash": approval["change_hash"]}
    response = await web.post(f"{path}/approve", request_body)
    assert response.status == 200, response.body
