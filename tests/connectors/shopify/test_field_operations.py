"""Plain fields, existing redirects and holds that end: invalid values and values equal already."""

from typing import Any

import pytest

from steward.connectors.base.commands import CapturePayment, ReleaseFulfilment, SetObjectFields, SetRedirect
from steward.connectors.base.queries import (
    FIELDS,
    METAFIELD,
    ORDER,
    PRODUCTS,
    REDIRECT,
    ById,
    FieldsQuery,
    MetafieldQuery,
    ProductsQuery,
    RedirectQuery,
)
from steward.connectors.base.writing import WriteState
from steward.outbound.errors import RemoteNotFound
from tests.connectors.shopify.bench import StoreConnection
from tests.fakes.shopify.goods import number
from tests.fakes.shopify.objects import holds_of


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("title", "T" * 255, ("", "T" * 256, " Pot", "a\nb", 7)),
        ("vendor", "", ("V" * 256, "a\u0000", True)),
        ("handle", "new-pot-2", ("", "New", "a--b", "-a", "a/b")),
        ("templateSuffix", "wide", ("x ",)),
        ("descriptionHtml", None, ("<p>x</p>",)),
    ],
)
async def test_a_field_takes_only_what_fits(
    bench: StoreConnection, name: str, good: Any, bad: tuple[Any, ...]
) -> None:
    """Plans a valid value of each field and reports an invalid one as a problem.

    See docs/design/connectors.md#operations.
    """
    [product, *_] = await bench.all(PRODUCTS, ProductsQuery())
    [pot] = await bench.all(FIELDS, FieldsQuery("Product", product.id))
    for value in bad:
        planned = bench.plan("product.set_fields", SetObjectFields(pot, {name: value}))
        assert [problem.field for problem in planned.problems] == [name], value
        assert planned.proposals == ()
    if good is not None:
        [proposal] = bench.plan("product.set_fields", SetObjectFields(pot, {name: good})).proposals
        assert [field.field for field in proposal.fields] == [name]
        assert proposal.parts[0].before == {name: pot.values[name]}


async def test_equal_values_plan_no_change(bench: StoreConnection) -> None:
    """Plans nothing for equal values: emails without regard to case, and empty for none.

    See docs/design/connectors.md#change-operations.
    """
    row = bench.store.of("Customer")[0]
    [person] = await bench.all(FIELDS, FieldsQuery("Customer", str(number(row))))
    fields = SetObjectFields(person, {"firstName": row["firstName"], "taxExempt": None})
    assert bench.plan("customer.set_fields", fields).unchanged == (person.id,)
    first = bench.store.of("Order")[0]
    [order] = await bench.all(FIELDS, FieldsQuery("Order", str(number(first))))
    fields = SetObjectFields(order, {"email": "Buyer@shop.example", "phone": None, "poNumber": ""})
    assert bench.plan("order.set_fields", fields).unchanged == (order.id,)
    for values in ({"email": "no address"}, {"phone": "030 123"}, {"note": "x"}, {"email": "a@b@c.d"}):
        assert len(bench.plan("order.set_fields", SetObjectFields(order, values)).problems) == 1, values
    [read] = await bench.all(ORDER, ById(order.id))
    release = ReleaseFulfilment(read, read.fulfilment_orders[0], ("7",))
    assert bench.plan("fulfillment.release", release).unchanged == (order.id,)
    bench.store.make("UrlRedirect", path="/a", target="/b")
    [there] = await bench.all(REDIRECT, RedirectQuery("/a"))
    assert bench.plan("redirect.set", SetRedirect(there, "/b")).unchanged == ("/a",)
    assert [problem.code for problem in bench.plan("redirect.set", SetRedirect(there, "b c")).problems] == [
        "not_a_target"
    ]
    assert await bench.all(REDIRECT, RedirectQuery("/none")) == []


async def test_a_redirect_recreated_at_the_same_path_is_left_alone(bench: StoreConnection) -> None:
    """Treats a redirect that was created again under its path as gone.

    See docs/design/writes.md#protocol-of-one-write.
    """
    old = bench.store.make("UrlRedirect", path="/a", target="/b")
    [there] = await bench.all(REDIRECT, RedirectQuery("/a"))
    [proposal] = bench.plan("redirect.set", SetRedirect(there, "/c")).proposals
    bench.store.rows.take(old["id"])
    bench.store.make("UrlRedirect", path="/a", target="/b")
    [now] = await bench.reader().current(proposal.parts)
    assert now.is_gone


async def test_a_metafield_is_read_with_its_version(bench: StoreConnection) -> None:
    """Reads a metafield with its digest; none for an object without it, and RemoteNotFound for no object.

    See docs/design/connectors.md#shopify.
    """
    row = bench.store.of("Product")[0]
    query = MetafieldQuery("Product", str(number(row)), "custom", "care")
    assert await bench.all(METAFIELD, query) == []
    bench.store.make("Metafield", owner=row["id"], namespace="custom", key="care", type="text", value="Dry")
    [metafield] = await bench.all(METAFIELD, query)
    assert (metafield.value, metafield.type, bool(metafield.digest)) == ("Dry", "text", True)
    for kind in ("Product", "Order"):
        with pytest.raises(RemoteNotFound):
            await bench.all(METAFIELD, MetafieldQuery(kind, "7", "custom", "care"))
    with pytest.raises(RemoteNotFound):
        await bench.all(FIELDS, FieldsQuery("Shop", "1"))


async def test_a_hold_made_since_is_not_ended_with_those_that_were_shown(bench: StoreConnection) -> None:
    """Ends the holds that were shown and leaves one made since. See docs/design/security.md#promises."""
    row = bench.store.add_order(bench.store.of("ProductVariant")[:1])
    sending = bench.store.rows[row["fulfillmentOrders"][0]]
    sending.update(status="ON_HOLD", holds=["first"])
    displayed = tuple(record["id"].rpartition("/")[2] for record in holds_of(sending))
    [order] = await bench.all(ORDER, ById(str(number(row))))
    [proposal] = bench.plan(
        "fulfillment.release", ReleaseFulfilment(order, order.fulfilment_orders[0], displayed)
    ).proposals
    operation, [part] = bench.connector.writes["fulfillment.release"], proposal.parts
    sending["holds"].append("risk")
    [now] = await bench.reader().current([part])
    assert not operation.same(part.before, now.value)
    await bench.send(bench.batch([part]))
    assert (sending["status"], sending["holds"]) == ("ON_HOLD", ["risk"])


async def test_an_expired_authorized_payment_is_not_reported_as_captured(bench: StoreConnection) -> None:
    """Settles a voided payment as a conflict, neither as captured before nor as applied.

    See docs/design/writes.md#protocol-of-one-write and docs/design/writes.md#idempotency-classes.
    """
    row = bench.store.add_order(bench.store.of("ProductVariant")[:1], payment="AUTHORIZED")
    [order] = await bench.all(ORDER, ById(str(number(row))))
    [proposal] = bench.plan("order.capture", CapturePayment(order)).proposals
    assert [(field.field, field.after) for field in proposal.fields] == [
        ("payment", "paid"),
        ("captured", order.authorizations[0].amount),
    ]
    operation, [part] = bench.connector.writes["order.capture"], proposal.parts
    row["displayFinancialStatus"] = "VOIDED"
    [now] = await bench.reader().current([part])
    assert not operation.same(part.after, now.value)
    assert not operation.same(part.before, now.value)
    assert (await bench.reader().confirm(part)).state is WriteState.CONFLICT
