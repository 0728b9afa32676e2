"""Plans one change of every operation of the connector from what the fake store holds."""

from typing import Any

from steward.connectors.base.commands import (
    CancelOrder,
    CapturePayment,
    ChangeTags,
    CloseOrder,
    CreateRedirect,
    CreateRefund,
    HoldFulfilment,
    ReleaseFulfilment,
    SetCustomerTags,
    SetDraftOrderTags,
    SetMetafield,
    SetNote,
    SetObjectFields,
    SetOrderTags,
    SetPrice,
    SetPublished,
    SetRedirect,
    SetStatus,
    SetStock,
    SetTags,
)
from steward.connectors.base.connector import Reader
from steward.connectors.base.queries import (
    CUSTOMERS,
    DRAFT_ORDER,
    FIELDS,
    ORDERS,
    PRODUCTS,
    REDIRECT,
    VARIANTS,
    ById,
    CustomersQuery,
    FieldsQuery,
    OrdersQuery,
    ProductsQuery,
    RedirectQuery,
)
from steward.connectors.base.records import DraftOrder, Order, Payment
from steward.connectors.shopify.connector import Shopify
from steward.model.change import Proposal
from steward.model.ids import IntegrationId
from tests.fakes.shopify.goods import number
from tests.fakes.shopify.objects import holds_of
from tests.fakes.shopify.store import ShopifyFake

OPERATIONS = (
    *(
        "variant.set_price",
        "inventory.set",
        "product.set_status",
        "product.set_published",
        "product.set_tags",
    ),
    *("order.set_tags", "customer.set_tags", "draft_order.set_tags", "order.set_note", "customer.set_note"),
    *("order.cancel", "order.close", "fulfillment.hold", "order.capture", "refund.create", "metafield.set"),
    *("redirect.create", "redirect.set", "fulfillment.release"),
    *("product.set_fields", "order.set_fields", "customer.set_fields"),
    *("order.change_tags", "product.change_tags", "customer.change_tags", "draft_order.change_tags"),
)

# Planned by an undo alone, to take back what other operations created.
ONLY_UNDONE = {"metafield.delete", "redirect.delete"}


def populate(store: ShopifyFake) -> None:
    """Adds the drafts, redirects and orders that the changes need beside the seeded products."""
    store.add_draft("#D1")
    store.add_draft("#D2")["tags"] = ["old"]
    variants = store.of("ProductVariant")[:2]
    store.make("UrlRedirect", path="/older-pot", target="/products/pot-2")
    released = store.add_order(variants)
    store.add_order(variants)
    store.add_order(variants, tags=["old"])
    store.rows[released["fulfillmentOrders"][0]].update(status="ON_HOLD", holds=["other"])
    for payment in ("PENDING", "PENDING", "PENDING", "PENDING", "PENDING", "AUTHORIZED", "PAID"):
        store.add_order(variants, payment=payment)


async def read_all(reader: Reader, op: Any, query: Any) -> list[Any]:
    """Returns every item of a read."""
    return [item async for page in reader.read(op, query) for item in page.items]


async def one_of_each(store: ShopifyFake, reader: Reader, whose: IntegrationId) -> dict[str, Proposal]:
    """Returns one planned change for each operation by its name."""
    location = str(number(store.of("Location")[0]))
    products = await read_all(reader, PRODUCTS, ProductsQuery())
    variants = await read_all(reader, VARIANTS, ProductsQuery(location=location))
    customers = await read_all(reader, CUSTOMERS, CustomersQuery())
    draft, other = [await _draft(store, reader, position) for position in (0, 1)]
    orders: list[Order] = (await read_all(reader, ORDERS, OrdersQuery()))[-10:]
    released, renamed, labelled, tagged, noted, cancelled, closed, held, captured, refunded = orders
    assert captured.payment is Payment.AUTHORIZED
    paid = number(store.rows[f"gid://shopify/Order/{refunded.id}"]["transactions"][0])
    refund = CreateRefund(
        refunded, ((refunded.lines[0].id, 1),), amount="1.00", transaction=str(paid), gateway="bogus"
    )
    online = products[4].channels[:1]
    [redirect] = await read_all(reader, REDIRECT, RedirectQuery("/older-pot"))
    [pot] = await read_all(reader, FIELDS, FieldsQuery("Product", products[7].id))
    [order] = await read_all(reader, FIELDS, FieldsQuery("Order", renamed.id))
    [person] = await read_all(reader, FIELDS, FieldsQuery("Customer", customers[0].id))
    sending = store.rows[f"gid://shopify/FulfillmentOrder/{released.fulfilment_orders[0].id}"]
    [hold] = [record["id"].rpartition("/")[2] for record in holds_of(sending)]
    asks: dict[str, Any] = {
        "variant.set_price": SetPrice(variants[0], "12.34", compare_at="20.00"),
        "inventory.set": SetStock(variants[-1], (variants[-1].stock or 0) + 7),
        "product.set_status": SetStatus(products[3], "draft"),
        "product.set_published": SetPublished(products[4], online, False),
        "product.set_tags": SetTags(products[5], ("clearance",)),
        "order.set_tags": SetOrderTags(tagged, ("vip",)),
        "customer.set_tags": SetCustomerTags(customers[0], ("gold",)),
        "draft_order.set_tags": SetDraftOrderTags(draft, ("quote",)),
        "order.set_note": SetNote(noted, "Call first"),
        "customer.set_note": SetNote(customers[1], "Prefers blue"),
        "order.cancel": CancelOrder(cancelled),
        "order.close": CloseOrder(closed),
        "fulfillment.hold": HoldFulfilment(
            held, held.fulfilment_orders[0], "high_risk_of_fraud", "Look at it"
        ),
        "order.capture": CapturePayment(captured),
        "refund.create": refund,
        "metafield.set": SetMetafield(products[6], "custom", "care", "single_line_text_field", "Wash cold"),
        "redirect.create": CreateRedirect("/old-pot", "/products/pot-1"),
        "redirect.set": SetRedirect(redirect, "/products/pot-3"),
        "fulfillment.release": ReleaseFulfilment(released, released.fulfilment_orders[0], (hold,)),
        "product.set_fields": SetObjectFields(pot, {"title": "Great pot", "vendor": "Oven"}),
        "order.set_fields": SetObjectFields(order, {"email": "new@shop.example", "phone": "+4930123456"}),
        "order.change_tags": ChangeTags(labelled, (), ("OLD", "none")),
        "product.change_tags": ChangeTags(products[7], ("late",)),
        "customer.change_tags": ChangeTags(customers[1], ("new",)),
        "draft_order.change_tags": ChangeTags(other, (), ("old",)),
        "customer.set_fields": SetObjectFields(person, {"firstName": "Ada", "taxExempt": True}),
    }
    changes = Shopify(version="2026-10", url=None, read_s=20.0).writes
    results: dict[str, Proposal] = {}
    for name, query in asks.items():
        planned = changes[name].plan([query], integration_id=whose)
        assert planned.problems == (), planned.problems
        [results[name]] = planned.proposals
    assert set(results) == set(OPERATIONS) == set(changes) - ONLY_UNDONE
    return results


async def _draft(store: ShopifyFake, reader: Reader, index: int) -> DraftOrder:
    query = ById(str(number(store.of("DraftOrder")[index])))
    [outcome] = await read_all(reader, DRAFT_ORDER, query)
    assert isinstance(outcome, DraftOrder)
    return outcome
