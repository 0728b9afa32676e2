"""Reads the prices that a sheet's row sets on its variant."""

from dataclasses import dataclass
from decimal import Decimal

from steward.connectors.base.commands import Keep, SetPrice
from steward.connectors.base.records import Variant
from steward.steps.rows import StoredCell, cell_from_json, is_blank
from steward.steps.skus import RowRefused
from steward.templates.parts.numbers import amount_of, change_percent, money_text, percent_text, read_price
from steward.templates.parts.sku_rows import SkuRow


class PriceRow(SkuRow, frozen=True):
    """A row of prices; `compare_at` only counts if the sheet has such a column."""

    price: StoredCell
    compare_at: StoredCell


@dataclass(frozen=True, slots=True)
class PriceRules:
    """The inputs that say how rows are read."""

    currency: str | None
    number_format: str
    with_compare_at: bool
    max_percent: Decimal

    def values(self, row: PriceRow) -> tuple[str, str | Keep | None]:
        """Returns the price and compare-at price of a row; null removes the latter. Raises RowRefused."""
        if is_blank(cell_from_json(row.price)):
            raise RowRefused("price_empty", "The price is empty, so the row is left alone.")
        price = self._money(row.price)
        if Decimal(price) == 0:
            raise RowRefused("price_zero", "A price of 0 is never set.")
        if not self.with_compare_at:
            return price, Keep.KEEP
        if is_blank(cell_from_json(row.compare_at)):
            return price, None
        return price, self._money(row.compare_at)

    def update(self, row: PriceRow, variant: Variant) -> "_PriceUpdate":
        """Returns the update that the row requests for its variant. Raises RowRefused."""
        price, compare_at = self.values(row)
        words = self._change_words(variant, Decimal(price))
        command = SetPrice(variant, price, compare_at, message=f"{words} Row {row.number} of the sheet.")
        return _PriceUpdate(row.number, command)

    def _money(self, stored: StoredCell) -> str:
        amount = read_price(cell_from_json(stored), form=self.number_format, currency=self.currency)
        return money_text(amount, self.currency)

    def _change_words(self, variant: Variant, price: Decimal) -> str:
        """Returns a note on the change of price. Raises RowRefused `change_too_large`."""
        present = amount_of(variant.price)
        if not present:
            former = "it had no price" if present is None else "its price was 0"
            return f"Warning: {former} until now."
        percent = change_percent(present, price)
        if abs(percent) > self.max_percent:
            raise RowRefused(
                "change_too_large",
                f"{variant.price} to {money_text(price, self.currency)} is {percent_text(percent)}, more than"
                f" the {self.max_percent.normalize():f} % allowed.",
            )
        return f"{percent_text(percent)}." if percent else "The price stays."


@dataclass(frozen=True, slots=True)
class _PriceUpdate:
    """The number and command of a usable row; the connector checks that compare-at is above the price."""

    row: int
    command: SetPrice
