"""wooCommerce and shopify: objects of the automation's store read, and changed after approval (imports 6)."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from steward.connectors.base.queries import OBJECTS, ORDERS, PRODUCTS, ObjectsAsk, OrdersAsk, ProductsAsk
from steward.connectors.base.records import Order, Product
from steward.model.change import Proposal
from steward.model.plan import PlanStep, StepKind
from steward.steps.base import StoreAccess
from steward.steps.n8n.store_fields import SHOPIFY, WOO, ask_for, object_of
from steward.steps.workflow.effects import Effects, each_read, gathered, store_of
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    Asked,
    Call,
    ItemFailed,
    Params,
    Problem,
    Result,
    StepType,
    Takes,
    same,
)

READS = frozenset(("get", "getAll"))
_FILTERS = {
    "orderBy": "orderby",
    "stockStatus": "stock_status",
    "minPrice": "min_price",
    "maxPrice": "max_price",
    "decimalPoints": "dp",
    "shippingClass": "shipping_class",
}
_KNOWN_FILTERS = frozenset(
    re.findall(
        r"\w+",
        """
        after before order orderBy search slug status type sku featured category tag minPrice maxPrice
        stockStatus customer product decimalPoints email role onSale parent shippingClass
        """,
    )
)


class _StoreStep(StepType, ABC):
    """What both stores' steps share."""

    platform = ""
    fields: Mapping[tuple[str, str], str] = {}
    resources: frozenset[str] = frozenset()
    known = frozenset(
        re.findall(
            r"\w+",
            """
            authentication resource operation productId orderId customerId returnAll limit options
            updateFields metadataUi simple imagesUi dimensionsUi jsonParameters
            """,
        )
    )

    def operation(self, asked: Asked) -> str:
        """woocommerce.order.update and so on (contract 3.6)."""
        operation = {"getAll": "list"}.get(_operation(asked), _operation(asked))
        return f"{self.platform}.{_resource(asked)}.{operation}"

    def kind_of(self, asked: Asked) -> StepKind:
        """Reading, or a change."""
        return StepKind.READ if _operation(asked) in READS else StepKind.CHANGE

    def takes(self, step: PlanStep) -> Takes:
        """What is changed stays with what it was changed for."""
        return Takes.MORE if step.kind is StepKind.CHANGE else Takes.NOTHING

    def needs(self, asked: Asked) -> str:
        """The automation's own store."""
        return "store"

    def check(self, asked: Asked) -> Iterable[Problem]:
        """What of the store's steps is carried."""
        resource, operation = _resource(asked), _operation(asked)
        if resource not in self.resources:
            words = f"Of the store, “{resource[:40]}” is not carried. Remove the step."
            yield Problem("error", "parameter", words)
        elif operation not in READS | {"update"}:
            words = f"The operation “{operation[:40]}” is not carried: objects are read and updated only."
            yield Problem("error", "parameter", f"{words} Remove the step.")
        if operation == "update":
            fields = asked.get("updateFields", {})
            for name in fields if isinstance(fields, Mapping) else ():
                if (resource, name) not in self.fields:
                    words = f"Its field “{str(name)[:40]}” cannot be changed here. Remove it."
                    yield Problem("error", "parameter", words)
            if not fields:
                yield Problem("error", "parameter", "It changes nothing. Name a field to change.")
        yield from self.read_problems(asked)

    def read_problems(self, asked: Asked) -> Iterable[Problem]:
        """What of a read is not carried."""
        return ()

    async def run(self, call: Call) -> Result:
        """Objects read, or changes proposed."""
        store = store_of(call)
        if store.platform != self.platform:
            raise ItemFailed(f"This step works on {self.platform}; the automation runs on {store.platform}.")
        if call.step.kind is StepKind.CHANGE:
            return await self._changes(call, store)

        async def found(place: int) -> list[dict[str, Any]]:
            return await self.read(call.params(place), store)

        return await each_read(call, found)

    @abstractmethod
    async def read(self, params: Params, store: StoreAccess) -> list[dict[str, Any]]:
        """The objects one item asks for."""

    async def _changes(self, call: Call, store: StoreAccess) -> Result:
        effects = Effects(call)
        for place, item in enumerate(call.items):
            params = call.params(place)
            try:
                proposals, faults, after = await self._change(params, store)
            except ItemFailed as failure:
                effects.fails(place, failure.message)
                continue
            if faults:
                effects.fails(place, " ".join(faults))
                continue
            effects.items.append(Item({**item.json, **after}, same(place)))
            effects.unchanged += not proposals
            for proposal in proposals:
                effects.proposals.append(proposal)
                effects.item_of.append(len(effects.items) - 1)
        return effects.result()

    async def _change(
        self, params: Params, store: StoreAccess
    ) -> tuple[list[Proposal], list[str], dict[str, Any]]:
        """What one item proposes, what is wrong with it, and the object's fields afterwards."""
        resource = params.text("resource", "product")
        number = js.text(params.get(f"{resource}Id", "")).strip()
        found = await object_of(store, resource, number)
        proposals: list[Proposal] = []
        faults: list[str] = []
        after: dict[str, Any] = {"id": int(number) if number.isdigit() else number}
        for operation, values in self._by_operation(resource, params.get("updateFields", {})).items():
            ask = await ask_for(operation, found, values, store)
            number_of = store.connection.integration_id
            planned = store.changes[operation].plan([ask], integration_id=number_of)
            proposals += planned.proposals
            faults += [problem.message for problem in planned.problems]
            after |= {_snake(name): value for name, value in values.items()}
        return proposals, faults, after

    def _by_operation(self, resource: str, fields: object) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, value in fields.items() if isinstance(fields, Mapping) else ():
            operation = self.fields.get((resource, str(name)))
            if operation is None:
                raise ItemFailed(f"The field “{str(name)[:40]}” cannot be changed here.")
            found.setdefault(operation, {})[str(name)] = value
        return found


def _resource(asked: Asked) -> str:
    return str(asked.literal("resource", "product"))


def _operation(asked: Asked) -> str:
    return str(asked.literal("operation", "get"))


def _snake(name: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)


def _limit(params: Params) -> int | None:
    if params.flag("returnAll"):
        return None
    number = js.number(params.get("limit", 50))
    if number != number or number < 1:
        raise ItemFailed("The limit is not a number from 1 on.")
    return int(number)


class WooCommerce(_StoreStep):
    """Objects come as the shop gives them."""

    types = ("wooCommerce",)
    platform = "woocommerce"
    fields = WOO
    resources = frozenset(("product", "order", "customer"))

    def read_problems(self, asked: Asked) -> Iterable[Problem]:
        """Filters the shop does not have."""
        options = asked.get("options", {})
        for name in options if isinstance(options, Mapping) else ():
            if name not in _KNOWN_FILTERS:
                words = f"Its filter “{str(name)[:40]}” is not carried. Filter in a step of its own."
                yield Problem("error", "parameter", words)
        if _operation(asked) == "update" and _resource(asked) == "customer":
            yield Problem("error", "parameter", "Customers cannot be changed here. Remove the step.")

    async def read(self, params: Params, store: StoreAccess) -> list[dict[str, Any]]:
        """One object, or a list."""
        resource = params.text("resource", "product")
        if params.text("operation", "get") == "get":
            number = js.text(params.get(f"{resource}Id", "")).strip()
            if not number:
                raise ItemFailed("The id of the object to read is empty.")
            return await gathered(store.reader.read(OBJECTS, ObjectsAsk(resource, number)))
        options = params.get("options", {})
        filters = tuple(
            (_FILTERS.get(name, _snake(name)), js.text(value))
            for name, value in (options.items() if isinstance(options, Mapping) else ())
            if not js.is_missing(value) and value != ""
        )
        limit = _limit(params)
        asked = ObjectsAsk(resource, None, filters, limit)
        return await gathered(store.reader.read(OBJECTS, asked), limit)


class Shopify(_StoreStep):
    """The commonest fields of products and orders, under the names the origin gives them."""

    types = ("shopify",)
    platform = "shopify"
    fields = SHOPIFY
    resources = frozenset(("product", "order"))

    def read_problems(self, asked: Asked) -> Iterable[Problem]:
        """Not every field of the store's is read."""
        if _operation(asked) in READS:
            words = (
                "It reads the commonest fields of the object, not every one. Look at what later steps use."
            )
            yield Problem("warning", "parameter", words)
        options = asked.get("options", {})
        for name in options if isinstance(options, Mapping) else ():
            if name not in ("fields", "status", "createdAtMin", "createdAtMax", "updatedAtMin"):
                words = f"Its filter “{str(name)[:40]}” is not carried. Filter in a step of its own."
                yield Problem("error", "parameter", words)

    async def read(self, params: Params, store: StoreAccess) -> list[dict[str, Any]]:
        """One object, or a list."""
        resource = params.text("resource", "order")
        limit = _limit(params) if params.text("operation", "get") == "getAll" else 1
        number = js.text(params.get(f"{resource}Id", "")).strip()
        if params.text("operation", "get") == "get" and not number:
            raise ItemFailed("The id of the object to read is empty.")
        ids = (number,) if number else None
        if resource == "product":
            asked = ProductsAsk(ids=ids)
            return [_product(one) for one in await gathered(store.reader.read(PRODUCTS, asked), limit)]
        zone = js_dates.zone_of("UTC")
        after, before = (params.text(f"options.createdAt{end}") for end in ("Min", "Max"))
        orders = OrdersAsk(
            ids=ids,
            created_after=js_dates.parse(after, zone) if after and zone else None,
            created_before=js_dates.parse(before, zone) if before and zone else None,
            open_only=params.text("options.status", "any") == "open",
        )
        return [_order(one) for one in await gathered(store.reader.read(ORDERS, orders), limit)]


def _number(value: str | None) -> int | str | None:
    return int(value) if value is not None and value.isdigit() else value


def _product(one: Product) -> dict[str, Any]:
    return {
        "id": _number(one.id),
        "title": one.title,
        "handle": one.handle,
        "status": one.status.lower(),
        "vendor": one.vendor,
        "product_type": one.type or "",
        "tags": ", ".join(one.tags),
        "body_html": one.description,
        "created_at": one.created_at and js_dates.utc_iso(one.created_at),
        "updated_at": one.modified_at and js_dates.utc_iso(one.modified_at),
        "variants": [
            {
                "id": _number(each.id),
                "product_id": _number(each.product_id),
                "title": each.title,
                "sku": each.sku,
                "barcode": each.barcode,
                "price": each.price,
                "compare_at_price": each.compare_at,
                "inventory_quantity": each.stock,
            }
            for each in one.variants
        ],
    }


def _order(one: Order) -> dict[str, Any]:
    return {
        "id": _number(one.id),
        "name": one.number,
        "order_number": _number(one.number.lstrip("#")),
        "email": one.email,
        "total_price": one.total,
        "total_tax": one.tax,
        "currency": one.currency,
        "financial_status": str(one.payment),
        "fulfillment_status": str(one.fulfilment),
        "tags": ", ".join(one.tags),
        "note": one.note,
        "created_at": one.created_at and js_dates.utc_iso(one.created_at),
        "updated_at": one.modified_at and js_dates.utc_iso(one.modified_at),
        "cancelled_at": one.cancelled_at and js_dates.utc_iso(one.cancelled_at),
        "customer": {"id": _number(one.customer_id)} if one.customer_id else None,
        "line_items": [
            {
                "id": _number(line.id),
                "product_id": _number(line.product_id),
                "variant_id": _number(line.variant_id),
                "sku": line.sku,
                "title": line.title,
                "quantity": line.quantity,
            }
            for line in one.lines
        ],
    }
