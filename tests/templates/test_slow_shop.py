"""Tests a shop that takes 2 to 20 s for a page: every test run ends, and urgent writes go first."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest

from steward.connectors.base.commands import SetPrice
from steward.connectors.base.queries import PRODUCTS, ProductsQuery
from steward.connectors.base.writing import WriteState
from steward.fake_platforms.slow import Slowness
from steward.model.change import Outcome
from steward.model.run import Mode
from tests.connectors.fake_connections import outside
from tests.fake_clock import FakeClock
from tests.templates.full_store import BY_ID, INPUTS, FullStore

SLOW = Slowness(2, 20)
# The default limit of a run's time.
RUN_LIMIT_S = timedelta(hours=1).total_seconds()


@pytest.mark.parametrize("slow", [SLOW, Slowness(2, 150)], ids=["slow", "too slow for long pages"])
async def test_every_template_ends_on_a_slow_shop(clock: FakeClock, slow: Slowness) -> None:
    """Every template ends within the limit, also where pages of 100 time out and shorter ones are read."""
    store = FullStore("woocommerce", clock, 40)
    await store.fill()
    store.place.world.state.slow = slow
    for name in INPUTS:
        template = BY_ID[name]
        if template.facts.platforms and "woocommerce" not in template.facts.platforms:
            continue
        begun = clock.monotonic()
        run = await clock.through(store.stage(name).run(mode=Mode.TEST, outcome=Outcome.REFUSED_TEST))
        assert run.failed is None, (name, run.failed)
        assert clock.monotonic() - begun < RUN_LIMIT_S, name
    assert store.written() == 0
    await store.close()


async def test_an_approved_write_starts_within_ten_seconds_while_ten_runs_read(clock: FakeClock) -> None:
    """An approved write arrives at the shop within ten seconds while ten runs read all products."""
    platform = outside(clock)
    shop = platform.connection("woocommerce")
    platform.world.load_products(600)
    first = next(row["id"] for row in platform.world.state.shop.products.values() if row["type"] == "simple")
    [product] = await shop.all(PRODUCTS, ProductsQuery(ids=(str(first),)))
    platform.world.state.slow = SLOW
    read = partial(shop.all, PRODUCTS, ProductsQuery())
    runs = [asyncio.create_task(read()) for _ in range(10)]
    for number in range(5):
        await clock.advance(17)
        assert not any(run.done() for run in runs)
        [changed] = shop.plan(
            "variant.set_price", SetPrice(product.variants[0], f"{50 + number}.00")
        ).proposals
        begun, before = clock.now(), platform.world.state.ledger.writes_total
        sending = asyncio.create_task(shop.send(changed.parts))
        while platform.world.state.ledger.writes_total == before:
            assert clock.now() - begun <= timedelta(seconds=10)
            await clock.advance(0.5)
        await clock.advance(SLOW.min_s)
        assert [outcome.state for outcome in await sending] == [WriteState.APPLIED]
    for run in runs:
        run.cancel()
    await asyncio.gather(*runs, return_exceptions=True)
    assert all(run.cancelled() for run in runs)
