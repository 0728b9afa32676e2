"""Pages of a WooCommerce list, always in the order of ids, nothing lost when objects go meanwhile."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime

from steward.connectors.woocommerce.answers import Row, id_of, row_of, rows_of
from steward.outbound.client import ReadClient
from steward.outbound.errors import CallTimedOut, RemoteNotFound
from steward.outbound.response import PlatformResponse

PREFIX = "/wp-json/wc/v3"
PAGE_LENGTH = 100
# The lengths a page is asked in: after a timeout the next shorter one.
PAGE_LENGTHS = (PAGE_LENGTH, 50, 25, 10)
# How many objects one call names: as many as a page holds, addresses stay short.
MAX_IDS_A_CALL = 100


class ListPages:
    """The lists of one shop, as one run reads them.

    A page that does not come in time is asked for again in a shorter length, which then holds for every
    list of the run: a shop that cannot make one page in time seldom makes the next one.
    """

    def __init__(self, http: ReadClient) -> None:
        self._http = http
        self._longest = PAGE_LENGTH

    async def fetch_one(self, path: str, fields: str, operation: str) -> Row:
        """A single object; one in the trash counts as gone. Raises CallError."""
        answer = await self._http.get(
            PREFIX + path, {"_fields": fields} if fields else None, operation=operation
        )
        row = row_of(answer)
        if row.get("status") == "trash":
            raise RemoteNotFound
        return row

    async def fetch_all(
        self, path: str, params: Mapping[str, str], operation: str, *, size: int = PAGE_LENGTH
    ) -> AsyncIterator[tuple[list[Row], int | None]]:
        """Every page with the total it told; each object once. `Link` is not followed (connectors 7.2).

        `position` counts the objects read so far. The page that holds it is asked for, so that a length
        that changed leaves nothing out; what is read twice is dropped. When the list grew shorter while it
        was read, what moved forward over a page's edge is read by going back as many objects as are gone.
        """
        position, seen, last = 0, set[str](), None
        while True:
            answer, length = await self._page(path, params, operation, position=position, size=size)
            number = position // length + 1
            rows = rows_of(answer)
            pages, total = _count(answer.headers, "x-wp-totalpages"), _count(answer.headers, "x-wp-total")
            fresh = [row for row in rows if id_of(row) not in seen]
            seen |= {id_of(row) for row in fresh}
            if fresh or number == 1:
                yield fresh, total
            gone = max(last - total, 0) if last is not None and total is not None else 0
            last = total
            if gone and number > 1:
                position = max((number - 1) * length - gone, 0)
                continue
            if not rows or (pages is not None and number >= pages) or (pages is None and len(rows) < length):
                return
            position = number * length

    async def _page(
        self, path: str, params: Mapping[str, str], operation: str, *, position: int, size: int
    ) -> tuple[PlatformResponse, int]:
        """The page that holds `position`, and its length: at most `size`, shorter after timeouts."""
        while True:
            length = min(size, self._longest)
            shorter = next((each for each in PAGE_LENGTHS if each < length), None)
            page = {"per_page": str(length), "page": str(position // length + 1)}
            query = {**page, "orderby": "id", "order": "asc", **params}
            try:
                answer = await self._http.get(
                    PREFIX + path, query, operation=operation, retry_timeouts=shorter is None
                )
            except CallTimedOut:
                if shorter is None:
                    raise
                self._longest = min(self._longest, shorter)
            else:
                return answer, length

    async def fetch_by_ids(
        self, path: str, ids: Sequence[str], params: Mapping[str, str], operation: str
    ) -> AsyncIterator[tuple[list[Row], int | None]]:
        """The objects of those ids, those that exist, in their order. Raises CallError."""
        numbers = sorted({int(number_of(each)) for each in ids})
        for at in range(0, len(numbers), MAX_IDS_A_CALL):
            include = ",".join(map(str, numbers[at : at + MAX_IDS_A_CALL]))
            async for rows, _ in self.fetch_all(path, {**params, "include": include}, operation):
                yield rows, len(numbers)


def number_of(text: str) -> str:
    """An id as it may stand in a path. Raises RemoteNotFound for anything that is no number."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise RemoteNotFound
    return text


def moment(instant: datetime) -> str:
    """An instant as a filter takes it, with `dates_are_gmt`."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _count(headers: Mapping[str, str], name: str) -> int | None:
    text = headers.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
