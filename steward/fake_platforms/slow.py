"""How slowly the pretend shop answers: by setting, and by how much of a page is asked for."""

import re
from dataclasses import dataclass
from typing import Any

from steward.fake_platforms.exchange import Asked, Row

LONGEST_S = 600
_PAGE = 100
_DEFAULT_PAGE = 10
_SPAN = re.compile(r"(\d{1,3})-(\d{1,3})")


@dataclass(frozen=True, slots=True)
class Slowness:
    """Seconds an answer takes: `least_s` for one object or a write, `most_s` for a page of 100 objects."""

    least_s: int = 0
    most_s: int = 0

    def seconds(self, asked: Asked) -> float:
        """The seconds of one answer; a page takes its share of the longest one."""
        is_list = asked.method == "GET" and not asked.path.rstrip("/").rpartition("/")[2].isdigit()
        if not is_list:
            return float(self.least_s)
        text = asked.first("per_page") or ""
        length = min(int(text), _PAGE) if text.isascii() and text.isdigit() else _DEFAULT_PAGE
        return self.least_s + (self.most_s - self.least_s) * length / _PAGE

    def as_row(self) -> Row:
        """The form the control surface shows."""
        return {"least_seconds": self.least_s, "most_seconds": self.most_s}


def slowness(least_s: Any, most_s: Any) -> Slowness:
    """A slowness of whole seconds up to ten minutes. Raises ValueError in words."""
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in (least_s, most_s))
    if not whole or not 0 <= least_s <= most_s <= LONGEST_S:
        raise ValueError(f"give whole seconds from 0 to {LONGEST_S}, the least first")
    return Slowness(least_s, most_s)


def span(text: str) -> Slowness:
    """A slowness as the command line takes it, such as `2-20`. Raises ValueError in words."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise ValueError("give the seconds of the shortest and the longest answer, such as 2-20")
    return slowness(int(found[1]), int(found[2]))
