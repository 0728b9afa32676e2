"""A1 notation of the fake spreadsheets: which cells a range names."""

import re
from dataclasses import dataclass

_CELLS = re.compile(r"\$?([A-Za-z]{0,3})\$?(\d{0,7})(?::\$?([A-Za-z]{0,3})\$?(\d{0,7}))?")


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of one tab, counted from 0, ends excluded; null means to the end of the tab."""

    tab: str
    top: int = 0
    left: int = 0
    bottom: int | None = None
    right: int | None = None


def column_number(letters: str) -> int:
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
    """Returns a tab's title as ranges write it."""
    return tab if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", tab) else "'" + tab.replace("'", "''") + "'"


def written(area: Area, rows: int, columns: int) -> str:
    """Returns the area in A1 notation, limited by the tab's size."""
    bottom = min(area.bottom or rows, max(rows, area.top + 1))
    right = min(area.right or columns, max(columns, area.left + 1))
    first = f"{column_letters(area.left)}{area.top + 1}"
    last = f"{column_letters(right - 1)}{bottom}"
    return f"{quoted(area.tab)}!{first}" + ("" if first == last else f":{last}")


def parsed(text: str, tabs: list[str]) -> Area | None:
    """Returns the area a range names, or null for a bad range or an unknown tab."""
    tab, cells = "", text
    if text in tabs:
        return Area(text)
    if "!" in text:
        tab, _, cells = text.rpartition("!")
        tab = _unquoted(tab)
    elif _unquoted(text) in tabs:
        return Area(_unquoted(text))
    else:
        tab = tabs[0] if tabs else ""
    if tab not in tabs:
        return None
    match = _CELLS.fullmatch(cells)
    if match is None or not cells:
        return None
    letters, digits, letters_to, digits_to = match.groups()
    if not letters and not digits:
        return None
    first_column = column_number(letters) if letters else 0
    top = int(digits) - 1 if digits else 0
    if ":" not in cells:
        if not letters or not digits:
            return None
        return Area(tab, top, first_column, top + 1, first_column + 1) if top >= 0 else None
    if not letters_to and not digits_to:
        return None
    end_column = column_number(letters_to) + 1 if letters_to else None
    bottom = int(digits_to) if digits_to else None
    if (
        top < 0
        or (end_column is not None and end_column <= first_column)
        or (bottom is not None and bottom <= top)
    ):
        return None
    return Area(tab, top, first_column, bottom, end_column)


def _unquoted(tab: str) -> str:
    if len(tab) >= 2 and tab[0] == tab[-1] == "'":
        return tab[1:-1].replace("''", "'")
    return tab
