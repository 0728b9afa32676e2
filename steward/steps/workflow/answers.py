"""What requests of workflows are made of and what their answers come to as items (imports 6.1)."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from steward.connectors.web_request.connector import CHANGES, SendRequest
from steward.outbound.response import PlatformResponse
from steward.outbound.web import NO_CONNECTION
from steward.steps.workflow.addresses import removed_address_problems, removed_header_problems
from steward.steps.workflow.effects import Effects
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    paired_with,
)

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
_PAIRS = (
    "headerParameters.parameters",
    "headerParametersUi.parameter",
    "queryParameters.parameters",
    "queryParametersUi.parameter",
)


def removed_key_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Keys written into headers or query, whose values were not kept."""
    for path in _PAIRS:
        rows = node.get(path, [])
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, Mapping):
                yield from removed_header_problems(str(row.get("name", "")), row.get("value"))
    yield from removed_address_problems(str(node.get("url", "")))


def run_data_in_read_problems(node: NodeDefinition, *names: str) -> Iterable[StepProblem]:
    """A read that tells its address data of the run: a test run makes it too."""
    if any("{{" in str(node.get(name, "")) for name in names):
        words = (
            "It tells the address values of the run, and reads are made in test runs too. Make sure that "
            "asking changes nothing there."
        )
        yield StepProblem("warning", "parameter", words)


def name_value_rows(params: Params, *paths: str) -> dict[str, Any]:
    """Names and values written as rows."""
    values: dict[str, Any] = {}
    for path in paths:
        for row in params.rows(path):
            name = row.text("name")
            if name:
                values[name] = row.get("value", "")
    return values


def parse_json_object(value: Any, what: str) -> dict[str, Any]:
    """An object, or the JSON of one. Raises ItemFailed."""
    parsed = js.parse_json(value) if isinstance(value, str) else value
    if isinstance(value, str) and not value.strip():
        return {}
    if not isinstance(parsed, Mapping):
        raise ItemFailed(f"The JSON of the {what} cannot be read.")
    return dict(parsed)


def send_each_item(call: StepCall, build_request: Callable[[int], SendRequest]) -> NodeResult:
    """A request for each item, held or sent as its step is; one that cannot be made fails its item."""
    effects, operation = Effects(call), CHANGES["http.send"]
    for index in range(len(call.items)):
        try:
            request = build_request(index)
        except ItemFailed as failure:
            effects.fail_item(index, failure.message)
            continue
        planned = operation.plan([request], integration_id=NO_CONNECTION)
        effects.add_plan(index, planned, Item({}, paired_with(index)), operation)
    return effects.result()


def is_tolerant(params: Params) -> bool:
    """Whether an answer that says no is an answer like any other."""
    return params.flag("options.response.response.neverError") or params.flag("options.ignoreResponseCode")


def response_items(answer: PlatformResponse, params: Params) -> list[dict[str, Any]]:
    """The items an answer is: an object is one, a list one for each element, text a field."""
    if not answer.ok and not is_tolerant(params):
        raise ItemFailed(f"The address answered with status {answer.status}.")
    field = response_field(params)
    body = response_body(answer, params)
    if params.flag("options.response.response.fullResponse") or params.flag("options.fullResponse"):
        return [{**full_response(answer, body), "statusMessage": "OK" if answer.ok else ""}]
    if isinstance(body, list):
        return [dict(element) if isinstance(element, Mapping) else {field: element} for element in body]
    return [dict(body) if isinstance(body, Mapping) else {field: body}]


def full_response(answer: PlatformResponse, body: Any) -> dict[str, Any]:
    """An answer with its head."""
    return {"body": body, "headers": dict(answer.headers), "statusCode": answer.status}


def parse_storable_json(text: str) -> Any:
    """The JSON of a text. Raises ValueError, RecursionError: none, or none that can be kept as it is.

    Numbers beyond all bounds and halves of characters are such.
    """
    parsed = json.loads(text)
    json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return parsed


_SHAPES = {"json": "json", "string": "text"}  # as older versions of the steps, and GraphQL, name them


def response_field(params: Params) -> str:
    """The field an answer that is no object goes into."""
    older = params.text("dataPropertyName") or "data"
    return params.text("options.response.response.outputPropertyName", older) or older


def response_body(answer: PlatformResponse, params: Params) -> Any:
    """The body as the step asks for it. Raises ItemFailed."""
    shape = _SHAPES.get(params.text("responseFormat"), "")
    shape = shape or params.text("options.response.response.responseFormat", "autodetect")
    field = response_field(params)
    text = answer.body.decode("utf-8", "replace")
    kind = answer.headers.get("content-type", "")
    if shape == "text" or (
        shape == "autodetect" and "json" not in kind and text.lstrip()[:1] not in ("{", "[")
    ):
        return {field: text}
    if not text.strip():
        return {}
    try:
        return parse_storable_json(text)
    except (ValueError, RecursionError):
        if shape == "json":
            raise ItemFailed("The answer of the address is no JSON.") from None
        return {field: text}
