"""Compares expressions and scripts with what a real n8n computed.

See docs/design/imports-n8n.md#expressions and docs/design/imports-n8n.md#recorded-cases.
"""

import json
from collections.abc import Sequence
from typing import Any

from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.paths import UNDEFINED
from steward.steps.workflow.expressions.template import read
from steward.steps.workflow.expressions.views import (
    CodeFailed,
    CodeResult,
    ExpressionError,
    Outcome,
    Script,
    ScriptMode,
)
from tests.case_data import case_data
from tests.expressions.cases import RecordedStep, equal, recorded_steps, stored

CASES = case_data("n8n_cases")
EXPRESSIONS = sorted({file.stem.rpartition("-")[0] for file in CASES.glob("expr-*.json")} - {"expr-params"})
# Expressions that may differ: the source of n8n's own wrapper function, and the URL that resumes a run.
ACCEPTED = {"=<{{ Object.groupBy }}>", "={{ $execution.resumeUrl ? 1 : 0 }}"}


def _fields(step: RecordedStep) -> list[dict[str, Any]]:
    parameters = step.node["parameters"]
    if "values" in parameters:
        return [field for fields in parameters["values"].values() for field in fields]
    return list(parameters["assignments"]["assignments"])


def _differences(step: RecordedStep, results: Sequence[Sequence[Outcome]]) -> list[str]:
    fields = _fields(step)
    if "values" in step.node["parameters"]:
        checked = [
            result for field, result in zip(fields, results, strict=True) if field["value"] not in ACCEPTED
        ]
        fault = any(isinstance(value, ExpressionError) for result in checked for value in result)
        if fault or step.failed:
            return [] if fault == step.failed else [f"{step.name}: an expression error {fault}"]
    differences = []
    for index, recorded in enumerate(step.put_out or ()):
        for field, result in zip(fields, results, strict=True):
            if f"{step.node['name']}.0.0.{index}.{field['name']}" in step.unstable:
                continue
            value, expected = _as_stored(step, field, result[index]), recorded.get(field["name"], UNDEFINED)
            if not equal(value, expected) and field["value"] not in ACCEPTED:
                differences.append(f"{step.name} {field['value']}: {value!r}, recorded {expected!r}")
    return differences


def _as_stored(step: RecordedStep, field: dict[str, Any], value: Any) -> Any:
    """Returns a value as the step stores it: version 3 of set converts it to the type of its field."""
    if "values" in step.node["parameters"] or field["type"] != "string":
        return stored(value)
    if value is UNDEFINED or value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return str(value).replace("inf", "Infinity") if isinstance(value, int | float) else value


async def test_recorded_expressions_give_the_recorded_values(evaluator: Evaluator) -> None:
    """Gives the recorded values, texts, errors and dates of every recorded expression.

    See docs/design/imports-n8n.md#expressions.
    """
    differences: list[str] = []
    count = 0
    for step in recorded_steps(CASES, EXPRESSIONS):
        if step.kind != "set":
            continue
        templates = [read(str(field["value"])) for field in _fields(step)]
        count += len(templates)
        differences += _differences(step, await evaluator.evaluate(templates, step.context))
    assert differences == []
    assert count > 1000


_MODES = {"function": ScriptMode.FUNCTION, "functionItem": ScriptMode.FUNCTION_ITEM}
SCRIPTS = ["code-all", "code-each", "code-each-fail", "code-fail", "function-v1"]


async def _run(evaluator: Evaluator, step: RecordedStep) -> CodeResult | CodeFailed:
    parameters = step.node["parameters"]
    item = parameters.get("mode") == "runOnceForEachItem"
    mode = _MODES.get(step.kind, ScriptMode.PER_ITEM if item else ScriptMode.ALL)
    text = parameters.get("jsCode", parameters.get("functionCode"))
    try:
        return await evaluator.run_code(Script(text, mode), step.context)
    except CodeFailed as failed:
        return failed


async def test_recorded_scripts_give_the_recorded_output(evaluator: Evaluator) -> None:
    """Gives the recorded results and failures of scripts in both modes.

    See docs/design/imports-n8n.md#code-steps.
    """
    count = 0
    for step in recorded_steps(CASES, SCRIPTS):
        tolerant = step.node.get("onError") == "continueRegularOutput"
        if step.kind not in ("code", "function", "functionItem") or (step.failed and not tolerant):
            continue
        if "-fail" in step.case and not tolerant:
            continue
        count += 1
        result = await _run(evaluator, step)
        if isinstance(result, CodeFailed):
            assert result.thrown == _is_error(step), step.name
            assert result.message
            continue
        assert step.put_out is not None, step.name
        assert len(result.items) == len(step.put_out), step.name
        for item, recorded in zip(result.items, step.put_out, strict=True):
            if item.error is None:
                assert equal(dict(item.json), recorded), step.name
            else:
                assert recorded.keys() == {"error"}, step.name
    assert count >= 20


def _is_error(step: RecordedStep) -> bool:
    return len(step.put_out or ()) == 1 and (step.put_out or ({},))[0].keys() == {"error"}


async def test_recorded_comparison_scripts_give_the_recorded_order(evaluator: Evaluator) -> None:
    """Sorts by code as recorded.

    See docs/design/imports-n8n.md#node-types.
    """
    steps = list(recorded_steps(CASES, ["sort-code"]))
    for step in steps:
        order = await evaluator.order(step.node["parameters"]["code"], step.context)
        assert [step.items[index] for index in order] == list(step.put_out or ()), step.name
    assert len(steps) == 5
