"""A1 notation of the pretend spreadsheets: which cells a range means."""

import re
from dataclasses import dataclass

_CELLS = re.compile(r"\$?([A-Za-z]{0,3})\$?(\d{0,7})(?::\$?([A-Za-z]{0,3})\$?(\d{0,7}))?")


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of one tab, counted from 0, ends not included; None: to the end of the tab."""

    tab: str
    top: int = 0
    left: int = 0
    bottom: int | None = None
    right: int | None = None


def column_number(letters: str) -> int:
    """`A` is 0, `AA` is 26."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number - 1


def column_letters(number: int) -> str:
    """0 is `A`, 26 is `AA`."""
    letters, left = "", number + 1
    while left:
        left, rest = divmod(left - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def quoted(tab: str) -> str:
    """A tab's name as ranges carry it."""
    return tab if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", tab) else "'" + tab.replace("'", "''") + "'"


def written(area: Area, rows: int, columns: int) -> str:
    """The area in A1 notation, bounded by the tab's size."""
    bottom = min(area.bottom or rows, max(rows, area.top + 1))
    right = min(area.right or columns, max(columns, area.left + 1))
    first = f"{column_letters(area.left)}{area.top + 1}"
    last = f"{column_letters(right - 1)}{bottom}"
    return f"{quoted(area.tab)}!{first}" + ("" if first == last else f":{last}")


def parsed(text: str, tabs: list[str]) -> Area | None:
    """The area a range means, or None when it cannot be read: an unknown tab cannot either."""
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
    left = column_number(letters) if letters else 0
    top = int(digits) - 1 if digits else 0
    if ":" not in cells:
        if not letters or not digits:
            return None
        return Area(tab, top, left, top + 1, left + 1) if top >= 0 else None
    if not letters_to and not digits_to:
        return None
    right = column_number(letters_to) + 1 if letters_to else None
    bottom = int(digits_to) if digits_to else None
    if top < 0 or (right is not None and right <= left) or (bottom is not None and bottom <= top):
        return None
    return Area(tab, top, left, bottom, right)


def _unquoted(tab: str) -> str:
    if len(tab) >= 2 and tab[0] == tab[-1] == "'":
        return tab[1:-1].replace("''", "'")
    return tab
