"""How SKUs and barcodes are compared, and which variant a key stands for (templates E1 to E3)."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal

from steward.connectors.base.records import Cell, Variant

LONGEST_SHOWN = 60
# White space, and the two signs of no width that come along when a text is copied or exported.
_BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\u200b\ufeff"


class RowRefused(Exception):
    """One row cannot be used: its code and plain words; never stops the others (templates 3)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def key_of(cell: Cell) -> str:
    """A cell as the text that is compared (E1): NFC, no outer blanks, whole numbers as their digits."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, Decimal):
        whole = cell.is_finite() and cell == cell.to_integral_value()
        return format(cell.to_integral_value() if whole else cell.normalize(), "f")
    return unicodedata.normalize("NFC", cell).strip(_BLANKS)


def display_text(cell: Cell) -> str:
    """A cell as it is named in a message, at most 60 characters."""
    text = key_of(cell)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


class Skus:
    """The variants of a store by SKU; those without one are never matched (E2), and are counted."""

    def __init__(self, variants: Iterable[Variant]) -> None:
        self._exact: dict[str, list[Variant]] = defaultdict(list)
        self._folded: dict[str, list[Variant]] = defaultdict(list)
        self.without = 0
        for variant in variants:
            key = key_of(variant.sku)
            if key:
                self._exact[key].append(variant)
                self._folded[key.casefold()].append(variant)
            else:
                self.without += 1

    def find(self, key: str) -> Variant | None:
        """The one variant with this SKU; None when there is none.

        Raises RowRefused `sku_ambiguous` (E3) and `sku_case_differs` (E1).
        """
        found = self._exact.get(key, [])
        if len(found) > 1:
            words = f"{len(found)} variants of the store have the SKU {display_text(key)}."
            words += " None of them was changed."
            raise RowRefused("sku_ambiguous", words)
        if found:
            return found[0]
        near = self._folded.get(key.casefold(), [])
        if len(near) == 1:
            words = f"The store has this SKU as {display_text(near[0].sku)}. Write it the same way."
            raise RowRefused("sku_case_differs", words)
        return None
