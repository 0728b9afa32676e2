"""Tests changes of which only some parts were written: they fail and name what was written."""

from steward.model.change import Outcome
from steward.model.run import Run, RunStatus
from tests.crash.killing import kill_at
from tests.runs.shop import Shop
from tests.runs.test_applying import counts_of


async def approved_hiding_run(shop: Shop) -> Run:
    """Returns a run with approved changes that each hide a product in one part and tag it in another."""
    run = await shop.waiting(await shop.hiding(threshold=5))
    await shop.approve(run)
    return run


async def assert_partial_write_reported(shop: Shop, run: Run, ended: Run) -> None:
    """Asserts that the first change, its step and the run's counts report the partial write."""
    first, *others = await shop.changes(run)
    assert first.outcome is Outcome.FAILED
    assert "Only part of the change was made" in (first.message or "")
    assert "the visibility" in (first.message or "")
    assert "the tags" in (first.message or "")
    assert {change.outcome for change in others} == {Outcome.CANCELLED}
    last = (await shop.steps(run))[-1]
    assert (last["status"], last["counts"]["failed"]) == ("failed", 1)
    assert f"1 failed, {len(others)} cancelled" in last["message"]
    assert counts_of(ended)["failed"] == 1
    assert len(await shop.remembered(run, "half_done")) == 1


async def test_cancelled_between_two_parts(shop: Shop) -> None:
    """A run cancelled between two parts reports the product that is hidden but not tagged."""
    run = await approved_hiding_run(shop)
    shop.fault("throttle", "PUT", "**", retry_after=600, skip=1)
    await shop.drain()
    await shop.cancel(run)
    await shop.drain()
    ended = await shop.run(run)
    assert ended.status is RunStatus.CANCELLED
    await assert_partial_write_reported(shop, run, ended)


async def test_lost_permanently_between_two_parts(shop: Shop) -> None:
    """A run interrupted between two parts by three lost workers reports it as well."""
    run = await approved_hiding_run(shop)
    shop.fault("throttle", "PUT", "**", retry_after=600, skip=1)
    await shop.drain()
    await shop.clock.advance(600)
    await kill_at(shop, "after_start", "after_start", "after_start")
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "interrupted")
    await assert_partial_write_reported(shop, run, ended)


async def test_a_conflict_beside_a_written_part_names_what_was_written(shop: Shop) -> None:
    """A conflict in one part after another was written counts as failed."""
    run = await approved_hiding_run(shop)
    [first, *_] = await shop.changes(run)
    product = shop.world.state.shop.products[int(first.proposal.parts[-1].target)]
    product["tags"].append({"id": 990, "name": "Somebody else's", "slug": "else"})
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed")
    [conflict, *others] = await shop.changes(run)
    assert conflict.outcome is Outcome.FAILED
    assert conflict.message == (
        "Stock 0. Only part of the change was made: the new tag “auto-hidden”, the visibility."
        " Not made: the tags."
        " It was changed in the meantime and was left unchanged. Check it in the store."
    )
    assert {change.outcome for change in others} == {Outcome.APPLIED}
    assert counts_of(ended)["failed"] == 1
