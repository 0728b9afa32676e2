"""The nodes wooCommerce and shopify: read and change objects of the automation's store."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from steward.connectors.base.queries import (
    OBJECTS,
    ORDERS,
    PRODUCTS,
    ObjectsQuery,
    OrdersQuery,
    ProductsQuery,
)
from steward.connectors.base.records import Order, Product
from steward.model.answer import WriteAnswer
from steward.model.change import Proposal
from steward.model.plan import PlanStep, StepKind
from steward.steps.base import StoreAccess
from steward.steps.n8n.store_fields import SHOPIFY, WOO, command_for, object_of
from steward.steps.workflow.effects import Effects, read_all, read_each_item, store_of
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    AnswerUse,
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    SentItem,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
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
# Customers are filtered by a setting of their own, as n8n has it.
_CUSTOMER_FILTERS = frozenset(("email", "order", "orderBy", "role"))
_KNOWN_FILTERS = frozenset(
    re.findall(
        r"\w+",
        """
        after before order orderBy search slug status type sku featured category tag minPrice maxPrice
        stockStatus customer product decimalPoints email role onSale parent shippingClass
        """,
    )
)


class _StoreNode(StepType, ABC):
    """What the nodes of both stores share."""

    platform = ""
    answers_with_object = False  # whether the store answers to a change with the whole object
    fields: Mapping[tuple[str, str], str] = {}
    resources: frozenset[str] = frozenset()
    parameters = frozenset(
        re.findall(
            r"\w+",
            """
            authentication resource operation productId orderId customerId returnAll limit options
            updateFields metadataUi simple imagesUi dimensionsUi jsonParameters
            """,
        )
    )

    def operation(self, node: NodeDefinition) -> str:
        """Returns woocommerce.order.update and so on."""
        operation = {"getAll": "list"}.get(_operation(node), _operation(node))
        return f"{self.platform}.{_resource(node)}.{operation}"

    def kind_of(self, node: NodeDefinition) -> StepKind:
        """Returns read or change."""
        return StepKind.READ if _operation(node) in READS else StepKind.CHANGE

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """Returns that a change passes on fields of the item, a read none."""
        return FieldUse.EXTENDS_ITEMS if step.kind is StepKind.CHANGE else FieldUse.REPLACES_ITEMS

    def required_connection(self, node: NodeDefinition) -> str:
        """Returns store."""
        return "store"

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported resources, operations and fields."""
        resource, operation = _resource(node), _operation(node)
        if resource not in self.resources:
            words = f"Of the store, “{resource[:40]}” is not supported. Remove the step."
            yield StepProblem("error", "parameter", words)
        elif operation not in READS | {"update"}:
            words = f"The operation “{operation[:40]}” is not supported: objects are read and updated only."
            yield StepProblem("error", "parameter", f"{words} Remove the step.")
        if operation == "update":
            fields = node.get("updateFields", {})
            for name in fields if isinstance(fields, Mapping) else ():
                if (resource, name) not in self.fields:
                    words = f"Its field “{str(name)[:40]}” cannot be changed here. Remove it."
                    yield StepProblem("error", "parameter", words)
            if not fields:
                yield StepProblem("error", "parameter", "It changes nothing. Name a field to change.")
        yield from self.read_problems(node)

    def read_problems(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported options of a read."""
        return ()

    async def run(self, call: StepCall) -> NodeResult:
        """Reads objects, or proposes changes."""
        store = store_of(call)
        if store.platform != self.platform:
            raise ItemFailed(f"This step works on {self.platform}; the automation runs on {store.platform}.")
        if call.step.kind is StepKind.CHANGE:
            return await self._changes(call, store)

        async def read_objects(index: int) -> list[dict[str, Any]]:
            return await self.read(call.params(index), store)

        return await read_each_item(call, read_objects)

    @abstractmethod
    async def read(self, params: Params, store: StoreAccess) -> list[dict[str, Any]]:
        """Reads the objects for one item. Raises ItemFailed."""

    async def _changes(self, call: StepCall, store: StoreAccess) -> NodeResult:
        effects = Effects(call)
        for index, item in enumerate(call.items):
            params = call.params(index)
            try:
                proposals, faults, after = await self._change(params, store)
            except ItemFailed as failure:
                effects.fail_item(index, failure.message)
                continue
            if faults:
                effects.fail_item(index, " ".join(faults))
                continue
            effects.items.append(Item({**item.json, **after}, paired_with(index)))
            if self.answers_with_object and proposals and call.step.origin is not None:
                use = AnswerUse(call.step.origin.source_type, {}, is_needed=False)
                effects.answers[len(effects.items) - 1] = use
            effects.unchanged += not proposals
            for proposal in proposals:
                effects.proposals.append(proposal)
                effects.item_of.append(len(effects.items) - 1)
        return effects.result()

    async def _change(
        self, params: Params, store: StoreAccess
    ) -> tuple[list[Proposal], list[str], dict[str, Any]]:
        """Returns the planned changes of one item and the object's fields afterwards."""
        resource = params.text("resource", "product")
        number = js.text(params.get(f"{resource}Id", "")).strip()
        current = await object_of(store, resource, number)
        proposals: list[Proposal] = []
        faults: list[str] = []
        after: dict[str, Any] = {"id": int(number) if number.isdigit() else number}
        for operation, values in self._by_operation(resource, params.get("updateFields", {})).items():
            command = await command_for(operation, current, values, store)
            number_of = store.connection.integration_id
            planned = store.changes[operation].plan([command], integration_id=number_of)
            proposals += planned.proposals
            faults += [problem.message for problem in planned.problems]
            after |= {_snake(name): value for name, value in values.items()}
        return proposals, faults, after

    def _by_operation(self, resource: str, fields: object) -> dict[str, dict[str, Any]]:
        values_by_operation: dict[str, dict[str, Any]] = {}
        for name, value in fields.items() if isinstance(fields, Mapping) else ():
            operation = self.fields.get((resource, str(name)))
            if operation is None:
                raise ItemFailed(f"The field “{str(name)[:40]}” cannot be changed here.")
            values_by_operation.setdefault(operation, {})[str(name)] = value
        return values_by_operation


def _resource(node: NodeDefinition) -> str:
    return str(node.literal("resource", "product"))


def _operation(node: NodeDefinition) -> str:
    return str(node.literal("operation", "get"))


def _snake(name: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)


def _limit(params: Params) -> int | None:
    if params.flag("returnAll"):
        return None
    number = js.number(params.get("limit", 50))
    if number != number or number < 1:
        raise ItemFailed("The limit is not a number from 1 on.")
    return int(number)


class WooCommerceNode(_StoreNode):
    """The node wooCommerce: objects have all fields that the store returns."""

    types = ("wooCommerce",)
    platform = "woocommerce"
    answers_with_object = True
    fields = WOO
    parameters = _StoreNode.parameters | {"filters"}
    resources = frozenset(("product", "order", "customer"))

    def answered_item(self, sent: SentItem, answer: WriteAnswer) -> Iterable[Item]:
        """Returns the object as the store answered it."""
        fields = answer.json()
        return (Item(fields),) if isinstance(fields, Mapping) else (sent.item,)

    def read_problems(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported filters."""
        options, filters = node.get("options", {}), node.get("filters", {})
        names = [(name, _KNOWN_FILTERS) for name in options if isinstance(options, Mapping)]
        names += [(name, _CUSTOMER_FILTERS) for name in filters if isinstance(filters, Mapping)]
        for name, known_filters in names:
            if name not in known_filters:
                words = f"Its filter “{str(name)[:40]}” is not supported. Filter in a step of its own."
                yield StepProblem("error", "parameter", words)
        if _operation(node) == "update" and _resource(node) == "customer":
            yield StepProblem("error", "parameter", "Customers cannot be changed here. Remove the step.")

    async def read(self, params: Params, store: StoreAccess) -> list[dict[str, Any]]:
        """Reads one object, or a list."""
        resource = params.text("resource", "product")
        if params.text("operation", "get") == "get":
            number = js.text(params.get(f"{resource}Id", "")).strip()
            if not number:
                raise ItemFailed("The id of the object to read is empty.")
            return await read_all(store.reader.read(OBJECTS, ObjectsQuery(resource, number)))
        options = params.get("filters" if resource == "customer" else "options", {})
        filters = tuple(
            (_FILTERS.get(name, _snake(name)), js.text(value))
            for name, value in (options.items() if isinstance(options, Mapping) else ())
            if not js.is_missing(value) and value != ""
        )
        limit = _limit(params)
        query = ObjectsQuery(resource, None, filters, limit)
        return await read_all(store.reader.read(OBJECTS, query), limit)


class ShopifyNode(_StoreNode):
    """The node shopify: products and orders with the common fields, under n8n's names."""

    types = ("shopify",)
    platform = "shopify"
    fields = SHOPIFY
    resources = frozenset(("product", "order"))

    def read_problems(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a warning that not every field is read."""
        if _operation(node) in READS:
            words = (
                "It reads the most common fields of the object, not all of them. Check what later steps use."
            )
            yield StepProblem("warning", "parameter", words)
        options = node.get("options", {})
        for name in options if isinstance(options, Mapping) else ():
            if name not in ("fields", "status", "createdAtMin", "createdAtMax", "updatedAtMin"):
                words = f"Its filter “{str(name)[:40]}” is not supported. Filter in a step of its own."
                yield StepProblem("error", "parameter", words)

    async def read(self, params: Params, store: StoreAccess) -> list[dict[str, Any]]:
        """Reads one object, or a list."""
        resource = params.text("resource", "order")
        limit = _limit(params) if params.text("operation", "get") == "getAll" else 1
        number = js.text(params.get(f"{resource}Id", "")).strip()
        if params.text("operation", "get") == "get" and not number:
            raise ItemFailed("The id of the object to read is empty.")
        ids = (number,) if number else None
        if resource == "product":
            query = ProductsQuery(ids=ids)
            return [_product(record) for record in await read_all(store.reader.read(PRODUCTS, query), limit)]
        after, before = (params.text(f"options.createdAt{end}") for end in ("Min", "Max"))
        orders = OrdersQuery(
            ids=ids,
            created_after=js_dates.parse(after, UTC),
            created_before=js_dates.parse(before, UTC),
            open_only=params.text("options.status", "any") == "open",
        )
        return [_order(record) for record in await read_all(store.reader.read(ORDERS, orders), limit)]


def _number(value: str | None) -> int | str | None:
    return int(value) if value is not None and value.isdigit() else value


def _product(product: Product) -> dict[str, Any]:
    return {
        "id": _number(product.id),
        "title": product.title,
        "handle": product.handle,
        "status": product.status.lower(),
        "vendor": product.vendor,
        "product_type": product.type or "",
        "tags": ", ".join(product.tags),
        "body_html": product.description,
        "created_at": product.created_at and js_dates.utc_iso(product.created_at),
        "updated_at": product.modified_at and js_dates.utc_iso(product.modified_at),
        "variants": [
            {
                "id": _number(variant.id),
                "product_id": _number(variant.product_id),
                "title": variant.title,
                "sku": variant.sku,
                "barcode": variant.barcode,
                "price": variant.price,
                "compare_at_price": variant.compare_at,
                "inventory_quantity": variant.stock,
            }
            for variant in product.variants
        ],
    }


def _order(order: Order) -> dict[str, Any]:
    return {
        "id": _number(order.id),
        "name": order.number,
        "order_number": _number(order.number.lstrip("#")),
        "email": order.email,
        "total_price": order.total,
        "total_tax": order.tax,
        "currency": order.currency,
        "financial_status": str(order.payment),
        "fulfillment_status": str(order.fulfilment),
        "tags": ", ".join(order.tags),
        "note": order.note,
        "created_at": order.created_at and js_dates.utc_iso(order.created_at),
        "updated_at": order.modified_at and js_dates.utc_iso(order.modified_at),
        "cancelled_at": order.cancelled_at and js_dates.utc_iso(order.cancelled_at),
        "customer": {"id": _number(order.customer_id)} if order.customer_id else None,
        "line_items": [
            {
                "id": _number(line.id),
                "product_id": _number(line.product_id),
                "variant_id": _number(line.variant_id),
                "sku": line.sku,
                "title": line.title,
                "quantity": line.quantity,
            }
            for line in order.lines
        ],
    }
