"""Computes how slowly the fake shop answers, from its setting and the requested page length."""

import re
from dataclasses import dataclass
from typing import Any

from steward.fake_platforms.exchange import FakeRequest, Row

_LONGEST_S = 600
_PAGE = 100
_DEFAULT_PAGE = 10
_SPAN = re.compile(r"(\d{1,3})-(\d{1,3})")


@dataclass(frozen=True, slots=True)
class Slowness:
    """Seconds for a response: `min_s` for one object or a write, `max_s` for a page of 100 objects."""

    min_s: int = 0
    max_s: int = 0

    def seconds(self, request: FakeRequest) -> float:
        """Returns the seconds for one answer; a page takes its share of the longest time."""
        is_list = request.method == "GET" and not request.path.rstrip("/").rpartition("/")[2].isdigit()
        if not is_list:
            return float(self.min_s)
        text = request.first("per_page") or ""
        length = min(int(text), _PAGE) if text.isascii() and text.isdigit() else _DEFAULT_PAGE
        return self.min_s + (self.max_s - self.min_s) * length / _PAGE

    def as_row(self) -> Row:
        """Returns the form the control surface shows."""
        return {"least_seconds": self.min_s, "most_seconds": self.max_s}


def slowness(min_s: Any, max_s: Any) -> Slowness:
    """Returns a slowness of whole seconds up to ten minutes. Raises ValueError."""
    are_integers = all(
        isinstance(seconds, int) and not isinstance(seconds, bool) for seconds in (min_s, max_s)
    )
    if not are_integers or not 0 <= min_s <= max_s <= _LONGEST_S:
        raise ValueError(f"give whole seconds from 0 to {_LONGEST_S}, the smaller first")
    return Slowness(min_s, max_s)


def span(text: str) -> Slowness:
    """Returns a slowness from its command-line form, such as `2-20`. Raises ValueError."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise ValueError("give the seconds of the shortest and the longest response, such as 2-20")
    return slowness(int(match[1]), int(match[2]))
