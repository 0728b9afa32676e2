"""Provides a service beside the fake Shopify store, for flows that events or people start."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from steward.automations import lifecycle
from steward.automations.checks import BY_SCHEDULE, RequestedTrigger
from steward.automations.from_plan import CreateWorkflowCommand
from steward.automations.pauses import StateCommand
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.database.runs import records as runs
from steward.imports import storage
from steward.imports.run_as import run_as
from steward.model.automation import Automation
from steward.model.run import Mode, Run, RunStatus
from steward.model.trigger import EventTrigger, Listening, TriggerKind
from steward.steps.workflow.expressions.evaluate import Evaluator
from tests.fake_clock import FakeClock
from tests.fakes.shopify.network import beside
from tests.fakes.shopify.store import ShopifyFake
from tests.imports.shopify_flow.flows import text_of
from tests.runs.shop import BY_HAND, Shop, open_shop
from tests.service import Service

OUTSIDE = "hooks.example"


@dataclass
class RecordingAddress(httpx.AsyncBaseTransport):
    """Records the requests to an outside address; responds with `answers` in turn, repeating the last one."""

    responses: list[httpx.Response] = field(default_factory=lambda: [httpx.Response(200, json={"ok": True})])
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Records the request and returns the next response."""
        body = (await request.aread()).decode()
        self.requests.append((request.method, request.url.path, body))
        if self.meanwhile is not None:
            await self.meanwhile()
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        stream = httpx.ByteStream(response.content)  # a response with content has been read already
        return httpx.Response(response.status_code, headers=response.headers, stream=stream)


@dataclass
class RoutedTransport(httpx.AsyncBaseTransport):
    """Sends requests to the outside address there, and all others to the default transport."""

    default: httpx.AsyncBaseTransport
    outside: RecordingAddress

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Passes the request to the transport of its host."""
        is_outside = request.url.host == OUTSIDE
        return await (self.outside if is_outside else self.default).handle_async_request(request)


@dataclass
class FlowShop:
    """Holds the service, its store and an outside address."""

    shop: Shop
    store: ShopifyFake
    outside: RecordingAddress

    def listen(self) -> None:
        """Delivers the store's webhooks to the process that now serves."""
        service = Service(self.shop.service.context, self.shop.clock, lines=[], wake_hints=[])
        self.store.deliver = httpx.ASGITransport(app=service.app)

    async def store_import(self, value: Mapping[str, Any]) -> storage.StoredImport:
        """Stores the flow's file as the API does."""
        evaluator = Evaluator(
            self.shop.service.worker_context.sandbox_pool, str(self.shop.owner.org), "import"
        )
        prepared = await storage.prepare("store_flow", text_of(value), None, evaluator)
        act = partial(
            storage.store,
            actor=self.shop.owner,
            source="store_flow",
            name="A flow",
            prepared=prepared,
            vault=self.shop.service.worker_context.vault,
        )
        return await self.shop.write(act)

    async def automation(
        self, value: Mapping[str, Any], *topics: str, on: str = "shopify", **more: Any
    ) -> Automation:
        """Creates an automation of the flow that these topics start, or a person when there are none."""
        record = (await self.store_import(value)).record
        assert record.supported, record.report["issues"]
        command = CreateWorkflowCommand(
            import_id=record.id,
            name=record.name,
            schedule=BY_HAND,
            integration_id=self.shop.connections[on].integration_id,
            trigger=RequestedTrigger(TriggerKind.EVENT, topics) if topics else BY_SCHEDULE,
            **more,
        )
        rules, owner = self.shop.service.worker_context.automation_rules, self.shop.owner
        new_automation = (
            await self.shop.write(partial(run_as, actor=owner, command=command, rules=rules))
        ).automation
        if topics:
            await self.resumed(new_automation)
        return new_automation

    async def resumed(self, automation: Automation) -> None:
        """Resumes an automation that events start, and checks that the store has its webhooks."""
        rules, owner = self.shop.service.worker_context.automation_rules, self.shop.owner
        await self.shop.write(
            partial(lifecycle.resume, actor=owner, command=StateCommand(automation.id), rules=rules)
        )
        await self.shop.drain()
        now = await self.shop.read(partial(automations.get, org=owner.org, automation=automation.id))
        assert isinstance(now.trigger, EventTrigger)
        assert now.trigger.listening is Listening.YES, now.trigger

    async def deliver(self, automation: Automation, topic: str, row: Mapping[str, Any]) -> Run:
        """Delivers an event about this object, and returns the run that it started once it ends or waits."""
        self.listen()
        assert await self.store.tell(topic, dict(row)) == [200]
        before = {run.id for run in await self.runs(automation)}
        await self.shop.drain()
        [run] = [run for run in await self.runs(automation) if run.id not in before]
        return run

    async def runs(self, automation: Automation) -> list[Run]:
        """Returns the runs of an automation."""
        org = self.shop.owner.org

        async def load(tx: Tx) -> list[Run]:
            sql = "SELECT id FROM runs WHERE org_id = :org AND automation_id = :automation"
            rows = await tx.all(sql, {"org": org, "automation": automation.id})
            return [await runs.get(tx, org, row["id"]) for row in rows]

        return await self.shop.read(load)

    async def approved(self, run: Run) -> Run:
        """Approves everything that the run proposes until it has settled, and returns it."""
        fresh = await self.shop.until_settled(run)
        while fresh.status is RunStatus.WAITING_APPROVAL:
            await self.shop.approve(fresh)
            fresh = await self.shop.until_settled(fresh)
        return fresh

    async def finished_test_run(self, automation: Automation) -> Run:
        """Makes a test run by hand and returns it settled."""
        return await self.shop.run_and_drain(automation, Mode.TEST)

    async def rows(self, run: Run) -> list[tuple[str, int | None, str]]:
        """Returns step, iteration and status of each row of the run."""
        return [(row["name"], row["iteration"], row["status"]) for row in await self.shop.steps(run)]


async def open_flow_shop(database_url: str, clock: FakeClock, folder: Path) -> FlowShop:
    """Opens the service with a connected store of four products and an order of three of them."""
    shop = await open_shop(database_url, clock, folder)
    store, outside = ShopifyFake(now=clock.now), RecordingAddress()
    goods = [store.add_product(name, price=price, sku=name.upper()) for name, price in GOODS]
    lines = [store.owned(product["id"])[0] for product in goods[:3]]
    store.add_order(lines, customer=store.add_customer("Ada Lovelace"), quantity=2, payment="PAID")
    default = type(shop.world).transport
    shop.world.transport = lambda: RoutedTransport(beside(default(shop.world), store), outside)  # type: ignore[method-assign]
    await shop.restart()
    await shop.connect("shopify", store.settings())
    return FlowShop(shop, store, outside)


GOODS = (("Mug", "12.50"), ("Pot", "200.00"), ("Lid", "50.00"), ("Cup", "5.00"))
