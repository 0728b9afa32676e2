"""Every change of a Shopify store is put back by an undo, and what cannot be is named before."""

import re
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest

from steward.failpoint import watch
from steward.model.change import Outcome
from steward.model.run import RunStatus
from tests.connectors.shopify.each import furnish
from tests.connectors.shopify.running import Stand, stand
from tests.crash.killing import Killer
from tests.fake_clock import FakeClock
from tests.fakes.shopify.store import ShopifyFake
from tests.runs.undoing import undone

_NEVER = {"order.cancel", "order.capture", "refund.create", "fulfillment.release"}
_UNLIKE = {
    "updatedAt",
    "createdAt",
    "closedAt",
    "processedAt",
    "id",
    "deleteConflictingConstrainedMetafields",
}


@pytest.fixture
async def here(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> AsyncIterator[Stand]:
    """The service beside the store."""
    made = await stand(monkeypatch, sqlite_url, clock, tmp_path)
    yield made
    watch(None)
    await made.shop.service.close()


def _tables(store: ShopifyFake, targets: Collection[str]) -> dict[str, Any]:
    """The rows that changes touched, without times; what is made anew is called by what it is for."""
    tables = {}
    for row in store.rows.values():
        if row["__typename"] == "UrlRedirect":
            tables[f"redirect {row['path']}"] = _plain(row)
        elif row["__typename"] == "Metafield":
            tables[f"metafield {row['owner']} {row['namespace']}.{row['key']}"] = _plain(row)
        elif row["id"].rpartition("/")[2] in targets:
            tables[row["id"]] = _plain(row)
    return tables


def _plain(value: Any) -> Any:
    """A value without times; an empty text is none."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if name not in _UNLIKE}
    return [_plain(each) for each in value] if isinstance(value, list) else value or None


async def test_what_was_changed_in_a_store_is_put_back_and_done_again(here: Stand) -> None:
    """Run, approve, undo, approve: the rows are as before; undoing the undo makes them as after the run."""
    run = await here.play(Killer())
    assert run.status is RunStatus.SUCCEEDED
    shop = here.shop
    made = {each.id: each for each in await shop.changes(run)}
    undoable = [each for each in made.values() if each.undoable]
    targets = {
        number for each in undoable for number in re.findall(r"\d+", str(each.proposal.parts[0].target))
    }
    before = ShopifyFake(now=here.shop.clock.now)
    before.seed(products=8, orders=2, customers=2)
    furnish(before)
    after = _tables(here.store, targets)
    never = {each.proposal.parts[0].operation for each in made.values() if not each.undoable}
    assert never == _NEVER
    undo_run = await undone(shop, run)
    changes = await shop.changes(undo_run)
    assert {each.proposal.undo_of for each in changes} == {each.id for each in made.values() if each.undoable}
    wrong = [
        (each.proposal.parts, each.outcome, each.message)
        for each in changes
        if each.outcome is not Outcome.APPLIED
    ]
    assert wrong == []
    assert (undo_run.status, undo_run.summary is not None) == (RunStatus.SUCCEEDED, True)
    assert _tables(here.store, targets) == _tables(before, targets)
    again = await undone(shop, undo_run)
    assert {each.outcome for each in await shop.changes(again)} == {Outcome.APPLIED}
    held = {name for name in after if "FulfillmentOrder" in name}
    assert len(held) == 1  # goods that were released are not held again
    redone = _tables(here.store, targets)
    assert {name: row for name, row in redone.items() if name not in held} == {
        name: row for name, row in after.items() if name not in held
    }
