"""Liquid filters that Shopify Flow adds: dates, hashes, money."""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from liquid.exceptions import FilterArgumentError

from steward.sandbox.blake3 import blake3

_SPAN: Final = re.compile(r"\s*(-?\d{1,9})\s*(second|minute|hour|day|week|month|year)s?\s*\Z")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_SYMBOLS: Final = {"USD": "$", "EUR": "€", "GBP": "£", "CAD": "$", "AUD": "$", "JPY": "¥", "INR": "₹"}


def dates(now: Callable[[], datetime]) -> dict[str, Callable[..., Any]]:
    """Returns the filters `date`, `date_plus` and `date_minus` by the run's clock."""

    def moment(value: object) -> datetime:
        if value in ("now", "today"):
            return now()
        if isinstance(value, int) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        try:
            parsed = datetime.fromisoformat(str(value).strip())
        except ValueError as end:
            raise FilterArgumentError(f"“{str(value)[:60]}” is no date", token=None) from end
        return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)

    def shifted(value: object, amount: object, unit: object, sign: int) -> str:
        text = f"{amount} {unit}" if unit else f"{amount} seconds" if isinstance(amount, int) else str(amount)
        span = _SPAN.match(text)
        if span is None:
            raise FilterArgumentError(f"“{text[:60]}” is no span of time; write it as “2 days”", token=None)
        return _shift(moment(value), sign * int(span[1]), span[2]).isoformat()

    def date(value: object, form: object = None) -> str:
        if value is None or value == "" or not str(value):
            return ""
        return moment(value).strftime(str(form)) if form else moment(value).isoformat()

    return {
        "date": date,
        "date_plus": lambda value, amount, unit=None: shifted(value, amount, unit, 1),
        "date_minus": lambda value, amount, unit=None: shifted(value, amount, unit, -1),
    }


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
    """Hashes of a text's UTF-8, in hexadecimal."""

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
    """Formats an amount, or an object with `amount` and `currencyCode`, with the currency's sign."""
    if isinstance(value, Mapping):
        amount_object: Mapping[str, object] = value
        value, currency = amount_object.get("amount"), amount_object.get("currencyCode", currency)
    try:
        amount = Decimal(str(value))
        text = f"{abs(amount):,.2f}"
    except (InvalidOperation, ValueError) as end:
        raise FilterArgumentError(f"“{str(value)[:60]}” is no amount", token=None) from end
    code = str(currency or "USD")
    symbol = _SYMBOLS.get(code)
    return ("-" if amount < 0 else "") + (f"{symbol}{text}" if symbol else f"{text} {code}")
