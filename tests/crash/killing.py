"""Kills the service at failpoints, restarts it, follows a run to its end and checks the result."""

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


class ProcessKilled(BaseException):
    """Ends the process at a failpoint; a BaseException, so that no handler catches it."""


@dataclass
class Killer:
    """Kills the process at chosen visits of failpoints.

    `visits` counts visits of any failpoint: the first number from the start, each later one from the kill
    before. `points` instead names one failpoint a life, at whose first visit it kills. Until the process is
    buried, every further failpoint raises ProcessKilled again.
    """

    visits: Sequence[int] = ()
    points: Sequence[str] = ()
    visited: list[str] = field(default_factory=list)
    kills: list[str] = field(default_factory=list)
    since: int = 0
    is_dead: bool = False

    def __call__(self, point: str) -> None:
        """Records a visit of a failpoint, and raises ProcessKilled if it is time."""
        if self.is_dead:
            raise ProcessKilled(point)
        self.visited.append(point)
        self.since += 1
        if self._is_time(point):
            self.kills.append(point)
            self.since = 0
            self.is_dead = True
            raise ProcessKilled(point)

    def _is_time(self, point: str) -> bool:
        life = len(self.kills)
        if life < len(self.points):
            return point == self.points[life]
        return life < len(self.visits) and self.since > self.visits[life]


@dataclass
class MortalEngine:
    """An engine that a killed process cannot use any more."""

    engine: Engine
    killer: Killer

    @property
    def dialect(self) -> Dialect:
        """Returns the dialect of the engine."""
        return self.engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes while the process lives; raises ProcessKilled afterwards."""
        if self.killer.is_dead:
            raise ProcessKilled
        return await self.engine.write(now, act, org=org, urgent=urgent)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """Reads while the process lives; raises ProcessKilled afterwards."""
        if self.killer.is_dead:
            raise ProcessKilled
        return await self.engine.read(now, act, org=org, small=small)

    async def close(self) -> None:
        """Does nothing: the test that opened the engine closes it."""


def use_mortal_engine(shop: Shop, killer: Killer) -> None:
    """Gives the present process an engine that `killer` can take from it."""
    ctx = shop.service.worker_context
    shop.service = replace(
        shop.service, worker_context=replace(ctx, engine=MortalEngine(shop.service.engine, killer))
    )
    if shop.worker is not None:
        shop.worker.ctx = shop.service.worker_context


@contextmanager
def watching(shop: Shop, killer: Killer) -> Iterator[Killer]:
    """Reports every failpoint to `killer` inside the block."""
    use_mortal_engine(shop, killer)
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
    """Runs a kind of run to its end on reset fake platforms, with kills by `killer`, and returns it.

    Asserts that a process that starts two hours after its end writes nothing.
    """
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
            with suppress(ProcessKilled):
                await shop.until_settled(run)
            if killer.is_dead:
                await bury(shop, killer)
    write_count = len(shop.writes())
    await shop.pass_downtime(hours=2)
    ended = await shop.run(run)
    assert len(shop.writes()) == write_count, "something was written after the run had ended"
    return ended


async def bury(shop: Shop, killer: Killer) -> None:
    """Cancels the killed process's tasks and starts another one after its lease has ended."""
    assert killer.is_dead
    if shop.worker is not None:
        tasks = list(shop.worker.running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    killer.is_dead = False
    await shop.restart()
    use_mortal_engine(shop, killer)


async def kill_at(shop: Shop, *points: str) -> None:
    """Kills the service at the first visit of each point, one life after the other."""
    killer = Killer(points=points)
    with watching(shop, killer):
        for _ in points:
            with suppress(ProcessKilled):
                await shop.drain()
            await bury(shop, killer)


Written = tuple[str, int, tuple[str, ...]]


def count_writes(shop: Shop) -> Counter[Written]:
    """Counts how often each object's fields were written at the fake platforms."""
    return Counter(
        (
            str(item["type"]),
            0 if item["type"] in ("tag", "message") else int(item["id"]),
            tuple(item["fields"]),
        )
        for entry in shop.applied()
        for item in entry["objects"]
    )


def expected_writes(changes: Sequence[Change]) -> Counter[Written]:
    """Returns the writes that applying the changes must cause."""
    writes: set[Written] = set()
    for change in changes:
        for part in change.proposal.parts:
            parent, _, number = part.target.rpartition("/")
            match part.operation:
                case "product.set_visible":
                    writes.add(("product", int(number), ("catalog_visibility",)))
                case "product.set_status":
                    writes.add(("product", int(number), ("status",)))
                case "product.set_tags":
                    writes.add(("product", int(number), ("tags",)))
                case "variant.set_price":
                    what = "variation" if parent else "product"
                    writes.add((what, int(number), ("regular_price", "sale_price")))
                case "product_tag.create":
                    writes.add(("tag", 0, ("name",)))
                case "teams.post":
                    writes.add(("message", 0, ("card",)))
                case other:
                    raise AssertionError(other)
    return Counter(writes)


async def judge(shop: Shop, run: Run, *, blind: bool) -> list[str]:
    """Returns what is wrong with a run that was killed on its way; an empty list if nothing is."""
    wrong: list[str] = []
    changes = await shop.changes(run)
    seen, counter = count_writes(shop), expected_writes(changes)
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
    """Checks that the message was sent at most once and is `unknown` only if that cannot be known."""
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
    if any(entry.state == "intent" for entry in await shop.ledger(run)):
        wrong.append("an intent is still open")
    return wrong
