"""Send Admin API request: mutations on a list, each as the change the service knows it as (imports 8.3).

The request a flow spells is never sent. What it asks for becomes operations that are read before and after,
shown with what they change, and approved; a mutation or a field without such an operation is not carried.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from steward.model.plan import StepKind
from steward.steps.shopify_flow.actions import (
    ADMIN,
    SHOPIFY,
    Ask,
    cancel_ask,
    changed,
    flag,
    fulfilment_asks,
    holding,
    is_whole,
    redirect_ask,
    released,
    set_metafield,
    tag_asks,
    tags_of,
)
from steward.steps.shopify_flow.kinds import (
    FlowAsked,
    FlowCall,
    FlowResult,
    FlowType,
    ItemFailed,
    StepProblem,
    is_liquid,
)
from steward.steps.shopify_flow.store_objects import Objects, kind_and_number, number_of

MOST_BLOB = 64 * 1024
MOST_AT_ONCE = 25  # metafields, quantities or variants in one request
_LIQUID = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_PRODUCT_FIELDS = ("title", "vendor", "productType", "handle", "templateSuffix")
_ORDER_FIELDS = ("email", "phone", "poNumber")
_CUSTOMER_FIELDS = ("firstName", "lastName", "locale", "taxExempt")
Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mutation: the names of its arguments, and what it comes to.

    `shape` has for each name None, the names within an object, or in a list the names within each of its
    objects; names in `needed` must be there.
    """

    shape: Mapping[str, Any]
    work: Callable[[Objects, Given], Awaitable[Sequence[Ask]]]
    needed: tuple[str, ...] = ()


class AdminRequest(FlowType):
    """One request; what the store answers to it is not handed on to later steps."""

    tasks = (f"{ADMIN}admin_api_operation",)
    label = "Send Admin API request"
    kind = StepKind.CHANGE
    known = frozenset(("api_call",))
    stores = SHOPIFY

    def operation(self, asked: FlowAsked) -> str:
        """shopify.orderUpdate and so on."""
        name = _name_of(asked.config.get("api_call"))
        return f"shopify.{name if name in MUTATIONS else 'request'}"

    def check(self, asked: FlowAsked) -> Iterable[StepProblem]:
        """A mutation or a field that is not on the list."""
        given = asked.config.get("api_call")
        name = _name_of(given)
        mutation = MUTATIONS.get(name)
        if mutation is None:
            words = f"The request “{name[:60]}” is not carried: of requests, only those whose effect is known"
            yield StepProblem(
                "error", "parameter", f"{words} beforehand. Use a step of its own, or remove it."
            )
            return
        blob = given.get("blob") if isinstance(given, Mapping) else None
        found = _sketch(blob)
        if found is None and not is_liquid(blob):
            yield StepProblem(
                "error", "parameter", "What it sends is no JSON object. Write it anew in the tool."
            )
            return
        if found is None:
            words = "What it sends can be told only when it runs. Look at the first approval with care."
            yield StepProblem("warning", "parameter", words)
            return
        for words in _misfits(mutation.shape, found, ""):
            yield StepProblem("error", "parameter", words)
        for path in mutation.needed:
            if _at(found, path) is None:
                yield StepProblem(
                    "error", "parameter", f"The request does not say “{path}”, which it has to."
                )

    async def run(self, call: FlowCall) -> FlowResult:
        """The changes the request comes to. Raises ItemFailed, CallError for a read that is waited for."""
        given = call.value("api_call")
        mutation = MUTATIONS.get(_name_of(given))
        if mutation is None or not isinstance(given, Mapping):
            raise ItemFailed("This request is not carried. Nothing was sent.")
        asked = _read(given.get("blob"))
        misfits = [*_misfits(mutation.shape, asked, "")]
        misfits += [f"“{path}” is missing." for path in mutation.needed if _at(asked, path) in (None, "")]
        misfits += [
            f"A text of the store would put “{path[:80]}” into the request."
            for path in _put_in(call.step.config["api_call"], asked)
        ]
        if misfits:
            raise ItemFailed(f"Nothing was sent. {' '.join(misfits[:5])}")
        return await changed(call, await mutation.work(Objects(call.store), asked))


def _name_of(given: Any) -> str:
    name = given.get("name") if isinstance(given, Mapping) else None
    return name.strip() if isinstance(name, str) else ""


def _read(blob: Any) -> Given:
    """The arguments, as an object or the JSON of one. Raises ItemFailed."""
    if isinstance(blob, str) and len(blob.encode("utf-8", "replace")) <= MOST_BLOB:
        try:
            blob = json.loads(blob, object_pairs_hook=_once)
        except (ValueError, RecursionError):
            raise ItemFailed("What this request would send is no JSON once its texts are put in.") from None
    if not isinstance(blob, Mapping):
        raise ItemFailed("What this request would send is no JSON object.")
    return blob


def _put_in(kept: Any, asked: Given) -> Iterable[str]:
    """Names of a request that its own text does not have: values of the store are data (safety 7.2).

    Where tags decide what stands in the request at all, its text cannot tell.
    """
    blob: Any = kept.get("blob") if isinstance(kept, Mapping) else None
    if is_liquid(blob) and "{%" not in str(blob["expr"]):
        yield from _beyond(_sketch(blob), asked, "")


def _beyond(sketch: Any, asked: Any, path: str) -> Iterable[str]:
    if isinstance(sketch, Mapping) and isinstance(asked, Mapping):
        yield from (f"{path}{name}" for name in asked if name not in sketch)
        for name in sketch.keys() & asked.keys():
            yield from _beyond(sketch[name], asked[name], f"{path}{name}.")
    elif isinstance(sketch, list) and isinstance(asked, list):
        if len(asked) > len(sketch) and any(isinstance(one, Mapping) for one in asked):
            yield path.rstrip(".")
        for one, other in zip(sketch, asked, strict=False):
            yield from _beyond(one, other, path)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _sketch(blob: Any) -> Given | None:
    """The arguments with a 0 for each Liquid, for their names' sake; None where that is no JSON."""
    text = blob.get("expr") if is_liquid(blob) else blob
    try:
        return _read(_LIQUID.sub("0", text) if isinstance(text, str) else text)
    except ItemFailed:
        return None


def _misfits(shape: Mapping[str, Any], given: Any, path: str) -> Iterable[str]:
    """What of the arguments is not on the list."""
    if not isinstance(given, Mapping):
        yield f"“{path.rstrip('.')}” is no object."
        return
    for name, value in given.items():
        here = f"{path}{name}"
        if name not in shape:
            yield f"“{here[:80]}” cannot be changed here. Remove it from the request."
        elif isinstance(shape[name], list):
            listed = value if isinstance(value, list) else [value]
            if len(listed) > MOST_AT_ONCE:
                yield f"“{here[:80]}” has more than {MOST_AT_ONCE} entries."
            for one in listed[:MOST_AT_ONCE]:
                yield from _misfits(shape[name][0], one, f"{here}.")
        elif isinstance(shape[name], Mapping):
            yield from _misfits(shape[name], value, f"{here}.")
        elif any(isinstance(one, list | Mapping) for one in (value if isinstance(value, list) else [value])):
            yield f"“{here[:80]}” is not a plain value."


def _at(given: Any, path: str) -> Any:
    for name in path.split("."):
        given = given.get(name) if isinstance(given, Mapping) else None
    return given


def _tagging(on: bool) -> Callable[[Objects, Given], Awaitable[Sequence[Ask]]]:
    async def work(objects: Objects, given: Given) -> Sequence[Ask]:
        kind, number = kind_and_number(given["id"])
        tags = tags_of(given.get("tags"))
        if not tags:
            return []
        readers: dict[str, Callable[[Any], Awaitable[Order | Product | Customer | DraftOrder]]] = {
            "Order": objects.order,
            "Product": objects.product,
            "Customer": objects.customer,
            "DraftOrder": objects.draft,
        }
        if kind in readers:
            return await tag_asks(objects, await readers[kind](number), tags, on=on)
        raise ItemFailed(f"An object of the kind {kind[:40]} gets no tags here.")

    return work


async def _plain(objects: Objects, given: Given, kind: str, names: Sequence[str]) -> list[Ask]:
    wanted = {name: given[name] for name in names if name in given}
    if not wanted:
        return []
    subject = await objects.fields(kind, given["id"])
    return [(f"{kind.lower()}.set_fields", SetObjectFields(subject, wanted))]


async def _order_update(objects: Objects, asked: Given) -> Sequence[Ask]:
    given = asked["input"]
    asks = await _plain(objects, given, "Order", _ORDER_FIELDS)
    order = await objects.order(given["id"])
    if "note" in given:
        asks.append(("order.set_note", SetNote(order, str(given["note"] or ""))))
    if "tags" in given:
        asks.append(("order.set_tags", SetOrderTags(order, tags_of(given["tags"]))))
    return asks


async def _customer_update(objects: Objects, asked: Given) -> Sequence[Ask]:
    given = asked["input"]
    asks = await _plain(objects, given, "Customer", _CUSTOMER_FIELDS)
    customer = await objects.customer(given["id"])
    if "note" in given:
        asks.append(("customer.set_note", SetNote(customer, str(given["note"] or ""))))
    if "tags" in given:
        asks.append(("customer.set_tags", SetCustomerTags(customer, tags_of(given["tags"]))))
    return asks


async def _product_update(objects: Objects, asked: Given) -> Sequence[Ask]:
    given = asked.get("product") or asked.get("input")
    if not isinstance(given, Mapping) or not given.get("id"):
        raise ItemFailed("The request does not say which product.")
    asks = await _plain(objects, given, "Product", _PRODUCT_FIELDS)
    product = await objects.product(given["id"])
    if "status" in given:
        asks.append(("product.set_status", SetStatus(product, str(given["status"]))))
    if "tags" in given:
        asks.append(("product.set_tags", SetTags(product, tags_of(given["tags"]))))
    return asks


async def _product_status(objects: Objects, given: Given) -> Sequence[Ask]:
    product = await objects.product(given["productId"])
    return [("product.set_status", SetStatus(product, str(given["status"])))]


async def _cancel(objects: Objects, given: Given) -> Sequence[Ask]:
    if flag(given.get("refund")):
        raise ItemFailed("It also gives the money back, which is not done here. Refund it in the store.")
    order = await objects.order(given["orderId"])
    restock, notify = flag(given["restock"]), flag(given.get("notifyCustomer"))
    return [cancel_ask(order, restock, notify, str(given["reason"]))]


def _closing(reopen: bool) -> Callable[[Objects, Given], Awaitable[Sequence[Ask]]]:
    async def work(objects: Objects, given: Given) -> Sequence[Ask]:
        return [("order.close", CloseOrder(await objects.order(given["input"]["id"]), reopen))]

    return work


async def _hold(objects: Objects, given: Given) -> Sequence[Ask]:
    order, held = await objects.order_of_fulfilment(given["id"]), given["fulfillmentHold"]
    hold = holding(order, str(held["reason"]), str(held.get("reasonNotes") or ""))
    return fulfilment_asks(order, number_of(given["id"], "FulfillmentOrder"), hold, ())


async def _release(objects: Objects, given: Given) -> Sequence[Ask]:
    order = await objects.order_of_fulfilment(given["id"])
    return await released(objects, order, number_of(given["id"], "FulfillmentOrder"))


async def _metafields(objects: Objects, given: Given) -> Sequence[Ask]:
    asks = []
    for one in _listed(given["metafields"]):
        kind, number = kind_and_number(one.get("ownerId"))
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
        asks.append(await set_metafield(objects, owner, kind, one))
    return asks


async def _redirect(objects: Objects, given: Given) -> Sequence[Ask]:
    path = str(given["urlRedirect"]["path"]).strip()
    return [redirect_ask(path, str(given["urlRedirect"]["target"]), await objects.redirect(path), False)]


async def _quantities(objects: Objects, given: Given) -> Sequence[Ask]:
    if given["input"].get("name") != "available":
        raise ItemFailed("Only quantities that are available are set here.")
    asks: list[Ask] = []
    for one in _listed(given["input"]["quantities"]):
        quantity = one.get("quantity")
        if isinstance(quantity, bool) or not is_whole(str(quantity)):
            raise ItemFailed("A quantity of this request is no whole number.")
        variant = await objects.stocked(one.get("inventoryItemId"), one.get("locationId"))
        asks.append(("inventory.set", SetStock(variant, int(str(quantity)))))
    return asks


async def _prices(objects: Objects, given: Given) -> Sequence[Ask]:
    product = await objects.product(given["productId"])
    by_id = {variant.id.rpartition("/")[2]: variant for variant in product.variants}
    asks: list[Ask] = []
    for one in _listed(given["variants"]):
        variant = by_id.get(number_of(one.get("id"), "ProductVariant"))
        if variant is None:
            raise ItemFailed("A variant of this request is none of the product.")
        price = str(one["price"]) if one.get("price") is not None else variant.price or ""
        if "compareAtPrice" in one:
            compare = None if one["compareAtPrice"] in (None, "") else str(one["compareAtPrice"])
        else:
            compare = variant.compare_at
        asks.append(("variant.set_price", SetPrice(variant, price, compare)))
    return asks


def _publishing(on: bool) -> Callable[[Objects, Given], Awaitable[Sequence[Ask]]]:
    async def work(objects: Objects, given: Given) -> Sequence[Ask]:
        product = await objects.product(given["id"])
        channels = tuple(
            number_of(one.get("publicationId"), "Publication") for one in _listed(given["input"])
        )
        return [("product.set_published", SetPublished(product, channels, on))]

    return work


def _listed(value: Any) -> list[Given]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, Mapping)]


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
ADMIN_REQUEST = AdminRequest()
