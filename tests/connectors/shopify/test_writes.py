"""Every change of a Shopify store: done, refused, or lost on either way, with at most one effect."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from steward.connectors.base.commands import SetPrice, SetStock, SetTags
from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import Batch, Proposal, Recovery, batch_key
from steward.outbound.errors import ErrorKind
from tests.connectors.shopify.bench import NUMBER, StoreConnection
from tests.connectors.shopify.every_operation import OPERATIONS, one_of_each, populate
from tests.fake_clock import FakeClock
from tests.fakes.shopify.goods import number
from tests.fakes.shopify.store import ShopifyFake

APPLIED, UNKNOWN, NOT_SENT = WriteState.APPLIED, WriteState.UNKNOWN, WriteState.NOT_SENT
CONFLICT, REFUSED = WriteState.CONFLICT, WriteState.REFUSED
# A job of the store: the response says only that it was accepted.
JOBS = {"order.cancel"}


async def proposed(bench: StoreConnection) -> dict[str, Proposal]:
    """Returns a planned change of every operation."""
    populate(bench.store)
    return await one_of_each(bench.store, bench.reader(), NUMBER)


async def stocked(bench: StoreConnection) -> list[Variant]:
    """Returns the variants with their stock at the only location."""
    location = str(number(bench.store.of("Location")[0]))
    return await bench.all(VARIANTS, ProductsQuery(location=location))


def once(store: ShopifyFake) -> None:
    """Checks that no key was applied twice and no field of an object written twice."""
    keys = Counter(entry["idempotency_key"] for entry in store.applied())
    touched = Counter((item["id"], *item["fields"]) for entry in store.applied() for item in entry["objects"])
    assert [element for element, times in (keys + touched).items() if times > 1] == []


async def test_every_change_is_written_once_and_recorded_as_done(bench: StoreConnection) -> None:
    """Applies each change once under its own key when the echo is as planned, and confirms it by reading.

    See docs/design/connectors.md#operations and docs/design/connectors.md#change-operations.
    """
    for name, proposal in (await proposed(bench)).items():
        for part in proposal.parts:
            before = len(bench.store.applied())
            [outcome] = await bench.send(bench.batch([part]))
            assert outcome.state is (UNKNOWN if name in JOBS else APPLIED), (name, outcome)
            assert len(bench.store.applied()) == before + 1, name
            settled = await bench.reader().confirm(part)
            assert settled.state is APPLIED, (name, settled)
    once(bench.store)
    keys = [entry["idempotency_key"] for entry in bench.store.writes()]
    assert None not in keys
    assert len(set(keys)) == len(keys)


async def test_predicted_values_equal_those_read_after_the_change(bench: StoreConnection) -> None:
    """Predicts the value that reading returns after the change.

    See docs/design/connectors.md#change-operations.
    """
    for name, proposal in (await proposed(bench)).items():
        operation = bench.connector.writes[name]
        for part in proposal.parts:
            [now] = await bench.reader().current([part])
            foretold, unknown = operation.predict(now.value, part.arguments)
            assert operation.same(part.before, now.value), name
            await bench.send(bench.batch([part]))
            [after] = await bench.reader().current([part])
            assert unknown == ()
            assert operation.same(foretold, after.value), (name, foretold, after.value)


@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "status", "status_after"])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_lost_request_or_response_is_unknown_and_found_out(
    bench: StoreConnection, clock: FakeClock, operation: str, kind: str
) -> None:
    """Leaves a lost request or answer unknown, then reads back or repeats under the same key.

    See docs/design/writes.md#protocol-of-one-write and docs/design/writes.md#idempotency-classes.
    """
    proposal = (await proposed(bench))[operation]
    [part, *_] = proposal.parts
    batch = bench.batch([part])
    bench.store.fault(kind, **({"status": 502} if kind.startswith("status") else {}))
    [outcome] = await bench.send(batch)
    assert outcome.state is UNKNOWN
    assert len(bench.store.writes()) == 1
    was_done = kind.endswith("after")
    assert len(bench.store.applied()) == was_done

    if bench.connector.writes[operation].recovery_of(part) is Recovery.IDEMPOTENT:
        await clock.advance(timedelta(hours=19).total_seconds())
        [again] = await bench.send(batch)
        assert again.state is APPLIED, again
        assert bench.store.keys.repeated == was_done
    else:
        settled = await bench.reader().confirm(part)
        assert settled.state is (APPLIED if was_done else NOT_SENT)
        if not was_done:
            await bench.send(bench.batch([part]))
    once(bench.store)
    assert (await bench.reader().confirm(part)).state is APPLIED


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_throttled_and_refused_writes_are_not_sent_again(
    bench: StoreConnection, clock: FakeClock, operation: str
) -> None:
    """Sends nothing again after throttling or a refusal, and names the wait or the error.

    See docs/design/writes.md#protocol-of-one-write and docs/design/connectors.md#errors.
    """
    [part, *_] = (await proposed(bench))[operation].parts
    bench.store.fault("throttle", retry_after=7)
    [limited] = await bench.send(bench.batch([part]))
    assert (limited.state, limited.wait_s) == (NOT_SENT, 7.0)
    await clock.advance(7)
    cost = {"requestedQueryCost": 10, "actualQueryCost": None}
    status = {"maximumAvailable": 2000, "currentlyAvailable": 4, "restoreRate": 100}
    errors = [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}]
    body = {"errors": errors, "extensions": {"cost": {**cost, "throttleStatus": status}}}
    bench.store.fault("status", status=200, body=body)
    [spent] = await bench.send(bench.batch([part]))
    assert spent.state is NOT_SENT
    assert spent.wait_s == pytest.approx(0.06 + 0.25)
    await clock.advance(60)
    for code, kind in ((401, "unauthorized"), (402, "forbidden"), (423, "forbidden"), (404, "wrong_address")):
        bench.store.fault("status", status=code)
        [refused] = await bench.send(bench.batch([part]))
        assert (refused.state, refused.error) == (REFUSED, kind)
    denied = [{"message": "Access denied: `write_x` access scope", "extensions": {"code": "ACCESS_DENIED"}}]
    bench.store.fault("status", status=200, body={"errors": denied, "data": None})
    [forbidden] = await bench.send(bench.batch([part]))
    assert (forbidden.state, forbidden.error) == (REFUSED, "forbidden")
    assert "write_x" in str(forbidden.reason)
    assert bench.store.applied() == []


@pytest.mark.parametrize(
    "body",
    [
        "<html>A proxy says hello</html>",
        {"data": {}},
        {"data": None},
        {"data": {"x": 1}, "errors": [{"message": "y"}]},
        [],
        {"data": {"productVariantsBulkUpdate": {"productVariants": [], "userErrors": []}}},
        {"data": {"productVariantsBulkUpdate": {"productVariants": [{"id": 7}], "userErrors": []}}},
        {"data": {"productVariantsBulkUpdate": {"productVariants": None}}},
    ],
)
async def test_a_response_without_the_planned_echo_is_unknown(bench: StoreConnection, body: Any) -> None:
    """Treats a response without the planned echo as unknown and settles it by reading.

    See docs/design/connectors.md#tests.
    """
    [part] = (await proposed(bench))["variant.set_price"].parts
    bench.store.fault("status_after", status=200, body=body)
    [outcome] = await bench.send(bench.batch([part]))
    assert outcome.state is UNKNOWN
    assert (await bench.reader().confirm(part)).state is APPLIED


async def test_another_echo_is_no_success(bench: StoreConnection) -> None:
    """Treats an echo with another value as unknown in spite of status 200.

    See docs/design/connectors.md#rules.
    """
    [part] = (await proposed(bench))["variant.set_price"].parts
    row = {"id": f"gid://shopify/ProductVariant/{part.target}", "price": "1.00", "compareAtPrice": None}
    payload = {"productVariants": [{**row, "updatedAt": "2026-05-01T06:00:00Z"}], "userErrors": []}
    bench.store.fault("status", status=200, body={"data": {"productVariantsBulkUpdate": payload}})
    [outcome] = await bench.send(bench.batch([part]))
    assert outcome.state is UNKNOWN
    assert (await bench.reader().confirm(part)).state is NOT_SENT


async def test_prices_of_a_product_go_together_and_fail_alone(bench: StoreConnection) -> None:
    """Sets prices of one product in calls of at most 250 variants; one that is gone fails alone.

    See docs/design/connectors.md#operations.
    """
    product = bench.store.add_product(
        "Many", price="5.00", options=tuple(f"Size {index}" for index in range(252))
    )
    variants = [variant for variant in await bench.all(VARIANTS, ProductsQuery(ids=(str(number(product)),)))]
    planned = bench.plan("variant.set_price", *[SetPrice(each_variant, "6.00") for each_variant in variants])
    parts = [part for proposal in planned.proposals for part in proposal.parts]
    first, second = bench.connector.writes["variant.set_price"].group(parts)
    assert (len(first), len(second)) == (250, 2)
    del bench.store.rows[f"gid://shopify/ProductVariant/{second[0].target}"]
    outcomes = await bench.send(bench.batch(second))
    assert [outcome.state for outcome in outcomes] == [CONFLICT, APPLIED]
    assert len(bench.store.writes()) == 1


async def test_stock_is_swapped_only_for_the_number_that_was_seen(bench: StoreConnection) -> None:
    """Sets stock only from the number that was seen; one stale item stops its batch, the others may go again.

    See docs/design/connectors.md#operations.
    """
    seen = [variant for variant in await stocked(bench) if variant.stock][:3]
    planned = bench.plan("inventory.set", *[SetStock(each_variant, 99) for each_variant in seen])
    parts = [part for proposal in planned.proposals for part in proposal.parts]
    level = next(
        row
        for row in bench.store.of("InventoryLevel")
        if number({"id": row["item"]}) == int(seen[1].item_id or 0)
    )
    level["available"] = 3
    outcomes = await bench.send(bench.batch(parts))
    assert [outcome.state for outcome in outcomes] == [NOT_SENT, CONFLICT, NOT_SENT]
    assert bench.store.applied() == []
    rest = await bench.send(bench.batch([parts[0], parts[2]]))
    assert [each_outcome.state for each_outcome in rest] == [APPLIED, APPLIED]
    assert level["available"] == 3


async def test_a_key_means_one_request_for_a_day(bench: StoreConnection, clock: FakeClock) -> None:
    """Accepts one request for a key within a day; other values are an error, and a parallel one waits.

    See docs/design/connectors.md#errors and docs/design/connectors.md#operations.
    """
    [variant, other] = [each_variant for each_variant in await stocked(bench) if each_variant.stock][:2]
    [part] = bench.plan("inventory.set", SetStock(variant, 50)).proposals[0].parts
    [second] = bench.plan("inventory.set", SetStock(other, 51)).proposals[0].parts
    batch = bench.batch([part])
    bench.store.keys.under_way.add(batch.key)
    [busy] = await bench.send(batch)
    assert (busy.state, busy.wait_s) == (NOT_SENT, 2.0)
    bench.store.keys.under_way.clear()
    assert [outcome.state for outcome in await bench.send(batch)] == [APPLIED]
    misused = Batch((second,), batch.write_keys, batch.key)
    [defect] = await bench.send(misused)
    assert (defect.state, defect.error) == (UNKNOWN, ErrorKind.BROKEN)
    assert [each_outcome.state for each_outcome in await bench.send(batch)] == [APPLIED]
    await clock.advance(timedelta(hours=25).total_seconds())
    [late] = await bench.send(batch)
    assert (
        late.state is CONFLICT
    )  # the key is forgotten, but the expected number is gone, so nothing happens twice
    assert len(bench.store.applied()) == 1


async def test_tags_are_added_and_removed_in_two_parts(bench: StoreConnection) -> None:
    """Adds and removes tags in two parts, without regard to case.

    See docs/design/connectors.md#operations.
    """
    product = bench.store.of("Product")[0]
    product["tags"] = ["Old", "Kept"]
    [read] = [
        each_product for each_product in await bench.all_products() if each_product.id == str(number(product))
    ]
    assert bench.plan("product.set_tags", SetTags(read, ("OLD", "kept"))).unchanged == (read.id,)
    [proposal] = bench.plan("product.set_tags", SetTags(read, ("kept", "New"))).proposals
    assert [dict(part.arguments) for part in proposal.parts] == [{"add": ["New"]}, {"remove": ["Old"]}]
    for part in proposal.parts:
        assert [outcome.state for outcome in await bench.send(bench.batch([part]))] == [APPLIED]
    assert sorted(product["tags"]) == ["Kept", "New"]


async def test_changes_of_deleted_objects_are_conflicts(bench: StoreConnection) -> None:
    """Reports changes of objects that are gone as conflicts or refused.

    See docs/design/connectors.md#errors.
    """
    for name, proposal in (await proposed(bench)).items():
        if name in ("redirect.create", "refund.create", "order.capture", "order.cancel"):
            continue
        [part, *_] = proposal.parts
        stored = dict(bench.store.rows)
        for row in stored.values():
            if row["__typename"] != "Location":
                del bench.store.rows[row["id"]]
        [outcome] = await bench.send(bench.batch([part]))
        assert outcome.state in (CONFLICT, REFUSED), (name, outcome)
        [now] = await bench.reader().current([part])
        assert now.is_gone, name
        for key, row in stored.items():
            bench.store.rows[key] = row
    assert bench.store.applied() == []


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [({"displayFinancialStatus": "PAID"}, CONFLICT), ({"cancelledAt": "2026-05-01T07:00:00Z"}, APPLIED)],
)
async def test_an_order_that_was_paid_meanwhile_is_not_cancelled(
    bench: StoreConnection, changed: dict[str, str], outcome: WriteState
) -> None:
    """Settles an order that was paid meanwhile as a conflict and a cancelled one as applied.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders.
    """
    [part] = (await proposed(bench))["order.cancel"].parts
    bench.store.rows[f"gid://shopify/Order/{part.target}"].update(changed)
    settled: WriteOutcome = await bench.reader().confirm(part)
    assert settled.state is outcome


async def test_a_part_of_another_batch_key_never_leaves(bench: StoreConnection) -> None:
    """Sends no part under the batch key of other writes. See docs/design/connectors.md#test-mode."""
    [part] = (await proposed(bench))["order.set_note"].parts
    keys = bench.keys(2)
    wrong = Batch((part,), (keys[0],), batch_key(keys))
    [outcome] = await bench.writer(keys).apply(wrong)
    assert (outcome.state, outcome.error) == (NOT_SENT, "refused")
    assert bench.store.writes() == []
