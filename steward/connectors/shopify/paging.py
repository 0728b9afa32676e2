"""Sends queries page by page, or as a bulk operation when the result is too large for pages."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from steward.connectors.shopify.documents import BULK, START_BULK
from steward.connectors.shopify.hydration import Recipe
from steward.connectors.shopify.responses import (
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
from steward.model.json import JsonValue
from steward.outbound.client import ReadClient
from steward.outbound.documents import Document
from steward.outbound.errors import PlatformUnavailable, Throttled, UnusableResponse
from steward.outbound.response import parse_json

# Seconds between polls of a bulk operation; the last value repeats.
_POLL_INTERVALS_S = (1.0, 2.0, 4.0, 8.0, 15.0)
_MAX_POLLS = 240
_RUNNING = frozenset({"CREATED", "RUNNING", "CANCELING"})


@dataclass(frozen=True, slots=True)
class BulkObject:
    """An object of a bulk result with its child objects, by their kind."""

    row: Row
    children: Mapping[str, Sequence[Row]]


class StoreQueries:
    """Reads one store with documents; checks the shape of every page or line."""

    def __init__(self, http: ReadClient) -> None:
        self._http = http

    async def execute(self, document: Document, variables: Mapping[str, JsonValue] | None = None) -> Row:
        """Returns the data of one response. Raises CallError."""
        return data_of(await self._http.execute(document.name, variables or {}))

    async def execute_compiled(self, recipe: Recipe, variables: Mapping[str, JsonValue]) -> Row:
        """Returns the data of the query compiled from a recipe. Raises CallError."""
        return data_of(await self._http.execute_compiled(recipe, variables))

    async def pages(
        self, document: Document, variables: Mapping[str, JsonValue], *names: str
    ) -> AsyncIterator[tuple[list[Row], bool]]:
        """Yields (rows, whether more follow) of the connection at `names`, page by page. Raises CallError."""
        after: str | None = None
        while True:
            data = await self.execute(document, {**variables, "after": after})
            connection = sub(data, *names)
            if not connection:
                return
            page = row_of(connection.get("pageInfo"))
            more = page.get("hasNextPage") is True
            yield [row_of(node) for node in list_of(connection, "nodes")], more
            next_cursor = text(page, "endCursor")
            if not more:
                return
            if not next_cursor or next_cursor == after:
                raise UnusableResponse("a page names no next page")
            after = next_cursor

    async def nodes(
        self, document: Document, ids: Sequence[str], page_size: int, **variables: JsonValue
    ) -> AsyncIterator[list[Row]]:
        """Yields the objects with these global ids, `page_size` per call, without missing ones.

        Raises CallError.
        """
        for start in range(0, len(ids), page_size):
            data = await self.execute(document, {**variables, "ids": list(ids[start : start + page_size])})
            yield [row_of(node) for node in list_of(data, "nodes") if node is not None]

    async def count(self, document: Document, name: str, **variables: JsonValue) -> int:
        """Returns the number of objects, up to the document's limit. Raises CallError."""
        return whole(sub(await self.execute(document, variables), name), "count") or 0

    async def bulk(self, document: Document) -> AsyncIterator[BulkObject]:
        """Yields every object of a bulk query with its children; holds one object in memory at a time.

        Raises CallError: PlatformUnavailable when the store does not finish the query, Throttled while the
        store runs too many.
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
                    yield BulkObject(held, children)
                held, children = row, {}
            elif held is None or parent != held.get("id"):
                raise UnusableResponse("a line of the result stands apart from its object")
            else:
                children.setdefault(kind_of(row) if "id" in row else "", []).append(row)
        if held is not None:
            yield BulkObject(held, children)

    async def _started(self, document: Document) -> str:
        payload = sub(await self.execute(START_BULK, {"query": document.text}), "bulkOperationRunQuery")
        for error in user_errors(payload):
            if error.code in ("OPERATION_IN_PROGRESS", "LIMIT_REACHED"):
                raise Throttled(60.0, platform_text=error.message)
            raise error.as_error()
        return text(sub(payload, "bulkOperation"), "id")

    async def _finished(self, number: str) -> str | None:
        for look in range(_MAX_POLLS):
            await self._http.pause(_POLL_INTERVALS_S[min(look, len(_POLL_INTERVALS_S) - 1)])
            operation = sub(await self.execute(BULK, {"id": number}), "node")
            status = text(operation, "status")
            if status == "COMPLETED":
                return text(operation, "url") or None
            if status not in _RUNNING:
                raise PlatformUnavailable(
                    f"The store did not finish a large read ({text(operation, 'errorCode') or status})."
                )
        raise PlatformUnavailable("The store did not finish a large read in time.")
