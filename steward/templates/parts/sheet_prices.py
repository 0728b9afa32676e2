"""Reads a row of prices against its variant, and works out what to ask for (templates 5.2, E1 to E6).

Leaves reading the sheet and the store, and proposing, to the template.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from steward.connectors.base.commands import Keep, SetPrice
from steward.connectors.base.records import Cell, Variant
from steward.model.json import JsonObject, JsonValue
from steward.steps.rows import cell_from_json, is_blank
from steward.steps.skus import RowRefused, Skus, display_text, key_of
from steward.templates.parts.numbers import amount_of, change_percent, money_text, percent_text, read_price


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One row: its number in the sheet and the cells read; `compare_at` counts only with such a column."""

    number: int
    sku: Cell
    price: Cell
    compare_at: Cell

    @classmethod
    def of(cls, kept: Sequence[JsonValue]) -> "PriceRow":
        """A row back from JSON."""
        number = kept[0]
        return cls(number if isinstance(number, int) else 0, *(cell_from_json(cell) for cell in kept[1:4]))


@dataclass(frozen=True, slots=True)
class PriceRules:
    """The inputs rows are read by."""

    currency: str | None
    form: str
    with_compare_at: bool
    most_percent: Decimal


@dataclass(frozen=True, slots=True)
class Refused:
    """A row left alone, with the reason."""

    row: int
    key: str | None
    code: str
    message: str

    def to_wire(self) -> JsonObject:
        """As in the result."""
        return {"row": self.row, "key": self.key, "code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A row that can be used: what it asks for its variant; compare-at null: removed.

    That compare-at is above the price is the connector's to see (connectors 6, "Values").
    """

    row: int
    variant: Variant
    price: str
    compare_at: str | Keep | None
    message: str

    def ask(self) -> SetPrice:
        """As the connector plans it."""
        return SetPrice(self.variant, self.price, self.compare_at, message=self.message)


_Values: TypeAlias = tuple[str, str | Keep | None] | tuple[str]


def join_rows(
    rows: Iterable[PriceRow], skus: Skus, rules: PriceRules
) -> tuple[list[Wanted], list[Refused], int]:
    """Usable rows in the order of the sheet, refused ones, and how many SKUs the store does not have."""
    refused: list[Refused] = []
    by_key: dict[str, list[PriceRow]] = defaultdict(list)
    for row in rows:
        key = key_of(row.sku)
        if key:
            by_key[key].append(row)
        else:
            refused.append(Refused(row.number, None, "sku_missing", "This row has values but no SKU."))
    wanted: list[Wanted] = []
    not_found = 0
    for key, held in by_key.items():
        try:
            variant = skus.find(key)
            if variant is None:
                not_found += 1
            else:
                wanted.append(_wanted(_one_of(held, rules), variant, rules))
        except RowRefused as refusal:
            named = (
                held if refusal.code in ("sku_repeated", "sku_ambiguous", "sku_case_differs") else held[:1]
            )
            words = refusal.message
            refused.extend(Refused(row.number, display_text(row.sku), refusal.code, words) for row in named)
    return wanted, sorted(refused, key=lambda each: each.row), not_found


def _one_of(rows: Sequence[PriceRow], rules: PriceRules) -> PriceRow:
    """The row to use of those with one SKU: the first, when all say the same (E3)."""
    if len({_values_or_code(row, rules) for row in rows}) > 1:
        numbers = ", ".join(str(row.number) for row in rows[:10])
        words = f"Rows {numbers} name this SKU with different values. None of them was used."
        raise RowRefused("sku_repeated", words)
    return rows[0]


def _values_or_code(row: PriceRow, rules: PriceRules) -> _Values:
    try:
        return _values(row, rules)
    except RowRefused as refusal:
        return (f"{refusal.code} {key_of(row.price)} {key_of(row.compare_at)}",)


def _values(row: PriceRow, rules: PriceRules) -> tuple[str, str | Keep | None]:
    """The price and compare-at a row asks for. Raises RowRefused."""
    if is_blank(row.price):
        raise RowRefused("price_empty", "The price is empty, so the row is left alone.")
    price = read_price(row.price, form=rules.form, currency=rules.currency)
    if price == 0:
        raise RowRefused("price_zero", "A price of 0 is never set.")
    if not rules.with_compare_at:
        return money_text(price, rules.currency), Keep.KEEP
    if is_blank(row.compare_at):
        return money_text(price, rules.currency), None
    compare = read_price(row.compare_at, form=rules.form, currency=rules.currency)
    return money_text(price, rules.currency), money_text(compare, rules.currency)


def _wanted(row: PriceRow, variant: Variant, rules: PriceRules) -> Wanted:
    price, compare = _values(row, rules)
    before = amount_of(variant.price) or Decimal(0)
    if before == 0:
        was = "it had no price" if amount_of(variant.price) is None else "its price was 0"
        words = f"Warning: {was} until now."
    else:
        percent = change_percent(before, Decimal(price))
        if abs(percent) > rules.most_percent:
            words = (
                f"{variant.price} to {price} is {percent_text(percent)}, more than the"
                f" {rules.most_percent.normalize():f} % allowed."
            )
            raise RowRefused("change_too_large", words)
        words = f"{percent_text(percent)}." if percent else "The price stays."
    return Wanted(row.number, variant, price, compare, f"{words} Row {row.number} of the sheet.")
