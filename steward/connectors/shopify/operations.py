"""Plans changes of a Shopify store's products and stock, without I/O.

order_operations.py plans changes of orders, customers and other objects.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol, TypeAlias, TypeVar

from steward.connectors.base.commands import (
    MAX_STOCK,
    Keep,
    SetPrice,
    SetPublished,
    SetStatus,
    SetStock,
    SetTags,
)
from steward.connectors.base.connector import Guard, ItemProblem
from steward.connectors.base.inverses import STOCK_NOTE, mirrored, value_restored
from steward.connectors.base.records import Product, Variant, currency_decimals
from steward.connectors.base.store_operation import StoreOperation
from steward.connectors.shopify.objects import item_and_location
from steward.model.change import Action, FieldChange, FieldKind, ObjectRef, Part, Proposal, Recovery
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Inverse, PutBack

A = TypeVar("A", contravariant=True)
_MAX_PARTS = 250
NOT_A_TAG = "A tag has 1 to 255 characters, no comma and no blanks around it."
_STATUSES = ("active", "draft", "archived", "unlisted")
_PRICE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,4})?")


class ShopifyOperation(StoreOperation[A]):
    """The base of all Shopify operations: compares the fields of the expected value."""

    __slots__ = ()

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the value after the write; everything can be predicted."""
        return self._after(before, arguments), ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares every field of `expected`."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        return all(name in actual and actual[name] == value for name, value in expected.items())

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return dict(arguments)


class _PriceOperation(ShopifyOperation[SetPrice]):
    """`variant.set_price`: price and compare-at price of variants; one request per product."""

    __slots__ = ()

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Groups by product, at most 250 parts each, in the order of first appearance."""
        by_product: dict[str, list[Part]] = {}
        for part in parts:
            by_product.setdefault(str(part.arguments["product"]), []).append(part)
        return [
            tuple(product_parts[start : start + _MAX_PARTS])
            for product_parts in by_product.values()
            for start in range(0, len(product_parts), _MAX_PARTS)
        ]

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares money by decimal value; a missing compare-at price equals only a missing one."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        return all(same_money(expected.get(name), actual.get(name)) for name in ("price", "compare_at"))

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {name: arguments[name] for name in ("price", "compare_at")}

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores both earlier prices."""
        assert isinstance(part.before, dict)
        return PutBack(mirrored(part, {"product": part.arguments["product"], **part.before}))

    def _plan_one(self, command: SetPrice, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        variant = command.variant
        compare = variant.compare_at if command.compare_at is Keep.KEEP else command.compare_at
        problem = _price_problem(command, compare)
        if problem is not None:
            return problem
        before: dict[str, JsonValue] = {"price": variant.price, "compare_at": variant.compare_at}
        after: dict[str, JsonValue] = {"price": command.price, "compare_at": compare}
        if self.same(after, before):
            return variant.id
        fields = [
            FieldChange(name, label, was, becomes, FieldKind.MONEY, variant.currency)
            for name, label, was, becomes in (
                ("price", "Price", variant.price, command.price),
                ("compare_at_price", "Compare-at price", variant.compare_at, compare),
            )
            if not same_money(was, becomes)
        ]
        arguments: JsonObject = {"product": variant.product_id, **after}
        part = Part(self.name, integration_id, variant.id, arguments, before, after)
        ref = ObjectRef("variant", variant.id, variant.label, variant.url)
        return Proposal(ref, self.action, tuple(fields), (part,), integration_id, command.message)


class _StockOperation(ShopifyOperation[SetStock]):
    """`inventory.set`: the available quantity at one location, by compare-and-swap."""

    __slots__ = ()

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Groups at most 250 quantities; a request has no item twice at the same location."""
        groups: list[list[Part]] = [[]]
        for part in parts:
            used = {grouped_part.target for grouped_part in groups[-1]}
            if len(groups[-1]) >= _MAX_PARTS or part.target in used:
                groups.append([])
            groups[-1].append(part)
        return [tuple(group) for group in groups if group]

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"quantity": arguments["quantity"]}

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier quantity, provided it is still the written one."""
        assert isinstance(part.before, dict)
        was = {"quantity": part.before["quantity"], "was": part.arguments["quantity"]}
        return PutBack(mirrored(part, {**part.arguments, **was}), STOCK_NOTE)

    def _plan_one(self, command: SetStock, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        variant = command.variant
        problem = _stock_problem(command)
        if problem is not None:
            return problem
        if command.quantity == variant.stock:
            return variant.id
        item, location = item_and_location(variant.stock_target)
        before, after = {"quantity": variant.stock}, {"quantity": command.quantity}
        arguments: JsonObject = {
            "item": item,
            "location": location,
            "quantity": command.quantity,
            "was": variant.stock,
        }
        part = Part(self.name, integration_id, variant.stock_target, arguments, before, after)
        field = FieldChange("stock", "Stock", variant.stock, command.quantity, FieldKind.NUMBER)
        ref = ObjectRef("inventory", variant.stock_target, variant.label, variant.url)
        return Proposal(ref, self.action, (field,), (part,), integration_id, command.message)


class _StatusOperation(ShopifyOperation[SetStatus]):
    """`product.set_status`: active, draft, archived or unlisted."""

    __slots__ = ()

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier status."""
        return value_restored(part)

    def _plan_one(self, command: SetStatus, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        product, status = command.product, command.status.strip().lower()
        if status not in _STATUSES:
            message = f"A product's status is one of {', '.join(_STATUSES)}."
            return ItemProblem(product.id, "not_a_status", message, "status")
        if status == product.status:
            return product.id
        before, after = {"status": product.status}, {"status": status}
        part = Part(self.name, integration_id, product.id, after, before, after)
        field = FieldChange("status", "Status", product.status, status, FieldKind.TEXT)
        return Proposal(
            product_ref(product),
            self.action,
            (field,),
            (part,),
            integration_id,
            command.message,
        )


class _PublishedOperation(ShopifyOperation[SetPublished]):
    """`product.set_published`: publishes or unpublishes; only channels that differ are sent."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        channels = arguments["channels"]
        return {"on": channels if arguments["published"] is True else []}

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that removes the product from these channels, or publishes it on them again."""
        return PutBack(
            mirrored(part, {**part.arguments, "published": part.arguments["published"] is not True})
        )

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Splits the value into the sales channels that the part changes."""
        channels, on = part.arguments["channels"], value.get("on") if isinstance(value, dict) else None
        assert isinstance(channels, list | tuple)
        listed = on if isinstance(on, list | tuple) else ()
        return {
            f"{self.name}|{part.target}|{channel}": {"on": [channel] if channel in listed else []}
            for channel in channels
        }

    def _plan_one(self, command: SetPublished, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        product = command.product
        if not command.channels or not all(
            channel.isascii() and channel.isdigit() for channel in command.channels
        ):
            message = "A sales channel is named by its number in the store."
            return ItemProblem(product.id, "not_a_channel", message, "visible")
        touched = sorted(
            {
                channel
                for channel in command.channels
                if (channel in product.channels) is not command.published
            }
        )
        if not touched:
            return product.id
        on, off = (touched, []) if command.published else ([], touched)
        arguments: JsonObject = {"channels": touched, "published": command.published}
        part = Part(self.name, integration_id, product.id, arguments, {"on": off}, {"on": on})
        field = FieldChange("visible", "Visible", not command.published, command.published, FieldKind.BOOLEAN)
        action = Action.PUBLISH if command.published else Action.UNPUBLISH
        return Proposal(product_ref(product), action, (field,), (part,), integration_id, command.message)


class _TagsCommand(Protocol):
    @property
    def tags(self) -> tuple[str, ...]: ...

    @property
    def message(self) -> str | None: ...


class _TaggedObject(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def tags(self) -> tuple[str, ...]: ...


C = TypeVar("C", bound=_TagsCommand, contravariant=True)
Tagged: TypeAlias = tuple[ObjectRef, _TaggedObject]


@dataclass(frozen=True, slots=True)
class TagsOperation(ShopifyOperation[C]):
    """Sets the tags of an object: one part adds missing tags, another removes the others.

    `tagged` returns the object of a command, with its reference.
    """

    tagged: Callable[[C], Tagged] = field(kw_only=True)

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares tags as sets, without regard to case."""
        return _tag_set(expected) == _tag_set(actual)

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"tags": _tags_after(before.get("tags") if isinstance(before, dict) else None, arguments)}

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that removes added tags, or adds removed ones."""
        return tags_inverse(part)

    def _plan_one(self, command: C, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        ref, subject = self.tagged(command)
        new_tags: dict[str, str] = {}
        for tag in command.tags:
            if not is_tag(tag):
                return ItemProblem(subject.id, "not_a_tag", NOT_A_TAG, "tags")
            new_tags.setdefault(tag.casefold(), tag)
        current_tags = _names(subject.tags)
        add = sorted(tag for name, tag in new_tags.items() if name not in current_tags)
        remove = sorted(tag for name, tag in current_tags.items() if name not in new_tags)
        parts: list[Part] = []
        tags = list(subject.tags)
        for name, changed in (("add", add), ("remove", remove)):
            if changed:
                arguments: JsonObject = {name: changed}
                before, tags = sorted(tags), _tags_after(tags, arguments)
                parts.append(
                    Part(self.name, integration_id, subject.id, arguments, {"tags": before}, {"tags": tags})
                )
        if not parts:
            return subject.id
        change = FieldChange("tags", "Tags", sorted(subject.tags), sorted(tags), FieldKind.TAGS)
        return Proposal(ref, self.action, (change,), tuple(parts), integration_id, command.message)


def tags_inverse(part: Part) -> Inverse:
    """Returns the part that removes the tags which a part adds, or adds those which it removes."""
    verb, tags = next(iter(part.arguments.items()))
    return PutBack(mirrored(part, {"remove" if verb == "add" else "add": tags}))


def is_tag(tag: str) -> bool:
    """Returns whether a text can be a tag."""
    return 1 <= len(tag) <= 255 and tag == tag.strip() and "," not in tag and tag.isprintable()


def same_money(expected: JsonValue, actual: JsonValue) -> bool:
    """Compares amounts by decimal value; null equals only null."""
    if expected is None or actual is None:
        return expected is actual
    if not isinstance(expected, str) or not isinstance(actual, str):
        return False
    if not _PRICE.fullmatch(expected) or not _PRICE.fullmatch(actual):
        return expected == actual
    return Decimal(expected) == Decimal(actual)


def is_amount(text: str) -> bool:
    """Returns whether `text` is an amount with at most 9 digits before the point and 4 after it."""
    return _PRICE.fullmatch(text) is not None


def _price_problem(command: SetPrice, compare: str | None) -> ItemProblem | None:
    item = command.variant.id
    for name, text in (("price", command.price), ("compare_at_price", compare)):
        problem = None if text is None else _amount_problem(command.variant, name, text)
        if problem is not None:
            return problem
    if Decimal(command.price) == 0 and not command.allow_zero:
        return ItemProblem(item, "price_zero", "A price of 0 is not set.", "price")
    keeps_compare_at = command.compare_at is Keep.KEEP and command.variant.compare_at is not None
    if compare is not None and not keeps_compare_at and Decimal(compare) <= Decimal(command.price):
        message = "The compare-at price is not above the price."
        return ItemProblem(item, "compare_at_not_above", message, "compare_at_price")
    return None


def _amount_problem(variant: Variant, name: str, text: str) -> ItemProblem | None:
    if not is_amount(text):
        return ItemProblem(variant.id, "not_a_number", "A price is a number from 0 to 999999999.", name)
    decimals = currency_decimals(variant.currency)
    if len(text.partition(".")[2].rstrip("0")) > decimals:
        message = f"A price in {variant.currency or 'this currency'} has at most {decimals} decimals."
        return ItemProblem(variant.id, "too_many_decimals", message, name)
    return None


def _stock_problem(command: SetStock) -> ItemProblem | None:
    variant = command.variant
    if not variant.tracked:
        message = "Its stock is not tracked, so a number would be ignored."
        return ItemProblem(variant.id, "not_tracked", message, "stock")
    if variant.location_id is None:
        message = "Stock is written at one location, and none was named."
        return ItemProblem(variant.id, "location_needed", message, "stock")
    if variant.stock is None:
        return ItemProblem(variant.id, "not_stocked", "It is not stocked at this location.", "stock")
    if isinstance(command.quantity, bool) or not 0 <= command.quantity <= MAX_STOCK:
        code = "negative" if command.quantity < 0 else "out_of_range"
        return ItemProblem(variant.id, code, f"Stock must be a number from 0 to {MAX_STOCK}.", "stock")
    return None


def product_ref(product: Product) -> ObjectRef:
    """Returns a product's reference with its label and URL."""
    return ObjectRef("product", product.id, product.label, product.url)


def _names(tags: JsonValue) -> dict[str, str]:
    return {str(tag).casefold(): str(tag) for tag in tags} if isinstance(tags, list | tuple) else {}


def _tags_after(tags: JsonValue, arguments: JsonObject) -> list[str]:
    added, removed = _names(arguments.get("add")), _names(arguments.get("remove"))
    return sorted(tag for name, tag in {**added, **_names(tags)}.items() if name not in removed)


def _tag_set(value: JsonValue) -> frozenset[str] | None:
    return frozenset(_names(value.get("tags"))) if isinstance(value, dict) else None


def variant_ref(variant: Variant) -> ObjectRef:
    """Returns a variant's reference with its label and URL."""
    return ObjectRef("variant", variant.id, variant.label, variant.url)


SET_PRICE = _PriceOperation("variant.set_price")
SET_STOCK = _StockOperation("inventory.set", recovery=Recovery.IDEMPOTENT, guard=Guard.COMPARE_AND_SWAP)
SET_STATUS = _StatusOperation("product.set_status")
SET_PUBLISHED = _PublishedOperation("product.set_published")
# Shopify's tags need no ids, so `tag_ids` of the command is unused.
SET_TAGS: TagsOperation[SetTags] = TagsOperation(
    "product.set_tags", tagged=lambda command: (product_ref(command.product), command.product)
)
