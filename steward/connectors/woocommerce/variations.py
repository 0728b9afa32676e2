"""Reads the variations of products, in as few requests as the shop allows."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from steward.connectors.woocommerce.pages import ListPages
from steward.connectors.woocommerce.responses import VARIATION_FIELDS, Row, id_of
from steward.outbound.errors import RemoteNotFound, WrongAddress

LIST_PATH = "/variations"
# The maximum number of variations of a whole shop kept in memory, about 2 KB each.
_MAX_VARIATIONS = 10_000


class VariationReader:
    """Reads the variations for one read of products.

    From WooCommerce 10.3 on, a shop lists the variations of all products. With `reads_catalogue`, that list
    is read once, and its rows are kept until their products are read. A narrowed read, and one of a shop with
    more than `max_variations` variations, requests the variations of a page of products. Older shops are
    called product by product. All three ways return the same rows: each product's rows in the order of ids.
    """

    def __init__(
        self, pages: ListPages, *, listed: bool, reads_catalogue: bool, max_variations: int = _MAX_VARIATIONS
    ) -> None:
        self._pages = pages
        self._max_variations = max_variations
        self._listed = listed
        self._reads_catalogue = reads_catalogue
        self._variations: dict[str, list[Row]] | None = None

    async def load(self, products: Sequence[Row]) -> AsyncIterator[None]:
        """Fetches the list of all variations once `products` need it. Raises CallError.

        Yields after each page of the list, so that a run can be cancelled between pages.
        """
        if not (self._listed and self._reads_catalogue and self._variations is None and _variable(products)):
            return
        rows: list[Row] = []
        try:
            async for page, total in self._pages.fetch_all(LIST_PATH, _fields(), "variations"):
                rows += page
                if max(total or 0, len(rows)) > self._max_variations:
                    self._reads_catalogue = False
                    return
                yield
        except (RemoteNotFound, WrongAddress):
            self._listed = False
        else:
            self._variations = _by_parent(rows)

    async def of_page(self, products: Sequence[Row]) -> dict[str, list[Row]]:
        """Returns the variations of variable products among `products`, by product id. Raises CallError."""
        parents = _variable(products)
        if self._variations is not None:
            by_parent = {parent: self._variations.pop(parent, []) for parent in parents}
        elif self._listed and len(parents) > 1:
            try:
                by_parent = await self._of_parents(parents)
            except (RemoteNotFound, WrongAddress):
                # The shop was downgraded since it was last checked.
                self._listed = False
                return await self._one_by_one(parents)
        else:
            return await self._one_by_one(parents)
        by_id = {id_of(row): row for row in products}
        stale = [parent for parent, rows in by_parent.items() if _lacks_some(by_id[parent], rows)]
        return by_parent | await self._one_by_one(stale)

    async def _of_parents(self, parents: Sequence[str]) -> dict[str, list[Row]]:
        rows: list[Row] = []
        params = _fields() | {"parent": ",".join(parents)}
        async for page, _ in self._pages.fetch_all(LIST_PATH, params, "variations"):
            rows += page
        by_parent = _by_parent(rows)
        return {parent: by_parent.get(parent, []) for parent in parents}

    async def _one_by_one(self, parents: Sequence[str]) -> dict[str, list[Row]]:
        by_parent: dict[str, list[Row]] = {}
        # Two at a time: more would only wait for the shop's rate limit.
        for start in range(0, len(parents), 2):
            pair = parents[start : start + 2]
            lists = await asyncio.gather(*map(self._of_one, pair), return_exceptions=True)
            for parent, rows in zip(pair, lists, strict=True):
                if isinstance(rows, BaseException):
                    raise rows
                by_parent[parent] = rows
        return by_parent

    async def _of_one(self, product: str) -> list[Row]:
        rows: dict[str, Row] = {}
        path = f"/products/{product}/variations"
        async for page, _ in self._pages.fetch_all(path, {"_fields": VARIATION_FIELDS}, "variations"):
            rows |= {id_of(row): row for row in page}
        return list(rows.values())


def _variable(products: Iterable[Row]) -> list[str]:
    return [id_of(row) for row in products if row.get("type") == "variable"]


def _fields() -> dict[str, str]:
    return {"_fields": f"{VARIATION_FIELDS},parent_id"}


def _by_parent(rows: Iterable[Row]) -> dict[str, list[Row]]:
    rows_by_parent: dict[str, list[Row]] = {}
    for row in rows:
        rows_by_parent.setdefault(str(row.get("parent_id")), []).append(row)
    return rows_by_parent


def _lacks_some(product: Row, rows: Iterable[Row]) -> bool:
    """Returns whether the product names variations that were created after the list was read."""
    named = product.get("variations")
    listed_ids = {row["id"] for row in rows}
    return isinstance(named, list) and any(number not in listed_ids for number in named)
