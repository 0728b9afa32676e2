"""Provides a service beside a fake WooCommerce shop and a fake Shopify store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.fake_platforms.application import FakePlatforms
from steward.fake_platforms.seed import WORKFLOW
from steward.model.account import Actor
from steward.model.automation import Automation
from steward.model.connection import AutomationConnection
from steward.model.run import TERMINAL, Mode, Run, RunStatus
from tests.fake_clock import FakeClock
from tests.fakes.shopify.network import beside
from tests.fakes.shopify.store import ShopifyFake
from tests.runs.shop import BY_HAND, Shop, connect_all, open_shop


@dataclass
class ConnectedService:
    """Holds the service with a WooCommerce shop, a Shopify store, a spreadsheet and a channel connected."""

    shop: Shop
    store: ShopifyFake
    connected_at: int = 0

    def number(self, kind: str) -> int:
        """Returns the integration id of the connection of that kind."""
        return int(self.shop.connections[kind].integration_id)

    def teams(self) -> dict[str, int]:
        """Returns the input that names the channel."""
        return {"integration_id": self.number("teams")}

    def sheet(self, tab: str | None = None) -> dict[str, Any]:
        """Returns the input that names the spreadsheet."""
        return {"integration_id": self.number("spreadsheet"), "tab": tab}

    async def set_up(
        self,
        template: str,
        inputs: Mapping[str, Any],
        *,
        on: str | None = None,
        reads: Sequence[str] = (),
        schedule: Mapping[str, Any] = BY_HAND,
        timezone: str | None = None,
    ) -> Automation:
        """Creates an automation on a platform's store, or on none, reading these connections."""
        bound = [self.shop.connections[kind] for kind in reads]
        command = CreateCommand(
            template_id=template,
            name=template,
            inputs=dict(inputs),
            schedule=dict(schedule),
            integration_id=None if on is None else self.shop.connections[on].integration_id,
            connections=tuple(
                AutomationConnection(connection.integration_id, connection.kind) for connection in bound
            ),
            timezone=timezone,
        )
        rules = self.shop.service.worker_context.automation_rules
        act = partial(setup.create, actor=self.shop.owner, command=command, rules=rules)
        return (await self.shop.write(act)).automation

    async def run(self, automation: Automation, mode: Mode = Mode.LIVE) -> Run:
        """Runs the automation by hand, approves everything it asks for, and returns the ended run."""
        run = await self.shop.until_settled(await self.shop.run_now(automation, mode))
        if run.status is RunStatus.WAITING_APPROVAL:
            await self.shop.approve(run)
            run = await self.shop.until_settled(run)
        assert run.status in TERMINAL, run
        return run

    def posted(self) -> list[dict[str, Any]]:
        """Returns the messages in the channel, oldest first."""
        return list(self.shop.world.state.teams.inbox.get(WORKFLOW, ()))

    def cells(self, tab: str) -> list[list[Any]]:
        """Returns the cells of a tab of the connected spreadsheet."""
        return self.shop.world.state.google.books["sheet-prices"].tab(tab).values()

    def written(self) -> list[dict[str, Any]]:
        """Returns every write since all was connected."""
        return [*self.shop.writes(), *self.store.writes()[self.connected_at :]]


async def open_both(
    database_url: str, clock: FakeClock, folder: Path, *, owner: Actor | None = None, **settings: str
) -> ConnectedService:
    """Opens the service with everything connected, for `owner` already, and an empty Shopify store."""
    store = ShopifyFake(now=clock.now)

    def around(world: FakePlatforms) -> None:
        default = world.transport
        world.transport = lambda: beside(default(), store)  # type: ignore[method-assign]

    shop = await open_shop(database_url, clock, folder, owner=owner, around=around, **settings)
    if owner is None:
        await connect_all(shop)
    await shop.connect("shopify", store.settings())
    return ConnectedService(shop, store, len(store.writes()))


def lines_of(message: Mapping[str, Any]) -> list[str]:
    """Returns every line of a message as the channel shows it: texts, and name and value of each fact."""
    lines: list[str] = []
    for block in message["card"]["body"]:
        facts = [f"{fact['title']}: {fact['value']}" for fact in block.get("facts", ())]
        lines += facts or [block["text"]]
    return [line.replace("\\", "") for line in lines]
