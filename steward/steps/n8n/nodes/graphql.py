"""graphql: a document without a mutation reads by the guarded client, another is a send (imports 6.1)."""

import re
from collections.abc import Iterable
from typing import Any

from steward.connectors.web_request.connector import SendRequest
from steward.model.plan import StepKind
from steward.outbound.errors import CallError
from steward.steps.workflow.addresses import sendable, whole_address
from steward.steps.workflow.answers import (
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
    is_expression,
)


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
        yield from removed_keys(asked)
        if self.kind_of(asked) is StepKind.READ:
            yield from told_by_reading(asked, "endpoint", "variables", "headerParametersUi")
        else:
            words = "What the address answers to this request is not handed on to later steps. Check them."
            yield Problem("warning", "parameter", words)

    async def run(self, call: Call) -> Result:
        """One question or one send for each item."""
        if call.step.kind is StepKind.SEND:
            return _sends(call)
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
        variables = json_of(variables, "variables")
    body: dict[str, Any] = {"query": params.text("query"), "variables": variables or {}}
    if params.text("operationName"):
        body["operationName"] = params.text("operationName")
    return js.json_text(body).encode()


def _endpoint(params: Params) -> str:
    return whole_address(params.text("endpoint"))


def _headers(params: Params) -> dict[str, str]:
    return {"content-type": JSON} | sendable(rows_of(params, "headerParametersUi.parameter"))


def _sends(call: Call) -> Result:
    def made(place: int) -> SendRequest:
        params = call.params(place)
        body = _document(params)
        shown = body[:8192].decode("utf-8", "replace")
        return SendRequest("POST", _endpoint(params), _headers(params), body, shown)

    return each_sent(call, made)


async def _questions(call: Call) -> Result:
    web = web_of(call)

    async def asked(place: int) -> list[dict[str, Any]]:
        params = call.params(place)
        try:
            answer = await web.query(_endpoint(params), _document(params), _headers(params))
        except CallError as error:
            raise in_words(error) from error
        found = items_of(answer, Params({"responseFormat": "json", **params.tree}))
        told = found[0].get("errors") if found else None
        if told and params.text("responseFormat", "json") == "json":
            words = (
                [js.text(one.get("message")) for one in told if js.is_object(one)] if js.is_list(told) else []
            )
            raise ItemFailed(f"The address answered with errors: {', '.join(words)[:400] or 'unnamed ones'}")
        return found

    return await each_read(call, asked)
