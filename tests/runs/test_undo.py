"""Tests undoing a finished run by a run of its own.

The undo waits for approval, compares before it writes, and skips and lists what changed since.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from steward.automations import lifecycle
from steward.automations.pauses import StateCommand
from steward.model.change import Outcome
from steward.model.connection import ConnectionState
from steward.model.ids import OrgId
from steward.model.refusals import KeyReused, NotConnected, NotFound, ValidationFailed, WrongState
from steward.model.run import Mode, RunStatus
from steward.model.undo import CHANGED_SINCE
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop
from tests.runs.undoing import (
    RULES,
    add_tab,
    approved,
    cells,
    change_cell,
    facts,
    outcomes,
    tables,
    touch,
    touched,
    undo_now,
    undone,
)


@pytest.fixture
async def lone(sqlite_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Provides a shop on SQLite only, for what does not depend on the engine."""
    opened = await open_shop(sqlite_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()


async def test_hidden_products_are_shown_again_and_unmarked(shop: Shop) -> None:
    """After run and undo the shop's tables and the template's memory are as before."""
    before = tables(shop)
    run = await approved(shop, await shop.waiting(await shop.hiding()))
    assert tables(shop) != before
    assert await shop.remembered(run, "visibility")
    original = await shop.changes(run)
    actual = await facts(shop, run)
    assert actual is not None
    assert (actual.obstacle, actual.counts.undoable) == (None, len(original))
    ended = await undone(shop, run)
    assert (ended.status, ended.undo_of) == (RunStatus.SUCCEEDED, run.id)
    assert ended.summary is not None
    assert ended.summary["text"] == f"Put back {len(original)} of {len(original)} changes."
    assert tables(shop) == before
    assert await shop.remembered(run, "visibility") == {}
    assert [change.proposal.undo_of for change in await shop.changes(ended)] == [
        each_change.id for each_change in reversed(original)
    ]


async def test_an_undo_leaves_and_lists_later_changes(shop: Shop) -> None:
    """A value changed before the undo reads it is skipped and listed; one changed later is a conflict."""
    run = await approved(shop, await shop.waiting(await shop.pricing()))
    first, second, *rest = await shop.changes(run)
    touch(shop, first)
    undo_run = (await undo_now(shop, run)).run
    await shop.drain()
    approval = await shop.approval(undo_run)
    assert (approval.counts["total"], approval.undo_of) == (len(rest) + 1, run.id)
    touch(shop, second)
    await shop.approve(undo_run)
    ended = await shop.until_settled(undo_run)
    by_original = {change.proposal.undo_of: change for change in await shop.changes(ended)}
    assert by_original[first.id].outcome is Outcome.CONFLICT
    assert by_original[first.id].message == f"{CHANGED_SINCE} It is 77.77 now."
    assert by_original[second.id].outcome is Outcome.CONFLICT
    assert {by_original[each_change.id].outcome for each_change in rest} == {Outcome.APPLIED}
    assert all(touched(shop, item) for item in (first, second))
    assert ended.summary is not None
    total = len(rest) + 2
    assert (
        ended.summary["text"]
        == f"Put back {len(rest)} of {total} changes: 2 edited since and left unchanged."
    )


async def test_a_second_undo_finds_everything_back_already(lone: Shop) -> None:
    """A second undo proposes and writes nothing, succeeds and says so."""
    run = await approved(lone, await lone.waiting(await lone.pricing()))
    await undone(lone, run)
    writes = len(lone.writes())
    again = await undone(lone, run)
    assert (again.status, again.approval_id, len(lone.writes())) == (RunStatus.SUCCEEDED, None, writes)
    assert again.summary is not None
    assert again.summary["text"] == "Nothing was left to put back: 10 already at their earlier value."
    assert set(outcomes(await lone.changes(again))) == {Outcome.UNCHANGED}


async def test_when_all_was_changed_since_nothing_is_written_and_the_text_says_so(lone: Shop) -> None:
    """If every value changed since, the undo writes nothing and succeeds."""
    run = await approved(lone, await lone.waiting(await lone.pricing()))
    for change in await lone.changes(run):
        touch(lone, change)
    ended = await undone(lone, run)
    assert (ended.status, ended.approval_id) == (RunStatus.SUCCEEDED, None)
    assert ended.summary is not None
    assert ended.summary["text"] == "Nothing was left to put back: 10 edited since and left unchanged."


async def test_an_undo_is_undone_by_the_same_rules(shop: Shop) -> None:
    """Undoing an undo restores what the run did, including the template's memory."""
    run = await approved(shop, await shop.waiting(await shop.hiding()))
    after, remembered = tables(shop), await shop.remembered(run, "visibility")
    first = await undone(shop, run)
    second = await undone(shop, first)
    assert (second.status, second.undo_of) == (RunStatus.SUCCEEDED, first.id)
    assert tables(shop) == after
    assert await shop.remembered(run, "visibility") == remembered


async def test_a_run_after_an_undo_proposes_what_the_first_run_did(lone: Shop) -> None:
    """After an undo the template's memory is as if the changes had never been made."""
    automation = await lone.hiding()
    first = await approved(lone, await lone.waiting(automation))
    await undone(lone, first)
    again = await lone.waiting(automation)
    before, after = await lone.changes(first), await lone.changes(again)
    assert [(change.proposal.object, change.proposal.fields) for change in after] == [
        (each_change.proposal.object, each_change.proposal.fields) for each_change in before
    ]


async def test_only_chosen_changes_are_put_back(shop: Shop) -> None:
    """An undo of chosen changes leaves the others, which can be undone later."""
    run = await approved(shop, await shop.waiting(await shop.pricing()))
    first, second, *_ = await shop.changes(run)
    ended = await undone(shop, run, [first, second])
    assert [change.proposal.undo_of for change in await shop.changes(ended)] == [second.id, first.id]
    actual = await facts(shop, run)
    assert actual is not None
    assert (actual.counts.undone, actual.runs) == (2, (ended.id,))
    rest = await undone(shop, run)
    tally = Counter(outcomes(await shop.changes(rest)))
    assert (tally[Outcome.UNCHANGED], tally[Outcome.APPLIED]) == (2, 8)


async def test_a_test_undo_shows_what_would_be_put_back_and_writes_nothing(lone: Shop) -> None:
    """A test undo writes nothing and never waits, even while another undo does."""
    run = await approved(lone, await lone.waiting(await lone.pricing()))
    writes = len(lone.writes())
    tried = (await undo_now(lone, run, mode=Mode.TEST)).run
    await lone.drain()
    ended = await lone.run(tried)
    assert (ended.status, len(lone.writes())) == (RunStatus.SUCCEEDED, writes)
    assert set(outcomes(await lone.changes(ended))) == {Outcome.REFUSED_TEST}
    assert ended.summary is not None
    assert ended.summary["text"] == "10 of 10 changes would be put back."


async def test_an_undo_is_refused_with_the_reason(lone: Shop) -> None:
    """Each reason to refuse an undo has its own message."""
    automation = await lone.pricing()
    tested = await lone.run_and_drain(automation, Mode.TEST)
    run = await lone.waiting(automation)
    with pytest.raises(WrongState, match="has not ended"):
        await undo_now(lone, run)
    assert (await facts(lone, run), await facts(lone, tested)) == (None, None)
    with pytest.raises(WrongState, match="A test run changes nothing"):
        await undo_now(lone, tested)
    await approved(lone, run)
    empty = await lone.run_and_drain(automation)
    with pytest.raises(WrongState, match="changed nothing"):
        await undo_now(lone, empty)
    empty_facts = await facts(lone, empty)
    assert empty_facts is not None
    assert (empty_facts.obstacle, empty_facts.runs) == (
        "This run changed nothing, so there is nothing to put back.",
        (),
    )
    alerted = await lone.run_and_drain(await lone.alerting())
    with pytest.raises(WrongState, match="Nothing that this run did can be put back"):
        await undo_now(lone, alerted)
    waiting = (await undo_now(lone, run)).run
    with pytest.raises(WrongState, match="Another undo of this run"):
        await undo_now(lone, run)
    await lone.cancel(waiting)
    assert (await undo_now(lone, run)).run.undo_of == run.id
    stranger = replace(lone.owner, org=OrgId(lone.owner.org + 1))
    with pytest.raises(NotFound):
        await undo_now(lone, run, actor=stranger)


async def test_a_run_can_be_undone_until_its_undo_limit(lone: Shop) -> None:
    """An undo starts at the last millisecond of the period and is refused after it."""
    run = await approved(lone, await lone.waiting(await lone.pricing()))
    assert run.finished_at is not None
    age = lone.clock.now() - run.finished_at
    actual = await facts(lone, run, replace(RULES, valid_for=age))
    assert actual is not None
    assert (actual.obstacle, actual.until) == (None, lone.clock.now())
    past = replace(RULES, valid_for=age - timedelta(milliseconds=1))
    with pytest.raises(WrongState, match="can no longer be undone"):
        await undo_now(lone, run, rules=past)


async def test_a_key_stands_for_one_undo_and_not_for_a_run(shop: Shop) -> None:
    """A repeated key answers the first undo.

    It is independent of run-now keys and refused for another run.
    """
    automation = await shop.pricing()
    run = (await shop.started(automation, key="same-key-1")).run
    await shop.drain()
    await approved(shop, run)
    first = await undo_now(shop, run, key="same-key-1")
    again = await undo_now(shop, run, (await shop.changes(run))[:1], key="same-key-1")
    assert (first.replayed, again.replayed, again.run.id) == (False, True, first.run.id)
    assert first.run.id != run.id
    await shop.drain()
    await approved(shop, first.run)
    other = await approved(shop, await shop.waiting(await shop.hiding()))
    with pytest.raises(KeyReused):
        await undo_now(shop, other, key="same-key-1")


async def test_changes_that_are_not_of_the_run_are_refused_by_name(lone: Shop) -> None:
    """Changes of another run are refused by the first one's id, and nothing starts."""
    run = await approved(lone, await lone.waiting(await lone.pricing()))
    [other, *_] = await lone.changes(await approved(lone, await lone.waiting(await lone.hiding())))
    with pytest.raises(ValidationFailed) as refused:
        await undo_now(lone, run, [*(await lone.changes(run))[:1], other])
    assert other.id in refused.value.errors["changes"][0]
    actual = await facts(lone, run)
    assert actual is not None
    assert actual.runs == ()


async def test_two_undos_at_once_make_one(shop: Shop) -> None:
    """Simultaneous requests to undo start one undo, under the lock of the automation's queue."""
    run = await approved(shop, await shop.waiting(await shop.pricing()))
    results = await asyncio.gather(*(undo_now(shop, run) for _ in range(3)), return_exceptions=True)
    kinds = sorted(type(result).__name__ for result in results)
    assert kinds == ["StartedRun", "WrongState", "WrongState"]


async def test_an_archived_automation_is_undone_and_counts_no_failure(shop: Shop) -> None:
    """A run of an archived automation can be undone, without effect on its failure count."""
    automation = await shop.pricing()
    run = await approved(shop, await shop.waiting(automation))
    undo_run = (await undo_now(shop, run)).run
    await shop.drain()
    before = await shop.tamper("SELECT 1 FROM schedules WHERE org_id = :org AND consecutive_failures = 0")
    rules = shop.service.worker_context.automation_rules
    command = StateCommand(automation.id, automation.version)
    await shop.write(partial(lifecycle.archive, actor=shop.owner, command=command, rules=rules))
    assert (await shop.run(undo_run)).status is RunStatus.WAITING_APPROVAL
    shop.fault("status", "POST", "**/batch", status=400, count=-1)
    await shop.approve(undo_run)
    ended = await shop.until_settled(undo_run)
    assert ended.status is RunStatus.FAILED
    after = await shop.tamper("SELECT 1 FROM schedules WHERE org_id = :org AND consecutive_failures = 0")
    assert before == after


async def test_an_undo_waits_behind_the_run_that_is_active(shop: Shop) -> None:
    """An undo has no priority: it starts once the active run has ended."""
    automation = await shop.pricing()
    run = await approved(shop, await shop.waiting(automation))
    for change in (await shop.changes(run))[:2]:
        touch(shop, change, by="0.10")
    active = await shop.waiting(automation)
    undo_run = (await undo_now(shop, run)).run
    await shop.drain()
    assert (await shop.run(undo_run)).status is RunStatus.QUEUED
    await shop.reject(active)
    await shop.drain()
    assert (await shop.run(undo_run)).status is RunStatus.WAITING_APPROVAL


async def test_an_approval_shows_how_many_changes_can_be_undone_later(lone: Shop) -> None:
    """The approval's number of undoable changes is what the undo proposes later."""
    run = await lone.waiting(await lone.hiding())
    approval = await lone.approval(run)
    await approved(lone, run)
    undo_run = (await undo_now(lone, run)).run
    await lone.drain()
    proposed = await lone.approval(undo_run)
    assert approval.counts["undoable"] == proposed.counts["total"] == approval.counts["total"]


async def test_an_account_that_is_not_connected_is_named_before_anything_starts(lone: Shop) -> None:
    """An undo needs the connections of its changes and names a missing one."""
    run = await approved(lone, await lone.waiting(await lone.pricing()))
    await lone.set_connection_state("woocommerce", ConnectionState.NEEDS_RECONNECTING)
    with pytest.raises(NotConnected, match="woocommerce is not connected"):
        await undo_now(lone, run)
    await lone.set_connection_state("woocommerce", ConnectionState.CONNECTED)
    await lone.set_connection_state("spreadsheet", ConnectionState.NEEDS_RECONNECTING)
    assert (await undone(lone, run)).status is RunStatus.SUCCEEDED


async def test_exported_rows_are_removed_and_a_changed_one_stays(lone: Shop) -> None:
    """Appended rows are found by their content and deleted from the last block on; changed ones stay."""
    sheet = {"integration_id": lone.connections["spreadsheet"].integration_id, "tab": "Orders"}
    add_tab(lone, "Orders")
    before = cells(lone, "Orders")
    run = await lone.run_and_drain(await lone.set_up("order-export-to-spreadsheet", {"sheet": sheet}))
    rows = cells(lone, "Orders")
    assert len(rows) > len(before) + 2
    middle = len(rows) - 2
    change_cell(lone, "Orders", middle, 1, "Somebody else")
    ended = await undone(lone, run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    remaining = cells(lone, "Orders")
    assert "Somebody else" in remaining[-1]
    assert len(remaining) <= len(before) + 2
    [change, *_] = [
        each_change for each_change in await lone.changes(ended) if each_change.outcome is Outcome.APPLIED
    ]
    assert change.message is not None
    assert "1 row was changed or taken out since" in change.message
