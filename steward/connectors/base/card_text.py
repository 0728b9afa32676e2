"""Writes a card as plain text: drops invisible characters, cuts it at its end, counts the cut lines."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from steward.connectors.base.commands import PostCard

_MAX_TITLE = 200


def visible(text: str) -> str:
    """Returns `text` without control and format characters; line breaks stay."""
    return "".join(char for char in text if char == "\n" or unicodedata.category(char) not in ("Cc", "Cf"))


def lines_that_fit(line_count: int, fits: Callable[[int], bool]) -> int:
    """Returns the highest number of lines, up to `line_count`, for which `fits` is true; 0 if none is.

    A message grows with the lines that are kept, so the number is found by halving.
    """
    if fits(line_count):
        return line_count
    low, high = 0, line_count - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _short(title: str) -> str:
    return title if len(title) <= _MAX_TITLE else title[: _MAX_TITLE - 1] + "…"


def lines_left_out(card: PostCard, number: int) -> str:
    """Returns the card's sentence about lines that did not fit; empty when all did."""
    return card.more.replace("{n}", str(number)) if number else ""


@dataclass(frozen=True, slots=True)
class CardText:
    """The format in which a platform shows a card as one text.

    `escaped` escapes text of a store for the platform: no mention, no link, no formatting. `title` formats
    an escaped title, `link` an escaped name and an address.
    """

    max_characters: int
    escaped: Callable[[str], str]
    title: Callable[[str], str] = str
    link: Callable[[str, str], str] = "{}: {}".format

    def of(self, card: PostCard) -> str:
        """Returns title, lines and link; drops lines that do not fit from the end and counts them.

        Title and link are kept even if they alone are longer than `max_characters`.
        """
        lines = [self._plain(line) for line in card.text]
        lines += [f"{self._plain(name)}: {self._plain(value)}" for name, value in card.facts]

        def joined(count: int) -> str:
            more = self._plain(lines_left_out(card, len(lines) - count))
            parts = (self.title(self._plain(_short(card.title))), *lines[:count], more, self._link(card))
            return "\n".join(part for part in parts if part)

        return joined(lines_that_fit(len(lines), lambda count: len(joined(count)) <= self.max_characters))

    def _link(self, card: PostCard) -> str:
        """Returns the card's link; empty if a character of its address would break or hide it."""
        if card.link is None or not card.link[1].startswith("https://"):
            return ""
        if not card.link[1].isprintable() or set(card.link[1]) & set("|<> "):
            return ""
        return self.link(self._plain(card.link[0]), card.link[1])

    def _plain(self, text: str) -> str:
        return self.escaped(visible(text))
