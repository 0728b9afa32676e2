"""Liquid filters that Shopify Flow adds: dates, hashes, money, and rounding as in Ruby."""

import hashlib
import hmac
import math
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

from liquid.exceptions import FilterArgumentError

from steward.sandbox.blake3 import blake3

_SPAN: Final = re.compile(r"\s*(-?\d{1,9})\s*(second|minute|hour|day|week|month|year)s?\s*\Z")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_SYMBOLS: Final = {"USD": "$", "EUR": "€", "GBP": "£", "CAD": "$", "AUD": "$", "JPY": "¥", "INR": "₹"}


def as_text(value: Any) -> Any:
    """Returns booleans and nil in Ruby's notation, and any other value unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def _quoted(value: object) -> str:
    text = str(as_text(value))
    return f"“{text[:60]}”" if text else "an empty value"


def dates(now: Callable[[], datetime]) -> dict[str, Callable[..., Any]]:
    """Returns the filters `date`, `date_plus` and `date_minus`, using the run's clock."""

    def moment(value: object) -> datetime:
        if value in ("now", "today"):
            return now()
        return _parsed(value)

    def shifted(value: object, amount: object, unit: object, sign: int) -> str:
        text = f"{amount} {unit or 'seconds'}" if unit or isinstance(amount, int) else str(as_text(amount))
        span = _SPAN.match(text)
        if span is None:
            raise FilterArgumentError(f"{_quoted(text)} is not a time span; write it as “2 days”", token=None)
        return _shift(moment(value), sign * int(span[1]), span[2]).isoformat()

    def date(value: object, form: object = None) -> str:
        text = str(as_text(value))
        return _formatted(moment(value), str(form)) if form and text else text

    return {
        "date": date,
        "date_plus": lambda value, amount, unit=None: shifted(value, amount, unit, 1),
        "date_minus": lambda value, amount, unit=None: shifted(value, amount, unit, -1),
    }


_DAYS: Final = ("%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y", "%d %B %Y", "%d %b %Y", "%Y/%m/%d")
_TIMES: Final = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %H:%M %z", " %H:%M:%S %z")
# Also with the weekday first, as in mail: Tue, 10 Mar 2026 12:34:56 +0000.
_FORMS: Final = tuple(
    day + clock
    for day in (*_DAYS, *(f"%a, {day}" for day in _DAYS), *(f"%A, {day}" for day in _DAYS), "%Y-%m-%d")
    for clock in _TIMES
)


def _parsed(value: object) -> datetime:
    """Parses a date from seconds since 1970, ISO text, or text with an English month name."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _since_1970(value)
    text = " ".join(str(as_text(value)).split())
    if re.fullmatch(r"-?\d{5,12}", text):
        return _since_1970(int(text))
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = _parsed_by_form(re.sub(r" (?:UTC|GMT|Z)\Z", " +0000", text))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _since_1970(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OSError, OverflowError, ValueError) as end:
        raise FilterArgumentError("the date lies outside the calendar", token=None) from end


def _parsed_by_form(text: str) -> datetime:
    for form in _FORMS if len(text) <= 60 else ():
        try:
            parts = time.strptime(text, form)
            zone = timezone(timedelta(seconds=parts.tm_gmtoff or 0))
            return datetime(*parts[:6], tzinfo=zone)
        except ValueError:
            continue
    raise FilterArgumentError(
        f"{_quoted(text)} is not a date; write it as “2026-01-31” or “January 31, 2026”", token=None
    )


# Format parts that Ruby, on which Shopify's Liquid runs, has and C lacks or takes from the local zone.
_RUBY_PART: Final = re.compile(
    r"%(?:%|(?P<width>\d{0,2})(?P<fraction>[LN])|(?P<colons>:{1,2})z|(?P<part>[sZv]))"
)


def _formatted(moment: datetime, form: str) -> str:
    """Formats a date by a `strftime` format as Ruby does."""

    def part_of(match: re.Match[str]) -> str:
        if match["fraction"]:
            width = int(match["width"] or (3 if match["fraction"] == "L" else 9))
            return f"{moment.microsecond:06d}".ljust(width, "0")[:width]
        if match["colons"]:
            offset = moment.strftime("%z")
            return f"{offset[:3]}:{offset[3:5]}" + (":00" if match["colons"] == "::" else "")
        if match["part"] == "s":
            return str(int(moment.timestamp()))
        if match["part"] == "Z":
            return "" if moment.utcoffset() else "UTC"
        return moment.strftime("%e-%^b-%Y") if match["part"] == "v" else match[0]

    return moment.strftime(_RUBY_PART.sub(part_of, form))


_DIGITS: Final = 300
# Precise enough for every number and rounding within the limit; the default is 28 digits.
_WIDE: Final = Context(prec=2 * _DIGITS + 10)


def round_half_up(value: object, digits: object = None) -> int | float:
    """Rounds half away from zero, as Ruby does; negative digits round to tens, hundreds and so on."""
    number, places = _decimal(value), int(_decimal(digits))
    if not -_DIGITS <= places <= _DIGITS:
        raise FilterArgumentError(f"a number is rounded to {_DIGITS} digits at most", token=None)
    if places > 0 and number == number.to_integral_value() and "." not in str(value):
        return int(number)
    rounded = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _WIDE)
    return float(rounded) if places > 0 else int(rounded)


_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\Z")


def _decimal(value: object) -> Decimal:
    """Converts a number or numeric text; anything else counts as 0, as in Liquid.

    Raises FilterArgumentError for numbers with more than 300 digits before the point.
    """
    text = "" if value is None or isinstance(value, bool) else str(value).strip()
    if not _NUMBER.match(text) and not (isinstance(value, float) and not math.isfinite(value)):
        return Decimal(0)
    try:
        number = Decimal(text)
    except InvalidOperation:  # the exponent has too many digits
        number = Decimal("Infinity")
    if not number.is_finite() or number.adjusted() >= _DIGITS:
        raise FilterArgumentError(f"a number has at most {_DIGITS} digits here", token=None)
    return number


def _shift(start: datetime, amount: int, unit: str) -> datetime:
    try:
        if unit in _SECONDS:
            return start + timedelta(seconds=amount * _SECONDS[unit])
        months = start.year * 12 + start.month - 1 + amount * (12 if unit == "year" else 1)
        year, month = divmod(months, 12)
        for day in range(start.day, 27, -1):
            try:
                return start.replace(year=year, month=month + 1, day=day)
            except ValueError:
                continue
        return start.replace(year=year, month=month + 1)
    except (OverflowError, ValueError) as end:
        raise FilterArgumentError("the date lies outside the calendar", token=None) from end


def hashes() -> dict[str, Callable[..., str]]:
    """Returns the hash filters, which hash a text's UTF-8 to hexadecimal."""

    def plain(name: str) -> Callable[[object], str]:
        return lambda value: hashlib.new(name, _bytes(value), usedforsecurity=False).hexdigest()

    def keyed(name: str) -> Callable[[object, object], str]:
        return lambda value, key: hmac.new(_bytes(key), _bytes(value), name).hexdigest()

    return {
        "md5": plain("md5"),
        "sha1": plain("sha1"),
        "sha256": plain("sha256"),
        "hmac_sha1": keyed("sha1"),
        "hmac_sha256": keyed("sha256"),
        "blake3": lambda value: blake3(_bytes(value)).hex(),
    }


def _bytes(value: object) -> bytes:
    return ("" if value is None else str(value)).encode("utf-8", "replace")


def money(value: object, currency: object = None) -> str:
    """Formats an amount, or an object with `amount` and `currencyCode`, with the currency sign."""
    if isinstance(value, Mapping):
        amount_object: Mapping[str, object] = value
        value, currency = amount_object.get("amount"), amount_object.get("currencyCode", currency)
    try:
        amount = Decimal(str(value))
        if not amount.is_finite():
            raise ValueError
        text = f"{abs(amount):,.2f}"
    except (InvalidOperation, ValueError) as end:
        raise FilterArgumentError(
            f"{_quoted(value)} is not an amount; give a number such as 19.99", token=None
        ) from end
    code = str(currency or "USD")
    symbol = _SYMBOLS.get(code)
    return ("-" if amount < 0 else "") + (f"{symbol}{text}" if symbol else f"{text} {code}")
