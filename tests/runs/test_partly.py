"""A change of several parts of which not all were made: it has failed, and says what was written."""

from steward.model.change import Outcome
from steward.model.run import Run, RunStatus
from tests.crash.killing import killed
from tests.runs.shop import Shop
from tests.runs.test_applying import counts_of


async def hiding(shop: Shop) -> Run:
    """A run whose changes are approved; each hides a product in one part and tags it in another."""
    run = await shop.waiting(await shop.hiding(threshold=5))
    await shop.approve(run)
    return run


async def assert_told(shop: Shop, run: Run, ended: Run) -> None:
    """The first change was made in part: the change, its step and the run's numbers say so."""
    first, *others = await shop.changes(run)
    assert first.outcome is Outcome.FAILED
    assert "Only a part of it was made" in (first.message or "")
    assert "the visibility" in (first.message or "")
    assert "the tags" in (first.message or "")
    assert {change.outcome for change in others} == {Outcome.CANCELLED}
    last = (await shop.steps(run))[-1]
    assert (last["status"], last["counts"]["failed"]) == ("failed", 1)
    assert f"1 failed, {len(others)} cancelled" in last["message"]
    assert counts_of(ended)["failed"] == 1
    assert len(await shop.remembered(run, "half_done")) == 1


async def test_cancelled_between_two_parts(shop: Shop) -> None:
    """The product is hidden and not tagged: neither the numbers nor the steps leave that out."""
    run = await hiding(shop)
    shop.fault("throttle", "PUT", "**", retry_after=600, skip=1)
    await shop.drain()
    await shop.cancel(run)
    await shop.drain()
    ended = await shop.run(run)
    assert ended.status is RunStatus.CANCELLED
    await assert_told(shop, run, ended)


async def test_lost_for_good_between_two_parts(shop: Shop) -> None:
    """The same when three workers are lost."""
    run = await hiding(shop)
    shop.fault("throttle", "PUT", "**", retry_after=600, skip=1)
    await shop.drain()
    await shop.clock.advance(600)
    await killed(shop, "after_start", "after_start", "after_start")
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "interrupted")
    await assert_told(shop, run, ended)


async def test_a_conflict_beside_a_written_part_names_what_was_written(shop: Shop) -> None:
    """It counts as failed: something was changed."""
    run = await hiding(shop)
    [first, *_] = await shop.changes(run)
    product = shop.world.state.shop.products[int(first.proposal.parts[-1].target)]
    product["tags"].append({"id": 990, "name": "Somebody else's", "slug": "else"})
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed")
    [conflict, *others] = await shop.changes(run)
    assert conflict.outcome is Outcome.FAILED
    assert conflict.message == (
        "Stock 0. Only a part of it was made: the new tag “auto-hidden”, the visibility. Not made: the tags."
        " It was changed in the meantime and was left unchanged. Look at it in the store."
    )
    assert {change.outcome for change in others} == {Outcome.APPLIED}
    assert counts_of(ended)["failed"] == 1
