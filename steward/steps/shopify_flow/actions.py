"""Shopify Flow actions that change the store, with the operation that each proposes.

A person approves every such change. Its object is read when the step runs, and again just before the change
is made. For requests that a flow spells out itself see admin_api.py.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from steward.connectors.base.commands import (
    CancelOrder,
    CapturePayment,
    ChangeTags,
    CloseOrder,
    CreateRedirect,
    HoldFulfilment,
    ReleaseFulfilment,
    SetMetafield,
    SetNote,
    SetPublished,
    SetRedirect,
    SetStatus,
    SetStock,
    SetTags,
)
from steward.connectors.base.records import (
    Customer,
    DraftOrder,
    FulfilmentOrder,
    Order,
    Product,
    Redirect,
    Variant,
)
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.steps.product_tags import store_tags
from steward.steps.shopify_flow.store_objects import StoreObjects
from steward.steps.shopify_flow.task_types import (
    FlowCall,
    FlowResult,
    FlowType,
    ItemFailed,
    StepProblem,
    TaskDefinition,
    is_liquid,
)
from steward.steps.tag_lists import with_tag, without_tags

ADMIN = "shopify::admin::"
SHOPIFY = frozenset(("shopify",))
BOTH = frozenset(("shopify", "woocommerce"))
# The name of an operation and its command.
NamedCommand: TypeAlias = tuple[str, object]
_PlanChanges: TypeAlias = Callable[[FlowCall, StoreObjects], Awaitable[Sequence[NamedCommand]]]
_TAGGED_KINDS = {Order: "order", Product: "product", Customer: "customer", DraftOrder: "draft_order"}
# Settings that have no effect here, with the warning for a flow that uses them.
_UNSUPPORTED_SETTINGS = {
    "notify_merchant": "The store notifies nobody of the hold; the run and its approval show it.",
    "staff_note": "Its note for the staff is not saved with the order. Add a step that sets the"
    " order's note.",
}
_SWITCHES = ("refund", "restock", "restock_items", "notify_customer", "notify_merchant", "overwrite_target")
# WooCommerce's name of each product status of Shopify.
_WOO_STATUS = {"active": "publish", "draft": "draft", "archived": "private"}


async def propose(call: FlowCall, commands: Sequence[NamedCommand]) -> FlowResult:
    """Plans the commands as one proposal. Raises ItemFailed with all faults if any command is impossible."""
    result = FlowResult()
    faults: list[str] = []
    unchanged = 0
    for name, command in commands:
        operation = call.store.changes.get(name)
        if operation is None:
            raise ItemFailed(f"The store of this automation has no “{name}”. Run it on another store.")
        planned = operation.plan([command], integration_id=call.store.connection.integration_id)
        faults += [problem.message for problem in planned.problems]
        unchanged += len(planned.unchanged)
        result.proposals += planned.proposals
    if faults:
        raise ItemFailed(" ".join(dict.fromkeys(faults)))
    result.counts = Counts(matched=len(result.proposals), unchanged=unchanged)
    if not result.proposals:
        so = "It is so already" if commands else "Its texts came to nothing"
        result.message = f"{so}: nothing was to be changed."
    return result


@dataclass(frozen=True, slots=True)
class _ActionSpec:
    """An action: its task ids without the prefix, its label and fields, and how it plans changes.

    `required` names the fields that must be set; of names joined by `|`, one suffices.
    """

    names: tuple[str, ...]
    label: str
    operation: str
    fields: tuple[str, ...]
    required: tuple[str, ...]
    work: _PlanChanges
    stores: frozenset[str] = SHOPIFY
    versions: tuple[float, ...] = (0.1,)


class _StoreAction(FlowType):
    """A task that changes one object of the store and always requires approval."""

    kind = StepKind.CHANGE

    def __init__(self, spec: _ActionSpec) -> None:
        self.spec = spec
        self.tasks = tuple(f"{ADMIN}{name}" for name in spec.names)
        self.label = spec.label
        self.fields = frozenset(spec.fields)
        self.stores = spec.stores
        self.versions = spec.versions

    def operation(self, definition: TaskDefinition) -> str:
        """Returns the public operation, such as `shopify.order.add_tags`."""
        return f"shopify.{self.spec.operation}"

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields missing fields, unreadable switches and settings that have no effect."""
        for names in self.spec.required:
            if all(definition.config.get(name) in (None, "", []) for name in names.split("|")):
                words = f"Its setting “{names.partition('|')[0]}” is empty. Give it in Shopify Flow."
                yield StepProblem("error", "parameter", words)
        yield from _switch_problems(definition.config)
        for name, words in _UNSUPPORTED_SETTINGS.items():
            setting = definition.config.get(name)
            if setting not in (None, "") and (name == "staff_note" or _may_be_on(setting)):
                yield StepProblem("warning", "parameter", words)

    async def run(self, call: FlowCall) -> FlowResult:
        """Proposes the changes. Raises ItemFailed, or CallError for a read to retry later."""
        return await propose(call, await self.spec.work(call, StoreObjects(call.store)))


def _switch_problems(config: JsonObject) -> Iterable[StepProblem]:
    for name in _SWITCHES:
        if not (is_liquid(config.get(name)) or _is_switch(config.get(name))):
            message = f"Its setting “{name}” is neither on nor off. Set it again in Shopify Flow."
            yield StepProblem("error", "parameter", message)
    if _may_be_on(config.get("refund")):
        message = "It also gives the money back, which is not supported. Refund it in the store, and switch"
        yield StepProblem("error", "parameter", f"{message} the refund of this step off.")


def _may_be_on(value: JsonValue) -> bool:
    return is_on(value) or is_liquid(value)


def is_on(value: JsonValue) -> bool:
    """Returns whether a switch of an exported flow is on."""
    return value is True or (isinstance(value, str) and value.strip().lower() in ("true", "yes", "1"))


def _is_switch(value: JsonValue) -> bool:
    return value is None or is_on(value) or str(value).strip().lower() in ("", "false", "no", "0")


def is_whole(text: str) -> bool:
    """Returns whether a text is a whole number of at most eleven digits."""
    return re.fullmatch(r"-?[0-9]{1,11}", text) is not None


def tags_of(value: JsonValue) -> tuple[str, ...]:
    """Parses tags from a list, a JSON list or comma-separated text. Raises ItemFailed."""
    entries = _tag_entries(value)
    if any(isinstance(entry, list | tuple | Mapping) for entry in entries):
        raise ItemFailed("The tags of this step cannot be read.")
    # rendered Liquid may hold several tags or none
    return tuple(tag.strip() for entry in entries for tag in str(entry).split(",") if tag.strip())


def _tag_entries(value: JsonValue) -> Sequence[JsonValue]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ItemFailed("The tags of this step cannot be read.") from None
    return value if isinstance(value, list | tuple) else str(value or "").split(",")


async def tag_commands(
    objects: StoreObjects, subject: Order | Product | Customer | DraftOrder, tags: Sequence[str], *, on: bool
) -> list[NamedCommand]:
    """Returns the command that adds or removes tags. Raises ItemFailed.

    WooCommerce has no such operation, so the whole list of tags is set.
    """
    kind = next(name for of, name in _TAGGED_KINDS.items() if isinstance(subject, of))
    if f"{kind}.change_tags" in objects.store.changes:
        added, removed = (tuple(tags), ()) if on else ((), tuple(tags))
        return [(f"{kind}.change_tags", ChangeTags(subject, added, removed))]
    if not isinstance(subject, Product):
        raise ItemFailed("The store of this automation has only tags of products.")
    tag_ids = {name: str(number) for name, number in (await store_tags(objects.store)).items()}
    tags_after = subject.tags if on else without_tags(subject.tags, tags)
    for tag in tags if on else ():
        tags_after = with_tag(tags_after, tag)
    return [("product.set_tags", SetTags(subject, tags_after, tag_ids))]


def _tags(field: str, kind: str, on: bool) -> _PlanChanges:
    async def work(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
        readers: dict[str, Callable[[JsonValue], Awaitable[Order | Product | Customer | DraftOrder]]] = {
            "order": objects.order,
            "product": objects.product,
            "customer": objects.customer,
            "draft_order": objects.draft,
        }
        tags = tags_of(call.value("tags"))
        if not tags:  # the Liquid rendered to nothing, so there is nothing to add
            return []
        return await tag_commands(objects, await readers[kind](call.value(field)), tags, on=on)

    return work


async def metafield_command(
    objects: StoreObjects,
    owner: Product | Variant | Order | Customer,
    kind: str,
    arguments: JsonObject,
) -> NamedCommand:
    """Returns the command that sets a metafield. Raises ItemFailed without a namespace or key."""
    names = {name: str(arguments.get(name) or "").strip() for name in ("namespace", "key", "type")}
    if not names["key"] or not names["namespace"]:
        raise ItemFailed("It does not say which metafield: give its namespace and its key.")
    current = await objects.metafield(kind, owner.id.rpartition("/")[2], names["namespace"], names["key"])
    value = arguments.get("value")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    command = SetMetafield(
        owner,
        names["namespace"],
        names["key"],
        names["type"] or (current.type if current is not None else "single_line_text_field"),
        text,
        before=current.value if current is not None else None,
        digest=current.digest if current is not None else None,
    )
    return "metafield.set", command


def _metafield(kind: str) -> _PlanChanges:
    async def work(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
        readers: dict[
            str, tuple[str, Callable[[JsonValue], Awaitable[Order | Product | Customer | Variant]]]
        ] = {
            "Order": ("order_id", objects.order),
            "Product": ("product_id", objects.product),
            "Customer": ("customer_id", objects.customer),
            "ProductVariant": ("product_variant_id", objects.variant),
        }
        name, read = readers[kind]
        owner = await read(call.value(name))
        metafield = call.value("metafield")
        arguments = {
            "namespace": call.text("namespace"),
            "key": call.text("key"),
            "type": call.text("value_type") or call.text("type"),
            **(metafield if isinstance(metafield, Mapping) else {}),
        }
        value = call.value("value")
        # White space around Liquid does not belong to a single-line value.
        text = (
            value.strip() if isinstance(value, str) and "multi_line" not in str(arguments["type"]) else value
        )
        return [await metafield_command(objects, owner, kind, {**arguments, "value": text})]

    return work


async def _redirect(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
    path, target = call.text("path"), call.text("target")
    return [
        redirect_command(path, target, await objects.redirect(path), is_on(call.value("overwrite_target")))
    ]


def redirect_command(path: str, target: str, present: Redirect | None, overwrite: bool) -> NamedCommand:
    """Returns the command that creates a redirect or, with `overwrite`, changes an existing one's target."""
    if present is not None and overwrite:
        return "redirect.set", SetRedirect(present, target)
    return "redirect.create", CreateRedirect(path, target, present.target if present is not None else None)


async def _capture(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
    return [("order.capture", CapturePayment(await objects.order(call.value("order_id"))))]


async def _cancel(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
    order = await objects.order(call.value("order_id"))
    restock, notify = (
        is_on(call.value("restock") or call.value("restock_items")),
        is_on(call.value("notify_customer")),
    )
    return [cancel_command(order, restock, notify, call.text("reason"))]


def cancel_command(order: Order, restock: bool, notify: bool, reason: str) -> NamedCommand:
    """Returns the command that cancels an order; the approver sees the reason and whether mail is sent."""
    message = f"Reason: {reason.lower() or 'other'}."
    message += " The store notifies the customer by email." if notify else ""
    return "order.cancel", CancelOrder(order, restock, notify, reason.lower() or None, message)


def _close(reopen: bool) -> _PlanChanges:
    async def work(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
        return [("order.close", CloseOrder(await objects.order(call.value("order_id")), reopen))]

    return work


async def _order_note(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
    note = str(call.value("note") or "")
    return [("order.set_note", SetNote(await objects.order(call.value("order_id")), note))]


async def _customer_note(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
    note = str(call.value("note") or "")
    return [("customer.set_note", SetNote(await objects.customer(call.value("customer_id")), note))]


async def _fulfilments(call: FlowCall, objects: StoreObjects) -> tuple[Order, str | None]:
    """Returns the order and the id of the fulfilment order, or None for all fulfilment orders."""
    fulfilment_id = call.value("fulfillment_order_id")
    if call.text("order_id"):
        order = await objects.order(call.value("order_id"))
    else:
        order = await objects.order_of_fulfilment(fulfilment_id)
    return order, str(fulfilment_id).rpartition("/")[2] if fulfilment_id else None


def fulfilment_commands(
    order: Order,
    fulfilment_id: str | None,
    make: Callable[[FulfilmentOrder], NamedCommand],
    states: Sequence[str],
) -> list[NamedCommand]:
    """Returns a command for the named fulfilment order, or for all in these states. Raises ItemFailed."""
    if fulfilment_id is None:
        return [make(fulfilment) for fulfilment in order.fulfilment_orders if fulfilment.status in states]
    matching = [fulfilment for fulfilment in order.fulfilment_orders if fulfilment.id == fulfilment_id]
    if not matching:
        raise ItemFailed("The fulfilment to change is no longer part of the order.")
    return [make(matching[0])]


async def _hold(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
    order, fulfilment_id = await _fulfilments(call, objects)
    return fulfilment_commands(
        order,
        fulfilment_id,
        hold_command(order, call.text("reason"), call.text("reason_notes")),
        ("open", "scheduled"),
    )


def hold_command(order: Order, reason: str, notes: str) -> Callable[[FulfilmentOrder], NamedCommand]:
    """Returns a function that builds the hold of a fulfilment order; the approver sees reason and notes."""
    words = f"Reason: {reason.lower() or 'other'}. {notes}".strip()

    def hold(fulfilment: FulfilmentOrder) -> NamedCommand:
        return "fulfillment.hold", HoldFulfilment(
            order, fulfilment, reason.lower() or None, notes, words[:500]
        )

    return hold


async def _release(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
    return await release_commands(objects, *await _fulfilments(call, objects))


async def release_commands(
    objects: StoreObjects, order: Order, fulfilment_id: str | None
) -> list[NamedCommand]:
    """Returns commands that release one fulfilment order, or all that are on hold."""
    holds = {
        fulfilment_order.id: await objects.holds(fulfilment_order.id)
        for fulfilment_order in order.fulfilment_orders
        if fulfilment_order.status == "on_hold"
    }

    def release(fulfilment: FulfilmentOrder) -> NamedCommand:
        return "fulfillment.release", ReleaseFulfilment(order, fulfilment, holds.get(fulfilment.id, ()))

    return fulfilment_commands(order, fulfilment_id, release, ("on_hold",))


async def _status(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
    product, status = await objects.product(call.value("product_id")), call.text("status").lower()
    if call.store.platform == "woocommerce":
        status = _WOO_STATUS.get(status, status)
    return [("product.set_status", SetStatus(product, status))]


def _published(on: bool) -> _PlanChanges:
    async def work(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
        product = await objects.product(call.value("product_id"))
        publications = call.value("publication_ids") or call.value("publication_id")
        listed = publications if isinstance(publications, list | tuple) else [publications]
        channels = tuple(str(publication).rpartition("/")[2] for publication in listed if publication)
        return [("product.set_published", SetPublished(product, channels, on))]

    return work


async def _stock(call: FlowCall, objects: StoreObjects) -> Sequence[NamedCommand]:
    quantity = call.text("quantity")
    if not is_whole(quantity):
        raise ItemFailed("The quantity of this step is not a whole number.")
    variant = await objects.stocked(call.value("inventory_item_id"), call.value("location_id"))
    return [("inventory.set", SetStock(variant, int(quantity)))]


def _tag_specs() -> Iterable[_ActionSpec]:
    kinds = (
        ("order", SHOPIFY),
        ("product", BOTH),
        ("draft_order", SHOPIFY),
        ("customer", SHOPIFY),
    )
    for kind, stores in kinds:
        fields, words = (f"{kind}_id", "tags"), kind.replace("_", " ")
        for verb, on in (("add", True), ("remove", False)):
            label, name = f"{verb.capitalize()} {words} tags", f"{verb}_{kind}_tags"
            work = _tags(fields[0], kind, on)
            yield _ActionSpec((name,), label, f"{kind}.{verb}_tags", fields, fields, work, stores)


def _metafield_specs() -> Iterable[_ActionSpec]:
    kinds = (
        ("order", "Order", "order"),
        ("product", "Product", "product"),
        ("customer", "Customer", "customer"),
        ("product_variant", "ProductVariant", "product variant"),
    )
    for name, kind, words in kinds:
        fields = (f"{name}_id", "namespace", "key", "type", "value_type", "value", "metafield")
        for verb in ("add", "update"):
            yield _ActionSpec(
                (f"{verb}_{name}_metafield",),
                f"{verb.capitalize()} {words} metafield",
                f"{name}.set_metafield",
                fields,
                (f"{name}_id", "key|metafield", "value"),
                _metafield(kind),
                versions=(0.1, 1.0),
            )


_ORDER_FIELDS = ("order_id",)
_HOLD_FIELDS = ("order_id", "fulfillment_order_id", "reason", "reason_notes", "notify_merchant")
_CANCEL_FIELDS = ("order_id", "reason", "restock", "restock_items", "notify_customer", "refund", "staff_note")
_STOCK_FIELDS = ("inventory_item_id", "location_id", "quantity")
_CHANNEL_FIELDS = ("product_id", "publication_id", "publication_ids")
_SPECS: tuple[_ActionSpec, ...] = (
    *_tag_specs(),
    *_metafield_specs(),
    _ActionSpec(
        ("created_redirect_url", "create_redirect_url"),
        "Create redirect URL",
        "redirect.create",
        ("path", "target", "overwrite_target"),
        ("path", "target"),
        _redirect,
    ),
    _ActionSpec(
        ("capture_payment",), "Capture payment", "order.capture", _ORDER_FIELDS, _ORDER_FIELDS, _capture
    ),
    _ActionSpec(
        ("cancel_order",), "Cancel order", "order.cancel", _CANCEL_FIELDS, _ORDER_FIELDS, _cancel, BOTH
    ),
    _ActionSpec(
        ("archive_order",), "Archive order", "order.archive", _ORDER_FIELDS, _ORDER_FIELDS, _close(False)
    ),
    _ActionSpec(
        ("unarchive_order",), "Unarchive order", "order.unarchive", _ORDER_FIELDS, _ORDER_FIELDS, _close(True)
    ),
    _ActionSpec(
        ("update_order_note",),
        "Update order note",
        "order.set_note",
        ("order_id", "note"),
        _ORDER_FIELDS,
        _order_note,
    ),
    _ActionSpec(
        ("update_customer_note",),
        "Update customer note",
        "customer.set_note",
        ("customer_id", "note"),
        ("customer_id",),
        _customer_note,
    ),
    _ActionSpec(
        ("hold_fulfillment_order",),
        "Hold fulfillment order",
        "fulfillment.hold",
        _HOLD_FIELDS,
        ("fulfillment_order_id|order_id",),
        _hold,
    ),
    _ActionSpec(
        ("release_fulfillment_order", "release_fulfillment_order_hold"),
        "Release fulfillment order hold",
        "fulfillment.release",
        _HOLD_FIELDS[:2],
        ("fulfillment_order_id|order_id",),
        _release,
    ),
    _ActionSpec(
        ("update_product_status",),
        "Update product status",
        "product.set_status",
        ("product_id", "status"),
        ("product_id", "status"),
        _status,
        BOTH,
    ),
    _ActionSpec(
        ("publish_product",),
        "Publish product",
        "product.publish",
        _CHANNEL_FIELDS,
        ("product_id", "publication_id|publication_ids"),
        _published(True),
    ),
    _ActionSpec(
        ("hide_product", "unpublish_product"),
        "Hide product",
        "product.unpublish",
        _CHANNEL_FIELDS,
        ("product_id", "publication_id|publication_ids"),
        _published(False),
    ),
    _ActionSpec(
        ("set_inventory_quantity", "update_inventory_quantity"),
        "Set inventory quantity",
        "inventory.set",
        _STOCK_FIELDS,
        _STOCK_FIELDS,
        _stock,
    ),
)
ACTIONS: tuple[FlowType, ...] = tuple(_StoreAction(spec) for spec in _SPECS)
