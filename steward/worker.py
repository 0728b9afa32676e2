"""The list of ticks and the only loop; a tick is one bounded piece of work and says whether to come again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from steward.connections import health
from steward.connections.health import ConnectionChecks
from steward.database import due_rows as ticks_kept
from steward.database.engine.base import Autocommit, Tx
from steward.database.engine.disk_space import RETRY_SECONDS
from steward.database.operator.status import DELAY_STEPS
from steward.database.runs import approvals, workers
from steward.database.runs import fairness as fair
from steward.database.runs import records as runs
from steward.database.runs import transitions as run_queue
from steward.database.runs import write_ledger as effects
from steward.events import catch_up, listen, match
from steward.model.ids import ApprovalId, OrgId, RunId, WorkerId
from steward.model.refusals import Unavailable
from steward.model.run import RunStatus
from steward.occurrences import audit, zone_change
from steward.run_queue import ending
from steward.runs import approval, claim, dispatch, maintenance, reconcile, recover, retention, walk
from steward.runs.worker_context import WorkerContext
from steward.version import __version__

HEARTBEATS_A_LEASE = 3
RECOVERIES_A_LEASE = 5
CONFIRMED_SHARE = 0.8
NOT_DRAINED = ("heartbeat", "recover", "check_connections", "retention", "months", "space", "figures")
SHOW_AFTER = timedelta(seconds=1)


@dataclass(slots=True)
class Hints:
    """Wake-up hints within this process; a lost one costs only the poll behind it (engine 7)."""

    events: dict[str, asyncio.Event] = field(default_factory=dict)
    tell: Callable[[str], None] | None = None  # the other processes, where there may be any

    def of(self, kind: str) -> asyncio.Event:
        """The event of one kind of hint."""
        return self.events.setdefault(kind, asyncio.Event())

    def wake(self, kind: str) -> None:
        """Tells whoever waits for this kind in this process that there may be work."""
        self.of(kind).set()

    def announce(self, kind: str) -> None:
        """As `wake`, to every process: what this one did may be work for another."""
        self.of(kind).set()
        if self.tell is not None:
            self.tell(kind)


@dataclass(slots=True)
class Worker:
    """This process as a worker: its row, and the runs in its hands."""

    ctx: WorkerContext
    hints: Hints
    id: WorkerId
    poll: timedelta
    started_at: datetime
    in_hand: dict[RunId, "asyncio.Task[None]"] = field(default_factory=dict)
    full: list[OrgId] = field(default_factory=list)
    delays: list[timedelta] = field(default_factory=list)
    claiming: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """A bounded pass over rows: how often, and which hint brings it forward."""

    name: str
    every: timedelta
    run: Callable[[], Awaitable[bool]]
    hint: str | None = None


async def register(ctx: WorkerContext, hints: Hints, *, poll: timedelta) -> Worker:
    """Makes this process a worker; runs of workers of this host that are gone become free at once."""
    now = ctx.clock.now()
    await ctx.engine.write(now, recover.expire_own_host)
    worker = Worker(ctx, hints, WorkerId(0), poll, now)
    await _register(worker)
    await recover.recover(ctx.engine, now, worker.id)
    await zone_change.follow_package(ctx.engine, now)
    return worker


async def _register(worker: Worker) -> None:
    ctx = worker.ctx
    asked_at = ctx.clock.monotonic()
    worker.id = await ctx.engine.write(
        ctx.clock.now(),
        partial(
            workers.register,
            name=recover.process_name(),
            version=__version__,
            slots=ctx.rules.concurrency,
            lease_ms=_lease_ms(ctx),
        ),
        urgent=True,
    )
    ctx.lease_confirmation.hold(asked_at + CONFIRMED_SHARE * ctx.rules.lease.total_seconds())


def _lease_ms(ctx: WorkerContext) -> int:
    return int(ctx.rules.lease.total_seconds() * 1000)


def ticks(worker: Worker, *, tick: timedelta = timedelta(seconds=1)) -> list[Tick]:
    """Everything a worker does besides running runs, with how often (engine 16)."""
    lease = worker.ctx.rules.lease
    second, half_minute, minute = timedelta(seconds=1), timedelta(seconds=30), timedelta(minutes=1)
    return [
        Tick("heartbeat", lease / HEARTBEATS_A_LEASE, lambda: heartbeat(worker)),
        Tick("recover", lease / RECOVERIES_A_LEASE, lambda: take_over(worker)),
        Tick("give_up", lease / RECOVERIES_A_LEASE, lambda: give_up(worker)),
        Tick("claim", worker.poll, lambda: take_runs(worker), hint="ready"),
        Tick("full", second, lambda: count_full(worker)),
        Tick("dispatch", tick, lambda: dispatch_due(worker), hint="due"),
        Tick("match", second, lambda: match.match_due(worker.ctx), hint="event"),
        Tick("listen", 10 * second, lambda: listen.listen_due(worker.ctx), hint="listen"),
        Tick("catch_up", half_minute, lambda: catch_up.catch_up_due(worker.ctx), hint="catch_up"),
        Tick("check_connections", half_minute, lambda: check_connections(worker)),
        Tick("audit", minute, lambda: audit_slots(worker)),
        Tick("stats", 5 * second, lambda: tell_delays(worker)),
        Tick("figures", 15 * second, lambda: maintenance.tell_figures(worker.ctx)),
        Tick("wake", second, lambda: wake_sleeping(worker)),
        Tick("expire_approvals", half_minute, lambda: expire_approvals(worker)),
        Tick("queue_limit", minute, lambda: expire_unstarted(worker)),
        Tick("settle", half_minute, lambda: settle_finished(worker)),
        Tick("progress", timedelta(seconds=2), lambda: note_progress(worker)),
        Tick("retention", minute, lambda: retain(worker)),
        Tick("space", timedelta(seconds=RETRY_SECONDS), lambda: maintenance.watch_space(worker.ctx)),
        Tick("months", timedelta(hours=1), lambda: maintenance.turn_months(worker.ctx)),
    ]


async def check_connections(worker: Worker) -> bool:
    """Looks at the connections whose turn it is (connectors 10, Health)."""
    ctx = worker.ctx
    return await health.check_due(ConnectionChecks(ctx.engine, ctx.clock, ctx.vault, ctx.log))


async def heartbeat(worker: Worker) -> bool:
    """Extends the lease; a worker declared dead drops what it has and registers anew (engine 5)."""
    ctx = worker.ctx
    asked_at = ctx.clock.monotonic()
    alive = await ctx.engine.write(
        ctx.clock.now(),
        partial(workers.heartbeat, worker=worker.id, lease_ms=_lease_ms(ctx)),
        urgent=True,
    )
    if alive:
        ctx.lease_confirmation.hold(asked_at + CONFIRMED_SHARE * ctx.rules.lease.total_seconds())
        return False
    ctx.metrics.count("steward_leases_lost_total")
    ctx.log.warning("lease_lost", worker=worker.id, runs=len(worker.in_hand))
    ctx.lease_confirmation.lose()
    for task in worker.in_hand.values():
        task.cancel()
    await asyncio.gather(*worker.in_hand.values(), return_exceptions=True)
    await _register(worker)
    return False


async def take_over(worker: Worker) -> bool:
    """Frees the runs of dead workers, if this one's own lease is fresh."""
    ctx = worker.ctx
    if ctx.clock.monotonic() < ctx.lease_confirmation.until:
        freed = await recover.recover(ctx.engine, ctx.clock.now(), worker.id)
        if freed:
            ctx.metrics.count("steward_runs_recovered_total", freed)
            ctx.log.warning("runs_recovered", worker=worker.id, runs=freed)
            worker.hints.wake("ready")
    return False


async def give_up(worker: Worker) -> bool:
    """Frees runs that are leased to this worker and that it does not have in hand.

    A claim whose answer was lost, or a run whose last write the database did not take, would else stay
    leased for as long as this process lives.
    """
    ctx = worker.ctx
    leased = await ctx.engine.read(ctx.clock.now(), partial(workers.runs_of, worker=worker.id))
    left = [one for one in leased if one.id not in worker.in_hand]
    if worker.claiming or not left:
        return False
    freed = await ctx.engine.write(
        ctx.clock.now(), partial(recover.free, worker=worker.id, held=left, lost=True)
    )
    if freed:  # what has ended meanwhile is none
        ctx.log.warning("runs_given_up", worker=worker.id, runs=freed)
        worker.hints.wake("ready")
    return False


async def take_runs(worker: Worker) -> bool:
    """Claims as many ready runs as there is room for and sets them going."""
    ctx = worker.ctx
    free = ctx.rules.concurrency - len(worker.in_hand)
    if ctx.clock.monotonic() >= ctx.lease_confirmation.until or not ctx.accepts_work:
        return False
    worker.claiming = True
    try:
        leases = await claim.claim(ctx, worker.id, free=free, full=worker.full)
    finally:
        worker.claiming = False
    for lease in leases:
        task = asyncio.create_task(walk.work(ctx, lease), name=f"run {lease.run}")
        worker.in_hand[lease.run] = task
        task.add_done_callback(partial(_done, worker, lease.run))
    return len(leases) == min(free, claim.BATCH) > 0


def _done(worker: Worker, run: RunId, task: "asyncio.Task[None]") -> None:
    if worker.in_hand.get(run) is task:
        del worker.in_hand[run]
    worker.hints.wake("ready")
    if not task.cancelled() and (error := task.exception()) is not None:
        worker.ctx.log.error("run_task_broke", error, run=run)


async def count_full(worker: Worker) -> bool:
    """Which organisations have as many runs in hand as they may."""
    ctx = worker.ctx
    cap = ctx.rules.organization_concurrency
    if ctx.rules.concurrency > cap or ctx.engine.dialect == "postgresql":
        full = Autocommit(partial(run_queue.full, cap=cap))
        worker.full = await ctx.engine.read(ctx.clock.now(), full)
    return False


async def dispatch_due(worker: Worker) -> bool:
    """Starts or skips what is due."""
    ctx = worker.ctx
    if not ctx.accepts_work:
        return False
    again: bool = await dispatch.dispatch_due(
        ctx.engine,
        ctx.clock.now(),
        rules=ctx.automation_rules,
        log=ctx.log,
        delays=worker.delays,
    )
    worker.hints.wake("ready")
    return again


async def audit_slots(worker: Worker) -> bool:
    """Every slot must have its record: each automation is looked at once an hour, and all at the start."""
    ctx = worker.ctx
    return await audit.audit_slots(
        ctx.engine,
        ctx.clock.now(),
        started=worker.started_at,
        late_limit=ctx.automation_rules.late_limit,
        log=ctx.log,
        metrics=ctx.metrics,
    )


async def tell_delays(worker: Worker) -> bool:
    """Tells the status page how late slots were dispatched."""
    told, worker.delays = worker.delays, []
    for delay in told:
        worker.ctx.metrics.observe(
            "steward_dispatch_delay_seconds", delay.total_seconds(), bounds=DELAY_STEPS
        )
    tell = partial(dispatch.tell, delays=told)
    await worker.ctx.engine.write(worker.ctx.clock.now(), tell)
    return False


async def wake_sleeping(worker: Worker) -> bool:
    """Sleeping runs whose time has come may be taken again; True when there were some."""
    ctx = worker.ctx
    found = await ctx.engine.read(ctx.clock.now(), Autocommit(run_queue.to_wake))

    async def wake(tx: Tx, *, org: OrgId, key: RunId) -> None:
        await run_queue.wake(tx, org, key, vt=await fair.stamp(tx, org))

    woken = await _each(worker, "wake", found, _in_tx(worker, wake))
    if woken:
        worker.hints.wake("ready")
    return woken > 0


async def expire_approvals(worker: Worker) -> bool:
    """Ends the approvals whose time is over, with their runs; True when more are likely to wait."""
    ctx = worker.ctx
    found = await ctx.engine.read(ctx.clock.now(), approvals.ended)

    async def expire(tx: Tx, *, org: OrgId, key: ApprovalId) -> None:
        await approval.expire(tx, org=org, approval=key)

    ended = await _each(worker, "expire_approvals", found, _in_tx(worker, expire))
    worker.hints.wake("ready")
    return ended == approvals.ENDED_AT_ONCE


async def expire_unstarted(worker: Worker) -> bool:
    """Runs no worker took within the queue limit expire (contract 4.3)."""
    ctx = worker.ctx
    unstarted = partial(run_queue.unstarted, limit=ctx.rules.queue_limit)
    found = await ctx.engine.read(ctx.clock.now(), unstarted)

    async def expire(tx: Tx, *, org: OrgId, key: RunId) -> None:
        automation = await runs.automation_of(tx, org, key)
        await ending.end(tx, org, key, automation=automation, since=RunStatus.QUEUED, how=ending.NOT_STARTED)

    await _each(worker, "queue_limit", found, _in_tx(worker, expire))
    return False


async def settle_finished(worker: Worker) -> bool:
    """Goes on reading back unknown writes of finished runs."""
    ctx = worker.ctx
    found = await ctx.engine.read(ctx.clock.now(), effects.to_settle)
    await _each(worker, "settle", found, partial(reconcile.settle_finished, ctx))
    return False


def _in_tx(worker: Worker, act: Callable[..., Awaitable[None]]) -> Callable[[OrgId, Any], Awaitable[None]]:
    """`act` as a transaction of its own per row."""
    ctx = worker.ctx

    async def run_one(org: OrgId, key: Any) -> None:
        await ctx.engine.write(ctx.clock.now(), partial(act, org=org, key=key), org=org)

    return run_one


async def _each(
    worker: Worker,
    tick: str,
    found: Sequence[tuple[OrgId, Any]],
    act: Callable[[OrgId, Any], Awaitable[None]],
) -> int:
    """Acts on every row, and tells on how many; one that raises is put off and stops no other (engine 16)."""
    ctx, done = worker.ctx, 0
    for org, key in found:
        try:
            await act(org, key)
            done += 1
        except Unavailable:
            raise  # it is the database that cannot go on, not a row
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            put_off = partial(ticks_kept.defer, tick=tick, key=key, message=message)
            failures = await ctx.engine.write(ctx.clock.now(), put_off)
            if failures:
                ctx.metrics.count("steward_rows_deferred_total", tick=tick)
            ctx.log.error("row_deferred", error, tick=tick, org=org, key=key, failures=failures)
    return done


async def note_progress(worker: Worker) -> bool:
    """Notes what long steps are doing, at most once in 2 s per run (engine 3.5)."""
    ctx = worker.ctx
    now = ctx.clock.now()
    for run, doing in list(ctx.progress.items()):
        if now - doing.started_at < SHOW_AFTER:
            continue
        lease = doing.lease
        step = doing.wire()
        note = partial(runs.set_current_step, org=lease.org, run=run, epoch=lease.epoch, step=step)
        await ctx.engine.write(now, note, org=lease.org)
    return False


async def retain(worker: Worker) -> bool:
    """Removes what has reached its end; True when a table had as many rows as go at once (engine 17)."""
    ctx = worker.ctx
    full: set[str] = set()

    async def sweep(org: OrgId, table: str) -> None:
        removed = await retention.SWEEPS[table](ctx.engine, ctx.clock.now(), ctx.retention)
        if removed:
            ctx.metrics.count("steward_rows_removed_total", removed, table=table)
        if removed >= retention.FULL.get(table, retention.ROWS):
            full.add(table)

    late = await ctx.engine.read(ctx.clock.now(), partial(ticks_kept.deferred_keys, tick="retention"))
    due = [(OrgId(0), table) for table in retention.SWEEPS if table not in late]
    await _each(worker, "retention", due, sweep)
    await retention.shrink(ctx.engine, ctx.clock.now(), ctx.retention)
    return bool(full)


async def keep(worker: Worker, tick: Tick) -> None:
    """The one loop: a tick again and again, by its hint or its time; a failing one backs off 1 to 30 s."""
    clock, failures = worker.ctx.clock, 0
    hint = worker.hints.of(tick.hint) if tick.hint else None
    while True:
        if hint is not None:
            hint.clear()
        wait = tick.every.total_seconds()
        try:
            while await tick.run():
                pass
            failures = 0
        except Exception as error:
            failures += 1
            worker.ctx.metrics.count("steward_tick_failures_total", tick=tick.name)
            wait = min(30.0, 2.0 ** (failures - 1))
            if tick.name == "heartbeat":  # the lease must not end because the database was away for a moment
                wait = min(wait, tick.every.total_seconds() / 4)
            worker.ctx.log.error("tick_failed", error, tick=tick.name)
        await _wait(clock.sleep(wait), hint)


async def _wait(sleep: Awaitable[None], hint: asyncio.Event | None) -> None:
    if hint is None:
        await sleep
        return
    waits = {asyncio.ensure_future(sleep), asyncio.ensure_future(hint.wait())}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def run(worker: Worker, table: Sequence[Tick], stop: asyncio.Event) -> None:
    """Works until `stop`, then hands back what is in hand (engine 15, "Graceful stop")."""
    loops = [asyncio.create_task(keep(worker, tick), name=f"tick {tick.name}") for tick in table]
    try:
        await stop.wait()
    finally:
        beating = [task for task in loops if task.get_name() == "tick heartbeat"]
        await _end([task for task in loops if task not in beating])
        await _finish_in_hand(worker)
        await _end(beating)  # before its row goes: a late heartbeat would register this process anew
        await _hand_back(worker)


async def _end(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _finish_in_hand(worker: Worker) -> None:
    """Steps in hand run to their border, open writes to their outcome."""
    ctx = worker.ctx
    ctx.lease_confirmation.stop()
    await ctx.engine.write(ctx.clock.now(), partial(workers.stopping, worker=worker.id))
    if worker.in_hand:
        longest = ctx.rules.write_timeout.total_seconds() + 10
        await asyncio.wait(list(worker.in_hand.values()), timeout=longest)


async def _hand_back(worker: Worker) -> None:
    """What is left becomes ready for others, and this worker is no more."""
    ctx = worker.ctx

    async def leave(tx: Tx) -> None:
        await recover.free_runs(tx, worker.id, lost=False)
        await workers.remove(tx, worker.id)

    await ctx.engine.write(ctx.clock.now(), leave)


async def drain(worker: Worker, table: Sequence[Tick]) -> None:
    """Every tick, and every run it starts, until none asks to come again; for tests, which own the time."""
    turns = [tick for tick in table if tick.name not in NOT_DRAINED]
    while True:
        is_idle = True
        for tick in turns:
            again = await tick.run()
            is_idle = is_idle and not again and not worker.in_hand
        if worker.in_hand:
            await asyncio.gather(*list(worker.in_hand.values()))
        elif is_idle:
            return
