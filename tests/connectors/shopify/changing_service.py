"""A whole service beside the fake store, with an automation that makes one change of every operation."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from steward import templates
from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.connectors.base.connector import Reader
from steward.model.automation import Automation
from steward.model.change import Action, Outcome, Proposal
from steward.model.ids import IntegrationId
from steward.model.run import TERMINAL, Run, RunStatus
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult
from steward.templates.base import (
    Category,
    ChangeRow,
    EndedRun,
    RunSummary,
    StepFacts,
    StepKind,
    Template,
    TemplateFacts,
)
from tests.connectors.shopify.every_operation import one_of_each, populate
from tests.crash.killing import ROUNDS, Killer, ProcessKilled, bury, watching
from tests.fake_clock import FakeClock
from tests.fakes.shopify.network import beside
from tests.fakes.shopify.store import ShopifyFake
from tests.runs.shop import BY_HAND, Shop, open_shop

CHANGE = "change-everything"
_EMPTY: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}


@dataclass
class ShopifyService:
    """The service and the fake store beside it."""

    shop: Shop
    stores: list[ShopifyFake] = field(default_factory=list)

    @property
    def store(self) -> ShopifyFake:
        """Returns the current store."""
        return self.stores[-1]

    def repopulate(self) -> None:
        """Replaces the store by a fresh one under the same domain and keys."""
        fake_store = ShopifyFake(now=self.shop.clock.now)
        fake_store.seed(products=8, orders=2, customers=2)
        populate(fake_store)
        self.stores[:] = [fake_store]
        self.listen()

    def listen(self) -> None:
        """Lets the service reach the store under its domain from the next restart on."""
        default, store = type(self.shop.world).transport, self.store
        self.shop.world.transport = lambda: beside(default(self.shop.world), store)  # type: ignore[method-assign]

    async def automation(self) -> Automation:
        """Creates an automation that makes every change there is."""
        number = self.shop.connections["shopify"].integration_id
        command = CreateCommand(CHANGE, CHANGE, {}, dict(BY_HAND), integration_id=number)
        rules = self.shop.service.worker_context.automation_rules
        return (
            await self.shop.write(partial(setup.create, actor=self.shop.owner, command=command, rules=rules))
        ).automation

    async def play(self, killer: Killer, faults: Sequence[dict[str, Any]] = ()) -> Run:
        """Plays a run from start to end at a fresh store, killed where `killer` says, and returns it."""
        shop = self.shop
        self.repopulate()
        await shop.restart()
        run = await shop.run_now(await self.automation())
        for fault in faults:
            self.store.fault(**fault)
        with watching(shop, killer):
            for _ in range(ROUNDS):
                fresh = await shop.run(run)
                if fresh.status in TERMINAL:
                    break
                if fresh.status is RunStatus.WAITING_APPROVAL:
                    await shop.approve(run)
                with suppress(ProcessKilled):
                    await shop.until_settled(run)
                if killer.is_dead:
                    await bury(shop, killer)
        return await shop.run(run)

    async def judge(self, run: Run) -> list[str]:
        """Lists what is wrong after a run that was killed on its way; empty when all promises hold."""
        wrong = []
        keys = Counter(entry["idempotency_key"] for entry in self.store.applied())
        wrong += [f"one key was applied {times} times" for times in keys.values() if times > 1]
        touched = Counter(
            (item["id"], *item["fields"]) for entry in self.store.applied() for item in entry["objects"]
        )
        wrong += [f"{item} was written {times} times" for item, times in touched.items() if times > 1]
        changes = await self.shop.changes(run)
        wrong += [
            f"{change.proposal.parts[0].operation} is told as {change.outcome}: {change.message}"
            for change in changes
            if change.outcome is not Outcome.APPLIED
        ]
        if (run.status, run.code) != (RunStatus.SUCCEEDED, None):
            wrong.append(f"the run ended {run.status} {run.code}: {run.message}")
        if any(entry.state == "intent" for entry in await self.shop.ledger(run)):
            wrong.append("an intent is still open")
        return wrong


# Plans the changes that one step of the template proposes, under any names.
Proposing: TypeAlias = Callable[[ShopifyFake, Reader, IntegrationId], Awaitable[Mapping[str, Proposal]]]


async def stand(
    monkeypatch: pytest.MonkeyPatch,
    database_url: str,
    clock: FakeClock,
    folder: Path,
    steps: Sequence[Proposing] = (one_of_each,),
) -> ShopifyService:
    """Returns a service with the store connected that offers the template below."""
    running = ShopifyService(await open_shop(database_url, clock, folder))
    monkeypatch.setattr(templates, "ALL", [*templates.ALL, _template(running, steps)])
    running.repopulate()
    await running.shop.restart()
    await running.shop.connect("shopify", running.store.settings())
    return running


def _template(stand_: ShopifyService, steps: Sequence[Proposing]) -> Template:
    async def propose(context: StepContext, proposing: Proposing) -> StepResult:
        assert context.store is not None
        proposal = await proposing(
            stand_.store, context.store.reader, context.store.connection.integration_id
        )
        return StepResult({}, proposals=tuple(proposal.values()))

    by_name = {f"change_{number}": partial(propose, proposing=item) for number, item in enumerate(steps)}
    facts = TemplateFacts(
        template_id=CHANGE,
        template_version=1,
        name="Change everything",
        description="Makes one change of every operation.",
        category=Category.PRODUCTS,
        platforms=("shopify",),
        connections=(),
        inputs_schema=_EMPTY,
        result_schema=_EMPTY,
        steps=tuple(StepFacts(name, "Change", StepKind.CHANGE) for name in by_name),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.HOURLY),
        changes=tuple(ChangeRow(name, "product", Action.UPDATE, ()) for name in by_name),
        example_result={},
    )
    return Template(facts=facts, steps=by_name, finish=_finish)


def _finish(ended: EndedRun) -> RunSummary:
    return RunSummary("Done.", {})
