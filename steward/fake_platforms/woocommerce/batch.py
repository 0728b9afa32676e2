"""Batches of the fake shop: up to 100 items, each applied separately."""

from collections.abc import Callable
from typing import Any

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce.errors import ShopError

_LIMIT = 100


def _items(body: Row, name: str) -> list[Any]:
    items = body.get(name)
    return items if isinstance(items, list) else []


def _error(item_id: Any, refusal: ShopError) -> Row:
    return {"id": item_id, "error": refusal.body()}


def batch(
    body: Row,
    query: Row,
    *,
    create: Callable[[Row], Row],
    update: Callable[[int, Row], Row],
    delete: Callable[[int], Row],
) -> Any:
    """Creates, updates and deletes in this order; a failed item becomes an `error` in its place.

    More than 100 items are refused as a whole with 413. `_fields` empties the response although the writes
    were made.
    """
    requested = {name: _items(body, name) for name in ("create", "update", "delete")}
    if sum(len(items) for items in requested.values()) > _LIMIT:
        message = f"Unable to accept more than {_LIMIT} items for this request."
        raise ShopError(413, "woocommerce_rest_request_entity_too_large", message)

    def one_update(item: Any) -> Row:
        fields = item if isinstance(item, dict) else {}
        try:
            return update(_number(fields.get("id")), fields)
        except ShopError as refusal:
            return _error(fields.get("id"), refusal)

    def one_create(item: Any) -> Row:
        try:
            return create(item if isinstance(item, dict) else {})
        except ShopError as refusal:
            return _error(0, refusal)

    def one_delete(item: Any) -> Row:
        try:
            return delete(_number(item))
        except ShopError as refusal:
            return _error(item, refusal)

    acts = {"create": one_create, "update": one_update, "delete": one_delete}
    done = {name: [acts[name](item) for item in items] for name, items in requested.items() if items}
    return [] if not done or query.get("_fields") else done


def _number(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() else 0
