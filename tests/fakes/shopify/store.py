"""The fake store as an ASGI application: tokens, documents, results, faults, its ledger and deliveries."""

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from steward.fake_platforms.application import InProcessTransport
from steward.fake_platforms.exchange import ConnectionDropped, FakeRequest, Row
from steward.fake_platforms.exchange import FakeResponse as Done
from steward.fake_platforms.faults import FaultList, InjectedFault
from steward.fake_platforms.ledger import Ledger, LedgerEntry
from tests.fakes.shopify import cost
from tests.fakes.shopify.bulk import BulkOperations
from tests.fakes.shopify.execution import (
    IdempotencyKeys,
    RunningDocument,
    checked,
    operation_of,
    roots_of,
    run,
)
from tests.fakes.shopify.goods import Goods, number
from tests.fakes.shopify.mutations import Write
from tests.fakes.shopify.schema import schema_of

DOMAIN = "teapots.myshopify.com"
SCOPES = (
    *("write_products", "write_inventory", "read_locations", "write_orders", "read_all_orders"),
    *("write_customers", "write_publications", "write_merchant_managed_fulfillment_orders"),
    *("write_draft_orders", "write_online_store_navigation"),
)
TOKEN_LASTS = timedelta(hours=24)
_READING = {"bulkOperationRunQuery"}
# What a delivery's body calls a row's fields.
_SPOKEN = {"createdAt": "created_at", "updatedAt": "updated_at", "cancelledAt": "cancelled_at"}


@dataclass
class App:
    """The app that is installed: what it signs in with, and what it may do."""

    client_id: str = "shopify-client"
    client_secret: str = "shps_0123456789abcdef"
    fixed_token: str = "shpat_fixed0123456789"
    scopes: tuple[str, ...] = SCOPES
    installed: bool = True


class ShopifyFake(Goods):
    """One store with one app. `now` is the tests' clock; `deliver` takes the webhooks."""

    def __init__(
        self,
        domain: str = DOMAIN,
        *,
        now: Callable[[], datetime],
        deliver: httpx.AsyncBaseTransport | None = None,
        currency: str = "EUR",
    ) -> None:
        super().__init__(now, currency)
        self.domain, self.app, self.deliver = domain, App(), deliver
        self.url = f"https://{domain}"
        self.zone, self.name = "Europe/Berlin", "Teapots"
        self.bucket, self.keys, self.faults, self.ledger = (
            cost.Bucket(now),
            IdempotencyKeys(),
            FaultList(),
            Ledger(),
        )
        self.bulk = BulkOperations(self.url)
        self.tokens: dict[str, datetime] = {}
        self.exchanges = 0
        self.documents: list[str] = []
        self.hits: dict[str, str] = {}
        self.deliveries: list[httpx.Request] = []
        self._waiting: list[tuple[str, Row]] = []
        self.add_channel("Online Store")
        self.add_channel("Point of Sale")
        self.add_location("Warehouse")
        self._asgi = Starlette(
            routes=[
                Route("/admin/oauth/access_token", self._token, methods=["POST"]),
                Route("/admin/api/{version}/graphql.json", self._graphql, methods=["POST"]),
                Route("/bulk/{name}", self._result, methods=["GET"]),
            ]
        )

    def settings(self) -> dict[str, str]:
        """The connecting form, by client id and secret."""
        app = self.app
        return {"shop_domain": self.domain, "client_id": app.client_id, "client_secret": app.client_secret}

    def transport(self) -> httpx.AsyncBaseTransport:
        """Leads an httpx client here without a socket; a dropped connection is httpx's own error."""
        return InProcessTransport(self)  # type: ignore[arg-type]  # any ASGI application will do

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI entry."""
        await self._asgi(scope, receive, send)

    def fault(self, kind: str, operation: str | None = None, **more: Any) -> None:
        """A call goes wrong as a fault of the sandbox says; `operation` names the one document it hits."""
        new_fault = self.faults.make({"kind": kind, "method": "POST", "path": "**/graphql.json", **more})
        if operation is not None:
            self.hits[new_fault.id] = operation

    def writes(self) -> list[Row]:
        """Every change that arrived, also when refused or cut off."""
        return [entry for entry in self.ledger.writes() if entry["service"] == "shopify"]

    def applied(self) -> list[Row]:
        """Those that changed something."""
        return [entry for entry in self.writes() if entry["applied"]]

    async def _token(self, request: Request) -> Response:
        form = {name: values[-1] for name, values in parse_qs((await request.body()).decode()).items()}
        self.exchanges += 1
        if form.get("grant_type") != "client_credentials":
            return JSONResponse({"error": "unsupported_grant_type"}, 400)
        good = (form.get("client_id"), form.get("client_secret")) == (
            self.app.client_id,
            self.app.client_secret,
        )
        if not good or not self.app.installed:
            return JSONResponse({"error": "invalid_client" if not good else "app_not_installed"}, 400)
        token = f"shpca_{uuid.uuid4().hex}"
        self.tokens[token] = self.now() + TOKEN_LASTS
        scope = ",".join(self.app.scopes)
        seconds = int(TOKEN_LASTS.total_seconds())
        return JSONResponse({"access_token": token, "scope": scope, "expires_in": seconds})

    async def _result(self, request: Request) -> Response:
        if "x-shopify-access-token" in request.headers:
            raise AssertionError("a result is fetched without the token")
        content = self.bulk.results.get(request.url.path)
        return (
            Response(content, media_type="application/jsonl")
            if content is not None
            else Response(status_code=404)
        )

    async def _graphql(self, request: Request) -> Response:
        body, version = await request.body(), request.path_params["version"]
        payload = json.loads(body)
        document, wrong = checked(version, payload["query"])
        if wrong:
            return self._versioned_response({"errors": [{"message": message} for message in wrong]}, version)
        operation = operation_of(document)
        name = operation.name.value if operation.name else ""
        is_write = operation.operation.value == "mutation" and not set(roots_of(document)) <= _READING
        entry = self._arrived(request, body, is_write, roots_of(document))
        fault = self._struck(name)
        if fault is not None:
            entry.fault = fault.id
        if fault is not None and fault.kind in ("status", "throttle", "drop_before"):
            return self._failed(entry, fault, version)
        self.documents.append(name)
        response, done = self._answered(request, document, payload.get("variables") or {}, version)
        self.ledger.complete(
            entry, done, status=None if fault and fault.kind == "drop_after" else response.status_code
        )
        if fault is not None and fault.kind == "drop_after":
            raise ConnectionDropped("the fake store closed the connection without answering")
        if fault is not None and fault.kind == "status_after":
            return self._failed(entry, fault, version)
        return response

    def _struck(self, name: str) -> InjectedFault | None:
        """The fault that hits this document; one for another document is not counted as hit."""
        for fault in self.faults.all():
            operation = self.hits.get(fault.id)
            if operation not in (None, name) or fault.is_spent:
                continue
            fault.seen += 1
            if fault.seen > fault.skip:
                fault.hits += 1
                return fault
        return None

    def _arrived(self, request: Request, body: bytes, is_write: bool, roots: list[str]) -> LedgerEntry:
        upkeep = all(root.startswith("webhookSubscription") for root in roots)
        service = "upkeep" if is_write and upkeep else "shopify"
        response = FakeRequest(
            "POST" if is_write else "GET",
            request.url.path,
            request.url.path,
            (),
            {name.lower(): value for name, value in request.headers.items()},
            body,
            "https",
        )
        return self.ledger.record_arrival(response, service, arrived_at=self.now())

    def _failed(self, entry: LedgerEntry, fault: InjectedFault, version: str) -> Response:
        if fault.kind == "drop_before":
            self.ledger.complete(entry, None, status=None)
            raise ConnectionDropped("the fake store closed the connection without answering")
        status = 429 if fault.kind == "throttle" else fault.status or 500
        entry.status = status
        headers = {"retry-after": str(fault.retry_after)} if fault.kind == "throttle" else {}
        return JSONResponse(fault.body or {"errors": "Refused on request of a fault."}, status, headers)

    def _answered(
        self, request: Request, document: Any, variables: Row, version: str
    ) -> tuple[Response, Done | None]:
        token = request.headers.get("x-shopify-access-token", "")
        if token != self.app.fixed_token and self.tokens.get(token, self.now()) <= self.now():
            words = "[API] Invalid API key or access token (unrecognized login or wrong password)"
            return JSONResponse({"errors": words}, 401), None
        from_schema = cost.requested(schema_of(version), document, variables)
        if from_schema > cost.MAX_QUERY_COST:
            limit = cost.MAX_QUERY_COST
            words = f"Query cost is {from_schema}, which exceeds the single query max cost limit ({limit})."
            error = {"message": words, "extensions": {"code": "MAX_COST_EXCEEDED"}}
            return self._versioned_response({"errors": [error]}, version), None
        if from_schema > self.bucket.available:
            error = {"message": "Throttled", "extensions": {"code": "THROTTLED"}}
            extensions = {"cost": self.bucket.as_extension(from_schema, None)}
            return self._versioned_response({"errors": [error], "extensions": extensions}, version), None
        running = self._running(version)
        running.bulk = lambda text: self.bulk.start(running, text)
        for row in self.of("BulkOperation"):
            if "node" in roots_of(document) and variables.get("id") == row["id"]:
                self.bulk.look(row)
        data, errors = run(running, document, variables)
        actual = cost.MUTATION if running.write.touched else min(_objects(data), from_schema)
        self.bucket.take(actual)
        body: Row = {"data": data, "extensions": {"cost": self.bucket.as_extension(from_schema, actual)}}
        if errors:
            body["errors"] = [error.formatted for error in errors]
        self._waiting += running.write.caused
        return self._versioned_response(body, version), Done(
            200, changed_objects=tuple(running.write.touched)
        )

    def _running(self, version: str) -> RunningDocument:
        held = frozenset(self.app.scopes)
        reading = {f"read_{scope.removeprefix('write_')}" for scope in held if scope.startswith("write_")}
        shop = {
            "__typename": "Shop",
            "id": "gid://shopify/Shop/1",
            "email": "owner@shop.example",
            "name": self.name,
            "myshopifyDomain": self.domain,
            "ianaTimezone": self.zone,
            "currencyCode": self.currency,
        }
        return RunningDocument(self, version, held | reading, shop, self.keys, Write(self))

    def _versioned_response(self, body: Row, version: str) -> Response:
        return JSONResponse(body, headers={"x-shopify-api-version": version})

    async def settle(self) -> None:
        """Sends the webhooks that changes caused, one by one."""
        waiting, self._waiting = self._waiting, []
        for topic, row in waiting:
            await self.tell(topic, row)

    async def tell(self, topic: str, row: Row, *, event_id: str | None = None) -> list[int]:
        """One delivery to every subscription of a topic, signed with the client secret; the statuses."""
        statuses = []
        for hook in self.of("WebhookSubscription"):
            if hook["topic"] != topic:
                continue
            content = json.dumps(self.body_of(row, hook["includeFields"])).encode()
            request = self.delivery(topic, content, hook["uri"], event_id=event_id)
            self.deliveries.append(request)
            if self.deliver is not None:
                response = await self.deliver.handle_async_request(request)
                await response.aread()
                statuses.append(response.status_code)
        return statuses

    def delivery(
        self, topic: str, content: bytes, url: str, *, event_id: str | None = None, secret: str | None = None
    ) -> httpx.Request:
        """A delivery as the platform sends it."""
        key = (secret or self.app.client_secret).encode()
        headers = {
            "content-type": "application/json",
            "x-shopify-topic": _header_of(topic),
            "x-shopify-hmac-sha256": base64.b64encode(
                hmac.new(key, content, hashlib.sha256).digest()
            ).decode(),
            "x-shopify-shop-domain": self.domain,
            "x-shopify-api-version": "2026-10",
            "x-shopify-webhook-id": str(uuid.uuid4()),
            "x-shopify-event-id": event_id or str(uuid.uuid4()),
            "x-shopify-triggered-at": self.now().isoformat(),
        }
        return httpx.Request("POST", url, headers=headers, content=content)

    def body_of(self, row: Row, fields: list[str]) -> Row:
        """A delivery's body: the fields asked for, ids as numbers."""
        whole: Row = {
            _SPOKEN.get(name, name): value
            for name, value in row.items()
            if not isinstance(value, list | dict)
        }
        whole |= {"id": number(row), "admin_graphql_api_id": row["id"]}
        if row["__typename"] == "InventoryLevel":
            whole |= {
                "inventory_item_id": number(self.rows[row["item"]]),
                "location_id": number(self.rows[row["location"]]),
            }
        if row["__typename"] == "Order":
            whole["financial_status"] = row["displayFinancialStatus"].lower()
            sent = row["displayFulfillmentStatus"]
            whole["fulfillment_status"] = "fulfilled" if sent == "FULFILLED" else None
        return {name: whole.get(name) for name in fields if "." not in name} if fields else whole


def _header_of(topic: str) -> str:
    words = topic.lower().split("_")
    # The last word is what happened; `out of stock` and the like are three.
    for tail in (("out", "of", "stock"), ("in", "stock"), ("tags", "added")):
        if tuple(words[-len(tail) :]) == tail:
            return f"{'_'.join(words[: -len(tail)])}/{'_'.join(tail)}"
    return f"{'_'.join(words[:-1])}/{words[-1]}"


def _objects(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(_objects(part) for part in value.values())
    return sum(_objects(part) for part in value) if isinstance(value, list) else 0
