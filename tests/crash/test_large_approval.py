"""Tests two hundred changes of two parts in one approval with three kills in the middle."""

import pytest

from steward.model.automation import Automation
from tests.crash import killing
from tests.crash.killing import Killer, judge, play
from tests.runs.shop import Shop

CHANGES = 200


async def _hiding(shop: Shop) -> Automation:
    shop.world.load_products(CHANGES + 20)
    return await shop.hiding(threshold=100_000, limit=5_000)


async def test_two_hundred_changes_killed_three_times_are_applied_once_each(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is written once, and the run, which gets further in each life, ends.

    See docs/guides/contributors.md#tests.
    """
    monkeypatch.setitem(killing.KINDS, "large", _hiding)
    # Visits in each life: among the first batches, then twice while a call is under way.
    killer = Killer([32, 13, 13])
    run = await play(shop, "large", killer)
    assert len(await shop.changes(run)) >= CHANGES
    assert await judge(shop, run, blind=False) == [], killer.kills
    assert len(killer.kills) == 3
