"""Recorded cases of the workflow tool, run through the reader, the plan and the walk of a real run."""

import json
from pathlib import Path

from steward.confined.pool import Children
from tests.imports.cases import cases_of, run_case
from tests.shared_data import shared

ACCEPTED = json.loads((Path(__file__).parent / "accepted.json").read_text("utf-8"))


async def test_every_recorded_case_is_equal_but_those_accepted() -> None:
    """imports 14: each accepted difference is named with its reason"""
    paths = cases_of(shared("n8n_cases"))
    children = Children(2)
    try:
        verdicts = [await run_case(json.loads(path.read_text("utf-8")), children) for path in paths]
    finally:
        await children.close()
    differing = {one.name: one.differences for one in verdicts if one.differences}
    assert {name: told for name, told in differing.items() if name not in ACCEPTED} == {}
    assert len(verdicts) > 0
