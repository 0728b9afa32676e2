"""The crash matrix of a Shopify store: every operation in one run, killed or with its responses lost."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steward.database.runs.write_ledger import LedgerState
from steward.failpoint import watch
from steward.model.change import Recovery
from steward.model.run import Mode
from tests.connectors.shopify.changing_service import ShopifyService, stand
from tests.connectors.shopify.every_operation import OPERATIONS
from tests.crash.killing import Killer
from tests.fake_clock import FakeClock

SEED = 20_261_121
# Number of kills drawn from those that one run offers; trying all of them takes minutes.
DRAWN = {"sqlite": 4, "postgresql": 2}
FAULTS = {
    "every answer is lost": [
        {"kind": "drop_after", "operation": name, "count": -1} for name in ("SetPrices", "Capture")
    ]
    + [{"kind": "drop_after", "operation": name} for name in ("SetStock", "Refund", "SetMetafields", "Hold")],
    "requests are lost": [
        {"kind": "drop_before", "operation": name}
        for name in ("SetStock", "Refund", "AddTags", "Publish", "Unpublish", "CancelOrder", "MakeRedirect")
    ],
    "it fails after doing it": [
        {"kind": "status_after", "status": 502, "operation": name}
        for name in ("SetStock", "Refund", "SetStatus", "CloseOrder", "SetOrderNote", "SetCustomerNote")
    ],
}


@pytest.fixture
async def running(
    monkeypatch: pytest.MonkeyPatch, database_url: str, clock: FakeClock, tmp_path: Path
) -> AsyncIterator[ShopifyService]:
    """Yields the service beside the store, once on each engine."""
    running = await stand(monkeypatch, database_url, clock, tmp_path)
    yield running
    watch(None)
    await running.shop.service.close()


@pytest.fixture
async def on_sqlite(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> AsyncIterator[ShopifyService]:
    """Yields the service on SQLite alone, for what does not depend on the engine."""
    running = await stand(monkeypatch, sqlite_url, clock, tmp_path)
    yield running
    watch(None)
    await running.shop.service.close()


async def test_every_change_is_made_once_wherever_the_process_dies(running: ShopifyService) -> None:
    """Makes every change exactly once wherever the process dies.

    See docs/design/writes.md#idempotency-classes and docs/design/writes.md#reconciliation.
    """
    run = await running.play(dry := Killer())
    assert await running.judge(run) == []
    assert len(running.store.applied()) == len(OPERATIONS)
    names = ("before_intent", "after_intent", "after_call", "after_outcome")
    visits = [index for index, point in enumerate(dry.visited) if point in names]
    drawn = sorted(random.Random(SEED).sample(visits, DRAWN[running.shop.engine.dialect]))
    for visit in drawn:
        run = await running.play(killer := Killer([visit]))
        assert len(killer.kills) == 1
        assert await running.judge(run) == [], (killer.kills, visit)


@pytest.mark.parametrize("what", FAULTS)
async def test_every_change_is_made_once_whatever_is_lost(on_sqlite: ShopifyService, what: str) -> None:
    """Makes every change exactly once whatever requests or answers are lost.

    See docs/design/writes.md#protocol-of-one-write and docs/design/writes.md#idempotency-classes.
    """
    run = await on_sqlite.play(Killer(), FAULTS[what])
    assert await on_sqlite.judge(run) == []


async def test_keyed_operations_are_repeated_as_the_same_batch(running: ShopifyService) -> None:
    """Repeats exactly the same batch for operations that carry an idempotency key.

    See docs/design/writes.md#keys and docs/design/writes.md#idempotency-classes.
    """
    lost = [{"kind": "drop_after", "operation": name, "count": 2} for name in ("SetStock", "Refund")]
    run = await running.play(Killer(), lost)
    assert await running.judge(run) == []
    bodies = [entry["body"] for entry in running.store.writes() if "idempotent" in entry["body"]["query"]]
    assert len(bodies) == 6
    assert len({str(body) for body in bodies}) == 2
    assert running.store.keys.repeated == 4
    keyed = [entry for entry in await running.shop.ledger(run) if entry.recovery is Recovery.IDEMPOTENT]
    assert [(entry.state, entry.attempt) for entry in keyed] == [(LedgerState.DONE, 1)] * 2


async def test_a_worker_killed_while_it_asks_again_leaves_it_to_the_next(running: ShopifyService) -> None:
    """Leaves a keyed batch to the next worker when one dies before or after repeating it.

    See docs/design/writes.md#idempotency-classes.
    """
    lost = [{"kind": "drop_after", "operation": "SetStock"}]
    for point in ("before_repeat", "after_repeat"):
        run = await running.play(killer := Killer(points=[point]), lost)
        assert killer.kills == [point]
        assert await running.judge(run) == []


async def test_after_the_window_of_a_key_the_value_is_read_back(running: ShopifyService) -> None:
    """Reads the value back and repeats nothing once the window of an idempotency key has passed.

    See docs/design/writes.md#idempotency-classes.
    """
    running.repopulate()
    await running.shop.restart()
    run = await running.shop.run_now(await running.automation())
    await running.shop.drain()
    await running.shop.approve(run)
    running.store.fault("drop_after", "SetStock")
    await running.shop.drain()
    request = len(running.store.writes())
    await running.shop.clock.advance(21 * 3600)
    ended = await running.shop.until_settled(run)
    assert running.store.keys.repeated == 0
    assert (
        len(
            [record for record in running.store.writes()[request:] if "idempotent" in record["body"]["query"]]
        )
        == 0
    )
    outcomes = {
        change.proposal.parts[0].operation: change.outcome for change in await running.shop.changes(ended)
    }
    assert outcomes["inventory.set"] == "applied"


async def test_a_test_run_sends_nothing_but_reads(running: ShopifyService) -> None:
    """Proposes every change in a test run and sends only reads.

    See docs/design/connectors.md#test-mode and docs/design/fake-platforms.md#control.
    """
    run = await running.shop.run_and_drain(await running.automation(), Mode.TEST)
    assert len(await running.shop.changes(run)) == len(OPERATIONS)
    assert running.store.writes() == []
    assert running.store.documents


async def test_a_store_whose_events_cannot_be_verified_offers_no_topics(on_sqlite: ShopifyService) -> None:
    """Offers no topics for a store whose events cannot be verified.

    See docs/design/api/connections.md#connecting.
    """
    shop = on_sqlite.shop
    rules = shop.service.worker_context.automation_rules
    assert "orders/paid" in rules.topics_of(shop.connections["shopify"])
    on_sqlite.store.domain = "fixed.myshopify.com"
    on_sqlite.listen()
    await shop.restart()
    fixed = {"shop_domain": "fixed.myshopify.com", "access_token": on_sqlite.store.app.fixed_token}
    assert rules.topics_of(await shop.connect("shopify", fixed)) == frozenset()
