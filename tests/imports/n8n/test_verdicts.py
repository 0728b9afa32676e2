"""Tests the verdict on an n8n export: the steps that a run reaches, and what blocks it.

See docs/design/imports-verdict.md#verdict.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.imports.storage import shown_trigger
from tests.imports.exports import BEGIN, chain, code, node
from tests.imports.n8n.one_step import errors_of
from tests.service import Service

PATH = "/v1/automations/imports"


def passing(name: str, **more: Any) -> dict[str, Any]:
    """Returns a step that passes its items on."""
    return node(name, "noOp", 1, {}, **more)


def connected(nodes: Sequence[Mapping[str, Any]], lines: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Returns an export with a connection from each name to the names after it."""
    connections = {
        source: {"main": [[{"node": target, "type": "main", "index": 0} for target in targets]]}
        for source, targets in lines.items()
    }
    return {
        "name": "W",
        "nodes": list(nodes),
        "connections": connections,
        "settings": {"executionOrder": "v1"},
    }


async def verdict(service: Service, export: Mapping[str, Any]) -> dict[str, Any]:
    """Stores the export over the API, checks that its preview says the same, and returns the import."""
    member = await service.token("member")
    response = await member.post(PATH, {"source": "workflow_tool", "name": "W", "content": export})
    assert response.status == 201, response.body
    record = response.data["import"]
    preview = await member.post(f"{PATH}/preview", {"source": "workflow_tool", "content": export})
    assert preview.data["reach"] == record["reach"]
    assert preview.data["issues"] == record["issues"]
    return dict(record)


def errors(record: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """Returns the step and code of each error."""
    return [(issue["step"], issue["code"]) for issue in record["issues"] if issue["level"] == "error"]


HOOK = node("Hook", "webhook", 2, {})
MORNING = node(
    "Every morning", "scheduleTrigger", 1.2, {"rule": {"interval": [{"field": "days", "triggerAtHour": 8}]}}
)


async def test_the_reach_counts_the_steps_behind_the_proposed_start(service: Service) -> None:
    """Proposes the trigger that reaches most steps; steps after other triggers are named, not counted."""
    nodes = [BEGIN, MORNING, passing("Test"), passing("A"), passing("B"), passing("Off", disabled=True)]
    record = await verdict(
        service, connected(nodes, {"Begin": ["Test"], "Every morning": ["A"], "A": ["B", "Off"]})
    )
    assert record["supported"] is True
    assert record["reach"] == {"runs": 2, "steps": 4, "start": "Every morning"}
    assert record["trigger"]["kind"] == "schedule"
    [unreached] = [issue for issue in record["issues"] if "“Test” does not run" in issue["message"]]
    assert (unreached["level"], unreached["step"]) == ("warning", None)


async def test_an_error_in_an_unreached_step_is_a_warning(service: Service) -> None:
    """Reports an unknown step as a warning where no run reaches it. It never counts as a step that runs."""
    nodes = [BEGIN, HOOK, passing("A"), passing("B"), node("Odd", "fluxCapacitor", 1, {})]
    aside = await verdict(service, connected(nodes, {"Begin": ["A"], "A": ["B"], "Hook": ["Odd"]}))
    assert (aside["supported"], aside["reach"]["runs"]) == (True, 2)
    assert [issue["level"] for issue in aside["issues"] if issue["step"] == "Odd"] == ["warning"]
    reached = await verdict(service, connected(nodes, {"Begin": ["A"], "A": ["B"], "B": ["Odd"]}))
    assert (reached["supported"], reached["reach"]["runs"]) == (False, 2)
    assert errors(reached) == [("Odd", "node_type")]


NOTHING_RUNS: dict[str, dict[str, Any]] = {
    "a lone trigger beside a step": connected([BEGIN, passing("A")], {}),
    "only a disabled step follows": connected(
        [BEGIN, passing("A", disabled=True), passing("B")], {"Begin": ["A"]}
    ),
    "tools of an MCP trigger": {
        "nodes": [
            {**node("Serve", "x", 1, {}), "type": "@n8n/n8n-nodes-langchain.mcpTrigger"},
            node("Find", "googleSheetsTool", 4.5, {}),
        ],
        "connections": {"Find": {"ai_tool": [[{"node": "Serve", "type": "ai_tool", "index": 0}]]}},
    },
}


@pytest.mark.parametrize("export", NOTHING_RUNS.values(), ids=NOTHING_RUNS.keys())
async def test_a_workflow_that_would_do_nothing_is_not_supported(
    service: Service, export: dict[str, Any]
) -> None:
    """Keeps the import, so that its report can be read, but refuses to create an automation of it."""
    record = await verdict(service, export)
    assert (record["supported"], record["reach"]["runs"]) == (False, 0)
    assert errors(record) == [(None, "nothing_runs")]
    member = await service.token("member")
    refused = await member.post(
        f"{PATH}/{record['id']}/automations", {"name": "A", "schedule": {"cadence": "manual"}}
    )
    assert (refused.status, list(refused.errors)) == (422, ["import_id"])


def test_among_equal_triggers_the_one_that_steps_refer_to_is_proposed() -> None:
    """Prefers the trigger that steps refer to; otherwise a schedule comes before the others."""
    asks = code("Ask", "return [{json: {id: $('Hook').first().json.id}}]")
    nodes = [BEGIN, MORNING, HOOK, asks]
    lines = {"Begin": ["Ask"], "Every morning": ["Ask"], "Hook": ["Ask"]}
    entry = read_value(connected(nodes, lines)).plan.entry()
    assert entry is not None
    assert entry.name == "Hook"
    silent = read_value(connected([*nodes[:3], passing("Ask")], lines)).plan.entry()
    assert silent is not None
    assert silent.name == "Every morning"


@pytest.mark.parametrize("triggers", [[BEGIN, HOOK], [HOOK, BEGIN]])
def test_a_manual_start_is_proposed_only_after_all_others(triggers: list[dict[str, Any]]) -> None:
    """Proposes the start that the workflow has in n8n, and says so, in any order of the file."""
    read = read_value(connected([*triggers, passing("A")], {"Begin": ["A"], "Hook": ["A"]}))
    assert [trigger.name for trigger in read.plan.triggers] == ["Hook", "Begin"]
    assert ("Hook", "foreign_trigger") in [(finding.step, finding.code) for finding in read.findings]


async def test_a_workflow_without_a_trigger_runs_by_hand_from_its_first_step(service: Service) -> None:
    """Begins at the step that no other leads to and from which most steps are reached."""
    nodes = [passing("Alone"), passing("A"), passing("B"), {**BEGIN, "disabled": True}]
    record = await verdict(service, connected(nodes, {"A": ["B"]}))
    assert (record["supported"], record["trigger"], record["reach"]["runs"]) == (True, None, 2)
    [note] = [issue for issue in record["issues"] if issue["code"] == "foreign_trigger"]
    assert (note["step"], note["code"]) == (None, "foreign_trigger")
    assert "begins at “A”" in note["message"]
    assert record["plan"]["steps"][0]["name"] == "A"
    assert record["plan"]["edges"] == [{"from": "A", "port": "out:0", "to": "B"}]


def test_a_mailbox_trigger_is_replaced_by_the_automations_start() -> None:
    """Replaces a mailbox trigger by the automation's own start."""
    read = read_value(connected([node("Mail", "emailReadImap", 2, {}), passing("A")], {"Mail": ["A"]}))
    assert [step.name for step in read.plan.steps] == ["A"]
    assert [(finding.step, finding.code) for finding in read.findings] == [("Mail", "foreign_trigger")]


@pytest.mark.parametrize(
    ("topic", "kind"), [("orders/paid", "event"), ("carts/update", "manual"), ("app/uninstalled", "manual")]
)
def test_an_event_that_stores_do_not_send_is_not_proposed(topic: str, kind: str) -> None:
    """Replaces a Shopify trigger whose topic a connected store does not send, with a finding."""
    trigger = node("Told", "shopifyTrigger", 1, {"topic": topic})
    read = read_value(connected([trigger, passing("A")], {"Told": ["A"]}))
    assert [proposed.kind for proposed in read.plan.triggers] == [kind]
    codes = [finding.code for finding in read.findings]
    assert codes == ([] if kind == "event" else ["foreign_trigger"])


HOURS = "hoursInterval"
CRON = {"field": "cronExpression"}
WORKDAYS = {"cadence": "weekdays", "run_at": "09:00", "days": [1, 2, 3, 4, 5]}


@pytest.mark.parametrize(
    ("rule", "schedule", "differs"),
    [
        ({"field": "hours", HOURS: 24, "triggerAtMinute": 5}, {"cadence": "daily", "run_at": "00:05"}, False),
        ({"field": "hours", HOURS: 12}, {"cadence": "every_6_hours"}, True),
        ({"field": "hours", HOURS: 6}, {"cadence": "every_6_hours"}, False),
        ({"field": "minutes", "minutesInterval": 60}, {"cadence": "hourly"}, False),
        ({"field": "minutes", "minutesInterval": 15}, {"cadence": "manual"}, True),
        (
            {"field": "days", "daysInterval": 7, "triggerAtHour": 9},
            {"cadence": "weekly", "run_at": "09:00", "day_of_week": 1},
            True,
        ),
        ({"field": "days", "daysInterval": 3}, {"cadence": "manual"}, True),
        ({**CRON, "expression": "30 */24 * * *"}, {"cadence": "daily", "run_at": "00:30"}, False),
        ({**CRON, "expression": "0 */12 * * *"}, {"cadence": "every_6_hours"}, True),
        ({**CRON, "expression": "0 0,12 * * *"}, {"cadence": "every_6_hours"}, True),
        ({**CRON, "expression": "0 9 * * 1-5"}, WORKDAYS, False),
        ({**CRON, "expression": "=0 0 9 ? * MON-FRI"}, WORKDAYS, False),
        ({**CRON, "expression": "0 9 */1 1-12 *"}, {"cadence": "daily", "run_at": "09:00"}, False),
        ({**CRON, "expression": "@weekdays"}, {**WORKDAYS, "run_at": "00:00"}, False),
        ({**CRON, "expression": "0 9 1/* * *"}, {"cadence": "manual"}, True),
        ({"field": "days", "triggerAtHour": "9"}, {"cadence": "daily", "run_at": "09:00"}, False),
        ({"field": "days", "triggerAtHour": "={{ 9 }}"}, {"cadence": "daily", "run_at": "09:00"}, False),
    ],
)  # fmt: skip
def test_a_schedule_is_proposed_as_the_equal_or_nearest_cadence(
    rule: dict[str, Any], schedule: dict[str, Any], differs: bool
) -> None:
    """Proposes the cadence that equals the schedule, or the nearest one with a warning."""
    trigger = node("When", "scheduleTrigger", 1.2, {"rule": {"interval": [rule]}})
    read = read_value(connected([trigger, passing("A")], {"When": ["A"]}))
    proposed = shown_trigger(read.plan)
    assert proposed is not None
    assert {name: value for name, value in proposed["schedule"].items() if value is not None} == schedule
    assert [finding.code for finding in read.findings] == ["schedule_not_representable"] * differs


@pytest.mark.parametrize(
    ("kind", "parameters", "cadence"),
    [
        ("interval", {"unit": "hours", "interval": 24}, "daily"),
        ("interval", {"unit": "hours", "interval": 12}, "every_6_hours"),
        ("interval", {"unit": "days", "interval": 7}, "weekly"),
        ("cron", {"triggerTimes": {"item": [{"mode": "everyX", "value": 24, "unit": "hours"}]}}, "daily"),
    ],
)
def test_an_older_schedule_is_proposed_as_a_cadence(
    kind: str, parameters: dict[str, Any], cadence: str
) -> None:
    """Warns that an interval counted from when it was switched on has no time of day."""
    read = read_value(connected([node("When", kind, 1, parameters), passing("A")], {"When": ["A"]}))
    proposed = shown_trigger(read.plan)
    assert proposed is not None
    assert proposed["schedule"]["cadence"] == cadence
    assert [finding.code for finding in read.findings] == ["schedule_not_representable"]


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("scheduleTrigger", {"rule": {"interval": [CRON]}}),
        ("scheduleTrigger", {"rule": {"interval": []}}),
        ("scheduleTrigger", {"rule": {"interval": [{**CRON, "expression": " "}]}}),
        ("cron", {}),
        ("cron", {"triggerTimes": {"item": [{"mode": "custom"}]}}),
    ],
)
def test_an_empty_schedule_proposes_nothing(kind: str, parameters: dict[str, Any]) -> None:
    """Proposes no schedule and says that the trigger never starts."""
    read = read_value(connected([node("When", kind, 1, parameters), passing("A")], {"When": ["A"]}))
    assert shown_trigger(read.plan) is None
    [finding] = read.findings
    assert finding.code == "schedule_not_representable"
    assert "never starts" in finding.message


def test_an_ai_step_has_one_finding() -> None:
    """Reports one `ai_node` finding for each AI step and tool, and otherwise only removed secrets."""
    agent = {**node("Agent", "x", 1, {}), "type": "@n8n/n8n-nodes-langchain.agent"}
    model = {**node("Model", "x", 1, {}), "type": "@n8n/n8n-nodes-langchain.lmChatOpenAi"}
    export = connected([BEGIN, agent, model, node("Tool", "code", 99, {})], {"Begin": ["Agent"]})
    for name, kind in (("Model", "ai_languageModel"), ("Tool", "ai_tool")):
        export["connections"][name] = {kind: [[{"node": "Agent", "type": kind, "index": 0}]]}
    finding_codes = [(finding.step, finding.code) for finding in read_value(export).findings if finding.step]
    assert sorted(finding_codes) == [("Agent", "ai_node"), ("Model", "ai_node"), ("Tool", "ai_node")]
    model["parameters"] = {"apiKey": "sk-proj-Kq9x7Lm2Zt5Vb8Nc3Hd6Jf1Gs4Wp0Ry"}
    findings = [(finding.step, finding.code, finding.level) for finding in read_value(export).findings]
    assert ("Model", "secret_removed", "note") in findings


def test_reads_that_send_data_have_one_finding_for_each_workflow() -> None:
    """Names the first three reading steps and the number of the others.

    Steps that no run reaches do not count.
    """
    url = {"url": "=https://a.example/?id={{ $json.id }}", "options": {}}
    reads = [node(f"Read {number}", "httpRequest", 4.2, url) for number in range(6)]
    export = chain(*reads)
    del export["connections"]["Read 4"]
    findings = [finding for finding in read_value(export).findings if "test run" in finding.message]
    assert [finding.step for finding in findings] == [None]
    assert "“Read 0”, “Read 1”, “Read 2” and 2 more steps send data" in findings[0].message


@pytest.mark.parametrize(
    ("lines", "is_error"),
    [
        ({"Begin": ["Reader"], "Reader": ["Later"]}, True),
        ({"Begin": ["Later"], "Later": ["Reader"]}, False),
        ({"Begin": ["Reader", "Later"]}, False),
        ({"Begin": ["Reader"], "Reader": ["Later"], "Later": ["Reader"]}, False),
    ],
)
async def test_a_step_cannot_read_one_that_only_runs_after_it(
    service: Service, lines: dict[str, list[str]], *, is_error: bool
) -> None:
    """Reports an error that names both steps, unless a loop leads back.

    See docs/design/imports-verdict.md#missing-values.
    """
    reader = code("Reader", "return [{json: {v: $('Later').first().json.v}}];")
    record = await verdict(service, connected([BEGIN, reader, passing("Later")], lines))
    assert errors(record) == ([("Reader", "expression_feature")] if is_error else [])


_ROW = {"leftValue": "a", "rightValue": "a", "operator": {"type": "string", "operation": "equals"}}


@pytest.mark.parametrize(
    ("kind", "version", "conditions", "is_read"),
    [
        ("if", 2, {"boolean": [{"value1": True, "value2": True}]}, False),
        ("if", 1, {"boolean": [{"value1": True, "value2": True}]}, True),
        ("if", 1, {"conditions": [_ROW], "combinator": "and", "options": {}}, False),
        ("filter", 2.2, {"conditions": [_ROW]}, False),
        ("filter", 2.2, {"conditions": [_ROW], "combinator": "and", "options": {}}, True),
        ("filter", 2.2, {"conditions": [_ROW], "combinator": "any", "options": {}}, False),
        ("switch", 3, {"conditions": [_ROW], "combinator": "any", "options": {}}, False),
        ("switch", 3, {"conditions": [_ROW], "combinator": "or", "options": {}}, True),
        ("if", 2, {}, True),
    ],
)
def test_conditions_in_another_form_than_n8n_writes_are_an_error(
    kind: str, version: float, conditions: dict[str, Any], *, is_read: bool
) -> None:
    """Reports an error for conditions in a form that n8n never writes.

    See docs/design/imports-n8n.md#conditions.
    """
    parameters: dict[str, Any] = {"conditions": conditions}
    if kind == "switch":
        parameters = {"rules": {"values": [parameters]}, "options": {}}
    findings = read_value(chain(node("Which", kind, version, parameters))).findings
    assert len([finding for finding in findings if finding.level == "error"]) == (0 if is_read else 1)


SENT = {"url": "https://a.example/", "method": "POST", "sendBody": True}


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "words"),
    [
        ("merge", 3, {"mode": "combine", "combinationMode": "mergeByPosition"}, "names none, so it fails"),
        ("merge", 3, {"mode": "combine", "combineBy": "combineByPosition"}, None),
        ("merge", 2.1, {"mode": "combine", "mergeByFields": {"values": [{"field1": "a"}]}}, None),
        ("merge", 3.2, {"mode": "combine", "fieldsToMatchString": "a"}, None),
        ("httpRequest", 4.2, {"url": "{{ $env.BASE }}"}, "no complete address"),
        ("httpRequest", 4.2, {"url": "=shop.example/{{ $json.a }}"}, "no complete address"),
        ("httpRequest", 4.2, {"url": "https://a.example/", "options": {"timeout": 60000}}, "after 20 s."),
        ("httpRequest", 4.2, {"url": "https://a.example/", "options": {"timeout": 5000}}, None),
        ("httpRequest", 4.2, {**SENT, "specifyBody": "string", "body": "a=1"}, "offers only for forms"),
        ("httpRequest", 4.2, {**SENT, "jsonBody": "{}"}, "sends none of it"),
        ("httpRequest", 4.2, {**SENT, "specifyBody": "json", "body": "{}"}, "sends none of it"),
        ("httpRequest", 4.2, {**SENT, "specifyBody": "json", "jsonBody": "{}"}, None),
        ("httpRequest", 4.2, {**SENT, "contentType": "raw", "body": "x"}, None),
        ("httpRequest", 4.2, SENT, None),
        ("switch", 3, {"rules": {"rules": [{"value2": "x"}]}}, "It has no rule."),
        ("executeWorkflow", 1, {"workflowId": 12}, "It calls another workflow."),
    ],
)  # fmt: skip
def test_settings_that_make_a_step_fail_or_wait_are_reported(
    kind: str, version: float, parameters: dict[str, Any], words: str | None
) -> None:
    """Names settings that make a step fail or wait otherwise; others give no finding."""
    findings = read_value(chain(node("Step", kind, version, parameters), node("End", "noOp", 1, {}))).findings
    messages = [finding.message for finding in findings if finding.step == "Step"]
    assert any(words in message for message in messages) if words is not None else messages == [], messages


_FIELD = {"assignments": {"assignments": [{"name": "a", "type": "string", "value": "b"}]}}


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "level"),
    [
        ("set", 3.4, _FIELD, None),
        ("set", 2, _FIELD, "warning"),
        ("set", None, _FIELD, "error"),
        ("set", 3.4, {"fields": {"values": [{"name": "a", "stringValue": "b"}]}}, "warning"),
        ("splitInBatches", None, {}, "error"),
        ("aggregate", None, {"fieldsToAggregate": {"fieldToAggregate": [{"fieldToAggregate": "a"}]}}, None),
        ("httpRequest", 4.2, {"url": "https://a.example/", "requestMethod": "POST"}, "warning"),
        ("httpRequest", None, {"url": "https://a.example/", "method": "POST"}, "error"),
        ("httpRequest", 4.2, {"url": "https://a.example/", "headerParametersUi": {}}, None),
        ("httpRequest", 4.2, {"url": "https://a.example/", "requestMethod": "GET"}, None),
        ("if", 2.2, {"combineOperation": "any"}, "warning"),
        ("if", 2.2, {"combineOperation": "all"}, None),
        ("if", 1, {"combineOperation": "any", "looseTypeValidation": False}, None),
        ("filter", 2.2, {"combineConditions": "OR"}, "warning"),
        ("switch", 2, {"mode": "expression", "output": 0, "numberOutputs": 2}, "warning"),
        ("merge", 3.1, {"combinationMode": "multiplex"}, "warning"),
        ("merge", 1, {"combineBy": "combineByPosition"}, "warning"),
        ("merge", 2, {"mode": "combine", "combinationMode": "multiplex"}, None),
        ("set", 2, {"mode": "manual", "includeOtherFields": False}, None),
    ],
)
def test_settings_of_another_version_are_reported(
    kind: str, version: float | None, parameters: dict[str, Any], level: str | None
) -> None:
    """Warns of settings that a step's version ignores; no version is an error if versions differ."""
    step = node("Step", kind, version or 1, parameters)
    if version is None:
        del step["typeVersion"]
    findings = read_value(chain(step)).findings
    assert [str(finding.level) for finding in findings if "version" in finding.message] == [level] * (
        level is not None
    )


@pytest.mark.parametrize(
    ("kind", "parameters", "words"),
    [
        ("code", {"functionCode": "return items;"}, "so the example runs"),
        ("code", {"functionCode": "return [];", "jsCode": "return items;"}, "does not read “functionCode”"),
        ("function", {"jsCode": "return items;"}, "so the example runs"),
        ("function", {"functionCode": "return items;"}, None),
        ("code", {"jsCode": "return items;", "functionCode": ""}, None),
    ],
)
def test_a_script_in_the_setting_of_another_step_is_reported(
    kind: str, parameters: dict[str, Any], words: str | None
) -> None:
    """Warns of code that the step does not read, and says if n8n's example runs in its place."""
    findings = read_value(chain(node("Step", kind, 2 if kind == "code" else 1, parameters))).findings
    messages = [
        finding.message for finding in findings if finding.step == "Step" and finding.level == "warning"
    ]
    assert [words in message for message in messages if words] == [True] * (words is not None)
    assert len(messages) == (words is not None)


def test_a_disabled_trigger_starts_nothing() -> None:
    """Notes a disabled trigger, and says nothing about its connections."""
    export = connected(
        [BEGIN, {**MORNING, "disabled": True}, passing("A")], {"Begin": ["A"], "Every morning": ["A"]}
    )
    read = read_value(export)
    assert [(str(finding.level), finding.code) for finding in read.findings] == [("note", "disabled_step")]
    assert [trigger.name for trigger in read.plan.triggers] == ["Begin"]


def test_connections_of_an_unknown_kind_are_reported() -> None:
    """Warns of connections that are not outputs; those of AI parts are an error."""
    export = chain(node("A", "noOp", 1, {}), node("B", "noOp", 1, {}))
    for kind, expected in (("error", ("warning", "parameter")), ("ai_tool", ("error", "ai_node"))):
        export["connections"]["A"] = {kind: [[{"node": "B", "type": "main", "index": 0}]]}
        findings = [finding for finding in read_value(export).findings if finding.step == "A"]
        assert [(str(finding.level), finding.code) for finding in findings] == [expected]


@pytest.mark.parametrize(
    ("source", "step", "words"),
    [("A", "A", "lists them by “main”"), ("Gone", None, "comes from “Gone”, which is not there")],
)
def test_connections_of_an_unknown_form_are_reported_at_their_step(
    source: str, step: str | None, words: str
) -> None:
    """Warns at the connection's source step if the connections are not lists by kind."""
    export = chain(passing("A"), passing("B"))
    export["connections"][source] = [[{"node": "B", "type": "main", "index": 0}]]
    warnings = [finding for finding in read_value(export).findings if words in finding.message]
    assert [(finding.step, str(finding.level), finding.code) for finding in warnings] == [
        (step, "warning", "parameter")
    ]


def test_a_connection_to_a_missing_input_is_reported() -> None:
    """Warns of a connection to an input beyond those of a step."""
    export = chain(node("Both", "merge", 3, {"mode": "append"}))
    for index, is_told in ((1, False), (2, True)):
        export["connections"]["Begin"]["main"] = [[{"node": "Both", "type": "main", "index": index}]]
        findings = read_value(export).findings
        assert (
            any(
                "leads to input 3, but this step has only 2 inputs" in finding.message for finding in findings
            )
            is is_told
        )


def test_many_unknown_options_are_read_in_time() -> None:
    """Reads 10,000 options that are not known, each an error that is reported once, within seconds of CPU."""
    options = {f"unknown{number}": number for number in range(10_000)}
    began_at = time.process_time()
    errors = errors_of("httpRequest", 4.2, {"url": "https://a.example", "options": options})
    assert time.process_time() - began_at < 5
    assert len({error.message for error in errors}) == len(errors) > 100


@pytest.mark.parametrize(
    ("node_type", "code", "todo"),
    [
        ("n8n-nodes-base.microsoftSharePoint", "node_type", "“Microsoft SharePoint” cannot run here. If"),
        ("n8n-nodes-ntfy.Ntfy", "community_node", "“Ntfy” is a community node and cannot run here. If"),
        ("@n8n/n8n-nodes-langchain.agent", "ai_node", "Call the model's API by an HTTP Request step"),
        ("n8n-nodes-base.postgres", "node_type", "an HTTP Request to an API of the database"),
        ("n8n-nodes-base.executeCommand", "node_type", "Use a code step, or remove it."),
    ],
)  # fmt: skip
def test_an_unsupported_type_names_its_replacement(node_type: str, code: str, todo: str) -> None:
    """Names the type as its owner spells it, and the step that does its work instead.

    See docs/design/imports-n8n.md#findings.
    """
    odd = {**node("Odd", "any", 1, {}), "type": node_type}
    [finding] = [candidate for candidate in read_value(chain(odd)).findings if candidate.level == "error"]
    assert (finding.step, finding.code) == ("Odd", code)
    assert todo in finding.message


def test_teams_steps_that_do_not_send_say_how_to_read() -> None:
    """Refers to Microsoft Graph for what a Teams connection cannot do."""
    [finding] = errors_of("microsoftTeams", 2, {"resource": "channelMessage", "operation": "getAll"})
    assert finding.message.startswith("Teams steps only send messages here.")
    assert "HTTP Request step" in finding.message
