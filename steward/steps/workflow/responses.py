"""Builds the HTTP requests of workflows and turns responses into items.

See docs/design/imports-n8n.md#http-steps.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import wraps
from http.client import responses
from typing import ParamSpec, TypeVar

from steward.connectors.base.requests import SendRequest
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.write_response import REFUSAL_CHARACTERS, WriteResponse, parse_storable_json
from steward.outbound.errors import CallError
from steward.outbound.response import PlatformResponse
from steward.steps.workflow.addresses import removed_address_problems, removed_header_problems
from steward.steps.workflow.external_calls import ItemProposals
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.run_marks import check_marks
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    is_expression,
    paired_with,
)
from steward.steps.workflow.web_access import web_access_of

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
_PAIRS = (
    "headerParameters.parameters",
    "headerParametersUi.parameter",
    "queryParameters.parameters",
    "queryParametersUi.parameter",
)

RUN_DATA_IN_READ = (
    "It sends data of the run when it reads, and a test run makes this request too. "
    "Check that the request changes nothing at its address."
)


def removed_key_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields a problem for each removed secret in headers, query or URL."""
    for path in _PAIRS:
        rows = node.get(path, [])
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, Mapping):
                yield from removed_header_problems(str(row.get("name", "")), row.get("value"))
    yield from removed_address_problems(str(node.get("url", "")))


def run_data_in_read_problems(node: NodeDefinition, *names: str) -> Iterable[StepProblem]:
    """Yields a warning for a read that sends data of the run, because test runs send it too."""
    if any(_holds_expression(node.get(name)) for name in names):
        yield StepProblem("warning", "parameter", RUN_DATA_IN_READ)


def _holds_expression(value: AnyJson) -> bool:
    """Returns whether a setting, or a value within it, takes data of the run."""
    if isinstance(value, str):
        return is_expression(value) and "{{" in value
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(_holds_expression(member) for member in members)


def name_value_rows(params: Params, *paths: str) -> dict[str, JsonValue]:
    """Returns the values of name-value rows, by name."""
    values: dict[str, JsonValue] = {}
    for path in paths:
        for row in params.rows(path):
            name = row.text("name")
            if name:
                values[name] = row.get("value", "")
    return values


def parse_json_object(value: JsonValue, part: str) -> dict[str, JsonValue]:
    """Returns an object, parsing it if it is JSON text. Raises ItemFailed."""
    parsed = js.parse_json(value) if isinstance(value, str) else value
    if isinstance(value, str) and not value.strip():
        return {}
    if not isinstance(parsed, Mapping):
        raise ItemFailed(f"The JSON of the {part} cannot be read.")
    return dict(parsed)


def send_each_item(
    call: StepCall,
    build_request: Callable[[int], SendRequest],
    settings_of: Callable[[int], JsonObject],
    failure_of: Callable[[str], ItemFailed] = ItemFailed,
) -> NodeResult:
    """Proposes a request for each item; if one cannot be built, its item fails with `failure_of`.

    `settings_of` returns the parameters that `items_of_response` needs.
    """
    item_proposals, access = ItemProposals(call, failure_of), web_access_of(call)
    for index in range(len(call.items)):
        try:
            request, settings = build_request(index), settings_of(index)
            access.check_host(request.url)
            check_marks(call.environment.marks, request.url, request.body)
        except ItemFailed as failure:
            item_proposals.fail_item(index, failure.message)
            continue
        planned = access.operation.plan([request], integration_id=access.integration_id)
        item_proposals.add_plan(index, planned, Item({}, paired_with(index)), access.operation, settings)
    return item_proposals.result()


P = ParamSpec("P")
T = TypeVar("T")
_RESPONSE_SETTINGS = ("responseFormat", "dataPropertyName")


def response_settings(params: Params) -> JsonObject:
    """Returns the parameters that `recorded_response_items` needs. Raises ItemFailed."""
    settings = {name: params.get(name) for name in _RESPONSE_SETTINGS if params.has(name)}
    return {**settings, "options": js.deep_copy(params.get("options", {}))}


def recorded_response_items(settings: JsonObject, response: WriteResponse) -> list[Item]:
    """Returns the recorded response to a send as items, like a read's response. Raises ItemFailed."""
    recorded = PlatformResponse(response.status, response.headers, response.text.encode())
    return [Item(fields) for fields in response_items(recorded, Params(settings))]


class StatusFailed(ItemFailed):
    """Raised for a response with an error status."""

    def __init__(self, response: PlatformResponse) -> None:
        super().__init__(f"The address answered with status {response.status}.")
        self.status = response.status
        # A character has at most four bytes, so this decodes no more of a large body than is shown.
        self.text = response.body[: 4 * REFUSAL_CHARACTERS].decode("utf-8", "replace")


def status_error(status: int, text: str) -> JsonObject:
    """Returns the error object that n8n puts in an item for an error status."""
    quoted = json.dumps(text[:REFUSAL_CHARACTERS], ensure_ascii=False)
    code = "ERR_BAD_REQUEST" if status < 500 else "ERR_BAD_RESPONSE"
    return {"message": f"{status} - {quoted}", "name": "AxiosError", "code": code, "status": status}


def call_failure(message: str) -> ItemFailed:
    """Returns the failure of a call without a response, with an error object."""
    return ItemFailed(message, {"message": message, "name": "NodeApiError"})


def with_error_objects(read: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Wraps a read so that its ItemFailed carries an error object instead of only a message."""

    @wraps(read)
    async def telling(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await read(*args, **kwargs)
        except ItemFailed as failure:
            raise _told(failure) from failure

    return telling


def _told(failure: ItemFailed) -> ItemFailed:
    cause = failure.__cause__
    if isinstance(failure, StatusFailed):
        return ItemFailed(failure.message, status_error(failure.status, failure.text))
    if isinstance(cause, CallError) and cause.status is not None and cause.status >= 400:
        return ItemFailed(failure.message, status_error(cause.status, cause.platform_text))
    return call_failure(failure.message)


def is_tolerant(params: Params) -> bool:
    """Returns whether an error status is treated like any other response."""
    return params.flag("options.response.response.neverError") or params.flag("options.ignoreResponseCode")


def response_items(response: PlatformResponse, params: Params) -> list[dict[str, JsonValue]]:
    """Returns a response as items: an object becomes one, a list one per element, text a field.

    The item of a file lacks the content. Raises ItemFailed, StatusFailed.
    """
    if not response.ok and not is_tolerant(params):
        raise StatusFailed(response)
    if holds_file(response, params):
        return [fields_beside_file(response, params)]
    field = _response_field(params)
    body = response_body(response, params)
    if _asks_full_response(params):
        return [full_response(response, body)]
    if isinstance(body, list):
        return [dict(element) if isinstance(element, Mapping) else {field: element} for element in body]
    return [dict(body) if isinstance(body, Mapping) else {field: body}]


def _asks_full_response(params: Params) -> bool:
    """Returns whether the item includes the status and the headers."""
    return params.flag("options.response.response.fullResponse") or params.flag("options.fullResponse")


def full_response(response: PlatformResponse, body: JsonValue) -> dict[str, JsonValue]:
    """Returns a response with its status and headers."""
    return {
        "body": body,
        "headers": dict(response.headers),
        "statusCode": response.status,
        "statusMessage": responses.get(response.status, ""),
    }


def holds_file(response: PlatformResponse, params: Params) -> bool:
    """Returns whether a response, if its format is autodetected, is neither JSON nor text."""
    is_detected = response_format(params) == "autodetect" and response.body != b""
    return is_detected and _FILE.match(_media_type(response)) is not None


def fields_beside_file(response: PlatformResponse, params: Params) -> dict[str, JsonValue]:
    """Returns the fields of an item that holds the body of a response as its file."""
    fields = full_response(response, None) if _asks_full_response(params) else {}
    fields.pop("body", None)
    return fields


def _media_type(response: PlatformResponse) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


_JSON_TYPE = re.compile(r"[/+-]json(?:-\d[\d.]*)?$")  # excludes lines of JSON such as x-ndjson
# Media types that are neither text nor JSON.
_FILE = re.compile(
    r"(?:image|audio|video|font)/|binary/octet-stream|application/(?!.*\+xml)"
    r"(?:octet-stream|(?:x-)?(?:pdf|zip|gzip|bzip|tar|rar|7z)|epub|msword|wasm|java-archive"
    r"|vnd\.(?:ms-|openxmlformats|oasis|rar|visio|amazon))"
)
_SHAPES = {"json": "json", "string": "text"}  # the names in older versions and in GraphQL


def _response_field(params: Params) -> str:
    """Returns the field that holds a response other than an object."""
    older = params.text("dataPropertyName") or "data"
    return params.text("options.response.response.outputPropertyName", older) or older


def response_body(response: PlatformResponse, params: Params) -> JsonValue:
    """Returns the body, parsed by the step's format or the content type. Raises ItemFailed."""
    shape, text = response_format(params), response.text
    if shape == "text" or (shape == "autodetect" and _JSON_TYPE.search(_media_type(response)) is None):
        return {_response_field(params): text}
    if not text.strip():
        return {}
    try:
        return parse_storable_json(text)
    except (ValueError, RecursionError):
        raise ItemFailed("The response of the address is not JSON.") from None


def response_format(params: Params) -> str:
    """Returns json, text or file, or autodetect if the content type decides."""
    older = _SHAPES.get(params.text("responseFormat"), "")
    return older or params.text("options.response.response.responseFormat", "autodetect")
