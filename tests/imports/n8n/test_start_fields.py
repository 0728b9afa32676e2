"""Tests the start fields of a manual run.

See docs/design/api/runs.md#run-now.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.imports.n8n.start_fields import start_form
from steward.model import plan_json
from tests.imports.exports import chain, code, node


def start_fields_of(
    trigger: str, *steps: Mapping[str, Any], **parameters: Any
) -> list[tuple[str, str, bool]] | None:
    """Returns name, type and whether it is required, for each start field of the workflow."""
    export = chain(*steps)
    export["nodes"][0] = {
        **export["nodes"][0],
        "type": f"n8n-nodes-base.{trigger}",
        "parameters": parameters,
    }
    plan = read_value(export).plan
    form = start_form(plan_json.from_json(plan_json.to_json(plan)))
    return None if form is None else [(field.name, field.type, field.required) for field in form.fields]


def set_to(name: str, **values: str) -> dict[str, Any]:
    """Returns a step whose items have these fields and no others."""
    rows = [{"id": field, "name": field, "value": value, "type": "string"} for field, value in values.items()]
    return node(name, "set", 3.4, {"assignments": {"assignments": rows}, "options": {}})


def test_fields_that_steps_read_from_a_webhook_are_start_fields() -> None:
    """Finds fields read by paths, in code and by the name of the start.

    Members of lists and methods are not taken for fields.
    """
    first = set_to(
        "First",
        a="={{ $json.body.order.number }}",
        b="={{ $json.body['e mail'].toLowerCase() }}",
        c="={{ $json.body.rows[0].sku }}",
        d="={{ $json.headers.host }}",
    )
    second = code("Second", "return [{json: {x: $('Begin').first().json.body.note, y: $json.a}}]")
    assert start_fields_of("webhook", first, second) == [
        ("headers.host", "text", False),
        ("order.number", "text", False),
        ("e mail", "text", False),
        ("rows", "json", False),
        ("note", "text", False),
    ]


def test_fields_that_a_step_sets_in_part_are_start_fields() -> None:
    """Asks for members of a field of which a step before sets another member, which the start still fills."""
    adds = set_to("Add", **{"query.note": "mine", "customer.note": "mine"})
    adds["parameters"]["includeOtherFields"] = True
    reads = set_to("Read", a="={{ $json.query.id }}", b="={{ $json.customer.email }}")
    assert start_fields_of("webhook", adds, reads) == [("query.id", "text", False)]
    assert start_fields_of("gmailTrigger", adds, reads) == [
        ("query.id", "text", False),
        ("customer.email", "text", False),
    ]


def test_a_form_has_its_own_start_fields() -> None:
    """Asks for the form's own fields and files with their types, and for other fields that steps read."""
    rows = [
        {"fieldLabel": "Your mail", "fieldType": "email", "requiredField": True},
        {"fieldLabel": "How many", "fieldName": "count", "fieldType": "number"},
        {"fieldLabel": "Kind", "fieldType": "dropdown", "fieldOptions": {"values": [{"option": "A"}]}},
        {"fieldLabel": "Picture of it", "fieldType": "file"},
        {"fieldLabel": "List", "fieldType": "file", "multipleFiles": False, "requiredField": True},
    ]
    read = "={{ $json['Your mail'] }} {{ $json.submittedAt }} {{ $json.more }}"
    step = set_to("See", a=read, b="={{ $json['Picture of it'][0].size }}")
    assert start_fields_of("formTrigger", step, formFields={"values": rows}) == [
        ("Your mail", "email", True),
        ("count", "number", False),
        ("Kind", "choice", False),
        ("Picture_of_it", "files", False),
        ("List", "file", True),
        ("more", "text", False),
    ]


@pytest.mark.parametrize(
    ("row", "default", "reason"),
    [
        ({"fieldType": "hiddenField", "fieldValue": "3"}, "3", None),
        ({"fieldType": "hiddenField", "fieldValue": 7}, "7", None),
        ({"fieldType": "hiddenField", "fieldValue": "={{ $now }}"}, None, "is computed"),
        ({"defaultValue": "x" * 501}, "x" * 501, None),
        ({"defaultValue": "x" * 10_001}, None, "more than 10,000 characters"),
        ({"fieldType": "number", "defaultValue": "7"}, 7, None),
        ({"fieldType": "number", "defaultValue": 0}, 0, None),
        ({"fieldType": "number", "defaultValue": "many"}, None, "can have"),
        ({"fieldType": "dropdown", "defaultValue": "A"}, "A", None),
        ({"fieldType": "dropdown", "defaultValue": "B"}, None, "can have"),
        ({"defaultValue": ""}, None, None),
    ],
)
def test_a_default_that_cannot_be_passed_on_is_reported(
    row: dict[str, Any], default: str | float | None, reason: str | None
) -> None:
    """Keeps the default of a form's field, or names the field whose default was left out."""
    options = {"values": [{"option": "A"}]}
    form = {"formFields": {"values": [{"fieldLabel": "Note", "fieldOptions": options, **row}]}}
    export = chain(set_to("See", a="fixed"))
    export["nodes"][0] |= {"type": "n8n-nodes-base.formTrigger", "parameters": form}
    reading = read_value(export)
    [field] = plan_json.from_json(plan_json.to_json(reading.plan)).triggers[0].fields
    assert field.default == default
    messages = [finding.message for finding in reading.findings if "into the field “Note”" in finding.message]
    assert [reason is not None and reason in message for message in messages] == [True] * (reason is not None)


@pytest.mark.parametrize(
    ("version", "options", "in_utc"),
    [
        (2, {}, True),
        (2.2, {}, False),
        (1, {"useWorkflowTimezone": True}, False),
        (2.3, {"useWorkflowTimezone": False}, True),
    ],
)
def test_a_form_has_its_time_in_the_zone_of_its_version_and_option(
    version: float, options: dict[str, bool], in_utc: bool
) -> None:
    """Uses the workflow's time zone from version 2.1 on, unless the form's option says otherwise."""
    export = chain(set_to("See", a="={{ $json.submittedAt }}"))
    form = {"type": "n8n-nodes-base.formTrigger", "typeVersion": version, "parameters": {"options": options}}
    export["nodes"][0] |= form
    plan = plan_json.from_json(plan_json.to_json(read_value(export).plan))
    assert plan.triggers[0].submitted_in_utc is in_utc


@pytest.mark.parametrize(
    ("trigger", "fields"), [("manualTrigger", None), ("webhook", []), ("scheduleTrigger", None)]
)
def test_a_start_whose_fields_no_step_reads_has_no_fields(trigger: str, fields: list[Any] | None) -> None:
    """A webhook has an empty form, since it takes JSON all the same; other starts have none."""
    assert start_fields_of(trigger, set_to("See", a="fixed")) == fields


def test_a_manual_start_has_the_fields_that_steps_read() -> None:
    """Asks only for fields that are read before a step replaces the items."""
    steps = (set_to("First", a="={{ $json.city }}"), set_to("Then", b="={{ $json.a }}"))
    assert start_fields_of("manualTrigger", *steps) == [("city", "text", False)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ((), None),
        (("sku",), "Its steps read the field “sku” of what starts it: give it as the payload of a run."),
        (("a", "b.c"), "Its steps read the fields “a”, “b.c” of what starts it: give them as the payload"),
        (tuple(f"f{number}" for number in range(8)), "“f6”, “f7” of what starts it"),
        (tuple(f"f{number}" for number in range(9)), "“f7” and 1 more of what starts it"),
    ],
)
def test_the_finding_of_a_foreign_start_names_the_fields_that_steps_read(
    fields: tuple[str, ...], words: str | None
) -> None:
    """Names at most the first eight fields, by their path in the payload, and none when no field is read."""
    values = {f"v{number}": f"={{{{ $json.body.{field} }}}}" for number, field in enumerate(fields)}
    export = chain(set_to("See", **values))
    export["nodes"][0] = {**export["nodes"][0], "type": "n8n-nodes-base.webhook"}
    messages = [
        finding.message for finding in read_value(export).findings if finding.code == "foreign_trigger"
    ]
    assert len(messages) == 1
    assert words in messages[0] if words is not None else "Its steps read" not in messages[0]


def test_files_that_steps_read_from_a_webhook_are_start_fields() -> None:
    """Asks for files by the names that steps, requests and scripts read, until a step makes files itself."""
    sheet = node("Sheet", "extractFromFile", 1, {"operation": "csv", "binaryPropertyName": "prices"})
    first = node("Pack", "if", 2.2, {"conditions": {}})
    export = chain(first, sheet, node("More", "extractFromFile", 1, {"operation": "text"}))
    sent = {"method": "POST", "url": "https://elsewhere.example/a", "sendBody": True}
    parts = [{"parameterType": "formBinaryData", "name": "x", "inputDataFieldName": "photo"}]
    sent |= {"contentType": "multipart-form-data", "bodyParameters": {"parameters": parts}}
    export["nodes"] += [
        node("Send", "httpRequest", 4.2, sent),
        code("Name", "return {n: $binary.note.fileName}"),
    ]
    targets = export["connections"]["Pack"]["main"][0]
    targets += [{"node": name, "type": "main", "index": 0} for name in ("Send", "Name")]
    export["nodes"][0]["type"] = "n8n-nodes-base.webhook"
    reading = read_value(export)
    form = start_form(reading.plan)
    assert form is not None
    assert {(field.name, field.type) for field in form.fields} == {
        ("prices", "file"), ("photo", "file"), ("note", "file")
    }  # fmt: skip
    words = [finding.message for finding in reading.findings if finding.code == "foreign_trigger"]
    assert "It starts with the files “prices”, “photo”, “note”: give them with the payload." in words[0]


@pytest.mark.parametrize("trigger", ["webhook", "gmailTrigger"])
def test_a_value_may_have_the_name_of_a_file(trigger: str) -> None:
    """Accepts a file and a value of the same name, which is in the payload beside it."""
    sheet = node("Sheet", "extractFromFile", 1, {"operation": "csv", "binaryPropertyName": "data"})
    value = "={{ $json.body.data }}" if trigger == "webhook" else "={{ $json.data }}"
    export = chain(set_to("See", v=value))
    export["nodes"] += [sheet]
    export["connections"]["Begin"]["main"][0].append({"node": "Sheet", "type": "main", "index": 0})
    export["nodes"][0]["type"] = f"n8n-nodes-base.{trigger}"
    form = start_form(read_value(export).plan)
    assert form is not None
    assert {(field.name, field.type) for field in form.fields} == {("data", "file"), ("data", "text")}
