"""Loads the recorded calls of each /v1 operation for the OpenAPI document; `make docs` records them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

_FILE = Path(__file__).with_name("examples.json")


@dataclass(frozen=True, slots=True)
class Example:
    """A recorded call: its path, its body (None without one) and the whole response."""

    path: str
    request: Mapping[str, Any] | None
    response: Mapping[str, Any]


@cache
def examples() -> Mapping[str, Example]:
    """Returns examples by method and path, such as `GET /v1/automations/runs/{run_id}`."""
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, Example])
