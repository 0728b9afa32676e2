"""What the start of a sale remembers of each variant, for the sale's end."""

from typing import Self

from steward.connectors.base.records import Variant
from steward.model.ids import RunId
from steward.steps.base import JsonRecord

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
        """Returns what to remember of a variant that gets `price`."""
        return cls(
            product=variant.product_id,
            old=variant.price or "",
            compare_at=variant.compare_at,
            new=price,
            run=run_id,
            sku=variant.sku[:200] or None,
            label=variant.label[:300],
        )
