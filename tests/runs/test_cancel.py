"""Tests cancelling in every state: at once for idle runs, between two requests for running ones.

See docs/design/runs.md#cancellation.
"""

from functools import partial

import pytest

from steward.automations import lifecycle
from steward.automations.pauses import StateCommand
from steward.database.runs.write_ledger import LedgerState
from steward.model.approval import ApprovalStatus
from steward.model.change import Outcome
from steward.model.refusals import WrongState
from steward.model.run import Mode, RunStatus
from tests.runs.consistency import assert_agrees
from tests.runs.shop import Shop


async def test_a_queued_run_ends_at_once(shop: Shop) -> None:
    """Cancelling a queued run ends it immediately.

    See docs/design/api/runs.md#requests and docs/design/api/runs.md#states.
    """
    run = await shop.run_now(await shop.hiding())
    ended = await shop.cancel(run)
    assert (ended.status, ended.code) == (RunStatus.CANCELLED, "by_person")
    assert (ended.started_at, ended.summary, ended.cancel_requested_at) == (None, None, None)
    await shop.drain()
    assert (await shop.run(run)) == ended


async def test_a_run_blocked_behind_another_ends_at_once(shop: Shop) -> None:
    """Cancelling a run that waits behind another ends it immediately. See docs/design/api/runs.md#states."""
    automation = await shop.hiding(threshold=5)
    holder, blocked = await shop.waiting(automation), await shop.run_now(automation)
    assert (await shop.cancel(blocked)).status is RunStatus.CANCELLED
    assert (await shop.run(holder)).status is RunStatus.WAITING_APPROVAL


async def test_a_waiting_run_ends_with_its_approval_and_changes(shop: Shop) -> None:
    """Cancelling a waiting run cancels its approval and its changes.

    See docs/design/api/approvals.md#states.
    """
    run = await shop.waiting(await shop.pricing())
    ended = await shop.cancel(run)
    assert (ended.status, ended.code, ended.expires_at) == (RunStatus.CANCELLED, "by_person", None)
    approval = await shop.approval(run)
    assert (approval.status, approval.version) == (ApprovalStatus.CANCELLED, 2)
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.CANCELLED}
    with pytest.raises(WrongState):
        await shop.approve(run)


async def test_an_approved_run_that_no_worker_has_stops_before_it_writes(shop: Shop) -> None:
    """A cancel of an approved run sets `cancel_requested_at`, is idempotent and prevents every write.

    See docs/design/api/runs.md#requests.
    """
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    cancel = await shop.cancel(run)
    assert (cancel.status, cancel.cancel_requested_at) == (RunStatus.RUNNING, shop.clock.now())
    shop.clock.tick(5)
    assert await shop.cancel(run) == cancel
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.CANCELLED, "by_person")
    assert ended.summary is not None
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.CANCELLED}
    assert shop.writes() == []


async def test_an_ended_run_cannot_be_cancelled(shop: Shop) -> None:
    """Cancelling an ended run answers 409 `wrong_state`. See docs/design/api/runs.md#requests."""
    run = await shop.run_and_drain(await shop.hiding(), Mode.TEST)
    for ended in (run, await shop.cancel(await shop.run_now(await shop.hiding()))):
        with pytest.raises(WrongState):
            await shop.cancel(ended)


async def test_a_run_cancelled_between_two_writes_keeps_what_was_written(shop: Shop) -> None:
    """A run cancelled between two writes still lists and remembers what it applied.

    See docs/design/api/runs.md#states.
    """
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    # The second request is slow: the shop is told to wait, and the person cancels meanwhile.
    shop.fault("throttle", "POST", "**/batch", retry_after=600, skip=1)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.RUNNING
    await shop.cancel(run)
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.CANCELLED, "by_person")
    outcomes = [change.outcome for change in await shop.changes(run)]
    assert outcomes[0] is Outcome.APPLIED
    assert set(outcomes[1:]) == {Outcome.CANCELLED}
    assert len(shop.applied()) == 1
    last = (await shop.steps(run))[-1]
    assert (last["status"], last["code"], last["counts"]["applied"]) == ("failed", "cancelled", 1)
    assert ended.summary is not None
    assert_agrees(ended, await shop.changes(run))
    assert "1 of 10 prices changed, 9 cancelled." in str(ended.summary["text"])


@pytest.mark.parametrize("how", ["cancel", "reject", "expire", "archive"])
async def test_a_run_that_ends_while_waiting_says_that_nothing_was_written(shop: Shop, how: str) -> None:
    """The summary of a run cancelled while waiting says that nothing was changed."""
    automation = await shop.pricing()
    run = await shop.waiting(automation)
    match how:
        case "cancel":
            await shop.cancel(run)
        case "reject":
            await shop.reject(run)
        case "expire":
            await shop.pass_time(hours=73)
        case "archive":
            rules = shop.service.worker_context.automation_rules
            command = StateCommand(automation.id)
            await shop.write(partial(lifecycle.archive, actor=shop.owner, command=command, rules=rules))
    ended = await shop.run(run)
    assert_agrees(ended, await shop.changes(run))
    assert ended.summary is not None
    assert "0 of 10 prices changed" in str(ended.summary["text"])


async def test_a_run_cancelled_while_it_reads_claims_nothing(shop: Shop) -> None:
    """The summary of a run cancelled while reading says where it stopped and gives no number."""
    for automation, path in (
        (await shop.pricing(), "/sheets/**/values/**"),
        (await shop.hiding(), "**/products"),
    ):
        run = await shop.run_now(automation)
        shop.fault("throttle", "GET", path, retry_after=600)
        await shop.drain()
        assert (await shop.run(run)).status is RunStatus.RUNNING
        await shop.cancel(run)
        await shop.drain()
        ended = await shop.run(run)
        assert ended.status is RunStatus.CANCELLED
        assert ended.summary is not None
        text = str(ended.summary["text"])
        assert text.startswith("Cancelled while reading ")
        assert text.endswith("; nothing was compared and nothing was changed.")


async def test_products_hidden_by_a_cancelled_run_are_remembered(shop: Shop) -> None:
    """A cancelled run remembers the earlier visibility of each product it hid.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    run = await shop.waiting(await shop.hiding(threshold=5))
    await shop.approve(run)
    shop.fault("throttle", "POST", "**/products/batch", retry_after=600)  # after the first product
    await shop.drain()
    await shop.cancel(run)
    await shop.drain()
    outcomes = [change.outcome for change in await shop.changes(run)]
    assert outcomes.count(Outcome.APPLIED) == 1
    remembered = await shop.remembered(run, "visibility")
    assert len(remembered) == 1


async def test_a_change_stopped_half_way_says_so(shop: Shop) -> None:
    """A change has the worst outcome of its parts, and its message names what was written.

    See docs/design/writes.md#two-tables.
    """
    run = await shop.waiting(await shop.hiding(threshold=5))
    await shop.approve(run)
    shop.fault("throttle", "PUT", "**", retry_after=600, skip=1)  # visible is written, tags are not
    await shop.drain()
    await shop.cancel(run)
    await shop.drain()
    first, *others = await shop.changes(run)
    assert first.outcome is Outcome.FAILED
    assert first.message is not None
    assert "part" in first.message
    assert {change.outcome for change in others} == {Outcome.CANCELLED}


async def test_a_run_cancelled_with_an_unknown_write_finds_out_first(shop: Shop) -> None:
    """A cancelled run settles its unknown writes before it ends. See docs/design/writes.md#reconciliation."""
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    shop.fault("drop_after", "POST", "**/batch")
    await shop.drain()
    [lost, *_] = await shop.changes(run)
    assert lost.outcome is Outcome.UNKNOWN
    await shop.cancel(run)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.RUNNING
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.CANCELLED, "by_person")
    [change, *_] = await shop.changes(run)
    assert change.outcome is Outcome.APPLIED
    assert {entry.state for entry in await shop.ledger(run)} <= {LedgerState.DONE}
    assert len(shop.writes()) == len(shop.applied())
