"""Organizations, connections, templates and helpers for the tests of automations."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from steward.automations import lifecycle, next_runs, pauses, setup
from steward.automations.checks import RequestedTrigger
from steward.automations.rules import AutomationRules
from steward.automations.setup import CreateCommand
from steward.automations.updates import change, update_command
from steward.database.accounts import connections, organizations, people
from steward.database.automations import occurrences, schedules
from steward.database.automations import records as automations
from steward.database.automations.occurrences import StoredSlot, of_automation
from steward.database.engine.base import Engine, Tx
from steward.database.runs import approvals, run_lists, transitions, workers
from steward.database.runs import records as runs
from steward.database.runs.transitions import Lease
from steward.model.account import TOKEN_SCOPES, Actor, CreatedVia, Organization, Role, maker
from steward.model.approval import Approval, ApprovalKind, ApprovalStatus
from steward.model.automation import Automation
from steward.model.connection import Auth, AutomationConnection, Connection, ConnectionState
from steward.model.ids import ApprovalId, AutomationId, IntegrationId, OrgId, new_id
from steward.model.json import JsonValue
from steward.model.run import Mode, Run, RunStatus, StartedBy
from steward.model.schedule import MANUAL
from steward.model.trigger import TriggerKind
from steward.run_queue import ending
from steward.run_queue import queue as run_queue
from steward.run_queue.queue import EnqueuedRun, RunRequest
from steward.runs.dispatch import dispatch_due
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from steward.templates.base import (
    Category,
    ConnectionNeed,
    ConnectionUse,
    RunSummary,
    Template,
    TemplateFacts,
)
from steward.templates.parts.inputs import inputs_schema, shared
from tests.fake_clock import FakeClock

T = TypeVar("T")

DAILY = {"cadence": "daily", "run_at": "08:00"}
HOURLY = {"cadence": "hourly"}
BY_HAND = {"cadence": "manual"}
ON_ORDERS = RequestedTrigger(TriggerKind.EVENT, ("orders/create",))


def template(template_id: str, **facts: Any) -> Template:
    """Builds a template of these tests; it has no steps, because none of them runs one."""
    plain: dict[str, Any] = {
        "template_id": template_id,
        "template_version": 1,
        "name": template_id,
        "description": "",
        "category": Category.STOCK,
        "platforms": ("woocommerce",),
        "connections": (),
        "inputs_schema": inputs_schema(
            [],
            {
                "threshold": {"type": "integer", "minimum": 0, "maximum": 100, "default": 5},
                "note": {"type": "string"},
                "teams": shared("teams", "Where the message goes"),
            },
        ),
        "result_schema": {"type": "object"},
        "steps": (),
        "changes_store": False,
        "triggers": (TriggerKind.SCHEDULE, TriggerKind.EVENT),
        "topics": {"woocommerce": ("orders/create", "orders/updated")},
        "default_schedule": MANUAL,
        "changes": (),
        "example_result": {},
    }
    return Template(TemplateFacts(**{**plain, **facts}), {}, lambda _: RunSummary("", {}))


STOCK = template("stock-watch", connections=(ConnectionNeed("teams", ConnectionUse.WRITE, 0, 1),))
REPORT = template(
    "stores-report",
    platforms=(),
    connections=(ConnectionNeed("store", ConnectionUse.READ, 1, 2),),
    triggers=(TriggerKind.SCHEDULE,),
    topics={},
)
SHEETS = template(
    "sheets-report", platforms=(), connections=(ConnectionNeed("spreadsheet", ConnectionUse.READ, 2, 30),)
)


@dataclass(frozen=True, slots=True)
class FakeConnector:
    """A connector with only what creating an automation asks for."""

    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


RULES = AutomationRules(
    templates={each_template.template_id: each_template for each_template in (STOCK, REPORT, SHEETS)},
    connectors={"woocommerce": FakeConnector({"orders/create": ("order.created",)})},
)


@dataclass(slots=True)
class World:
    """The database of a test, its clock, and the people who act."""

    engine: Engine
    clock: FakeClock
    rules: AutomationRules
    owner: Actor
    stranger: Actor
    store: IntegrationId
    other_store: IntegrationId
    teams: IntegrationId
    sheet: IntegrationId
    foreign_store: IntegrationId
    lines: list[str]

    @property
    def org(self) -> OrgId:
        """Returns the owner's organization."""
        return self.owner.org

    @property
    def now(self) -> datetime:
        """Returns the time of the test."""
        return self.clock.now()

    async def write(self, act: Callable[[Tx], Awaitable[T]], org: OrgId | None = None) -> T:
        """Runs `act` in a write transaction of the owner's organization, or of another one."""
        return await self.engine.write(self.now, act, org=org or self.org)

    def ask(self, **fields: Any) -> CreateCommand:
        """Builds a valid create command with some fields changed."""
        sound = CreateCommand(
            template_id="stock-watch",
            name="Stock watch",
            inputs={},
            schedule=DAILY,
            integration_id=self.store,
            timezone="UTC",
        )
        return replace(sound, **fields)

    async def create(self, **fields: Any) -> Automation:
        """Creates an automation in the owner's organization."""
        result = await self.write(
            partial(setup.create, actor=self.owner, command=self.ask(**fields), rules=self.rules)
        )
        return result.automation

    async def update(self, automation: Automation, **fields: Any) -> Automation:
        """Updates the automation under the given version."""
        command = update_command.UpdateCommand(automation.id, automation.version, **fields)
        return await self.write(partial(change.update, actor=self.owner, command=command, rules=self.rules))

    async def turn(self, verb: str, automation: Automation, **fields: Any) -> Automation:
        """Pauses, resumes, archives or restores the automation."""
        command = pauses.StateCommand(automation.id, **fields)
        act = getattr(pauses if verb == "pause" else lifecycle, verb)
        done: Automation = await self.write(partial(act, actor=self.owner, command=command, rules=self.rules))
        return done

    async def read(self, automation: Automation) -> Automation:
        """Reads the automation again."""
        return await self.write(
            partial(automations.get, org=automation.org, automation=automation.id), automation.org
        )

    async def rows(self, automation: Automation) -> list[StoredSlot]:
        """Returns all stored occurrences of the automation."""
        far = timedelta(days=5000)
        return await self.write(
            partial(
                of_automation,
                org=automation.org,
                automation=automation.id,
                since=self.now - far,
                until=self.now + far,
            ),
            automation.org,
        )

    async def runs(self, automation: Automation) -> list[Run]:
        """Returns all runs of the automation, oldest first."""
        expected = run_lists.RunFilter(automation=automation.id)
        rows = await self.write(
            partial(run_lists.find, org=automation.org, run_filter=expected, limit=1000, after=None),
            automation.org,
        )
        return [runs.record(row) for row in rows[::-1]]

    async def dispatch(self, rules: AutomationRules | None = None, *, until_done: bool = True) -> int:
        """Runs dispatch until nothing more is due; returns the number of passes."""
        log = Log(self.lines.append, self.clock, SecretRegister())
        ticked = 1
        while await dispatch_due(self.engine, self.now, rules=rules or self.rules, log=log) and until_done:
            ticked += 1
        return ticked

    async def at(self, instant: str) -> None:
        """Advances the clock to an instant such as 2026-05-02T08:00 (UTC)."""
        await self.clock.advance_to(datetime.fromisoformat(f"{instant}+00:00"))

    async def timing(self, automation: Automation) -> schedules.Timing:
        """Reads the automation's schedule state."""
        stored_timing = await self.write(
            partial(schedules.lock, org=automation.org, automation=automation.id), automation.org
        )
        assert stored_timing is not None
        return stored_timing

    async def store_row(self, automation: Automation, row: StoredSlot) -> None:
        """Stores an occurrence as an edit of the calendar does, with the next due time."""

        async def act(tx: Tx) -> None:
            locked = await next_runs.lock(tx, automation.org, automation.id)
            await occurrences.insert_many(tx, automation.org, automation.id, [row])
            await next_runs.rewrite_next(tx, locked)

        await self.write(act, automation.org)

    async def connect(
        self, kind: str, name: str, *, org: OrgId | None = None, zone: str | None = None
    ) -> IntegrationId:
        """Adds a connection in state connected."""

        async def act(tx: Tx) -> IntegrationId:
            own_org = org or self.org
            integration = await connections.new_integration_id(tx, own_org)
            new_connection = connection(own_org, integration, kind, name, zone, self.now)
            await connections.insert(tx, own_org, new_connection, subject=str(integration))
            return integration

        return await self.write(act, org)

    async def set_connection(self, integration: IntegrationId, state: ConnectionState) -> None:
        """Changes the state of a connection."""

        async def act(tx: Tx) -> None:
            connection = await connections.get(tx, self.org, integration)
            assert connection is not None
            await connections.save(
                tx,
                self.org,
                replace(connection, state=state, version=connection.version + 1),
                expected_version=connection.version,
            )

        await self.write(act)

    async def offer(self, automation: Automation, started_by: StartedBy = StartedBy.HAND) -> EnqueuedRun:
        """Enqueues a live run, newer than the one before."""
        self.clock.tick(0.001)

        async def act(tx: Tx) -> EnqueuedRun:
            free = await run_queue.lock(tx, automation.org, automation.id)
            expected = RunRequest(
                automation=automation, mode=Mode.LIVE, started_by=started_by, maker=maker(self.owner)
            )
            return await run_queue.enqueue(tx, free, expected)

        return await self.write(act, automation.org)

    async def claim(self) -> Lease:
        """Claims the oldest ready run and starts it."""

        async def act(tx: Tx) -> Lease:
            worker = await workers.register(tx, "test", version="0", slots=1, lease_ms=30_000)
            claimed = await transitions.claim(tx, worker=worker, free=1, full=[])
            assert claimed is not None
            [lease] = claimed.leases
            return lease

        lease = await self.engine.write(self.now, act)
        await self.write(partial(transitions.start, lease=lease), lease.org)
        return lease

    async def wait_for_approval(self, automation: Automation, lease: Lease) -> None:
        """Makes a started run wait for approval."""
        approval = Approval(
            org=lease.org,
            id=ApprovalId(new_id(self.now)),
            run_id=lease.run,
            automation_id=automation.id,
            automation_name=automation.name,
            store_label=automation.store_label,
            round=1,
            kind=ApprovalKind.CHANGES,
            version=1,
            status=ApprovalStatus.PENDING,
            change_hash="0" * 64,
            counts={},
            warnings=(),
            created_at=self.now,
            expires_at=self.now + timedelta(hours=72),
            decided_at=None,
            decided_by=None,
            comment=None,
        )

        async def act(tx: Tx) -> None:
            await approvals.insert(tx, lease.org, approval, integration=None)
            assert await transitions.park(
                tx, lease, approval=approval.id, expires_at=approval.expires_at, leased_ms=0
            )

        await self.write(act, lease.org)

    async def finish(self, automation: Automation, lease: Lease, status: RunStatus) -> None:
        """Ends a started run and promotes the next."""

        async def act(tx: Tx) -> None:
            await transitions.finish(tx, lease, status, code=None, message=None)
            await run_queue.promote_next(tx, lease.org, automation.id)

        await self.write(act, lease.org)

    async def end(self, automation: Automation) -> None:
        """Ends every queued run of the automation."""

        async def act(tx: Tx) -> None:
            await ending.end_queued(tx, automation.org, automation.id, ending=ending.BY_PERSON)

        await self.write(act, automation.org)


def connection(
    org: OrgId, integration: IntegrationId, kind: str, name: str, zone: str | None, now: datetime
) -> Connection:
    """Builds a connection as connecting stores it."""
    return Connection(
        org=org,
        integration_id=integration,
        kind=kind,
        is_store=kind in ("woocommerce", "shopify"),
        name=name,
        domain=None,
        zone=zone,
        currency=None,
        state=ConnectionState.CONNECTED,
        auth=Auth.KEY,
        account_label=None,
        facts={},
        version=1,
        connected_at=now,
        last_ok_at=now,
        checked_at=now,
        last_error=None,
    )


async def actor(engine: Engine, now: datetime, name: str, zone: str = "Europe/Vienna") -> Actor:
    """Inserts an organization with its owner."""

    async def act(tx: Tx) -> Actor:
        org = await organizations.enlist(tx, name, name.casefold())
        assert org is not None
        await tx.set_tenant([org])
        organization = Organization(org, name, zone, True, True, now)
        await organizations.insert(tx, org, organization)
        email = re.sub(r"\W+", "", name.lower()) + "@example.com"
        person = await people.insert(
            tx, email=email, email_norm=email, username=name, first_name="Ada", last_name="Boss"
        )
        assert person is not None
        return Actor(org, person, TOKEN_SCOPES, CreatedVia.API_TOKEN, "st_TEST", Role.OWNER)

    return await engine.write(now, act)


async def make_world(engine: Engine, clock: FakeClock) -> World:
    """Creates two organizations: one with two stores, a channel and a spreadsheet, one with a store."""
    owner = await actor(engine, clock.now(), "Corner Shop")
    stranger = await actor(engine, clock.now(), "Other Shop")
    none = IntegrationId(0)
    world = World(engine, clock, RULES, owner, stranger, none, none, none, none, none, [])
    world.store = await world.connect("woocommerce", "Corner", zone="Europe/Berlin")
    world.other_store = await world.connect("woocommerce", "Second", zone=None)
    world.teams = await world.connect("teams", "Alerts")
    world.sheet = await world.connect("spreadsheet", "Sheet")
    world.foreign_store = await world.connect("woocommerce", "Theirs", org=stranger.org)
    return world


def reads(*bound: tuple[IntegrationId, str]) -> tuple[AutomationConnection, ...]:
    """Returns the connections of an automation without a store."""
    return tuple(AutomationConnection(integration, kind) for integration, kind in bound)


__all__ = ["AutomationId", "JsonValue", "RunStatus", "World", "make_world", "reads", "template"]
