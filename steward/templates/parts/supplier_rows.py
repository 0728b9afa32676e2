"""What a supplier's rows ask of the variants: stock, and prices with a markup (templates 5.12).

Leaves reading the file and the store to others.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from steward.connectors.base.commands import Keep, SetPrice, SetStock
from steward.connectors.base.connector import ItemProblem, merge_proposals
from steward.connectors.base.records import Cell, Variant
from steward.model.change import Action, ObjectRef, Proposal
from steward.model.json import JsonObject
from steward.steps.base import StoreAccess
from steward.steps.rows import is_blank
from steward.steps.skus import RowRefused, Skus, display_text, key_of
from steward.templates.parts.numbers import money_text, read_number, read_price

STOCK_MOST = 1_000_000
# What makes every row of a SKU unusable, not only the first of them.
_OF_ALL = ("sku_repeated", "sku_ambiguous", "sku_case_differs")


@dataclass(frozen=True, slots=True)
class FeedRow:
    """One row: its number in the file and the cells read; a column that is not named is not looked at."""

    number: int
    sku: Cell
    stock: Cell
    price: Cell


@dataclass(frozen=True, slots=True)
class FeedRules:
    """The inputs rows are read by."""

    currency: str | None
    form: str
    with_stock: bool
    with_price: bool
    markup: Decimal


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a variant; null: left alone. `row` null: the file no longer names it."""

    row: int | None
    variant: Variant
    stock: int | None
    price: str | None
    note: str


@dataclass(slots=True)
class Joined:
    """What became of the rows."""

    wanted: list[Wanted] = field(default_factory=list)
    refused: list[JsonObject] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)  # SKUs the store does not have

    def refuse(self, row: int | None, key: str | None, code: str, message: str) -> None:
        """One more row left alone."""
        self.refused.append({"row": row, "key": key, "code": code, "message": message})


@dataclass(slots=True)
class PlannedRows:
    """The changes, in the order asked; problems by variant; variants that are as wanted."""

    changes: list[tuple[Wanted, Proposal]] = field(default_factory=list)
    problems: list[tuple[Wanted, ItemProblem]] = field(default_factory=list)
    unchanged: list[Wanted] = field(default_factory=list)


def join_feed(rows: Iterable[FeedRow], skus: Skus, rules: FeedRules) -> Joined:
    """Usable rows in the order of the file, refused ones, and the SKUs the store does not have."""
    found = Joined()
    by_key: dict[str, list[FeedRow]] = defaultdict(list)
    for row in rows:
        if key := key_of(row.sku):
            by_key[key].append(row)
        else:
            found.refuse(row.number, None, "sku_missing", "This row has values but no SKU.")
    for key, held in by_key.items():
        try:
            variant = skus.find(key)
            if variant is None:
                found.not_found.append(key)
            else:
                found.wanted.append(_wanted(_one_of(held, rules), variant, rules))
        except RowRefused as refusal:
            for row in held if refusal.code in _OF_ALL else held[:1]:
                found.refuse(row.number, display_text(row.sku), refusal.code, refusal.message)
    return found


def plan_rows(store: StoreAccess, wanted: Sequence[Wanted], *, beside: str) -> PlannedRows:
    """Stock and price of a variant as one change; a number that variations share is written once (E9)."""
    number = store.connection.integration_id
    priced = store.changes["variant.set_price"].plan(
        [SetPrice(each.variant, each.price, Keep.KEEP) for each in wanted if each.price is not None],
        integration_id=number,
    )
    stocked = store.changes["inventory.set"].plan(
        [SetStock(each.variant, each.stock) for each in wanted if each.stock is not None and _counts(each)],
        integration_id=number,
    )
    problems = {each.item: each for each in (*priced.problems, *stocked.problems)}
    prices = {each.object.id: each for each in priced.proposals}
    stocks: dict[str, Proposal] = {each.parts[0].target: each for each in stocked.proposals}
    found = PlannedRows()
    for each in wanted:
        if each.variant.id in problems:
            found.problems.append((each, problems[each.variant.id]))
            continue
        stock = stocks.pop(each.variant.stock_target, None) if each.stock is not None else None
        made = [one for one in (stock, prices.get(each.variant.id)) if one is not None]
        if made:
            found.changes.append((each, _together(made, each, beside)))
        else:
            found.unchanged.append(each)
    return found


def missing_ones(
    variants: Iterable[Variant], supplied: Mapping[str, object], keys: frozenset[str], *, prefix: str
) -> tuple[list[Variant], int]:
    """Of the supplier's variants those the file no longer names, and how many he has in the store."""
    his = [each for each in variants if f"{prefix}{each.id}" in supplied]
    return [each for each in his if key_of(each.sku).casefold() not in keys], len(his)


def _together(made: Sequence[Proposal], wanted: Wanted, beside: str) -> Proposal:
    variant = wanted.variant
    ref = ObjectRef("variant", variant.id, variant.label, variant.url)
    row = f", row {wanted.row}." if wanted.row is not None else "."
    words = f"{wanted.note} {beside}{row}".strip()
    return merge_proposals([replace(each, object=ref) for each in made], action=Action.UPDATE, message=words)


def _counts(wanted: Wanted) -> bool:
    """Whether the stock has to be looked at: a negative number counts as 0 when it is compared (E7)."""
    present = wanted.variant.stock
    return not (wanted.stock == 0 and present is not None and present <= 0)


def _one_of(rows: Sequence[FeedRow], rules: FeedRules) -> FeedRow:
    """The row to use of those with one SKU: the first, when all say the same (E3)."""
    if len({_said(row, rules) for row in rows}) > 1:
        numbers = ", ".join(str(row.number) for row in rows[:10])
        words = f"Rows {numbers} name this SKU with different values. None of them was used."
        raise RowRefused("sku_repeated", words)
    return rows[0]


def _said(row: FeedRow, rules: FeedRules) -> tuple[object, ...]:
    try:
        return _values(row, rules)
    except RowRefused as refusal:
        return refusal.code, key_of(row.stock), key_of(row.price)


def _wanted(row: FeedRow, variant: Variant, rules: FeedRules) -> Wanted:
    stock, price, note = _values(row, rules)
    if stock is not None and (not variant.tracked or variant.backorders_allowed):
        raise RowRefused("untracked", "Its stock is not tracked here, or it can be back-ordered.")
    return Wanted(row.number, variant, stock, price, note)


def _values(row: FeedRow, rules: FeedRules) -> tuple[int | None, str | None, str]:
    """Stock, price and a note. Raises RowRefused."""
    stock, note = _stock(row, rules) if rules.with_stock else (None, "")
    return stock, _price(row, rules) if rules.with_price else None, note


def _stock(row: FeedRow, rules: FeedRules) -> tuple[int, str]:
    if is_blank(row.stock):
        raise RowRefused("stock_empty", "The stock is empty, so the row is left alone.")
    number = read_number(row.stock, form=rules.form, currency=None)
    if number != number.to_integral_value():
        raise RowRefused("not_whole", f"{display_text(row.stock)} is not a whole number.")
    if number > STOCK_MOST:
        raise RowRefused("out_of_range", f"{display_text(row.stock)} is more than {STOCK_MOST}.")
    note = f"{display_text(row.stock)} in the file, read as 0." if number < 0 else ""
    return max(int(number), 0), note


def _price(row: FeedRow, rules: FeedRules) -> str:
    if is_blank(row.price):
        raise RowRefused("price_empty", "The price is empty, so the row is left alone.")
    price = read_price(row.price, form=rules.form, currency=rules.currency)
    if price == 0:
        raise RowRefused("price_zero", "A price of 0 is never set.")
    return money_text(price * (100 + rules.markup) / 100, rules.currency)
