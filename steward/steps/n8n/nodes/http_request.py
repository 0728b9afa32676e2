"""httpRequest: reads through the guarded client, everything else a send (imports 6.1)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from steward.connectors.web_request.connector import SendRequest
from steward.model.plan import StepKind
from steward.outbound.errors import CallError
from steward.steps.n8n.http_pages import Request, all_pages, asks_pages, pages_problems
from steward.steps.n8n.http_sign_in import authentication_problems, signs_in_to_store, store_answer
from steward.steps.workflow.addresses import sendable, whole_address, with_query
from steward.steps.workflow.answers import (
    FORM,
    JSON,
    each_sent,
    items_of,
    json_of,
    removed_keys,
    rows_of,
    told_by_reading,
)
from steward.steps.workflow.effects import each_read, in_words, web_of
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    Asked,
    Call,
    ItemFailed,
    Params,
    Problem,
    Result,
    StepType,
    Takes,
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
_TOLD = (
    *("url", "queryParameters", "queryParametersUi", "jsonQuery", "queryParametersJson"),
    *("headerParameters", "headerParametersUi", "jsonHeaders", "headerParametersJson"),
)
_REDIRECTS = frozenset(("redirect", "followRedirect", "followAllRedirects"))
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))


class HttpRequest(StepType):
    """GET and HEAD read; the rest is held or sent. What an address answers to a send is not handed on."""

    types = ("httpRequest",)
    takes_of = Takes.NOTHING
    versions = (1, 2, 3, 4, 4.1, 4.2, 4.3, 4.4)
    known = frozenset(_NAMES.split(" "))

    def operation(self, asked: Asked) -> str:
        """http.read, http.send; of the store's own interface woocommerce.http.read."""
        if signs_in_to_store(asked):
            return "woocommerce.http.read"
        return "http.read" if self.kind_of(asked) is StepKind.READ else "http.send"

    def kind_of(self, asked: Asked) -> StepKind:
        """By the method, which no data may decide."""
        return StepKind.READ if _method(asked) in _READS else StepKind.SEND

    def needs(self, asked: Asked) -> str | None:
        """The automation's store where it signs in to one."""
        return "store" if signs_in_to_store(asked) else None

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
        yield from authentication_problems(asked, reads=method in _READS)
        yield from removed_keys(asked)
        yield from _options(asked)
        yield from pages_problems(asked, reads=method in _READS)
        if method in _READS:
            yield from told_by_reading(asked, *_TOLD)
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


def _options(asked: Asked) -> Iterable[Problem]:
    options = asked.get("options", {})
    for name, value in options.items() if isinstance(options, Mapping) else ():
        if name == "proxy" or name not in _OPTIONS:
            words = f"Its option “{str(name)[:60]}” is not carried. Remove it."
            yield Problem("error", "parameter", words)
        elif name == "allowUnauthorizedCerts" and value:
            words = "It would accept any certificate; here certificates are always checked. Nothing to do."
            yield Problem("warning", "parameter", words)
        elif name in _REDIRECTS and value:
            words = (
                "It says how redirects are followed; here reads follow three on their own host. Check them."
            )
            yield Problem("warning", "parameter", words)
        elif (name, value) == ("lowercaseHeaders", False):
            words = "It keeps the case of header names; here they are in small letters. Check later steps."
            yield Problem("warning", "parameter", words)
        elif name == "queryParameterArrays" and value not in ("", "repeat"):
            words = "It writes lists with brackets into the query, which is not carried. Write them out."
            yield Problem("error", "parameter", words)
    is_json = asked.version < 3 and asked.literal("responseFormat", "json") == "json"
    if is_json and not asked.get("options.splitIntoItems"):
        words = "A list the address answers with is one item there, here an item for each of its elements."
        yield Problem("warning", "parameter", f"{words} Check what follows.")
    shape = str(asked.literal("options.response.response.responseFormat", "autodetect"))
    if shape == "file" or asked.get("responseFormat") == "file":
        yield Problem("error", "binary", "It fetches a file, which steps do not keep here. Remove the step.")
    if asked.get("contentType") in ("multipart-form-data", "binaryData"):
        yield Problem(
            "error", "binary", "It sends a file or a form of parts, which is not carried. Remove it."
        )


def _query(params: Params, version: float) -> dict[str, Any]:
    if version < 3:
        if params.flag("jsonParameters"):
            return json_of(params.get("queryParametersJson", ""), "query")
        return rows_of(params, "queryParametersUi.parameter")
    if not params.flag("sendQuery"):
        return {}
    if params.text("specifyQuery", "keypair") == "json":
        return json_of(params.get("jsonQuery", ""), "query")
    return rows_of(params, "queryParameters.parameters")


def _headers(params: Params, version: float) -> dict[str, str]:
    if version < 3:
        given = (
            json_of(params.get("headerParametersJson", ""), "headers")
            if params.flag("jsonParameters")
            else rows_of(params, "headerParametersUi.parameter")
        )
    elif not params.flag("sendHeaders"):
        given = {}
    elif params.text("specifyHeaders", "keypair") == "json":
        given = json_of(params.get("jsonHeaders", ""), "headers")
    else:
        given = rows_of(params, "headerParameters.parameters")
    return sendable(given)


def _address(params: Params, version: float) -> str:
    address = whole_address(js.text(params.get("url", "")))
    return with_query(address, _query(params, version))


def _body(params: Params, version: float) -> tuple[bytes, str | None]:
    """The body and its type."""
    if version < 3:
        given = (
            json_of(params.get("bodyParametersJson", ""), "body")
            if params.flag("jsonParameters")
            else rows_of(params, "bodyParametersUi.parameter")
        )
        if params.text("options.bodyContentType", "json") == "form-urlencoded":
            return urlencode({name: js.text(one) for name, one in given.items()}).encode(), FORM
        return js.json_text(given).encode(), JSON
    if not params.flag("sendBody"):
        return b"", None
    kind = params.text("contentType", "json")
    if kind == "raw":
        return js.text(params.get("body", "")).encode(), params.text("rawContentType", "text/plain")
    if kind == "form-urlencoded":
        if params.text("specifyBody", "keypair") == "string":
            return js.text(params.get("body", "")).encode(), FORM
        pairs = {name: js.text(one) for name, one in rows_of(params, "bodyParameters.parameters").items()}
        return urlencode(pairs).encode(), FORM
    if params.text("specifyBody", "keypair") == "json":
        given_json = params.get("jsonBody", "")
        value = js.parsed(given_json) if isinstance(given_json, str) else given_json
        if value is js.UNDEFINED:
            raise ItemFailed("The JSON body of this step cannot be read.")
        return js.json_text(value).encode(), JSON
    return js.json_text(rows_of(params, "bodyParameters.parameters")).encode(), JSON


def _shaped(params: Params, version: float) -> Params:
    """The parameters with how the answer is read, which older versions take for JSON when nothing is said."""
    if version >= 3:
        return Params({name: one for name, one in params.tree.items() if name != "responseFormat"})
    return Params({"responseFormat": "json", **params.tree})


def _sends(call: Call) -> Result:
    def made(place: int) -> SendRequest:
        params = call.params(place)
        body, kind = _body(params, call.version)
        headers = _headers(params, call.version)
        if kind is not None:
            headers.setdefault("content-type", kind)
        name = "requestMethod" if call.version < 3 else "method"
        return SendRequest(
            method=params.text(name, "GET").upper(),
            url=_address(params, call.version),
            headers=headers,
            body=body,
            body_text=body[:8192].decode("utf-8", "replace"),
        )

    return each_sent(call, made)


async def _reads(call: Call) -> Result:
    web = web_of(call)

    async def asked(place: int) -> list[dict[str, Any]]:
        params = _shaped(call.params(place), call.version)
        name = "requestMethod" if call.version < 3 else "method"
        headers = {"accept": "application/json, text/*;q=0.9, */*;q=0.8"} | _headers(params, call.version)
        query = _query(params, call.version)
        first = Request(
            params.text(name, "GET").upper(), whole_address(js.text(params.get("url", ""))), query, headers
        )
        if call.step.origin is not None and call.step.origin.needs == "store":
            return items_of(await store_answer(call, first.url, first.query), params)
        if asks_pages(params):
            return await all_pages(call, place, web, first)
        try:
            answer = await web.read(first.method, first.address(), first.headers)
        except CallError as error:
            raise in_words(error) from error
        return items_of(answer, params)

    return await each_read(call, asked)
