"""Exports with any part put in another's place: read or refused in words, never a failure (safety 12)."""

import json
import os
import random
import traceback
from typing import Any

from steward.imports.content import Unreadable
from steward.imports.keep import needs_of, shown_plan
from steward.imports.workflow_tool.read import read_value
from steward.model import kept_plan
from tests.shared_data import shared

ROUNDS = int(os.environ.get("FUZZ_EXAMPLES", "15")) * 10
_ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    "",
    "={{ $json.a }}",
    "=",
    "x" * 300,
    [],
    {},
    [[]],
    [None],
    {"": 1},
]


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    open_ = [value]
    while open_:
        here = open_.pop()
        names: list[Any] = list(here) if isinstance(here, dict) else list(range(len(here)))
        for name in names:
            found.append((here, name))
            if isinstance(here[name], dict | list):
                open_.append(here[name])
    return found


def test_no_altered_export_breaks_the_reader() -> None:
    """safety 12: every value of an export may be any other"""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    texts = [path.read_text("utf-8") for path in sorted(shared("n8n_exports").glob("*.json"))]
    broken: list[str] = []
    for _ in range(ROUNDS):
        export = json.loads(chance.choice(texts))
        for _ in range(chance.randrange(1, 6)):
            here, name = chance.choice(_places(export))
            here[name] = json.loads(json.dumps(chance.choice(_ODD)))
        try:
            plan = read_value(export).plan
            shown_plan(kept_plan.to_kept(plan))
            needs_of(plan)
        except Unreadable:
            continue
        except (AttributeError, TypeError, KeyError, ValueError, IndexError, RecursionError):
            broken.append(traceback.format_exc(limit=-2))
    assert broken == [], seed
