"""The store fields that an imported step may change, and the commands that set them.

A field is listed if a connector has an operation for it; the import rejects all others by name.
"""

from collections.abc import Mapping

from steward.connectors.base.commands import (
    SetNote,
    SetObjectFields,
    SetOrderStatus,
    SetOrderTags,
    SetPrice,
    SetStatus,
    SetStock,
    SetTags,
    SetVisible,
)
from steward.connectors.base.queries import FIELDS, ORDER, PRODUCT, TAGS, ById, FieldsQuery, NoParameters
from steward.connectors.base.records import Order, Product
from steward.model.json import JsonObject, JsonValue
from steward.steps.base import StoreAccess
from steward.steps.workflow.external_calls import read_all
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed

# By resource and field: the operation. Fields with the same operation form one change.
WOO: Mapping[tuple[str, str], str] = {
    ("product", "regularPrice"): "variant.set_price",
    ("product", "salePrice"): "variant.set_price",
    ("product", "stockQuantity"): "inventory.set",
    ("product", "status"): "product.set_status",
    ("product", "catalogVisibility"): "product.set_visible",
    ("product", "tags"): "product.set_tags",
    ("order", "status"): "order.set_status",
}
SHOPIFY: Mapping[tuple[str, str], str] = {
    **{("product", name): "product.set_fields" for name in ("title", "vendor", "handle")},
    ("product", "product_type"): "product.set_fields",
    ("product", "template_suffix"): "product.set_fields",
    ("product", "tags"): "product.set_tags",
    ("order", "tags"): "order.set_tags",
    ("order", "note"): "order.set_note",
    ("order", "email"): "order.set_fields",
    ("order", "phone"): "order.set_fields",
}
_NATIVE = {"product_type": "productType", "template_suffix": "templateSuffix"}


async def object_of(store: StoreAccess, resource: str, number: str) -> Product | Order:
    """Reads an object from the store. Raises ItemFailed, CallError."""
    if not number:
        raise ItemFailed("The id of the object to change is empty.")
    objects: list[Product] | list[Order]
    if resource == "order":
        objects = await read_all(store.reader.read(ORDER, ById(number)))
    else:
        objects = await read_all(store.reader.read(PRODUCT, ById(number)))
    if not objects:
        raise ItemFailed(f"The store has no {resource} {number}.")
    return objects[0]


async def command_for(
    operation: str, current: Product | Order, values: JsonObject, store: StoreAccess
) -> object:
    """Returns the command that sets the fields. Raises ItemFailed, CallError."""
    if operation in ("product.set_fields", "order.set_fields"):
        kind = "Order" if operation == "order.set_fields" else "Product"
        [subject] = await read_all(store.reader.read(FIELDS, FieldsQuery(kind, current.id)))
        return SetObjectFields(subject, _field_texts(values))
    if isinstance(current, Order):
        [value] = values.values()
        return _order_command(operation, current, value)
    match operation:
        case "variant.set_price":
            return _price(current, values)
        case "inventory.set":
            return _stock(current, values["stockQuantity"])
        case "product.set_visible":
            word = js.text(values["catalogVisibility"])
            return SetVisible(current, word != "hidden", None if word == "hidden" else word)
        case "product.set_tags" if store.platform == "woocommerce":
            return await _numbered_tags(current, values["tags"], store)
        case "product.set_tags":
            return SetTags(current, _texts(values["tags"]))
        case _:
            return SetStatus(current, js.text(values["status"]))


def _field_texts(values: JsonObject) -> dict[str, str]:
    return {_NATIVE.get(name, name): js.text(value) for name, value in values.items()}


def _order_command(operation: str, order: Order, value: JsonValue) -> SetOrderTags | SetNote | SetOrderStatus:
    match operation:
        case "order.set_tags":
            return SetOrderTags(order, _texts(value))
        case "order.set_note":
            return SetNote(order, js.text(value))
        case _:
            return SetOrderStatus(order, js.text(value))


def _price(product: Product, values: JsonObject) -> SetPrice:
    """Returns the command that sets both prices; a price that is not given keeps its value."""
    if len(product.variants) != 1:
        raise ItemFailed("This product has variations, whose prices are changed one by one.")
    variant = product.variants[0]
    regular = js.text(values["regularPrice"]) if "regularPrice" in values else variant.regular_price
    sale = js.text(values["salePrice"]) if "salePrice" in values else variant.sale_price
    return SetPrice(variant, regular) if sale == "" else SetPrice(variant, sale, regular)


def _stock(product: Product, value: JsonValue) -> SetStock:
    number = js.number(value)
    if len(product.variants) != 1 or not float(number).is_integer():
        raise ItemFailed("The stock of this product cannot be set to that.")
    return SetStock(product.variants[0], int(number))


def _texts(value: JsonValue) -> tuple[str, ...]:
    values = value if js.is_list(value) else js.text(value).split(",")
    return tuple(tag.strip() for tag in (js.text(value_) for value_ in values) if tag.strip())


async def _numbered_tags(product: Product, value: JsonValue, store: StoreAccess) -> SetTags:
    """Returns the command that sets tags by id, as n8n names them. Raises ItemFailed."""
    names_by_id = {tag.id: tag.name for tag in await read_all(store.reader.read(TAGS, NoParameters()))}
    tag_ids = _texts(value)
    missing = [number for number in tag_ids if number not in names_by_id]
    if missing:
        raise ItemFailed(f"The store has no tag {missing[0][:40]}.")
    names = tuple(names_by_id[number] for number in tag_ids)
    return SetTags(product, names, {name: number for number, name in names_by_id.items()})
