"""Reads and runs one n8n node as a workflow, for tables of its results."""

from collections.abc import Mapping, Sequence
from typing import Any

from steward.imports.n8n.read import read_value
from steward.model.finding import Finding, FindingLevel
from steward.model.run import Mode
from steward.steps.base import RunFiles
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.items import Items, Outputs, trigger_items
from steward.steps.workflow.step_types import RunEnvironment
from steward.steps.workflow.walk import WalkContext, walk
from tests.imports.cases import NOW, Recording
from tests.shared_sandbox import shared_sandbox

STEP = "Step"


def workflow_of(kind: str, version: float, parameters: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """Returns a workflow of a manual start and the one step."""
    core = "n8n-nodes-base."
    start = {
        "name": "Start",
        "type": f"{core}manualTrigger",
        "typeVersion": 1,
        "position": [0, 0],
        "parameters": {},
    }
    step = {
        "name": STEP,
        "type": core + kind,
        "typeVersion": version,
        "position": [1, 0],
        "parameters": parameters,
    }
    return {
        "nodes": [start, {**step, **settings}],
        "connections": {"Start": {"main": [[{"node": STEP, "type": "main", "index": 0}]]}},
        "settings": {"executionOrder": "v1", "timezone": "Europe/Berlin"},
    }


def errors_of(kind: str, version: float, parameters: Mapping[str, Any]) -> list[Finding]:
    """Returns the errors that importing the step finds."""
    findings = read_value(workflow_of(kind, version, parameters)).findings
    return [finding for finding in findings if finding.level is FindingLevel.ERROR]


async def outputs_of(
    kind: str,
    version: float,
    parameters: Mapping[str, Any],
    items: Sequence[Mapping[str, Any]],
    **settings: Any,
) -> list[list[Any]] | str:
    """Returns the fields of the items at each output, or the message that the step failed with."""
    return await outputs_in(workflow_of(kind, version, parameters, **settings), items)


async def outputs_in(
    workflow: Mapping[str, Any], items: Sequence[Mapping[str, Any]], *, run: int = 0
) -> list[list[Any]] | str:
    """Runs the step in a given workflow and returns the fields at each output, or its error message."""
    outputs = await _run_in(workflow, trigger_items(items), run=run)
    return outputs if isinstance(outputs, str) else [[item.json for item in output] for output in outputs]


async def items_of(
    kind: str,
    version: float,
    parameters: Mapping[str, Any],
    items: Items,
    *,
    files: RunFiles | None = None,
    **settings: Any,
) -> Outputs | str:
    """Returns the items at each output with their files, or the message that the step failed with."""
    return await _run_in(workflow_of(kind, version, parameters, **settings), items, files=files)


async def _run_in(
    workflow: Mapping[str, Any], items: Items, *, run: int = 0, files: RunFiles | None = None
) -> Outputs | str:
    read = read_value(workflow)
    scene = RunEnvironment(zone="Europe/Berlin", now=NOW, seed="one", mode=Mode.LIVE, files=files)
    means = WalkContext(
        evaluator=Evaluator(shared_sandbox(), "tests", "one"),
        environment=scene,
        types=BY_TYPE,
        sleep=_no_sleep,
        clock=lambda: NOW,
    )
    journal = Recording()
    walked = await walk(read.plan, "Start", items, context=means, journal=journal)
    if walked.failure is not None:
        return walked.failure.error or "failed"
    return journal.outputs[STEP][run].outputs or []


async def _no_sleep(seconds: float) -> None:
    """Returns at once, so that waits take no time."""
