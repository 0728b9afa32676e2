"""A whole service in process beside the pretend shop: connect, set up, run, approve, look at the ledger."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from steward import app, worker
from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.config import read
from steward.connections import connect
from steward.database.accounts import connections, organizations, people
from steward.database.automations import memory
from steward.database.engine.base import Engine, Tx
from steward.database.runs import approvals, changes, steps, write_ledger
from steward.database.runs import records as runs
from steward.database.runs.transitions import Lease
from steward.database.runs.write_ledger import Effect
from steward.fake_platforms.world import FakePlatforms, create
from steward.model.account import ROLE_SCOPES, Actor, Organization, Role, Via
from steward.model.approval import Approval, ApprovalStatus
from steward.model.automation import Automation
from steward.model.change import Change
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import ApprovalId, IntegrationId, PersonId, RunId
from steward.model.json import JsonValue
from steward.model.run import TERMINAL, Mode, Run, RunStatus
from steward.runs import approval, cancel, claim, start
from steward.runs.approval import ApproveCommand, DecidedApproval, RejectCommand
from steward.runs.claim import ClaimedRun
from steward.runs.start import RunNow, StartedRun
from steward.worker import Worker
from tests.fake_clock import FakeClock
from tests.shared_sandbox import shared_sandbox

T = TypeVar("T")

HOST = "127.0.0.1:18401"
BY_HAND = {"cadence": "manual"}


@dataclass
class Shop:
    """One organisation with the pretend shop, sheet and channel connected, and short ways to a state."""

    service: app.Wired
    clock: FakeClock
    world: FakePlatforms
    owner: Actor
    environ: Mapping[str, str]
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
        vault = self.service.context.vault
        now = self.clock.now()
        tried = await connect.try_settings(vault, self.owner.org, kind, submitted=settings, now=now)
        connected = await self.write(
            partial(connect.connect, actor=self.owner, name=f"The {kind}", tried=tried, vault=vault)
        )
        self.connections[kind] = connected.connection
        return connected.connection

    async def set_up(
        self, template: str, inputs: Mapping[str, Any], schedule: Mapping[str, Any] = BY_HAND
    ) -> Automation:
        """An automation of a template on the shop."""
        ask = CreateCommand(
            template_id=template,
            name=template,
            inputs=dict(inputs),
            schedule=dict(schedule),
            integration_id=self.connections["woocommerce"].integration_id,
        )
        rules = self.service.worker_context.automation_rules
        return (
            await self.write(partial(setup.create, actor=self.owner, command=ask, rules=rules))
        ).automation

    async def hiding(self, **inputs: Any) -> Automation:
        """The automation that hides what is sold out."""
        return await self.set_up("hide-out-of-stock-products", inputs)

    async def pricing(self, **inputs: Any) -> Automation:
        """The automation that takes prices from the sheet."""
        sheet = {"integration_id": self.connections["spreadsheet"].integration_id, "tab": "Prices"}
        request_body = {"sheet": sheet, "sku_column": "SKU", "price_column": "Price", **inputs}
        return await self.set_up("price-update-from-spreadsheet", request_body)

    async def alerting(self, **inputs: Any) -> Automation:
        """The automation that tells the channel what is low."""
        channel = {"integration_id": self.connections["teams"].integration_id}
        return await self.set_up("low-stock-alert", {"threshold": 5, "teams": channel, **inputs})

    async def started(
        self,
        automation: Automation,
        mode: Mode = Mode.LIVE,
        *,
        key: str | None = None,
        max_waiting: int = 1000,
        actor: Actor | None = None,
    ) -> StartedRun:
        """What run now answers."""
        self.keys += 1
        ask = RunNow(automation.id, key or f"key-{self.keys}", mode)
        return await start.start(
            self.engine,
            self.clock.now(),
            actor or self.owner,
            ask,
            templates=self.service.worker_context.automation_rules.templates,
            max_waiting=max_waiting,
        )

    async def run_now(self, automation: Automation, mode: Mode = Mode.LIVE, key: str | None = None) -> Run:
        """A run by hand."""
        return (await self.started(automation, mode, key=key)).run

    async def cancel(self, run: Run) -> Run:
        """The owner cancels a run."""
        return await self.write(partial(cancel.cancel, actor=self.owner, run=run.id))

    async def hired(self) -> Worker:
        """This process's worker, its lease fresh."""
        if self.worker is None:
            self.worker = await self.another_worker()
        await worker.heartbeat(self.worker)
        return self.worker

    async def another_worker(self) -> Worker:
        """A worker of the present process."""
        return await worker.register(
            self.service.worker_context,
            self.service.hints,
            poll=timedelta(seconds=1),
            notifications=self.service.notifications,
        )

    async def claimed(self, free: int = 9) -> dict[RunId, Lease]:
        """The leases of ready runs that this process's worker claims, by run."""
        ctx, hired = self.service.worker_context, await self.hired()
        leases = await claim.claim(ctx.engine, ctx.clock.now(), hired.id, free=free, full=())
        return {lease.run: lease for lease in leases}

    async def begun(self, lease: Lease) -> ClaimedRun | None:
        """A claimed run, started; None when it ended at its start."""
        ctx = self.service.worker_context
        return await claim.start_claimed(ctx.engine, ctx.clock.now(), lease, ctx.automation_rules)

    async def drain(self) -> None:
        """Everything that can go on now goes on to its end, to a person or to sleep.

        Short waits within a step pass on the clock, with heartbeats.
        """
        hired = await self.hired()
        going = asyncio.create_task(worker.drain(hired, worker.periodic_tasks(hired)))
        try:
            while not going.done():
                waiting = asyncio.create_task(self.clock.until_sleeping())
                await asyncio.wait({going, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if not going.done():
                    await self.clock.advance(1.0)
                    await worker.heartbeat(hired)
            going.result()
        finally:
            if not going.done():
                going.cancel()
                await asyncio.gather(going, return_exceptions=True)

    async def pass_time(self, **time: float) -> None:
        """The clock goes on, with nothing but heartbeats happening; then everything that can go on does."""
        await self.clock.advance(timedelta(**time).total_seconds())
        await self.drain()

    async def until_settled(self, run: Run, minutes: int = 60) -> Run:
        """The run once it has ended or waits for a person, time passing as it needs."""
        await self.drain()
        latest = self.clock.now() + timedelta(minutes=minutes)
        while self.clock.now() < latest:
            fresh = await self.run(run)
            if fresh.status in TERMINAL or fresh.status is RunStatus.WAITING_APPROVAL:
                return fresh
            await self.clock.advance(max(60.0, await self._seconds_asleep(run)))
            await worker.recover_dead_workers(await self.hired())
            await self.drain()
        raise AssertionError(f"run {run.id} does not end: {await self.run(run)}")

    async def _seconds_asleep(self, run: Run) -> float:
        """How long the run sleeps from now on; 0 unless it sleeps."""
        query = "SELECT wake_at FROM runs WHERE org_id = :org AND id = :run AND queue = 'sleeping'"

        async def wake_at(tx: Tx) -> list[Any]:
            return list(await tx.all(query, {"org": self.owner.org, "run": run.id}))

        rows = await self.read(wake_at)
        return rows[0]["wake_at"] / 1000 - self.clock.now().timestamp() if rows else 0.0

    async def restart(self) -> None:
        """The process is gone and another serves the same database; its lease ends before anything else."""
        await self.service.close()
        self.worker = None
        self.service = await _built(self.environ, self.clock, self.world)
        await self.clock.advance(self.service.worker_context.worker_rules.lease.total_seconds() + 1)

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
        rows = await self.read(partial(steps.rows_of, org=self.owner.org, run=run.id))
        return [msgspec.json.decode(wire) for _, wire in rows]

    async def changes(self, run: Run) -> list[Change]:
        """The run's changes in order."""
        return await self.read(partial(changes.of_run, org=self.owner.org, run=run.id))

    async def approval(self, run: Run) -> Approval:
        """The approval the run waits for, or last waited for."""
        fresh = await self.run(run)
        assert fresh.approval_id is not None
        return await self.read(partial(approvals.get, org=self.owner.org, approval=fresh.approval_id))

    async def approve(
        self,
        run: Run,
        leave_out: Sequence[Change] = (),
        *,
        by: Actor | None = None,
        not_starter: bool = False,
        write_now: bool = False,
    ) -> DecidedApproval:
        """The owner approves all but what is left out."""
        asked_approval = await self.approval(run)
        left_out = [change.id for change in leave_out]
        ask = ApproveCommand(
            asked_approval.id,
            asked_approval.version,
            left_out,
            asked_approval.change_hash,
            write_now=write_now,
        )
        verb = partial(approval.approve, actor=by or self.owner, command=ask, not_starter=not_starter)
        return await self.write(verb)

    async def reject(
        self, run: Run, *, by: Actor | None = None, not_starter: bool = False
    ) -> DecidedApproval:
        """The owner rejects all."""
        asked_approval = await self.approval(run)
        ask = RejectCommand(asked_approval.id, asked_approval.version, "No")
        verb = partial(approval.reject, actor=by or self.owner, command=ask, not_starter=not_starter)
        return await self.write(verb)

    async def waiting(self, automation: Automation) -> Run:
        """A run of the automation that waits for approval."""
        run = await self.drained(automation)
        assert run.status is RunStatus.WAITING_APPROVAL, run
        return run

    async def connection_is(self, kind: str, state: ConnectionState) -> None:
        """The account works, or not any more."""
        integration = self.connections[kind].integration_id

        async def change(tx: Tx) -> None:
            connection = await connections.get(tx, self.owner.org, integration)
            assert connection is not None
            fresh = replace(connection, state=state, version=connection.version + 1)
            assert await connections.save(tx, self.owner.org, fresh, was=connection.version)

        await self.write(change)

    async def tamper(self, sql: str, **args: object) -> int:
        """Writes into the organisation's rows past every verb; the number of rows touched."""

        async def act(tx: Tx) -> int:
            return await tx.execute(sql, {"org": self.owner.org, **args})

        return await self.write(act)

    async def ledger(self, run: Run) -> list[Effect]:
        """What was done about the run's changes, as kept."""
        return await self.read(partial(write_ledger.of_run, org=self.owner.org, run=run.id))

    async def remembered(self, run: Run, space: str) -> dict[str, JsonValue]:
        """What the run's automation remembers in a space."""
        look = partial(memory.of_space, org=self.owner.org, automation=run.automation_id, space=space)
        return await self.read(look)

    def fault(self, kind: str, method: str, path: str, **more: Any) -> None:
        """The outside world goes wrong: `method` and `path` say for which requests.

        See docs/design/fake-platforms.md#control.
        """
        self.world.state.faults.make({"kind": kind, "method": method, "path": path, **more})

    def writes(self) -> list[dict[str, Any]]:
        """Every write request the outside world saw since all was connected (a check probes for rights)."""
        return [entry for entry in self.world.state.ledger.writes() if entry["seq"] > self.connected_at]

    def applied(self) -> list[dict[str, Any]]:
        """Those that changed something."""
        return [entry for entry in self.writes() if entry["applied"]]


async def open_shop(
    database_url: str,
    clock: FakeClock,
    folder: Path,
    *,
    serve: bool = False,
    around: Callable[[FakePlatforms], None] | None = None,
    **settings: str,
) -> Shop:
    """The service, its organisation and owner; nothing is connected yet. `serve`: it holds the file.

    `around` puts more beside the pretend world before anything is built.
    """
    world = create(1, f"http://{HOST}", clock.now, sleep=clock.sleep)
    if around is not None:
        around(world)
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
    service = await _built(environ, clock, world, serve=serve)

    owner = await service.engine.write(clock.now(), partial(_found, name="test"))
    return Shop(service, clock, world, owner, environ)


async def neighbour(shop: Shop) -> Shop:
    """Another organisation of the same service, with its own connections to the same outside world."""
    owner = await shop.engine.write(shop.clock.now(), partial(_found, name="neighbour"))
    new_shop = Shop(shop.service, shop.clock, shop.world, owner, shop.environ)
    await connect_all(new_shop)
    shop.connected_at = new_shop.connected_at
    return new_shop


async def _found(tx: Tx, name: str) -> Actor:
    """An organisation and its owner."""
    org = await organizations.enlist(tx, name, name)
    assert org is not None
    await tx.set_tenant([org])
    await organizations.insert(tx, org, Organization(org, name, "UTC", True, True, tx.now))
    person = await people.insert(
        tx,
        email=f"{name}@shop.example",
        email_norm=f"{name}@shop.example",
        username=name,
        first_name="The",
        last_name="Owner",
    )
    assert person is not None
    scopes = ROLE_SCOPES[Role.OWNER]
    return Actor(org, PersonId(person), scopes, Via.UI, None, Role.OWNER, "0" * 64)


async def _built(
    environ: Mapping[str, str], clock: FakeClock, world: FakePlatforms, *, serve: bool = False
) -> app.Wired:
    return await app.build(
        read(dict(environ)),
        clock=clock,
        serve=serve,
        transport=world.transport(),
        write_log=print,
        sandbox_pool=shared_sandbox(),
    )


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
