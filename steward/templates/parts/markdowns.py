"""Prices marked down by a percentage, and what is on sale already (templates 5.13, 5.24, E6)."""

from decimal import ROUND_FLOOR, Decimal

from steward.connectors.base.records import Variant, currency_decimals
from steward.model.json import JsonObject
from steward.steps.skus import RowRefused
from steward.templates.parts.numbers import amount_of, money_text, round_to

ROUND_TO: JsonObject = {
    "enum": ["none", ".99", ".95", ".00"],
    "default": "none",
    "description": "Ending of the new price",
}


def is_discounted(variant: Variant) -> bool:
    """Whether its compare-at price is above its price."""
    price, compare = amount_of(variant.price), amount_of(variant.compare_at)
    return price is not None and compare is not None and compare > price


def marked_down(variant: Variant, percent: Decimal, *, ending: str) -> str:
    """The new price: rounded half up to the currency's minor unit, then down to the ending.

    Currencies without minor units have no endings. Raises RowRefused `no_sensible_price`.
    """
    old, currency = amount_of(variant.price), variant.currency
    if not old:
        raise RowRefused("no_sensible_price", f"{variant.price or 'No price'} cannot be marked down.")
    decimals = currency_decimals(currency)
    new = round_to(old * (100 - percent) / 100, decimals)
    if ending != "none" and decimals:
        end = Decimal(f"0{ending}")
        new = (new - end).to_integral_value(ROUND_FLOOR) + end
    if not 0 < new < old:
        down = f", down to {ending}," if ending != "none" and decimals else ""
        leaves = "no price above 0" if new <= 0 else f"{new:f}, which is not lower"
        words = f"{percent.normalize():f} % off {variant.price}{down} leaves {leaves}."
        raise RowRefused("no_sensible_price", words)
    return money_text(new, currency)
