"""Joins rows of a sheet or a file with the store's variants by SKU."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from msgspec.structs import astuple

from steward.connectors.base.records import Variant
from steward.steps.base import JsonRecord
from steward.steps.rows import StoredCell, cell_from_json
from steward.steps.skus import RowRefused, Skus, display_text, key_of

# Faults that make every row of a SKU unusable, not only the first one.
_WHOLE_SKU = ("sku_repeated", "sku_ambiguous", "sku_case_differs")


class SkuRow(JsonRecord, frozen=True, array_like=True):
    """A row: its number in the sheet or file, and its cell with the SKU."""

    number: int
    sku: StoredCell

    @property
    def key(self) -> str:
        """The SKU in the form for comparison."""
        return key_of(cell_from_json(self.sku))


class RefusedRow(JsonRecord, frozen=True):
    """A row left unchanged and the reason, as results list it."""

    row: int | None
    key: str | None
    code: str
    message: str


K = TypeVar("K", bound=SkuRow)
U = TypeVar("U")


@dataclass(slots=True)
class JoinedRows(Generic[U]):
    """The updates of usable rows, refused rows, and the SKUs that the store does not have."""

    updates: list[U] = field(default_factory=list)
    refused: list[RefusedRow] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)

    def refuse(self, row: int | None, key: str | None, code: str, message: str) -> None:
        """Adds a row that is left unchanged."""
        self.refused.append(RefusedRow(row, key, code, message))


def join_rows(
    rows: Iterable[K],
    skus: Skus,
    *,
    values_of: Callable[[K], tuple[object, ...]],
    update_of: Callable[[K, Variant], U],
) -> JoinedRows[U]:
    """Joins the rows; `values_of` and `update_of` may raise RowRefused."""
    joined: JoinedRows[U] = JoinedRows()
    by_key: dict[str, list[K]] = defaultdict(list)
    for row in rows:
        if row.key:
            by_key[row.key].append(row)
        else:
            joined.refuse(row.number, None, "sku_missing", "This row has values but no SKU.")
    for key, same_sku in by_key.items():
        try:
            variant = skus.find(key)
            if variant is None:
                joined.not_found.append(key)
            else:
                joined.updates.append(update_of(_usable(same_sku, values_of), variant))
        except RowRefused as refusal:
            for row in same_sku if refusal.code in _WHOLE_SKU else same_sku[:1]:
                shown_key = display_text(cell_from_json(row.sku))
                joined.refuse(row.number, shown_key, refusal.code, refusal.message)
    return joined


def _usable(rows: Sequence[K], values_of: Callable[[K], tuple[object, ...]]) -> K:
    """Returns the row to use among those with one SKU: the first, when all have the same values."""
    if len({_values_or_code(row, values_of) for row in rows}) > 1:
        numbers = ", ".join(str(row.number) for row in rows[:10])
        message = f"Rows {numbers} name this SKU with different values. None of them was used."
        raise RowRefused("sku_repeated", message)
    return rows[0]


def _values_or_code(row: K, values_of: Callable[[K], tuple[object, ...]]) -> tuple[object, ...]:
    try:
        return values_of(row)
    except RowRefused as refusal:
        return refusal.code, *(key_of(cell_from_json(cell)) for cell in astuple(row)[2:])
