"""Reads a WooCommerce list in pages by id, complete even if objects are deleted in the meantime."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime

from steward.connectors.woocommerce.responses import Row, id_of, row_of, rows_of
from steward.outbound.client import ReadClient
from steward.outbound.errors import CallTimedOut, RemoteNotFound
from steward.outbound.response import PlatformResponse

PREFIX = "/wp-json/wc/v3"
_PAGE_LENGTH = 100
# The page lengths to request: after a timeout the next shorter one.
_PAGE_LENGTHS = (_PAGE_LENGTH, 50, 25, 10)
# The maximum number of ids in one call: a full page, while addresses stay short.
MAX_IDS_A_CALL = 100


class ListPages:
    """Reads the lists of one shop during one run.

    A page that times out is requested again with a shorter length, which then applies to every list of the
    run: a shop that cannot serve one page in time seldom serves the next one.
    """

    def __init__(self, http: ReadClient) -> None:
        self._http = http
        self._longest = _PAGE_LENGTH

    async def fetch_one(self, path: str, fields: str, operation: str) -> Row:
        """Returns a single object. Raises CallError, and RemoteNotFound for an object in the trash."""
        response = await self._http.get(
            PREFIX + path, {"_fields": fields} if fields else None, operation=operation
        )
        row = row_of(response)
        if row.get("status") == "trash":
            raise RemoteNotFound
        return row

    async def fetch_all(
        self, path: str, params: Mapping[str, str], operation: str, *, size: int = _PAGE_LENGTH
    ) -> AsyncIterator[tuple[list[Row], int | None]]:
        """Yields every page with the total that the shop reports, each object once.

        `position` counts the objects read so far. The page that holds it is requested, so that a changed
        length leaves nothing out; rows read twice are dropped. When the list got shorter meanwhile, rows
        that moved forward across a page's edge are read by going back by the number of removed objects.
        `Link` headers are not followed.
        """
        position, seen, last_total = 0, set[str](), None
        while True:
            response, length = await self._page(path, params, operation, position=position, size=size)
            number = position // length + 1
            rows = rows_of(response)
            pages, total = _count(response.headers, "x-wp-totalpages"), _count(response.headers, "x-wp-total")
            fresh = [row for row in rows if id_of(row) not in seen]
            seen |= {id_of(row) for row in fresh}
            if fresh or number == 1:
                yield fresh, total
            removed_count = _shrunk_by(last_total, total)
            last_total = total
            if removed_count and number > 1:
                position = max((number - 1) * length - removed_count, 0)
                continue
            if _is_last(rows, number, length, pages):
                return
            position = number * length

    async def _page(
        self, path: str, params: Mapping[str, str], operation: str, *, position: int, size: int
    ) -> tuple[PlatformResponse, int]:
        """Returns the page that holds `position`, and its length: at most `size`, shorter after timeouts."""
        while True:
            length = min(size, self._longest)
            shorter = next((candidate for candidate in _PAGE_LENGTHS if candidate < length), None)
            page = {"per_page": str(length), "page": str(position // length + 1)}
            query = {**page, "orderby": "id", "order": "asc", **params}
            try:
                response = await self._http.get(
                    PREFIX + path, query, operation=operation, retry_timeouts=shorter is None
                )
            except CallTimedOut:
                if shorter is None:
                    raise
                self._longest = min(self._longest, shorter)
            else:
                return response, length

    def fetch(
        self, path: str, ids: Sequence[str] | None, params: Mapping[str, str], operation: str
    ) -> AsyncIterator[tuple[list[Row], int | None]]:
        """Yields the objects with the given ids, or all of them when `ids` is null. Raises CallError."""
        if ids is None:
            return self.fetch_all(path, params, operation)
        return self.fetch_by_ids(path, ids, params, operation)

    async def fetch_by_ids(
        self, path: str, ids: Sequence[str], params: Mapping[str, str], operation: str
    ) -> AsyncIterator[tuple[list[Row], int | None]]:
        """Yields the existing objects with the given ids in the order of ids. Raises CallError."""
        numbers = sorted({int(number_of(object_id)) for object_id in ids})
        for start in range(0, len(numbers), MAX_IDS_A_CALL):
            include = ",".join(map(str, numbers[start : start + MAX_IDS_A_CALL]))
            async for rows, _ in self.fetch_all(path, {**params, "include": include}, operation):
                yield rows, len(numbers)


def _shrunk_by(before: int | None, total: int | None) -> int:
    return 0 if before is None or total is None else max(before - total, 0)


def _is_last(rows: Sequence[Row], number: int, length: int, pages: int | None) -> bool:
    if not rows:
        return True
    return len(rows) < length if pages is None else number >= pages


def number_of(text: str) -> str:
    """Returns an id for use in a path. Raises RemoteNotFound for anything but a number."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise RemoteNotFound
    return text


def modified_since(instant: datetime | None) -> dict[str, str]:
    """Returns the filter for objects modified after an instant; empty for null."""
    return {} if instant is None else {"modified_after": moment(instant), "dates_are_gmt": "true"}


def moment(instant: datetime) -> str:
    """Formats an instant for a filter, to be sent with `dates_are_gmt`."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _count(headers: Mapping[str, str], name: str) -> int | None:
    text = headers.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
