"""The OpenAPI document has a form that client generators read, and removes nothing from the released one."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from steward.api import openapi
from steward.api.http.envelope import CONTRACT_VERSION
from steward.api.operations import OPERATIONS
from steward.api.schema.components import references
from tests.api.compatibility import RELEASED, breaks, without_examples

Json = dict[str, Any]
PUBLIC_IDS = """
    login status.get schedule.preview occurrences.list stores.list connections.list destinations.list
    automations.list automations.create automations.get automations.update automations.pause
    automations.resume automations.archive automations.restore automations.run automations.move_occurrence
    automations.skip_occurrence automations.unskip_occurrence runs.list runs.get runs.list_changes
    runs.cancel runs.undo approvals.list approvals.get approvals.approve approvals.reject templates.list
    templates.get imports.list imports.get imports.keep imports.delete imports.preview_content
    imports.preview imports.run_as_automation
"""
# Bodies in which null and an absent field mean the same.
ABSENT_OR_NULL = {
    "CreateBody.integration_id",
    "UpdateBody.integration_id",
    "RunAsBody.integration_id",
    "PreviewKeptBody.integration_id",
    "ImportPreviewBody.integration_id",
    "RunNowBody.payload",
    "RunNowBody.files",
    "StartFileBody.file_name",
    "StartFileBody.mime_type",
    "UndoBody.changes",
    "ApproveBody.comment",
    "ApproveBody.change_hash",
    "RejectBody.comment",
    "StepTargetBody.spreadsheet_id",
    "StepTargetBody.sheet",
}


@cache
def public_document() -> Json:
    """Returns the public document."""
    return openapi.document(OPERATIONS, "https://auto.example", version="0")


@cache
def web_document() -> Json:
    """Returns the document that the web app's types are made from."""
    return openapi.document(OPERATIONS, "/", version="0", under=("/v1/", "/app/"), codes=True)


@pytest.fixture(params=[public_document, web_document])
def document(request: pytest.FixtureRequest) -> Json:
    """Returns the public document and that of the web app."""
    openapi_document: Json = request.param()
    return openapi_document


def schemas_of(document: Json) -> Iterator[tuple[str, Json]]:
    """Yields every schema of the document with its location, also those inside others."""

    def inside(value: Any, location: str) -> Iterator[tuple[str, Json]]:
        if isinstance(value, dict):
            yield location, value
            for name, part in value.items():
                if name not in ("example", "examples"):
                    yield from inside(part, f"{location}.{name}")
        elif isinstance(value, list):
            for number, part in enumerate(value):
                yield from inside(part, f"{location}.{number}")

    for name, schema in document["components"]["schemas"].items():
        yield from inside(schema, name)


def test_every_reference_resolves_and_no_schema_is_unused(document: Json) -> None:
    """Defines exactly the components that the document references."""
    assert set(references(document)) == set(document["components"]["schemas"])


def test_schemas_are_of_a_form_that_generators_read(document: Json) -> None:
    """Uses no form that generators misread.

    No `allOf`, no structured default, nothing beside `$ref`, no inline objects, and unions of objects with a
    discriminator.
    """
    for location, schema in schemas_of(document):
        assert "allOf" not in schema, location
        assert not isinstance(schema.get("default"), dict | list) or location.endswith("properties"), location
        assert "$ref" not in schema or set(schema) == {"$ref"}, location
        is_condition = any(f".{word}" in location for word in ("if", "then", "else", "not"))
        is_inline = "." in location and not is_condition and isinstance(schema.get("properties"), dict)
        assert not is_inline or location.endswith(".properties"), location
        for union in (schema.get("oneOf"), schema.get("anyOf")):
            references_of_union = [item for item in union or [] if "$ref" in item]
            assert len(references_of_union) < 2 or "discriminator" in schema, location


def test_responses_and_bodies_are_named_components(document: Json) -> None:
    """Describes every content by a reference or by a choice between references."""
    for item in document["paths"].values():
        for operation in item.values():
            contents = [operation.get("requestBody", {}), *operation["responses"].values()]
            for content in (part for entry in contents for part in entry.get("content", {}).values()):
                schema = content["schema"]
                assert set(schema) == {"$ref"} or all(set(element) == {"$ref"} for element in schema["anyOf"])


def test_a_field_may_be_absent_or_null_and_not_both() -> None:
    """Accepts null for an absent field only in the listed bodies, and answers only one such field."""
    both = set()
    for name, schema in public_document()["components"]["schemas"].items():
        for field, shape in schema.get("properties", {}).items():
            is_null = "null" in shape.get("type", []) or {"type": "null"} in shape.get("anyOf", [])
            if is_null and field not in schema.get("required", []):
                both.add(f"{name}.{field}")
    is_schedule = {location for location in both if location.startswith("ScheduleBody.")}  # both forms valid
    assert both - is_schedule - {"RunRecord.undo"} == ABSENT_OR_NULL


def test_operations_are_named_tagged_and_say_how_they_are_called(document: Json) -> None:
    """Gives every operation an id, known tags, scope, idempotence, paging and its headers."""
    tags = {tag["name"] for tag in document["tags"]}
    named = {}
    for item in document["paths"].values():
        for operation in item.values():
            name = operation["operationId"]
            assert named.setdefault(name, operation) is operation, name
            assert set(operation["tags"]) <= tags
            assert operation["x-idempotent"] in ("yes", "by_key", "by_version", "no")
            for status, response in operation["responses"].items():
                assert "X-Request-Id" in response["headers"]
                assert ("Retry-After" in response["headers"]) == (status in ("429", "503")), name
                assert ("Idempotent-Replayed" in response["headers"]) == (
                    status == "200" and "201" in operation["responses"]
                )
    if "login" in named:
        assert set(named) == set(PUBLIC_IDS.split())
        assert named["automations.run"]["x-idempotent"] == "by_key"
        assert named["automations.update"]["x-idempotent"] == "by_version"
        assert named["imports.delete"]["x-idempotent"] == "no"
        assert named["imports.keep"]["x-idempotent"] == "yes"
        assert named["runs.list"]["x-page"] == {"items": "runs", "cursor": "cursor"}
        assert named["runs.list"]["x-scope"] == "automations:read"
        assert "x-page" not in named["runs.get"]


def test_an_update_names_no_default() -> None:
    """Gives no default to a field of an update: a client that filled it in would change that field."""
    fields = public_document()["components"]["schemas"]["UpdateBody"]["properties"]
    assert [name for name, shape in fields.items() if "default" in shape] == []


def test_a_default_is_what_an_absent_field_means() -> None:
    """Names no stand-in for an absent field: a client that sent it would mean something else."""
    schemas = public_document()["components"]["schemas"]
    named = {
        f"{body}.{name}": shape["default"]
        for body, schema in schemas.items()
        for name, shape in schema.get("properties", {}).items()
        if "default" in shape
    }
    assert named == {"ApproveBody.write_now": False, "RunAsBody.send_mode": "ask"}


def test_numbers_have_the_bounds_that_the_service_keeps(document: Json) -> None:
    """Says that versions, ids and limits begin at 1; a client refuses others by itself.

    Filters take any number as an id: an unknown one matches nothing.
    See docs/design/api/conventions.md#codes.
    """
    fields = {
        f"{body}.{name}": shape
        for body, schema in document["components"]["schemas"].items()
        if body.endswith("Body")
        for name, shape in schema.get("properties", {}).items()
    }
    parameters = {
        f"{operation['operationId']}?{parameter['name']}": parameter["schema"]
        for item in document["paths"].values()
        for operation in item.values()
        for parameter in operation.get("parameters", [])
    }
    assert {"occurrences.list?limit", "destinations.list?integration_id"} <= set(parameters)
    numbers = {
        name: shape["minimum"]
        for name, shape in (fields | parameters).items()
        if name.endswith(("version", "integration_id", "?limit"))
    }
    lists = "automations.list approvals.list approvals.list_decided destinations.list runs.search"
    filters = {f"{operation}?integration_id" for operation in lists.split()}
    assert {name for name, minimum in numbers.items() if minimum != 1} - filters == {
        "MoveBody.occurrence_version", "SlotBody.occurrence_version",
    }  # fmt: skip


def test_the_document_takes_nothing_away_from_that_of_the_release() -> None:
    """Keeps callers of the released document working while the contract's version is 1."""
    assert CONTRACT_VERSION == 1
    assert breaks(json.loads(RELEASED.read_bytes()), public_document()) == []


def test_a_removal_or_a_narrowing_is_noticed() -> None:
    """Reports each removal and narrowing that would break callers, and nothing for an equal document."""
    old = without_examples(public_document())
    new = copy.deepcopy(old)
    schemas, paths = new["components"]["schemas"], new["paths"]
    del paths["/v1/automations/status"]
    del schemas["RunRecord"]["properties"]["summary"]
    schemas["CreateBody"]["required"].append("timezone")
    schemas["CreateBody"]["properties"]["name"]["maxLength"] = 60
    schemas["ScheduleBody"]["properties"]["cadence"]["enum"].remove("hourly")
    schemas["AutomationRecord"]["properties"]["name"]["type"] = ["string", "null"]
    paths["/v1/automations/runs"]["get"]["parameters"][0]["required"] = True
    paths["/v1/automations/runs"]["get"]["operationId"] = "runs.find"
    del paths["/v1/automations"]["post"]["responses"]["201"]
    assert sorted(location.rpartition("/")[2] for location in breaks(old, new)) == sorted(
        [
            "status: removed",
            "automations body.timezone: required",
            "automations body.name: maxLength narrowed",
            "automations body.schedule.cadence: values narrowed",
            "automations: answer 201 removed",
            "automations 200.data.automations[].name: type widened",
            "runs 201.data.run.summary: removed",
            "runs: parameter limit required",
            "runs: operationId changed",
        ]
    )
    assert breaks(old, old) == []
