"""Tests the checks before a run starts, what supersedes it, and rows that fail."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import Any

import pytest

from steward.database import due_rows
from steward.database.accounts import organizations
from steward.database.automations import records as automations
from steward.database.engine.base import Autocommit, Tx, ms
from steward.database.runs import fast_runs, transitions
from steward.database.runs.fast_runs import LeasedRun, RunPrecheck
from steward.database.runs.steps import StepValue, ValueState, packed, unpacked
from steward.database.runs.transitions import Lease
from steward.model.approval import ApprovalStatus
from steward.model.change import Outcome
from steward.model.connection import ConnectionState
from steward.model.plan import PlanStep, StepKind, StepStatus
from steward.model.refusals import WrongState
from steward.model.run import Counts, Mode, Run, RunStatus
from steward.run_queue import ending
from steward.run_queue.summaries import START
from steward.runs import checkpoint, finish, start_claimed
from steward.runs.checkpoint import Checkpoint, EndedStep
from steward.runs.claimed_run import ClaimedRun
from steward.runs.finish import FinishRequest, RunEnd
from steward.runs.lease import LeaseLost
from steward.runs.tasks import timers
from tests.crash.killing import kill_at
from tests.runs.shop import Shop

LOOK = PlanStep("look", "Look", StepKind.READ, "test.look")
QUEUED, RUNNING, DONE = RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.SUCCEEDED


async def switch_automations(shop: Shop, on: bool) -> None:
    """Switches the organization's automations on or off, as the operator does."""
    await shop.write(partial(organizations.switch, org=shop.owner.org, automations_on=on))


async def disconnect_store(shop: Shop, run: Run) -> None:
    """Makes the store need reconnecting."""
    await shop.set_connection_state("woocommerce", ConnectionState.NEEDS_RECONNECTING)


async def switch_off(shop: Shop, run: Run) -> None:
    """Switches the organization's automations off."""
    await switch_automations(shop, False)


async def change_plan(shop: Shop, run: Run) -> None:
    """Changes the plan version after the run was queued."""
    await shop.tamper("UPDATE runs SET plan_version = 1 WHERE org_id = :org AND id = :run", run=run.id)


Spoil = Callable[[Shop, Run], Awaitable[None]]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [(disconnect_store, "not_connected"), (switch_off, "switched_off"), (change_plan, "superseded")],
)
async def test_a_run_that_may_not_start_is_refused_when_it_is_claimed(
    shop: Shop, spoil: Spoil, code: str
) -> None:
    """A run that may not start is refused when it is claimed, and the next one is promoted.

    See docs/design/api/runs.md#states and docs/design/runs.md#states.
    """
    automation = await shop.hiding()
    run, lagging = await shop.run_now(automation), await shop.run_now(automation)
    await spoil(shop, run)
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.REFUSED, code)
    assert ended.message is not None
    assert (ended.started_at, ended.last_seq, ended.summary) == (None, 0, None)
    assert (await shop.run(lagging)).status is not RunStatus.QUEUED


async def test_a_run_that_has_begun_is_not_judged_again(shop: Shop) -> None:
    """A run queued again after a lost worker continues without a second check.

    See docs/design/api/runs.md#states and docs/design/runs.md#cancellation.
    """
    run = await shop.run_now(await shop.hiding())
    await kill_at(shop, "after_checkpoint")
    await switch_automations(shop, False)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL


async def test_a_changed_plan_supersedes_what_waits(shop: Shop) -> None:
    """A changed plan supersedes the waiting run, its approval and its changes.

    See docs/design/api/approvals.md#states.
    """
    automation = await shop.pricing()
    run, lagging = await shop.waiting(automation), await shop.run_now(automation)
    org = shop.owner.org
    await shop.write(partial(ending.end_waiting, org=org, automation=automation.id, ending=ending.SUPERSEDED))
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.REFUSED, "superseded")
    assert (await shop.approval(run)).status is ApprovalStatus.SUPERSEDED
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.CANCELLED}
    with pytest.raises(WrongState):
        await shop.approve(run)
    await shop.drain()
    assert (await shop.run(lagging)).status is RunStatus.WAITING_APPROVAL
    assert shop.writes() == []


async def test_a_run_takes_the_inputs_it_starts_with_and_keeps_them(shop: Shop) -> None:
    """A run reads its automation's inputs when it starts and keeps them. See docs/design/api/runs.md#run."""
    automation = await shop.hiding(threshold=0)
    run = await shop.run_now(automation)
    await shop.tamper("UPDATE automations SET inputs = replace(inputs, '\"threshold\":0', '\"threshold\":5')")
    await kill_at(shop, "after_start")
    await shop.tamper("UPDATE automations SET inputs = replace(inputs, '\"threshold\":5', '\"threshold\":0')")
    await shop.drain()
    assert len(await shop.changes(run)) > len(
        await shop.changes(await shop.waiting(await shop.hiding(threshold=0)))
    )


async def test_one_bad_row_never_stops_the_next(shop: Shop) -> None:
    """A failing row is deferred for 1, 2, 4 … minutes while the others are handled in time.

    See docs/design/runs.md#periodic-tasks-and-failing-rows.
    """
    bad, good = await shop.waiting(await shop.pricing()), await shop.waiting(await shop.hiding())
    approval = (await shop.approval(bad)).id
    await shop.tamper(
        "UPDATE approvals SET counts = 'no JSON' WHERE org_id = :org AND id = :approval", approval=approval
    )
    await shop.clock.advance(72 * 3600)
    hired = await shop.registered_worker()
    await timers.expire_approvals(hired.ctx)
    assert (await shop.run(good)).code == "approval_expired"
    assert (await shop.run(bad)).status is RunStatus.WAITING_APPROVAL
    late = partial(due_rows.deferred_keys, task="expire_approvals")
    assert await shop.engine.read(shop.clock.now(), late) == {approval}
    await shop.tamper(
        "UPDATE approvals SET counts = :counts WHERE org_id = :org AND id = :approval",
        counts='{"total": 10, "by_action": {}, "irreversible": 0, "undoable": 0}',
        approval=approval,
    )
    await timers.expire_approvals(hired.ctx)
    assert (await shop.run(bad)).status is RunStatus.WAITING_APPROVAL
    await shop.clock.advance(60)
    await timers.expire_approvals((await shop.registered_worker()).ctx)
    assert (await shop.run(bad)).code == "approval_expired"


async def test_runs_taken_up_and_ended_at_once_are_each_judged_by_themselves(shop: Shop) -> None:
    """Runs started and ended in one batch are each handled on their own: one is lost, one has a successor.

    See docs/design/storage.md#group-commit and docs/design/runs.md#claim.
    """
    automations = [await shop.hiding() for _ in range(4)]
    runs = [await shop.run_now(automation) for automation in automations]
    lagging = await shop.run_now(automations[0])
    ctx = shop.service.worker_context
    held = await shop.claimed()
    assert held.keys() == {run.id for run in runs}
    leases = [held[run.id] for run in runs]
    leases[2] = replace(leases[2], epoch=leases[2].epoch + 1)
    begun = await asyncio.gather(
        *(shop.begun(each_lease) for each_lease in leases),
        return_exceptions=True,
    )
    assert isinstance(begun[2], LeaseLost)
    assert [isinstance(item, ClaimedRun) for item in begun] == [True, True, False, True]
    assert [(await shop.run(run)).status for run in runs] == [RUNNING, RUNNING, QUEUED, RUNNING]
    journals = [used.journal for used in begun if isinstance(used, ClaimedRun)]
    assert all([value.name for value in journal] == [START] for journal in journals)
    ends = [
        FinishRequest(
            lease,
            RunEnd(RunStatus.SUCCEEDED, message="Done."),
            run.automation_id,
            run.mode,
            shop.service.worker_context.automation_rules,
        )
        for run, lease in zip(runs, leases, strict=True)
    ]
    ended = await asyncio.gather(
        *(finish.end_run(ctx.engine, shop.clock.now(), finish_request) for finish_request in ends),
        return_exceptions=True,
    )
    assert [type(entry) for entry in ended] == [NoneType, NoneType, LeaseLost, NoneType]
    after = [await shop.run(run) for run in runs]
    assert [run.status for run in after] == [DONE, DONE, QUEUED, DONE]
    assert [run.message for run in after] == ["Done.", "Done.", None, "Done."]
    assert set(await shop.claimed()) == {lagging.id}


@pytest.mark.parametrize("ended", ["cancelled", "taken over"])
async def test_a_run_that_was_lost_since_it_was_claimed_takes_no_step(shop: Shop, ended: str) -> None:
    """A run cancelled or lost since its claim starts no step; the worker drops it.

    See docs/design/runs.md#claim.
    """
    run = await shop.run_now(await shop.hiding())
    [lease] = (await shop.claimed(1)).values()
    if ended == "cancelled":
        await shop.cancel(run)
    else:
        await shop.begun(lease)
        await shop.tamper("UPDATE runs SET epoch = epoch + 1 WHERE org_id = :org AND id = :run", run=run.id)
    with pytest.raises(LeaseLost):
        await shop.begun(lease)


async def test_a_last_step_and_the_end_are_one_commit(shop: Shop) -> None:
    """The last step and the end are stored together or not at all.

    Of the runs that end together one succeeds, one has a cancel request and one belongs to another worker.
    See docs/design/runs.md#end-of-a-run.
    """
    automations = [await shop.hiding() for _ in range(3)]
    runs = [await shop.run_now(automation) for automation in automations]
    lagging = await shop.run_now(automations[0])
    ctx = shop.service.worker_context
    held = await shop.claimed()
    leases = [held[run.id] for run in runs]
    await asyncio.gather(*(shop.begun(each_lease) for each_lease in leases))
    await shop.cancel(runs[1])
    leases[2] = replace(leases[2], epoch=leases[2].epoch + 1)
    ended, value = (
        EndedStep(LOOK, "Look", StepStatus.SUCCEEDED, shop.clock.now(), None, Counts(read=1)),
        {"seen": 1},
    )
    row = StepValue("look", "", 1, ValueState.DONE, value)
    closing = [
        finish.end_with_step(
            ctx.engine,
            shop.clock.now(),
            FinishRequest(
                lease, RunEnd(DONE, message="Done."), run.automation_id, run.mode, ctx.automation_rules
            ),
            checkpoint.step_checkpoint(
                Checkpoint(lease, run.automation_id, 1, ended, row, packed(value)), ended
            ),
        )
        for run, lease in zip(runs, leases, strict=True)
    ]
    closed = await asyncio.gather(*closing, return_exceptions=True)
    assert closed[0] == (True, True, None)
    assert closed[1] == (True, False, "by_person")
    assert isinstance(closed[2], LeaseLost)
    after = [await shop.run(run) for run in runs]
    assert [run.status for run in after][:2] == [DONE, RUNNING]
    assert [(run.last_seq, len(await shop.steps(run))) for run in after] == [(1, 1), (1, 1), (0, 0)]
    assert set(await shop.claimed()) == {lagging.id}


async def test_a_run_is_begun_and_ended_once(shop: Shop) -> None:
    """Beginning and ending a run again, as after a lost response, writes nothing.

    See docs/design/storage.md#writes-whose-outcome-is-unknown.
    """
    ctx = shop.service.worker_context
    run = await shop.run_now(await shop.hiding())
    [lease] = (await shop.claimed(1)).values()
    await shop.begun(lease)
    begun = await shop.run(run)
    shop.clock.tick(1)
    await shop.begun(lease)
    assert await shop.run(run) == begun
    value = {"seen": 1}
    ended = EndedStep(LOOK, "Look", StepStatus.SUCCEEDED, shop.clock.now(), None, Counts(read=1))
    row = StepValue("look", "", 1, ValueState.DONE, value)
    last_checkpoint = checkpoint.step_checkpoint(
        Checkpoint(lease, run.automation_id, 1, ended, row, packed(value)), ended
    )
    request = FinishRequest(
        lease, RunEnd(DONE, message="Done."), run.automation_id, run.mode, ctx.automation_rules
    )
    end = partial(finish.end_with_step, ctx.engine, request=request, last_checkpoint=last_checkpoint)
    assert (await end(now=shop.clock.now())).ended
    finished = await shop.run(run)
    shop.clock.tick(1)
    with pytest.raises(LeaseLost):
        await end(now=shop.clock.now())
    with pytest.raises(LeaseLost):
        await finish.end_run(ctx.engine, shop.clock.now(), request)
    assert await shop.run(run) == finished
    assert len(await shop.steps(run)) == 1


async def test_a_batched_read_equals_single_reads(shop: Shop) -> None:
    """A batched read returns what a single read returns; otherwise every run would take the slow path.

    See docs/design/storage.md#postgresql.
    """
    if shop.engine.dialect == "sqlite":
        pytest.skip("SQLite runs the plain statements alone")
    org, now = shop.owner.org, shop.clock.now()
    automation, run = await shop.hiding(), (await shop.run_and_drain(await shop.hiding(threshold=5)))
    hot = await shop.read(partial(transitions.read_state, org=org, run=run.id))
    assert hot is not None
    lease = Lease(org, run.id, 0, 1)
    expected = [(org, automation.id, "unused"), (org, run.automation_id, "unused")]
    [leased] = await shop.engine.write(now, Autocommit(partial(fast_runs.read_leased, leases=[lease])))
    prechecks = await shop.engine.write(
        now, Autocommit(partial(fast_runs.precheck, keys=expected, max_waiting=9))
    )
    read = [
        await shop.read(partial(automations.get, org=org, automation=automation_id))
        for automation_id in (automation.id, run.automation_id)
    ]
    stores = frozenset(connection.integration_id for connection in shop.connections.values())
    assert leased == LeasedRun(lease, run, hot, read[1], is_on=True, connected=stores)
    assert prechecks == [RunPrecheck(each_automation, stores, now) for each_automation in read]


@pytest.mark.parametrize("start_mode", ["alone", "in a batch"])
async def test_every_way_of_beginning_a_run_leaves_the_same_rows(shop: Shop, start_mode: str) -> None:
    """Starting a run alone or in a batch writes the same columns; a lost run writes nothing.

    See docs/design/runs.md#claim.
    """
    modes = [Mode.LIVE, Mode.LIVE, Mode.TEST]
    automations = [await shop.hiding(threshold=number) for number in range(3)]
    runs = [await shop.run_now(*pair) for pair in zip(automations, modes, strict=True)]
    leases = await shop.claimed()
    lost = runs[1].id
    leases[lost] = replace(leases[lost], epoch=leases[lost].epoch + 1)
    shop.clock.tick(1)
    rules = shop.service.worker_context.automation_rules
    begun: list[ClaimedRun | BaseException | None] = []
    if start_mode == "alone":
        for run in runs:
            act = partial(start_claimed.start_one, lease=leases[run.id], rules=rules)
            begun += await asyncio.gather(shop.write(act), return_exceptions=True)
    else:
        begun += await asyncio.gather(*(shop.begun(leases[run.id]) for run in runs), return_exceptions=True)
    assert [isinstance(item, ClaimedRun) for item in begun] == [True, False, True]
    assert isinstance(begun[1], LeaseLost)
    now = ms(shop.clock.now())
    for number, (run, automation) in enumerate(zip(runs, automations, strict=True)):
        is_begun = run.id != lost
        [row] = await _columns(shop, "runs", "status, queue, started_at, epoch, last_seq", "id", run.id)
        assert row == (RUNNING if is_begun else QUEUED, "leased", now if is_begun else None, 1, 0)
        [row] = await _columns(shop, "schedules", "last_run_at", "automation_id", automation.id)
        assert row == (now if number == 0 else None,)
        values = await _columns(
            shop, "step_values", "name, iteration, seq, unknown_paths, state, output", "run_id", run.id
        )
        assert [value[:-1] for value in values] == [("@start", "", 0, None, "done")] * is_begun
        for value in values:
            assert unpacked(value[-1]) == {
                "inputs": automation.inputs,
                "integration_id": automation.integration_id,
                "connections": [
                    [automation_connection.integration_id, automation_connection.kind]
                    for automation_connection in automation.connections
                ],
            }


async def _columns(shop: Shop, table: str, columns: str, key: str, value: str) -> list[tuple[Any, ...]]:
    """Returns the given columns of the organization's rows with this key."""

    async def read(tx: Tx) -> list[tuple[Any, ...]]:
        rows = await tx.all(
            f"SELECT {columns} FROM {table} WHERE org_id = :org AND {key} = :value",
            {"org": shop.owner.org, "value": value},
        )
        return [tuple(row[name] for name in columns.split(", ")) for row in rows]

    return await shop.read(read)
