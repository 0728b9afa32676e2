"""Writes a card as text: without invisible characters, cut from its end, what is left out counted; pure."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from steward.connectors.base.commands import PostCard


def visible(text: str) -> str:
    """Returns `text` without control and format characters; line breaks stay."""
    return "".join(char for char in text if char == "\n" or unicodedata.category(char) not in ("Cc", "Cf"))


def lines_that_fit(line_count: int, fits: Callable[[int], bool]) -> int:
    """Returns the most lines, up to `line_count`, for which `fits` is true; 0 if none are.

    A message grows with the lines that are kept, so the number is found by halving.
    """
    if fits(line_count):
        return line_count
    low, high = 0, line_count - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def lines_left_out(card: PostCard, number: int) -> str:
    """Returns the card's words for lines that did not fit; empty when all did."""
    return card.more.replace("{n}", str(number)) if number else ""


@dataclass(frozen=True, slots=True)
class CardText:
    """The one text that a platform shows a card as.

    `escaped` makes text of a store plain for the platform: no mention, no link, no formatting. `title`
    formats an escaped title, `link` an escaped name and an address.
    """

    max_characters: int
    escaped: Callable[[str], str]
    title: Callable[[str], str] = str
    link: Callable[[str, str], str] = "{}: {}".format

    def of(self, card: PostCard) -> str:
        """Returns title, lines and link; lines that do not fit are left out from the end and counted."""
        lines = [self._plain(line) for line in card.text]
        lines += [f"{self._plain(name)}: {self._plain(value)}" for name, value in card.facts]
        kept = lines_that_fit(
            len(lines), lambda count: len(self._joined(card, lines, count)) <= self.max_characters
        )
        return self._joined(card, lines, kept)[: self.max_characters]

    def _joined(self, card: PostCard, lines: list[str], kept: int) -> str:
        more = self._plain(lines_left_out(card, len(lines) - kept))
        parts = (self.title(self._plain(card.title)), *lines[:kept], more, self._link(card))
        return "\n".join(part for part in parts if part)

    def _link(self, card: PostCard) -> str:
        """Returns the card's link, which an address with a sign of the platforms' own would break."""
        if card.link is None or not card.link[1].startswith("https://") or set(card.link[1]) & set("|<> \n"):
            return ""
        return self.link(self._plain(card.link[0]), card.link[1])

    def _plain(self, text: str) -> str:
        return self.escaped(visible(text))
