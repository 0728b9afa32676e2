"""Runs a whole service in process against the fake platforms: connect, set up, run, approve, inspect."""

import asyncio
import base64
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from steward import app, periodic_tasks, worker
from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.config import read
from steward.connections import account_check, connect
from steward.database.accounts import connections, organizations, people
from steward.database.automations import memory
from steward.database.engine.base import Engine, Tx
from steward.database.runs import approvals, changes, steps, write_ledger
from steward.database.runs import records as runs
from steward.database.runs.transitions import Lease
from steward.database.runs.write_ledger import WriteEntry
from steward.fake_platforms.application import FakePlatforms, create
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Organization, Role
from steward.model.approval import Approval, ApprovalStatus
from steward.model.automation import Automation
from steward.model.change import Change
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import ApprovalId, IntegrationId, PersonId, RunId
from steward.model.json import JsonValue
from steward.model.run import TERMINAL, Mode, Run, RunStatus
from steward.runs import approval, cancel, claim, start, start_claimed
from steward.runs.approval import ApproveCommand, DecidedApproval, RejectCommand
from steward.runs.claimed_run import ClaimedRun
from steward.runs.start import RunNow, StartedRun
from steward.worker import Worker
from tests.fake_clock import START, FakeClock
from tests.shared_sandbox import shared_sandbox

T = TypeVar("T")

HOST = "127.0.0.1:18401"
BY_HAND = {"cadence": "manual"}
# Of the databases that are copied; other services make themselves a file of keys.
MASTER_KEYS = f"test:{base64.b64encode(bytes(range(32))).decode()}"


@dataclass
class Shop:
    """One organization with the fake shop, spreadsheet and channel connected, and test helpers."""

    service: app.WiredProcess
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
        """Returns the service's database engine."""
        return self.service.engine

    async def write(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        """Runs `act` in one write transaction of the organization."""
        return await self.engine.write(self.clock.now(), act, org=self.owner.org)

    async def read(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        """Runs `act` in one read transaction of the organization."""
        return await self.engine.read(self.clock.now(), act, org=self.owner.org)

    async def connect(self, kind: str, settings: Mapping[str, Any]) -> Connection:
        """Connects an account as the owner does in the web app."""
        vault = self.service.context.vault
        now = self.clock.now()
        checked = await account_check.check_settings(vault, self.owner.org, kind, submitted=settings, now=now)
        connected = await self.write(
            partial(connect.connect, actor=self.owner, name=f"The {kind}", checked=checked, vault=vault)
        )
        self.connections[kind] = connected.connection
        return connected.connection

    async def look_up_connections(self) -> None:
        """Takes the connections from the database, which was copied with them."""
        listed = await self.read(partial(connections.find, org=self.owner.org))
        self.connections = {connection.kind: connection for connection in listed}

    async def set_up(
        self, template: str, inputs: Mapping[str, Any], schedule: Mapping[str, Any] = BY_HAND
    ) -> Automation:
        """Creates an automation of a template for the shop."""
        command = CreateCommand(
            template_id=template,
            name=template,
            inputs=dict(inputs),
            schedule=dict(schedule),
            integration_id=self.connections["woocommerce"].integration_id,
        )
        rules = self.service.worker_context.automation_rules
        return (
            await self.write(partial(setup.create, actor=self.owner, command=command, rules=rules))
        ).automation

    async def hiding(self, **inputs: Any) -> Automation:
        """Creates the automation that hides sold-out products."""
        return await self.set_up("hide-out-of-stock-products", inputs)

    async def pricing(self, **inputs: Any) -> Automation:
        """Creates the automation that takes prices from the spreadsheet."""
        sheet = {"integration_id": self.connections["spreadsheet"].integration_id, "tab": "Prices"}
        request_body = {"sheet": sheet, "sku_column": "SKU", "price_column": "Price", **inputs}
        return await self.set_up("price-update-from-spreadsheet", request_body)

    async def alerting(self, **inputs: Any) -> Automation:
        """Creates the automation that reports low stock to the channel."""
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
        """Calls "run now" and returns its result."""
        self.keys += 1
        query = RunNow(automation.id, key or f"key-{self.keys}", mode)
        return await start.start(
            self.engine,
            self.clock.now(),
            actor or self.owner,
            query,
            templates=self.service.worker_context.automation_rules.templates,
            max_waiting=max_waiting,
        )

    async def run_now(self, automation: Automation, mode: Mode = Mode.LIVE, key: str | None = None) -> Run:
        """Starts a run by hand and returns it."""
        return (await self.started(automation, mode, key=key)).run

    async def cancel(self, run: Run) -> Run:
        """Cancels a run as the owner."""
        return await self.write(partial(cancel.cancel, actor=self.owner, run=run.id))

    async def registered_worker(self) -> Worker:
        """Returns this process's worker, registered if need be, with a renewed lease."""
        if self.worker is None:
            self.worker = await self.another_worker()
        await worker.heartbeat(self.worker)
        return self.worker

    async def another_worker(self) -> Worker:
        """Registers one more worker of this process."""
        return await worker.register(
            self.service.worker_context,
            self.service.hints,
            poll=timedelta(seconds=1),
            notifications=self.service.notifications,
        )

    async def claimed(self, free: int = 9) -> dict[RunId, Lease]:
        """Claims up to `free` ready runs with this process's worker; returns the leases by run."""
        ctx, hired = self.service.worker_context, await self.registered_worker()
        leases = await claim.claim(ctx.engine, ctx.clock.now(), hired.id, free=free, full=())
        return {lease.run: lease for lease in leases}

    async def begun(self, lease: Lease) -> ClaimedRun | None:
        """Starts a claimed run; returns None if it ended at its start."""
        ctx = self.service.worker_context
        return await start_claimed.start_claimed(ctx.engine, ctx.clock.now(), lease, ctx.automation_rules)

    async def drain(self) -> None:
        """Runs everything that is ready until it ends, waits for a person or sleeps.

        Advances the clock for short waits within a step and sends heartbeats meanwhile.
        """
        hired = await self.registered_worker()
        going = asyncio.create_task(worker.drain(hired, periodic_tasks.of_worker(hired)))
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
        """Advances the clock with heartbeats only, then runs everything that is ready."""
        await self.clock.advance(timedelta(**time).total_seconds())
        await self.drain()

    async def until_settled(self, run: Run, minutes: int = 60) -> Run:
        """Advances the clock until the run has ended or waits for approval, and returns it."""
        await self.drain()
        latest = self.clock.now() + timedelta(minutes=minutes)
        while self.clock.now() < latest:
            fresh = await self.run(run)
            if fresh.status in TERMINAL or fresh.status is RunStatus.WAITING_APPROVAL:
                return fresh
            await self.clock.advance(max(60.0, await self._seconds_asleep(run)))
            await worker.recover_dead_workers(await self.registered_worker())
            await self.drain()
        raise AssertionError(f"run {run.id} does not end: {await self.run(run)}")

    async def _seconds_asleep(self, run: Run) -> float:
        """Returns how long the run still sleeps; 0 if it does not sleep."""
        query = "SELECT wake_at FROM runs WHERE org_id = :org AND id = :run AND queue = 'sleeping'"

        async def wake_at(tx: Tx) -> list[Any]:
            return list(await tx.all(query, {"org": self.owner.org, "run": run.id}))

        rows = await self.read(wake_at)
        return rows[0]["wake_at"] / 1000 - self.clock.now().timestamp() if rows else 0.0

    async def restart(self) -> None:
        """Replaces the process by another on the same database, after the old worker's lease has ended."""
        await self._replace_process(timedelta(0))
        await self.clock.advance(self.service.worker_context.worker_rules.lease.total_seconds() + 1)

    async def pass_downtime(self, **time: float) -> None:
        """Stops the process, lets the time pass, starts another one and runs everything that is ready.

        Unlike `pass_time`, it passes the time without heartbeats, and is much faster.
        """
        await self._replace_process(timedelta(**time))
        await self.drain()

    async def _replace_process(self, downtime: timedelta) -> None:
        await self.service.close()
        self.worker = None
        self.clock.tick(downtime.total_seconds())
        self.service = await _build_service(self.environ, self.clock, self.world)

    async def run(self, run: Run) -> Run:
        """Reads the run again."""
        return await self.read(partial(runs.get, org=self.owner.org, run=run.id))

    async def run_and_drain(self, automation: Automation, mode: Mode = Mode.LIVE) -> Run:
        """Starts a run by hand, drains the worker and returns the run as it then is."""
        run = await self.run_now(automation, mode)
        await self.drain()
        return await self.run(run)

    async def steps(self, run: Run) -> list[dict[str, Any]]:
        """Returns the run's step rows as the API answers them, without their changes."""
        rows = await self.read(partial(steps.rows_of, org=self.owner.org, run=run.id))
        return [msgspec.json.decode(wire) for _, wire in rows]

    async def changes(self, run: Run) -> list[Change]:
        """Returns the run's changes in order."""
        return await self.read(partial(changes.of_run, org=self.owner.org, run=run.id))

    async def approval(self, run: Run) -> Approval:
        """Returns the run's current or latest approval."""
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
        """Approves the run's changes except those in `leave_out`, as the owner unless `by` says otherwise."""
        asked_approval = await self.approval(run)
        left_out = [change.id for change in leave_out]
        command = ApproveCommand(
            asked_approval.id,
            asked_approval.version,
            left_out,
            asked_approval.change_hash,
            write_now=write_now,
        )
        verb = partial(approval.approve, actor=by or self.owner, command=command, not_starter=not_starter)
        return await self.write(verb)

    async def reject(
        self, run: Run, *, by: Actor | None = None, not_starter: bool = False
    ) -> DecidedApproval:
        """Rejects all of the run's changes."""
        asked_approval = await self.approval(run)
        command = RejectCommand(asked_approval.id, asked_approval.version, "No")
        verb = partial(approval.reject, actor=by or self.owner, command=command, not_starter=not_starter)
        return await self.write(verb)

    async def waiting(self, automation: Automation) -> Run:
        """Starts a run and asserts that it waits for approval."""
        run = await self.run_and_drain(automation)
        assert run.status is RunStatus.WAITING_APPROVAL, run
        return run

    async def set_connection_state(self, kind: str, state: ConnectionState) -> None:
        """Sets the state of a connection."""
        integration = self.connections[kind].integration_id

        async def change(tx: Tx) -> None:
            connection = await connections.get(tx, self.owner.org, integration)
            assert connection is not None
            fresh = replace(connection, state=state, version=connection.version + 1)
            assert await connections.save(tx, self.owner.org, fresh, expected_version=connection.version)

        await self.write(change)

    async def tamper(self, sql: str, **args: object) -> int:
        """Executes SQL on the organization's rows, past every command; returns the number of rows changed."""

        async def act(tx: Tx) -> int:
            return await tx.execute(sql, {"org": self.owner.org, **args})

        return await self.write(act)

    async def ledger(self, run: Run) -> list[WriteEntry]:
        """Returns the write ledger's entries for the run's changes."""
        return await self.read(partial(write_ledger.of_run, org=self.owner.org, run=run.id))

    async def remembered(self, run: Run, space: str) -> dict[str, JsonValue]:
        """Returns what the run's automation has stored in a memory space."""
        load = partial(memory.of_space, org=self.owner.org, automation=run.automation_id, space=space)
        return await self.read(load)

    def fault(self, kind: str, method: str, path: str, **more: Any) -> None:
        """Makes the fake platforms fail the requests that match `method` and `path`.

        See docs/design/fake-platforms.md#control.
        """
        self.world.state.faults.make({"kind": kind, "method": method, "path": path, **more})

    def writes(self) -> list[dict[str, Any]]:
        """Returns the write requests received since the accounts were connected.

        Connecting sends probing writes itself; they are left out.
        """
        return [entry for entry in self.world.state.ledger.writes() if entry["seq"] > self.connected_at]

    def applied(self) -> list[dict[str, Any]]:
        """Returns the write requests that changed something."""
        return [entry for entry in self.writes() if entry["applied"]]


async def create_shop(database_url: str) -> Actor:
    """Creates and connects the organization of a database that tests get copies of; returns its owner."""
    clock = FakeClock()
    with tempfile.TemporaryDirectory() as folder:
        shop = await open_shop(database_url, clock, Path(folder), STEWARD_MASTER_KEYS=MASTER_KEYS)
        await connect_all(shop)
        await shop.service.close()
    assert clock.now() == START
    return shop.owner


async def open_shop(
    database_url: str,
    clock: FakeClock,
    folder: Path,
    *,
    owner: Actor | None = None,
    serve: bool = False,
    around: Callable[[FakePlatforms], None] | None = None,
    **settings: str,
) -> Shop:
    """Builds the service with an organization and its owner; nothing is connected yet.

    With `owner`, whose organization the database was copied with, all is connected. `serve` makes the
    process hold the database file. `around` may change the fake platforms before the service is built.
    """
    world = create(1, f"http://{HOST}", clock.now, sleep=clock.sleep)
    if around is not None:
        around(world)
    sandbox = world.described()
    environ = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": database_url,
        "STEWARD_DATA_DIR": str(folder),
        **({} if owner is None else {"STEWARD_MASTER_KEYS": MASTER_KEYS}),
        "STEWARD_ALLOW_PRIVATE_HOSTS": HOST,
        "STEWARD_TEAMS_HOSTS": HOST,
        "STEWARD_GOOGLE_SHEETS_URL": sandbox["spreadsheet"]["sheets_url"],
        "STEWARD_GOOGLE_TOKEN_URL": sandbox["spreadsheet"]["token_url"],
        "STEWARD_LOG_LEVEL": "error",
        "STEWARD_SPREAD_MAX": "0",
        **settings,
    }
    service = await _build_service(environ, clock, world, serve=serve)
    if owner is not None:
        shop = Shop(service, clock, world, owner, environ)
        await shop.look_up_connections()
        return shop
    owner = await service.engine.write(clock.now(), partial(_insert_organization, name="test"))
    return Shop(service, clock, world, owner, environ)


async def neighbour(shop: Shop) -> Shop:
    """Adds another organization to the same service, with its own connections to the same platforms."""
    owner = await shop.engine.write(shop.clock.now(), partial(_insert_organization, name="neighbour"))
    new_shop = Shop(shop.service, shop.clock, shop.world, owner, shop.environ)
    await connect_all(new_shop)
    shop.connected_at = new_shop.connected_at
    return new_shop


async def _insert_organization(tx: Tx, name: str) -> Actor:
    """Inserts an organization and its owner."""
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
    return Actor(org, PersonId(person), scopes, CreatedVia.UI, None, Role.OWNER, "0" * 64)


async def _build_service(
    environ: Mapping[str, str], clock: FakeClock, world: FakePlatforms, *, serve: bool = False
) -> app.WiredProcess:
    return await app.build(
        read(dict(environ)),
        clock=clock,
        serve=serve,
        transport=world.transport(),
        write_log=print,
        sandbox_pool=shared_sandbox(),
    )


async def connect_all(shop: Shop) -> None:
    """Connects the fake shop, spreadsheet and channel."""
    sandbox = shop.world.described()
    woo, sheet = sandbox["woocommerce"], sandbox["spreadsheet"]
    keys = {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}
    await shop.connect("woocommerce", keys)
    account = {"service_account": sheet["service_account"], "spreadsheet_id": "sheet-prices"}
    await shop.connect("spreadsheet", account)
    await shop.connect("teams", {"webhook_url": sandbox["teams"]["webhook_url"]})
    shop.connected_at = max((entry["seq"] for entry in shop.world.state.ledger.writes()), default=0)


__all__ = ["ApprovalId", "ApprovalStatus", "IntegrationId", "RunId", "Shop", "connect_all", "open_shop"]
