"""A whole service for the measurements: a fresh database, an organization, automations of five steps."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx

from steward import app, worker
from steward.accounts import credentials, organizations, people
from steward.accounts.organizations import CreateOrganization
from steward.accounts.people import CreatePerson
from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.cli.serve import freeze_loaded_objects
from steward.clock import Clock, SystemClock
from steward.config import read
from steward.database.engine.base import Engine, Tx
from steward.database.engine.migrate import migrate
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Role
from steward.model.automation import Automation
from steward.model.plan import StepKind
from steward.model.run import Mode, Run
from steward.model.schedule import MANUAL
from steward.model.trigger import TriggerKind
from steward.runs import start
from steward.runs.start import RunNow
from steward.security.passwords import Cost, hash_password
from steward.steps.base import StepContext, StepResult
from steward.templates.base import Category, RunSummary, StepFacts, Template, TemplateFacts
from steward.worker import Worker, WorkerContext

T = TypeVar("T")

FIVE_STEPS = "bench-five-steps"
BY_HAND = {"cadence": "manual"}
PASSWORD = "correct-horse-battery-staple"


async def _decide(context: StepContext) -> StepResult:
    """A step without any work of its own: what is measured is the service."""
    return StepResult({"seen": len(context.outputs), "word": "measured"})


def five_steps() -> Template:
    """A template of five steps that ask nothing of the outside."""
    facts = TemplateFacts(
        template_id=FIVE_STEPS,
        template_version=1,
        name="Five steps",
        description="Measures the service itself.",
        category=Category.REPORTS,
        platforms=(),
        connections=(),
        inputs_schema={"type": "object", "properties": {}, "additionalProperties": False},
        result_schema={"type": "object"},
        steps=tuple(StepFacts(f"step-{n}", f"Step {n}", StepKind.DECIDE) for n in range(1, 6)),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=MANUAL,
        changes=(),
        example_result={},
    )
    functions = {step.name: _decide for step in facts.steps}
    return Template(facts, functions, lambda ended: RunSummary("Five steps were taken.", {}))


@dataclass(slots=True)
class Bench:
    """The wired service, its one organization's owner, and short ways to work."""

    service: app.WiredProcess
    owner: Actor
    client_id: str
    started: int = 0

    @property
    def engine(self) -> Engine:
        """The service's database."""
        return self.service.engine

    @property
    def ctx(self) -> WorkerContext:
        """What a worker is given."""
        return self.service.worker_context

    async def write(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        """One transaction of the organization."""
        return await self.engine.write(self.service.clock.now(), act, org=self.owner.org)

    async def read(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        """One read of the organization."""
        return await self.engine.read(self.service.clock.now(), act, org=self.owner.org)

    async def automations(self, count: int, schedule: dict[str, Any] = BY_HAND) -> list[Automation]:
        """New automations of the five steps, in transactions of 200."""
        rules = self.ctx.automation_rules
        created: list[Automation] = []

        async def some(tx: Tx, numbers: Iterable[int]) -> list[Automation]:
            asks = [CreateCommand(FIVE_STEPS, f"Measured {n}", {}, dict(schedule)) for n in numbers]
            return [(await setup.create(tx, self.owner, query, rules=rules)).automation for query in asks]

        for first in range(0, count, 200):
            created += await self.write(partial(some, numbers=range(first, min(first + 200, count))))
        return created

    async def mixed(self, schedules: Iterable[tuple[dict[str, Any], str]]) -> None:
        """New automations of the five steps, each with a schedule and a zone, in one transaction."""
        asks = [
            CreateCommand(FIVE_STEPS, f"Measured {n}", {}, schedule, timezone=timezone)
            for n, (schedule, timezone) in enumerate(schedules)
        ]

        async def some(tx: Tx) -> None:
            for query in asks:
                await setup.create(tx, self.owner, query, rules=self.ctx.automation_rules)

        await self.write(some)

    async def run_now(self, automation: Automation, mode: Mode = Mode.LIVE) -> Run:
        """A run by hand, as the endpoint makes it; wakes the worker."""
        self.started += 1
        query = RunNow(automation.id, f"bench-{self.started}", mode)
        now, templates = self.service.clock.now(), self.ctx.automation_rules.templates
        started = await start.start(
            self.engine, now, self.owner, query, templates=templates, max_waiting=1000
        )
        run = started.run
        self.service.hints.announce("ready")
        return run

    async def worker(self) -> Worker:
        """This process as a worker, with the ticks of `steward serve` still to be run."""
        poll = timedelta(seconds=1 if self.engine.dialect == "sqlite" else 0.25)
        return await worker.register(self.ctx, self.service.hints, poll=poll)

    async def sign_in(self) -> dict[str, str]:
        """Signs the owner in; returns the headers of a request of the session."""
        transport = httpx.ASGITransport(app=cast("Any", self.service.request_handler))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            body = {"email": "owner@bench.example", "password": PASSWORD}
            response = await client.post("/app/session", json=body)
            response.raise_for_status()
            cookie = response.headers["set-cookie"].partition(";")[0]
        return {"cookie": cookie}

    def token(self) -> str:
        """A token of the owner, signed by the service's own key."""
        return self.service.context.keys.signer.sign(
            person=self.owner.person,
            org=self.owner.org,
            client_id=self.client_id,
            scopes=["automations:read", "automations:write"],
            epoch=1,
            jti="01JD3Z0QH8N2Y5V7W9X1C4B6A8",
            now=int(self.service.clock.now().timestamp()),
        )


async def open_bench(url: str, folder: Path, *, clock: Clock | None = None, **settings: str) -> Bench:
    """A migrated database at `url`, the service over it, its organization, owner and credential."""
    clock = clock or SystemClock()
    await migrate(url, clock.now())
    bench = await wire(url, folder, clock=clock, **settings)

    async def create_owner(tx: Tx) -> tuple[Actor, str]:
        org = (await organizations.create(tx, CreateOrganization("Bench"))).id
        hashed = hash_password(PASSWORD, Cost(memory=64, passes=1))
        person = await people.create(
            tx, CreatePerson("owner@bench.example", "The", "Owner", password_hash=hashed)
        )
        await people.add_to_organization(tx, person, org, Role.OWNER)
        issued = await credentials.issue(tx, bench.service.context.keys, org, "bench")
        scopes = ROLE_SCOPES[Role.OWNER]
        actor = Actor(org, person.id, scopes, CreatedVia.UI, None, Role.OWNER, "0" * 64)
        return actor, issued.credential.client_id

    bench.owner, bench.client_id = await bench.engine.write(clock.now(), create_owner)
    return bench


async def wire(url: str, folder: Path, *, clock: Clock, **settings: str) -> Bench:
    """The service over a migrated database, with the bench template on offer, in a process that collects its
    garbage as the served ones do; `settings` are those of the service."""
    environ = {
        "STEWARD_ENV": "demo",
        "STEWARD_DATABASE_URL": url,
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_LOG_LEVEL": "warning",
        "STEWARD_SPREAD_MAX": "0",
        "STEWARD_LIMIT_PERSON": "1000000",
        "STEWARD_LIMIT_WEB": "1000000",
        "STEWARD_LIMIT_ORGANIZATION": "1000000",
        **{f"STEWARD_{name.upper()}": value for name, value in settings.items()},
    }
    service = await app.build(read(environ), clock=clock)
    freeze_loaded_objects()
    template = five_steps()
    # One mapping is shared by API, worker and rules (app.py); only the bench adds to it.
    cast("dict[str, Template]", service.worker_context.automation_rules.templates)[template.template_id] = (
        template
    )
    return Bench(service, cast("Actor", None), "")
