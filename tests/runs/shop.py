"""A whole service in process beside the pretend shop: connect, set up, run, approve, look at the ledger."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from steward import app, worker
from steward.automations import setup
from steward.automations.setup import CreateAsk
from steward.config import read
from steward.connections import connect
from steward.model.account import ROLE_SCOPES, Actor, Organization, Role, Via
from steward.model.approval import Approval, ApprovalStatus
from steward.model.automation import Automation
from steward.model.change import Change
from steward.model.connection import Connection
from steward.model.ids import ApprovalId, IntegrationId, PersonId, RunId
from steward.model.run import Mode, Run
from steward.runs import approval, start
from steward.runs.approval import ApproveAsk, Decided
from steward.runs.start import RunNow
from steward.sandbox.world import World, create
from steward.store import approvals, changes, organizations, people, runs, steps
from steward.store.engine import Engine, Tx
from steward.worker import Worker
from tests.fake_clock import FakeClock

T = TypeVar("T")

HOST = "127.0.0.1:18401"
BY_HAND = {"cadence": "manual"}


@dataclass
class Shop:
    """One organisation with the pretend shop, sheet and channel connected, and short ways to a state."""

    service: app.Wired
    clock: FakeClock
    world: World
    owner: Actor
    connections: dict[str, Connection] = field(default_factory=dict)
    worker: Worker | None = None
    keys: int = 0
    connected_at: int = 0

    @property
    def engine(self) -> Engine:
        """The service's database."""
        return self.service.engine

    async def write(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        """One transaction of the organisation."""
        return await self.engine.write(self.clock.now(), act, org=self.owner.org)

    async def read(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        """One read of the organisation."""
        return await self.engine.read(self.clock.now(), act, org=self.owner.org)

    async def connect(self, kind: str, settings: Mapping[str, Any]) -> Connection:
        """Connects an account as the owner does in the web app."""
        vault = self.service.fittings.vault
        now = self.clock.now()
        tried = await connect.try_settings(vault, self.owner.org, kind, given=settings, now=now)
        kept = await self.write(
            partial(connect.connect, actor=self.owner, name=f"The {kind}", tried=tried, vault=vault)
        )
        self.connections[kind] = kept.connection
        return kept.connection

    async def set_up(
        self, template: str, inputs: Mapping[str, Any], schedule: Mapping[str, Any] = BY_HAND
    ) -> Automation:
        """An automation of a template on the shop."""
        ask = CreateAsk(
            template_id=template,
            name=template,
            inputs=dict(inputs),
            schedule=dict(schedule),
            integration_id=self.connections["woocommerce"].integration_id,
        )
        rules = self.service.tools.automation_rules
        return (await self.write(partial(setup.create, actor=self.owner, ask=ask, rules=rules))).automation

    async def hiding(self, **inputs: Any) -> Automation:
        """The automation that hides what is sold out."""
        return await self.set_up("hide-out-of-stock-products", inputs)

    async def pricing(self, **inputs: Any) -> Automation:
        """The automation that takes prices from the sheet."""
        sheet = {"integration_id": self.connections["spreadsheet"].integration_id, "tab": "Prices"}
        asked = {"sheet": sheet, "sku_column": "SKU", "price_column": "Price", **inputs}
        return await self.set_up("price-update-from-spreadsheet", asked)

    async def run_now(self, automation: Automation, mode: Mode = Mode.LIVE, key: str | None = None) -> Run:
        """A run by hand."""
        self.keys += 1
        ask = RunNow(automation.id, key or f"key-{self.keys}", mode)
        templates = self.service.tools.templates
        verb = partial(start.run_now, actor=self.owner, ask=ask, templates=templates, max_waiting=1000)
        return (await self.write(verb)).run

    async def drain(self) -> None:
        """Everything that can go on now goes on to its end, to a person or to sleep."""
        if self.worker is None:
            self.worker = await worker.register(
                self.service.tools, self.service.hints, poll=timedelta(seconds=1)
            )
        await worker.heartbeat(self.worker)
        await worker.drain(self.worker, worker.ticks(self.worker))

    async def run(self, run: Run) -> Run:
        """The run as it now is."""
        return await self.read(partial(runs.get, org=self.owner.org, run=run.id))

    async def drained(self, automation: Automation, mode: Mode = Mode.LIVE) -> Run:
        """A run by hand, taken as far as it goes."""
        run = await self.run_now(automation, mode)
        await self.drain()
        return await self.run(run)

    async def steps(self, run: Run) -> list[dict[str, Any]]:
        """The run's rows as answered, without their changes."""
        wires = await self.read(partial(steps.wires, org=self.owner.org, run=run.id))
        return [msgspec.json.decode(wire) for wire in wires]

    async def changes(self, run: Run) -> list[Change]:
        """The run's changes in order."""
        return await self.read(partial(changes.of_run, org=self.owner.org, run=run.id))

    async def approval(self, run: Run) -> Approval:
        """The approval the run waits for, or last waited for."""
        fresh = await self.run(run)
        assert fresh.approval_id is not None
        return await self.read(partial(approvals.get, org=self.owner.org, approval=fresh.approval_id))

    async def approve(self, run: Run, leave_out: Sequence[Change] = ()) -> Decided:
        """The owner approves all but what is left out."""
        asked = await self.approval(run)
        ask = ApproveAsk(asked.id, asked.version, [one.id for one in leave_out], asked.change_hash)
        return await self.write(partial(approval.approve, actor=self.owner, wish=ask, not_starter=False))

    def writes(self) -> list[dict[str, Any]]:
        """Every write request the outside world saw since all was connected (a check probes for rights)."""
        return [entry for entry in self.world.state.ledger.writes() if entry["seq"] > self.connected_at]

    def applied(self) -> list[dict[str, Any]]:
        """Those that changed something."""
        return [entry for entry in self.writes() if entry["applied"]]


async def open_shop(database_url: str, clock: FakeClock, folder: Path, **settings: str) -> Shop:
    """The service, its organisation and owner; nothing is connected yet."""
    world = create(1, f"http://{HOST}", clock.now)
    sandbox = world.described()
    environ = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": database_url,
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_ALLOW_PRIVATE_HOSTS": HOST,
        "STEWARD_TEAMS_HOSTS": HOST,
        "STEWARD_GOOGLE_SHEETS_URL": sandbox["spreadsheet"]["sheets_url"],
        "STEWARD_GOOGLE_TOKEN_URL": sandbox["spreadsheet"]["token_url"],
        "STEWARD_LOG_LEVEL": "error",
        "STEWARD_SPREAD_MAX": "0",
        **settings,
    }
    service = await app.build(
        read(environ), clock=clock, serve=False, transport=world.transport(), write_log=print
    )

    async def found(tx: Tx) -> Actor:
        org = await organizations.enlist(tx, "Test Shop", "test shop")
        assert org is not None
        await tx.enter([org])
        await organizations.insert(tx, org, Organization(org, "Test Shop", "UTC", True, True, tx.now))
        person = await people.insert(
            tx,
            email="owner@shop.example",
            email_norm="owner@shop.example",
            username="owner",
            first_name="The",
            last_name="Owner",
        )
        assert person is not None
        scopes = ROLE_SCOPES[Role.OWNER]
        return Actor(org, PersonId(person), scopes, Via.UI, None, Role.OWNER, "0" * 64)

    owner = await service.engine.write(clock.now(), found)
    return Shop(service, clock, world, owner)


async def connect_all(shop: Shop) -> None:
    """Connects the pretend shop, sheet and channel."""
    sandbox = shop.world.described()
    woo, sheet = sandbox["woocommerce"], sandbox["spreadsheet"]
    keys = {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}
    await shop.connect("woocommerce", keys)
    account = {"service_account": sheet["service_account"], "spreadsheet_id": "sheet-prices"}
    await shop.connect("spreadsheet", account)
    await shop.connect("teams", {"webhook_url": sandbox["teams"]["webhook_url"]})
    shop.connected_at = max((entry["seq"] for entry in shop.world.state.ledger.writes()), default=0)


__all__ = ["ApprovalId", "ApprovalStatus", "IntegrationId", "RunId", "Shop", "connect_all", "open_shop"]
