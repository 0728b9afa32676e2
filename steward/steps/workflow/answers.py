"""What requests of workflows are made of and what their answers come to as items (imports 6.1)."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from steward.connectors.web_request.connector import CHANGES, SendRequest
from steward.outbound.response import PlatformResponse
from steward.outbound.web import NO_CONNECTION
from steward.steps.workflow.addresses import removed_from_address, removed_from_header
from steward.steps.workflow.effects import Effects
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import Asked, Call, ItemFailed, Params, Problem, Result, same

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
_PAIRS = (
    "headerParameters.parameters",
    "headerParametersUi.parameter",
    "queryParameters.parameters",
    "queryParametersUi.parameter",
)


def removed_keys(asked: Asked) -> Iterable[Problem]:
    """Keys written into headers or query, whose values were not kept."""
    for path in _PAIRS:
        rows = asked.get(path, [])
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, Mapping):
                yield from removed_from_header(str(row.get("name", "")), row.get("value"))
    yield from removed_from_address(str(asked.get("url", "")))


def told_by_reading(asked: Asked, *names: str) -> Iterable[Problem]:
    """A read that tells its address data of the run: a test run makes it too."""
    if any("{{" in str(asked.get(name, "")) for name in names):
        words = (
            "It tells the address values of the run, and reads are made in test runs too. Make sure that "
            "asking changes nothing there."
        )
        yield Problem("warning", "parameter", words)


def rows_of(params: Params, *paths: str) -> dict[str, Any]:
    """Names and values written as rows."""
    found: dict[str, Any] = {}
    for path in paths:
        for row in params.rows(path):
            name = row.text("name")
            if name:
                found[name] = row.get("value", "")
    return found


def json_of(value: Any, what: str) -> dict[str, Any]:
    """An object, or the JSON of one. Raises ItemFailed."""
    parsed = js.parsed(value) if isinstance(value, str) else value
    if isinstance(value, str) and not value.strip():
        return {}
    if not isinstance(parsed, Mapping):
        raise ItemFailed(f"The JSON of the {what} cannot be read.")
    return dict(parsed)


def each_sent(call: Call, made: Callable[[int], SendRequest]) -> Result:
    """A request for each item, held or sent as its step is; one that cannot be made fails its item."""
    effects, sending = Effects(call), CHANGES["http.send"]
    for place in range(len(call.items)):
        try:
            ask = made(place)
        except ItemFailed as failure:
            effects.fails(place, failure.message)
            continue
        planned = sending.plan([ask], integration_id=NO_CONNECTION)
        effects.planned(place, planned, Item({}, same(place)), sending)
    return effects.result()


def is_tolerant(params: Params) -> bool:
    """Whether an answer that says no is an answer like any other."""
    return params.flag("options.response.response.neverError") or params.flag("options.ignoreResponseCode")


def items_of(answer: PlatformResponse, params: Params) -> list[dict[str, Any]]:
    """The items an answer is: an object is one, a list one for each element, text a field."""
    if not answer.ok and not is_tolerant(params):
        raise ItemFailed(f"The address answered with status {answer.status}.")
    field = field_of(params)
    body = body_of(answer, params)
    if params.flag("options.response.response.fullResponse") or params.flag("options.fullResponse"):
        return [{**whole(answer, body), "statusMessage": "OK" if answer.ok else ""}]
    if isinstance(body, list):
        return [dict(one) if isinstance(one, Mapping) else {field: one} for one in body]
    return [dict(body) if isinstance(body, Mapping) else {field: body}]


def whole(answer: PlatformResponse, body: Any) -> dict[str, Any]:
    """An answer with its head."""
    return {"body": body, "headers": dict(answer.headers), "statusCode": answer.status}


def kept_json(text: str) -> Any:
    """The JSON of a text. Raises ValueError, RecursionError: none, or none that can be kept as it is.

    Numbers beyond all bounds and halves of characters are such.
    """
    found = json.loads(text)
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return found


_SHAPES = {"json": "json", "string": "text"}  # as older versions of the steps, and GraphQL, name them


def field_of(params: Params) -> str:
    """The field an answer that is no object goes into."""
    older = params.text("dataPropertyName") or "data"
    return params.text("options.response.response.outputPropertyName", older) or older


def body_of(answer: PlatformResponse, params: Params) -> Any:
    """The body as the step asks for it. Raises ItemFailed."""
    shape = _SHAPES.get(params.text("responseFormat"), "")
    shape = shape or params.text("options.response.response.responseFormat", "autodetect")
    field = field_of(params)
    text = answer.body.decode("utf-8", "replace")
    kind = answer.headers.get("content-type", "")
    if shape == "text" or (
        shape == "autodetect" and "json" not in kind and text.lstrip()[:1] not in ("{", "[")
    ):
        return {field: text}
    if not text.strip():
        return {}
    try:
        return kept_json(text)
    except (ValueError, RecursionError):
        if shape == "json":
            raise ItemFailed("The answer of the address is no JSON.") from None
        return {field: text}
