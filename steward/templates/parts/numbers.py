"""Numbers in sheets and files, and amounts of money, in decimal arithmetic."""

import re
from decimal import ROUND_HALF_UP, Decimal

from steward.connectors.base.records import Cell, currency_decimals
from steward.steps.skus import DISPLAY_LENGTH, RowRefused, display_text, key_of
from steward.templates.parts.currencies import currencies_of

# A currency sign or code before or after, a minus, and digits with separators and blanks.
_SHAPE = re.compile(
    r"(?P<minus>[-−]?)\s*(?P<before>[^\W\d_]+\.(?=\s)|[^\s\d.,'’+−-]*)\s*(?P<inner>[-−]?)\s*"
    r"(?P<digits>[0-9.,'’\s]+?)\s*(?P<after>[^\s\d.,'’+−-][^\s\d,'’+−-]*)?"
)
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(?:(?P<group>.)[0-9]{3})(?:(?P=group)[0-9]{3})*", re.DOTALL)
# For numbers that belong to no store: any currency is accepted.
ANY_CURRENCY = "any"
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,8})?")


def read_number(cell: Cell, *, form: str, currency: str | None) -> Decimal:
    """Returns the number in a cell.

    `form` is `auto`, `point` or `comma`; `currency` is the store's, or ANY_CURRENCY. Raises RowRefused
    `not_a_number`, `number_ambiguous`, `currency_differs`.
    """
    if isinstance(cell, Decimal) and cell.is_finite():
        return cell
    text = key_of(cell)
    shape = _shape_of(text) if isinstance(cell, str) else None
    if shape is None:
        raise _not_a_number(text)
    sign = shape["before"] or shape["after"]
    if sign:
        _check_currency(sign, text, currency)
    number = Decimal(_plain(shape["digits"], text, form))
    return -number if shape["minus"] or shape["inner"] else number


def _shape_of(text: str) -> re.Match[str] | None:
    """Returns the parts of a number; None for other text, and for two minus signs or two currencies."""
    shape = _SHAPE.fullmatch(text) if len(text) <= DISPLAY_LENGTH else None
    if shape is None or (shape["minus"] and shape["inner"]) or (shape["before"] and shape["after"]):
        return None
    return shape


def read_price(cell: Cell, *, form: str, currency: str | None) -> Decimal:
    """Returns a price: a number that is not negative and has no more decimals than its currency.

    Raises RowRefused as `read_number` does, and `negative` and `too_many_decimals`. Zero is allowed.
    """
    number = read_number(cell, form=form, currency=currency)
    if number < 0:
        raise RowRefused("negative", f"{display_text(cell)} is below 0.")
    decimals = currency_decimals(currency)
    if number != round_to(number, decimals):
        message = (
            f"{display_text(cell)} has more decimals than the {decimals} of {currency or 'this currency'}."
        )
        raise RowRefused("too_many_decimals", message)
    return number


def money_text(number: Decimal, currency: str | None) -> str:
    """Returns an amount as decimal text with the currency's minor units."""
    return format(round_to(number, currency_decimals(currency)), "f")


def round_to(number: Decimal, decimals: int) -> Decimal:
    """Returns the number rounded half up. Raises RowRefused `not_a_number` when it is too large."""
    if abs(number) >= Decimal(10) ** 20:
        raise RowRefused("not_a_number", "The number is too large.")
    return number.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def amount_of(text: str | None) -> Decimal | None:
    """Returns a store's price; None for a missing price, or for other text, which shops also accept."""
    return Decimal(text) if text and _AMOUNT.fullmatch(text) else None


def change_percent(before: Decimal, after: Decimal) -> Decimal:
    """Returns the signed change in percent of `before`, which must not be 0."""
    return (after - before) / before * 100


def percent_text(percent: Decimal) -> str:
    """Returns text such as `+6.3 %`, with one decimal and a point."""
    return f"{percent.quantize(Decimal('0.1'), ROUND_HALF_UP):+} %"


def _check_currency(sign: str, text: str, currency: str | None) -> None:
    currencies = currencies_of(sign)
    if currencies is None:
        raise _not_a_number(text)
    if currency not in (*currencies, ANY_CURRENCY):
        message = f"{display_text(text)} is not in the store's currency{f', {currency}' if currency else ''}."
        raise RowRefused("currency_differs", message)


def _plain(digits: str, text: str, form: str) -> str:
    """Returns the digits with a point as the only separator."""
    integer_digits, fraction = _split(digits, text, form)
    if re.fullmatch(r"[0-9]*", integer_digits):
        if not integer_digits and not fraction:
            raise _not_a_number(text)
    elif not _GROUPED.fullmatch(integer_digits):
        raise _not_a_number(text)
    number = re.sub(r"[^0-9]", "", integer_digits) or "0"
    return f"{number}.{fraction}" if fraction else number


def _split(digits: str, text: str, form: str) -> tuple[str, str]:
    """Returns the digits before and after the decimal separator."""
    last = max(digits.rfind("."), digits.rfind(","))
    if last < 0 or not _is_decimal(digits, last, text, form):
        return digits, ""
    integer_digits, fraction = digits[:last], digits[last + 1 :]
    if not re.fullmatch(r"[0-9]+", fraction) or digits[last] in integer_digits:
        raise _not_a_number(text)
    return integer_digits, fraction


def _is_decimal(digits: str, last: int, text: str, form: str) -> bool:
    """Returns whether the last point or comma is the decimal separator."""
    sign = digits[last]
    other_sign = "," if sign == "." else "."
    if other_sign in digits:
        return True
    if digits.count(sign) > 1:
        return False
    if not re.fullmatch(r"[0-9]{3}", digits[last + 1 :]):
        return True
    if form == "auto":
        message = f"{display_text(text)} can be read in two ways. Say how numbers are written in this sheet."
        raise RowRefused("number_ambiguous", message)
    return sign == ("." if form == "point" else ",")


def _not_a_number(text: str) -> RowRefused:
    return RowRefused("not_a_number", f"{display_text(text) or 'An empty cell'} is not a number.")
