"""The object of a store event, read by a step that replaces the trigger.

A store event contains less than n8n outputs: Shopify sends only subscribed fields, and a missed event is
rebuilt from a later read. See docs/design/imports-verdict.md#start.
"""

from collections.abc import Mapping
from dataclasses import replace

from steward.connectors.base.queries import (
    CUSTOMERS,
    OBJECTS,
    ORDERS,
    PRODUCTS,
    CustomersQuery,
    ObjectsQuery,
    OrdersQuery,
    ProductsQuery,
)
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import Plan, PlanEdge, PlanStep, PlanTrigger, StepKind, StepSource
from steward.model.run import Counts
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import StoreAccess, StoreEvent
from steward.steps.n8n.nodes.shopify import customer_fields, order_fields, product_fields
from steward.steps.workflow.external_calls import read_all, store_of
from steward.steps.workflow.items import Item
from steward.steps.workflow.step_types import ItemFailed, NodeResult, StepCall, StepType, paired_with

EVENT_TYPE = "@store_event"  # not the type of any n8n node
# By object type: a field that WooCommerce's deliveries contain and events rebuilt by catch-up lack.
_WHOLE = {"order": "line_items", "product": "permalink", "customer": "avatar_url"}


def with_event_object(plan: Plan, entry: PlanTrigger) -> Plan:
    """Returns the plan with a step that takes the trigger's name and reads the event's object.

    Steps that refer to the trigger by name thus read this step's output.
    """
    names = {step.name for step in plan.steps} | {trigger.name for trigger in plan.triggers}
    trigger_name = f"{entry.name} (event)"
    while trigger_name in names:
        trigger_name += "'"
    config: JsonObject = {"in_body": entry.replaced == "webhook"}
    source = StepSource(EVENT_TYPE, 1.0, needs="store", position=entry.position)
    step = PlanStep(entry.name, entry.name, StepKind.READ, "store.event", config, source)
    triggers = tuple(
        replace(trigger, name=trigger_name) if trigger.name == entry.name else trigger
        for trigger in plan.triggers
    )
    edges = (PlanEdge(trigger_name, "out:0", entry.name), *plan.edges)
    return replace(plan, steps=(step, *plan.steps), edges=edges, triggers=triggers)


class StoreEventNode(StepType):
    """Adds the fields read from the event's object; a deleted object has none."""

    types = (EVENT_TYPE,)
    kind = StepKind.READ

    async def run(self, call: StepCall) -> NodeResult:
        """Returns the completed item. Raises ItemFailed, or CallError for a read to retry later."""
        [item] = call.items
        context = call.environment.context
        event = context.event if context is not None else None
        if event is None or event.topic.endswith("/delete"):
            return NodeResult([[item]])
        in_body = call.step.config.get("in_body") is True
        event_fields: AnyJson = item.json.get("body") if in_body else item.json
        fields = await _read(store_of(call), event, event_fields if isinstance(event_fields, Mapping) else {})
        if not fields:
            return NodeResult([[item]])
        whole = {**event_fields, **fields}
        json = {**item.json, "body": whole} if in_body else whole
        return NodeResult([[Item(json, paired_with(0))]], counts=Counts(read=1))


async def _read(store: StoreAccess, event: StoreEvent, event_fields: JsonObject) -> dict[str, AnyJson]:
    """Returns the object's fields, or none if the event has them all or the object was deleted."""
    read_object = _read_from_woocommerce if store.platform == "woocommerce" else _read_from_shopify
    try:
        return await read_object(store, event, event_fields)
    except ItemFailed as failure:
        if not isinstance(failure.__cause__, RemoteNotFound):
            raise
    return {}


async def _read_from_woocommerce(
    store: StoreAccess, event: StoreEvent, event_fields: JsonObject
) -> dict[str, JsonValue]:
    if _WHOLE.get(event.object_type, "id") in event_fields:
        return {}
    objects = await read_all(store.reader.read(OBJECTS, ObjectsQuery(event.object_type, event.object_id)))
    return objects[0] if objects else {}


async def _read_from_shopify(
    store: StoreAccess, event: StoreEvent, event_fields: JsonObject
) -> dict[str, JsonValue]:
    ids = (event.object_id,)
    if event.object_type == "order":
        return next(map(order_fields, await read_all(store.reader.read(ORDERS, OrdersQuery(ids=ids)))), {})
    if event.object_type == "product":
        products = await read_all(store.reader.read(PRODUCTS, ProductsQuery(ids=ids)))
        return next(map(product_fields, products), {})
    if event.topic in ("customers/create", "customers/update"):
        customers = await read_all(store.reader.read(CUSTOMERS, CustomersQuery(ids=ids)))
        return next(map(customer_fields, customers), {})
    return {}
