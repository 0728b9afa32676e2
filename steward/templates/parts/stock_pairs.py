"""Pairs the variants of two stores by SKU or barcode, and determines the stock to set."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from steward.connectors.base.commands import SetStock
from steward.connectors.base.records import Variant
from steward.steps.base import JsonRecord
from steward.steps.skus import RowRefused, display_text, key_of
from steward.templates.parts.sku_rows import RefusedRow


class SourceRow(JsonRecord, frozen=True, array_like=True):
    """A variant of the source store; `stock` is null when it has no number that counts."""

    key: str
    stock: int | None

    @classmethod
    def of(cls, variant: Variant, match: str) -> Self:
        """Returns the row of a variant; a negative number counts as 0 when it is copied."""
        counts = variant.tracked and not variant.backorders_allowed and variant.stock is not None
        return cls(match_key(variant, match), max(variant.stock or 0, 0) if counts else None)


@dataclass(frozen=True, slots=True)
class PairRules:
    """The inputs that say how pairs are compared."""

    match: str
    buffer: int
    only_lower: bool


@dataclass(slots=True)
class PairedStock:
    """The decisions on the target's variants."""

    commands: list[SetStock] = field(default_factory=list)
    refused: list[RefusedRow] = field(default_factory=list)
    unchanged: int = 0
    not_in_source: int = 0

    def refuse(self, key: str, code: str, message: str) -> None:
        """Adds a variant that is left unchanged, with the reason."""
        self.refused.append(RefusedRow(None, display_text(key), code, message))


def match_key(variant: Variant, match: str) -> str:
    """Returns the value by which the variant is compared; empty when it has none."""
    return key_of(variant.barcode if match == "barcode" else variant.sku)


def pair(
    target: Iterable[Variant],
    source: Iterable[SourceRow],
    rules: PairRules,
    *,
    only: Collection[str] | None = None,
) -> PairedStock:
    """Returns the stock to set on `target`; `only` limits the changes, but not the comparison."""
    exact: dict[str, list[SourceRow]] = defaultdict(list)
    folded: dict[str, list[SourceRow]] = defaultdict(list)
    for source_row in source:
        exact[source_row.key].append(source_row)
        folded[source_row.key.casefold()].append(source_row)
    by_key: dict[str, list[Variant]] = defaultdict(list)
    for variant in target:
        by_key[match_key(variant, rules.match)].append(variant)
    paired = PairedStock()
    for key, variants in by_key.items():
        if only is not None and not any(variant.id in only for variant in variants):
            continue
        try:
            row = _source_row(key, exact, folded)
            if row is None:
                paired.not_in_source += len(variants)
            else:
                _judge(paired, _single(key, variants), row, rules)
        except RowRefused as refusal:
            paired.refuse(key, refusal.code, refusal.message)
    return paired


def _source_row(
    key: str, exact: dict[str, list[SourceRow]], folded: dict[str, list[SourceRow]]
) -> SourceRow | None:
    """Returns the source's row for a key. Raises RowRefused `sku_ambiguous` and `sku_case_differs`."""
    rows = exact.get(key, [])
    if len(rows) > 1:
        message = f"{display_text(key)} stands on {len(rows)} variants of the source."
        raise RowRefused("sku_ambiguous", message)
    if rows:
        return rows[0]
    similar = folded.get(key.casefold(), [])
    if len(similar) == 1:
        message = f"The source has it as {display_text(similar[0].key)}. Write it the same way."
        raise RowRefused("sku_case_differs", message)
    return None


def _single(key: str, variants: Sequence[Variant]) -> Variant:
    if len(variants) > 1:
        message = f"{display_text(key)} stands on {len(variants)} variants of this store."
        raise RowRefused("sku_ambiguous", message)
    return variants[0]


def _judge(paired: PairedStock, variant: Variant, row: SourceRow, rules: PairRules) -> None:
    """Adds the decision on a variant. Raises RowRefused `untracked`."""
    if row.stock is None:
        raise RowRefused("untracked", "Its stock is not tracked in the source, or it can be back-ordered.")
    if not variant.tracked or variant.backorders_allowed:
        raise RowRefused("untracked", "Its stock is not tracked here, or it can be back-ordered.")
    stock, present = max(row.stock - rules.buffer, 0), max(variant.stock or 0, 0)
    is_raised = rules.only_lower and stock > present
    if variant.stock is not None and (stock == present or is_raised):
        paired.unchanged += 1
    else:
        paired.commands.append(SetStock(variant, stock, f"Source stock {row.stock}."))
