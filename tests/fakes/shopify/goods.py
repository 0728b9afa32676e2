"""The rows of the fake store, named as in the schema, and the functions by which tests add them."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Row = dict[str, Any]


def stamp(instant: datetime) -> str:
    """An instant as the platform writes it."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


class Rows(dict[str, Row]):
    """Rows by their global id, which are also found by their kind without looking at all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[str, dict[str, Row]] = {}

    def __setitem__(self, key: str, row: Row) -> None:
        super().__setitem__(key, row)
        self.kinds.setdefault(row["__typename"], {})[key] = row

    def __delitem__(self, key: str) -> None:
        self.kinds[self[key]["__typename"]].pop(key)
        super().__delitem__(key)

    def take(self, key: str) -> Row | None:
        """Removes a row; None when there was none."""
        row = self.get(key)
        if row is not None:
            del self[key]
        return row


@dataclass
class Goods:
    """Every object by its global id; lists within rows are connections or lists by the schema's word."""

    now: Callable[[], datetime]
    currency: str = "EUR"
    rows: Rows = field(default_factory=Rows)
    last: int = 1_000
    # What belongs to a product or an inventory item, in the order it was made.
    belongings: dict[str, list[Row]] = field(default_factory=dict)

    def make(self, kind: str, /, **fields: Any) -> Row:
        """A new object with a number of its own."""
        self.last += 1
        number = fields.pop("number", self.last)
        now = stamp(self.now())
        row: Row = {
            "__typename": kind,
            "id": f"gid://shopify/{kind}/{number}",
            "createdAt": now,
            "updatedAt": now,
            **fields,
        }
        self.rows[row["id"]] = row
        return row

    def of(self, kind: str) -> list[Row]:
        """All of a kind in the order of their ids."""
        return sorted(self.rows.kinds.get(kind, {}).values(), key=number)

    def owned(self, owner: str) -> list[Row]:
        """The variants of a product, or the levels of an inventory item, that are still there."""
        return [row for row in self.belongings.get(owner, ()) if row["id"] in self.rows]

    def touch(self, row: Row, **fields: Any) -> None:
        """Changes a row as a write does: its time moves on."""
        row.update(fields)
        row["updatedAt"] = stamp(self.now())

    def money(self, amount: str) -> Row:
        """An amount in the store's currency, as an amount of both currencies."""
        shop_money = {"amount": amount, "currencyCode": self.currency}
        return {"shopMoney": shop_money, "presentmentMoney": shop_money}

    def add_location(self, name: str, *, active: bool = True) -> Row:
        """A place goods are kept at."""
        return self.make("Location", name=name, isActive=active)

    def add_channel(self, name: str) -> Row:
        """A sales channel."""
        return self.make("Publication", name=name)

    def add_product(
        self,
        title: str,
        *,
        price: str = "10.00",
        sku: str = "",
        stock: int | None = 5,
        options: tuple[str, ...] = (),
        channels: list[Row] | None = None,
        **fields: Any,
    ) -> Row:
        """A product with one variant, or one for each option; `stock` None: not tracked.

        It is on every channel unless `channels` says which. Its stock lies at the first location.
        """
        on = self.of("Publication") if channels is None else channels
        product = self.make(
            "Product",
            **{
                "title": title,
                "handle": title.lower().replace(" ", "-"),
                "status": "ACTIVE",
                "vendor": "Kiln",
                "productType": "Pottery",
                "tags": [],
                "descriptionHtml": f"<p>{title}</p>",
                "templateSuffix": None,
                "isGiftCard": False,
                "hasVariantsThatRequiresComponents": False,
                "seo": {"title": None, "description": None},
                "category": None,
                "featuredMedia": None,
                "publications": [row["id"] for row in on],
                **fields,
            },
        )
        for position, option in enumerate(options or ("Default Title",), start=1):
            variant_sku = f"{sku}-{position}" if sku and options else sku
            self.add_variant(product, option, price=price, sku=variant_sku, stock=stock)
        return product

    def add_variant(self, product: Row, title: str, *, price: str, sku: str, stock: int | None) -> Row:
        """A variant with its inventory item."""
        item = self.make(
            "InventoryItem",
            tracked=stock is not None,
            requiresShipping=True,
            countryCodeOfOrigin=None,
            harmonizedSystemCode=None,
            unitCost={"amount": "4.00", "currencyCode": self.currency},
            measurement={"id": "m", "weight": {"value": 0.5, "unit": "KILOGRAMS"}},
        )
        places = self.of("Location")
        if stock is not None and places:
            self.add_level(item, places[0], stock)
        variant = self.make(
            "ProductVariant",
            title=title,
            sku=sku or None,
            barcode=None,
            price=price,
            compareAtPrice=None,
            inventoryPolicy="DENY",
            item=item["id"],
            product=product["id"],
        )
        self.belongings.setdefault(product["id"], []).append(variant)
        return variant

    def add_level(self, item: Row, location: Row, available: int) -> Row:
        """Stock of an item at a location."""
        level = self.make("InventoryLevel", item=item["id"], location=location["id"], available=available)
        self.belongings.setdefault(item["id"], []).append(level)
        return level

    def add_customer(
        self, name: str, *, email: str | None = None, spent: str = "0.00", orders: int = 0
    ) -> Row:
        """A customer."""
        address = email or f"{name.lower().replace(' ', '.')}@shop.example"
        return self.make(
            "Customer",
            displayName=name,
            firstName=name.partition(" ")[0],
            lastName=name.partition(" ")[2],
            email=address,
            locale="en",
            taxExempt=False,
            note=None,
            tags=[],
            numberOfOrders=str(orders),
            defaultEmailAddress={"emailAddress": address},
            amountSpent={"amount": spent, "currencyCode": self.currency},
        )

    def add_order(
        self,
        variants: list[Row],
        *,
        customer: Row | None = None,
        payment: str = "PENDING",
        fulfilment: str = "UNFULFILLED",
        risk: str | None = "LOW",
        quantity: int = 1,
        **fields: Any,
    ) -> Row:
        """An order of those variants: PENDING, AUTHORIZED, PAID … as the schema spells it."""
        total = sum(float(variant["price"]) * quantity for variant in variants)
        order = self.make("Order", customer=customer["id"] if customer else None)
        amount = f"{total:.2f}"
        lines = [self._line(variant, quantity, fulfilment) for variant in variants]
        facts = [{"description": "The countries differ", "sentiment": "NEGATIVE"}] if risk == "HIGH" else []
        sending = self.make(
            "FulfillmentOrder",
            order=order["id"],
            status="CLOSED" if fulfilment == "FULFILLED" else "OPEN",
            holds=[],
        )
        order.update(
            name=f"#{order['id'].rpartition('/')[2]}",
            processedAt=order["createdAt"],
            cancelledAt=None,
            closedAt=None,
            test=False,
            currencyCode=self.currency,
            displayFinancialStatus=payment,
            displayFulfillmentStatus=fulfilment,
            email="buyer@shop.example",
            phone=None,
            poNumber=None,
            note=None,
            tags=[],
            discountCodes=[],
            returnStatus="NO_RETURN",
            totalPriceSet=self.money(amount),
            totalTaxSet=self.money("0.00"),
            shippingAddress={"name": "A. Buyer", "countryCodeV2": "DE"},
            billingAddress={"name": "A. Buyer", "countryCodeV2": "DE"},
            risk={"assessments": [{"riskLevel": risk, "facts": facts}] if risk else []},
            refunds=[],
            fulfillments=[{"createdAt": order["createdAt"], "status": "SUCCESS"}]
            if fulfilment == "FULFILLED"
            else [],
            lineItems=lines,
            fulfillmentOrders=[sending["id"]],
            transactions=[self._transaction(payment, amount)] if payment in ("PAID", "AUTHORIZED") else [],
        )
        order.update(fields)
        return order

    def _line(self, variant: Row, quantity: int, fulfilment: str) -> Row:
        product = self.rows[variant["product"]]
        return self.make(
            "LineItem",
            title=product["title"],
            variantTitle=None if variant["title"] == "Default Title" else variant["title"],
            sku=variant["sku"],
            quantity=quantity,
            currentQuantity=quantity,
            unfulfilledQuantity=0 if fulfilment == "FULFILLED" else quantity,
            requiresShipping=True,
            discountedTotalSet=self.money(f"{float(variant['price']) * quantity:.2f}"),
            product=product["id"],
            variant=variant["id"],
        )

    def _transaction(self, payment: str, amount: str) -> Row:
        return self.make(
            "OrderTransaction",
            kind="AUTHORIZATION" if payment == "AUTHORIZED" else "SALE",
            status="SUCCESS",
            processedAt=stamp(self.now()),
            gateway="bogus",
            amountSet=self.money(amount),
        )

    def add_draft(self, name: str) -> Row:
        """A draft order."""
        return self.make("DraftOrder", name=name, status="OPEN", tags=[])

    def seed(self, *, products: int = 20, orders: int = 10, customers: int = 5, seed: int = 1) -> None:
        """A catalogue as the sandbox's: every fifth product has three variants, some are sold out."""
        chance = random.Random(seed)
        for index in range(1, products + 1):
            options = ("Small", "Medium", "Large") if index % 5 == 0 else ()
            price = f"{chance.randint(300, 9_900) / 100:.2f}"
            stock = 0 if index % 7 == 0 else chance.randint(1, 40)
            self.add_product(f"Pot {index}", price=price, sku=f"POT-{index}", stock=stock, options=options)
        people = [
            self.add_customer(f"Person {index}", spent=f"{index * 100}.00", orders=index)
            for index in range(1, customers + 1)
        ]
        variants = self.of("ProductVariant")
        for index in range(1, orders + 1):
            chosen = chance.sample(variants, k=min(2, len(variants)))
            payment = ("PAID", "PENDING", "AUTHORIZED")[index % 3]
            order = self.add_order(
                chosen, customer=people[index % len(people)] if people else None, payment=payment
            )
            created_at = self.now() - timedelta(hours=12 * index)
            order["createdAt"] = order["updatedAt"] = order["processedAt"] = stamp(created_at)


def number(row: Row) -> int:
    """The number in a row's global id."""
    return int(row["id"].rpartition("/")[2])
