"""Tests approvals: each is bound to one set of changes, decided once and kept.

See docs/design/approvals.md#decisions and docs/design/api/approvals.md#states.
"""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from steward.automations import lifecycle
from steward.automations.pauses import StateCommand
from steward.automations.updates import change
from steward.automations.updates.update_command import UpdateCommand
from steward.database.runs import approvals
from steward.model.account import Actor, Role
from steward.model.approval import ApprovalStatus
from steward.model.change import Outcome
from steward.model.ids import ChangeId, OrgId, PersonId
from steward.model.refusals import Forbidden, NotFound, StaleVersion, ValidationFailed, WrongState
from steward.model.run import RunStatus
from steward.runs import approval
from steward.runs.approval import ApproveCommand, DecidedApproval
from tests.runs.shop import Shop

HOURS = 72


def somebody_else(shop: Shop) -> Actor:
    """Returns an approver who did not start the run."""
    return replace(shop.owner, person=PersonId(shop.owner.person + 1), role=Role.APPROVER)


async def test_an_approval_shows_what_is_to_be_decided(shop: Shop) -> None:
    """A new approval has counts and the run's expiry time. See docs/design/api/approvals.md#approval."""
    run = await shop.waiting(await shop.pricing())
    approval = await shop.approval(run)
    assert (approval.status, approval.version, approval.round) == (ApprovalStatus.PENDING, 1, 1)
    assert approval.counts == {"total": 10, "by_action": {"update": 10}, "irreversible": 0, "undoable": 10}
    assert (approval.expires_at - approval.created_at).total_seconds() == HOURS * 3600
    assert run.expires_at == approval.expires_at
    assert run.waiting_since == approval.created_at
    assert run.summary is not None
    assert run.result is None


async def test_all_but_some_are_approved(shop: Shop) -> None:
    """Approving with exceptions gives `partly_approved`; the excepted changes are declined.

    See docs/design/api/approvals.md#states.
    """
    run = await shop.waiting(await shop.pricing())
    changes = await shop.changes(run)
    decided = await shop.approve(run, changes[:3])
    assert (decided.approval.status, decided.approval.version) == (ApprovalStatus.PARTLY_APPROVED, 2)
    assert decided.approval.decided_by == shop.owner.person
    assert (decided.run.status, decided.run.expires_at) == (RunStatus.RUNNING, None)
    outcomes = [change.outcome for change in await shop.changes(run)]
    assert outcomes == [Outcome.DECLINED] * 3 + [Outcome.APPROVED] * 7
    await shop.drain()
    ended = await shop.run(run)
    assert ended.status is RunStatus.SUCCEEDED
    assert ended.summary is not None
    counts = ended.summary["counts"]
    assert isinstance(counts, dict)
    assert (counts["proposed"], counts["declined"], counts["applied"]) == (10, 3, 7)


async def test_a_rejected_run_is_cancelled_and_nothing_is_written(shop: Shop) -> None:
    """Rejecting cancels the run and declines its changes; nothing is written.

    See docs/design/api/runs.md#states and docs/design/api/approvals.md#states.
    """
    run = await shop.waiting(await shop.pricing())
    decided = await shop.reject(run)
    assert (decided.approval.status, decided.approval.comment) == (ApprovalStatus.REJECTED, "No")
    assert (decided.run.status, decided.run.code) == (RunStatus.CANCELLED, "rejected")
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.DECLINED}
    await shop.drain()
    assert shop.writes() == []


async def test_decided_approvals_are_listed_latest_first_page_after_page(shop: Shop) -> None:
    """Decided approvals are listed latest first by pages, with the number of excepted changes.

    See docs/design/api/approvals.md#requests.
    """
    org = shop.owner.org
    first = await shop.waiting(await shop.pricing())
    await shop.approve(first, (await shop.changes(first))[:3])
    await shop.drain()
    await shop.clock.advance(1)
    second = await shop.waiting(await shop.pricing())
    await shop.reject(second)
    await shop.waiting(await shop.pricing())
    rows = await shop.read(partial(approvals.decided, org=org, limit=2, after=None))
    assert [(row.approval.run_id, row.approval.status, row.left_out) for row in rows] == [
        (second.id, ApprovalStatus.REJECTED, 0),
        (first.id, ApprovalStatus.PARTLY_APPROVED, 3),
    ]
    last = rows[0].approval
    page = await shop.read(partial(approvals.decided, org=org, limit=2, after=(last.expires_at, last.id)))
    assert [row.approval.run_id for row in page] == [first.id]
    of_run = await shop.read(partial(approvals.decided_of_run, org=org, run=first.id, limit=1))
    assert [row.left_out for row in of_run] == [3]
    assert await shop.read(partial(approvals.decided, org=OrgId(org + 1), limit=2, after=None)) == []


async def test_approving_none_of_them_is_rejecting(shop: Shop) -> None:
    """Approving with every change excepted is a rejection. See docs/design/api/approvals.md#states."""
    run = await shop.waiting(await shop.pricing())
    decided = await shop.approve(run, await shop.changes(run))
    assert (decided.approval.status, decided.run.code) == (ApprovalStatus.REJECTED, "rejected")
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.DECLINED}


async def test_an_old_version_or_another_hash_is_stale_and_shows_what_is(shop: Shop) -> None:
    """An old version or a wrong hash answers 409 `stale_version` with the current approval.

    See docs/design/api/approvals.md#requests and docs/design/api/conventions.md#codes.
    """
    run = await shop.waiting(await shop.pricing())
    asked_approval = await shop.approval(run)
    for query in (
        ApproveCommand(asked_approval.id, asked_approval.version + 1),
        ApproveCommand(asked_approval.id, asked_approval.version, change_hash="0" * 64),
    ):
        with pytest.raises(StaleVersion) as refused:
            await shop.write(partial(approval.approve, actor=shop.owner, command=query, not_starter=False))
        assert refused.value.data is not None
        assert refused.value.data["approval"] == asked_approval
    assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL
    plain = ApproveCommand(asked_approval.id, asked_approval.version)
    await shop.write(partial(approval.approve, actor=shop.owner, command=plain, not_starter=False))


async def test_a_second_decision_is_refused(shop: Shop) -> None:
    """A second decision answers wrong_state with the current version and stale_version with an old one.

    See docs/design/api/approvals.md#states and docs/design/api/conventions.md#order-of-refusals.
    """
    run = await shop.waiting(await shop.pricing())
    asked_approval = (await shop.approve(run)).approval
    with pytest.raises(WrongState):
        await shop.approve(run)
    with pytest.raises(WrongState):
        await shop.reject(run)
    old = ApproveCommand(asked_approval.id, 1, change_hash=asked_approval.change_hash)
    with pytest.raises(StaleVersion):
        await shop.write(partial(approval.approve, actor=shop.owner, command=old, not_starter=False))


async def test_a_change_that_is_not_of_the_approval_cannot_be_left_out(shop: Shop) -> None:
    """Excepting a change of another approval answers 422 with `errors.except`.

    See docs/design/api/approvals.md#requests.
    """
    run = await shop.waiting(await shop.pricing())
    other = await shop.waiting(await shop.hiding(threshold=5))
    [strange, *_] = await shop.changes(other)
    for stranger in (strange.id, ChangeId("01KAH1B9ZX7Y5W3V1T9S7R5Q3P")):
        with pytest.raises(ValidationFailed) as refused:
            await shop.approve(run, [replace(strange, id=stranger)])
        assert set(refused.value.errors or {}) == {"except"}
    assert (await shop.approval(run)).status is ApprovalStatus.PENDING


async def test_an_approval_of_another_organization_is_not_found(shop: Shop) -> None:
    """An approval of another organization answers not_found.

    See docs/design/api/conventions.md#order-of-refusals.
    """
    run = await shop.waiting(await shop.pricing())
    with pytest.raises(NotFound):
        await shop.approve(run, by=replace(shop.owner, org=OrgId(shop.owner.org + 7)))


async def test_starters_may_be_kept_from_deciding_their_runs(shop: Shop) -> None:
    """With STEWARD_APPROVER_NOT_STARTER the person who started a run cannot decide it.

    See docs/design/api/approvals.md#requests.
    """
    run = await shop.waiting(await shop.pricing())
    with pytest.raises(Forbidden):
        await shop.approve(run, not_starter=True)
    with pytest.raises(Forbidden):
        await shop.reject(run, not_starter=True)
    decided = await shop.approve(run, by=somebody_else(shop), not_starter=True)
    assert decided.approval.decided_by == shop.owner.person + 1


async def test_an_approval_can_be_given_until_its_end_and_not_at_it(shop: Shop) -> None:
    """A decision at `expires_at` is refused even before the expiry task ran; 1 ms earlier it counts.

    See docs/design/api/approvals.md#requests and docs/design/approvals.md#decisions.
    """
    automation = await shop.pricing()
    late = await shop.waiting(automation)
    ends = (await shop.approval(late)).expires_at
    await shop.clock.advance_to(ends)
    with pytest.raises(WrongState):
        await shop.approve(late)
    with pytest.raises(WrongState):
        await shop.reject(late)
    assert (await shop.approval(late)).status is ApprovalStatus.PENDING
    shop.clock.jump(-0.001)
    assert (await shop.approve(late)).approval.status is ApprovalStatus.APPROVED


async def test_an_approval_that_nobody_gave_expires_with_its_run(shop: Shop) -> None:
    """An undecided approval expires with its run and its changes, and the next run can start.

    See docs/design/api/runs.md#states and docs/design/api/approvals.md#states.
    """
    automation = await shop.pricing()
    run = await shop.waiting(automation)
    ends = run.expires_at
    await shop.pass_time(hours=HOURS, seconds=-1)
    assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL
    await shop.pass_time(seconds=1)
    ended = await shop.run(run)
    assert (ended.status, ended.code, ended.expires_at) == (RunStatus.EXPIRED, "approval_expired", ends)
    approval = await shop.approval(run)
    assert (approval.status, approval.decided_by) == (ApprovalStatus.EXPIRED, None)
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.EXPIRED}
    assert shop.writes() == []
    assert (await shop.run(await shop.run_now(automation))).status is RunStatus.QUEUED
    await shop.drain()
    assert await shop.approval(run) == approval


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("parts", "replace(parts, '41.61', '1.61')"),
        ("after_json", "replace(after_json, '41.61', '1.61')"),
        ("object_id", "'999'"),
        ("item_hash", "'" + "0" * 64 + "'"),
    ],
)
async def test_changes_altered_after_approval_are_not_applied(shop: Shop, column: str, value: str) -> None:
    """A run whose stored changes differ from the approved ones fails with `approval_mismatch`.

    See docs/design/approvals.md#decisions.
    """
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    first, *_ = await shop.changes(run)
    assert await shop.tamper(
        f"UPDATE changes SET {column} = {value} WHERE org_id = :org AND id = :change", change=first.id
    )
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "approval_mismatch")
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.CANCELLED}
    assert shop.writes() == []


async def test_a_change_slipped_in_after_the_approval_is_not_applied(shop: Shop) -> None:
    """The approved hash covers the ids in order: an inserted change fails the run.

    See docs/design/approvals.md#decisions.
    """
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    first, *_ = await shop.changes(run)
    columns = (
        "org_id, run_id, seq, name, iteration, round, integration_id, object_type, object_id, wire,"
        " before_json, after_json, parts, item_hash, outcome, undoable"
    )
    await shop.tamper(
        f"INSERT INTO changes (id, position, {columns}) SELECT '01KAH1B9ZX7Y5W3V1T9S7R5Q3P', 99, {columns}"
        " FROM changes WHERE org_id = :org AND id = :change",
        change=first.id,
    )
    await shop.drain()
    assert (await shop.run(run)).code == "approval_mismatch"
    assert shop.writes() == []


async def test_archiving_ends_what_waits(shop: Shop) -> None:
    """Archiving cancels the waiting run with its approval and changes, and the queued run.

    See docs/design/runs.md#cancellation and docs/design/api/approvals.md#states.
    """
    automation = await shop.pricing()
    run, queued = await shop.waiting(automation), await shop.run_now(automation)
    rules = shop.service.worker_context.automation_rules
    await shop.write(
        partial(lifecycle.archive, actor=shop.owner, command=StateCommand(automation.id), rules=rules)
    )
    for ended in (await shop.run(run), await shop.run(queued)):
        assert (ended.status, ended.code) == (RunStatus.CANCELLED, "archived")
    assert (await shop.approval(run)).status is ApprovalStatus.CANCELLED
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.CANCELLED}
    with pytest.raises(WrongState):
        await shop.approve(run)


async def test_a_renamed_automation_does_not_touch_what_was_approved(shop: Shop) -> None:
    """Renaming an automation does not supersede its approval; only changed steps or bindings do.

    See docs/design/api/runs.md#states.
    """
    automation = await shop.pricing()
    run = await shop.waiting(automation)
    command = UpdateCommand(automation.id, automation.version, name="Another name")
    rules = shop.service.worker_context.automation_rules
    await shop.write(partial(change.update, actor=shop.owner, command=command, rules=rules))
    await shop.approve(run)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED


async def test_of_two_who_decide_at_once_one_wins(shop: Shop) -> None:
    """Of two simultaneous decisions one is stored; the other answers with the current state.

    See docs/guides/contributors.md#tests.
    """
    run = await shop.waiting(await shop.pricing())
    everybody = [somebody_else(shop), shop.owner]
    acts = [shop.approve(run, by=everybody[0]), shop.reject(run, by=everybody[1])]
    results = await asyncio.gather(*acts, return_exceptions=True)
    assert sum(isinstance(result, DecidedApproval) for result in results) == 1
    [refused] = [result for result in results if not isinstance(result, DecidedApproval)]
    assert isinstance(refused, StaleVersion | WrongState)
    status = (await shop.run(run)).status
    assert status in (RunStatus.RUNNING, RunStatus.CANCELLED)
    approval = await shop.approval(run)
    assert approval.version == 2
    assert (approval.status is ApprovalStatus.APPROVED) == (status is RunStatus.RUNNING)
