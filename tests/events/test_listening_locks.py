"""Tests listening stopped at every statement on PostgreSQL, beside what changes it."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from steward.automations import lifecycle, pauses
from steward.automations.pauses import StateCommand
from steward.connections import connect
from steward.database.engine.base import Tx
from steward.events import subscription_sync
from steward.events.subscription_sync import UNWANTED_FOR
from steward.model.refusals import Refusal
from steward.worker import WorkerContext
from tests.events.world import ListeningService, open_listener, order
from tests.fake_clock import FakeClock
from tests.occurrences.interleaving import Session, StatementBarrier, SteppedEngine, stepped
from tests.populated_service import open_populated_service

# 1 stops at every statement; the suite stops at every eighth.
EVERY = int(os.environ.get("INTERLEAVE_EVERY", "8"))
MAX_STATEMENTS = 100
Act = Callable[[WorkerContext], Awaitable[object]]
VERBS = {"resume": lifecycle.resume, "pause": pauses.pause}


@dataclass
class SideBySide:
    """A listening service on PostgreSQL with concurrent transactions, and a watcher of its locks."""

    listener: ListeningService
    watcher: Any

    def turn(self, automation: Mapping[str, Any], verb: str) -> Act:
        """Resumes or pauses an automation in another process."""
        owner = self.listener.shop.owner

        async def act(ctx: WorkerContext) -> object:
            command, rules = StateCommand(automation["id"]), ctx.automation_rules
            change = partial(VERBS[verb], actor=owner, command=command, rules=rules)
            return await ctx.engine.write(ctx.clock.now(), change, org=owner.org)

        return act

    async def look(self, ctx: WorkerContext) -> None:
        """Checks the store's subscriptions as a process does."""
        await subscription_sync.check(
            ctx.events(), self.listener.shop.owner.org, self.listener.populated.number("woocommerce")
        )

    async def disconnect(self, ctx: WorkerContext) -> None:
        """Disconnects the store as the request handler does."""
        owner, number = self.listener.shop.owner, self.listener.populated.number("woocommerce")

        async def act(tx: Tx) -> None:
            rules = ctx.automation_rules
            await pauses.pause_for_connection(tx, owner.org, number, reason="Gone.", rules=rules)
            await connect.disconnect(tx, owner, number)

        await ctx.engine.write(ctx.clock.now(), act, org=owner.org)

    async def interleaved(self, statement: int, *acts: Act) -> bool:
        """Stops the first act before one of its statements while the others run as far as they can.

        Returns True if the first act has fewer statements.
        """
        ctx: WorkerContext = self.listener.shop.service.worker_context
        sessions, held = [Session() for _ in acts], StatementBarrier(statement)
        ways = [replace(ctx, engine=SteppedEngine(ctx.engine, session)) for session in sessions]
        going = [act(worker_context) for act, worker_context in zip(acts, ways, strict=True)]
        for result in await stepped(held, self.watcher, sessions, going):
            if isinstance(result, BaseException) and not isinstance(result, Refusal):
                raise result
        return held.left > 0

    async def hears(self, automation: Mapping[str, Any], statement: int) -> None:
        """Asserts that the automation listens in the end and that an event of the shop starts it."""
        self.listener.token = await self.listener.populated.service.token("member")
        await self.listener.shop.drain()
        assert (await self.listener.trigger(automation))["listening"] == "yes", statement
        number = 1000 + self.listener.sent
        assert (await self.listener.deliver("order.created", order(number))).status == 200
        assert ("orders/create", str(number)) in await self.listener.events_of_runs(automation), statement


@pytest.fixture
async def beside(postgresql_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[SideBySide]:
    """Provides the service on its own PostgreSQL database."""
    opened = await open_populated_service(postgresql_url, clock, tmp_path)
    watcher = await asyncpg.connect(postgresql_url)
    yield SideBySide(await open_listener(opened), watcher)
    await watcher.close()
    await opened.close()


@pytest.mark.parametrize("held", ["person", "look"])
@pytest.mark.parametrize("unwanted_for", [timedelta(0), UNWANTED_FOR])
async def test_one_resumed_while_its_topic_is_forgotten_or_closed_listens(
    beside: SideBySide, held: str, unwanted_for: timedelta
) -> None:
    """Waiting for a topic excludes removing it, so a resumed automation listens."""
    listener = beside.listener
    resumed = await listener.automation("orders/create")
    person = beside.turn(resumed, "resume")

    async def resume_and_look(ctx: WorkerContext) -> None:
        await person(ctx)
        await beside.look(ctx)

    acts: list[Act] = [person, beside.look] if held == "person" else [beside.look, resume_and_look]
    for statement in range(0, MAX_STATEMENTS, EVERY):
        assert (await listener.act(resumed, "pause")).status == 200
        if unwanted_for:  # the topic was forgotten meanwhile; its subscription is to be closed
            await listener.shop.drain()
            listener.shop.clock.tick(unwanted_for.total_seconds())
        is_over = await beside.interleaved(statement, *acts)
        await beside.hears(resumed, statement)
        if is_over:
            return
    raise AssertionError("the held act does not end")


@pytest.mark.parametrize("held", ["resume", "disconnect"])
async def test_a_disconnected_store_is_listened_to_again_once_it_is_reconnected(
    beside: SideBySide, held: str
) -> None:
    """Locks are taken in one order: schedules, listeners, connections; no deadlock occurs."""
    listener, number = beside.listener, beside.listener.populated.number("woocommerce")
    automation = await listener.automation("orders/create")
    acts = {
        "resume": [beside.turn(automation, "resume"), beside.disconnect, beside.look],
        "disconnect": [beside.disconnect, beside.turn(automation, "pause"), beside.look],
    }[held]
    owner = await listener.populated.service.web("owner")
    woo = listener.shop.world.described()["woocommerce"]
    settings = {name: woo[name] for name in ("url", "consumer_key", "consumer_secret")}
    for statement in range(0, MAX_STATEMENTS, EVERY):
        if held == "resume":
            assert (await listener.act(automation, "pause")).status == 200
        await listener.shop.drain()
        is_over = await beside.interleaved(statement, *acts)
        listener.shop.world.state.shop.webhooks.clear()  # the request handler asks the shop to do so
        await listener.shop.drain()
        response = await owner.post(f"/app/connections/{number}/reconnect", {"settings": settings})
        assert response.status == 200, response.body
        if (await listener.read(automation))["state"] == "paused":
            assert (await listener.act(automation, "resume")).status == 200
        await beside.hears(automation, statement)
        if is_over:
            return
    raise AssertionError("the held act does not end")
