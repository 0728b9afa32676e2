"""Reads texts of dates that are not ISO as V8 reads them, in UTC, the zone of the n8n process."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

# Words end before the first sign below “A”.
_TOKEN: Final = re.compile(r"([0-9]+)|([A-\U0010ffff]+)|(.)", re.DOTALL)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ZONE_HOURS: Final = {
    **dict.fromkeys(("utc", "ut", "z", "gmt"), 0),
    **{"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
}
_HALVES: Final = {"am": 0, "pm": 12}
_TIME_LIMITS: Final = (24, 59, 59, 999)  # of hours, minutes, seconds and milliseconds
_DIGITS: Final = 9  # of a number that are read


class _NoDate(Exception):
    """Raised for a text that is not a date."""


def read_date_text(text: str) -> datetime | None:
    """Returns the instant that a text names, or None."""
    try:
        reading = _Reading(text)
        reading.read()
        return reading.instant()
    except (_NoDate, ValueError, OverflowError):
        return None


def _tokens(text: str) -> Iterator[str]:
    """Yields numbers, words in small letters, and single signs; nothing of what parentheses enclose."""
    depth = 0
    for token in (match[0] for match in _TOKEN.finditer(text)):
        if token == "(":
            depth += 1
        elif token == ")" and depth:
            depth -= 1
        elif not depth:
            yield token.lower()


class _Reading:
    """The numbers of a date and a time, the month and the offset, as they are read from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0
        self._days: list[int] = []
        self._times: list[int] = []
        self._month: int | None = None
        self._half: int | None = None
        self._sign: int | None = None
        self._hour: int | None = None
        self._minute: int | None = None
        self._has_number = False

    def read(self) -> None:
        """Reads all tokens. Raises _NoDate."""
        while (token := self._peek()) is not None:
            self._position += 1
            if token.isdecimal() and token.isascii():
                self._read_number(token)
            elif token >= "A":
                self._read_word(token)
            elif token in "+-" and (self._times or self._is_utc()):
                self._read_offset(token)
            elif token in "+-)" and self._has_number:
                raise _NoDate

    def _is_utc(self) -> bool:
        return self._hour == 0 and self._minute == 0

    def _peek(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _skip(self, sign: str) -> bool:
        skips = self._peek() == sign
        self._position += skips
        return skips

    def _number_ahead(self) -> str | None:
        token = self._peek()
        return token if token is not None and token.isdecimal() and token.isascii() else None

    def _expects_time(self, number: int) -> bool:
        count = len(self._times)
        return 0 < count < 4 and number <= _TIME_LIMITS[count]

    def _end_time(self, number: int) -> None:
        self._times = [*self._times, number, 0, 0][:4]

    def _read_number(self, token: str) -> None:
        number = _number(token)
        self._has_number = True
        if self._skip(":"):
            self._add_time(number)
        elif self._skip(".") and self._expects_time(number):
            self._times.append(number)
            self._end_with_part()
        elif self._hour is not None and self._minute is None and number < 60:
            self._minute = number
        elif self._expects_time(number):
            self._end_time(number)
            self._check_end()
        elif len(self._days) > 2:
            raise _NoDate
        else:
            self._days.append(number)
            self._skip("-")

    def _add_time(self, number: int) -> None:
        has_two_colons = self._skip(":")
        if len(self._times) > 3 or (has_two_colons and self._times):
            raise _NoDate
        self._times += [number, 0] if has_two_colons else [number]
        if not has_two_colons:
            self._skip(".")

    def _end_with_part(self) -> None:
        part = self._number_ahead()
        if part is None:
            raise _NoDate
        self._position += 1
        self._end_time(int(part[:3].ljust(3, "0")))

    def _check_end(self) -> None:
        after = self._peek()
        if after is not None and after != "z" and after not in "+-" and not after.isspace():
            raise _NoDate

    def _read_word(self, word: str) -> None:
        if word in _HALVES and self._times:
            self._half = _HALVES[word]
        elif word[:3] in _MONTHS:
            self._month = _MONTHS.index(word[:3]) + 1
            self._skip("-")
        elif word in _ZONE_HOURS and self._has_number:
            hours = _ZONE_HOURS[word]
            self._sign, self._hour, self._minute = -1 if hours < 0 else 1, abs(hours), 0
        elif self._has_number or self._number_ahead() is not None:
            raise _NoDate

    def _read_offset(self, sign: str) -> None:
        self._sign, self._hour, self._minute = 1 if sign == "+" else -1, None, None
        digits = self._number_ahead() or ""
        self._position += bool(digits)
        self._has_number = True
        number = _number(digits or "0")
        if self._peek() == ":":
            self._hour = number
        elif len(digits) in (1, 2):
            self._hour, self._minute = number, 0
        elif len(digits) in (3, 4):
            self._hour, self._minute = divmod(number, 100)
        else:
            raise _NoDate

    def instant(self) -> datetime:
        """Returns the instant. Raises _NoDate, ValueError or OverflowError."""
        year, month, day = self._day()
        if not 1 <= day <= 31:
            raise _NoDate
        year += 2000 if year < 50 else 1900 if year < 100 else 0
        offset = (self._sign or 1) * timedelta(hours=self._hour or 0, minutes=self._minute or 0)
        # days up to the 31st overflow into the next month
        return datetime(year, month, 1, tzinfo=UTC) + timedelta(days=day - 1) + self._time() - offset

    def _day(self) -> tuple[int, int, int]:
        if not self._days:
            raise _NoDate
        first, second, third = [*self._days, 1, 1][:3]
        is_day = 1 <= first <= 31
        if self._month is not None:
            return (second, self._month, first) if is_day else (first, self._month, second)
        return (third, first, second) if is_day else (first, second, third)

    def _time(self) -> timedelta:
        hour, minute, second, part = [*self._times, 0, 0, 0, 0][:4]
        if self._half is not None:
            if hour > 12:
                raise _NoDate
            hour = hour % 12 + self._half
        is_time = hour < 24 and minute < 60 and second < 60 and part < 1000
        if not is_time and (hour, minute, second, part) != (24, 0, 0, 0):
            raise _NoDate
        return timedelta(hours=hour, minutes=minute, seconds=second, milliseconds=part)


def _number(digits: str) -> int:
    return int(digits.lstrip("0")[:_DIGITS] or "0")
