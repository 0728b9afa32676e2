"""Real calls of each operation under /v1, for the document alone; `make docs` records them anew."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

_FILE = Path(__file__).with_name("examples.json")


@dataclass(frozen=True, slots=True)
class Example:
    """One call as it was made: where to, with which body (None: none), and the whole answer."""

    path: str
    request: Mapping[str, Any] | None
    answer: Mapping[str, Any]


@cache
def examples() -> Mapping[str, Example]:
    """By method and path of the operation, such as `GET /v1/automations/runs/{run_id}`."""
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, Example])
