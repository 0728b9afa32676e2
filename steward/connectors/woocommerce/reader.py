"""Reads a WooCommerce shop: pages in the order of ids, and the values a write is compared with."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC
from typing import Any, TypeVar, cast

from steward.connectors.base import (
    ById,
    CallError,
    ChangeOp,
    Current,
    JsonValue,
    NotFound,
    Nothing,
    Page,
    Part,
    Product,
    ProductsAsk,
    ReadOp,
    Tag,
    Variant,
    WriteOutcome,
    WriteState,
)
from steward.connectors.woocommerce.answers import (
    PRODUCT_FIELDS,
    VARIATION_FIELDS,
    Row,
    id_of,
    names_of,
    product_of,
    quantity_of,
    row_of,
    rows_of,
    text_of,
)
from steward.outbound.client import ReadHttp

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741

PREFIX = "/wp-json/wc/v3"
_PAGE = 100
_NAMED = 50


class WooCommerceReader:
    """A reader of one shop; `base` is its address, for links to its own pages."""

    def __init__(
        self, http: ReadHttp, changes: Mapping[str, ChangeOp[Any]], *, base: str, currency: str | None
    ) -> None:
        self._http = http
        self._changes = changes
        self._base = base
        self._currency = currency

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[Page[I]]:
        """Pages of a read of this connector. Raises CallError; KeyError for a read it does not have."""
        reads: dict[str, Callable[[Any], AsyncIterator[Page[Any]]]] = {
            "products": self._products,
            "product": self._product,
            "variants": self._variants,
            "variant": self._variant,
            "tags": self._tags,
        }
        return cast("AsyncIterator[Page[I]]", reads[op.name](params))

    async def current(self, parts: Sequence[Part]) -> list[Current]:
        """Each part's value as it is now, in few calls. Raises CallError."""
        wanted: dict[str, set[str]] = defaultdict(set)
        for part in parts:
            if part.operation != "product_tag.create":
                parent, _, own = part.target.rpartition("/")
                wanted[parent].add(own)
        rows: dict[str, Row] = {}
        for parent, ids in wanted.items():
            rows |= await self._by_ids(parent, sorted(ids, key=int))
        found: list[Current] = []
        for part in parts:
            if part.operation == "product_tag.create":
                found.append(Current(part, await self._tag_value(part.target)))
            else:
                row = rows.get(part.target)
                value = None if row is None else value_of(part.operation, row)
                found.append(Current(part, value, gone=row is None))
        return found

    async def confirm(self, part: Part) -> WriteOutcome:
        """Reads the value back: as wanted, as before, or something else; unknown while unreadable."""
        try:
            [now] = await self.current([part])
        except CallError as error:
            return WriteOutcome(WriteState.UNKNOWN, reason=error.message, error=error.kind)
        if now.gone:
            return WriteOutcome(WriteState.CONFLICT, reason=NotFound.words, error=NotFound.kind)
        op = self._changes[part.operation]
        if op.same(part.after, now.value):
            return WriteOutcome(WriteState.APPLIED, seen=now.value)
        if op.same(part.before, now.value):
            return WriteOutcome(WriteState.NOT_SENT, seen=now.value)
        return WriteOutcome(WriteState.CONFLICT, seen=now.value, reason="It has another value now.")

    async def find_marker(self, part: Part, key: str) -> bool:
        """No operation here is settled by a marker."""
        return False

    async def _products(self, ask: ProductsAsk) -> AsyncIterator[Page[Product]]:
        seen: set[str] = set()
        async for rows, total in self._product_rows(ask):
            fresh = [row for row in rows if id_of(row) not in seen]
            seen |= {id_of(row) for row in fresh}
            products = await self._with_variations(fresh)
            more = str(len(seen)) if len(seen) < (total or 0) else None
            yield Page(tuple(products), next=more, total=total)

    async def _product(self, ask: ById) -> AsyncIterator[Page[Product]]:
        answer = await self._http.get(
            f"{PREFIX}/products/{_number(ask.id)}", {"_fields": PRODUCT_FIELDS}, operation="product"
        )
        row = row_of(answer)
        if row.get("type") == "variation":
            raise NotFound
        [product] = await self._with_variations([row])
        yield Page((product,), total=1)

    async def _variants(self, ask: ProductsAsk) -> AsyncIterator[Page[Variant]]:
        async for page in self._products(ask):
            variants = [each for product in page.items if product.sellable for each in product.variants]
            if ask.skus is not None:
                variants = [variant for variant in variants if variant.sku in ask.skus]
            yield Page(tuple(variants), next=page.next)

    async def _variant(self, ask: ById) -> AsyncIterator[Page[Variant]]:
        parent, _, _ = ask.id.partition("/")
        async for page in self._product(ById(parent)):
            found = [each for each in page.items[0].variants if each.id == ask.id]
            if not found:
                raise NotFound
            yield Page((found[0],), total=1)

    async def _tags(self, ask: Nothing) -> AsyncIterator[Page[Tag]]:
        async for rows, total in self._paged("/products/tags", {"_fields": "id,name"}, "tags"):
            tags = names_of({"tags": list(rows)}, "tags")
            yield Page(tuple(Tag(number, name) for name, number in tags), total=total)

    async def _product_rows(self, ask: ProductsAsk) -> AsyncIterator[tuple[list[Row], int | None]]:
        params = {"_fields": PRODUCT_FIELDS} | ({"status": "publish"} if ask.published_only else {})
        if ask.modified_after is not None:
            moment = ask.modified_after.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
            params |= {"modified_after": moment, "dates_are_gmt": "true"}
        ids = ask.ids
        if ask.skus is not None and not any("," in sku for sku in ask.skus):
            # The filter takes a list joined by commas; with a comma inside a SKU everything is read.
            named = await self._products_of_skus(ask.skus)
            ids = named if ids is None else tuple(each for each in named if each in ids)
        if ids is None:
            async for page in self._paged("/products", params, "products"):
                yield page
            return
        numbers = sorted({int(_number(each)) for each in ids})
        for at in range(0, len(numbers), _NAMED):
            include = ",".join(map(str, numbers[at : at + _NAMED]))
            async for rows, _ in self._paged("/products", {**params, "include": include}, "products"):
                yield rows, len(numbers)

    async def _products_of_skus(self, skus: Sequence[str]) -> tuple[str, ...]:
        found: set[str] = set()
        for at in range(0, len(skus), _NAMED):
            params = {
                "sku": ",".join(skus[at : at + _NAMED]),
                "_fields": "id,type,parent_id",
                "status": "any",
            }
            async for rows, _ in self._paged("/products", params, "products"):
                for row in rows:
                    parent = row.get("parent_id")
                    found.add(str(parent) if row.get("type") == "variation" and parent else id_of(row))
        return tuple(found)

    async def _with_variations(self, rows: Sequence[Row]) -> list[Product]:
        variable = [row for row in rows if row.get("type") == "variable"]
        variations: dict[str, list[Row]] = {}
        # Two at a time: more would only wait for the shop's pace (connectors 7.2).
        for at in range(0, len(variable), 2):
            pair = [id_of(row) for row in variable[at : at + 2]]
            lists = await asyncio.gather(*map(self._variations, pair), return_exceptions=True)
            for number, found in zip(pair, lists, strict=True):
                if isinstance(found, BaseException):
                    raise found
                variations[number] = found
        return [
            product_of(row, variations.get(id_of(row), ()), base=self._base, currency=self._currency)
            for row in rows
        ]

    async def _variations(self, product: str) -> list[Row]:
        rows: dict[str, Row] = {}
        path = f"/products/{product}/variations"
        async for page, _ in self._paged(path, {"_fields": VARIATION_FIELDS}, "variations"):
            rows |= {id_of(row): row for row in page}
        return list(rows.values())

    async def _paged(
        self, path: str, params: Mapping[str, str], operation: str
    ) -> AsyncIterator[tuple[list[Row], int | None]]:
        """Every page, always in the order of ids; `Link` is not followed (connectors 7.2)."""
        number = 1
        while True:
            query = {"per_page": str(_PAGE), "page": str(number), "orderby": "id", "order": "asc", **params}
            answer = await self._http.get(PREFIX + path, query, operation=operation)
            rows = rows_of(answer)
            pages, total = _count(answer.headers, "x-wp-totalpages"), _count(answer.headers, "x-wp-total")
            if rows or number == 1:
                yield rows, total
            if not rows or (pages is not None and number >= pages) or (pages is None and len(rows) < _PAGE):
                return
            number += 1

    async def _by_ids(self, parent: str, ids: Sequence[str]) -> dict[str, Row]:
        path = f"/products/{_number(parent)}/variations" if parent else "/products"
        fields = VARIATION_FIELDS if parent else PRODUCT_FIELDS
        rows: dict[str, Row] = {}
        for at in range(0, len(ids), _NAMED):
            include = ",".join(map(_number, ids[at : at + _NAMED]))
            params = {"_fields": fields, "include": include}
            try:
                async for page, _ in self._paged(path, params, "current"):
                    rows |= {f"{parent}/{id_of(row)}" if parent else id_of(row): row for row in page}
            except NotFound:
                return {}
        return rows

    async def _tag_value(self, name: str) -> JsonValue:
        params = {"search": name, "_fields": "id,name"}
        async for rows, _ in self._paged("/products/tags", params, "current"):
            for known, number in names_of({"tags": list(rows)}, "tags"):
                if known.casefold() == name.casefold():
                    return {"name": known, "id": number}
        return None


def value_of(operation: str, row: Row) -> dict[str, JsonValue]:
    """The value an operation changes, out of a product, a variation or an echo. Raises Broken."""
    if operation == "variant.set_price":
        return {name: text_of(row, name) for name in ("regular_price", "sale_price")}
    if operation == "inventory.set":
        return {"stock_quantity": quantity_of(row)}
    if operation == "product.set_visible":
        return {"catalog_visibility": text_of(row, "catalog_visibility")}
    return {"tags": [name for name, _ in names_of(row, "tags")]}


def _number(text: str) -> str:
    """An id as it may stand in a path. Raises NotFound for anything that is no number."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise NotFound
    return text


def _count(headers: Mapping[str, str], name: str) -> int | None:
    text = headers.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
