"""Task "Send Admin API request": supported mutations, each as operations of the connector.

The request in the flow is never sent itself. It becomes operations that a person approves and whose objects
are read before and after. Mutations and fields without such an operation are unsupported.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from steward.connectors.base.commands import (
    CloseOrder,
    SetCustomerTags,
    SetNote,
    SetObjectFields,
    SetOrderTags,
    SetPrice,
    SetPublished,
    SetStatus,
    SetStock,
    SetTags,
)
from steward.connectors.base.records import Customer, DraftOrder, Order, Product, Variant
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.steps.shopify_flow.actions import (
    ADMIN,
    SHOPIFY,
    NamedCommand,
    cancel_command,
    fulfilment_commands,
    hold_command,
    is_on,
    is_whole,
    metafield_command,
    propose,
    redirect_command,
    release_commands,
    tag_commands,
    tags_of,
)
from steward.steps.shopify_flow.store_objects import StoreObjects, kind_and_number, number_of
from steward.steps.shopify_flow.task_types import (
    FlowCall,
    FlowResult,
    FlowType,
    ItemFailed,
    StepProblem,
    TaskDefinition,
    is_liquid,
)

_MAX_BLOB_BYTES = 64 * 1024
_MAX_ENTRIES = 25  # metafields, quantities or variants per request
_LIQUID = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_PRODUCT_FIELDS = ("title", "vendor", "productType", "handle", "templateSuffix")
_ORDER_FIELDS = ("email", "phone", "poNumber")
_CUSTOMER_FIELDS = ("firstName", "lastName", "locale", "taxExempt")
Arguments = Mapping[str, AnyJson]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A supported mutation: its arguments and the commands that it becomes.

    `shape` maps the name of each argument to None for a plain value, to a nested shape for an object, or to a
    list with the shape of its objects. `required` lists the paths that must be present.
    """

    shape: JsonObject
    work: Callable[[StoreObjects, Arguments], Awaitable[Sequence[NamedCommand]]]
    required: tuple[str, ...] = ()


class _AdminRequest(FlowType):
    """Sends a request to the Admin API. Later steps do not see the store's response."""

    tasks = (f"{ADMIN}admin_api_operation",)
    label = "Send Admin API request"
    kind = StepKind.CHANGE
    fields = frozenset(("api_call",))
    stores = SHOPIFY

    def operation(self, definition: TaskDefinition) -> str:
        """Returns the operation name, for example `shopify.orderUpdate`."""
        name = _name_of(definition.config.get("api_call"))
        return f"shopify.{name if name in MUTATIONS else 'request'}"

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields an unsupported mutation, unsupported fields and missing arguments."""
        api_call = definition.config.get("api_call")
        name = _name_of(api_call)
        mutation = MUTATIONS.get(name)
        if mutation is None:
            words = (
                f"The request “{name[:60]}” is not supported: it cannot be shown beforehand what it changes."
            )
            yield StepProblem("error", "parameter", f"{words} Use a separate step, or remove it.")
            return
        blob = api_call.get("blob") if isinstance(api_call, Mapping) else None
        sketch = _sketch(blob)
        if sketch is None and not is_liquid(blob):
            yield StepProblem(
                "error", "parameter", "What it sends is not a JSON object. Write it again in Shopify Flow."
            )
            return
        if sketch is None:
            words = "What it sends is known only when it runs. Check the first approval carefully."
            yield StepProblem("warning", "parameter", words)
            return
        for words in _unsupported(mutation.shape, sketch, ""):
            yield StepProblem("error", "parameter", words)
        for path in mutation.required:
            if _value_at(sketch, path) is None:
                yield StepProblem(
                    "error", "parameter", f"The request does not say “{path}”, which it has to."
                )

    async def run(self, call: FlowCall) -> FlowResult:
        """Proposes the changes. Raises ItemFailed, or CallError for a read to retry later."""
        api_call = call.value("api_call")
        mutation = MUTATIONS.get(_name_of(api_call))
        if mutation is None or not isinstance(api_call, Mapping):
            raise ItemFailed("This request is not supported. Nothing was sent.")
        arguments = _parse_arguments(api_call.get("blob"))
        problems = [*_unsupported(mutation.shape, arguments, "")]
        problems += [
            f"“{path}” is missing." for path in mutation.required if _value_at(arguments, path) in (None, "")
        ]
        problems += [
            f"A text of the store would put “{path[:80]}” into the request."
            for path in _injected_names(call.step.config["api_call"], arguments)
        ]
        if problems:
            raise ItemFailed(f"Nothing was sent. {' '.join(problems[:5])}")
        return await propose(call, await mutation.work(StoreObjects(call.store), arguments))


def _name_of(api_call: JsonValue) -> str:
    name = api_call.get("name") if isinstance(api_call, Mapping) else None
    return name.strip() if isinstance(name, str) else ""


def _parse_arguments(blob: JsonValue) -> Arguments:
    """Parses the arguments from an object or its JSON. Raises ItemFailed."""
    if isinstance(blob, str) and len(blob.encode("utf-8", "replace")) <= _MAX_BLOB_BYTES:
        try:
            blob = json.loads(blob, object_pairs_hook=_without_duplicates)
        except (ValueError, RecursionError):
            raise ItemFailed("What this request would send is not JSON once its texts are put in.") from None
    if not isinstance(blob, Mapping):
        raise ItemFailed("What this request would send is not a JSON object.")
    return blob


def _injected_names(stored_call: JsonValue, arguments: Arguments) -> Iterable[str]:
    """Yields argument names that came from rendered store values instead of the request's own text.

    A request whose Liquid has tags is not checked, because the tags may legitimately add names.
    """
    blob: AnyJson = stored_call.get("blob") if isinstance(stored_call, Mapping) else None
    if is_liquid(blob) and "{%" not in str(blob["expr"]):
        yield from _names_beyond(_sketch(blob), arguments, "")


def _names_beyond(sketch: JsonValue, arguments: JsonValue, path: str) -> Iterable[str]:
    if isinstance(sketch, Mapping) and isinstance(arguments, Mapping):
        yield from (f"{path}{name}" for name in arguments if name not in sketch)
        for name in sketch.keys() & arguments.keys():
            yield from _names_beyond(sketch[name], arguments[name], f"{path}{name}.")
    elif isinstance(sketch, list) and isinstance(arguments, list):
        if _has_added_objects(sketch, arguments):
            yield path.rstrip(".")
        for entry, other in zip(sketch, arguments, strict=False):
            yield from _names_beyond(entry, other, path)


def _has_added_objects(sketch: Sequence[JsonValue], arguments: Sequence[JsonValue]) -> bool:
    return len(arguments) > len(sketch) and any(isinstance(entry, Mapping) for entry in arguments)


def _without_duplicates(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name stands twice")
    return members


def _sketch(blob: AnyJson) -> Arguments | None:
    """Returns the arguments with a 0 in place of Liquid, to learn their names; None if it is no JSON."""
    text = blob.get("expr") if is_liquid(blob) else blob
    try:
        return _parse_arguments(_LIQUID.sub("0", text) if isinstance(text, str) else text)
    except ItemFailed:
        return None


def _unsupported(shape: Mapping[str, AnyJson], arguments: AnyJson, path: str) -> Iterable[str]:
    """Yields a message for each argument that `shape` does not allow."""
    if not isinstance(arguments, Mapping):
        yield f"“{path.rstrip('.')}” is not an object."
        return
    for name, value in arguments.items():
        full_path = f"{path}{name}"
        if name not in shape:
            yield f"“{full_path[:80]}” cannot be changed here. Remove it from the request."
        elif isinstance(shape[name], list):
            yield from _unsupported_in_list(shape[name][0], _as_list(value), full_path)
        elif isinstance(shape[name], Mapping):
            yield from _unsupported(shape[name], value, f"{full_path}.")
        elif any(isinstance(entry, list | Mapping) for entry in _as_list(value)):
            yield f"“{full_path[:80]}” is not a plain value."


def _unsupported_in_list(shape: JsonObject, entries: Sequence[JsonValue], path: str) -> Iterable[str]:
    if len(entries) > _MAX_ENTRIES:
        yield f"“{path[:80]}” has more than {_MAX_ENTRIES} entries."
    for entry in entries[:_MAX_ENTRIES]:
        yield from _unsupported(shape, entry, f"{path}.")


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else [value]


def _value_at(value: JsonValue, path: str) -> JsonValue:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _tagging(on: bool) -> Callable[[StoreObjects, Arguments], Awaitable[Sequence[NamedCommand]]]:
    async def work(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
        kind, number = kind_and_number(arguments["id"])
        tags = tags_of(arguments.get("tags"))
        if not tags:
            return []
        readers: dict[str, Callable[[JsonValue], Awaitable[Order | Product | Customer | DraftOrder]]] = {
            "Order": objects.order,
            "Product": objects.product,
            "Customer": objects.customer,
            "DraftOrder": objects.draft,
        }
        if kind in readers:
            return await tag_commands(objects, await readers[kind](number), tags, on=on)
        raise ItemFailed(f"An object of the kind {kind[:40]} gets no tags here.")

    return work


async def _field_commands(
    objects: StoreObjects, arguments: Arguments, kind: str, names: Sequence[str]
) -> list[NamedCommand]:
    changed_fields = {name: arguments[name] for name in names if name in arguments}
    if not changed_fields:
        return []
    subject = await objects.fields(kind, arguments["id"])
    return [(f"{kind.lower()}.set_fields", SetObjectFields(subject, changed_fields))]


async def _order_update(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    order_input = arguments["input"]
    commands = await _field_commands(objects, order_input, "Order", _ORDER_FIELDS)
    order = await objects.order(order_input["id"])
    return commands + _note_and_tags(order_input, order, partial(SetOrderTags, order))


async def _customer_update(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    customer_input = arguments["input"]
    commands = await _field_commands(objects, customer_input, "Customer", _CUSTOMER_FIELDS)
    customer = await objects.customer(customer_input["id"])
    return commands + _note_and_tags(customer_input, customer, partial(SetCustomerTags, customer))


def _note_and_tags(
    update: Arguments, subject: Order | Customer, set_tags: Callable[[tuple[str, ...]], object]
) -> list[NamedCommand]:
    """Returns the commands that set the note and the tags of an order or a customer."""
    kind = "order" if isinstance(subject, Order) else "customer"
    commands: list[NamedCommand] = []
    if "note" in update:
        commands.append((f"{kind}.set_note", SetNote(subject, str(update["note"] or ""))))
    if "tags" in update:
        commands.append((f"{kind}.set_tags", set_tags(tags_of(update["tags"]))))
    return commands


async def _product_update(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    product_input = arguments.get("product") or arguments.get("input")
    if not isinstance(product_input, Mapping) or not product_input.get("id"):
        raise ItemFailed("The request does not say which product.")
    commands = await _field_commands(objects, product_input, "Product", _PRODUCT_FIELDS)
    product = await objects.product(product_input["id"])
    if "status" in product_input:
        commands.append(("product.set_status", SetStatus(product, str(product_input["status"]))))
    if "tags" in product_input:
        commands.append(("product.set_tags", SetTags(product, tags_of(product_input["tags"]))))
    return commands


async def _product_status(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    product = await objects.product(arguments["productId"])
    return [("product.set_status", SetStatus(product, str(arguments["status"])))]


async def _cancel(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    if is_on(arguments.get("refund")):
        raise ItemFailed("It also gives the money back, which is not supported. Refund it in the store.")
    order = await objects.order(arguments["orderId"])
    restock, notify = is_on(arguments["restock"]), is_on(arguments.get("notifyCustomer"))
    return [cancel_command(order, restock, notify, str(arguments["reason"]))]


def _closing(reopen: bool) -> Callable[[StoreObjects, Arguments], Awaitable[Sequence[NamedCommand]]]:
    async def work(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
        return [("order.close", CloseOrder(await objects.order(arguments["input"]["id"]), reopen))]

    return work


async def _hold(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    order, hold_input = await objects.order_of_fulfilment(arguments["id"]), arguments["fulfillmentHold"]
    hold = hold_command(order, str(hold_input["reason"]), str(hold_input.get("reasonNotes") or ""))
    return fulfilment_commands(order, number_of(arguments["id"], "FulfillmentOrder"), hold, ())


async def _release(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    order = await objects.order_of_fulfilment(arguments["id"])
    return await release_commands(objects, order, number_of(arguments["id"], "FulfillmentOrder"))


async def _metafields(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    commands = []
    for metafield in _listed(arguments["metafields"]):
        kind, number = kind_and_number(metafield.get("ownerId"))
        owner: Product | Variant | Order | Customer
        if kind == "Product":
            owner = await objects.product(number)
        elif kind == "Order":
            owner = await objects.order(number)
        elif kind == "Customer":
            owner = await objects.customer(number)
        elif kind == "ProductVariant":
            owner = await objects.variant(number)
        else:
            raise ItemFailed(f"Metafields of the kind {kind[:40]} are not set here.")
        commands.append(await metafield_command(objects, owner, kind, metafield))
    return commands


async def _redirect(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    path = str(arguments["urlRedirect"]["path"]).strip()
    return [
        redirect_command(path, str(arguments["urlRedirect"]["target"]), await objects.redirect(path), False)
    ]


async def _quantities(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    if arguments["input"].get("name") != "available":
        raise ItemFailed("Only quantities that are available are set here.")
    commands: list[NamedCommand] = []
    for entry in _listed(arguments["input"]["quantities"]):
        quantity = entry.get("quantity")
        if isinstance(quantity, bool) or not is_whole(str(quantity)):
            raise ItemFailed("A quantity of this request is not a whole number.")
        variant = await objects.stocked(entry.get("inventoryItemId"), entry.get("locationId"))
        commands.append(("inventory.set", SetStock(variant, int(str(quantity)))))
    return commands


async def _prices(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
    product = await objects.product(arguments["productId"])
    by_id = {variant.id.rpartition("/")[2]: variant for variant in product.variants}
    commands: list[NamedCommand] = []
    for entry in _listed(arguments["variants"]):
        variant = by_id.get(number_of(entry.get("id"), "ProductVariant"))
        if variant is None:
            raise ItemFailed("A variant of this request is none of the product.")
        price = str(entry["price"]) if entry.get("price") is not None else variant.price or ""
        if "compareAtPrice" in entry:
            compare = None if entry["compareAtPrice"] in (None, "") else str(entry["compareAtPrice"])
        else:
            compare = variant.compare_at
        commands.append(("variant.set_price", SetPrice(variant, price, compare)))
    return commands


def _publishing(on: bool) -> Callable[[StoreObjects, Arguments], Awaitable[Sequence[NamedCommand]]]:
    async def work(objects: StoreObjects, arguments: Arguments) -> Sequence[NamedCommand]:
        product = await objects.product(arguments["id"])
        channels = tuple(
            number_of(entry.get("publicationId"), "Publication") for entry in _listed(arguments["input"])
        )
        return [("product.set_published", SetPublished(product, channels, on))]

    return work


def _listed(value: JsonValue) -> list[Arguments]:
    return [entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, Mapping)]


_ID = {"id": None}
_TAGS = {"id": None, "tags": None}
_PRODUCT = dict.fromkeys(("id", "status", "tags", *_PRODUCT_FIELDS))
_METAFIELD = dict.fromkeys(("ownerId", "namespace", "key", "type", "value"))
_QUANTITY = dict.fromkeys(("inventoryItemId", "locationId", "quantity"))
_HOLDING = {"id": None, "fulfillmentHold": {"reason": None, "reasonNotes": None}}
MUTATIONS: Mapping[str, Mutation] = {
    "tagsAdd": Mutation(_TAGS, _tagging(True), ("id", "tags")),
    "tagsRemove": Mutation(_TAGS, _tagging(False), ("id", "tags")),
    "orderUpdate": Mutation(
        {"input": dict.fromkeys(("id", "note", "tags", *_ORDER_FIELDS))}, _order_update, ("input.id",)
    ),
    "customerUpdate": Mutation(
        {"input": dict.fromkeys(("id", "note", "tags", *_CUSTOMER_FIELDS))}, _customer_update, ("input.id",)
    ),
    "productUpdate": Mutation({"product": _PRODUCT, "input": _PRODUCT}, _product_update),
    "productChangeStatus": Mutation(
        {"productId": None, "status": None}, _product_status, ("productId", "status")
    ),
    "orderCancel": Mutation(
        dict.fromkeys(("orderId", "reason", "restock", "notifyCustomer", "refund")),
        _cancel,
        ("orderId", "reason", "restock"),
    ),
    "orderClose": Mutation({"input": _ID}, _closing(False), ("input.id",)),
    "orderOpen": Mutation({"input": _ID}, _closing(True), ("input.id",)),
    "fulfillmentOrderHold": Mutation(_HOLDING, _hold, ("id", "fulfillmentHold.reason")),
    "fulfillmentOrderReleaseHold": Mutation(_ID, _release, ("id",)),
    "metafieldsSet": Mutation({"metafields": [_METAFIELD]}, _metafields, ("metafields",)),
    "urlRedirectCreate": Mutation(
        {"urlRedirect": {"path": None, "target": None}}, _redirect, ("urlRedirect.path", "urlRedirect.target")
    ),
    "inventorySetQuantities": Mutation(
        {"input": {"name": None, "reason": None, "quantities": [_QUANTITY]}},
        _quantities,
        ("input.name", "input.quantities"),
    ),
    "productVariantsBulkUpdate": Mutation(
        {"productId": None, "variants": [dict.fromkeys(("id", "price", "compareAtPrice"))]},
        _prices,
        ("productId", "variants"),
    ),
    "publishablePublish": Mutation(
        {"id": None, "input": [{"publicationId": None}]}, _publishing(True), ("id", "input")
    ),
    "publishableUnpublish": Mutation(
        {"id": None, "input": [{"publicationId": None}]}, _publishing(False), ("id", "input")
    ),
}
ADMIN_REQUEST = _AdminRequest()
