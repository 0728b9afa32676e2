"""Simulates several workers on one database in virtual time.

A seed draws who acts next, when time passes and what fails: one operation on the database or the network at a
time. See docs/guides/contributors.md#tests.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import httpx

from steward import app, periodic_tasks, worker
from steward.config import read
from steward.database.engine.base import Act, Dialect, Engine
from steward.database.runs import active_run
from steward.model.change import Change, Outcome
from steward.model.ids import OrgId
from steward.model.refusals import Refusal, Unavailable
from steward.model.run import TERMINAL, Run, RunStatus
from steward.runs.lease import LeaseConfirmation
from steward.worker import Hints, Worker
from tests.crash.killing import KINDS, ProcessKilled, count_writes, expected_writes
from tests.crash.skew import OwnTime, SkewedClock
from tests.runs.shop import Shop

T = TypeVar("T")
WORKERS = 3
MAX_SKEW_S = 300
JUMPS_S = (3_600, -600, 86_400, -86_400)
CALL_LASTS = timedelta(seconds=60)  # what a call may take in all; later it is never delivered
FAULTS = 0.01
TICKS = ("claim", "heartbeat", "recover", "release_orphans", "wake", "settle", "progress")
PAST_THE_LEASE = 40
# Requests and answers that are lost on the way, and answers that say too little.
LOST: list[dict[str, Any]] = [
    {"kind": "drop_after", "method": "PUT", "path": "**"},
    {"kind": "drop_before", "method": "PUT", "path": "**", "skip": 1},
    {"kind": "drop_after", "method": "POST", "path": "**/batch"},
    {"kind": "status_after", "method": "POST", "path": "**/batch", "status": 503},
    {"kind": "throttle", "method": "POST", "path": "**/batch", "retry_after": 30},
    {"kind": "drop_after", "method": "POST", "path": "/teams/**"},
]


@dataclass
class Turn:
    """An operation that waits to be drawn and reports when it is done."""

    go: "asyncio.Future[None]"
    done: asyncio.Event


@dataclass
class Host:
    """A simulated process: its worker, its clock and the operations that wait for a turn."""

    number: int
    service: app.WiredProcess
    clock: SkewedClock
    chance: random.Random
    network: "Network"
    registered_worker: Worker | None = None
    waiting: list[Turn] = field(default_factory=list)
    tasks: dict[str, "asyncio.Task[bool]"] = field(default_factory=dict)
    paused: bool = False
    dead: bool = True

    async def turn(self) -> Turn:
        """Waits until the simulation draws this operation."""
        if self.dead:
            raise ProcessKilled
        turn = Turn(asyncio.get_running_loop().create_future(), asyncio.Event())
        self.waiting.append(turn)
        try:
            await turn.go
        except asyncio.CancelledError:
            turn.done.set()
            raise
        return turn


@dataclass
class DrawnEngine:
    """An engine whose every use is a turn and may fail before or after its commit."""

    engine: Engine
    host: Host

    @property
    def dialect(self) -> Dialect:
        """Returns the dialect of the engine."""
        return self.engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes when drawn; sometimes raises Unavailable before or after the commit."""
        return await self._in_turn(
            partial(self.engine.write, now, act, org=org, urgent=urgent), loses=not urgent
        )

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """Reads when drawn."""
        return await self._in_turn(partial(self.engine.read, now, act, org=org, small=small), loses=False)

    async def _in_turn(self, work: Callable[[], Awaitable[T]], *, loses: bool) -> T:
        turn = await self.host.turn()
        fate = self.host.chance.random() if loses else 1.0
        try:
            if fate < FAULTS:
                raise Unavailable("The database is away.", retry_after=1)
            result = await work()
            if fate < 2 * FAULTS:
                raise Unavailable("The database's answer was lost.", retry_after=1)
            return result
        finally:
            turn.done.set()

    async def close(self) -> None:
        """Does nothing: the test that opened the engine closes it."""


class Network(httpx.AsyncBaseTransport):
    """A transport whose requests and answers are a turn each."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport
        self.host: Host | None = None
        self.requests: list[tuple[float, httpx.Request]] = []  # with the second at which each left

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Delivers the request within the time a call may take, or raises ReadTimeout."""
        host = self.host
        assert host is not None
        asked_at = host.clock.monotonic()
        self.requests.append((asked_at, request))
        turn = await host.turn()
        try:
            if host.clock.monotonic() - asked_at > CALL_LASTS.total_seconds():
                raise httpx.ReadTimeout("no answer in time", request=request)
            response = await self._transport.handle_async_request(request)
        finally:
            turn.done.set()
        (await host.turn()).done.set()
        if host.clock.monotonic() - asked_at > CALL_LASTS.total_seconds():
            raise httpx.ReadTimeout("no answer in time", request=request)
        return response


@dataclass
class Simulation:
    """One shop, its hosts and the random draw."""

    shop: Shop
    hosts: list[Host]
    trace: list[str] = field(default_factory=list)
    chance: random.Random = field(default_factory=random.Random)
    cancelled: set[str] = field(default_factory=set)

    async def play(self, seed: int, steps: int) -> list[str]:
        """Plays `steps` acts drawn by `seed` on reset fake platforms; returns what is wrong afterwards."""
        shop = self.shop
        self.chance = random.Random(seed)
        self.trace, self.cancelled = [], set()
        await shop.world.reset()
        await shop.restart()
        shop.connected_at = 0
        for host in self.hosts:
            host.chance = random.Random(f"{seed} {host.number}")
            host.clock.ahead = timedelta(seconds=self.chance.uniform(-MAX_SKEW_S, MAX_SKEW_S))
            host.paused, host.dead = False, True
        runs = await self._start_runs()
        try:
            for _ in range(steps):
                await self.step(runs)
        finally:
            for host in self.hosts:
                await self.kill(host)
        await shop.clock.advance(shop.service.worker_context.worker_rules.lease.total_seconds() + 1)
        return await self.judge(runs)

    async def _start_runs(self) -> list[Run]:
        """Starts a run of each kind and approves most of those that ask, so that they apply changes."""
        shop = self.shop
        asking = [await shop.run_now(await KINDS[kind](shop)) for kind in ("hide", "price")]
        if self.chance.random() < 0.8:
            await shop.drain()
            for run in asking:
                await shop.approve(run)
        sending = await shop.run_now(await KINDS["teams"](shop))
        for fault in self.chance.sample(LOST, self.chance.randrange(3)):
            shop.fault(**fault)
        return [*asking, sending]

    async def step(self, runs: list[Run]) -> None:
        """Draws an act: mostly a waiting operation, else time, a task, a pause, a kill or a person."""
        draw = self.chance.random()
        ready = [host for host in self.hosts if host.waiting and not host.paused and not host.dead]
        if ready and draw < 0.80:
            await self.grant(self.chance.choice(ready))
        elif draw < 0.91:
            await self.start_random_task(self.chance.choice(self.hosts))
        elif draw < 0.95:
            await self.shop.clock.advance(self.chance.choice((0.1, 1, 3, 10, PAST_THE_LEASE, 140)))
        elif draw < 0.975:
            paused = [host for host in self.hosts if host.paused]
            host = self.chance.choice(paused or self.hosts)
            host.paused = not host.paused
            self.trace.append(f"{host.number} {'stops' if host.paused else 'wakes'}")
        elif draw < 0.98:
            await self.kill(self.chance.choice(self.hosts))
        elif draw < 0.987:
            await self.stall()
        elif draw < 0.99:
            self.jump(self.chance.choice(self.hosts))
        else:
            await self.person(self.chance.choice(runs))
        await self.shop.clock.settle()

    async def grant(self, host: Host) -> None:
        """Performs one of the host's waiting operations from start to end."""
        turn = host.waiting.pop(self.chance.randrange(len(host.waiting)))
        if turn.go.done():
            return
        turn.go.set_result(None)
        await asyncio.wait_for(turn.done.wait(), 30)

    async def start_random_task(self, host: Host) -> None:
        """Starts a periodic task of the host, or restarts a dead host."""
        if host.paused:
            return
        if host.dead:
            await self.start(host)
        if host.dead:  # the database refused its registration
            return
        self.start_task(host, self.chance.choice([*TICKS, "claim", "heartbeat", "heartbeat"]))

    def start_task(self, host: Host, name: str) -> None:
        """Starts this periodic task of the host unless it is running."""
        if name in host.tasks and not host.tasks[name].done():
            return
        hired = host.registered_worker
        assert hired is not None
        ticks = {tick.name: tick for tick in periodic_tasks.of_worker(hired)}
        self._record_failures(host)
        host.tasks[name] = asyncio.ensure_future(_ticking(ticks[name].run()))

    def jump(self, host: Host) -> None:
        """Sets the host's clock forward or back."""
        host.clock.ahead += timedelta(seconds=self.chance.choice(JUMPS_S))
        self.trace.append(f"{host.number}'s clock is off by {host.clock.ahead}")

    async def stall(self) -> None:
        """Pauses a host with runs for longer than its lease while another takes them over."""
        holding = [host for host in self.hosts if not host.dead and not host.paused and _has_runs(host)]
        others = [each_host for each_host in self.hosts if not each_host.dead and not each_host.paused]
        if not holding or len(others) < 2:
            return
        stopped = self.chance.choice(holding)
        others.remove(stopped)
        stopped.paused = True
        for _ in range(4):
            await self.shop.clock.advance(9)
            for other in others:
                await self.run_task(other, "heartbeat")
        taker = self.chance.choice(others)
        await self.run_task(taker, "recover")
        await self.run_task(taker, "claim")
        self.trace.append(f"{taker.number} takes over from {stopped.number}")

    async def run_task(self, host: Host, name: str) -> None:
        """Runs a periodic task of the host to its end, with the operations that it waits for."""
        self.start_task(host, name)
        for _ in range(200):
            await self.shop.clock.settle(10)
            if host.tasks[name].done():
                return
            if host.waiting:
                await self.grant(host)

    async def start(self, host: Host) -> None:
        """Starts a new process on the host, which registers before any other turn."""
        host.dead, host.waiting, host.tasks = False, [], {}
        ctx = replace(
            host.service.worker_context,
            engine=DrawnEngine(OwnTime(self.shop.engine, self.shop.clock), host),
            clock=host.clock,
            lease_confirmation=LeaseConfirmation(),
            progress={},
        )
        ensure_future = asyncio.ensure_future(worker.register(ctx, Hints(), poll=timedelta(seconds=1)))
        while not ensure_future.done():
            await self.shop.clock.settle(5)
            if host.waiting:
                await self.grant(host)
        if ensure_future.exception() is not None:
            host.dead = True
            return
        host.registered_worker = ensure_future.result()
        self.trace.append(f"{host.number} starts")

    async def kill(self, host: Host) -> None:
        """Kills the host's process."""
        if host.dead:
            return
        host.dead, host.paused = True, False
        tasks: list[asyncio.Task[object]] = [*host.tasks.values()]  # type: ignore[list-item]
        if host.registered_worker is not None:
            tasks += list(host.registered_worker.running.values())  # type: ignore[arg-type]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        host.waiting = []
        self.trace.append(f"{host.number} is killed")

    def _record_failures(self, host: Host) -> None:
        """Records each task that failed for another reason than a drawn fault."""
        for name, task in host.tasks.items():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                self.trace.append(f"{host.number} {name}: {error!r}")

    async def person(self, run: Run) -> None:
        """Approves what waits, or sometimes cancels a run."""
        try:
            if (await self.shop.run(run)).status is RunStatus.WAITING_APPROVAL:
                await self.shop.approve(run)
                self.trace.append(f"approved {run.template_id}")
            elif self.chance.random() < 0.1:
                await self.shop.cancel(run)
                self.cancelled.add(run.id)
                self.trace.append(f"cancelled {run.template_id}")
        except Refusal:
            pass  # it moved on meanwhile

    async def judge(self, runs: list[Run]) -> list[str]:
        """Finishes all runs with one worker; returns what was lost, doubled, stuck or reported wrongly."""
        shop = self.shop
        for run in runs:
            for _ in range(4):
                if (await shop.until_settled(run)).status in TERMINAL:
                    break
                await shop.approve(run)
        count = len(shop.writes())
        await shop.pass_downtime(hours=2)
        wrong = [] if len(shop.writes()) == count else ["something was written after the end"]
        seen = count_writes(shop)
        keys = Counter(entry["idempotency_key"] for entry in shop.applied())
        wrong += [f"a key was applied {times} times" for times in keys.values() if times > 1]
        wrong += [f"{item} was written {times} times" for item, times in seen.items() if times > 1]
        request: list[Change] = []
        for run in runs:
            ended = await shop.run(run)
            changes = await shop.changes(run)
            request += changes
            wrong += [f"{run.template_id}: {words}" for words in self._reporting_faults(ended, changes)]
            wrong += await self._row_faults(ended)
        return wrong + [f"{item} was written and not asked for" for item in seen - expected_writes(request)]

    def _reporting_faults(self, run: Run, changes: list[Change]) -> list[str]:
        """Returns which outcomes of the run and its changes do not match what was written."""
        blind = run.template_id == "low-stock-alert"
        # Five attempts that never left end a change, too: what is judged then is that it is told so.
        unsent = (RunStatus.FAILED, "some_changes_failed")
        allowed = {(RunStatus.SUCCEEDED, None), (RunStatus.FAILED, "interrupted"), unsent}
        if blind:
            allowed.add((RunStatus.FAILED, "outcome_unknown"))
        if run.id in self.cancelled:
            allowed.add((RunStatus.CANCELLED, "by_person"))
        wrong = [] if (run.status, run.code) in allowed else [f"ended {run.status} {run.code}: {run.message}"]
        arrived = count_writes(self.shop)
        for change in changes:
            there = [item in arrived for item in expected_writes([change])]
            outcome = change.outcome
            if outcome is Outcome.UNKNOWN and blind:
                continue
            if outcome is Outcome.APPLIED and not all(there):
                wrong.append(f"{change.id} is told as applied and never arrived")
            elif outcome is not Outcome.APPLIED and len(there) == len(change.proposal.parts) and all(there):
                wrong.append(f"{change.id} arrived and is told as {outcome}")
            elif run.status is RunStatus.SUCCEEDED and outcome is not Outcome.APPLIED:
                wrong.append(f"{change.id} is told as {outcome} in a run that succeeded")
        return wrong

    async def _row_faults(self, run: Run) -> list[str]:
        """Returns what is wrong with the run's stored rows."""
        rows = await self.shop.steps(run)
        wrong = []
        if [row["seq"] for row in rows] != list(range(1, run.last_seq + 1)):
            wrong.append(f"rows are {[row['seq'] for row in rows]} of {run.last_seq}")
        ends = Counter(row["name"] for row in rows if row["status"] != "held")
        wrong += [f"step {name} ended {times} times" for name, times in ends.items() if times > 1]
        held = partial(active_run.active_runs, org=self.shop.owner.org, automations=[run.automation_id])
        if await self.shop.read(held):
            wrong.append("the lane is still held")
        if any(entry.state == "intent" for entry in await self.shop.ledger(run)):
            wrong.append("an intent is still open")
        return wrong


async def _ticking(run: "Awaitable[bool]") -> bool:
    try:
        return await run
    except Unavailable:
        return False  # the loop of the worker backs off and comes again
    except ProcessKilled:
        return False


async def open_simulation(shop: Shop) -> Simulation:
    """Builds a simulation of three more processes for the shop."""
    hosts = []
    for number in range(WORKERS):
        network = Network(shop.world.transport())
        clock = SkewedClock(shop.clock, timedelta())
        service = await app.build(
            read(dict(shop.environ)), clock=shop.clock, serve=False, transport=network, write_log=print
        )
        host = Host(number, service, clock, random.Random(random.randrange(1 << 32)), network)
        network.host = host
        hosts.append(host)
    return Simulation(shop, hosts)


def _has_runs(host: Host) -> bool:
    return host.registered_worker is not None and bool(host.registered_worker.running)
