"""Marks the places from which an import removed a secret.

Every place that held the same value gets the same marker, so that one account can be bound to all of them.
See docs/design/imports-secrets.md.
"""

import re
from collections.abc import Mapping
from typing import Final

from steward.model.json import JsonValue

# The second group is the run's text in a plan that the run reads (steps/workflow/run_marks.py).
MARKER: Final = re.compile(r"__removed_secret_([1-9][0-9]{0,5})(?:_([0-9a-f]{32}))?__")


def marker(number: int) -> str:
    """Returns the text that replaces a value: safe in JSON, addresses, headers and scripts."""
    return f"__removed_secret_{number}__"


def markers_in(value: JsonValue) -> frozenset[int]:
    """Returns the numbers of the values that were removed from this text, list or object."""
    numbers: set[int] = set()
    stack: list[JsonValue] = [value]
    while stack:
        member = stack.pop()
        if isinstance(member, str):
            numbers.update(int(hit[1]) for hit in MARKER.finditer(member))
        elif isinstance(member, Mapping):
            stack += [*member, *member.values()]
        elif isinstance(member, list):
            stack += member
    return frozenset(numbers)
