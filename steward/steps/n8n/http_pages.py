"""httpRequest: page after page, as the step's expressions lead from one to the next (imports 6.1)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from steward.outbound.errors import CallError
from steward.outbound.response import PlatformResponse
from steward.outbound.web import WebReadClient
from steward.steps.workflow.addresses import sendable, whole_address, with_query
from steward.steps.workflow.answers import body_of, is_tolerant, items_of, whole
from steward.steps.workflow.effects import in_words
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.template import Chunk, Lang, Template
from steward.steps.workflow.expressions.views import Fault
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.memory_budget import Gathered
from steward.steps.workflow.step_types import Asked, Call, ItemFailed, Params, Problem, is_expression

MOST_PAGES = 100
_SAME_AT_MOST = 5
_AT = "options.pagination.pagination"
_MODES = ("off", "updateAParameterInEachRequest", "responseContainsNextURL")
_ENDS = ("responseIsEmpty", "receiveSpecificStatusCodes", "other")
_LONGEST_PAUSE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a read."""

    method: str
    url: str
    query: Mapping[str, Any]
    headers: Mapping[str, str]

    def address(self) -> str:
        """The whole address."""
        return with_query(self.url, self.query)


def _mode(value: Any) -> str:
    return str(value.get("paginationMode", _MODES[1])) if isinstance(value, Mapping) else "off"


def asks_pages(params: Params) -> bool:
    """Whether the step asks for more than one page."""
    given = params.tree.get("options", {}).get("pagination", {}).get("pagination")
    return given is not None and _mode(given) != "off"


def pages_problems(asked: Asked, *, reads: bool) -> Iterable[Problem]:
    """What of the pages a step asks for cannot be."""
    given = asked.get(_AT)
    if given is None or _mode(given) == "off":
        return
    mode = _mode(given)
    if not reads:
        yield Problem("error", "parameter", "It sends page after page. Send once, or remove the step.")
    if mode not in _MODES or str(given.get("paginationCompleteWhen", _ENDS[0])) not in _ENDS:
        yield Problem("error", "parameter", "How it goes from page to page is not known. Choose it anew.")
    if mode == _MODES[2] and not is_expression(given.get("nextURL")):
        words = "The address of its next page is no expression, so it would ask for one page again and again."
        yield Problem("error", "parameter", f"{words} Take it from the answer.")
    for row in _parameters(given):
        if str(row.get("type", "qs")) not in ("qs", "headers"):
            words = "It changes the body from page to page, which a read does not send. Change the query."
            yield Problem("error", "parameter", words)
    words = f"It asks for at most {MOST_PAGES} pages; the step fails where there are more. Check how many."
    yield Problem("warning", "parameter", words)


def _parameters(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    held = given.get("parameters", {})
    rows = held.get("parameters", []) if isinstance(held, Mapping) else []
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list | tuple) else []


@dataclass(slots=True)
class _Pages:
    """The pages of one item's request so far."""

    call: Call
    place: int
    web: WebReadClient
    first: Request
    params: Params
    given: Mapping[str, Any]  # as the plan keeps it: expressions are worked out page by page
    count: int = 0
    last: dict[str, Any] | None = None
    same: int = 0
    items: list[dict[str, Any]] = field(default_factory=list)
    gathered: Gathered = field(default_factory=Gathered)

    async def worked_out(self, values: list[Any]) -> list[Any]:
        """What expressions come to after the last page. Raises ItemFailed."""
        found = [template.read_kept(one) for one in values if isinstance(one, Mapping)]
        request = {"url": self.first.address(), "headers": dict(self.first.headers)}
        json = self.call.items[self.place].json
        item: dict[str, Any] = {
            "response": self.last,
            "pageCount": self.count,
            "request": request,
            "json": json,
        }
        world = self.call.look(None if any(one.steps is None for one in found) else _names(found))
        pairing, place = world.pairing, self.place
        world = replace(world, items=[item], pairing=lambda name, _: pairing(name, place))
        answers = iter(await self.call.evaluator.evaluate([_led(one) for one in found], world))
        told = [next(answers)[0] if isinstance(one, Mapping) else one for one in values]
        for one in told:
            if isinstance(one, Fault):
                raise ItemFailed(one.message)
        return told

    async def request(self) -> Request | None:
        """The next one; None when the answer names none."""
        if _mode(self.given) == _MODES[2]:
            if not self.count:
                return self.first
            [url] = await self.worked_out([self.given.get("nextURL", "")])
            return None if js.is_missing(url) or url == "" else self._elsewhere(js.text(url))
        rows = _parameters(self.given)
        values = await self.worked_out([row.get("value", "") for row in rows])
        query, headers = dict(self.first.query), dict(self.first.headers)
        for row, value in zip(rows, values, strict=True):
            if js.is_missing(value):
                continue
            if row.get("type", "qs") == "headers":
                headers |= sendable({str(row.get("name", "")): value})
            else:
                query[str(row.get("name", ""))] = value
        return replace(self.first, query=query, headers=headers)

    def _elsewhere(self, url: str) -> Request:
        following = whole_address(urljoin(self.first.url, url))
        if urlsplit(following)[:2] != urlsplit(self.first.url)[:2]:
            raise ItemFailed("The next page is on another host. Ask for it in a step of its own.")
        return replace(self.first, url=following, query={})

    async def is_last(self, answer: PlatformResponse, body: Any) -> bool:
        """Whether the answer ends the pages."""
        ends = str(self.given.get("paginationCompleteWhen", _ENDS[0]))
        if ends == _ENDS[0]:
            return not answer.body.strip() or body in ({}, [], "", None)
        if ends == _ENDS[1]:
            codes = re.findall(r"\d{3}", self.params.text(f"{_AT}.statusCodesWhenComplete"))
            return str(answer.status) in codes
        [done] = await self.worked_out([self.given.get("completeExpression", False)])
        return js.truthy(done)

    def note(self, answer: PlatformResponse, body: Any) -> None:
        """What the next page's expressions look at. Raises ItemFailed when nothing moves any more."""
        told = whole(answer, body)
        is_same = self.last is not None and self.last["body"] == told["body"]
        self.same = self.same + 1 if is_same else 1
        self.last = told
        self.count += 1
        if self.same >= _SAME_AT_MOST:
            raise ItemFailed("The address gave the same page five times. Check what leads to the next one.")


async def all_pages(call: Call, place: int, web: WebReadClient, first: Request) -> list[dict[str, Any]]:
    """The items of all pages in order. Raises ItemFailed, TooMuch."""
    params = call.params(place)
    options: Any = call.step.config.get("options", {})
    pages = _Pages(call, place, web, first, params, options["pagination"]["pagination"])
    most = _most(params)
    pause = min(max(js.number(params.get(f"{_AT}.requestInterval", 0)), 0), _LONGEST_PAUSE_MS)
    while (request := await pages.request()) is not None:
        try:
            answer = await web.read(request.method, request.address(), request.headers)
        except CallError as error:
            raise in_words(error) from error
        body = body_of(answer, params)
        pages.note(answer, body)
        ended = await pages.is_last(answer, body)
        if answer.ok or is_tolerant(params) or not ended:
            made = items_of(answer, params)
            pages.gathered.add(*made)
            pages.items += made if body not in ({}, "") else []
        if ended or pages.count >= most:
            break
        if pages.count >= MOST_PAGES:
            raise ItemFailed(f"There are more than {MOST_PAGES} pages. Narrow down what this step asks for.")
        if pause:
            await call.sleep(pause / 1000)
    return pages.items


def _most(params: Params) -> float:
    if not params.flag(f"{_AT}.limitPagesFetched"):
        return float("inf")
    most = js.number(params.get(f"{_AT}.maxRequests", MOST_PAGES))
    return most if most >= 1 else 1


def _names(found: list[Template]) -> frozenset[str]:
    return frozenset().union(*(one.steps or frozenset() for one in found))


def _led(one: Template) -> Template:
    """The same with `$response`, `$pageCount` and `$request` beside the item."""
    if one.lang is Lang.LITERAL:
        return one
    given = "$json.response, $json.pageCount, $json.request, $json.json"
    parts = tuple(
        Chunk(f"(($response, $pageCount, $request, $json) => (\n{part.code}\n))({given})")
        if isinstance(part, Chunk)
        else part
        for part in one.parts
    )
    return replace(one, lang=Lang.JS, parts=parts)
