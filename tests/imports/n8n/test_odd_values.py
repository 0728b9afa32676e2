"""Tests how node types handle dates, missing fields, nested names and wrong types.

See docs/design/imports-n8n.md#recorded-cases.
"""

import json
import math
from typing import Any

import pytest

from steward.steps.workflow.javascript import values as js
from tests.imports.n8n.one_step import errors_of, outputs_in, outputs_of, workflow_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.717255040943031e19, "47172550409430310000"),
        (-1.5e16, "-15000000000000000"),
        (2.5e-7, "2.5e-7"),
        (1e21, "1e+21"),
        (9007199254740993, "9007199254740993"),
    ],
)
def test_numbers_are_formatted_as_in_javascript(value: float, text: str) -> None:
    """Writes a float with its shortest digits; an integer of JSON, such as an id, keeps its digits."""
    assert js.text(value) == text


def test_only_ascii_digits_make_a_number() -> None:
    """Reads the digits of other scripts as no number."""
    assert math.isnan(js.number("\uff11"))
    assert js.number(" 1.5e3 ") == 1500


DATE = "={{ new Date('2024-01-02') }}"
ISO = "2024-01-02T00:00:00.000Z"


def _set(kind: str, value: Any) -> dict[str, Any]:
    return {"assignments": {"assignments": [{"name": "d", "type": kind, "value": value}]}}


@pytest.mark.parametrize(
    ("version", "kind", "value"),
    [
        (3.4, "string", f'"{ISO}"'),
        (3.4, "number", 1704153600000),
        (3.4, "object", ISO),
        (3.4, "boolean", None),
        (3.4, "array", None),
        (3.5, "string", ISO),
        (3.5, "number", None),
        (3.5, "object", None),
    ],
)
async def test_a_date_is_set_as_text_from_version_3_5_on(version: float, kind: str, value: Any) -> None:
    """Versions before 3.5 convert the date object itself; None marks the types that fail the step."""
    outputs = await outputs_of("set", version, _set(kind, DATE), [{}])
    assert "expects" in outputs if value is None else outputs == [[{"d": value}]]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("object", "null", None),
        ("object", "{a: 1, 'b': [\"x\", -2,], c: {d: true}}", {"a": 1, "b": ["x", -2], "c": {"d": True}}),
        ("array", "['a', 'b']", ["a", "b"]),
    ],
)
async def test_a_field_accepts_the_notation_of_javascript(kind: str, text: str, value: Any) -> None:
    """Reads lists and objects in the notation of JavaScript, which need not be JSON."""
    assert await outputs_of("set", 3.4, _set(kind, text), [{}]) == [[{"d": value}]]


@pytest.mark.parametrize("text", ["{a: b}", "{a: 1", "{a 1}", "[1", "1", "{a: f()}", "{" * 200])
async def test_a_text_that_is_not_an_object_fails(text: str) -> None:
    """Fails the step without evaluating the text."""
    assert "expects an object" in await outputs_of("set", 3.4, _set("object", text), [{}])


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "outputs"),
    [
        (
            "aggregate",
            1,
            {"fieldsToAggregate": {"fieldToAggregate": [{"fieldToAggregate": "a.b"}]}},
            [[{"b": [1]}]],
        ),
        ("aggregate", 1, {}, [[{}]]),
        (
            "set",
            3.4,
            {"includeOtherFields": True, "include": "selected", "includeFields": "a.b, l"},
            [[{"b": 1, "l": [1, None]}]],
        ),
        (
            "set",
            3.5,
            _set("object", "={{ ({a: [1, null], b: {c: ''}, e: []}).compact() }}"),
            [[{"d": {"a": {"0": 1}, "b": {}}}]],
        ),
        ("set", 3.5, _set("array", "={{ [[], {a: ''}, 0, ''].compact() }}"), [[{"d": [{}, 0]}]]),
        ("function", 1, {}, [[{"a": {"b": 1}, "l": [1, None], "myNewField": 1}]]),
        ("code", 2, {"mode": "runOnceForEachItem"}, [[{"a": {"b": 1}, "l": [1, None], "myNewField": 1}]]),
        ("code", 2, {"jsCode": ""}, [[{"a": {"b": 1}, "l": [1, None]}]]),
    ],
)
async def test_nested_names_empty_settings_and_default_scripts(
    kind: str, version: float, parameters: Any, outputs: Any
) -> None:
    """Gives the results of n8n for nested names, empty settings and default scripts."""
    assert await outputs_of(kind, version, parameters, [{"a": {"b": 1}, "l": [1, None]}]) == outputs


async def test_jmespath_of_a_missing_field_fails_the_step() -> None:
    """Fails the step for an undefined field; searching null gives null."""
    assert "$jmespath()" in await outputs_of(
        "set", 3.4, _set("string", "={{ $jmespath($json.x, 'a') }}"), [{}]
    )
    assert await outputs_of("set", 3.4, _set("string", "={{ $jmespath(null, 'a') }}"), [{}]) == [
        [{"d": None}]
    ]


@pytest.mark.parametrize("validation", ["strict", "loose"])
@pytest.mark.parametrize(("value", "is_kept"), [(20240115, True), (2023, False), (1704182400000, None)])
async def test_a_number_is_a_date_by_its_digits(value: int, is_kept: bool | None, validation: str) -> None:
    """Reads the digits of a number as a date; milliseconds fail the item, as recorded in n8n."""
    row = {
        "leftValue": "={{ $json.v }}",
        "rightValue": "2024-01-01",
        "operator": {"type": "dateTime", "operation": "after"},
    }
    options = {"typeValidation": validation, "version": 2}
    conditions = {"options": options, "combinator": "and", "conditions": [row]}
    outputs = await outputs_of("filter", 2.2, {"conditions": conditions}, [{"v": value}])
    if is_kept is None:
        assert "dateTime" in outputs
    else:
        assert outputs[0] == ([{"v": value}] if is_kept else [])


@pytest.mark.parametrize("kind", ["number", "boolean", "array", "object", "dateTime"])
async def test_exists_judges_the_type_first(kind: str) -> None:
    """Fails the step on a value of another type; a missing value does not exist."""
    operator = {"type": kind, "operation": "exists", "singleValue": True}
    row = {"leftValue": "={{ $json.v }}", "rightValue": "", "operator": operator}
    parameters = {"conditions": {"options": {"typeValidation": "strict"}, "conditions": [row]}}
    assert f"is not a {kind}" in await outputs_of("if", 2.2, parameters, [{"v": "abc"}])
    assert await outputs_of("if", 2.2, parameters, [{"v": None}]) == [[], [{"v": None}]]


async def test_xml_leaves_out_items_whose_failure_is_tolerated() -> None:
    """With `continueRegularOutput` only the items that could be parsed go on."""
    items = [{"data": "<a>"}, {"data": "<b/>"}]
    assert await outputs_of("xml", 1, {}, items, onError="continueRegularOutput") == [[{"b": ""}]]


async def test_the_first_merge_joins_with_the_last_item_of_a_key() -> None:
    """Compares keys as text, takes the last item of a key, and leaves out the second input's key field."""
    workflow = workflow_of("merge", 1, {"mode": "mergeByKey", "propertyName1": "id", "propertyName2": "key"})
    rows = '[{"json": {"key": "1", "v": 1}}, {"json": {"key": 1, "v": 2}}, {"json": {"key": 0, "v": 3}}]'
    code = {"name": "Other", "type": "n8n-nodes-base.code", "typeVersion": 2, "position": [0, 9]}
    workflow["nodes"].append(code | {"parameters": {"jsCode": f"return {rows};"}})
    workflow["connections"]["Start"]["main"][0].append({"node": "Other", "type": "main", "index": 0})
    workflow["connections"]["Other"] = {"main": [[{"node": "Step", "type": "main", "index": 1}]]}
    merged = [{"id": 1, "v": 2}, {"id": 0}, {"id": "1", "v": 2}]
    assert await outputs_in(workflow, [{"id": 1}, {"id": 0}, {"id": "1"}]) == [merged]


def _calling(version: float, mode: str, **settings: Any) -> dict[str, Any]:
    """Returns a workflow whose step calls another one, which fails for each item whose `n` is over 1."""
    within = workflow_of("set", 3.4, _set("number", "={{ $json.n > 1 ? 'x' : $json.n }}"))
    parameters = {"source": "parameter", "mode": mode, "workflowJson": json.dumps(within)}
    return workflow_of("executeWorkflow", version, parameters, **settings)


@pytest.mark.parametrize(
    ("version", "mode", "on_error", "sizes"),
    [
        (1.3, "each", "continueErrorOutput", [1, 2]),
        (1.3, "each", "continueRegularOutput", [3]),
        (1.2, "each", "continueRegularOutput", [1]),
        (1.4, "once", "continueRegularOutput", [1]),
        (1.4, "once", "continueErrorOutput", [0, 1]),
    ],
)
async def test_a_failed_call_of_a_workflow_is_tolerated_by_version(
    version: float, mode: str, on_error: str, sizes: list[int]
) -> None:
    """Since version 1.3 each failed item goes to the error output or stays among the items."""
    workflow = _calling(version, mode, onError=on_error)
    outputs = await outputs_in(workflow, [{"n": 1}, {"n": 2}, {"n": 3}])
    assert [len(output) for output in outputs] == sizes


async def test_a_step_with_an_unconnected_input_runs_last() -> None:
    """Counts inputs up to the last connected one, so a merge without its first input runs at the end."""
    workflow = workflow_of("merge", 3, {})
    workflow["connections"]["Start"]["main"][0][0]["index"] = 1
    assert await outputs_in(workflow, [{"n": 1}]) == [[{"n": 1}]]


async def test_arrivals_at_a_merge_meet_in_their_order() -> None:
    """Runs the merge once for each pair of arrivals, in their order."""
    workflow = workflow_of("merge", 3, {})
    for number, index in ((1, 0), (2, 1)):
        name = f"Via {number}"
        via = {"name": name, "type": "n8n-nodes-base.noOp", "typeVersion": 1, "position": [0, number]}
        workflow["nodes"].append(via | {"parameters": {}})
        workflow["connections"]["Start"]["main"][0].append({"node": name, "type": "main", "index": 0})
        workflow["connections"][name] = {"main": [[{"node": "Step", "type": "main", "index": index}]]}
    assert await outputs_in(workflow, [{"n": 1}]) == [[{"n": 1}, {"n": 1}]]
    assert await outputs_in(workflow, [{"n": 1}], run=1) == [[{"n": 1}]]


def test_settings_for_trying_a_workflow_are_notes_or_one_error() -> None:
    """Accepts the editor's repeated items, and reports a wait for a call as one error."""
    assert errors_of("set", 3.4, {"duplicateItem": True, "duplicateCount": 3, "duplicateWarning": ""}) == []
    waiting = {"resume": "webhook", "httpMethod": "POST", "responseMode": "onReceived", "options": {}}
    assert len(errors_of("wait", 1.1, waiting)) == 1


@pytest.mark.parametrize(
    ("on_error", "outputs"),
    [
        (
            "continueErrorOutput",
            [
                [{"n": 3, "error": "c", "more": 1}],
                [{"n": 1, "error": "a"}, {"n": 2, "error": "b", "message": "m"}],
            ],
        ),
        (
            "continueRegularOutput",
            [[{"error": "a"}, {"error": "b", "message": "m"}, {"n": 3, "error": "c", "more": 1}]],
        ),
    ],
)
async def test_an_item_that_is_only_an_error_goes_to_the_error_output(
    on_error: str, outputs: list[list[Any]]
) -> None:
    """Moves items whose only fields are `error`, or that and `message`, beside the fields they came from."""
    items = [{"n": 1}, {"n": 2}, {"n": 3}]
    returned_items = '[{ error: "a" }, { error: "b", message: "m" }, { ...$json, error: "c", more: 1 }]'
    script = {"mode": "runOnceForEachItem", "jsCode": f"return {{ json: {returned_items}[$itemIndex] }}"}
    assert await outputs_of("code", 2, script, items, onError=on_error) == outputs
    filled = {"assignments": {"assignments": [{"name": "error", "type": "string", "value": ""}]}}
    [first, *_] = await outputs_of("set", 3.4, filled, [{}], onError=on_error)
    assert first == [{"error": ""}]
