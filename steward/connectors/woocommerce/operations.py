"""The changes of products and their tags in a WooCommerce shop: validation, proposals, comparison."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TypeVar

from steward.connectors.base.commands import MAX_STOCK, Keep, SetPrice, SetStock, SetTags, SetVisible
from steward.connectors.base.connector import ItemProblem, PlannedChanges
from steward.connectors.base.inverses import STOCK_NOTE, mirrored, value_restored
from steward.connectors.base.records import Variant, currency_decimals
from steward.connectors.base.store_operation import StoreOperation
from steward.connectors.woocommerce.tag_names import stored_key, stored_name, tag_key
from steward.model.change import Action, FieldChange, FieldKind, ObjectRef, Part, Proposal
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Inverse, NothingToUndo, PutBack

A = TypeVar("A", contravariant=True)
BATCH = 100
_VISIBLE_WORDS = ("visible", "catalog", "search")
_PRICE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,4})?")


class WooCommerceBatchOperation(StoreOperation[A]):
    """Operations that `…/batch` applies to up to 100 objects, or to variations of one product."""

    __slots__ = ()

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Groups parts by the product they belong to, at most 100 each, in order of first appearance."""
        by_parent: dict[str, list[Part]] = {}
        for part in parts:
            by_parent.setdefault(part.target.rpartition("/")[0], []).append(part)
        return [
            tuple(held[start : start + BATCH])
            for held in by_parent.values()
            for start in range(0, len(held), BATCH)
        ]


class _WooCommercePriceOperation(WooCommerceBatchOperation[SetPrice]):
    """`variant.set_price`: sets regular_price and sale_price."""

    __slots__ = ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares money by decimal value; an empty price equals only an empty one."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        names = ("regular_price", "sale_price")
        return all(_same_money(expected.get(name), actual.get(name)) for name in names)

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores both earlier prices."""
        return value_restored(part)

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
        part = Part(self.name, integration_id, variant.id, after, before, after)
        return Proposal(
            _variant_ref(variant), self.action, _price_fields(command, compare), (part,), integration_id,
            _price_message(command, compare),
        )  # fmt: skip


class _WooCommerceStockOperation(WooCommerceBatchOperation[SetStock]):
    """`inventory.set`: sets stock_quantity of the variation, or of the product that manages its stock."""

    __slots__ = ()

    def plan(self, commands: Sequence[SetStock], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans like every operation, but writes a stock shared through the parent only once.

        Different numbers for one shared stock are a problem.
        """
        by_target: dict[str, set[int]] = {}
        for command in commands:
            by_target.setdefault(command.variant.stock_target, set()).add(command.quantity)
        unique_asks: list[SetStock] = []
        problems: list[ItemProblem] = []
        seen: set[str] = set()
        for command in commands:
            target = command.variant.stock_target
            if len(by_target[target]) > 1:
                message = "Its stock is shared with other variants, which command for another number."
                problems.append(ItemProblem(command.variant.id, "stock_shared", message, "stock_quantity"))
            elif target not in seen:
                seen.add(target)
                unique_asks.append(command)
        planned = super().plan(unique_asks, integration_id=integration_id)
        return PlannedChanges(planned.proposals, (*problems, *planned.problems), planned.unchanged)

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier quantity."""
        return value_restored(part, STOCK_NOTE)

    def _plan_one(self, command: SetStock, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        variant = command.variant
        if not variant.tracked or variant.stock is None:
            message = "Its stock is not tracked, so a number would be ignored."
            return ItemProblem(variant.id, "not_tracked", message, "stock_quantity")
        if isinstance(command.quantity, bool) or not 0 <= command.quantity <= MAX_STOCK:
            message = f"Stock must be a number from 0 to {MAX_STOCK}."
            return ItemProblem(
                variant.id, "negative" if command.quantity < 0 else "out_of_range", message, "stock_quantity"
            )
        if command.quantity == variant.stock:
            return variant.id
        before, after = {"stock_quantity": variant.stock}, {"stock_quantity": command.quantity}
        part = Part(self.name, integration_id, variant.stock_target, after, before, after)
        label = variant.product_title if variant.stock_managed_by_parent else variant.label
        field = FieldChange("stock_quantity", "Stock", variant.stock, command.quantity, FieldKind.NUMBER)
        return Proposal(
            ObjectRef("inventory", variant.stock_target, label, variant.url), self.action, (field,), (part,),
            integration_id, command.message,
        )  # fmt: skip


class _WooCommerceVisibilityOperation(WooCommerceBatchOperation[SetVisible]):
    """`product.set_visible`: sets catalog_visibility; `restore` names the value to set again."""

    __slots__ = ()

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier visibility."""
        return value_restored(part)

    def _plan_one(self, command: SetVisible, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        product = command.product
        if command.restore is not None and command.restore not in _VISIBLE_WORDS:
            message = "It can only be put back to visible, catalog or search."
            return ItemProblem(product.id, "not_a_visibility", message, "catalog_visibility")
        if command.visible == product.visible:
            return product.id
        if command.visible and product.status != "publish":
            message = "It is not published, so it cannot be made visible."
            return ItemProblem(product.id, "not_published", message, "catalog_visibility")
        visibility = (command.restore or _VISIBLE_WORDS[0]) if command.visible else "hidden"
        before, after = {"catalog_visibility": product.visibility}, {"catalog_visibility": visibility}
        part = Part(self.name, integration_id, product.id, after, before, after)
        field = FieldChange(
            "catalog_visibility", "Visible", product.visible, command.visible, FieldKind.BOOLEAN
        )
        return Proposal(
            ObjectRef("product", product.id, product.label, product.url),
            Action.PUBLISH if command.visible else Action.UNPUBLISH, (field,), (part,),
            integration_id, command.message,
        )  # fmt: skip


class _WooCommerceTagsOperation(WooCommerceBatchOperation[SetTags]):
    """`product.set_tags`: sets the whole list. A missing tag is created first, in a separate part."""

    __slots__ = ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares tags as sets of the names the shop stores."""
        expected_tags, seen_tags = _tags(expected), _tags(actual)
        if expected_tags is None or seen_tags is None:
            return expected == actual
        present = set(map(tag_key, seen_tags))
        return {stored_key(tag, present) for tag in expected_tags} == present

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier tags; its ids are of the tags before and after."""
        assert isinstance(part.before, dict)
        return PutBack(mirrored(part, {"tags": part.before["tags"], "ids": part.arguments["ids"]}))

    def _plan_one(self, command: SetTags, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        product = command.product
        problem = next((problem for tag in command.tags if (problem := tag_problem(product.id, tag))), None)
        if problem is not None:
            return problem
        tags_by_key = {tag_key(tag): stored_name(tag) for tag in reversed(command.tags)}
        before = {"tags": list(product.tags)}
        after = {"tags": sorted(tags_by_key.values())}
        if self.same(after, before):
            return product.id
        ids = _tag_ids(command, (*after["tags"], *product.tags))
        creations = [_tag_creation(tag, integration_id) for tag in after["tags"] if tag not in ids]
        arguments: JsonObject = {"tags": after["tags"], "ids": ids}
        part = Part(self.name, integration_id, product.id, arguments, before, after)
        field = FieldChange("tags", "Tags", before["tags"], after["tags"], FieldKind.TAGS)
        return Proposal(
            ObjectRef("product", product.id, product.label, product.url), self.action, (field,),
            (*creations, part), integration_id, command.message,
        )  # fmt: skip

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the list of tags after the change."""
        return {"tags": arguments["tags"]}, ()


class _WooCommerceTagCreation(StoreOperation[object]):
    """`product_tag.create`: only ever a part of another change; reconciled by looking up the name."""

    __slots__ = ()

    def plan(self, commands: Sequence[object], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans nothing: a tag alone does not change a product."""
        return PlannedChanges((), ())

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: the tag stays in the shop's list of tags."""
        return NothingToUndo("The tag stays in the shop's list of tags.")

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares the names the shop stores."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        present = {tag_key(str(actual.get("name")))}
        return stored_key(str(expected.get("name")), present) in present


def _price_problem(command: SetPrice, compare: str | None) -> ItemProblem | None:
    item, decimals = command.variant.id, currency_decimals(command.variant.currency)
    for name, text in (("regular_price", command.price), ("compare_at", compare)):
        if text is None:
            continue
        if not _PRICE.fullmatch(text):
            return ItemProblem(item, "not_a_number", "A price is a number from 0 to 999999999.", name)
        if len(text.partition(".")[2].rstrip("0")) > decimals:
            message = (
                f"A price in {command.variant.currency or 'this currency'} has at most {decimals} decimals."
            )
            return ItemProblem(item, "too_many_decimals", message, name)
    if Decimal(command.price) == 0 and not command.allow_zero:
        return ItemProblem(item, "price_zero", "A price of 0 is not set.", "regular_price")
    if compare is not None and Decimal(compare) <= Decimal(command.price):
        message = "The compare-at price is not above the price."
        return ItemProblem(item, "compare_at_not_above", message, "compare_at")
    return None


def _price_fields(command: SetPrice, compare: str | None) -> tuple[FieldChange, ...]:
    variant = command.variant
    price_name, compare_name = ("sale_price", "regular_price") if compare else ("regular_price", "sale_price")
    fields = (
        _money(variant, price_name, "Price", variant.price, command.price),
        _money(variant, compare_name, "Compare-at price", variant.compare_at, compare),
    )
    changed_fields = tuple(field for field in fields if not _same_money(field.before, field.after))
    return changed_fields or fields[:1]


def _price_message(command: SetPrice, compare: str | None) -> str | None:
    """Returns the command's message, followed by the sale dates that the shop stores."""
    variant = command.variant
    has_dates = variant.sale_from or variant.sale_to
    if not has_dates or (compare is None and not variant.sale_price):
        return command.message
    dates = f"{_minute(variant.sale_from)} to {_minute(variant.sale_to)}"
    message = f"The sale dates stay: {dates}." if compare else f"Its sale of {dates} is taken back."
    return f"{command.message} {message}" if command.message else message


def _money(variant: Variant, name: str, label: str, before: str | None, after: str | None) -> FieldChange:
    return FieldChange(name, label, before, after, FieldKind.MONEY, variant.currency)


def _minute(time_text: str | None) -> str:
    """Formats a UTC time of the shop's own fields for people; an open end is an ellipsis."""
    return f"{time_text[:16].replace('T', ' ')} UTC" if time_text else "…"


def _tag_ids(command: SetTags, tags: Sequence[str]) -> dict[str, str]:
    """Returns the ids of the tags that the shop has; the ids of earlier tags serve to restore them."""
    by_key = {tag_key(name): number for name, number in (*command.tag_ids.items(), *command.product.tag_ids)}
    keys = {tag: stored_key(tag, by_key) for tag in tags}
    return {tag: by_key[key] for tag, key in keys.items() if key in by_key}


def _tag_creation(tag: str, integration_id: IntegrationId) -> Part:
    return Part("product_tag.create", integration_id, tag, {"name": tag}, None, {"name": tag})


def _variant_ref(variant: Variant) -> ObjectRef:
    return ObjectRef("variant", variant.id, variant.label, variant.url)


def _same_money(expected: JsonValue, seen: JsonValue) -> bool:
    expected_text, seen_text = expected or "", seen or ""
    if expected_text == seen_text:
        return True
    if not isinstance(expected_text, str) or not isinstance(seen_text, str):
        return False
    if not _PRICE.fullmatch(expected_text) or not _PRICE.fullmatch(seen_text):
        return False
    return Decimal(expected_text) == Decimal(seen_text)


def tag_problem(item: str, tag: str) -> ItemProblem | None:
    """Returns why a text cannot be a tag, or null."""
    if 1 <= len(tag) <= 255 and tag == tag.strip() and "," not in tag and stored_name(tag):
        return None
    message = "A tag has 1 to 255 characters, no comma and no blanks around it."
    return ItemProblem(item, "not_a_tag", message, "tags")


def _tags(value: JsonValue) -> list[str] | None:
    tags = value.get("tags") if isinstance(value, dict) else None
    return [str(tag) for tag in tags] if isinstance(tags, list | tuple) else None


def tag_set(value: JsonValue) -> frozenset[str] | None:
    """Returns the tags of a value as a case-insensitive set."""
    tags = value.get("tags") if isinstance(value, dict) else None
    return frozenset(str(tag).casefold() for tag in tags) if isinstance(tags, list | tuple) else None


SET_PRICE = _WooCommercePriceOperation("variant.set_price")
SET_STOCK = _WooCommerceStockOperation("inventory.set")
SET_VISIBLE = _WooCommerceVisibilityOperation("product.set_visible")
SET_TAGS = _WooCommerceTagsOperation("product.set_tags")
MAKE_TAG = _WooCommerceTagCreation("product_tag.create", action=Action.CREATE)
