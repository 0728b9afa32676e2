"""Task "Send HTTP request": GET and HEAD read, every other method sends."""

import json
from collections.abc import Iterable, Mapping

from steward.connectors.base.requests import SendRequest
from steward.connectors.web_request.connector import CHANGES
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.model.write_response import WriteResponse, parse_storable_json
from steward.outbound.errors import CallError, PlatformUnavailable
from steward.outbound.response import PlatformResponse
from steward.outbound.web import NO_CONNECTION
from steward.steps.shopify_flow.task_types import (
    FlowCall,
    FlowResult,
    FlowType,
    ItemFailed,
    StepProblem,
    TaskDefinition,
)
from steward.steps.workflow.addresses import (
    https_address,
    removed_address_problems,
    removed_header_problems,
    sendable_headers,
    uncalled_address_problems,
)
from steward.steps.workflow.external_calls import as_item_failure
from steward.steps.workflow.items import Item
from steward.steps.workflow.step_types import SentItem

_READS = frozenset(("GET", "HEAD"))
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
_NO_HEADERS = "The headers of this step cannot be read. Write each as a name and a value."
_ACCEPT = "application/json, text/*;q=0.9, */*;q=0.8"


class HttpRequest(FlowType):
    """Sends a request and outputs the response: `statusCode`, `headers`, `body`.

    `on_client_error` and `on_server_error` say what an error status does: fail or ignore. `retry` counts as
    fail, because reads are retried in any case.
    """

    tasks = ("shopify::flow::http_request", "shopify::flow::send_http_request")
    label = "Send HTTP request"
    variable = "sendHttpRequest"
    fields = frozenset(("method", "url", "headers", "body", "on_client_error", "on_server_error"))

    def operation(self, definition: TaskDefinition) -> str:
        """Returns `http.read` or `http.send`."""
        return "http.read" if self.kind_of(definition) is StepKind.READ else "http.send"

    def kind_of(self, definition: TaskDefinition) -> StepKind:
        """Returns READ or SEND, depending on the method, which must be literal."""
        return StepKind.READ if _method(definition.literal("method")) in _READS else StepKind.SEND

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields problems with the URL, method, keys and settings, and differences from Shopify Flow."""
        if _method(definition.literal("method")) not in _METHODS:
            yield StepProblem("error", "parameter", "Its method is not known. Choose a fixed one.")
        yield from _address_problems(definition.config.get("url"))
        try:
            for name, value in _pairs(definition.config.get("headers")):
                yield from removed_header_problems(name, value)
        except ItemFailed as failure:
            yield StepProblem("error", "parameter", failure.message)
        for name in ("on_client_error", "on_server_error"):
            if definition.config.get(name) not in (None, "", "fail", "retry", "ignore"):
                yield StepProblem(
                    "error", "parameter", f"Its setting “{name}” is not known. Choose fail or ignore."
                )
        if self.kind_of(definition) is StepKind.SEND:
            yield from _send_problems(definition)

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns status, headers and body, like a read."""
        recorded = PlatformResponse(response.status, response.headers, response.text.encode())
        return (Item({"value": _shown(recorded)}),)

    async def run(self, call: FlowCall) -> FlowResult:
        """Reads the address, or proposes the request. Raises ItemFailed, CallError."""
        if call.step.kind is StepKind.SEND:
            return _propose_send(call)
        return await _read(call)


def _address_problems(url: JsonValue) -> Iterable[StepProblem]:
    address = str(url.get("expr") if isinstance(url, Mapping) else url or "")
    if not address.strip():
        yield StepProblem("error", "parameter", "It has no address. Give one.")
    if address.strip().lower().startswith("http://"):
        yield StepProblem("error", "parameter", "It calls an http address. Only https is called: change it.")
    elif address.strip():
        yield from uncalled_address_problems(address)
    yield from removed_address_problems(address)


def _send_problems(definition: TaskDefinition) -> Iterable[StepProblem]:
    error_settings = [definition.config.get(name) for name in ("on_client_error", "on_server_error")]
    if "retry" in error_settings:
        message = (
            "It is not sent again automatically after an error, because it is unknown whether"
            " the first one took effect."
        )
        yield StepProblem("warning", "parameter", f"{message} Run the flow again if it must be.")
    if error_settings.count("ignore") == 1:
        message = (
            "It ignores only some errors. Here a request that is refused ends the run as failed, unless both"
            " client and server errors are ignored. Ignore both, or neither."
        )
        yield StepProblem("warning", "parameter", message)


def _method(value: JsonValue) -> str:
    return str(value or "GET").strip().upper()


def _pairs(headers: AnyJson) -> list[tuple[str, JsonValue]]:
    """Parses headers from pairs, rows, an object, or JSON of these. Raises ItemFailed."""
    if isinstance(headers, str):
        headers = _parse_headers(headers)
    if isinstance(headers, Mapping):
        return [(str(name), value) for name, value in headers.items()]
    return [_pair(row) for row in headers or ()]


def _parse_headers(text: str) -> JsonValue:
    try:
        headers = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError):
        raise ItemFailed("The headers of this step cannot be read.") from None
    if headers is not None and not isinstance(headers, list | Mapping):
        raise ItemFailed(_NO_HEADERS)
    return headers


def _pair(row: JsonValue) -> tuple[str, JsonValue]:
    if isinstance(row, list | tuple) and len(row) == 2:
        return str(row[0]), row[1]
    if isinstance(row, Mapping) and row.keys() in ({"name", "value"}, {"key", "value"}):
        return str(row.get("name", row.get("key"))), row["value"]
    raise ItemFailed(_NO_HEADERS)


def _propose_send(call: FlowCall) -> FlowResult:
    body = str(call.value("body") or "")
    body_bytes = body.encode("utf-8", "replace")
    command = SendRequest(
        method=_method(call.value("method")),
        url=https_address(call.text("url")),
        headers=sendable_headers(dict(_pairs(call.value("headers")))),
        body=body_bytes,
        body_text=body_bytes[:8192].decode("utf-8", "replace"),
        accepts_any_status=call.text("on_client_error") == call.text("on_server_error") == "ignore",
    )
    planned = CHANGES["http.send"].plan([command], integration_id=NO_CONNECTION)
    return FlowResult(
        proposals=planned.proposals, counts=Counts(matched=1), unknown=("",), uses_response=True
    )


async def _read(call: FlowCall) -> FlowResult:
    web = call.context.web
    if web is None:
        raise ItemFailed("This step reaches outside, which is not possible here.")
    headers = {"accept": _ACCEPT} | sendable_headers(dict(_pairs(call.value("headers"))))
    try:
        response = await web.read(_method(call.value("method")), https_address(call.text("url")), headers)
    except CallError as error:
        if call.text("on_server_error") == "ignore" and isinstance(error, PlatformUnavailable):
            return FlowResult({"statusCode": None, "headers": {}, "body": None})
        raise as_item_failure(error) from error
    tolerated = call.text("on_client_error" if response.status < 500 else "on_server_error") == "ignore"
    if not response.ok and not tolerated:
        raise ItemFailed(f"The address answered with status {response.status}.")
    return FlowResult(_shown(response), counts=Counts(read=1))


def _shown(response: PlatformResponse) -> JsonObject:
    """Returns the response in the form that later steps see."""
    return {
        "statusCode": response.status,
        "headers": dict(response.headers),
        "body": _body(response),
    }


def _body(response: PlatformResponse) -> JsonValue:
    """Returns the body as JSON if it is storable JSON, else as text."""
    text = response.body.decode("utf-8", "replace")
    if "json" in response.headers.get("content-type", "") or text.lstrip()[:1] in ("{", "["):
        try:
            parsed: JsonValue = parse_storable_json(text)
        except (ValueError, RecursionError):
            return text
        return parsed
    return text
