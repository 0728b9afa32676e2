"""Tests settings of an imported step that n8n ignores, and settings that only look like those.

See docs/decisions/0319-settings-that-n8n-ignores-are-ignored.md.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.finding import FindingLevel
from steward.steps.n8n.nodes import BY_TYPE
from tests.imports.n8n.one_step import errors_of, outputs_of, workflow_of

ELSEWHERE = "={{ $('Nowhere').item.json.x }}"
RULE = {"leftValue": 1, "rightValue": 1, "operator": {"type": "number", "operation": "equals"}}
POST = {"method": "POST", "url": "https://shop.example/a"}
MAIL = {"resource": "message", "operation": "send", "sendTo": "a@b.example", "subject": "s", "message": "m"}


@pytest.mark.parametrize(
    ("kind", "version", "parameters"),
    [
        ("noOp", 1, {"mode": "manual"}),
        ("limit", 1, {"maxItems": 1, "offset": 2}),
        ("set", 3.4, {"assignments": {"assignments": []}, "keepSource": "input"}),
        ("sort", 1, {"sortFieldsUi": {"sortField": [{"fieldName": "a"}]}, "resource": "itemList"}),
        ("splitInBatches", 3, {"batchSize": 1, "pause": 5}),
    ],
)
async def test_a_setting_that_n8n_does_not_have_is_a_note(
    kind: str, version: float, parameters: Mapping[str, Any]
) -> None:
    """Ignores settings of a step whose every setting in n8n runs here, and says so in a note."""
    findings = read_value(workflow_of(kind, version, parameters)).findings
    assert [f for f in findings if f.level is FindingLevel.ERROR] == []
    [note] = [f.message for f in findings if f.step == "Step" and f.level is FindingLevel.NOTE]
    assert "This step of n8n has no setting" in note
    without = {name: value for name, value in parameters.items() if name in BY_TYPE[kind].parameters}
    assert len(without) == len(parameters) - 1
    outputs = await outputs_of(kind, version, parameters, [{"a": 1}, {"a": 0}])
    assert outputs == await outputs_of(kind, version, without, [{"a": 1}, {"a": 0}]) != []


@pytest.mark.parametrize(
    ("kind", "version", "parameters"),
    [
        ("httpRequest", 4.2, {**POST, "sendBody": True, "contentType": "raw", "rawBody": "x"}),
        ("emailSend", 2.1, {"toEmail": "a@b.example", "subject": "s", "text": "t", "rawBody": "x"}),
    ],
)
def test_a_setting_that_n8n_does_not_have_is_a_warning_where_it_was_meant_to_be_sent(
    kind: str, version: float, parameters: Mapping[str, Any]
) -> None:
    """Warns of a setting that a step which calls a service has neither here nor in n8n."""
    findings = read_value(workflow_of(kind, version, parameters)).findings
    assert [f for f in findings if f.level is FindingLevel.ERROR] == []
    [finding] = [f for f in findings if "“Raw Body”" in f.message]
    assert finding.level is FindingLevel.WARNING
    assert "is ignored here as there" in finding.message
    assert finding.message.endswith("find it in the step in n8n, set it there and export the workflow again.")


def test_a_disabled_step_needs_no_account() -> None:
    """Asks for the account of a step only if the step runs."""
    workflow = workflow_of("gmail", 2.1, MAIL)
    workflow["nodes"].append({**workflow["nodes"][1], "name": "Off", "disabled": True})
    workflow["connections"]["Start"]["main"][0].append({"node": "Off", "type": "main", "index": 0})
    findings = read_value(workflow).findings
    assert [f.step for f in findings if f.code == "credential"] == ["Step"]


@pytest.mark.parametrize(
    ("kind", "version", "parameters"),
    [
        ("switch", 3, {"mode": "expression", "numberOutputs": 2, "rules": {"values": [{"conditions": {}}]}}),
        ("switch", 2, {"mode": "expression", "output": 0, "rules": {"rules": [{"operation": "near"}]}}),
        ("wait", 1.1, {"resume": "specificTime", "dateTime": "2027-01-01", "unit": "moments"}),
        ("markdown", 1, {"mode": "htmlToMarkdown", "html": "a", "options": {"tables": True}}),
        ("markdown", 1, {"mode": "markdownToHtml", "markdown": "a", "options": {"bulletMarker": "-"}}),
        ("merge", 3, {"mode": "append", "options": {"emptyQueryResult": "success"}}),
        ("set", 3.4, {"mode": "raw", "jsonOutput": "{}", "includeFields": ELSEWHERE}),
        ("gmail", 2.1, {**MAIL, "filters": {"hasNoUserLabels": True}}),
    ],
)
def test_settings_left_over_from_another_mode_are_ignored(
    kind: str, version: float, parameters: Mapping[str, Any]
) -> None:
    """Ignores settings that n8n shows only for another mode or operation."""
    assert errors_of(kind, version, parameters) == []


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "words"),
    [
        ("limit", 1.9, {"maxItems": 1, "skip": 2}, "“Skip”"),
        ("set", 3.4, {"assignments": {"assignments": []}, "options": {"deep": True}}, "“Deep”"),
        ("switch", 3, {"rules": {"values": [{"conditions": {"conditions": [RULE]}}]}}, "whether all"),
        ("switch", 2, {"mode": "rules", "rules": {"rules": [{"operation": "near"}]}}, "“near”"),
        ("wait", 1.1, {"amount": 1, "unit": "moments"}, "unit"),
        ("wait", 1.1, {"resume": "duration", "amount": 24, "unit": "hours"}, "no such choice for “Resume”"),
        ("wait", 1.1, {"resume": "={{ $json.r }}"}, "“Resume” is an expression"),
        ("markdown", 1, {"mode": "htmlToMarkdown", "options": {"extensions": "x"}}, "“extensions”"),
        ("gmail", 2.1, {"operation": "getAll", "filters": {"hasNoUserLabels": True}}, "“hasNoUserLabels”"),
        ("gmail", 2.1, {**MAIL, "scheduledAt": "2027-01-01"}, "“Scheduled At”"),
        ("dateTime", 2, {"operation": "getCurrentDate", "options": {"locale": "de"}}, "“Locale”"),
    ],
)  # fmt: skip
def test_a_setting_that_n8n_may_carry_out_is_refused(
    kind: str, version: float, parameters: Mapping[str, Any], words: str
) -> None:
    """Makes one error of a setting that n8n reads, or may read in a version that is not known."""
    [error] = errors_of(kind, version, parameters)
    assert words in error.message


@pytest.mark.parametrize(
    ("kind", "name", "value", "is_read"),
    [
        ("if", "combineOperation", "any", True),
        ("if", "combineConditions", "OR", False),
        ("filter", "combineConditions", "OR", True),
        ("filter", "combineOperation", "any", False),
    ],
)
async def test_how_conditions_combine_is_read_only_from_the_steps_own_setting(
    kind: str, name: str, value: str, *, is_read: bool
) -> None:
    """Reads in version 1 only the step's own setting, not that of the other step."""
    rows = [{"value1": "={{ $json.n }}", "operation": "equal", "value2": number} for number in (1, 2)]
    parameters = {"conditions": {"number": rows}, name: value}
    matching, discarded = ([{"n": 1}], []) if is_read else ([], [{"n": 1}])
    assert await outputs_of(kind, 1, parameters, [{"n": 1}]) == [matching, discarded]
