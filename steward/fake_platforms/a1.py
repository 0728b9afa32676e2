"""A1 notation of the fake spreadsheets: converts between ranges and cells."""

import re
from dataclasses import dataclass

_CELLS = re.compile(r"\$?([A-Za-z]{0,3})\$?(\d{0,7})(?::\$?([A-Za-z]{0,3})\$?(\d{0,7}))?")


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of one tab, counted from 0, ends excluded; null means up to the end of the tab."""

    tab: str
    first_row: int = 0
    first_column: int = 0
    end_row: int | None = None
    end_column: int | None = None


def _column_number(letters: str) -> int:
    """Returns the number of a column: `A` is 0, `AA` is 26."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number - 1


def column_letters(number: int) -> str:
    """Returns the letters of a column: 0 is `A`, 26 is `AA`."""
    letters, remaining = "", number + 1
    while remaining:
        remaining, rest = divmod(remaining - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def quoted(tab: str) -> str:
    """Returns a tab's title in the form for ranges."""
    return tab if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", tab) else "'" + tab.replace("'", "''") + "'"


def written(area: Area, rows: int, columns: int) -> str:
    """Returns the area in A1 notation, limited by the tab's size."""
    end_row = min(area.end_row or rows, max(rows, area.first_row + 1))
    end_column = min(area.end_column or columns, max(columns, area.first_column + 1))
    first = f"{column_letters(area.first_column)}{area.first_row + 1}"
    last = f"{column_letters(end_column - 1)}{end_row}"
    return f"{quoted(area.tab)}!{first}" + ("" if first == last else f":{last}")


def parsed(text: str, tabs: list[str]) -> Area | None:
    """Returns the area of a range; null for a bad range or an unknown tab."""
    if text in tabs:
        return Area(text)
    if "!" not in text and _unquoted(text) in tabs:
        return Area(_unquoted(text))
    tab, cells = _tab_and_cells(text, tabs)
    match = _CELLS.fullmatch(cells)
    if tab not in tabs or match is None or not (match[1] or match[2]):
        return None
    letters, digits, letters_to, digits_to = match.groups()
    if letters_to is None:
        return _single_cell(tab, letters, digits)
    return _cell_range(tab, letters, digits, letters_to, digits_to)


def _tab_and_cells(text: str, tabs: list[str]) -> tuple[str, str]:
    """Splits a range into its tab, by default the first one, and its cells."""
    if "!" in text:
        tab, _, cells = text.rpartition("!")
        return _unquoted(tab), cells
    return (tabs[0] if tabs else ""), text


def _single_cell(tab: str, letters: str, digits: str) -> Area | None:
    if not letters or not digits or int(digits) < 1:
        return None
    row, column = int(digits) - 1, _column_number(letters)
    return Area(tab, row, column, row + 1, column + 1)


def _cell_range(tab: str, letters: str, digits: str, letters_to: str, digits_to: str) -> Area | None:
    if not letters_to and not digits_to:
        return None
    first_row = int(digits) - 1 if digits else 0
    first_column = _column_number(letters) if letters else 0
    end_row = int(digits_to) if digits_to else None
    end_column = _column_number(letters_to) + 1 if letters_to else None
    if first_row < 0 or _is_empty(first_row, end_row) or _is_empty(first_column, end_column):
        return None
    return Area(tab, first_row, first_column, end_row, end_column)


def _is_empty(start: int, end: int | None) -> bool:
    return end is not None and end <= start


def _unquoted(tab: str) -> str:
    if len(tab) >= 2 and tab[0] == tab[-1] == "'":
        return tab[1:-1].replace("''", "'")
    return tab
