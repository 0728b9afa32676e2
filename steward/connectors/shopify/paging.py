"""Asks a store page by page, or by a bulk operation where there is too much for that (connectors 7.1)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from steward.connectors.shopify.answers import (
    Row,
    data_of,
    kind_of,
    list_of,
    row_of,
    sub,
    text,
    user_errors,
    whole,
)
from steward.connectors.shopify.documents import BULK, START_BULK
from steward.connectors.shopify.hydration import Recipe
from steward.model.json import JsonValue
from steward.outbound.client import ReadClient
from steward.outbound.documents import Document
from steward.outbound.errors import PlatformUnavailable, Throttled, UnusableResponse
from steward.outbound.response import parse_json

# A bulk operation is asked after this long, then ever less often.
_LOOKS = (1.0, 2.0, 4.0, 8.0, 15.0)
_MOST_LOOKS = 240
_RUNNING = frozenset({"CREATED", "RUNNING", "CANCELING"})


@dataclass(frozen=True, slots=True)
class Grouped:
    """An object of a bulk result with those that belong to it, by their kind."""

    row: Row
    children: Mapping[str, Sequence[Row]]


class Asking:
    """Reads of one store by documents; every page or line checked for its shape."""

    def __init__(self, http: ReadClient) -> None:
        self._http = http

    async def told(self, document: Document, variables: Mapping[str, JsonValue] | None = None) -> Row:
        """The data of one answer. Raises CallError."""
        return data_of(await self._http.execute(document.name, variables or {}))

    async def made(self, recipe: Recipe, variables: Mapping[str, JsonValue]) -> Row:
        """The data of the query that is made of a recipe. Raises CallError."""
        return data_of(await self._http.execute_compiled(recipe, variables))

    async def pages(
        self, document: Document, variables: Mapping[str, JsonValue], *names: str
    ) -> AsyncIterator[tuple[list[Row], bool]]:
        """(rows, whether more follow) of the connection at `names`, cursor by cursor. Raises CallError."""
        after: str | None = None
        while True:
            data = await self.told(document, {**variables, "after": after})
            connection = sub(data, *names)
            if not connection:
                return
            page = row_of(connection.get("pageInfo"))
            more = page.get("hasNextPage") is True
            yield [row_of(each) for each in list_of(connection, "nodes")], more
            following = text(page, "endCursor")
            if not more:
                return
            if not following or following == after:
                raise UnusableResponse("its pages do not go on")
            after = following

    async def nodes(
        self, document: Document, ids: Sequence[str], most: int, **variables: JsonValue
    ) -> AsyncIterator[list[Row]]:
        """The objects of those global ids, `most` a call, those that are gone left out. Raises CallError."""
        for at in range(0, len(ids), most):
            data = await self.told(document, {**variables, "ids": list(ids[at : at + most])})
            yield [row_of(each) for each in list_of(data, "nodes") if each is not None]

    async def count(self, document: Document, name: str, **variables: JsonValue) -> int:
        """How many there are, as far as it is counted. Raises CallError."""
        return whole(sub(await self.told(document, variables), name), "count") or 0

    async def bulk(self, document: Document) -> AsyncIterator[Grouped]:
        """Every object of a bulk query with its own, as the result comes; held one at a time.

        Raises CallError: PlatformUnavailable when the store does not finish it, Throttled while it runs too
        many.
        """
        url = await self._finished(await self._started(document))
        if url is None:  # a store without such objects leaves no result
            return
        held: Row | None = None
        children: dict[str, list[Row]] = {}
        async for line in self._http.lines(url, operation=document.name):
            row = row_of(parse_json(line))
            parent = row.get("__parentId")
            if parent is None:
                if held is not None:
                    yield Grouped(held, children)
                held, children = row, {}
            elif held is None or parent != held.get("id"):
                raise UnusableResponse("a line of the result stands apart from its object")
            else:
                children.setdefault(kind_of(row) if "id" in row else "", []).append(row)
        if held is not None:
            yield Grouped(held, children)

    async def _started(self, document: Document) -> str:
        payload = sub(await self.told(START_BULK, {"query": document.text}), "bulkOperationRunQuery")
        for error in user_errors(payload):
            if error.code in ("OPERATION_IN_PROGRESS", "LIMIT_REACHED"):
                raise Throttled(60.0, platform_text=error.message)
            raise error.as_error()
        return text(sub(payload, "bulkOperation"), "id")

    async def _finished(self, number: str) -> str | None:
        for look in range(_MOST_LOOKS):
            await self._http.pause(_LOOKS[min(look, len(_LOOKS) - 1)])
            found = sub(await self.told(BULK, {"id": number}), "node")
            status = text(found, "status")
            if status == "COMPLETED":
                return text(found, "url") or None
            if status not in _RUNNING:
                raise PlatformUnavailable(
                    f"The store did not finish a large read ({text(found, 'errorCode') or status})."
                )
        raise PlatformUnavailable("The store did not finish a large read in time.")
