"""httpRequest and graphql: reads through the guarded client, everything else a send (imports 6.1)."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from steward.connectors.base import CallError
from steward.connectors.web_request.connector import CHANGES, SendRequest
from steward.model.plan import OnError, StepKind
from steward.model.run import Counts
from steward.outbound.answer import Answer
from steward.outbound.web import NO_CONNECTION
from steward.steps import js_values as js
from steward.steps.addresses import removed_from_address, removed_from_header, sendable, whole_address
from steward.steps.effects import Effects, context_of, in_words
from steward.steps.items import Item, Items
from steward.steps.kinds import (
    Asked,
    Call,
    ItemFailed,
    Params,
    Problem,
    Result,
    StepType,
    Takes,
    error_item,
    is_expression,
    same,
)

_READS = frozenset(("GET", "HEAD"))
_NAMES = (
    "method requestMethod url authentication nodeCredentialType genericAuthType sendQuery specifyQuery"
    " queryParameters jsonQuery sendHeaders specifyHeaders headerParameters jsonHeaders sendBody contentType"
    " specifyBody bodyParameters jsonBody rawContentType body options responseFormat jsonParameters"
    " queryParametersUi headerParametersUi bodyParametersUi queryParametersJson headerParametersJson"
    " bodyParametersJson allowUnauthorizedCerts dataPropertyName inputDataFieldName provideSslCertificates"
    " curlImport notice oAuth2Api infoMessage httpVariantWarning googleApiWarning"
)
_OPTIONS = frozenset(
    [
        "batching",
        "redirect",
        "response",
        "timeout",
        "lowercaseHeaders",
        "queryParameterArrays",
        "followRedirect",
        "fullResponse",
        "ignoreResponseCode",
        "splitIntoItems",
        "bodyContentType",
        "bodyContentCustomMimeType",
        "proxy",
        "allowUnauthorizedCerts",
        "followAllRedirects",
        "batchInterval",
        "batchSize",
        "useStream",
        "pagination",
        "sendCredentialsOnCrossOriginRedirect",
    ]
)
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))


class HttpRequest(StepType):
    """GET and HEAD read; the rest is held or sent. What an address answers to a send is not handed on."""

    types = ("httpRequest",)
    takes_of = Takes.NOTHING
    versions = (1, 2, 3, 4, 4.1, 4.2, 4.3, 4.4)
    known = frozenset(_NAMES.split(" "))

    def operation(self, asked: Asked) -> str:
        """http.get, http.send."""
        return "http.read" if self.kind_of(asked) is StepKind.READ else "http.send"

    def kind_of(self, asked: Asked) -> StepKind:
        """By the method, which no data may decide."""
        return StepKind.READ if _method(asked) in _READS else StepKind.SEND

    def check(self, asked: Asked) -> Iterable[Problem]:
        """Addresses, methods, keys and options that cannot be."""
        method = _method(asked)
        if method not in _METHODS:
            yield Problem(
                "error", "parameter", "Its method is an expression or not known. Choose a fixed one."
            )
        url = asked.get("url", "")
        if isinstance(url, str) and re.match(r"=?http://", url.strip(), re.IGNORECASE):
            yield Problem("error", "parameter", "It calls an http address. Only https is called: change it.")
        yield from _authentication(asked)
        yield from _removed_keys(asked)
        yield from _options(asked)
        if method in _METHODS - _READS:
            words = "What the address answers to this request is not handed on to later steps. Check them."
            yield Problem("warning", "parameter", words)

    async def run(self, call: Call) -> Result:
        """One request for each item."""
        if call.step.kind is StepKind.SEND:
            return _sends(call)
        return await _reads(call)


def _method(asked: Asked) -> str:
    name = "requestMethod" if asked.version < 3 else "method"
    return str(asked.get(name, "GET")).upper()


def _authentication(asked: Asked) -> Iterable[Problem]:
    given = asked.get("authentication", "none")
    if given in ("none", ""):
        return
    if given == "predefinedCredentialType":
        kind = str(asked.get("nodeCredentialType", ""))
        if kind.startswith(("shopify", "wooCommerce")):
            words = "It signs in to the store by itself. Use a step of the store instead."
        elif kind.startswith("google"):
            words = "It signs in to Google by itself. Use a spreadsheet step instead."
        else:
            words = f"It signs in with a credential of the tool ({kind[:40]}), which is not there. Remove it."
        yield Problem("error", "credential", words)
        return
    words = "It signs in with a credential of the tool, which is not there. Remove the sign-in or the step."
    yield Problem("error", "credential", words)


_PAIRS = (
    "headerParameters.parameters",
    "headerParametersUi.parameter",
    "queryParameters.parameters",
    "queryParametersUi.parameter",
)


def _removed_keys(asked: Asked) -> Iterable[Problem]:
    """Keys written into headers or query, whose values were not kept."""
    for path in _PAIRS:
        rows = asked.get(path, [])
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, Mapping):
                yield from removed_from_header(str(row.get("name", "")), row.get("value"))
    yield from removed_from_address(str(asked.get("url", "")))


def _options(asked: Asked) -> Iterable[Problem]:
    options = asked.get("options", {})
    for name, value in options.items() if isinstance(options, Mapping) else ():
        if name == "pagination" and _paginates(value):
            words = "It asks for page after page, which is not carried. Ask for one page, or remove the step."
            yield Problem("error", "parameter", words)
        elif name == "proxy" or name not in _OPTIONS:
            words = f"Its option “{str(name)[:60]}” is not carried. Remove it."
            yield Problem("error", "parameter", words)
        elif name == "allowUnauthorizedCerts" and value:
            words = "It would accept any certificate; here certificates are always checked. Nothing to do."
            yield Problem("warning", "parameter", words)
    shape = str(asked.literal("options.response.response.responseFormat", "autodetect"))
    if shape == "file" or asked.get("responseFormat") == "file":
        yield Problem("error", "binary", "It fetches a file, which steps do not keep here. Remove the step.")
    if asked.get("contentType") in ("multipart-form-data", "binaryData"):
        yield Problem(
            "error", "binary", "It sends a file or a form of parts, which is not carried. Remove it."
        )


def _paginates(value: Any) -> bool:
    inner = value.get("pagination", {}) if isinstance(value, Mapping) else {}
    return (
        isinstance(inner, Mapping) and inner.get("paginationMode", "updateAParameterInEachRequest") != "off"
    )


def _rows(params: Params, *paths: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in paths:
        for row in params.rows(path):
            name = row.text("name")
            if name:
                found[name] = row.get("value", "")
    return found


def _json_of(value: Any, what: str) -> dict[str, Any]:
    parsed = js.parsed(value) if isinstance(value, str) else value
    if isinstance(value, str) and not value.strip():
        return {}
    if not isinstance(parsed, Mapping):
        raise ItemFailed(f"The JSON of the {what} cannot be read.")
    return dict(parsed)


def _query(params: Params, version: float) -> dict[str, Any]:
    if version < 3:
        if params.flag("jsonParameters"):
            return _json_of(params.get("queryParametersJson", ""), "query")
        return _rows(params, "queryParametersUi.parameter")
    if not params.flag("sendQuery"):
        return {}
    if params.text("specifyQuery", "keypair") == "json":
        return _json_of(params.get("jsonQuery", ""), "query")
    return _rows(params, "queryParameters.parameters")


def _headers(params: Params, version: float) -> dict[str, str]:
    if version < 3:
        given = (
            _json_of(params.get("headerParametersJson", ""), "headers")
            if params.flag("jsonParameters")
            else _rows(params, "headerParametersUi.parameter")
        )
    elif not params.flag("sendHeaders"):
        given = {}
    elif params.text("specifyHeaders", "keypair") == "json":
        given = _json_of(params.get("jsonHeaders", ""), "headers")
    else:
        given = _rows(params, "headerParameters.parameters")
    return sendable(given)


def _address(params: Params, version: float) -> str:
    url = whole_address(js.text(params.get("url", "")))
    query = _query(params, version)
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        for one in value if js.is_list(value) else [value]:
            pairs.append((name, js.json_text(one) if js.is_object(one) else js.text(one)))
    return url + (("&" if urlsplit(url).query else "?") + urlencode(pairs) if pairs else "")


def _body(params: Params, version: float) -> tuple[bytes, str | None]:
    """The body and its type."""
    if version < 3:
        given = (
            _json_of(params.get("bodyParametersJson", ""), "body")
            if params.flag("jsonParameters")
            else _rows(params, "bodyParametersUi.parameter")
        )
        if params.text("options.bodyContentType", "json") == "form-urlencoded":
            return urlencode({name: js.text(one) for name, one in given.items()}).encode(), _FORM
        return js.json_text(given).encode(), _JSON
    if not params.flag("sendBody"):
        return b"", None
    kind = params.text("contentType", "json")
    if kind == "raw":
        return js.text(params.get("body", "")).encode(), params.text("rawContentType", "text/plain")
    if kind == "form-urlencoded":
        if params.text("specifyBody", "keypair") == "string":
            return js.text(params.get("body", "")).encode(), _FORM
        pairs = {name: js.text(one) for name, one in _rows(params, "bodyParameters.parameters").items()}
        return urlencode(pairs).encode(), _FORM
    if params.text("specifyBody", "keypair") == "json":
        given_json = params.get("jsonBody", "")
        value = js.parsed(given_json) if isinstance(given_json, str) else given_json
        if value is js.UNDEFINED:
            raise ItemFailed("The JSON body of this step cannot be read.")
        return js.json_text(value).encode(), _JSON
    return js.json_text(_rows(params, "bodyParameters.parameters")).encode(), _JSON


_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"


def _sends(call: Call) -> Result:
    effects = Effects(call)
    for place in range(len(call.items)):
        params = call.params(place)
        try:
            body, kind = _body(params, call.version)
            headers = _headers(params, call.version)
            if kind is not None:
                headers.setdefault("content-type", kind)
            name = "requestMethod" if call.version < 3 else "method"
            ask = SendRequest(
                method=params.text(name, "GET").upper(),
                url=_address(params, call.version),
                headers=headers,
                body=body,
                shown=body[:8192].decode("utf-8", "replace"),
            )
        except ItemFailed as failure:
            effects.fails(place, failure.message)
            continue
        sending = CHANGES["http.send"]
        planned = sending.plan([ask], integration_id=NO_CONNECTION)
        effects.planned(place, planned, Item({}, same(place)), sending)
    return effects.result()


async def _reads(call: Call) -> Result:
    web = context_of(call).web
    if web is None:
        raise ItemFailed("This step reaches outside, which is not possible here.")
    out: Items = []
    failed: Items = []
    for place, item in enumerate(call.items):
        try:
            params = call.params(place)
            name = "requestMethod" if call.version < 3 else "method"
            headers = {"accept": "application/json, text/*;q=0.9, */*;q=0.8"} | _headers(params, call.version)
            try:
                answer = await web.read(
                    params.text(name, "GET").upper(), _address(params, call.version), headers
                )
            except CallError as error:
                raise in_words(error) from error
            given = _given(answer, params)
            call.gathered.add(*given)
            out += [Item(json_, same(place)) for json_ in given]
        except ItemFailed as failure:
            if call.on_error is OnError.STOP:
                raise
            if call.on_error is OnError.PASS_INPUT:
                out.append(Item({"error": failure.message}, same(place), failure.message))
            else:
                failed.append(error_item(item, place, failure.message))
    outputs = [out, failed] if call.on_error is OnError.ERROR_OUTPUT else [out]
    return Result(outputs, counts=Counts(read=len(out)))


def _given(answer: Answer, params: Params) -> list[dict[str, Any]]:
    """The items an answer is: an object is one, a list one for each element, text a field."""
    tolerant = params.flag("options.response.response.neverError") or params.flag(
        "options.ignoreResponseCode"
    )
    if not answer.ok and not tolerant:
        raise ItemFailed(f"The address answered with status {answer.status}.")
    shape = params.text("options.response.response.responseFormat", "autodetect")
    field = params.text("options.response.response.outputPropertyName", "data")
    body = _read_body(answer, shape, field)
    if params.flag("options.response.response.fullResponse") or params.flag("options.fullResponse"):
        return [
            {
                "body": body,
                "headers": dict(answer.headers),
                "statusCode": answer.status,
                "statusMessage": "OK" if answer.ok else "",
            }
        ]
    if isinstance(body, list):
        return [dict(one) if isinstance(one, Mapping) else {field: one} for one in body]
    return [dict(body) if isinstance(body, Mapping) else {field: body}]


def _read_body(answer: Answer, shape: str, field: str) -> Any:
    text = answer.body.decode("utf-8", "replace")
    kind = answer.headers.get("content-type", "")
    if shape == "text" or (shape == "autodetect" and "json" not in kind and not _looks_like_json(text)):
        return {field: text}
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if shape == "json":
            raise ItemFailed("The answer of the address is no JSON.") from None
        return {field: text}


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


class GraphQl(StepType):
    """A document without a mutation reads; one with a mutation is a send."""

    types = ("graphql",)
    takes_of = Takes.NOTHING
    versions = (1, 1.1)
    known = frozenset(
        [
            "authentication",
            "requestMethod",
            "endpoint",
            "allowUnauthorizedCerts",
            "requestFormat",
            "query",
            "variables",
            "operationName",
            "responseFormat",
            "dataPropertyName",
            "headerParametersUi",
        ]
    )

    def operation(self, asked: Asked) -> str:
        """graphql.read, graphql.send."""
        return "graphql.read" if self.kind_of(asked) is StepKind.READ else "graphql.send"

    def kind_of(self, asked: Asked) -> StepKind:
        """By the document, which no data may decide."""
        query = asked.get("query", "")
        return StepKind.READ if isinstance(query, str) and only_asks(query) else StepKind.SEND

    def check(self, asked: Asked) -> Iterable[Problem]:
        """That the document is fixed, and nothing is signed in with."""
        if is_expression(asked.get("query", "")) and "{{" in str(asked.get("query")):
            words = "Its document is put together by an expression. Write it out, and use variables."
            yield Problem("error", "parameter", words)
        if asked.get("authentication", "none") != "none":
            words = "It signs in with a credential of the tool, which is not there. Remove it or the step."
            yield Problem("error", "credential", words)
        yield from _removed_keys(asked)
        if self.kind_of(asked) is StepKind.SEND:
            words = "What the address answers to this request is not handed on to later steps. Check them."
            yield Problem("warning", "parameter", words)

    async def run(self, call: Call) -> Result:
        """One question or one send for each item."""
        if call.step.kind is StepKind.SEND:
            return _graphql_sends(call)
        return await _questions(call)


# As GraphQL reads them: a block's only escape is \""", and a carriage return ends a comment too.
_STRINGS = re.compile(r'"""(?:\\"""|\\(?!""")|[^\\])*?"""|"(?:[^"\\\n\r]|\\[^\n\r])*"|#[^\n\r]*', re.DOTALL)


def only_asks(document: str) -> bool:
    """Whether a GraphQL document has neither a mutation nor a subscription."""
    bare = _STRINGS.sub(" ", document.removeprefix("="))
    depth, top = 0, ""
    for sign in bare:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        top += sign if depth == 0 else ""
    return not re.search(r"\b(?:mutation|subscription)\b", top)


def _document(params: Params) -> bytes:
    variables = params.get("variables", {})
    if isinstance(variables, str):
        variables = _json_of(variables, "variables")
    body: dict[str, Any] = {"query": params.text("query"), "variables": variables or {}}
    if params.text("operationName"):
        body["operationName"] = params.text("operationName")
    return js.json_text(body).encode()


def _endpoint(params: Params) -> str:
    return whole_address(params.text("endpoint"))


def _graphql_headers(params: Params) -> dict[str, str]:
    given = _rows(params, "headerParametersUi.parameter")
    return {"content-type": _JSON} | {name.lower(): js.text(one) for name, one in given.items()}


def _graphql_sends(call: Call) -> Result:
    effects = Effects(call)
    for place in range(len(call.items)):
        params = call.params(place)
        body = _document(params)
        shown = body[:8192].decode("utf-8", "replace")
        ask = SendRequest("POST", _endpoint(params), _graphql_headers(params), body, shown)
        sending = CHANGES["http.send"]
        planned = sending.plan([ask], integration_id=NO_CONNECTION)
        effects.planned(place, planned, Item({}, same(place)), sending)
    return effects.result()


async def _questions(call: Call) -> Result:
    web = context_of(call).web
    if web is None:
        raise ItemFailed("This step reaches outside, which is not possible here.")
    out: Items = []
    for place in range(len(call.items)):
        params = call.params(place)
        try:
            answer = await web.question(_endpoint(params), _document(params), _graphql_headers(params))
        except CallError as error:
            raise in_words(error) from error
        given = _given(answer, params)
        call.gathered.add(*given)
        out += [Item(json_, same(place)) for json_ in given]
    return Result([out], counts=Counts(read=len(out)))
