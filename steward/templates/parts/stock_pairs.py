"""Pairs the variants of two stores by SKU or barcode, and works out the stock to set (templates 5.10).

Leaves reading both stores, and proposing, to the template.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from steward.connectors.base.commands import SetStock
from steward.connectors.base.records import Variant
from steward.model.json import JsonObject, JsonValue
from steward.steps.skus import RowRefused, display_text, key_of


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A variant of the store stock is read from; `stock` null: it has no number that counts (E8)."""

    key: str
    stock: int | None

    @classmethod
    def of(cls, variant: Variant, match: str) -> "SourceRow":
        """As read; a negative number counts as 0 when it is copied (E7)."""
        counts = variant.tracked and not variant.backorders_allowed and variant.stock is not None
        return cls(match_key(variant, match), max(variant.stock or 0, 0) if counts else None)


@dataclass(frozen=True, slots=True)
class PairRules:
    """The inputs pairs are judged by."""

    match: str
    buffer: int
    only_lower: bool


@dataclass(slots=True)
class Paired:
    """What became of the target's variants; `refused` as rows of the result."""

    asks: list[SetStock] = field(default_factory=list)
    refused: list[JsonObject] = field(default_factory=list)
    unchanged: int = 0
    not_in_source: int = 0

    def refuse(self, key: str, code: str, message: str) -> None:
        """One more that is left alone, with the reason."""
        self.refused.append({"row": None, "key": display_text(key), "code": code, "message": message})


def match_key(variant: Variant, match: str) -> str:
    """What the variant is compared by (E1); empty when it has none (E2)."""
    return key_of(variant.barcode if match == "barcode" else variant.sku)


def pair(
    target: Iterable[Variant],
    source: Iterable[SourceRow],
    rules: PairRules,
    *,
    only: Sequence[JsonValue] | None = None,
) -> Paired:
    """The stock to set on `target`; `only`: of these variants alone, the others are there to be compared."""
    exact: dict[str, list[SourceRow]] = defaultdict(list)
    folded: dict[str, list[SourceRow]] = defaultdict(list)
    for each in source:
        exact[each.key].append(each)
        folded[each.key.casefold()].append(each)
    by_key: dict[str, list[Variant]] = defaultdict(list)
    for variant in target:
        by_key[match_key(variant, rules.match)].append(variant)
    found = Paired()
    for key, variants in by_key.items():
        if only is not None and not any(one.id in only for one in variants):
            continue
        try:
            row = _source_of(key, exact, folded)
            if row is None:
                found.not_in_source += len(variants)
            else:
                _judge(found, _one_of(key, variants), row, rules)
        except RowRefused as refusal:
            found.refuse(key, refusal.code, refusal.message)
    return found


def _source_of(
    key: str, exact: dict[str, list[SourceRow]], folded: dict[str, list[SourceRow]]
) -> SourceRow | None:
    """Raises RowRefused `sku_ambiguous` (E3) and `sku_case_differs` (E1)."""
    rows = exact.get(key, [])
    if len(rows) > 1:
        raise RowRefused(
            "sku_ambiguous", f"{display_text(key)} stands on {len(rows)} variants of the source."
        )
    if rows:
        return rows[0]
    near = folded.get(key.casefold(), [])
    if len(near) == 1:
        words = f"The source has it as {display_text(near[0].key)}. Write it the same way."
        raise RowRefused("sku_case_differs", words)
    return None


def _one_of(key: str, variants: Sequence[Variant]) -> Variant:
    if len(variants) > 1:
        raise RowRefused(
            "sku_ambiguous", f"{display_text(key)} stands on {len(variants)} variants of this store."
        )
    return variants[0]


def _judge(found: Paired, variant: Variant, row: SourceRow, rules: PairRules) -> None:
    """Raises RowRefused `untracked` (E8)."""
    if row.stock is None:
        raise RowRefused("untracked", "Its stock is not tracked in the source, or it can be back-ordered.")
    if not variant.tracked or variant.backorders_allowed:
        raise RowRefused("untracked", "Its stock is not tracked here, or it can be back-ordered.")
    wanted, present = max(row.stock - rules.buffer, 0), max(variant.stock or 0, 0)
    is_known = variant.stock is not None
    if is_known and (wanted == present or (rules.only_lower and wanted > present)):
        found.unchanged += 1
    else:
        found.asks.append(SetStock(variant, wanted, f"Source stock {row.stock}."))
