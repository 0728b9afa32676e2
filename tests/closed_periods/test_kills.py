"""A service that is killed while a closed period holds a run: nothing is sent, and all is written afterwards.

See docs/design/closed-periods.md#writing.
"""

from tests.closed_periods.closing import Closer
from tests.crash.killing import judge, killed
from tests.runs.shop import Shop


async def test_a_held_run_survives_the_death_of_its_worker(shop: Shop, shopkeeper: Closer) -> None:
    """Killed before it sleeps and once it sleeps: held again, its writes are made once, after the end."""
    run = await shop.waiting(await shop.pricing())
    frozen = await shopkeeper.freeze()
    await shop.approve(run)
    await killed(shop, "before_gate_sleep", "after_sleep")
    await shop.drain()
    assert shop.writes() == []
    assert (await shop.run(run)).held_name == frozen.period.name
    await Closer(shop.engine, shop.clock, shop.owner).end(frozen)
    ended = await shop.until_settled(run)
    assert await judge(shop, ended, blind=False) == []
