"""Exports with any part put in another's place: read or refused in words, never a failure."""

import copy
import json
import os
import random
import time
import traceback
from collections.abc import Sequence
from typing import Any

import pytest

from steward.imports.content import Unreadable, content_of
from steward.imports.n8n.read import read_value
from steward.imports.reading import read_export
from steward.imports.shopify_flow import read as store_flow
from steward.imports.storage import needs_of, shown_plan
from steward.model import plan_json
from tests.case_data import case_data
from tests.imports.exports import chain, node
from tests.imports.shopify_flow.examples import EXAMPLES
from tests.imports.shopify_flow.flows import text_of

ROUNDS = int(os.environ.get("FUZZ_EXAMPLES", "8")) * 10
_ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    float("inf"),
    10**400,
    "",
    "={{ $json.a }}",
    "=",
    "x" * 300,
    [],
    {},
    [[]],
    [None],
    [[1], {}],
    {"": 1},
    {"a": [{}]},
    {"__rl": True, "value": [], "mode": {}},
]


def _places(value: Any) -> list[tuple[Any, Any]]:
    members: list[tuple[Any, Any]] = []
    open_ = [value]
    while open_:
        current = open_.pop()
        names: list[Any] = list(current) if isinstance(current, dict) else list(range(len(current)))
        for name in names:
            members.append((current, name))
            if isinstance(current[name], dict | list):
                open_.append(current[name])
    return members


def test_no_altered_export_breaks_the_reader() -> None:
    """Any value of an export may be any other: the export is read or refused with a message."""
    cases = sorted(case_data("n8n_cases").glob("*.json"))
    check_altered([json.dumps(json.loads(path.read_text("utf-8"))["workflow"]) for path in cases], ROUNDS)


def check_altered(exports: Sequence[str], rounds: int) -> None:
    """Puts other values into random places of random exports and reads each."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    failures: list[str] = []
    for _ in range(rounds):
        export = json.loads(chance.choice(exports))
        for _ in range(chance.randrange(1, 6)):
            container, name = chance.choice(_places(export))
            container[name] = copy.deepcopy(chance.choice(_ODD))
        try:
            plan = read_value(export).plan
            shown_plan(plan_json.to_json(plan))
            needs_of(plan)
        except Unreadable:
            continue
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            failures.append(traceback.format_exc(limit=-2))
    assert failures == [], seed


@pytest.mark.parametrize("text", ["token: \ud800", "={{ '\ud800' }}"])
async def test_half_a_character_is_refused_wherever_it_stands(text: str) -> None:
    """In a setting and in an expression; also where secrets are looked for."""
    export = chain(node("Ask", "httpRequest", 4.2, {"url": "https://a.example", "body": text, "options": {}}))
    with pytest.raises(Unreadable, match="invalid characters"):
        await read_export("workflow_tool", content_of(json.dumps(export)), None, None)


_SIGNS = (
    "{{",
    "}}",
    "{%",
    "%}",
    "(",
    ")",
    "&&",
    "||",
    "any?",
    "|x|",
    "'",
    '"',
    "[",
    "]",
    "{",
    "\\",
    ".",
    "\n",
    "é",
    "",
)
SLOWEST = 5.0  # seconds of one small flow, on a machine ten times slower


def _cut(text: str, chance: random.Random) -> str:
    """A text with a piece taken out, put in twice, or replaced by a sign."""
    first, last = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    last = min(last, first + 20)
    return text[:first] + chance.choice((*_SIGNS, text[first:last] * 2)) + text[last:]


def _altered(export: Any, chance: random.Random) -> Any:
    """A flow with values replaced, and texts of its settings cut, conditions and Liquid among them."""
    value = json.loads(json.dumps(export))
    for _ in range(chance.randrange(1, 6)):
        current, name = chance.choice(_places(value))
        if isinstance(current[name], str) and chance.random() < 0.7:
            current[name] = _cut(current[name], chance)
        else:
            current[name] = copy.deepcopy(chance.choice(_ODD))
    return value


def test_no_altered_flow_breaks_the_reader_or_holds_it_up() -> None:
    """Every value of a flow may be any other, every text any other text."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    broken: list[str] = []
    for number in range(2 * ROUNDS):
        text = text_of(_altered(chance.choice(EXAMPLES), chance))
        if number % 4 == 0:
            text = _cut(text, chance)
        began = time.process_time()
        try:
            plan = store_flow.read(content_of(text)).plan
            shown_plan(plan_json.to_json(plan_json.from_json(plan_json.to_json(plan))))
            needs_of(plan)
        except Unreadable:
            pass
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            broken.append(traceback.format_exc(limit=-2))
        if time.process_time() - began > SLOWEST:
            broken.append(f"slow: {text[:2000]}")
    assert broken == [], seed
