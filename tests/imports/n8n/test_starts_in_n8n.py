"""Tests what n8n's triggers pass on and a run here has in another form, or not at all.

See docs/design/imports-verdict.md#missing-values.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.imports.n8n.start_fields import start_form
from tests.imports.exports import code, connections_of, node


def started_by(trigger: str, *steps: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a workflow that begins with a trigger of this type."""
    nodes = [node("Start", trigger, 1, {}), *steps]
    return {"name": "Begun", "nodes": nodes, "connections": connections_of(nodes), "settings": {}}


def message_step(text: str) -> dict[str, Any]:
    """Returns a step that sets the value of one expression."""
    return node("Use", "set", 1, {"values": {"string": [{"name": "text", "value": f"={{{{ {text} }}}}"}]}})


EXTRACT = node("Read", "extractFromFile", 1, {"operation": "csv"})


@pytest.mark.parametrize(
    ("export", "step"),
    [
        (started_by("manualTrigger", EXTRACT), "Read"),
        (started_by("webhook", EXTRACT), None),
        (started_by("formTrigger", node("Pass", "noOp", 1, {}), EXTRACT), "Read"),
        (started_by("manualTrigger", node("Table", "spreadsheetFile", 2, {})), "Table"),
        (started_by("manualTrigger", node("Table", "spreadsheetFile", 2, {"operation": "toFile"})), None),
        (started_by("manualTrigger", node("Move", "moveBinaryData", 1, {})), "Move"),
        (started_by("webhook", node("Move", "moveBinaryData", 1, {})), None),
        (started_by("webhook", node("Move", "moveBinaryData", 1, {"mode": "jsonToBinary"})), None),
        (started_by("manualTrigger", message_step("$binary.data.fileName")), "Use"),
        (started_by("webhook", message_step("$binary.data.fileName")), None),
        (started_by("webhook", message_step("$json.body.fileName")), None),
        (started_by("webhook", node("File", "convertToFile", 1.1, {"operation": "csv"}), EXTRACT), None),
        (started_by("webhook", code("Make", "return items"), EXTRACT), None),
        (started_by("executeWorkflowTrigger", EXTRACT), None),
    ],
)
def test_a_step_whose_file_the_start_cannot_bring_is_an_error(
    export: Mapping[str, Any], step: str | None
) -> None:
    """Reports an error where a run would have to begin with a file that its trigger does not bring."""
    findings = [
        (finding.step, str(finding.level))
        for finding in read_value(export).findings
        if finding.code == "binary"
    ]
    assert findings == ([(step, "error")] if step is not None else [])


def test_a_run_begins_at_the_output_of_a_webhook_that_leads_to_most_steps() -> None:
    """Begins at one output of a webhook that has one for each method, and says so if others lead on.

    See docs/design/imports-verdict.md#start.
    """
    trigger = node("Start", "webhook", 2, {"multipleMethods": True, "httpMethod": ["GET", "PUT"]})
    steps = [node(name, "noOp", 1, {}) for name in ("Verify", "Store", "Tell")]
    targets = {name: [{"node": name, "type": "main", "index": 0}] for name in ("Verify", "Store", "Tell")}
    connections: dict[str, Any] = {"Store": {"main": [targets["Tell"]]}}
    for targets_of_get, phrases in (([], []), (targets["Verify"], ["output PUT"])):
        connections["Start"] = {"main": [targets_of_get, targets["Store"]]}
        reading = read_value(
            {"name": "Two", "nodes": [trigger, *steps], "connections": connections, "settings": {}}
        )
        assert [step.name for step in reading.plan.running()] == ["Store", "Tell"]
        messages = [finding.message for finding in reading.findings if "output for each" in finding.message]
        assert len(messages) == len(phrases)
        assert all(phrase in message for phrase, message in zip(phrases, messages, strict=True))
        assert all(
            message.endswith("Import it again with the other output connected.") for message in messages
        )


@pytest.mark.parametrize(
    ("trigger", "parameters"),
    [
        ("manualTrigger", {}),
        ("webhook", {"httpMethod": "POST"}),
        ("webhook", {"httpMethod": ["GET", "POST"]}),
        ("webhook", {"multipleMethods": True, "httpMethod": "POST"}),
    ],
)
def test_a_connection_from_a_missing_output_of_a_trigger_is_omitted(
    trigger: str, parameters: Mapping[str, Any]
) -> None:
    """Begins at the only output of a trigger, and warns of connections from others.

    See docs/design/imports-verdict.md#start.
    """
    nodes = [node("Start", trigger, 2, parameters), *(node(name, "noOp", 1, {}) for name in "ABC")]
    to_a, to_b, to_c = ([{"node": name, "type": "main", "index": 0}] for name in "ABC")
    for outputs, running in (([to_a, to_b], ["A"]), ([[], to_b], [])):
        connections = {"Start": {"main": outputs}, "B": {"main": [to_c]}}
        reading = read_value({"name": "Two", "nodes": nodes, "connections": connections, "settings": {}})
        assert [step.name for step in reading.plan.running()] == running
        messages = [finding.message for finding in reading.findings if finding.step == "Start"]
        assert any("output 2 is left out" in message for message in messages)
        assert not any("output for each" in message for message in messages)


def test_a_webhook_that_responds_with_the_last_step_is_reported() -> None:
    """Says that no client receives the response of a webhook that responds after the last step."""
    for mode, is_told in (("lastNode", True), ("onReceived", False)):
        export = started_by("webhook", node("Pass", "noOp", 1, {}))
        export["nodes"][0]["parameters"] = {"responseMode": mode}
        [finding] = [finding for finding in read_value(export).findings if finding.code == "foreign_trigger"]
        assert ("nobody receives that answer" in finding.message) is is_told


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("$json.body.name", [("name",)]),
        ("$json.query.name", [("query", "name")]),
        ("$json.headers['x-shop']", [("headers", "x-shop")]),
        ("$('Start').item.json.params.id + $json.body.a", [("params", "id"), ("a",)]),
        ("$json.webhookUrl + $json.jwtPayload.sub", [("webhookUrl",), ("jwtPayload", "sub")]),
        ("$json.executionMode", []),
    ],
)
def test_values_read_from_a_webhook_call_become_start_fields(text: str, paths: list[tuple[str, ...]]) -> None:
    """Asks for fields of the body by their names, and for others under the part of the call that has them."""
    form = start_form(read_value(started_by("webhook", message_step(text))).plan)
    assert form is not None
    assert sorted(field.path for field in form.fields) == sorted(paths)
