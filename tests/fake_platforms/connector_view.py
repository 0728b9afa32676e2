"""Compares what the connector makes of recorded answers with rules that are written here again.

Nothing of the connector's own reading decides what is right.
See docs/design/connectors.md#errors and docs/design/connectors.md#operations.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import httpx

from steward.connectors.base.deliveries import (
    EventSecrets,
    PingDelivery,
    RawBody,
    StoredEvent,
    VerifiedDelivery,
)
from steward.connectors.base.records import Order, Product
from steward.connectors.base.settings import ConnectionSecrets
from steward.connectors.base.writing import WriteState
from steward.connectors.woocommerce.connector import WooCommerceConnector
from steward.connectors.woocommerce.hooks import WooCommerceWebhooks
from steward.connectors.woocommerce.orders import customer_of, order_of
from steward.connectors.woocommerce.responses import error_of, product_of
from steward.model.change import Batch, Part, batch_key, write_key
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.outbound.client import Outbound
from steward.outbound.errors import Invalid, PlatformUnavailable
from steward.outbound.grant import WriteGrant
from steward.outbound.response import PlatformResponse, parse_json
from steward.outbound.transport import HttpTransport
from steward.security.signatures import BodyVerifier
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock
from tests.fake_platforms.recorded_shop import Row, Target, target

_NOW = datetime(2026, 11, 21, tzinfo=UTC)
_SHOP = IntegrationId(1)
_RUN = RunId("01KAH1B0M4N7P9Q2R5S8T1V3W6")
_KEYS = [write_key(_RUN, "s", "-", position=n, part=1, version=1) for n in range(200)]
# The fields that the connector asks for and needs: a response cut to fewer is not read as a record.
_PRODUCT = {"id", "name", "type", "status", "tags", "manage_stock", "images", "catalog_visibility"}
_ORDER = {"line_items", "refunds", "billing", "shipping", "coupon_lines", "meta_data", "date_paid_gmt"}
_CUSTOMER = {"email", "meta_data", "first_name", "username"}
_PRICES = {"regular_price", "sale_price"}
_OPERATIONS = {
    frozenset({"catalog_visibility"}): "product.set_visible",
    frozenset({"status"}): "set_status",
    frozenset({"meta_data"}): "set_tags",
}


async def view_differences(exchange: Row) -> list[str]:
    """Returns where the connector's error, records or outcomes of a recorded response are wrong."""
    response = exchange["response"]
    if exchange["request"]["method"] in ("HEAD", "OPTIONS"):
        return []
    differences: list[str] = []
    if response["status"] >= 300:
        differences += _error(exchange)
    else:
        body = response.get("body")
        for row in body if isinstance(body, list) else [body]:
            if isinstance(row, dict) and "body_cut" not in response:
                differences += _record(exchange, row)
    if exchange["request"]["method"] != "GET":
        differences += await _outcome(exchange)
    return differences


def _raw(response: Row) -> bytes:
    return (
        json.dumps(response["body"]).encode()
        if "body" in response
        else str(response.get("body_text", "")).encode()
    )


def _error(exchange: Row) -> Iterator[str]:
    response, write = exchange["response"], exchange["request"]["method"] != "GET"
    headers = {name.lower(): value for name, value in (response.get("headers") or {}).items()}
    if response["status"] == 429:
        return  # handled by the client before a connector sees it
    error = error_of(PlatformResponse(response["status"], headers, _raw(response)), write=write)
    right = _right_errors(exchange)
    if type(error).__name__ not in right:
        yield f"error {type(error).__name__} where {' or '.join(sorted(right))} is right"
    if not error.message or len(error.platform_text) > 300:
        yield "an error without words of its own, or with too many of the shop's"
    wait = headers.get("retry-after", "")
    named = float(wait) if response["status"] == 503 and wait.isdigit() else None
    if isinstance(error, PlatformUnavailable) and error.wait_s != named:
        yield f"a wait of {error.wait_s} s where {named} is named"
    data = (response.get("body") or {}).get("data") if isinstance(response.get("body"), dict) else None
    params = data.get("params") if isinstance(data, dict) else None
    if isinstance(error, Invalid) and params and set(error.fields) != {str(name) for name in params}:
        yield f"fields {sorted(error.fields)} where {sorted(map(str, params))} are named"


def _right_errors(exchange: Row) -> set[str]:
    """Returns the right errors for a response, row by row of the table for WooCommerce.

    See docs/design/connectors.md#errors.
    """
    response, write = exchange["response"], exchange["request"]["method"] != "GET"
    status, body = response["status"], response.get("body")
    code = body.get("code") if isinstance(body, dict) else None
    if status >= 500:
        if status == 503:
            return {"PlatformUnavailable"}
        if status == 501:
            return {"Invalid"}
        return (
            {"UnusableResponse"}
            if isinstance(code, str) and code.startswith("woocommerce_")
            else {"PlatformUnavailable"}
        )
    if not isinstance(code, str) and "<html" in str(response.get("body_text", "")).lower():
        return {"WrongResponder"}  # a web page instead of data
    if status < 400:
        return {"WrongAddress"}
    if not isinstance(code, str):
        return {"Unauthorized"} if status in (401, 403) else {"WrongAddress"}
    if status == 401:
        if code != "woocommerce_rest_authentication_error":
            return {"Unauthorized"}
        # One code stands for a wrong secret and for a missing right; the caller's key tells which it is.
        by_auth = {
            "read_only": {"MissingRight"} if write else {"Unauthorized"},
            "bad_secret": {"Unauthorized"},
        }
        right = by_auth.get(exchange["auth"], {"Unauthorized", "MissingRight"})
        return right | ({"MissingRight"} if write else set())
    if status == 403:
        return {"MissingRight"}
    if code == "rest_no_route":
        return {"WrongAddress"}
    if status == 404 or code.endswith("_invalid_id") or code == "woocommerce_rest_invalid_product_id":
        return {"RemoteNotFound"}
    return {"Invalid"}


def _record(exchange: Row, row: Row) -> Iterator[str]:
    addressed = target(exchange["request"]["path"])
    if addressed is None or addressed.is_batch or "id" not in row:
        return
    held = parse_json(json.dumps(row).encode())
    assert isinstance(held, dict)
    if (
        addressed.kind == "product"
        and {"type", "tags", "manage_stock", "images", "catalog_visibility"} <= row.keys()
    ):
        if row["type"] in ("simple", "variable", "grouped", "external"):
            yield from _product(row, product_of(held, (), base="https://x", currency="EUR"))
    elif (
        addressed.kind == "order"
        and {"line_items", "refunds", "billing", "shipping", "coupon_lines"} <= row.keys()
    ):
        yield from _order(row, order_of(held, base="https://x"))
    elif addressed.kind == "customer" and row.keys() >= _CUSTOMER:
        customer = customer_of(held, base="https://x")
        yield from _compare(
            {"id": str(row["id"]), "email": row["email"], "tags": _meta_tags(row)},
            {"id": customer.id, "email": customer.email, "tags": set(customer.tags)},
        )


def _product(row: Row, product: Product) -> Iterator[str]:
    right: Row = {
        "id": str(row["id"]),
        "visible": row["status"] == "publish" and row["catalog_visibility"] != "hidden",
        "visibility": row["catalog_visibility"],
        "tags": len(row["tags"]),
        "sellable": row["type"] in ("simple", "variable"),
    }
    ours: Row = {
        "id": product.id,
        "visible": product.visible,
        "visibility": product.visibility,
        "tags": len(product.tags),
        "sellable": product.sellable,
    }
    if row["type"] == "simple" and {"regular_price", "sale_price", "stock_quantity"} <= row.keys():
        [variant] = product.variants
        sale, regular = row["sale_price"], row["regular_price"]
        right |= {
            "price": (sale or regular) or None,
            "compare_at": (regular or None) if sale else None,
            "stock": row["stock_quantity"] if row["manage_stock"] else None,
            "tracked": row["manage_stock"] is True,
            "sku": row["sku"],
        }
        ours |= {name: getattr(variant, name) for name in ("price", "compare_at", "stock", "tracked", "sku")}
    yield from _compare(right, ours)


def _order(row: Row, order: Order) -> Iterator[str]:
    yield from _compare(
        {
            "id": str(row["id"]),
            "status": row["status"],
            "total": Decimal(row["total"]),
            "paid": row["date_paid_gmt"] is not None,
            "fulfilled": row["status"] == "completed",
            "customer": str(row["customer_id"]) if row["customer_id"] else None,
            "lines": [(str(line["id"]), line["quantity"]) for line in row["line_items"]],
            "country": row["shipping"]["country"] or row["billing"]["country"] or None,
            "refunded": -sum((Decimal(refund["total"]) for refund in row["refunds"]), Decimal(0)),
            "tags": _meta_tags(row),
        },
        {
            "id": order.id,
            "status": order.status,
            "total": Decimal(order.total),
            "paid": order.paid,
            "fulfilled": order.fulfilled,
            "customer": order.customer_id,
            "lines": [(line.id, line.quantity) for line in order.lines],
            "country": order.country,
            "refunded": Decimal(order.refunded),
            "tags": set(order.tags),
        },
    )


def _meta_tags(row: Row) -> set[str]:
    tags: set[str] = set()
    for entry in row["meta_data"]:
        value = entry["value"] if entry["key"] == "steward_tags" else ""
        tags |= {tag.strip() for tag in (value.split(",") if isinstance(value, str) else value or [])}
    return tags - {""}


def _compare(right: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    for name, value in right.items():
        if ours[name] != value:
            yield f"{name} {ours[name]!r} where {value!r} is right"


async def _outcome(exchange: Row) -> list[str]:
    """Returns where the writer's outcomes are wrong, if the connector sends calls of this form at all."""
    parts = parts_of(exchange)
    if not parts:
        return []
    response = exchange["response"]
    if response["status"] >= 300:
        right = [_whole_outcome(exchange)] * len(parts)
    else:
        body = response.get("body")
        is_batch = exchange["request"]["path"].rstrip("/").endswith("/batch")
        rows = body.get("update") if is_batch and isinstance(body, dict) else [body]
        right = right_outcomes(parts, rows)
    ours = await _written(parts, response)
    return [
        f"{part.operation} of {part.target}: {outcome} where {expected} is right"
        for part, expected, outcome in zip(parts, right, ours, strict=True)
        if expected != outcome
    ]


def parts_of(exchange: Row) -> list[Part]:
    """Returns the parts that the connector would send as the recorded request, or none."""
    body, addressed = exchange["request"].get("body"), target(exchange["request"]["path"])
    if addressed is None or not isinstance(body, dict):
        return []
    return list(_parts(addressed, body))[: len(_KEYS)]


def _whole_outcome(exchange: Row) -> WriteState:
    """Returns the right outcome of a refused request: 429 did nothing, a 5xx may have done everything.

    See docs/design/connectors.md#errors.
    """
    status = exchange["response"]["status"]
    if status == 429:
        return WriteState.NOT_SENT
    if status >= 500 and status != 501:
        return WriteState.UNKNOWN
    return WriteState.CONFLICT if _right_errors(exchange) == {"RemoteNotFound"} else WriteState.REFUSED


def right_outcomes(parts: list[Part], rows: Any) -> list[WriteState]:
    """Judges each item by itself if the response has all items in their order; otherwise all are unknown."""
    fits = isinstance(rows, list) and len(rows) == len(parts)
    if fits:
        ids = [str(row.get("id")) if isinstance(row, dict) else "" for row in rows]
        fits = ids == [part.target.rpartition("/")[2] for part in parts]
    if not fits:
        return [WriteState.UNKNOWN] * len(parts)
    return [_right_outcome(part, row) for part, row in zip(parts, rows, strict=True)]


def _item(above: str, item: Row) -> Part | None:
    values = {name: value for name, value in item.items() if name != "id"}
    target_id = f"{above}{item.get('id')}"
    if "id" not in item:
        return None
    if values.keys() == {"stock_quantity"}:
        return Part("inventory.set", _SHOP, target_id, values, None, values)
    # The connector always writes both prices: one that is left out counts as removed.
    texts = {name: value for name, value in values.items() if name in _PRICES and isinstance(value, str)}
    whole = {"regular_price": "", "sale_price": "", **texts}
    return Part("variant.set_price", _SHOP, target_id, whole, None, whole)


def _parts(addressed: Target, body: Row) -> Iterator[Part]:
    kind, number = addressed.kind, addressed.id
    if addressed.is_batch and kind in ("product", "variation") and body.keys() == {"update"}:
        above = f"{addressed.parent}/" if addressed.parent else ""
        items = [_item(above, item) for item in body["update"]]
        if None not in items:
            yield from (item for item in items if item is not None)
        return
    operation = _OPERATIONS.get(frozenset(body))
    if number is None or operation is None or kind not in ("product", "order", "customer"):
        return
    if operation == "set_status" and kind in ("product", "order"):
        yield Part(f"{kind}.set_status", _SHOP, str(number), body, None, body)
    elif operation == "set_tags" and kind in ("order", "customer") and isinstance(body["meta_data"], list):
        if [entry.get("key") for entry in body["meta_data"]] == ["steward_tags"]:
            after = {"tags": sorted(_meta_tags(body))}
            yield Part(f"{kind}.set_tags", _SHOP, str(number), after, None, after)
    elif operation == "product.set_visible" and kind == "product":
        yield Part(operation, _SHOP, str(number), body, None, body)


def _right_outcome(part: Part, row: Row) -> WriteState:
    """Returns applied only if each field of the response has the value that was sent.

    See docs/design/connectors.md#change-operations and docs/design/connectors.md#operations.
    """
    if "error" in row:
        code = row["error"].get("code", "")
        gone = code.endswith("_invalid_id") or code == "woocommerce_rest_invalid_product_id"
        return WriteState.CONFLICT if gone else WriteState.REFUSED
    assert isinstance(part.after, dict)
    if part.operation.endswith("set_tags"):
        if "meta_data" not in row:
            return WriteState.UNKNOWN
        same = {tag.casefold() for tag in _meta_tags(row)} == {
            str(tag).casefold() for tag in part.after["tags"]
        }
    else:
        same = all(name in row and _equal(name, value, row[name]) for name, value in part.after.items())
    return WriteState.APPLIED if same else WriteState.UNKNOWN


def _equal(name: str, expected: Any, seen: Any) -> bool:
    if name not in ("regular_price", "sale_price") or not expected or not seen:
        return bool(expected == seen)
    try:
        return Decimal(expected) == Decimal(seen)
    except InvalidOperation:
        return bool(expected == seen)


class _Responses(httpx.AsyncBaseTransport):
    def __init__(self, response: Row) -> None:
        self._response = response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Returns the recorded response to any request."""
        raw = httpx.ByteStream(_raw(self._response))
        return httpx.Response(
            self._response["status"], headers=self._response.get("headers") or {}, stream=raw
        )


async def _written(parts: list[Part], response: Row) -> list[WriteState]:
    """Returns the outcomes that the connector's writer gives over the real client."""
    clock, register = FakeClock(_NOW), SecretRegister()
    wire = HttpTransport(
        clock, register, Log(lambda line: None, clock, register), transport=_Responses(response)
    )
    shop = WooCommerceConnector(private_hosts=(), read_s=20.0)
    credentials = {"url": "https://shop.example", "consumer_key": "ck_x", "consumer_secret": "cs_x"}
    settings = shop.settings(credentials)
    secrets = ConnectionSecrets(_SHOP, settings.plain, settings.sealed, currency="EUR")
    keys = tuple(_KEYS[: len(parts)])
    grant = WriteGrant(
        org=OrgId(1),
        run=_RUN,
        epoch=1,
        change_hash="0" * 64,
        connections=dict.fromkeys(keys, _SHOP),
        confirmed_until=lambda: _NOW + timedelta(seconds=30),
        send_by=_NOW + timedelta(seconds=5),
    )
    writer = shop.writer(Outbound(wire).write_client(grant, _SHOP, shop.endpoint(secrets)), secrets)
    outcomes = await writer.apply(Batch(tuple(parts), keys, batch_key(keys)))
    return [outcome.state for outcome in outcomes]


def delivery_differences(delivery: Row, secret: str, hooks: Mapping[str, str]) -> Iterator[str]:
    """Yields where the connector judges a recorded delivery wrongly: its signature, ping or object."""
    request = delivery["request"]
    parts = request.get("body_parts", [request.get("body") or ""])
    body = "".join(p["repeat"] * p["times"] if isinstance(p, dict) else p for p in parts).encode()
    headers = {name.lower(): value for name, value in request["headers"].items()}
    signed = BodyVerifier([secret.encode()])
    signed.feed(body)
    raw = RawBody(body[:262_144], len(body), hashlib.sha256(body).hexdigest(), signed)
    verdict = WooCommerceWebhooks().verify_event(headers, raw, EventSecrets(None, hooks))
    if not delivery["signed"]:
        if verdict != PingDelivery():
            yield f"{type(verdict).__name__} where PingDelivery is right"
        return
    if not isinstance(verdict, VerifiedDelivery) or verdict.native != headers["x-wc-webhook-topic"]:
        yield f"{type(verdict).__name__} where VerifiedDelivery is right"
        return
    broken = BodyVerifier([base64.b64encode(secret.encode())])
    broken.feed(body)
    other = RawBody(raw.prefix, raw.size, raw.sha256, broken)
    if isinstance(
        WooCommerceWebhooks().verify_event(headers, other, EventSecrets(None, hooks)), VerifiedDelivery
    ):
        yield "verified with another secret"
    event = WooCommerceWebhooks().read_event(StoredEvent(verdict.native, body, _NOW))
    row = json.loads(body)
    object_id = f"{row['parent_id']}/{row['id']}" if row.get("type") == "variation" else str(row["id"])
    if event.object_id != object_id:
        yield f"object {event.object_id} where {object_id} is right"
