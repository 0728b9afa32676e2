"""Compares SKUs and barcodes, and finds the variant that has a key."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal

from steward.connectors.base.records import Cell, Variant

DISPLAY_LENGTH = 60
# White space, and the two characters of no width that come along when a text is copied or exported.
_BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\u200b\ufeff"


class RowRefused(Exception):
    """A row cannot be used: a code and plain words; the other rows still can."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def key_of(cell: Cell) -> str:
    """Returns a cell as the text that is compared: NFC, no outer blanks, whole numbers as their digits."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, Decimal):
        is_whole = cell.is_finite() and cell == cell.to_integral_value()
        return format(cell.to_integral_value() if is_whole else cell.normalize(), "f")
    return unicodedata.normalize("NFC", cell).strip(_BLANKS)


def display_text(cell: Cell) -> str:
    """Returns a cell as a message names it, at most 60 characters."""
    text = key_of(cell)
    return text if len(text) <= DISPLAY_LENGTH else text[: DISPLAY_LENGTH - 1] + "…"


class Skus:
    """The variants of a store by SKU; those without one are never matched."""

    def __init__(self, variants: Iterable[Variant]) -> None:
        self._exact: dict[str, list[Variant]] = defaultdict(list)
        self._folded: dict[str, list[Variant]] = defaultdict(list)
        for variant in variants:
            key = key_of(variant.sku)
            if key:
                self._exact[key].append(variant)
                self._folded[key.casefold()].append(variant)

    def find(self, key: str) -> Variant | None:
        """Returns the one variant with this SKU; None when there is none.

        Raises RowRefused `sku_ambiguous` and `sku_case_differs`.
        """
        exact = self._exact.get(key, [])
        if len(exact) > 1:
            message = f"{len(exact)} variants of the store have the SKU {display_text(key)}."
            raise RowRefused("sku_ambiguous", f"{message} None of them was changed.")
        if exact:
            return exact[0]
        similar = self._folded.get(key.casefold(), [])
        if len(similar) == 1:
            message = f"The store has this SKU as {display_text(similar[0].sku)}. Write it the same way."
            raise RowRefused("sku_case_differs", message)
        return None
