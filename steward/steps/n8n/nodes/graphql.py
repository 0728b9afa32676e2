"""The node graphql: a read if the document only queries, otherwise a send."""

import re
from collections.abc import Iterable, Sequence

from steward.connectors.base.requests import SendRequest
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.write_response import WriteResponse
from steward.outbound.errors import CallError
from steward.steps.n8n.http_sign_in import (
    account_to_bind,
    authentication_problems,
    plain_address_problems,
    signs_in,
    uses_account,
)
from steward.steps.workflow.addresses import https_address, sendable_headers, uncalled_address_problems
from steward.steps.workflow.external_calls import as_item_failure, read_each_item
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.responses import (
    JSON,
    name_value_rows,
    parse_json_object,
    recorded_response_items,
    removed_key_problems,
    response_items,
    response_settings,
    run_data_in_read_problems,
    send_each_item,
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
)
from steward.steps.workflow.web_access import KIND, web_access_of


class GraphQlNode(StepType):
    """A read if the document only queries; a send if it may change something or depends on data."""

    types = ("graphql",)
    field_use = FieldUse.REPLACES_ITEMS
    versions = (1, 1.1)
    parameters = frozenset(
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

    def operation(self, node: NodeDefinition) -> str:
        """Returns graphql.read or graphql.send."""
        return "graphql.read" if self.kind_of(node) is StepKind.READ else "graphql.send"

    def kind_of(self, node: NodeDefinition) -> StepKind:
        """Returns read or send, judged by the document in the file, never by data."""
        query = node.get("query", "")
        return StepKind.READ if isinstance(query, str) and _queries_by_its_text(query) else StepKind.SEND

    def required_connection(self, node: NodeDefinition) -> str | None:
        """Returns http_api if it signs in or calls a private host."""
        return uses_account(node)

    def account(self, node: NodeDefinition) -> JsonObject | None:
        """Returns the account to bind: its credential type, sign-in, and hosts."""
        return account_to_bind(node)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields problems of the document, the address and authentication."""
        yield from authentication_problems(node, reads=self.kind_of(node) is StepKind.READ)
        yield from plain_address_problems(node)
        yield from uncalled_address_problems(
            node.get("endpoint"),
            has_account=uses_account(node) is not None,
            allows_http=True,
            takes_account=True,
        )
        if not signs_in(node):
            yield from removed_key_problems(node)
        if self.kind_of(node) is StepKind.READ:
            yield from run_data_in_read_problems(node, "endpoint", "query", "variables", "headerParametersUi")

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns the response as items, like those of a query. Raises ItemFailed if it contains errors."""
        items = recorded_response_items(sent.settings, response)
        _refuse_errors([item.json for item in items], sent.settings.get("responseFormat"))
        return items

    async def run(self, call: StepCall) -> NodeResult:
        """Makes one request for each item."""
        if call.step.kind is StepKind.SEND:
            return _sends(call)
        return await _run_queries(call)


# By GraphQL's rules: the only escape in a block string is \""", and a carriage return ends a comment too.
_STRINGS = re.compile(r'"""(?:\\"""|\\(?!""")|[^\\])*?"""|"(?:[^"\\\n\r]|\\[^\n\r])*"|#[^\n\r]*', re.DOTALL)


def only_queries(document: str) -> bool:
    """Returns whether a GraphQL document contains no mutation or subscription at its top level."""
    bare = _STRINGS.sub(" ", document.removeprefix("="))
    depth, top = 0, ""
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        top += character if depth <= 0 else ""
    return not re.search(r"\b(?:mutation|subscription)\b", top)


def _queries_by_its_text(query: str) -> bool:
    """Returns whether a document is a query whatever its expressions yield; a run checks again."""
    if not is_expression(query) or "{{" not in query:
        return only_queries(query)
    beginning = _STRINGS.sub(" ", query.removeprefix("=").partition("{{")[0])
    return re.match(r"[\s,]*(?:query\b|\{)", beginning) is not None and only_queries(beginning)


def _document(params: Params) -> bytes:
    variables = params.get("variables", {})
    if isinstance(variables, str):
        variables = parse_json_object(variables, "variables")
    body: dict[str, JsonValue] = {"query": params.text("query"), "variables": variables or {}}
    if params.text("operationName"):
        body["operationName"] = params.text("operationName")
    return js.json_text(body).encode()


def _endpoint(call: StepCall, params: Params) -> str:
    has_account = call.step.origin is not None and call.step.origin.needs == KIND
    return https_address(params.text("endpoint"), has_account=has_account, allows_http=True)


def _headers(params: Params) -> dict[str, str]:
    return {"content-type": JSON} | sendable_headers(name_value_rows(params, "headerParametersUi.parameter"))


def _sends(call: StepCall) -> NodeResult:
    def build_request(index: int) -> SendRequest:
        params = call.params(index)
        body = _document(params)
        preview = body[:8192].decode("utf-8", "replace")
        return SendRequest("POST", _endpoint(call, params), _headers(params), body, preview)

    def settings_of(index: int) -> JsonObject:
        return response_settings(_shaped(call.params(index)))

    return send_each_item(call, build_request, settings_of)


def _shaped(params: Params) -> Params:
    """Returns the parameters with the response format, which defaults to JSON."""
    return Params({"responseFormat": "json", **params.tree})


def _refuse_errors(objects: Sequence[JsonObject], response_format: object) -> None:
    """Raises ItemFailed if the objects of a response contain errors."""
    errors = objects[0].get("errors") if objects else None
    if errors and response_format == "json":
        messages = (
            [js.text(entry.get("message")) for entry in errors if js.is_object(entry)]
            if js.is_list(errors)
            else []
        )
        raise ItemFailed(f"The address answered with errors: {', '.join(messages)[:400] or 'unnamed ones'}")


async def _run_queries(call: StepCall) -> NodeResult:
    web = web_access_of(call)

    async def query(index: int) -> list[dict[str, JsonValue]]:
        params = call.params(index)
        if not only_queries(params.text("query")):
            raise ItemFailed("Its document is no longer a query, because its data changed it. Use variables.")
        try:
            response = await web.query(_endpoint(call, params), _document(params), _headers(params))
        except CallError as error:
            raise as_item_failure(error) from error
        objects = response_items(response, _shaped(params))
        _refuse_errors(objects, params.text("responseFormat", "json"))
        return objects

    return await read_each_item(call, query)
