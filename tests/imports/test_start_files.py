"""Tests runs that are started with files. See docs/design/api/runs.md#run-now."""

import base64
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest

from steward.imports.n8n.read import read_value
from steward.model.finding import FindingLevel
from steward.model.refusals import TooManyWaiting
from steward.model.run import Mode
from steward.runs.start import RunNow, start
from steward.runs.storage import payload as payloads
from steward.runs.storage.files import StoredRunFiles
from steward.runs.storage.payload import StartFile
from tests.crash.killing import Killer, ProcessKilled, watching
from tests.imports.exports import automated, chain, code, node
from tests.people import Caller
from tests.runs.api_client import api_client
from tests.runs.shop import Shop

PRICES = b"sku,price\nA,1\nB,2\n"


@pytest.fixture
async def caller(shop: Shop) -> AsyncIterator[Caller]:
    """Provides an API client with a token of the shop's organization."""
    async with api_client(shop) as client:
        yield client


def started_by(trigger: str, *steps: Any, **parameters: Any) -> dict[str, Any]:
    """Returns an export that begins with this trigger."""
    export = chain(*steps)
    begin = {**export["nodes"][0], "type": f"n8n-nodes-base.{trigger}", "parameters": parameters}
    export["nodes"][0] = begin
    return export


def reading(name: str) -> list[dict[str, Any]]:
    """Returns steps that read a file as rows, and fail with these and with the output of the start."""
    read = node("Read", "extractFromFile", 1, {"operation": "csv", "binaryPropertyName": name})
    script = "const start = $('Begin').first(); const rows = $input.all().map(({json}) => json);"
    script += f" const file = start.binary.{name};"
    script += " delete start.json.submittedAt;"
    script += " throw new Error(JSON.stringify([rows, start.json, file.fileName, file.mimeType, file.bytes]))"
    return [read, code("Tell", script)]


def encoded(content: bytes = PRICES, **more: Any) -> dict[str, Any]:
    """Returns a file as a request gives it."""
    return {"data": base64.b64encode(content).decode(), **more}


async def started(caller: Caller, automation: Any, **values: Any) -> Any:
    """Starts a run over HTTP."""
    body = {"idempotency_key": "one", **values}
    return await caller.post(f"/v1/automations/{automation.id}/runs", body)


async def message_of(shop: Shop) -> str:
    """Finishes the run and returns the message that its last step failed with."""
    await shop.drain()
    [row] = await rows_of(shop, "SELECT wire FROM steps WHERE name = 'Tell'")
    return str(msgspec.json.decode(row["wire"])["message"]).replace("\\", "")


async def rows_of(shop: Shop, query: str) -> list[Any]:
    """Returns the rows of a query."""

    async def read(tx: Any) -> Any:
        return await tx.all(query)

    return list(await shop.read(read))


FORM_FILE = {"fieldLabel": "Price list", "fieldType": "file", "requiredField": True}
ROWS = '[{"sku":"A","price":"1"},{"sku":"B","price":"2"}]'


@pytest.mark.parametrize(
    ("trigger", "parameters", "name", "start"),
    [
        (
            "webhook",
            {},
            "data",
            '{"headers":{},"params":{},"query":{},"body":{"a":1},"executionMode":"production"}',
        ),
        (
            "formTrigger",
            {"formFields": {"values": [FORM_FILE]}},
            "Price_list",
            '{"Price list":[{"filename":"a.csv","mimetype":"text/csv","size":18}],'
            '"a":1,"formMode":"production"}',
        ),
        (
            "formTrigger",
            {"formFields": {"values": [{**FORM_FILE, "multipleFiles": False}]}},
            "Price_list",
            '{"Price list":{"filename":"a.csv","mimetype":"text/csv","size":18},'
            '"a":1,"formMode":"production"}',
        ),
    ],
)
async def test_a_run_starts_with_a_file(
    shop: Shop, caller: Caller, trigger: str, parameters: dict[str, Any], name: str, start: str
) -> None:
    """Passes on the file beside the payload; a form also passes on its name, type and size."""
    export = started_by(trigger, *reading(name), **parameters)
    automation = await automated(shop, export)
    response = await started(caller, automation, payload={"a": 1}, files={name: encoded(file_name="a.csv")})
    assert response.status == 201, response.body
    assert f'[{ROWS},{start},"a.csv","text/csv",18]' in await message_of(shop)


async def test_a_run_may_start_with_files_alone_in_a_test_too(shop: Shop, caller: Caller) -> None:
    """Starts without a payload; without a name and a type the file has none and is any octets."""
    automation = await automated(shop, started_by("webhook", *reading("data")))
    response = await started(caller, automation, mode="test", files={"data": encoded()})
    assert response.status == 201, response.body
    assert '"body":{},"executionMode":"test"},null,"application/octet-stream",18]' in await message_of(shop)


async def test_a_repeated_key_returns_its_run_whatever_the_files(shop: Shop, caller: Caller) -> None:
    """Answers the first run again and stores no file of the repeated request."""
    automation = await automated(shop, started_by("webhook", *reading("data")))
    first = await started(caller, automation, files={"data": encoded()})
    second_start = await started(caller, automation, files={"data": encoded(b"other")})
    assert (second_start.status, second_start.data["run"]["id"]) == (200, first.data["run"]["id"])
    assert len(await rows_of(shop, "SELECT sha256 FROM run_files")) == 1


def _files(number: int, size: int = 1) -> dict[str, Any]:
    return {f"f{index}": encoded(b"x" * size) for index in range(number)}


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"data": {"data": "no Base64!"}}, "files.data.data"),
        ({"data": {"data": None}}, "files.data.data"),
        ({"data": encoded(mime_type="text")}, "files.data.mime_type"),
        ({"data": encoded(file_name="")}, "files.data.file_name"),
        ({"data": encoded(more=1)}, "files.data.more"),
        ({"other": encoded()}, "files.Price_list"),
        (_files(payloads.MAX_FILES + 1), "files"),
        (dict.fromkeys(_files(payloads.MAX_FILES + 1), "no file"), "files"),
        ({"Price_list": encoded(), " Price_list": encoded()}, "files"),
        ({"Price_list ": encoded()}, "files"),
        ({"Price_list": encoded(), "\u00e9": encoded(), "e\u0301": encoded()}, "files"),
        (_files(2, payloads.MAX_FILES_BYTES // 2 + 1), "files"),
    ],
)
async def test_files_that_a_start_does_not_accept_are_refused(
    shop: Shop, caller: Caller, files: dict[str, Any], fault: str
) -> None:
    """Refuses the request at the field; the key stays free, and nothing is stored."""
    parameters = {"formFields": {"values": [FORM_FILE]}}
    automation = await automated(shop, started_by("formTrigger", *reading("Price_list"), **parameters))
    response = await started(caller, automation, files=files)
    assert (response.status, list(response.body["errors"])) == (422, [fault]), response.body
    assert await rows_of(shop, "SELECT sha256 FROM run_files") == []
    several = {f"Price_list_{number}": encoded() for number in range(payloads.MAX_FILES)}
    assert (await started(caller, automation, files=several)).status == 201


async def test_a_refused_start_leaves_no_file(shop: Shop, caller: Caller) -> None:
    """Refuses at a full queue and an archived automation before a file is written."""
    automation = await automated(shop, started_by("webhook", *reading("data")))
    command = RunNow(automation.id, "full", Mode.LIVE, None, (StartFile("data", PRICES, "text/csv"),))
    context = shop.service.worker_context
    storage = partial(StoredRunFiles, shop.engine, shop.clock, context.vault, context.files, automation.org)
    with pytest.raises(TooManyWaiting):
        await start(
            shop.engine,
            shop.clock.now(),
            shop.owner,
            command,
            templates=context.automation_rules.templates,
            max_waiting=0,
            vault=context.vault,
            storage=storage,
        )
    await caller.post(f"/v1/automations/{automation.id}/archive", {})
    assert (await started(caller, automation, files={"data": encoded()})).status == 409
    assert await rows_of(shop, "SELECT sha256 FROM run_files") == []
    folder = context.files.path.rglob("*") if context.files is not None else ()
    assert [path for path in folder if path.is_file()] == []


async def test_a_template_starts_without_files(shop: Shop, caller: Caller) -> None:
    """Refuses files for an automation of a template."""
    response = await started(caller, await shop.hiding(), files={"data": encoded()})
    assert (response.status, list(response.body["errors"])) == (422, ["files"])


async def test_a_killed_start_leaves_no_partial_run(shop: Shop, caller: Caller) -> None:
    """Creates run and files together: a start cut short is made again under its key."""
    if shop.engine.dialect != "sqlite":
        pytest.skip("file and run are one transaction on PostgreSQL")
    automation = await automated(shop, started_by("webhook", *reading("data")))
    killer = Killer(points=["after_file"])
    with watching(shop, killer), pytest.raises(ProcessKilled):
        await started(caller, automation, files={"data": encoded()})
    killer.is_dead = False
    assert await rows_of(shop, "SELECT id FROM runs") == []
    assert (await started(caller, automation, files={"data": encoded()})).status == 201
    assert ROWS in await message_of(shop)


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "names"),
    [
        ("extractFromFile", 1, {"operation": "pdf"}, ["data"]),
        ("moveBinaryData", 1, {"sourceKey": "report", "options": {}}, ["report"]),
        ("moveBinaryData", 1, {"mode": "jsonToBinary", "sourceKey": "report"}, []),
        (
            "crypto",
            1,
            {"binaryData": True, "binaryPropertyName": "scan", "dataPropertyName": "hash"},
            ["scan"],
        ),
        ("crypto", 1, {"value": "a", "dataPropertyName": "hash"}, []),
        ("compression", 1.1, {"binaryPropertyName": "a, b"}, ["a", "b"]),
        ("compression", 1.1, {"binaryPropertyName": "={{ [1, 2] }}"}, []),
        ("writeBinaryFile", 1, {"fileName": "/a", "dataPropertyName": "scan"}, ["scan"]),
        ("html", 1.2, {"operation": "extractHtmlContent", "sourceData": "binary"}, ["data"]),
        ("html", 1.2, {"operation": "extractHtmlContent", "dataPropertyName": "page"}, []),
        (
            "httpRequest",
            4.2,
            {
                **{"method": "POST", "url": "https://a.example", "sendBody": True},
                "contentType": "multipart-form-data",
                "bodyParameters": {
                    "parameters": [
                        {"name": "a", "parameterType": "formBinaryData", "inputDataFieldName": "scan"},
                        {"name": "b", "value": "c"},
                    ]
                },
            },
            ["scan"],
        ),
        (
            "httpRequest",
            4.2,
            {"method": "POST", "url": "https://a.example", "contentType": "binaryData"},
            [],  # it sends no body
        ),
        ("googleDrive", 3, {"inputDataFieldName": "scan"}, ["scan"]),
        ("googleDrive", 2, {"binaryData": True, "binaryPropertyName": "scan"}, ["scan"]),
        ("googleDrive", 3, {"operation": "download", "fileId": "a"}, []),
        ("telegram", 1.2, {"operation": "sendPhoto", "binaryData": True}, ["data"]),
        ("telegram", 1.2, {"operation": "sendPhoto", "file": "https://a.example/a.png"}, []),
        ("emailSend", 2.1, {"options": {"attachments": "a,b"}}, ["a", "b"]),
        ("emailSend", 1, {"attachments": "={{ $json.a }}, b"}, []),
        (
            "gmail",
            2.1,
            {"options": {"attachmentsUi": {"attachmentsBinary": [{"property": "scan"}]}}},
            ["scan"],
        ),
    ],
)
def test_a_start_takes_the_files_that_its_steps_name(
    kind: str, version: float, parameters: dict[str, Any], names: list[str]
) -> None:
    """Asks for each file that a step works on, by the name in the setting that this step reads."""
    start = read_value(started_by("webhook", node("Step", kind, version, parameters))).plan.entry()
    assert start is not None
    assert [start_field.label for start_field in start.fields if start_field.is_file] == names


@pytest.mark.parametrize(
    ("kind", "version", "parameters"),
    [
        ("googleDrive", 3, {"inputDataFieldName": "scan", "name": "a"}),
        ("emailSend", 2.1, {"options": {"attachments": "a,b"}, "toEmail": "a@b.example"}),
    ],
)
def test_a_step_that_sends_a_file_which_no_step_makes_is_an_error(
    kind: str, version: float, parameters: dict[str, Any]
) -> None:
    """Reports a step that would fail on its first item, as one that reads a file does."""
    findings = read_value(started_by("manualTrigger", node("Step", kind, version, parameters))).findings
    errors = [finding.message for finding in findings if finding.level is FindingLevel.ERROR]
    assert ["passes on none" in error for error in errors] == [True], errors


@pytest.mark.parametrize("attachments", ["={{ $json.a }}", "=", ""])
def test_attachments_named_by_an_expression_are_not_required(attachments: str) -> None:
    """Reports no missing file where an expression decides which files go with a message."""
    mail = node("Step", "emailSend", 2.1, {"options": {"attachments": attachments}, "toEmail": "a@b.example"})
    findings = read_value(started_by("manualTrigger", mail)).findings
    assert [finding.message for finding in findings if "passes on none" in finding.message] == []


@pytest.mark.parametrize(("method", "is_error"), [("POST", True), ("GET", False)])
def test_the_response_to_a_send_is_not_a_file(method: str, is_error: bool) -> None:
    """Reports a step that uses the file of a send's response, which is not stored; a read can fetch one."""
    ask = node("Ask", "httpRequest", 4.2, {"method": method, "url": "https://a.example", "options": {}})
    findings = read_value(started_by("manualTrigger", ask, *reading("data"))).findings
    errors = [finding.message for finding in findings if finding.level is FindingLevel.ERROR]
    assert ["passes on none" in error for error in errors] == [True] * is_error, errors


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ("manualTrigger", "passes on none"),
        ("scheduleTrigger", "passes on none"),
        ("formTrigger", "asks for none"),
        ("webhook", None),
        ("gmailTrigger", None),
    ],
)
def test_a_start_that_brings_no_file_is_an_error(trigger: str, words: str | None) -> None:
    """Reports a step that works on a file which its start cannot bring; other programs can give one."""
    findings = read_value(started_by(trigger, *reading("data"))).findings
    errors = [finding.message for finding in findings if finding.level is FindingLevel.ERROR]
    assert [words in error for error in errors] == ([True] if words else []) if words else not errors
