"""What may be changed in a WooCommerce shop: validated, worked out and compared; pure (connectors 6)."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TypeVar

from steward.connectors.base.commands import Keep, SetPrice, SetStock, SetTags, SetVisible
from steward.connectors.base.connector import ItemProblem, PlannedChanges
from steward.connectors.base.records import Variant, currency_decimals
from steward.connectors.base.store_operation import StoreOperation
from steward.connectors.woocommerce.tag_names import key_among, stored_name, tag_key
from steward.model.change import Action, FieldChange, FieldKind, ObjectRef, Part, Proposal
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue

A = TypeVar("A", contravariant=True)
BATCH = 100
MAX_STOCK = 1_000_000
VISIBLE_WORDS = ("visible", "catalog", "search")
_PRICE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,4})?")


class WooCommerceBatchOperation(StoreOperation[A]):
    """Operations that `…/batch` makes for up to 100 objects, or variations of one product."""

    __slots__ = ()

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """By the product the items belong to, at most 100 each, in the order they first appear."""
        by_parent: dict[str, list[Part]] = {}
        for part in parts:
            by_parent.setdefault(part.target.rpartition("/")[0], []).append(part)
        return [
            tuple(held[at : at + BATCH]) for held in by_parent.values() for at in range(0, len(held), BATCH)
        ]


class WooCommercePriceOperation(WooCommerceBatchOperation[SetPrice]):
    """`variant.set_price`: regular_price and sale_price (templates 2)."""

    __slots__ = ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Money by decimal value; an empty price equals only an empty one."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        names = ("regular_price", "sale_price")
        return all(_same_money(expected.get(name), actual.get(name)) for name in names)

    def _plan_one(self, command: SetPrice, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        variant = command.variant
        compare = variant.compare_at if command.compare_at is Keep.KEEP else command.compare_at
        problem = _price_problem(command, compare)
        if problem is not None:
            return problem
        before = {"regular_price": variant.regular_price, "sale_price": variant.sale_price}
        after = (
            {"regular_price": command.price, "sale_price": ""}
            if compare is None
            else {"regular_price": compare, "sale_price": command.price}
        )
        if self.same(after, before):
            return variant.id
        fields = [
            _money(
                variant, "sale_price" if compare else "regular_price", "Price", variant.price, command.price
            )
        ]
        if not _same_money(variant.compare_at, compare):
            name = "regular_price" if compare else "sale_price"
            fields.append(_money(variant, name, "Compare-at price", variant.compare_at, compare))
        part = Part(self.name, integration_id, variant.id, after, before, after)
        message = command.message
        if (variant.sale_from or variant.sale_to) and (compare is not None or variant.sale_price):
            dates = f"{_minute(variant.sale_from)} to {_minute(variant.sale_to)}"
            words = f"The sale dates stay: {dates}." if compare else f"Its sale of {dates} is taken back."
            message = f"{message} {words}" if message else words
        shown = tuple(field for field in fields if not _same_money(field.before, field.after))
        return Proposal(
            _variant_ref(variant), self.action, shown or tuple(fields[:1]), (part,), integration_id,
            self.reversible, message,
        )  # fmt: skip


class WooCommerceStockOperation(WooCommerceBatchOperation[SetStock]):
    """`inventory.set`: stock_quantity, written where the number belongs (connectors 2.2)."""

    __slots__ = ()

    def plan(self, commands: Sequence[SetStock], *, integration_id: IntegrationId) -> PlannedChanges:
        """As every plan; a number shared through the parent is written once, and only one value."""
        by_target: dict[str, set[int]] = {}
        for command in commands:
            by_target.setdefault(command.variant.stock_target, set()).add(command.quantity)
        kept: list[SetStock] = []
        problems: list[ItemProblem] = []
        seen: set[str] = set()
        for command in commands:
            target = command.variant.stock_target
            if len(by_target[target]) > 1:
                words = "Its stock is shared with other variants, which ask for another number."
                problems.append(ItemProblem(command.variant.id, "stock_shared", words, "stock_quantity"))
            elif target not in seen:
                seen.add(target)
                kept.append(command)
        planned = super().plan(kept, integration_id=integration_id)
        return PlannedChanges(planned.proposals, (*problems, *planned.problems), planned.unchanged)

    def _plan_one(self, command: SetStock, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        variant = command.variant
        if not variant.tracked or variant.stock is None:
            words = "Its stock is not tracked, so a number would be ignored."
            return ItemProblem(variant.id, "not_tracked", words, "stock_quantity")
        if isinstance(command.quantity, bool) or not 0 <= command.quantity <= MAX_STOCK:
            words = f"A stock is written from 0 to {MAX_STOCK}."
            return ItemProblem(
                variant.id, "negative" if command.quantity < 0 else "out_of_range", words, "stock_quantity"
            )
        if command.quantity == variant.stock:
            return variant.id
        before, after = {"stock_quantity": variant.stock}, {"stock_quantity": command.quantity}
        part = Part(self.name, integration_id, variant.stock_target, after, before, after)
        label = variant.product_title if variant.stock_managed_by_parent else variant.label
        field = FieldChange("stock_quantity", "Stock", variant.stock, command.quantity, FieldKind.NUMBER)
        return Proposal(
            ObjectRef("inventory", variant.stock_target, label, variant.url), self.action, (field,), (part,),
            integration_id, self.reversible, command.message,
        )  # fmt: skip


class WooCommerceVisibilityOperation(WooCommerceBatchOperation[SetVisible]):
    """`product.set_visible`: catalog_visibility; what it was is put back by `restore`."""

    __slots__ = ()

    def _plan_one(self, command: SetVisible, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        product = command.product
        if command.restore is not None and command.restore not in VISIBLE_WORDS:
            words = "It can only be put back to visible, catalog or search."
            return ItemProblem(product.id, "not_a_visibility", words, "catalog_visibility")
        if command.visible == product.visible:
            return product.id
        if command.visible and product.status != "publish":
            words = "It is not published, so it cannot be made visible."
            return ItemProblem(product.id, "not_published", words, "catalog_visibility")
        wanted = (command.restore or VISIBLE_WORDS[0]) if command.visible else "hidden"
        before, after = {"catalog_visibility": product.visibility}, {"catalog_visibility": wanted}
        part = Part(self.name, integration_id, product.id, after, before, after)
        field = FieldChange(
            "catalog_visibility", "Visible", product.visible, command.visible, FieldKind.BOOLEAN
        )
        return Proposal(
            ObjectRef("product", product.id, product.label, product.url),
            Action.PUBLISH if command.visible else Action.UNPUBLISH, (field,), (part,),
            integration_id, self.reversible, command.message,
        )  # fmt: skip


class WooCommerceTagsOperation(WooCommerceBatchOperation[SetTags]):
    """`product.set_tags`: the whole list; a tag the shop lacks is made first, in a part of its own."""

    __slots__ = ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Tags as sets, by what the shop makes of their names."""
        wanted_tags, seen_tags = _tags(expected), _tags(actual)
        if wanted_tags is None or seen_tags is None:
            return expected == actual
        present = set(map(tag_key, seen_tags))
        return {key_among(tag, present) for tag in wanted_tags} == present

    def _plan_one(self, command: SetTags, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        product = command.product
        wanted: dict[str, str] = {}
        for tag in command.tags:
            problem = tag_problem(product.id, tag)
            if problem is not None:
                return problem
            wanted.setdefault(tag_key(tag), stored_name(tag))
        before = {"tags": list(product.tags)}
        after = {"tags": sorted(wanted.values())}
        if self.same(after, before):
            return product.id
        ids = {tag_key(name): number for name, number in (*command.tag_ids.items(), *product.tag_ids)}
        keys = {tag: key_among(tag, ids) for tag in after["tags"]}
        missing = [tag for tag, key in keys.items() if key not in ids]
        makes = [
            Part("product_tag.create", integration_id, tag, {"name": tag}, None, {"name": tag})
            for tag in missing
        ]
        arguments: JsonObject = {
            "tags": after["tags"],
            "ids": {tag: ids[key] for tag, key in keys.items() if key in ids},
        }
        part = Part(self.name, integration_id, product.id, arguments, before, after)
        field = FieldChange("tags", "Tags", before["tags"], after["tags"], FieldKind.TAGS)
        return Proposal(
            ObjectRef("product", product.id, product.label, product.url), self.action, (field,),
            (*makes, part), integration_id, self.reversible, command.message,
        )  # fmt: skip

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """The list after."""
        return {"tags": arguments["tags"]}, ()


class WooCommerceTagCreation(StoreOperation[object]):
    """`product_tag.create`: only ever a part of another change; settled by looking its name up."""

    __slots__ = ()

    def plan(self, commands: Sequence[object], *, integration_id: IntegrationId) -> PlannedChanges:
        """Nothing: a tag alone is no change of a product."""
        return PlannedChanges((), ())

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """By what the shop makes of the names."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        present = {tag_key(str(actual.get("name")))}
        return key_among(str(expected.get("name")), present) in present


def _price_problem(ask: SetPrice, compare: str | None) -> ItemProblem | None:
    item, decimals = ask.variant.id, currency_decimals(ask.variant.currency)
    for name, text in (("regular_price", ask.price), ("compare_at", compare)):
        if text is None:
            continue
        if not _PRICE.fullmatch(text):
            return ItemProblem(item, "not_a_number", "A price is a number from 0 to 999999999.", name)
        if len(text.partition(".")[2].rstrip("0")) > decimals:
            words = f"A price in {ask.variant.currency or 'this currency'} has at most {decimals} decimals."
            return ItemProblem(item, "too_many_decimals", words, name)
    if Decimal(ask.price) == 0 and not ask.allow_zero:
        return ItemProblem(item, "price_zero", "A price of 0 is not set.", "regular_price")
    if compare is not None and Decimal(compare) <= Decimal(ask.price):
        words = "The compare-at price is not above the price."
        return ItemProblem(item, "compare_at_not_above", words, "compare_at")
    return None


def _money(variant: Variant, name: str, label: str, before: str | None, after: str | None) -> FieldChange:
    return FieldChange(name, label, before, after, FieldKind.MONEY, variant.currency)


def _minute(at: str | None) -> str:
    """A time of the shop's own fields, which are UTC, as people read it; an end that is open has none."""
    return f"{at[:16].replace('T', ' ')} UTC" if at else "…"


def _variant_ref(variant: Variant) -> ObjectRef:
    return ObjectRef("variant", variant.id, variant.label, variant.url)


def _same_money(wanted: JsonValue, seen: JsonValue) -> bool:
    left, right = wanted or "", seen or ""
    if left == right:
        return True
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    if not _PRICE.fullmatch(left) or not _PRICE.fullmatch(right):
        return False
    return Decimal(left) == Decimal(right)


def tag_problem(item: str, tag: str) -> ItemProblem | None:
    """Why this cannot be a tag (connectors 6)."""
    if 1 <= len(tag) <= 255 and tag == tag.strip() and "," not in tag and stored_name(tag):
        return None
    words = "A tag has 1 to 255 characters, no comma and no blanks around it."
    return ItemProblem(item, "not_a_tag", words, "tags")


def _tags(value: JsonValue) -> list[str] | None:
    tags = value.get("tags") if isinstance(value, dict) else None
    return [str(tag) for tag in tags] if isinstance(tags, list | tuple) else None


def tag_set(value: JsonValue) -> frozenset[str] | None:
    """The tags of a value as a set without regard to case."""
    tags = value.get("tags") if isinstance(value, dict) else None
    return frozenset(str(tag).casefold() for tag in tags) if isinstance(tags, list | tuple) else None


SET_PRICE = WooCommercePriceOperation("variant.set_price")
SET_STOCK = WooCommerceStockOperation("inventory.set")
SET_VISIBLE = WooCommerceVisibilityOperation("product.set_visible")
SET_TAGS = WooCommerceTagsOperation("product.set_tags")
MAKE_TAG = WooCommerceTagCreation("product_tag.create", action=Action.CREATE)
