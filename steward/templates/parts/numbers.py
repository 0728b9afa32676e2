"""Numbers of sheets and files, and amounts of money, in decimal arithmetic (templates E5, E6)."""

import re
from decimal import ROUND_HALF_UP, Decimal

from steward.connectors.base.records import Cell, currency_decimals
from steward.steps.skus import LONGEST_SHOWN, RowRefused, display_text, key_of
from steward.templates.parts.currencies import meant_by

# A sign or code before or after (group 1 or 4), a minus, and digits with their points and blanks.
_SHAPE = re.compile(
    r"(?P<minus>[-−]?)\s*(?P<before>[^\W\d_]+\.(?=\s)|[^\s\d.,'’+−-]*)\s*(?P<inner>[-−]?)\s*"
    r"(?P<digits>[0-9.,'’\s]+?)\s*(?P<after>[^\s\d.,'’+−-][^\s\d,'’+−-]*)?"
)
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(?:(?P<group>.)[0-9]{3})(?:(?P=group)[0-9]{3})*", re.DOTALL)
# Where any currency will do: what is compared belongs to no store.
ANY = "any"
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,8})?")


def read_number(cell: Cell, *, form: str, currency: str | None) -> Decimal:
    """The number a cell holds; `form` is `auto`, `point` or `comma`, `currency` the store's, or ANY (E5).

    Raises RowRefused `not_a_number`, `number_ambiguous`, `currency_differs`.
    """
    if isinstance(cell, Decimal) and cell.is_finite():
        return cell
    text = key_of(cell)
    shape = _SHAPE.fullmatch(text) if isinstance(cell, str) and len(text) <= LONGEST_SHOWN else None
    if shape is None or (shape["minus"] and shape["inner"]) or (shape["before"] and shape["after"]):
        raise _not_a_number(text)
    sign = shape["before"] or shape["after"]
    if sign:
        _check_currency(sign, text, currency)
    number = Decimal(_plain(shape["digits"], text, form))
    return -number if shape["minus"] or shape["inner"] else number


def read_price(cell: Cell, *, form: str, currency: str | None) -> Decimal:
    """A price: as `read_number`, and neither negative nor with more decimals than its currency has.

    Raises RowRefused, besides those, `negative` (E5) and `too_many_decimals` (E6). Zero passes.
    """
    number = read_number(cell, form=form, currency=currency)
    if number < 0:
        raise RowRefused("negative", f"{display_text(cell)} is below 0.")
    decimals = currency_decimals(currency)
    if number != round_to(number, decimals):
        of = currency or "this currency"
        words = f"{display_text(cell)} has more decimals than the {decimals} of {of}."
        raise RowRefused("too_many_decimals", words)
    return number


def money_text(number: Decimal, currency: str | None) -> str:
    """An amount as decimal text with the currency's minor units (templates 2, "Money")."""
    return format(round_to(number, currency_decimals(currency)), "f")


def round_to(number: Decimal, decimals: int) -> Decimal:
    """Rounded half up (E6)."""
    if abs(number) >= Decimal(10) ** 20:
        raise RowRefused("not_a_number", "The number is too large.")
    return number.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def amount_of(text: str | None) -> Decimal | None:
    """A price as a store has it; None for none, and for what is no amount: shops keep any text."""
    return Decimal(text) if text and _AMOUNT.fullmatch(text) else None


def change_percent(before: Decimal, after: Decimal) -> Decimal:
    """By how many percent of `before` it changes, with its sign; `before` is not 0."""
    return (after - before) / before * 100


def percent_text(percent: Decimal) -> str:
    """Such as `+6.3 %`, with one decimal and a point (E17)."""
    return f"{percent.quantize(Decimal('0.1'), ROUND_HALF_UP):+} %"


def _check_currency(sign: str, text: str, currency: str | None) -> None:
    meant = meant_by(sign)
    if meant is None:
        raise _not_a_number(text)
    if currency not in (*meant, ANY):
        words = f"{display_text(text)} is not in the store's currency{f', {currency}' if currency else ''}."
        raise RowRefused("currency_differs", words)


def _plain(digits: str, text: str, form: str) -> str:
    """The digits with a point as the only sign left."""
    last = max(digits.rfind("."), digits.rfind(","))
    whole, fraction = digits, ""
    if last >= 0 and _is_decimal(digits, last, text, form):
        whole, fraction = digits[:last], digits[last + 1 :]
        if not re.fullmatch(r"[0-9]+", fraction) or (digits[last] in whole):
            raise _not_a_number(text)
    if re.fullmatch(r"[0-9]*", whole):
        if not whole and not fraction:
            raise _not_a_number(text)
        return f"{whole or '0'}.{fraction}" if fraction else whole
    if not _GROUPED.fullmatch(whole):
        raise _not_a_number(text)
    return re.sub(r"[^0-9]", "", whole) + (f".{fraction}" if fraction else "")


def _is_decimal(digits: str, last: int, text: str, form: str) -> bool:
    """Whether the last point or comma is the decimal sign (E5)."""
    sign = digits[last]
    other = "," if sign == "." else "."
    if other in digits:
        return True
    if digits.count(sign) > 1:
        return False
    if not re.fullmatch(r"[0-9]{3}", digits[last + 1 :]):
        return True
    if form == "auto":
        words = f"{display_text(text)} can be read in two ways. Say how numbers are written in this sheet."
        raise RowRefused("number_ambiguous", words)
    return sign == ("." if form == "point" else ",")


def _not_a_number(text: str) -> RowRefused:
    return RowRefused("not_a_number", f"{display_text(text) or 'An empty cell'} is not a number.")
