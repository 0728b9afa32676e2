"""Prices marked down by a percentage, and what a sale stores about each variant."""

from decimal import ROUND_FLOOR, Decimal
from typing import Self

from steward.connectors.base.records import Variant, currency_decimals
from steward.model.ids import RunId
from steward.model.json import JsonObject
from steward.steps.base import JsonRecord
from steward.steps.skus import RowRefused
from steward.templates.parts.numbers import amount_of, money_text, round_to

ROUND_TO: JsonObject = {
    "enum": ["none", ".99", ".95", ".00"],
    "default": "none",
    "description": "Ending of the new price",
}


class MarkdownInputs(JsonRecord, frozen=True):
    """The inputs that say how prices are marked down."""

    percent: Decimal
    round_to: str


def is_discounted(variant: Variant) -> bool:
    """Returns whether the variant's compare-at price is above its price."""
    price, compare_at = amount_of(variant.price), amount_of(variant.compare_at)
    return price is not None and compare_at is not None and compare_at > price


def marked_down(variant: Variant, options: MarkdownInputs) -> str:
    """Returns the new price: rounded half up to the currency's minor unit, then down to the ending.

    Currencies without minor units have no endings. Raises RowRefused `no_sensible_price`.
    """
    present, currency = amount_of(variant.price), variant.currency
    if not present:
        raise RowRefused("no_sensible_price", f"{variant.price or 'No price'} cannot be marked down.")
    decimals, ending = currency_decimals(currency), options.round_to
    has_ending = ending != "none" and bool(decimals)
    new = round_to(present * (100 - options.percent) / 100, decimals)
    if has_ending:
        cents = Decimal(f"0{ending}")
        new = (new - cents).to_integral_value(ROUND_FLOOR) + cents
    if not 0 < new < present:
        ending_note = f", down to {ending}," if has_ending else ""
        leaves = "no price above 0" if new <= 0 else f"{new:f}, which is not lower"
        message = f"{options.percent.normalize():f} % off {variant.price}{ending_note} leaves {leaves}."
        raise RowRefused("no_sensible_price", message)
    return money_text(new, currency)


# The template that starts a sale, and its memory space, by store and variant.
SALE_START, SALE = "sale-start", "sale"


class SalePrice(JsonRecord, frozen=True):
    """A variant's prices before the sale, its price in the sale, and the run that changed it."""

    product: str
    old: str
    compare_at: str | None
    new: str
    run: str
    sku: str | None
    label: str

    @classmethod
    def of(cls, variant: Variant, price: str, run_id: RunId) -> Self:
        """Returns the record of a variant that gets `price`."""
        return cls(
            product=variant.product_id,
            old=variant.price or "",
            compare_at=variant.compare_at,
            new=price,
            run=run_id,
            sku=variant.sku[:200] or None,
            label=variant.label[:300],
        )
