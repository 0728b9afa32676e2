"""Kills the service at named points, starts it again, plays a run to its end and judges what is left."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from steward.database.engine.base import Act, Dialect, Engine
from steward.database.runs import active_run, transitions
from steward.failpoint import watch
from steward.model.automation import Automation
from steward.model.change import Change, Outcome
from steward.model.ids import OrgId
from steward.model.run import TERMINAL, Run, RunStatus
from tests.runs.shop import Shop

T = TypeVar("T")

ROUNDS = 40


class Killed(BaseException):
    """The process ends here: nothing of it catches this."""


@dataclass
class Killer:
    """Kills at given visits of crash points: the first number counts from the start, each later one from
    the kill before. Or at the first visit of each of `points`, one life after the other.

    Once killed, the process is dead: whatever of it reaches a point ends there, until it is buried.
    """

    at: Sequence[int] = ()
    points: Sequence[str] = ()
    visited: list[str] = field(default_factory=list)
    kills: list[str] = field(default_factory=list)
    since: int = 0
    is_dead: bool = False

    def __call__(self, point: str) -> None:
        """A point was reached."""
        if self.is_dead:
            raise Killed(point)
        self.visited.append(point)
        self.since += 1
        if self._is_time(point):
            self.kills.append(point)
            self.since = 0
            self.is_dead = True
            raise Killed(point)

    def _is_time(self, point: str) -> bool:
        life = len(self.kills)
        if life < len(self.points):
            return point == self.points[life]
        return life < len(self.at) and self.since > self.at[life]


@dataclass
class Mortal:
    """An engine that a dead process cannot use any more."""

    engine: Engine
    killer: Killer

    @property
    def dialect(self) -> Dialect:
        """As the engine behind."""
        return self.engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """As the engine behind, while the process lives."""
        if self.killer.is_dead:
            raise Killed
        return await self.engine.write(now, act, org=org, urgent=urgent)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """As the engine behind, while the process lives."""
        if self.killer.is_dead:
            raise Killed
        return await self.engine.read(now, act, org=org, small=small)

    async def close(self) -> None:
        """The engine behind is closed by who opened it."""


def make_mortal(shop: Shop, killer: Killer) -> None:
    """The present process does nothing more once it is killed."""
    ctx = shop.service.worker_context
    shop.service = replace(
        shop.service, worker_context=replace(ctx, engine=Mortal(shop.service.engine, killer))
    )
    if shop.worker is not None:
        shop.worker.ctx = shop.service.worker_context


@contextmanager
def watching(shop: Shop, killer: Killer) -> Iterator[Killer]:
    """While in force, `killer` hears of every point."""
    make_mortal(shop, killer)
    watch(killer)
    try:
        yield killer
    finally:
        watch(None)


KINDS: dict[str, Callable[[Shop], Awaitable[Automation]]] = {
    "hide": lambda shop: shop.hiding(threshold=0),
    "price": lambda shop: shop.pricing(),
    "teams": lambda shop: shop.alerting(),
}


async def play(shop: Shop, kind: str, killer: Killer, faults: Sequence[dict[str, Any]] = ()) -> Run:
    """A run from its start to its end in a fresh outside world, killed where `killer` says."""
    await shop.world.reset()
    await shop.restart()  # with the outside world its tokens went
    shop.connected_at = 0
    run = await shop.run_now(await KINDS[kind](shop))
    for fault in faults:
        shop.fault(**fault)
    with watching(shop, killer):
        for _ in range(ROUNDS):
            fresh = await shop.run(run)
            if fresh.status in TERMINAL:
                break
            if fresh.status is RunStatus.WAITING_APPROVAL:
                await shop.approve(run)
            with suppress(Killed):
                await shop.until_settled(run)
            if killer.is_dead:
                await bury(shop, killer)
    written = len(shop.writes())
    await shop.pass_time(hours=2)
    ended = await shop.run(run)
    assert len(shop.writes()) == written, "something was written after the run had ended"
    return ended


async def bury(shop: Shop, killer: Killer) -> None:
    """Nothing of the killed process goes on; another one serves, once the lease is over."""
    assert killer.is_dead
    if shop.worker is not None:
        tasks = list(shop.worker.running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    killer.is_dead = False
    await shop.restart()
    make_mortal(shop, killer)


async def killed(shop: Shop, *points: str) -> None:
    """The service is killed at the first visit of each point, one life after the other."""
    killer = Killer(points=points)
    with watching(shop, killer):
        for _ in points:
            with suppress(Killed):
                await shop.drain()
            await bury(shop, killer)


Written = tuple[str, int, tuple[str, ...]]


def written(shop: Shop) -> Counter[Written]:
    """What the outside world saw change, how often."""
    return Counter(
        (
            str(item["type"]),
            0 if item["type"] in ("tag", "message") else int(item["id"]),
            tuple(item["fields"]),
        )
        for entry in shop.applied()
        for item in entry["objects"]
    )


def wanted(changes: Sequence[Change]) -> Counter[Written]:
    """What carrying out the changes means outside."""
    collected: set[Written] = set()
    for change in changes:
        for part in change.proposal.parts:
            parent, _, number = part.target.rpartition("/")
            match part.operation:
                case "product.set_visible":
                    collected.add(("product", int(number), ("catalog_visibility",)))
                case "product.set_status":
                    collected.add(("product", int(number), ("status",)))
                case "product.set_tags":
                    collected.add(("product", int(number), ("tags",)))
                case "variant.set_price":
                    what = "variation" if parent else "product"
                    collected.add((what, int(number), ("regular_price", "sale_price")))
                case "product_tag.create":
                    collected.add(("tag", 0, ("name",)))
                case "teams.post":
                    collected.add(("message", 0, ("card",)))
                case other:
                    raise AssertionError(other)
    return Counter(collected)


async def judge(shop: Shop, run: Run, *, blind: bool) -> list[str]:
    """What is wrong after a run that was killed on its way; empty: all is as promised."""
    wrong: list[str] = []
    changes = await shop.changes(run)
    seen, counter = written(shop), wanted(changes)
    if run.status not in TERMINAL:
        return [f"the run is stuck: {run.status}"]
    keys = Counter(entry["idempotency_key"] for entry in shop.applied())
    wrong += [f"one key was applied {times} times" for times in keys.values() if times > 1]
    wrong += [f"{item} was written {times} times" for item, times in seen.items() if times > 1]
    wrong += [f"{item} was written and not asked for" for item in seen if item not in counter]
    if blind:
        wrong += _judge_message(run, changes, sum(seen.values()))
    else:
        wrong += [f"{item} was approved and never written" for item in counter if item not in seen]
        wrong += [
            f"a change is told as {change.outcome}"
            for change in changes
            if change.outcome is not Outcome.APPLIED
        ]
        if (run.status, run.code) != (RunStatus.SUCCEEDED, None):
            wrong.append(f"the run ended {run.status} {run.code}: {run.message}")
    return wrong + await _judge_rows(shop, run)


def _judge_message(run: Run, changes: Sequence[Change], arrived: int) -> list[str]:
    """At most once, and told truly: unknown only where it cannot be known."""
    [message] = changes
    actual = (run.status, run.code, message.outcome)
    sent = (RunStatus.SUCCEEDED, None, Outcome.APPLIED)
    unsure = (RunStatus.FAILED, "outcome_unknown", Outcome.UNKNOWN)
    if actual not in (sent, unsure):
        return [f"the message is told as {actual}"]
    return ["a message is told as sent and never arrived"] if actual == sent and not arrived else []


async def _judge_rows(shop: Shop, run: Run) -> list[str]:
    wrong: list[str] = []
    rows = await shop.steps(run)
    if [row["seq"] for row in rows] != list(range(1, run.last_seq + 1)):
        wrong.append(f"rows are {[row['seq'] for row in rows]} of {run.last_seq}")
    ends = Counter(row["name"] for row in rows if row["status"] != "held")
    wrong += [f"step {name} ended {times} times" for name, times in ends.items() if times > 1]
    held = partial(active_run.active_runs, org=shop.owner.org, automations=[run.automation_id])
    if await shop.read(held):
        wrong.append("the lane is still held")
    hot = await shop.read(partial(transitions.read_state, org=shop.owner.org, run=run.id))
    if hot is None or hot.attempt > 4:
        wrong.append(f"attempts: {hot}")
    if any(effect.state == "intent" for effect in await shop.ledger(run)):
        wrong.append("an intent is still open")
    return wrong
