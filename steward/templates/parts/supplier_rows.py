"""Reads the values that a supplier's rows set on variants: stock, and prices with a markup."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from steward.connectors.base.commands import MAX_STOCK, Keep, SetPrice, SetStock
from steward.connectors.base.connector import ItemProblem, PlannedChanges, merge_proposals
from steward.connectors.base.records import Variant
from steward.model.change import Action, ObjectRef, Proposal
from steward.steps.base import StoreAccess
from steward.steps.rows import StoredCell, cell_from_json, is_blank
from steward.steps.skus import RowRefused, display_text, key_of
from steward.templates.parts.numbers import money_text, read_number, read_price
from steward.templates.parts.sku_rows import SkuRow


class FeedRow(SkuRow, frozen=True):
    """A row of the file; cells of columns that the inputs do not name are ignored."""

    stock: StoredCell
    price: StoredCell


@dataclass(frozen=True, slots=True)
class VariantUpdate:
    """The values to set on a variant; null leaves one unchanged. `row` null: the file no longer names it."""

    row: int | None
    variant: Variant
    stock: int | None
    price: str | None
    note: str

    @property
    def needs_stock_command(self) -> bool:
        """Whether to compare the stock; not if it is to be 0 and is 0 or negative already."""
        present = self.variant.stock
        is_zero_already = self.stock == 0 and present is not None and present <= 0
        return self.stock is not None and not is_zero_already


@dataclass(frozen=True, slots=True)
class FeedRules:
    """The inputs that say how rows are read."""

    currency: str | None
    number_format: str
    with_stock: bool
    with_price: bool
    markup: Decimal

    def values(self, row: FeedRow) -> tuple[int | None, str | None, str]:
        """Returns stock, price and a note. Raises RowRefused."""
        stock, note = self._stock(cell_from_json(row.stock)) if self.with_stock else (None, "")
        return stock, self.price(row) if self.with_price else None, note

    def update(self, row: FeedRow, variant: Variant) -> VariantUpdate:
        """Returns the update that the row requests for its variant. Raises RowRefused."""
        stock, price, note = self.values(row)
        if stock is not None and (not variant.tracked or variant.backorders_allowed):
            raise RowRefused("untracked", "Its stock is not tracked here, or it can be back-ordered.")
        return VariantUpdate(row.number, variant, stock, price, note)

    def price(self, row: FeedRow) -> str:
        """Returns the row's price with the markup. Raises RowRefused."""
        cell = cell_from_json(row.price)
        if is_blank(cell):
            raise RowRefused("price_empty", "The price is empty, so the row is left alone.")
        price = read_price(cell, form=self.number_format, currency=self.currency)
        if price == 0:
            raise RowRefused("price_zero", "A price of 0 is never set.")
        return money_text(price * (100 + self.markup) / 100, self.currency)

    def _stock(self, cell: str | Decimal | bool | None) -> tuple[int, str]:
        if is_blank(cell):
            raise RowRefused("stock_empty", "The stock is empty, so the row is left alone.")
        number = read_number(cell, form=self.number_format, currency=None)
        if number != number.to_integral_value():
            raise RowRefused("not_whole", f"{display_text(cell)} is not a whole number.")
        if number > MAX_STOCK:
            raise RowRefused("out_of_range", f"{display_text(cell)} is more than {MAX_STOCK}.")
        note = f"{display_text(cell)} in the file, read as 0." if number < 0 else ""
        return max(int(number), 0), note


@dataclass(slots=True)
class PlannedRows:
    """The changes, in the order of the updates; problems by variant; updates without a change."""

    changes: list[tuple[VariantUpdate, Proposal]] = field(default_factory=list)
    problems: list[tuple[VariantUpdate, ItemProblem]] = field(default_factory=list)
    unchanged: list[VariantUpdate] = field(default_factory=list)

    @property
    def changing(self) -> list[VariantUpdate]:
        """The updates that have a change."""
        return [update for update, _ in self.changes]

    @property
    def matched(self) -> list[VariantUpdate]:
        """The updates requested by rows of the file, without refused ones."""
        return [update for update in (*self.changing, *self.unchanged) if update.row is not None]


def plan_rows(store: StoreAccess, updates: Sequence[VariantUpdate], *, source: str) -> PlannedRows:
    """Plans a variant's stock and price as one change; writes a stock that variations share only once."""
    priced, stocked = _plan_prices(store, updates), _plan_stocks(store, updates)
    problems = {problem.item: problem for problem in (*priced.problems, *stocked.problems)}
    price_changes = {proposal.object.id: proposal for proposal in priced.proposals}
    stock_changes: dict[str, Proposal] = {change.parts[0].target: change for change in stocked.proposals}
    planned = PlannedRows()
    for update in updates:
        variant = update.variant
        if variant.id in problems:
            planned.problems.append((update, problems[variant.id]))
            continue
        stock = stock_changes.pop(variant.stock_target, None) if update.stock is not None else None
        price = price_changes.get(variant.id)
        parts = [change for change in (stock, price) if change is not None]
        if parts:
            planned.changes.append((update, _together(parts, update, source)))
        else:
            planned.unchanged.append(update)
    return planned


def _plan_prices(store: StoreAccess, updates: Iterable[VariantUpdate]) -> PlannedChanges:
    prices = [SetPrice(row.variant, row.price, Keep.KEEP) for row in updates if row.price is not None]
    return store.plan("variant.set_price", prices)


def _plan_stocks(store: StoreAccess, updates: Iterable[VariantUpdate]) -> PlannedChanges:
    stocks = [SetStock(row.variant, row.stock or 0) for row in updates if row.needs_stock_command]
    return store.plan("inventory.set", stocks)


def missing_variants(
    variants: Iterable[Variant], supplied: Mapping[str, object], keys: frozenset[str], *, prefix: str
) -> tuple[list[Variant], int]:
    """Returns the supplier's variants that the file no longer names, and the number of all its variants."""
    of_supplier = [variant for variant in variants if f"{prefix}{variant.id}" in supplied]
    missing = [variant for variant in of_supplier if key_of(variant.sku).casefold() not in keys]
    return missing, len(of_supplier)


def _together(parts: Sequence[Proposal], update: VariantUpdate, source: str) -> Proposal:
    variant = update.variant
    ref = ObjectRef("variant", variant.id, variant.label, variant.url)
    row = f", row {update.row}." if update.row is not None else "."
    words = f"{update.note} {source}{row}".strip()
    return merge_proposals([replace(part, object=ref) for part in parts], action=Action.UPDATE, message=words)
