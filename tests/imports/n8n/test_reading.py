"""Tests reading: any node gives a step and a finding, and no file makes reading fail.

See docs/design/imports-n8n.md#export-file and docs/design/imports-n8n.md#triggers-and-schedules.
"""

import json
import time
from typing import Any

import pytest

from steward.imports.content import Unreadable
from steward.imports.n8n.read import read_value
from steward.imports.n8n.schedules import read_schedule
from steward.imports.storage import shown_trigger
from steward.steps.n8n.nodes.graphql import only_queries
from tests.imports.exports import calling, chain, code, drafted, listed, node, tell_step


def started_by(kind: str, parameters: dict[str, Any], version: float = 1) -> Any:
    """Returns the start that a workflow with this trigger proposes."""
    start = node("Begin", kind, version, parameters)
    export = {"nodes": [start, node("Then", "noOp", 1, {})], "connections": {}}
    return shown_trigger(read_value(export).plan)


def test_a_daily_schedule_is_proposed() -> None:
    """Proposes a daily schedule at the time of the trigger.

    See docs/design/imports-n8n.md#triggers-and-schedules.
    """
    rule = {"rule": {"interval": [{"field": "days", "triggerAtHour": 7, "triggerAtMinute": 30}]}}
    displayed = started_by("scheduleTrigger", rule, 1.2)
    assert displayed["schedule"]["cadence"] == "daily"
    assert displayed["schedule"]["run_at"] == "07:30"


def test_a_workflow_started_by_hand_proposes_nothing() -> None:
    """Proposes nothing for a manual trigger. See docs/design/api/imports.md#findings."""
    assert started_by("manualTrigger", {}) is None


def test_an_unknown_node_is_a_step_and_an_error() -> None:
    """Reads an unknown node as an unsupported step with a `node_type` error.

    See docs/design/imports-n8n.md#export-file.
    """
    read = read_value(chain(code("One", "return []"), node("Odd", "fluxCapacitor", 9, {"a": [1]})))
    assert [step.operation for step in read.plan.steps] == ["code", "unsupported"]
    [finding] = [finding for finding in read.findings if finding.level == "error"]
    assert (finding.step, finding.code) == ("Odd", "node_type")


def test_equal_and_long_names_are_renamed_with_a_finding() -> None:
    """Shortens a name to 200 characters and reports it as `renamed_step`.

    See docs/design/imports-n8n.md#nodes.
    """
    read = read_value(
        {"nodes": [node("A" * 300, "noOp", 1, {}), node("Go", "manualTrigger", 1, {})], "connections": {}}
    )
    assert len(read.plan.steps[0].name) <= 200
    assert [finding.code for finding in read.findings if finding.code == "renamed_step"] == ["renamed_step"]


GET = node("Fetch", "httpRequest", 4.2, {"url": "https://a.example", "options": {}})
POST = node("Post", "httpRequest", 4.2, {"url": "https://a.example", "method": "POST", "options": {}})
PASS = node("Pass", "noOp", 1, {})
REST = node("Rest", "wait", 1.1, {"resume": "timeInterval", "amount": 1, "unit": "hours"})


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ([PASS], "decide"),
        ([GET, PASS], "read"),
        ([listed(), drafted()], "change"),
        ([GET, POST], "send"),
        ([REST], None),
        ([POST, PASS], None),
        ([listed(), tell_step()], None),
        ([tell_step(), listed()], None),
    ],
)
def test_a_called_workflow_has_the_kind_of_its_steps(steps: list[dict[str, Any]], kind: str | None) -> None:
    """Gives the calling step the kind of its inner steps.

    Refuses a called workflow that waits, goes on after a send, or needs two connections.
    See docs/design/imports-n8n.md#node-types.
    """
    read = read_value(chain(calling(steps)))
    refused = [finding.step for finding in read.findings if finding.code == "sub_workflow_missing"]
    assert refused == ([] if kind else ["Call"])
    assert kind is None or str(read.plan.steps[0].kind) == kind
    around = read_value(chain(calling([calling(steps)])))
    assert kind is None or str(around.plan.steps[0].kind) == kind


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, {"nodes": 1}, {"nodes": [3]}])
def test_content_that_is_not_a_workflow_is_refused(value: Any) -> None:
    """Raises Unreadable with a message in plain words. See docs/design/imports-n8n.md#export-file."""
    with pytest.raises(Unreadable) as refused:
        read_value(value)
    assert refused.value.message.endswith(".")


def test_the_longest_chain_and_cycle_are_read_in_time() -> None:
    """Reads a chain of 999 steps, and the same chain closed to a circle, within 5 s of CPU time.

    See docs/design/imports-n8n.md#safety.
    """
    export = chain(*(node(f"N{number}", "noOp", 1, {}) for number in range(1000 - 1)))
    began = time.process_time()
    assert len(read_value(export).plan.steps) == 999
    export["connections"]["N998"] = {"main": [[{"node": "N0", "type": "main", "index": 0}]]}
    steps = [finding.step for finding in read_value(export).findings if finding.code == "cyclic"]
    assert steps == ["N0"]
    assert time.process_time() - began < 5


def test_no_expression_decides_whether_a_sheet_is_written() -> None:
    """Refuses a sheet operation that an expression chooses, because data could turn a read into a write.

    See docs/design/imports-n8n.md#node-types and docs/design/security.md#imported-workflows.
    """
    request_body = {"operation": "={{ 'append' }}", "documentId": {"value": "x"}, "sheetName": {"value": "y"}}
    read = read_value(chain(node("Rows", "googleSheets", 4.5, request_body)))
    assert [finding.step for finding in read.findings if finding.level == "error"] == ["Rows"]
    fixed = read_value(chain(node("Rows", "googleSheets", 4.5, request_body | {"operation": "append"})))
    assert [str(step.kind) for step in fixed.plan.steps] == ["send"]


@pytest.mark.parametrize(
    ("document", "asks"),
    [
        ('query { shop(word: "mutation") { name } } # mutation', True),
        ('{ shop(text: """a \\""" mutation """) { name } }', True),
        ("query q { a }\n# a note\rmutation m { remove }", False),
        ('query q { a(x: """\\"""" # """) } mutation m { remove }', False),
        ('query q { a(x: "\\"") } mutation m { remove }', False),
    ],
)
def test_a_mutation_cannot_hide_in_a_document(document: str, asks: bool) -> None:
    """Finds mutations outside strings and comments of a GraphQL document.

    See docs/design/imports-n8n.md#http-steps.
    """
    assert only_queries(document) is asks


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ("=query q { a(id: {{ $json.id }}) { name } }", "read"),
        ('=# of a day\n{ orders(query: "created_at:{{ $now }}") { id } }', "read"),
        ("={{ $json.query }}", "send"),
        ("=queryAll {{ $json.query }}", "send"),
        ("=mutation { a(id: {{ $json.id }}) }", "send"),
        ("=query q { a } mutation m { b } {{ $json.more }}", "send"),
        ("=fragment f on A { b } {{ $json.query }}", "send"),
    ],
)
def test_a_document_with_expressions_is_a_query_only_by_its_beginning(document: str, kind: str) -> None:
    """Treats a document with expressions as a read only if it begins with a query and has no mutation.

    Any other is a send, which requires approval.

    See docs/design/imports-n8n.md#http-steps.
    """
    read = read_value(chain(node("Ask", "graphql", 1, {"endpoint": "https://a.example/", "query": document})))
    assert [str(step.kind) for step in read.plan.steps if step.name == "Ask"] == [kind]
    assert not [problem for problem in read.findings if problem.level == "error"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"jsonHeaders": json.dumps({"Authorization": "Token s3cr3t-value"})},
        {"jsonHeaders": '={"X-API-Key": "s3cr3t-value", "n": {{ $json.n }}}'},
        {"jsonHeaders": '{"token": "s3cr3t-value", "half": '},
        {
            "workflowJson": json.dumps(
                chain(node("In", "x", 1, {"p": [{"name": "token", "value": "s3cr3t-value"}]}))
            )
        },
        {"jsCode": "return fetch({'Authorization': 'Token s3cr3t-value'})"},
        {"jsCode": "return fetch({headers: {authorization: 'Token s3cr3t-value'}})"},
        {"jsCode": 'const apiKey = "s3cr3t-value";\nreturn []'},
        {"jsCode": "h['X-Api-Key'] = `s3cr3t-value`; h.token = 's3cr3t-value'"},
        {"url": "=https://a.example/?api_key={{ 's3cr3t-value' }}"},
        {"headerParameters": {"parameters": [{"name": "X-Api-Key", "value": "={{ 's3cr3t' + '-value' }}"}]}},
        {
            "headerParameters": {
                "parameters": [{"name": "Authorization", "value": "=Key {{ 's3cr3t-value' }}"}]
            }
        },
    ],
)
def test_no_key_survives_in_json_written_as_text(parameters: dict[str, Any]) -> None:
    """Removes secrets from JSON that is written as text, in the file, the plan and the findings.

    See docs/design/imports-n8n.md#safety.
    """
    read = read_value(chain(node("Ask", "httpRequest", 4.2, parameters)))
    assert "s3cr3t" not in json.dumps(read.cleaned) + repr(read.plan) + repr(read.findings)
    assert ("Ask", "secret_removed") in [(finding.step, finding.code) for finding in read.findings]


def test_a_text_of_many_blanks_is_read_in_time() -> None:
    """Reads a text with 200,000 blanks within 10 s of CPU time. See docs/design/imports-n8n.md#safety."""
    began = time.process_time()
    read_value(chain(node("Ask", "httpRequest", 4.2, {"jsonBody": '"token"' + " " * 200_000})))
    for text in (" " * 40_000 + "x", "=" + " " * 40_000 + "5", "5" + " " * 40_000 + "x"):
        read_schedule("interval", {"interval": text})
    assert time.process_time() - began < 10


def test_json_without_keys_stays_as_it_was_written() -> None:
    """Leaves a body without secrets unchanged, to the byte. See docs/design/imports-n8n.md#safety."""
    body = '{ "name": "token of thanks",  "count": 1.0, "token": "{{ $json.t }}" }'
    body += "// if (token === 'expired') token = `${a}`; const key = 'name', { secret } = 'x' in y"
    read = read_value(chain(node("Ask", "httpRequest", 4.2, {"jsonBody": "=" + body})))
    assert read.cleaned["nodes"][1]["parameters"]["jsonBody"] == "=" + body
