"""The worker: its row and lease, its current runs, and the loop of periodic tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from steward.clock import backoff
from steward.config import default_of
from steward.database.engine.base import Autocommit, Tx
from steward.database.engine.disk_space import DiskSpace
from steward.database.operator.health import RowHolds
from steward.database.runs import transitions, workers
from steward.events.context import EventContext, EventRules
from steward.model.ids import OrgId, RunId, WorkerId
from steward.model.refusals import Unavailable
from steward.notifications.context import NotificationContext
from steward.occurrences import zone_change
from steward.run_queue.claim_bound import ClaimBound
from steward.runs import claim, recover
from steward.runs.run_context import RunContext
from steward.runs.tasks.retention import RetentionRules
from steward.runs.walk import leased_run
from steward.version import __version__

# The share of the lease's time for which this process trusts its lease: the database's clock may run faster.
_CONFIRMED_SHARE = 0.8
# How long a run sleeps that a full disk stopped; it then repeats the step without a checkpoint.
_DISK_PAUSE = timedelta(minutes=1)
# Tasks that tests run by name, if at all: they concern processes and time, not pending work.
_NOT_DRAINED = (
    "heartbeat",
    "recover",
    "check_connections",
    "retention",
    "partitions",
    "space",
    "gauges",
    "notice_gauges",
)


@dataclass(slots=True)
class Hints:
    """Wake-up hints within this process; losing one only delays work until the next poll."""

    events: dict[str, asyncio.Event] = field(default_factory=dict)
    notify_others: Callable[[str], None] | None = None  # notifies other processes, if there may be any

    def of(self, kind: str) -> asyncio.Event:
        """Returns the event for one kind of hint."""
        return self.events.setdefault(kind, asyncio.Event())

    def wake(self, kind: str) -> None:
        """Wakes this process's tasks that wait for this kind of hint."""
        self.of(kind).set()

    def announce(self, kind: str) -> None:
        """Wakes all processes' tasks that wait for this kind of hint."""
        self.of(kind).set()
        if self.notify_others is not None:
            self.notify_others(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRules:
    """The settings of a worker process, with their defaults."""

    lease: timedelta = timedelta(seconds=default_of("lease_seconds"))
    queue_limit: timedelta = timedelta(hours=default_of("queue_limit_hours"))
    concurrency: int = default_of("worker_concurrency")
    organization_concurrency: int = default_of("organization_concurrency")
    audit_anchor: timedelta = timedelta(hours=default_of("audit_anchor_hours"))
    expects_standbys: bool = False  # whether the database URL names several servers


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext(RunContext):
    """The dependencies of the periodic tasks: those of runs and those of the process.

    Only this module and the wiring use the whole; each task passes on what its functions need.
    """

    worker_rules: WorkerRules = field(default_factory=WorkerRules)
    event_rules: EventRules = field(default_factory=EventRules)
    retention: RetentionRules = field(default_factory=RetentionRules)
    space: DiskSpace | None = None

    @property
    def accepts_work(self) -> bool:
        """Whether new work may start; False while the disk is full."""
        return self.space is None or not self.space.is_full

    def events(self) -> EventContext:
        """Returns the dependencies of event tasks."""
        return EventContext(
            engine=self.engine,
            clock=self.clock,
            log=self.log,
            metrics=self.metrics,
            wake=self.wake,
            vault=self.vault,
            automation_rules=self.automation_rules,
            rules=self.event_rules,
        )


@dataclass(slots=True)
class Worker:
    """This process as a worker: its row, and the runs it is executing."""

    ctx: WorkerContext
    hints: Hints
    id: WorkerId
    poll: timedelta
    started_at: datetime
    claim_bound: ClaimBound
    running: dict[RunId, "asyncio.Task[bool]"] = field(default_factory=dict)
    abandoned: set[RunId] = field(default_factory=set)  # still leased: disk full, failing or read-only
    full_organizations: list[OrgId] = field(default_factory=list)
    delays: list[timedelta] = field(default_factory=list)  # of dispatched slots, not recorded yet
    claiming: bool = False  # claimed runs may not be in `running` yet
    retention_cursor: int = 0  # the id of the last organization that retention has processed
    notifications: NotificationContext | None = None
    row_holds: RowHolds = field(default_factory=RowHolds)


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A bounded pass over rows, with its interval and the hint that triggers it early."""

    name: str
    every: timedelta
    run: Callable[[], Awaitable[bool]]
    hint: str | None = None


async def register(
    ctx: WorkerContext, hints: Hints, *, poll: timedelta, notifications: NotificationContext | None = None
) -> Worker:
    """Registers this process as a worker and requeues the runs of dead workers, above all of this host.

    Without `notifications`, sending notifications is left to other processes.
    """
    now = ctx.clock.now()
    await ctx.engine.write(now, recover.expire_own_host)
    bound = ClaimBound(ctx.clock.monotonic)
    worker = Worker(ctx, hints, WorkerId(0), poll, now, bound, notifications=notifications)
    await _register(worker)
    await recover.recover(ctx.engine, now, worker.id)
    await zone_change.adapt_to_zone_package(ctx.engine, now)
    return worker


async def _register(worker: Worker) -> None:
    ctx = worker.ctx
    sent_at = ctx.clock.monotonic()
    worker.id = await ctx.engine.write(
        ctx.clock.now(),
        partial(
            workers.register,
            name=recover.process_name(),
            version=__version__,
            slots=ctx.worker_rules.concurrency,
            lease_ms=_lease_ms(ctx),
        ),
        urgent=True,
    )
    _confirm_lease(ctx, sent_at)


def _confirm_lease(ctx: WorkerContext, sent_at: float) -> None:
    """Counts the lease as valid from the monotonic instant at which its extension was sent."""
    ctx.lease_confirmation.confirm(sent_at + _CONFIRMED_SHARE * ctx.worker_rules.lease.total_seconds())


def _lease_ms(ctx: WorkerContext) -> int:
    return int(ctx.worker_rules.lease.total_seconds() * 1000)


async def heartbeat(worker: Worker) -> bool:
    """Extends the lease; a worker that was declared dead cancels its runs and registers again."""
    ctx = worker.ctx
    sent_at = ctx.clock.monotonic()
    alive = await ctx.engine.write(
        ctx.clock.now(),
        partial(workers.heartbeat, worker=worker.id, lease_ms=_lease_ms(ctx)),
        urgent=True,
    )
    if alive:
        _confirm_lease(ctx, sent_at)
        return False
    ctx.metrics.count("steward_leases_lost_total")
    ctx.log.warning("lease_lost", worker=worker.id, runs=len(worker.running))
    ctx.lease_confirmation.lose()
    for task in worker.running.values():
        task.cancel()
    await asyncio.gather(*worker.running.values(), return_exceptions=True)
    worker.abandoned.clear()
    await _register(worker)
    return False


async def recover_dead_workers(worker: Worker) -> bool:
    """Requeues the runs of dead workers, unless this worker's own lease is unconfirmed.

    A worker that cannot reach the database must not declare others dead.
    """
    ctx = worker.ctx
    if ctx.clock.monotonic() < ctx.lease_confirmation.until:
        released = await recover.recover(ctx.engine, ctx.clock.now(), worker.id)
        if released:
            ctx.metrics.count("steward_runs_recovered_total", released)
            ctx.log.warning("runs_recovered", worker=worker.id, runs=released)
            worker.hints.wake("ready")
    return False


async def release_orphaned_runs(worker: Worker) -> bool:
    """Requeues runs that are leased to this worker but that it is not executing.

    A claim whose answer was lost, or a run whose last write failed, would otherwise stay leased for the
    lifetime of this process. A run that was abandoned because of a full disk uses up no attempt, since the
    disk may stay full for hours, and is tried again after a pause. Any other database error uses one up,
    since the run's own statements may be the cause.
    """
    ctx = worker.ctx
    leased = await ctx.engine.read(ctx.clock.now(), partial(workers.runs_of, worker=worker.id))
    orphaned = [run for run in leased if run.id not in worker.running]
    if worker.claiming or not orphaned:
        return False
    abandoned = [run for run in orphaned if run.id in worker.abandoned]
    lost = [run for run in orphaned if run.id not in worker.abandoned]

    async def release(tx: Tx) -> int:
        released = await recover.release(tx, worker.id, leased_runs=abandoned, lost=False, pause=_DISK_PAUSE)
        return released + await recover.release(tx, worker.id, leased_runs=lost, lost=True)

    released = await ctx.engine.write(ctx.clock.now(), release)
    worker.abandoned.difference_update(run.id for run in abandoned)
    if released:  # 0 if all of them ended in the meantime
        ctx.log.warning("orphaned_runs_released", worker=worker.id, runs=released)
        worker.hints.wake("ready")
    return False


async def claim_runs(worker: Worker) -> bool:
    """Claims as many ready runs as fit, and starts them."""
    ctx = worker.ctx
    free = ctx.worker_rules.concurrency - len(worker.running)
    if ctx.clock.monotonic() >= ctx.lease_confirmation.until or not ctx.accepts_work:
        return False
    worker.claiming = True
    try:
        leases = await claim.claim(
            ctx.engine,
            ctx.clock.now(),
            worker.id,
            free=free,
            full=worker.full_organizations,
            bound=worker.claim_bound,
        )
    finally:
        worker.claiming = False
    for lease in leases:
        worker.abandoned.discard(lease.run)
        task = asyncio.create_task(leased_run.work(ctx, lease), name=f"run {lease.run}")
        worker.running[lease.run] = task
        task.add_done_callback(partial(_run_task_ended, worker, lease.run))
    return len(leases) == min(free, claim.BATCH) > 0


def _run_task_ended(worker: Worker, run: RunId, task: "asyncio.Task[bool]") -> None:
    if worker.running.get(run) is task:
        del worker.running[run]
    worker.hints.wake("ready")
    if task.cancelled():
        return
    if (error := task.exception()) is not None:
        worker.ctx.log.error("run_task_crashed", error, run=run)
    elif not task.result():
        worker.abandoned.add(run)


async def _run_periodically(worker: Worker, task: PeriodicTask) -> None:
    """Runs a task repeatedly, at its interval or on its hint; failures back off 1 to 30 s.

    A hint shortens the backoff only if the database was unavailable: after a defect, it cannot help.
    """
    clock, failures = worker.ctx.clock, 0
    hint = worker.hints.of(task.hint) if task.hint else None
    while True:
        if hint is not None:
            hint.clear()
        wait, is_defect = task.every.total_seconds(), False
        try:
            while await task.run():
                pass
            failures = 0
        except Exception as error:  # a failing task must not end the worker; it is logged and tried again
            failures += 1
            is_defect = not isinstance(error, Unavailable)
            worker.ctx.metrics.count("steward_periodic_task_failures_total", task=task.name)
            wait = backoff(failures)
            if task.name == "heartbeat":  # a brief database outage must not end the lease
                wait = min(wait, task.every.total_seconds() / 4)
            _log_failure(worker.ctx, task, error)
        await _wait(clock.sleep(wait), None if is_defect else hint)


def _log_failure(ctx: WorkerContext, task: PeriodicTask, error: Exception) -> None:
    """Logs a failed pass, with a traceback only if a defect may be the cause.

    An unavailable database fails every task at once.
    """
    if isinstance(error, Unavailable):
        cause = "" if error.__cause__ is None else ctx.log.redacted(repr(error.__cause__))
        ctx.log.warning("periodic_task_failed", task=task.name, reason=error.message, cause=cause)
    else:
        ctx.log.error("periodic_task_failed", error, task=task.name)


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


async def run(worker: Worker, tasks: Sequence[PeriodicTask], stop: asyncio.Event) -> None:
    """Works until `stop`, then releases its runs (docs/design/runs.md#graceful-stop)."""
    loops = [asyncio.create_task(_run_periodically(worker, task), name=f"task {task.name}") for task in tasks]
    try:
        await stop.wait()
    finally:
        heartbeat_loops = [task for task in loops if task.get_name() == "task heartbeat"]
        await _cancel_all([task for task in loops if task not in heartbeat_loops])
        await _finish_running_steps(worker)
        await _cancel_all(heartbeat_loops)  # first, since a late heartbeat would register this process again
        await _release_runs(worker)


async def _cancel_all(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _finish_running_steps(worker: Worker) -> None:
    """Waits until running steps have reached their checkpoint and open writes have their outcome."""
    ctx = worker.ctx
    ctx.lease_confirmation.stop()
    await ctx.engine.write(ctx.clock.now(), partial(workers.mark_stopping, worker=worker.id))
    if worker.running:
        longest = ctx.rules.write_timeout.total_seconds() + 10
        await asyncio.wait(list(worker.running.values()), timeout=longest)


async def _release_runs(worker: Worker) -> None:
    """Makes the remaining runs ready for others and removes this worker."""
    ctx = worker.ctx

    async def leave(tx: Tx) -> None:
        await recover.release_all(tx, worker.id, lost=False)
        await workers.remove(tx, worker.id)

    await ctx.engine.write(ctx.clock.now(), leave)


async def drain(worker: Worker, tasks: Sequence[PeriodicTask]) -> None:
    """Runs all tasks, and all runs they start, until none has work left.

    For tests, which control the time.
    """
    drained_tasks = [task for task in tasks if task.name not in _NOT_DRAINED]
    claim_task = next(task for task in drained_tasks if task.name == "claim")
    while True:
        # Ready runs first: the other tasks then follow once, instead of both before and after them.
        while await claim_task.run() or worker.running:
            await asyncio.gather(*list(worker.running.values()))
        is_idle = True
        for task in drained_tasks:
            again = await task.run()
            is_idle = is_idle and not again and not worker.running
        if is_idle:
            return


async def find_full_organizations(worker: Worker) -> bool:
    """Finds the organizations that have reached their limit of leased runs."""
    ctx = worker.ctx
    cap = ctx.worker_rules.organization_concurrency
    if ctx.worker_rules.concurrency > cap or ctx.engine.dialect == "postgresql":
        full = Autocommit(partial(transitions.full_organizations, cap=cap))
        worker.full_organizations = await ctx.engine.read(ctx.clock.now(), full)
    return False
