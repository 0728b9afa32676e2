"""The node wooCommerce, and a base that it shares with shopify, for objects of the automation's store."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from steward.connectors.base.queries import OBJECTS, ObjectsQuery
from steward.model.change import Proposal
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import PlanStep, StepKind
from steward.model.write_response import WriteResponse
from steward.steps.base import StoreAccess
from steward.steps.n8n.store_fields import WOO, command_for, object_of
from steward.steps.workflow.external_calls import ItemProposals, read_all, read_each_item, store_of
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    ResponseUse,
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
# Settings of an n8n update beside its fields.
_UNCHANGED = {
    "metadataUi": "metadata",
    "imagesUi": "images",
    "dimensionsUi": "measures",
    "jsonParameters": "the fields in its JSON",
}
# The filters of customers, which have a setting of their own in n8n.
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


class StoreNode(StepType, ABC):
    """The base of the nodes of both store platforms."""

    platform = ""
    returns_object = False  # whether the store returns the whole object after a change
    fields: Mapping[tuple[str, str], str] = {}
    resources: frozenset[str] = frozenset()
    default_resource = "product"
    parameters = frozenset(
        re.findall(
            r"\w+",
            """
            authentication resource operation productId orderId customerId returnAll limit options
            updateFields metadataUi simple imagesUi dimensionsUi jsonParameters
            """,
        )
    )

    def resource_of(self, node: NodeDefinition) -> str:
        """Returns the kind of object."""
        return str(node.literal("resource", self.default_resource))

    def operation(self, node: NodeDefinition) -> str:
        """Returns `woocommerce.order.update`, for example."""
        operation = {"getAll": "list"}.get(operation_of(node), operation_of(node))
        return f"{self.platform}.{self.resource_of(node)}.{operation}"

    def kind_of(self, node: NodeDefinition) -> StepKind:
        """Returns read or change."""
        return StepKind.READ if operation_of(node) in READS else StepKind.CHANGE

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """Returns EXTENDS_ITEMS for a change, which passes its items' fields on, else REPLACES_ITEMS."""
        return FieldUse.EXTENDS_ITEMS if step.kind is StepKind.CHANGE else FieldUse.REPLACES_ITEMS

    def required_connection(self, node: NodeDefinition) -> str:
        """Returns store."""
        return "store"

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported resources, operations and fields."""
        resource, operation = self.resource_of(node), operation_of(node)
        if resource not in self.resources:
            message = f"The store's “{resource[:40]}” is not supported. Remove the step."
            yield StepProblem("error", "parameter", message, is_operation=True)
        elif operation not in READS | {"update"}:
            message = f"“{operation[:40]}” is not supported: objects are read and updated only."
            message += " Remove the step, or call the store by an HTTP Request step."
            yield StepProblem("error", "parameter", message, is_operation=True)
        if operation == "update":
            fields = node.get("updateFields", {})
            for name in fields if isinstance(fields, Mapping) else ():
                if (resource, name) not in self.fields:
                    message = f"Its field “{str(name)[:40]}” cannot be changed here. Remove it."
                    yield StepProblem("error", "parameter", message)
            if not fields:
                yield StepProblem("error", "parameter", "It changes nothing. Name a field to change.")
            for name, label in _UNCHANGED.items():
                if node.get(name):
                    yield StepProblem(
                        "error", "parameter", f"It changes {label}, which is not supported. Remove it."
                    )
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

        async def read_objects(index: int) -> list[dict[str, JsonValue]]:
            return await self.read(call.params(index), store)

        return await read_each_item(call, read_objects)

    @abstractmethod
    async def read(self, params: Params, store: StoreAccess) -> list[dict[str, JsonValue]]:
        """Reads the objects for one item. Raises ItemFailed."""

    async def _changes(self, call: StepCall, store: StoreAccess) -> NodeResult:
        item_proposals = ItemProposals(call)
        for index, item in enumerate(call.items):
            params = call.params(index)
            try:
                proposals, faults, after = await self._change(params, store)
            except ItemFailed as failure:
                item_proposals.fail_item(index, failure.message)
                continue
            if faults:
                item_proposals.fail_item(index, " ".join(faults))
                continue
            item_proposals.items.append(Item({**item.json, **after}, paired_with(index)))
            if self.returns_object and proposals and call.step.origin is not None:
                use = ResponseUse(call.step.origin.source_type, {}, is_needed=False)
                item_proposals.response_uses[len(item_proposals.items) - 1] = use
            item_proposals.unchanged += not proposals
            for proposal in proposals:
                item_proposals.proposals.append(proposal)
                item_proposals.item_of.append(len(item_proposals.items) - 1)
        return item_proposals.result()

    async def _change(
        self, params: Params, store: StoreAccess
    ) -> tuple[list[Proposal], list[str], JsonObject]:
        """Returns the planned changes, their faults, and the resulting fields. Raises ItemFailed."""
        resource = params.text("resource", self.default_resource)
        number = js.text(params.get(f"{resource}Id", "")).strip()
        current = await object_of(store, resource, number)
        proposals: list[Proposal] = []
        faults: list[str] = []
        after: dict[str, JsonValue] = {"id": int(number) if number.isdigit() else number}
        for operation, values in self._by_operation(resource, params.get("updateFields", {})).items():
            command = await command_for(operation, current, values, store)
            integration_id = store.connection.integration_id
            planned = store.changes[operation].plan([command], integration_id=integration_id)
            proposals += planned.proposals
            faults += [problem.message for problem in planned.problems]
            after |= {_snake(name): value for name, value in values.items()}
        return proposals, faults, after

    def _by_operation(self, resource: str, fields: object) -> dict[str, dict[str, JsonValue]]:
        values_by_operation: dict[str, dict[str, JsonValue]] = {}
        for name, value in fields.items() if isinstance(fields, Mapping) else ():
            operation = self.fields.get((resource, str(name)))
            if operation is None:
                raise ItemFailed(f"The field “{str(name)[:40]}” cannot be changed here.")
            values_by_operation.setdefault(operation, {})[str(name)] = value
        return values_by_operation


def operation_of(node: NodeDefinition) -> str:
    """Returns the operation on the objects, by default `create`, as in n8n."""
    return str(node.literal("operation", "create"))


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def limit_of(params: Params) -> int | None:
    """Returns the maximum number of objects to read, or None for all. Raises ItemFailed."""
    if params.flag("returnAll"):
        return None
    number = js.number(params.get("limit", 50))
    if number != number or number < 1:
        raise ItemFailed("The limit is not a number from 1 on.")
    return int(number)


class WooCommerceNode(StoreNode):
    """The node wooCommerce: objects have all fields that the store returns."""

    types = ("wooCommerce",)
    platform = "woocommerce"
    returns_object = True
    fields = WOO
    parameters = StoreNode.parameters | {"filters"}
    resources = frozenset(("product", "order", "customer"))

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns the object from the store's response."""
        fields = response.json()
        return (Item(fields),) if isinstance(fields, Mapping) else (sent.item,)

    def read_problems(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported filters."""
        options, filters = node.get("options", {}), node.get("filters", {})
        names = [(name, _KNOWN_FILTERS) for name in options if isinstance(options, Mapping)]
        names += [(name, _CUSTOMER_FILTERS) for name in filters if isinstance(filters, Mapping)]
        for name, known_filters in names:
            if name not in known_filters:
                message = f"Its filter “{str(name)[:40]}” is not supported. Filter in a separate step."
                yield StepProblem("error", "parameter", message)
        if operation_of(node) == "update" and self.resource_of(node) == "customer":
            yield StepProblem("error", "parameter", "Customers cannot be changed here. Remove the step.")

    async def read(self, params: Params, store: StoreAccess) -> list[dict[str, JsonValue]]:
        """Reads one object, or a list. Raises ItemFailed."""
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
        limit = limit_of(params)
        query = ObjectsQuery(resource, None, filters, limit)
        return await read_all(store.reader.read(OBJECTS, query), limit)
