"""The node httpRequest: GET and HEAD are reads, all other methods are sends."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from steward.connectors.base.requests import SendRequest
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.limits import MAX_FILE_BYTES
from steward.model.plan import StepKind
from steward.model.write_response import WriteResponse
from steward.outbound.errors import CallError, UnusableResponse
from steward.outbound.response import RESPONSE_BYTES, PlatformResponse
from steward.outbound.web import TIMEOUTS
from steward.steps.n8n.http_bodies import (
    BodyFile,
    body_files,
    body_of,
    body_problems,
    sent_file_names,
)
from steward.steps.n8n.http_files import fetches_file, file_item, file_problems, read_files
from steward.steps.n8n.http_pages import MAX_PAUSE_MS, PageRequest, all_pages, pages_problems, reads_pages
from steward.steps.n8n.http_sign_in import (
    account_to_bind,
    authentication_problems,
    plain_address_problems,
    response_of_store,
    signs_in,
    signs_in_to_store,
    uses_account,
)
from steward.steps.workflow.addresses import (
    ANY_CERTIFICATE,
    https_address,
    sendable_headers,
    uncalled_address_problems,
    with_query,
)
from steward.steps.workflow.external_calls import as_item_failure, read_items
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.responses import (
    call_failure,
    holds_file,
    is_tolerant,
    name_value_rows,
    parse_json_object,
    recorded_response_items,
    removed_key_problems,
    response_format,
    response_items,
    response_settings,
    run_data_in_read_problems,
    send_each_item,
    status_error,
    with_error_objects,
)
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    SentItem,
    StepCall,
    StepProblem,
    StepType,
    is_expression,
    paired_with,
)
from steward.steps.workflow.web_access import KIND, WebAccess, web_access_of

_READS = frozenset(("GET", "HEAD"))
_NAMES = (
    "method requestMethod url authentication nodeCredentialType genericAuthType sendQuery specifyQuery"
    " queryParameters jsonQuery sendHeaders specifyHeaders headerParameters jsonHeaders sendBody contentType"
    " specifyBody bodyParameters jsonBody rawContentType body options responseFormat jsonParameters"
    " queryParametersUi headerParametersUi bodyParametersUi queryParametersJson headerParametersJson"
    " bodyParametersJson allowUnauthorizedCerts dataPropertyName inputDataFieldName provideSslCertificates"
    " curlImport notice oAuth2Api infoMessage httpVariantWarning googleApiWarning sendBinaryData"
    " binaryPropertyName preBuiltAgentsCalloutHttpRequest optimizeResponse responseType dataField fields"
    " fieldsToInclude cssSelector onlyContent elementsToOmit truncateResponse maxLength"
)
_OLD_NAMES = (
    *("requestMethod", "responseFormat", "jsonParameters", "queryParametersUi", "headerParametersUi"),
    *("bodyParametersUi", "queryParametersJson", "headerParametersJson", "bodyParametersJson"),
    *("allowUnauthorizedCerts", "dataPropertyName", "sendBinaryData", "binaryPropertyName"),
)
_NEW_NAMES = (
    *("method", "sendQuery", "specifyQuery", "queryParameters", "jsonQuery", "sendHeaders"),
    *("specifyHeaders", "headerParameters", "jsonHeaders", "sendBody", "contentType", "specifyBody"),
    *("bodyParameters", "jsonBody", "rawContentType", "body", "inputDataFieldName"),
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
_SENT_IN_READS = (
    *("url", "queryParameters", "queryParametersUi", "jsonQuery", "queryParametersJson"),
    *("headerParameters", "headerParametersUi", "jsonHeaders", "headerParametersJson"),
)
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))


class HttpRequestNode(StepType):
    """Reads with GET and HEAD; sends with all other methods, and turns the response into items."""

    types = ("httpRequest",)
    field_use = FieldUse.REPLACES_ITEMS
    versions = (1, 2, 3, 4, 4.1, 4.2, 4.3, 4.4, 4.5)
    parameters = frozenset(_NAMES.split(" "))
    knows_all_parameters = True
    version_parameters = MappingProxyType(
        {**dict.fromkeys(_OLD_NAMES, (1, 3)), **dict.fromkeys(_NEW_NAMES, (3, math.inf))}
    )
    version_defaults = MappingProxyType(
        {
            **dict.fromkeys(("requestMethod", "method"), "GET"),
            **dict.fromkeys(("responseFormat", "contentType"), "json"),
            **dict.fromkeys(("specifyQuery", "specifyHeaders", "specifyBody"), "keypair"),
            **dict.fromkeys(("dataPropertyName", "binaryPropertyName"), "data"),
        }
    )

    def operation(self, node: NodeDefinition) -> str:
        """Returns http.read or http.send, or woocommerce.http.read for the store's own API."""
        if signs_in_to_store(node):
            return "woocommerce.http.read"
        return "http.read" if self.kind_of(node) is StepKind.READ else "http.send"

    def kind_of(self, node: NodeDefinition) -> StepKind:
        """Returns read or send by the method, which must not depend on data."""
        return StepKind.READ if _method(node) in _READS else StepKind.SEND

    def required_connection(self, node: NodeDefinition) -> str | None:
        """Returns store if it uses a store's credentials, http_api for other sign-ins and private hosts."""
        return uses_account(node)

    def account(self, node: NodeDefinition) -> JsonObject | None:
        """Returns the account to bind: its credential type, sign-in, and hosts."""
        return account_to_bind(node)

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the names of the files in its body."""
        return sent_file_names(node)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported addresses, methods, secrets and options."""
        method = _method(node)
        if method not in _METHODS:
            yield StepProblem(
                "error", "parameter", "Its method is an expression or not known. Choose a fixed one."
            )
        url = node.get("url", "")
        yield from plain_address_problems(node)
        yield from uncalled_address_problems(
            url, has_account=uses_account(node) is not None, allows_http=True, takes_account=True
        )
        yield from authentication_problems(node, reads=method in _READS)
        if not signs_in(node):
            yield from removed_key_problems(node)
        options = node.get("options", {})
        yield from _option_problems(options if isinstance(options, Mapping) else {})
        if uses_account(node) is None:
            yield from _timeout_problems(node, reads=method in _READS)
        yield from _redirect_problems(node, reads=method in _READS)
        yield from _format_problems(node)
        yield from body_problems(node)
        yield from pages_problems(node, reads=method in _READS)
        if method in _READS:
            yield from run_data_in_read_problems(node, *_SENT_IN_READS)

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns the response as items, like those of a read."""
        try:
            return recorded_response_items(sent.settings, response)
        except ItemFailed as failure:
            raise call_failure(failure.message) from failure

    def refusal(self, message: str, response: WriteResponse | None) -> ItemFailed:
        """Returns a failure with the status and text of the response, if there is one."""
        if response is None:
            return call_failure(message)
        return ItemFailed(message, status_error(response.status, response.text))

    async def run(self, call: StepCall) -> NodeResult:
        """Makes one request for each item."""
        if call.step.kind is StepKind.SEND:
            return await _sends(call)
        return await _reads(call)


def _method(node: NodeDefinition) -> str:
    name = "requestMethod" if node.version < 3 else "method"
    return str(node.get(name, "GET")).upper()


# By option: the test for a problematic value, and the problem's level and text.
_OPTION_PROBLEMS: Mapping[str, tuple[Callable[[AnyJson], bool], str, str]] = {
    "allowUnauthorizedCerts": (
        bool,
        "warning",
        ANY_CERTIFICATE,
    ),
    "lowercaseHeaders": (
        lambda value: value is False,
        "warning",
        "It keeps the case of header names; here they are in small letters. Check later steps.",
    ),
    "queryParameterArrays": (
        lambda value: value not in ("", "repeat", "brackets", "indices"),
        "error",
        "How it writes lists into the query is not known. Choose it again.",
    ),
}


def _option_problems(options: JsonObject) -> Iterable[StepProblem]:
    for name, value in options.items():
        if name == "proxy" or name not in _OPTIONS:
            message = f"Its option “{str(name)[:60]}” is not supported. Remove it."
            yield StepProblem("error", "parameter", message)
        elif name in _OPTION_PROBLEMS:
            is_problem, level, message = _OPTION_PROBLEMS[name]
            if is_problem(value):
                yield StepProblem(level, "parameter", message)


def _timeout_problems(node: NodeDefinition, *, reads: bool) -> Iterable[StepProblem]:
    """Yields a warning if the step would wait longer for a response than a request without an account."""
    timeout_ms = js.number(node.literal("options.timeout", 0))
    limit_s = TIMEOUTS.read_s if reads else TIMEOUTS.write_s
    if timeout_ms > limit_s * 1000:
        message = f"It waits up to {timeout_ms / 1000:g} s for a response; here a request is stopped after "
        message += f"{limit_s:g} s. Check that the address answers in time."
        yield StepProblem("warning", "parameter", message)


def _redirect_problems(node: NodeDefinition, *, reads: bool) -> Iterable[StepProblem]:
    """Yields redirect settings that differ from here, where reads follow redirects and sends do not."""
    name = "followRedirect" if node.version < 3 else "redirect.redirect.followRedirects"
    # If the option is present, version 3 follows redirects only on request.
    by_default = node.version >= 4 or not isinstance(node.get("options.redirect.redirect"), Mapping)
    follows = node.get(f"options.{name}", by_default)
    follows_all = node.get("options.followAllRedirects")
    if is_expression(follows):
        message = "An expression decides whether it follows redirects. Choose a fixed value."
        yield StepProblem("error", "parameter", message)
    elif not reads:
        if node.get(f"options.{name}") is True or follows_all:
            message = "It follows redirects, and here a send follows none. Call the final address."
            yield StepProblem("warning", "parameter", message)
    elif follows is not True:
        message = (
            "It is set not to follow redirects; here reads always follow them. Switch “Follow Redirects” on,"
            " or remove the step if you need the redirect's address."
        )
        yield StepProblem("error", "parameter", message)
    elif node.get("options.redirect") or follows_all:
        message = "It says how redirects are followed; here reads follow three on their own host. Check them."
        yield StepProblem("warning", "parameter", message)


def outputs_whole_lists(node: NodeDefinition) -> bool:
    """Returns whether n8n outputs a list in the response as a single item."""
    is_json = node.version < 3 and node.literal("responseFormat", "json") == "json"
    whole = node.get("options.splitIntoItems") or node.get("options.fullResponse")
    return is_json and not whole


def _format_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if outputs_whole_lists(node):
        message = "A list the address answers with is one item there, here an item for each of its elements."
        yield StepProblem("warning", "parameter", f"{message} Check what follows.")
    shape = str(node.literal("options.response.response.responseFormat", "autodetect"))
    if shape == "file" or node.get("responseFormat") == "file":
        yield from file_problems(node, reads=_method(node) in _READS)
    if node.get("provideSslCertificates"):
        message = "It signs in with a certificate of its own, which is not offered here. Use another sign-in."
        yield StepProblem("error", "credential", message)


def _query(params: Params, version: float) -> dict[str, JsonValue]:
    if version < 3:
        if params.flag("jsonParameters"):
            return parse_json_object(params.get("queryParametersJson", ""), "query")
        return name_value_rows(params, "queryParametersUi.parameter")
    if not params.flag("sendQuery"):
        return {}
    if params.text("specifyQuery", "keypair") == "json":
        return parse_json_object(params.get("jsonQuery", ""), "query")
    return name_value_rows(params, "queryParameters.parameters")


def _headers(params: Params, version: float) -> dict[str, str]:
    if version < 3:
        headers = (
            parse_json_object(params.get("headerParametersJson", ""), "headers")
            if params.flag("jsonParameters")
            else name_value_rows(params, "headerParametersUi.parameter")
        )
    elif not params.flag("sendHeaders"):
        headers = {}
    elif params.text("specifyHeaders", "keypair") == "json":
        headers = parse_json_object(params.get("jsonHeaders", ""), "headers")
    else:
        headers = name_value_rows(params, "headerParameters.parameters")
    return sendable_headers(headers)


def _has_account(call: StepCall) -> bool:
    return call.step.origin is not None and call.step.origin.needs == KIND


def _address(params: Params, version: float, *, has_account: bool) -> str:
    address = https_address(js.text(params.get("url", "")), has_account=has_account, allows_http=True)
    return with_query(address, _query(params, version), params.text("options.queryParameterArrays"))


def _shaped(params: Params, version: float) -> Params:
    """Returns the parameters with the response format, which defaults to JSON in older versions."""
    if version >= 3:
        return Params({name: value for name, value in params.tree.items() if name != "responseFormat"})
    return Params({"responseFormat": "json", **params.tree})


# The Accept header by response format; autodetect and file accept anything, JSON first.
_ACCEPT_HEADERS = {
    "json": "application/json, */*;q=0.5",
    "text": "text/plain, text/*;q=0.9, */*;q=0.8",
}
_ACCEPTS_ANY = "application/json, text/*;q=0.9, */*;q=0.8"


def _accept_header(params: Params) -> str:
    return _ACCEPT_HEADERS.get(response_format(params), _ACCEPTS_ANY)


async def _sends(call: StepCall) -> NodeResult:
    files = [await _files_or_failure(call, index) for index in range(len(call.items))]

    def build_request(index: int) -> SendRequest:
        params = call.params(index)
        body_files = files[index]
        if isinstance(body_files, ItemFailed):
            raise body_files
        body, kind = body_of(params, call.version, body_files)
        headers = {"accept": _accept_header(_shaped(params, call.version))} | _headers(params, call.version)
        if kind is not None:
            headers.setdefault("content-type", kind)
        name = "requestMethod" if call.version < 3 else "method"
        body_text = "\n".join(file.shown for file in body_files) or body[:8192].decode("utf-8", "replace")
        return SendRequest(
            method=params.text(name, "GET").upper(),
            url=_address(params, call.version, has_account=_has_account(call)),
            headers=headers,
            body=body,
            body_text=body_text,
            accepts_any_status=is_tolerant(params),
        )

    def settings_of(index: int) -> JsonObject:
        return response_settings(_shaped(call.params(index), call.version))

    return send_each_item(call, build_request, settings_of, call_failure)


async def _files_or_failure(call: StepCall, index: int) -> tuple[BodyFile, ...] | ItemFailed:
    try:
        return await body_files(call, index)
    except ItemFailed as failure:
        return failure


def _first_request(call: StepCall, index: int) -> PageRequest:
    params = call.params(index)
    name = "requestMethod" if call.version < 3 else "method"
    headers = {"accept": _accept_header(_shaped(params, call.version))} | _headers(params, call.version)
    body, kind = body_of(params, call.version) if call.version >= 3 else (b"", None)
    if body and kind is not None:
        headers.setdefault("content-type", kind)
    has_account = _has_account(call)
    url = https_address(js.text(params.get("url", "")), has_account=has_account, allows_http=True)
    lists = params.text("options.queryParameterArrays")
    query = _query(params, call.version)
    return PageRequest(params.text(name, "GET").upper(), url, query, headers, body, lists)


def _max_bytes(params: Params) -> int:
    """Returns the maximum response size in bytes, which is larger if the response may become a file."""
    return MAX_FILE_BYTES if response_format(params) == "autodetect" else RESPONSE_BYTES


def _check_size(response: PlatformResponse, params: Params) -> None:
    """Raises UnusableResponse if JSON or text exceeds the limit that only files may exceed."""
    if len(response.body) > RESPONSE_BYTES and not holds_file(response, params):
        raise UnusableResponse(f"it is larger than {RESPONSE_BYTES // (1024 * 1024)} MiB")


async def _reads(call: StepCall) -> NodeResult:
    web = web_access_of(call)
    if call.items and fetches_file(call.first):
        return await _file_reads(call, web)

    @with_error_objects
    async def read(index: int, item: Item) -> list[Item]:
        params = _shaped(call.params(index), call.version)
        first = _first_request(call, index)
        await _pause_between_batches(call, index, params)
        if call.step.origin is not None and call.step.origin.needs == "store":
            objects = response_items(await response_of_store(call, first.url, first.query), params)
        elif reads_pages(params):
            objects = await all_pages(call, index, web, first)
        else:
            try:
                response = await web.read(
                    first.method, first.address(), first.headers, first.body, max_bytes=_max_bytes(params)
                )
                _check_size(response, params)
            except CallError as error:
                raise as_item_failure(error) from error
            objects = response_items(response, params)
            if holds_file(response, params):
                return [await file_item(call, index, item, response, first)]
        return [Item(fields, paired_with(index)) for fields in objects]

    return await read_items(call, read)


async def _file_reads(call: StepCall, web: WebAccess) -> NodeResult:
    async def send(index: int) -> tuple[PageRequest, PlatformResponse]:
        await _pause_between_batches(call, index, call.params(index))
        first = _first_request(call, index)
        try:
            response = await web.read(
                first.method,
                first.address(),
                first.headers,
                first.body,
                max_bytes=MAX_FILE_BYTES,
            )
        except CallError as error:
            raise as_item_failure(error) from error
        return first, response

    return await read_files(call, send)


async def _pause_between_batches(call: StepCall, index: int, params: Params) -> None:
    """Pauses between batches as the step's options say, for at most a minute."""
    batching = "options.batching.batch" if call.version >= 3 else "options"
    size = js.number(params.get(f"{batching}.batchSize", 50))
    pause_ms = js.number(params.get(f"{batching}.batchInterval", 1000 if call.version < 3 else 0))
    has_batches = params.get(f"{batching}.batchInterval") is not None
    if has_batches and index and size >= 1 and index % int(size) == 0 and pause_ms > 0:
        await call.sleep(min(pause_ms, MAX_PAUSE_MS) / 1000)
