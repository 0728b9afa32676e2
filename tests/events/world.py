"""A whole service that receives the fake shop's webhooks over HTTP, in process."""

import hashlib
import hmac
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import httpx

from steward import periodic_tasks
from steward.connectors.shopify.topics import TOPICS as SHOPIFY_TOPICS
from steward.connectors.woocommerce.topics import TOPICS
from steward.model.json import JsonObject
from steward.model.plan import StepKind
from steward.steps.base import StepContext, StepResult
from steward.templates.base import EndedRun, RunSummary, StepFacts, Template
from tests.automations.world import template
from tests.people import ApiResponse, Caller
from tests.populated_service import PopulatedService

PATH = "/v1/automations"
MANUAL = {"cadence": "manual"}
ADDRESS = "/v1/store-events/"


async def _tell(context: StepContext) -> StepResult:
    event = context.event
    if event is None:
        return StepResult({"event": None})
    return StepResult(
        {
            "event": {
                "topic": event.topic,
                "object_type": event.object_type,
                "object_id": event.object_id,
                "parent_id": event.parent_id,
                "id": event.id,
            }
        }
    )


def _words(ended: EndedRun) -> RunSummary:
    return RunSummary("Told.", cast("JsonObject", ended.outputs.get("tell", {})))


def telling() -> Template:
    """A template that any topic starts; its result is the event that its run received."""
    topics = {"woocommerce": tuple(TOPICS), "shopify": tuple(SHOPIFY_TOPICS)}
    bare = template("tell-events", platforms=tuple(topics), topics=topics)
    facts = replace(bare.facts, steps=(StepFacts("tell", "Tell the event", StepKind.DECIDE),))
    return replace(bare, facts=facts, steps={"tell": _tell}, finish=_words)


@dataclass
class ListeningService:
    """The service with its shop, an API client, and helpers to create listening automations."""

    populated: PopulatedService
    token: Caller
    sent: int = 0

    @property
    def shop(self) -> Any:
        """Returns the service beside the fake shop."""
        return self.populated.shop

    async def automation(self, *topics: str, listen: bool = True, **fields: Any) -> dict[str, Any]:
        """Creates an automation started by these topics; with `listen` it is resumed and listening."""
        body = {
            "template_id": "tell-events",
            "integration_id": self.populated.number("woocommerce"),
            "name": "On events",
            "inputs": {},
            "schedule": MANUAL,
            "trigger": {"kind": "event", "topics": list(topics)},
            **fields,
        }
        response = await self.token.post(PATH, body)
        assert response.status == 201, response.body
        new_automation: dict[str, Any] = response.data["automation"]
        return await self._listening(new_automation) if listen else new_automation

    async def imported(self, export: Mapping[str, Any], topic: str) -> dict[str, Any]:
        """Imports an n8n export started by the topic, resumed and listening."""
        sent = {"source": "workflow_tool", "name": "On events", "content": json.dumps(export)}
        response = await self.token.post(f"{PATH}/imports", sent)
        assert response.status == 201, response.body
        body = {
            "name": "On events",
            "integration_id": self.populated.number("woocommerce"),
            "schedule": MANUAL,
            "trigger": {"kind": "event", "topics": [topic]},
        }
        response = await self.token.post(f"{PATH}/imports/{response.data['import']['id']}/automations", body)
        assert response.status == 201, response.body
        return await self._listening(response.data["automation"])

    async def _listening(self, new_automation: Mapping[str, Any]) -> dict[str, Any]:
        assert (await self.token.post(f"{PATH}/{new_automation['id']}/resume")).status == 200
        await self.shop.drain()
        automation = await self.read(new_automation)
        assert automation["trigger"]["listening"] == "yes", automation["trigger"]
        return automation

    async def read(self, automation: Mapping[str, Any]) -> dict[str, Any]:
        """Reads the automation from the API."""
        found_automation: dict[str, Any] = (await self.token.get(f"{PATH}/{automation['id']}")).data[
            "automation"
        ]
        return found_automation

    async def trigger(self, automation: Mapping[str, Any]) -> dict[str, Any]:
        """Reads the automation's trigger from the API."""
        found_trigger: dict[str, Any] = (await self.read(automation))["trigger"]
        return found_trigger

    async def act(self, automation: Mapping[str, Any], verb: str) -> ApiResponse:
        """Pauses, resumes or archives the automation."""
        return await self.token.post(f"{PATH}/{automation['id']}/{verb}")

    async def runs(self, automation: Mapping[str, Any], **query: Any) -> list[dict[str, Any]]:
        """Returns its runs in the order of their events."""
        all_runs: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {}
        while True:
            response = await self.token.get(
                f"{PATH}/runs", automation_id=automation["id"], limit=200, **query, **cursor
            )
            all_runs += response.data["runs"]
            if response.data["next_cursor"] is None:
                return sorted(all_runs, key=lambda run: str(run["event"]["id"]))
            cursor = {"cursor": response.data["next_cursor"]}

    async def events_of_runs(self, automation: Mapping[str, Any]) -> list[tuple[str, str | None]]:
        """Returns the topic and object id of the event of each of its runs, in order."""
        await self.shop.drain()
        results = [(run["result"] or run)["event"] for run in await self.runs(automation)]
        return [(item["topic"], item.get("object_id")) for item in results]

    async def woo(self, method: str, path: str, body: Any = None) -> Any:
        """Makes a request to the shop as its staff; returns after the resulting webhooks were delivered."""
        keys = self.shop.world.described()["woocommerce"]
        auth = (keys["consumer_key"], keys["consumer_secret"])
        async with httpx.AsyncClient(transport=self.shop.world.transport(), auth=auth) as client:
            response = await client.request(method, f"{keys['url']}/wp-json/wc/v3{path}", json=body)
        assert response.status_code < 300, response.text
        await self.shop.world.settle()
        return response.json()

    def hooks(self) -> list[dict[str, Any]]:
        """Returns the shop's webhooks."""
        return list(self.shop.world.state.shop.webhooks.values())

    def hook(self, native: str) -> dict[str, Any]:
        """Returns the only webhook of a native topic."""
        [results] = [hook for hook in self.hooks() if hook["topic"] == native]
        return results

    async def deliver(
        self, native: str, body: Any, *, delivery: str | None = None, **headers: str
    ) -> ApiResponse:
        """Delivers as the shop does, with a new delivery id unless one is given."""
        hook = self.hook(native)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.sent += 1
        return await self.post(
            hook["delivery_url"],
            raw,
            **{
                "content-type": "application/json",
                "x-wc-webhook-topic": native,
                "x-wc-webhook-signature": self.signature(hook, raw),
                "x-wc-webhook-id": str(hook["id"]),
                "x-wc-webhook-delivery-id": delivery or f"delivery-{self.sent}",
                **headers,
            },
        )

    def signature(self, hook: Mapping[str, Any], raw: bytes) -> str:
        """Returns the shop's signature of a body."""
        secret = self.shop.world.state.shop.webhook_secrets[hook["id"]]
        return b64encode(hmac.new(secret.encode(), raw, hashlib.sha256).digest()).decode()

    async def post(self, url: str, raw: bytes, **headers: str) -> ApiResponse:
        """Posts bytes to a webhook address."""
        nobody = self.populated.service.nobody()
        return await nobody.call("POST", httpx.URL(url).path, content=raw, headers=headers)

    async def later(self, **time: float) -> None:
        """Advances the clock, runs everything that is ready, and logs the client in again."""
        await self.shop.pass_time(**time)
        self.token = await self.populated.service.token("member")

    async def waits_at_most(self, runs: int) -> None:
        """Sets STEWARD_MAX_WAITING_EVENTS."""
        service = self.shop.service
        rules = replace(service.worker_context.event_rules, max_waiting=runs)
        self.shop.service = replace(
            service, worker_context=replace(service.worker_context, event_rules=rules)
        )
        (await self.shop.registered_worker()).ctx = self.shop.service.worker_context

    async def tick(self, name: str) -> None:
        """Runs one periodic task of the worker until it has nothing more to do."""
        hired = await self.shop.registered_worker()
        [tick] = [
            periodic_task for periodic_task in periodic_tasks.of_worker(hired) if periodic_task.name == name
        ]
        again = True
        while again:
            again = await tick.run()

    async def rows(self, sql: str, **args: object) -> list[dict[str, Any]]:
        """Returns stored rows."""

        async def load(tx: Any) -> list[dict[str, Any]]:
            outcome = await tx.all(sql, {"org": self.shop.owner.org, **args})
            return [dict(row) for row in outcome]

        return cast("list[dict[str, Any]]", await self.shop.read(load))


async def open_listener(populated: PopulatedService) -> ListeningService:
    """Opens a service whose shop delivers its webhooks to it, with the template `telling`."""
    templates = cast("dict[str, Template]", populated.shop.service.worker_context.automation_rules.templates)
    templates["tell-events"] = telling()
    populated.shop.world.set_webhook_transport(httpx.ASGITransport(app=populated.service.app))
    return ListeningService(populated, await populated.service.token("member"))


def order(number: int, *, modified_at: str = "2026-05-01T08:00:00", **more: Any) -> dict[str, Any]:
    """Builds an order as a delivery contains it."""
    return {
        "id": number,
        "status": "processing",
        "date_created_gmt": modified_at,
        "date_modified_gmt": modified_at,
        "date_paid_gmt": None,
        "refunds": [],
        **more,
    }
