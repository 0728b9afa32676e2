"""Compares SKUs and barcodes, and finds variants by them."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal

from steward.connectors.base.records import Cell, Variant

DISPLAY_LENGTH = 60
# White space, and two zero-width characters that copied or exported text often contains.
_BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\u200b\ufeff"


class RowRefused(Exception):
    """Raised for a row that cannot be used, with a code and a message; other rows are unaffected."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def key_of(cell: Cell) -> str:
    """Returns a cell as a comparison key: NFC, stripped, whole numbers as digits."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, Decimal):
        is_whole = cell.is_finite() and cell == cell.to_integral_value()
        return format(cell.to_integral_value() if is_whole else cell.normalize(), "f")
    return unicodedata.normalize("NFC", cell).strip(_BLANKS)


def display_text(cell: Cell) -> str:
    """Returns a cell as shown in messages, at most 60 characters."""
    text = key_of(cell)
    return text if len(text) <= DISPLAY_LENGTH else text[: DISPLAY_LENGTH - 1] + "…"


class Skus:
    """The variants of a store by SKU; variants without one never match."""

    def __init__(self, variants: Iterable[Variant]) -> None:
        self._exact: dict[str, list[Variant]] = defaultdict(list)
        self._folded: dict[str, list[Variant]] = defaultdict(list)
        for variant in variants:
            key = key_of(variant.sku)
            if key:
                self._exact[key].append(variant)
                self._folded[key.casefold()].append(variant)

    def find(self, key: str) -> Variant | None:
        """Returns the variant with this SKU, or None.

        Raises RowRefused `sku_ambiguous`, `sku_case_differs`.
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
