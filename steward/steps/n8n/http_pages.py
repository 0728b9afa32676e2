"""Reads the pages of httpRequest by its pagination expressions."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin, urlsplit

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.outbound.errors import CallError
from steward.outbound.response import PlatformResponse
from steward.steps.workflow.addresses import https_address, sendable_headers, with_query
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.template import Chunk, Lang, ParameterTemplate
from steward.steps.workflow.expressions.views import ExpressionError
from steward.steps.workflow.external_calls import as_item_failure
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.memory_budget import StepBudget
from steward.steps.workflow.responses import (
    full_response,
    holds_file,
    is_tolerant,
    response_body,
    response_items,
)
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    Params,
    StepCall,
    StepProblem,
    is_expression,
)
from steward.steps.workflow.web_access import WebAccess

_MAX_PAGES = 100
_SAME_AT_MOST = 5
_PAGINATION = "options.pagination.pagination"
_MODES = ("off", "updateAParameterInEachRequest", "responseContainsNextURL")
_ENDS = ("responseIsEmpty", "receiveSpecificStatusCodes", "other")
MAX_PAUSE_MS = 60_000
_OTHER_REQUEST = re.compile(r"\$request\b(?!\s*\??\.\s*(?:url|headers)\b)")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The request for one page."""

    method: str
    url: str
    query: JsonObject
    headers: Mapping[str, str]
    body: bytes = b""
    lists: str = ""

    def address(self) -> str:
        """Returns the URL with its query."""
        return with_query(self.url, self.query, self.lists)


def _mode(value: JsonValue) -> str:
    return str(value.get("paginationMode", _MODES[1])) if isinstance(value, Mapping) else "off"


def reads_pages(params: Params) -> bool:
    """Returns whether the step reads more than one page."""
    pagination: AnyJson = params.tree
    for name in _PAGINATION.split("."):
        pagination = pagination.get(name) if isinstance(pagination, Mapping) else None
    return _mode(pagination) != "off"


def pages_problems(node: NodeDefinition, *, reads: bool) -> Iterable[StepProblem]:
    """Yields the problems of a step's pagination."""
    pagination = node.get(_PAGINATION)
    mode = _mode(pagination)
    if mode == "off":
        return
    if not reads:
        yield StepProblem("error", "parameter", "It sends page after page. Send once, or remove the step.")
    if mode not in _MODES or str(pagination.get("paginationCompleteWhen", _ENDS[0])) not in _ENDS:
        yield StepProblem(
            "error", "parameter", "How it goes from page to page is not known. Choose it again."
        )
    if mode == _MODES[2] and not is_expression(pagination.get("nextURL")):
        message = (
            "The address of its next page is not an expression, so it would ask for one page again and again."
        )
        yield StepProblem("error", "parameter", f"{message} Take it from the response.")
    yield from _change_problems(pagination)
    message = f"It asks for at most {_MAX_PAGES} pages; the step fails where there are more. Check how many."
    yield StepProblem("warning", "parameter", message)


def _change_problems(pagination: JsonObject) -> Iterable[StepProblem]:
    """Yields the problems of the values that change from page to page."""
    if any(str(row.get("type", "qs")) not in ("qs", "headers") for row in _parameters(pagination)):
        message = "It changes the body from page to page, which a read does not send. Change the query."
        yield StepProblem("error", "parameter", message)
    if any(_OTHER_REQUEST.search(text) for text in _texts(pagination)):
        message = "Only the URL and headers of $request are available."
        yield StepProblem("error", "parameter", f"{message} Count the pages with “$pageCount”.")


def _texts(pagination: JsonObject) -> list[str]:
    """Returns the settings of a pagination that may be expressions."""
    values = [row.get("value") for row in _parameters(pagination)]
    values += [pagination.get(name) for name in ("nextURL", "completeExpression")]
    return [value for value in values if isinstance(value, str)]


def _parameters(pagination: JsonObject) -> list[JsonObject]:
    collection = pagination.get("parameters", {})
    rows = collection.get("parameters", []) if isinstance(collection, Mapping) else []
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list | tuple) else []


@dataclass(slots=True)
class _Pages:
    """The pages of one item's request that have been read so far."""

    call: StepCall
    index: int
    web: WebAccess
    first: PageRequest
    params: Params
    pagination: JsonObject  # as stored in the plan: its expressions are evaluated for each page
    count: int = 0
    last: dict[str, JsonValue] | None = None
    same: int = 0
    items: list[dict[str, AnyJson]] = field(default_factory=list)
    gathered: StepBudget = field(default_factory=StepBudget)

    async def evaluated(self, values: Sequence[JsonValue]) -> list[AnyJson]:
        """Evaluates expressions with the latest response as `$response`. Raises ItemFailed."""
        templates = [template.decode_template(entry) for entry in values if isinstance(entry, Mapping)]
        request = {"url": self.first.address(), "headers": dict(self.first.headers)}
        json = self.call.items[self.index].json
        item: dict[str, AnyJson] = {
            "response": self.last or {},
            "pageCount": self.count,
            "request": request,
            "json": json,
        }
        expression_context = self.call.expression_context(
            None if any(entry.steps is None for entry in templates) else _names(templates)
        )
        pairing, index = expression_context.pairing, self.index
        expression_context = replace(
            expression_context, items=[item], pairing=lambda name, _: pairing(name, index)
        )
        results = iter(
            await self.call.evaluator.evaluate(
                [_without_response_root(entry) for entry in templates], expression_context
            )
        )
        evaluated = [next(results)[0] if isinstance(entry, Mapping) else entry for entry in values]
        for entry in evaluated:
            if isinstance(entry, ExpressionError):
                raise ItemFailed(entry.message)
        return evaluated

    async def request(self) -> PageRequest | None:
        """Returns the next request, or None if the response does not name one."""
        if _mode(self.pagination) == _MODES[2]:
            # n8n evaluates it before the first page as well, where it is mostly undefined
            [url] = await self.evaluated([self.pagination.get("nextURL", "")])
            if js.is_missing(url) or url == "":
                return None if self.count else self.first
            return self._request_for(js.text(url))
        rows = _parameters(self.pagination)
        values = await self.evaluated([row.get("value", "") for row in rows])
        query, headers = dict(self.first.query), dict(self.first.headers)
        for row, value in zip(rows, values, strict=True):
            if js.is_missing(value):
                continue
            if row.get("type", "qs") == "headers":
                headers |= sendable_headers({str(row.get("name", "")): value})
            else:
                query[str(row.get("name", ""))] = value
        return replace(self.first, query=query, headers=headers)

    def _request_for(self, url: str) -> PageRequest:
        is_plain = self.first.url.startswith("http:")
        following = https_address(urljoin(self.first.url, url), allows_http=is_plain)
        if urlsplit(following)[:2] != urlsplit(self.first.url)[:2]:
            raise ItemFailed("The next page is on another host. Request it in a separate step.")
        return replace(self.first, url=following)

    async def is_last(self, response: PlatformResponse, body: JsonValue) -> bool:
        """Returns whether the response is the last page."""
        ends = str(self.pagination.get("paginationCompleteWhen", _ENDS[0]))
        if ends == _ENDS[0]:
            return not response.body.strip() or body in ({}, [], "", None)
        if ends == _ENDS[1]:
            codes = re.findall(r"\d{3}", self.params.text(f"{_PAGINATION}.statusCodesWhenComplete"))
            return str(response.status) in codes
        [is_done] = await self.evaluated([self.pagination.get("completeExpression", False)])
        return js.truthy(is_done)

    def note(self, response: PlatformResponse, body: AnyJson) -> None:
        """Stores a response for the next expressions. Raises ItemFailed if the same page is repeated."""
        page = full_response(response, body)
        is_same = self.last is not None and self.last["body"] == page["body"]
        self.same = self.same + 1 if is_same else 1
        self.last = page
        self.count += 1
        if self.same >= _SAME_AT_MOST:
            raise ItemFailed("The address gave the same page five times. Check what leads to the next one.")

    def add_items(self, response: PlatformResponse, body: JsonValue) -> None:
        """Adds the items of a response unless it is empty. Raises ItemFailed, MemoryBudgetExceeded."""
        objects = response_items(response, self.params)
        self.gathered.add(*objects)
        if body not in ({}, ""):
            self.items += objects


async def all_pages(
    call: StepCall, index: int, web: WebAccess, first: PageRequest
) -> list[dict[str, JsonValue]]:
    """Returns the items of all pages in order. Raises ItemFailed, MemoryBudgetExceeded."""
    params = call.params(index)
    options: AnyJson = call.step.config.get("options", {})
    pages = _Pages(call, index, web, first, params, options["pagination"]["pagination"])
    max_pages = _max_pages(params)
    pause = min(max(js.number(params.get(f"{_PAGINATION}.requestInterval", 0)), 0), MAX_PAUSE_MS)
    while (request := await pages.request()) is not None:
        try:
            response = await web.read(request.method, request.address(), request.headers, request.body)
        except CallError as error:
            raise as_item_failure(error) from error
        if holds_file(response, params):
            raise ItemFailed(
                "A page is a file, and files are not fetched page by page. Fetch them one by one."
            )
        body = response_body(response, params)
        pages.note(response, body)
        ended = await pages.is_last(response, body)
        if response.ok or is_tolerant(params) or not ended:
            pages.add_items(response, body)
        if ended or pages.count >= max_pages:
            break
        if pages.count >= _MAX_PAGES:
            raise ItemFailed(f"There are more than {_MAX_PAGES} pages. Narrow down what this step asks for.")
        if pause:
            await call.sleep(pause / 1000)
    return pages.items


def _max_pages(params: Params) -> float:
    if not params.flag(f"{_PAGINATION}.limitPagesFetched"):
        return float("inf")
    max_requests = js.number(params.get(f"{_PAGINATION}.maxRequests", _MAX_PAGES))
    return max_requests if max_requests >= 1 else 1


def _names(templates: list[ParameterTemplate]) -> frozenset[str]:
    return frozenset().union(*(template_.steps or frozenset() for template_ in templates))


def _without_response_root(expression: ParameterTemplate) -> ParameterTemplate:
    """Returns the expression with `$response`, `$pageCount` and `$request` bound to the item's fields."""
    if expression.lang is Lang.LITERAL:
        return expression
    parameters = "$json.response, $json.pageCount, $json.request, $json.json"
    parts = tuple(
        Chunk(f"(($response, $pageCount, $request, $json) => (\n{part.code}\n))({parameters})")
        if isinstance(part, Chunk)
        else part
        for part in expression.parts
    )
    return replace(expression, lang=Lang.JS, parts=parts)
