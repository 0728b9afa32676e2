"""Tests lost workers, lost database answers and graceful stops: another worker continues the run.

See docs/design/runs.md#workers-and-leases and docs/design/runs.md#cancellation.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

import pytest

from steward import periodic_tasks, worker
from steward.database.engine.base import Act
from steward.database.engine.disk_space import DiskFull
from steward.database.engine.migrate import is_sqlite
from steward.database.runs import transitions, workers
from steward.database.runs.transitions import RunState
from steward.model.change import Outcome
from steward.model.ids import OrgId, WorkerId
from steward.model.refusals import Unavailable
from steward.model.run import Queue, Run, RunStatus
from steward.runs import claim, recover, restored
from tests.crash.killing import count_writes, kill_at
from tests.crash.stalled_worker import StallingEngine
from tests.runs.shop import Shop

T = TypeVar("T")


async def run_state(shop: Shop, run: Run) -> RunState:
    """Reads the run's state row."""
    state = await shop.read(partial(transitions.read_state, org=shop.owner.org, run=run.id))
    assert state is not None
    return state


async def approved(shop: Shop) -> Run:
    """Returns a price run with approved changes."""
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    return run


async def test_a_lost_run_continues_after_its_last_row(shop: Shop) -> None:
    """A lost run continues after its last step row and keeps `started_at`.

    See docs/design/api/runs.md#states.
    """
    run = await shop.run_now(await shop.hiding())
    await kill_at(shop, "after_checkpoint")
    began = (await shop.run(run)).started_at
    await shop.drain()
    fresh = await shop.run(run)
    assert (fresh.status, fresh.started_at) == (RunStatus.WAITING_APPROVAL, began)
    rows = await shop.steps(run)
    assert [row["seq"] for row in rows] == [1, 2, 3]
    assert [row["attempt"] for row in rows] == [1, 2, 2]
    assert len({row["name"] for row in rows}) == 3


async def test_a_run_lost_twice_is_tried_a_third_time(shop: Shop) -> None:
    """A run that was lost twice is claimed for a third attempt. See docs/design/runs.md#states."""
    run = await approved(shop)
    await kill_at(shop, "after_start", "after_start")
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED
    assert (await run_state(shop, run)).attempt == 3


async def test_a_run_lost_three_times_finds_out_what_was_done_and_fails(shop: Shop) -> None:
    """A run lost three times starts no step, settles its open writes and fails with `interrupted`.

    See docs/design/runs.md#workers-and-leases.
    """
    run = await approved(shop)
    await kill_at(shop, "after_call", "after_start", "after_start")
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "interrupted")
    assert ended.summary is not None
    first, *others = await shop.changes(run)
    assert first.outcome is Outcome.APPLIED
    assert {change.outcome for change in others} == {Outcome.CANCELLED}
    assert sum(count_writes(shop).values()) == 1


async def test_a_lost_run_is_not_queued_behind_new_ones(shop: Shop) -> None:
    """A recovered run keeps its place before newer runs. See docs/design/runs.md#fairness."""
    run = await shop.run_now(await shop.hiding())
    others = [await shop.run_now(await shop.hiding()) for _ in range(5)]
    hired = await shop.registered_worker()
    [lease] = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
    assert lease.run == run.id
    await shop.restart()
    fresh = await shop.registered_worker()
    [again] = await claim.claim(shop.engine, shop.clock.now(), fresh.id, free=1, full=[])
    assert again.run in {run.id, others[0].id}
    assert (await run_state(shop, run)).queue in (Queue.LEASED, Queue.READY)


async def test_a_worker_that_is_alive_keeps_its_runs(shop: Shop) -> None:
    """Only workers whose `lease_until` has passed lose their runs.

    See docs/design/runs.md#workers-and-leases.
    """
    hired = await shop.registered_worker()
    other = await shop.another_worker()
    run = await shop.run_now(await shop.hiding())
    await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
    lease = shop.service.worker_context.worker_rules.lease.total_seconds()
    await shop.clock.advance(lease)
    assert await recover.recover(shop.engine, shop.clock.now(), other.id) == 0
    await shop.clock.advance(0.001)
    assert await recover.recover(shop.engine, shop.clock.now(), other.id) == 1
    assert (await run_state(shop, run)).queue is Queue.READY


async def test_a_worker_declared_dead_drops_its_runs_and_registers_again(shop: Shop) -> None:
    """A worker whose heartbeat updates no row drops its runs and registers again.

    See docs/design/runs.md#workers-and-leases.
    """
    hired = await shop.registered_worker()
    before = hired.id
    await shop.clock.advance(shop.service.worker_context.worker_rules.lease.total_seconds() + 1)
    await shop.another_worker()
    await worker.heartbeat(hired)
    assert hired.id != before
    run = await shop.run_and_drain(await shop.hiding())
    assert run.status is RunStatus.WAITING_APPROVAL


async def test_no_step_starts_while_the_lease_is_in_doubt(shop: Shop) -> None:
    """No step or call starts after 0.8 of the lease without a successful heartbeat.

    See docs/design/runs.md#workers-and-leases.
    """
    run = await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    [lease] = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
    shop.clock.tick(0.8 * shop.service.worker_context.worker_rules.lease.total_seconds())
    assert not await worker.claim_runs(hired)
    holding = asyncio.create_task(shop.service.worker_context.wait_for_lease(lease))
    await shop.clock.advance(1)
    assert not holding.done()
    await worker.heartbeat(hired)
    await asyncio.wait_for(holding, 30)
    assert (await shop.run(run)).status is RunStatus.QUEUED


async def test_releasing_an_old_lease_keeps_the_new_one(shop: Shop) -> None:
    """Releasing an earlier lease does not free a run that was claimed again.

    See docs/design/runs.md#workers-and-leases.
    """
    run = await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
    seen = await shop.read(partial(workers.runs_of, worker=hired.id))
    give_up = partial(recover.release, worker=hired.id, leased_runs=seen, lost=True)
    assert await shop.write(give_up) == 1
    await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
    assert await shop.write(give_up) == 0
    remaining = await run_state(shop, run)
    assert (remaining.queue, remaining.attempt) == (Queue.LEASED, 2)


async def test_a_restart_on_the_same_host_need_not_wait_for_the_lease(shop: Shop) -> None:
    """A restarted process on the same host takes over without waiting for the old lease to end.

    See docs/design/runs.md#workers-and-leases.
    """
    hired = await shop.registered_worker()
    assert not recover.is_gone(recover.process_name())
    run = await shop.run_now(await shop.hiding())
    await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
    await shop.tamper(
        "UPDATE workers SET name = :name WHERE worker_id = :id", name=_ended_process(), id=hired.id
    )
    shop.worker = None
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL


def _ended_process(host: str = "", namespace: str = "") -> str:
    """Returns the name of a process that does not run, by default of this host and PID namespace."""
    own_host, _, _, own_namespace = recover.process_name().split("|")
    return f"{host or own_host}|999999999|1|{namespace or own_namespace}"


@pytest.mark.parametrize("name_form", ["host", "namespace", "earlier form"])
async def test_a_process_that_cannot_be_seen_from_here_keeps_its_lease(
    shop: Shop, database_url: str, name_form: str
) -> None:
    """A start here ends no lease of a worker of another host or PID namespace, and its runs lose no attempt.

    Containers with the network of their host share its name. On SQLite the lease ends: another process that
    served the file has ended. See docs/design/runs.md#workers-and-leases.
    """
    boot = recover.process_name().split("|")[3].partition(" ")[0]
    name = {
        "host": _ended_process(host="elsewhere"),
        "namespace": _ended_process(namespace=f"{boot} pid:[1]"),
        "earlier form": _ended_process().rpartition("|")[0],
    }[name_form]
    hired = await shop.registered_worker()
    run = await shop.run_now(await shop.hiding())
    await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
    await shop.tamper("UPDATE workers SET name = :name WHERE worker_id = :id", name=name, id=hired.id)
    shop.worker = None
    await shop.drain()
    if is_sqlite(database_url):
        assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL
        return
    remaining = await run_state(shop, run)
    assert (remaining.queue, remaining.attempt) == (Queue.LEASED, 1)
    assert name.partition("|")[0] in await restored.live_workers(shop.engine, shop.clock.now())
    shop.clock.tick(shop.service.worker_context.worker_rules.lease.total_seconds() + 1)
    await worker.recover_dead_workers(await shop.registered_worker())
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL


async def test_a_claim_whose_response_was_lost_is_given_up(shop: Shop) -> None:
    """Releases a run whose claim got no response, so that every run is in a task or free."""
    run = await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL
    assert (await run_state(shop, run)).attempt == 2


@dataclass
class FailingEngine(StallingEngine):
    """An engine whose writes of runs fail from number `stalled_write` on, except for None."""

    errors: Sequence[Exception | None] = (Unavailable(),)

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Raises the error that is meant for this write, or writes."""
        if org != ():
            self.writes += 1
            position = self.writes - self.stalled_write
            error = self.errors[position] if 0 <= position < len(self.errors) else None
            if error is not None:
                raise error
        return await self.engine.write(now, act, org=org, urgent=urgent)


async def _drain_on(shop: Shop, failing: FailingEngine) -> Run:
    """Approves a run and works on it through an engine that fails."""
    run = await approved(shop)
    shop.worker = None
    shop.service = replace(shop.service, worker_context=replace(shop.service.worker_context, engine=failing))
    await shop.drain()
    return run


@pytest.mark.parametrize("refusal", [Unavailable, DiskFull])
@pytest.mark.parametrize("failing_write", [1, 2, 3, 4, 7, 10, 11])
async def test_a_database_that_is_away_for_a_moment_fails_no_run(
    shop: Shop, failing_write: int, refusal: Callable[[], Unavailable]
) -> None:
    """A short outage of the database or its disk gives no wrong answer, fails no run and writes once.

    See docs/design/security.md#promises.
    """
    run = await _drain_on(shop, FailingEngine(shop.engine, failing_write, errors=[refusal()]))
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.SUCCEEDED, None)
    await _is_applied_once(shop, ended)


async def test_a_disk_that_is_full_for_long_fails_no_run(shop: Shop) -> None:
    """A run that is given up five times because of the disk uses up no attempt.

    See docs/design/runs.md#workers-and-leases.
    """
    run = await _drain_on(shop, FailingEngine(shop.engine, 3, errors=[DiskFull(), None] * 5))
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.SUCCEEDED, None)
    assert (await run_state(shop, run)).attempt == 1
    await _is_applied_once(shop, ended)


async def test_a_run_that_a_full_disk_stopped_waits_and_may_still_be_lost_twice(shop: Shop) -> None:
    """A run given up because of the disk sleeps for a minute and then has all its attempts.

    See docs/design/runs.md#workers-and-leases.
    """
    run = await _drain_on(shop, FailingEngine(shop.engine, 3, errors=[DiskFull()]))
    given_up = await run_state(shop, run)
    assert (given_up.queue, given_up.attempt) == (Queue.SLEEPING, 1)
    await shop.restart()  # advances the clock to the end of the worker's lease
    await shop.drain()
    waiting = await run_state(shop, run)
    assert (waiting.queue, waiting.status) == (Queue.SLEEPING, RunStatus.QUEUED)
    await shop.clock.advance(30)
    shop.worker = None  # its lease has ended
    await kill_at(shop, "after_start", "after_start")
    ended = await shop.until_settled(run)
    assert (ended.status, (await run_state(shop, run)).attempt) == (RunStatus.SUCCEEDED, 3)
    await _is_applied_once(shop, ended)


async def test_a_run_whose_writes_are_refused_again_and_again_ends(shop: Shop) -> None:
    """Any other refusal uses up an attempt: the run's own statements may be what the database refuses.

    See docs/design/runs.md#workers-and-leases.
    """
    run = await _drain_on(shop, FailingEngine(shop.engine, 3, errors=[Unavailable(), None] * 5))
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "interrupted")
    assert max(count_writes(shop).values(), default=0) <= 1


async def test_a_crashed_run_is_given_up_while_the_database_is_away(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that a defect stopped while the database is away continues when it is back."""
    shop.environ = {**shop.environ, "STEWARD_LOG_LEVEL": "warning"}
    await shop.restart()
    run = await _drain_on(shop, FailingEngine(shop.engine, 3, errors=[ValueError("defect"), Unavailable()]))
    ended = await shop.until_settled(run)
    logged = [json.loads(line)["action"] for line in capsys.readouterr().out.splitlines() if line]
    assert logged.count("run_crashed") == logged.count("run_abandoned") == 1
    assert "run_task_crashed" not in logged
    assert (ended.status, (await run_state(shop, run)).attempt) == (RunStatus.SUCCEEDED, 2)


async def test_a_claimed_run_is_no_longer_one_that_a_full_disk_stopped(shop: Shop) -> None:
    """A run that is claimed again uses up an attempt if it is lost for another reason."""
    run = await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    hired.abandoned.add(run.id)
    await worker.claim_runs(hired)
    await asyncio.gather(*hired.running.values())
    assert run.id not in hired.abandoned


async def _is_applied_once(shop: Shop, run: Run) -> None:
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}
    assert max(count_writes(shop).values()) == 1
    assert sum(count_writes(shop).values()) == 10


async def test_a_graceful_stop_hands_back_between_two_writes(shop: Shop) -> None:
    """A graceful stop finishes the open call and releases the run without using up an attempt.

    See docs/design/runs.md#graceful-stop.
    """
    run = await approved(shop)
    shop.fault("throttle", "POST", "**/batch", retry_after=2, skip=1)
    hired, stop = await shop.registered_worker(), asyncio.Event()
    [claims] = [tick for tick in periodic_tasks.of_worker(hired) if tick.name == "claim"]
    [beats] = [tick for tick in periodic_tasks.of_worker(hired) if tick.name == "heartbeat"]
    going = asyncio.create_task(worker.run(hired, [claims, beats], stop))
    await shop.clock.until_sleeping(3)  # both ticks, and the second request that was told to wait
    stop.set()
    await shop.clock.settle()
    await shop.clock.advance(2)
    await asyncio.wait_for(going, 30)
    remaining = await run_state(shop, run)
    assert (remaining.queue, remaining.status, remaining.attempt) == (Queue.READY, RunStatus.QUEUED, 1)
    others = await shop.engine.read(shop.clock.now(), partial(workers.others, own_id=WorkerId(0)))
    assert hired.id not in [other.id for other in others]
    assert len(shop.applied()) == 1

    shop.worker = None
    shop.service.worker_context.lease_confirmation.stopping = False
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    assert sum(count_writes(shop).values()) == 10
    assert max(count_writes(shop).values()) == 1


@pytest.mark.parametrize(("error", "passes"), [(ValueError("defect"), 1), (Unavailable("away"), 2)])
async def test_a_hint_shortens_the_back_off_only_if_the_database_was_away(
    shop: Shop, error: Exception, passes: int
) -> None:
    """A database that gives hints answers again; a hint fixes no defect."""
    hired, stop, tried = await shop.registered_worker(), asyncio.Event(), 0

    async def fail() -> bool:
        nonlocal tried
        tried += 1
        raise error

    [dispatch] = [task for task in periodic_tasks.of_worker(hired) if task.name == "dispatch"]
    working = asyncio.create_task(worker.run(hired, [replace(dispatch, run=fail)], stop))
    await shop.clock.until_sleeping(shop.clock.sleeping + 1)
    hired.hints.wake("due")
    await shop.clock.settle()
    assert tried == passes
    await shop.clock.advance(2)
    assert tried == passes + 1
    stop.set()
    await asyncio.wait_for(working, 30)


async def logged_failure(
    shop: Shop, hired: worker.Worker, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """Returns the log line of a failing pass of the `stats` task."""
    capsys.readouterr()
    [stats] = [task for task in periodic_tasks.of_worker(hired) if task.name == "stats"]
    working = asyncio.create_task(worker.run(hired, [stats], asyncio.Event()))
    await shop.clock.until_sleeping(shop.clock.sleeping + 1)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line]
    [failure] = [line for line in lines if line["action"] == "periodic_task_failed"]
    assert failure["task"] == "stats"
    return dict(failure)


async def test_a_pass_without_a_database_is_logged_in_one_line(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """A database failure of a task is logged in one line; only a defect has a traceback."""
    shop.environ = {**shop.environ, "STEWARD_LOG_LEVEL": "warning"}
    await shop.restart()
    hired = await shop.registered_worker()
    hired.delays = [cast("timedelta", None)]
    defect = await logged_failure(shop, hired, capsys)
    assert defect["level"] == "error"
    assert "AttributeError" in defect["traceback"]

    await shop.engine.close()
    lost = await logged_failure(shop, hired, capsys)
    assert lost["level"] == "warning"
    assert lost["reason"]
    assert "traceback" not in lost


async def test_many_runs_of_a_lost_worker_are_freed_at_once(shop: Shop) -> None:
    """All runs of a dead worker are freed in one transaction. See docs/design/runs.md#workers-and-leases."""
    queued = [await shop.run_now(await shop.hiding()) for _ in range(20)]
    hired = await shop.registered_worker()
    assert len(await claim.claim(shop.engine, shop.clock.now(), hired.id, free=20, full=[])) == 20
    await shop.clock.advance(timedelta(minutes=1).total_seconds())
    shop.worker = None
    await shop.drain()
    assert {(await shop.run(run)).status for run in queued} == {RunStatus.WAITING_APPROVAL}
