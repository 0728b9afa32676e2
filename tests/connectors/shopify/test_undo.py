"""An undo restores every change of a Shopify store; what cannot be undone is named before."""

import re
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest

from steward.connectors.base.commands import (
    CreateRedirect,
    SetMetafield,
    SetObjectFields,
    SetPublished,
    SetRedirect,
)
from steward.connectors.base.connector import Reader
from steward.connectors.base.queries import (
    FIELDS,
    PRODUCTS,
    REDIRECT,
    FieldsQuery,
    ProductsQuery,
    RedirectQuery,
)
from steward.connectors.base.records import Redirect
from steward.connectors.shopify.connector import Shopify
from steward.failpoint import watch
from steward.model.change import Outcome, Proposal
from steward.model.ids import IntegrationId
from steward.model.run import RunStatus
from tests.connectors.shopify.changing_service import ShopifyService, stand
from tests.connectors.shopify.every_operation import populate, read_all
from tests.crash.killing import Killer
from tests.fake_clock import FakeClock
from tests.fakes.shopify.objects import digest_of
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
async def running(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> AsyncIterator[ShopifyService]:
    """Yields the service beside the store."""
    running = await stand(monkeypatch, sqlite_url, clock, tmp_path)
    yield running
    watch(None)
    await running.shop.service.close()


def _tables(store: ShopifyFake, targets: Collection[str]) -> dict[str, Any]:
    """Returns the rows that changes touched without times; new objects are named by their purpose."""
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
    """Returns a value without times, with empty text as None."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if name not in _UNLIKE}
    return [_plain(entry) for entry in value] if isinstance(value, list) else value or None


async def test_an_undo_restores_rows_and_its_undo_repeats_the_change(running: ShopifyService) -> None:
    """Restores the rows by an undo, and the changed rows by an undo of the undo."""
    run = await running.play(Killer())
    assert run.status is RunStatus.SUCCEEDED
    shop = running.shop
    change_by_id = {change.id: change for change in await shop.changes(run)}
    undoable = [each_change for each_change in change_by_id.values() if each_change.undoable]
    targets = {
        number for item in undoable for number in re.findall(r"\d+", str(item.proposal.parts[0].target))
    }
    before = ShopifyFake(now=running.shop.clock.now)
    before.seed(products=8, orders=2, customers=2)
    populate(before)
    after = _tables(running.store, targets)
    never = {entry.proposal.parts[0].operation for entry in change_by_id.values() if not entry.undoable}
    assert never == _NEVER
    undo_run = await undone(shop, run)
    changes = await shop.changes(undo_run)
    assert {element.proposal.undo_of for element in changes} == {
        each.id for each in change_by_id.values() if each.undoable
    }
    wrong = [
        (each.proposal.parts, each.outcome, each.message)
        for each in changes
        if each.outcome is not Outcome.APPLIED
    ]
    assert wrong == []
    assert (undo_run.status, undo_run.summary is not None) == (RunStatus.SUCCEEDED, True)
    assert _tables(running.store, targets) == _tables(before, targets)
    again = await undone(shop, undo_run)
    assert {each.outcome for each in await shop.changes(again)} == {Outcome.APPLIED}
    held = {name for name in after if "FulfillmentOrder" in name}
    assert len(held) == 1  # released goods are not held again
    redone = _tables(running.store, targets)
    assert {name: row for name, row in redone.items() if name not in held} == {
        name: row for name, row in after.items() if name not in held
    }


async def _first_values(store: ShopifyFake, reader: Reader, whose: IntegrationId) -> dict[str, Proposal]:
    """Sets values that the next step sets again, wholly or in part."""
    products = await read_all(reader, PRODUCTS, ProductsQuery())
    [fields] = await read_all(reader, FIELDS, FieldsQuery("Product", products[7].id))
    return _planned(
        whose,
        SetMetafield(products[6], "custom", "care", "single_line_text_field", "Wash cold"),
        SetMetafield(products[6], "custom", "size", "single_line_text_field", "S"),
        CreateRedirect("/old-pot", "/products/pot-1"),
        SetObjectFields(fields, {"title": "Great pot", "vendor": "Oven"}),
        SetPublished(products[4], products[4].channels[:2], False),
    )


async def _next_values(store: ShopifyFake, reader: Reader, whose: IntegrationId) -> dict[str, Proposal]:
    """Sets some of the values again, by operations and parts of other shapes."""
    products = await read_all(reader, PRODUCTS, ProductsQuery())
    [fields] = await read_all(reader, FIELDS, FieldsQuery("Product", products[7].id))
    redirects: list[Redirect] = await read_all(reader, REDIRECT, RedirectQuery("/old-pot"))
    channel = str(store.of("Publication")[0]["id"].rpartition("/")[2])
    return _planned(
        whose,
        SetMetafield(products[6], "custom", "care", "single_line_text_field", "Wash hot", before="Wash cold",
                     digest=digest_of("Wash cold")),
        SetRedirect(redirects[0], "/products/pot-2"),
        SetObjectFields(fields, {"vendor": "Stove", "templateSuffix": "wide"}),
        SetPublished(products[4], (channel,), True),
    )  # fmt: skip


def _planned(whose: IntegrationId, *commands: Any) -> dict[str, Proposal]:
    operations = {
        SetMetafield: "metafield.set",
        CreateRedirect: "redirect.create",
        SetRedirect: "redirect.set",
        SetObjectFields: "product.set_fields",
        SetPublished: "product.set_published",
    }
    writes = Shopify(version="2026-10", url=None, read_s=20.0).writes
    proposals = {}
    for number, command in enumerate(commands):
        planned = writes[operations[type(command)]].plan([command], integration_id=whose)
        assert planned.problems == (), planned.problems
        [proposals[f"{number}"]] = planned.proposals
    return proposals


async def test_values_that_a_run_set_twice_are_put_back_to_the_first(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Restores the first values when a run set them twice, also looked-up, created and shared ones."""
    current = await stand(monkeypatch, sqlite_url, clock, tmp_path, (_first_values, _next_values))
    run = await current.play(Killer())
    assert run.status is RunStatus.SUCCEEDED, run
    change_by_id = {change.id: change for change in await current.shop.changes(run)}
    assert (len(change_by_id), {each_change.outcome for each_change in change_by_id.values()}) == (
        9,
        {Outcome.APPLIED},
    )
    before = ShopifyFake(now=current.shop.clock.now)
    before.seed(products=8, orders=2, customers=2)
    populate(before)
    targets = {row["id"].rpartition("/")[2] for row in before.of("Product")}
    after = _tables(current.store, targets)
    undo_run = await undone(current.shop, run)
    remaining = [item for item in await current.shop.changes(undo_run) if item.outcome is not Outcome.APPLIED]
    assert remaining == []
    assert _tables(current.store, targets) == _tables(before, targets)
    redo_run = await undone(current.shop, undo_run)
    redone = _tables(current.store, targets)
    assert {name for name in after if redone[name] != after[name]} == {"redirect /old-pot"}
    remaining = [
        entry for entry in await current.shop.changes(redo_run) if entry.outcome is not Outcome.APPLIED
    ]
    assert [(element.outcome, element.proposal.parts[0].target) for element in remaining] == [
        (Outcome.CONFLICT, "/old-pot")
    ]
    assert redone["redirect /old-pot"]["target"] == "/products/pot-1"
    await current.shop.service.close()
