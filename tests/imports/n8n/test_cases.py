"""Runs recorded n8n cases through the reader, the plan and the walk of a real run."""

import json
from pathlib import Path

from tests.case_data import case_data
from tests.imports.cases import cases_of, run_case
from tests.imports.exports import calling, chain, node
from tests.shared_sandbox import shared_sandbox

ACCEPTED = json.loads((Path(__file__).parent / "accepted.json").read_text("utf-8"))


async def test_every_recorded_case_is_equal_except_those_accepted() -> None:
    """Every case equals its recording, except those that accepted.json names with a reason.

    See docs/design/imports-n8n.md#recorded-cases.
    """
    paths = cases_of(case_data("n8n_cases"))
    children = shared_sandbox()
    verdicts = [await run_case(json.loads(path.read_text("utf-8")), children) for path in paths]
    differing = {verdict.name: verdict.differences for verdict in verdicts if verdict.differences}
    assert {name: actual for name, actual in differing.items() if name not in ACCEPTED} == {}
    assert len(verdicts) > 0


async def test_a_called_workflow_returns_the_output_of_the_step_that_ran_last() -> None:
    """Returns the last output of the called workflow's last step.

    Its loop ran before the inner step and once more after it, with all items that came back.
    See docs/design/imports-n8n.md#node-types.
    """
    loop, inside = node("Loop", "splitInBatches", 3, {"batchSize": 1}), node("Inside", "noOp", 1, {})
    call = calling([loop, inside])
    within = json.loads(call["parameters"]["workflowJson"])
    within["connections"]["Loop"] = {"main": [[], [{"node": "Inside", "type": "main", "index": 0}]]}
    within["connections"]["Inside"] = {"main": [[{"node": "Loop", "type": "main", "index": 0}]]}
    call["parameters"]["workflowJson"] = json.dumps(within)
    items = [{"n": number} for number in range(3)]
    case = {
        "name": "loop",
        "workflow": chain(call),
        "trigger_items": items,
        "expected": {"Call": [[items]]},
        "order": [["Call", 0]],
        "errors": {},
        "stopped": None,
        "unstable": [],
    }
    verdict = await run_case(case, shared_sandbox())
    assert verdict.differences == ()
