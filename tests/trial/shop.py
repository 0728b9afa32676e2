"""A real shop as the trial works on it: the connector over the real client, and things of its own."""

import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from steward.clock import SystemClock
from steward.connectors.base.connector import PlannedChanges, Reader
from steward.connectors.base.queries import ReadOp, RecordPage
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.connectors.base.writing import WriteOutcome
from steward.connectors.woocommerce.connector import WooCommerceConnector
from steward.model.change import Batch, Part, batch_key, write_key
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.outbound.client import ManagementClient, Outbound
from steward.outbound.grant import WriteGrant
from steward.outbound.sockets import tls_context
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741
_ORG, _SHOP = OrgId(1), IntegrationId(1)
_RUN = RunId("01KAH1B0M4N7P9Q2R5S8T1V3W6")
# A whole read of a large shop proves no more than its first pages.
MAX_PAGES = 20


@dataclass
class Shop:
    """One shop, its connector, and a client for what the connector never does: making and removing things."""

    connector: WooCommerceConnector
    secrets: ConnectionSecrets
    outbound: Outbound
    raw: httpx.AsyncClient
    clock: SystemClock = field(default_factory=SystemClock)

    def reader(self) -> Reader:
        """A reader of the connector."""
        link = self.connector.endpoint(self.secrets)
        return self.connector.reader(self.outbound.read_client(_ORG, _SHOP, link), self.secrets)

    def upkeep(self) -> ManagementClient:
        """The client of checks and subscriptions."""
        return self.outbound.management_client(_ORG, _SHOP, self.connector.endpoint(self.secrets))

    async def all(self, op: ReadOp[P, I], params: P) -> list[I]:
        """The items of a read, of its first pages when there are many."""
        pages: AsyncIterator[RecordPage[I]] = self.reader().read(op, params)
        items: list[I] = []
        count = 0
        async for page in pages:
            items += page.items
            count += 1
            if count == MAX_PAGES:
                break
        return items

    def plan(self, name: str, *asks: Any) -> PlannedChanges:
        """What an operation works out."""
        return self.connector.writes[name].plan(asks, integration_id=_SHOP)

    async def send(self, parts: Sequence[Part]) -> tuple[list[WriteOutcome], list[str]]:
        """One request for `parts`, as an approved run would send it; the outcomes and the write keys."""
        mark = secrets.token_hex(8)
        keys = [
            write_key(_RUN, mark, "-", position=number, part=1, version=1) for number in range(len(parts))
        ]
        now = self.clock.now()
        grant = WriteGrant(
            org=_ORG,
            run=_RUN,
            epoch=1,
            change_hash="0" * 64,
            connections=dict.fromkeys(keys, _SHOP),
            confirmed_until=lambda: now + timedelta(seconds=120),
            send_by=now + timedelta(seconds=90),
        )
        http = self.outbound.write_client(grant, _SHOP, self.connector.endpoint(self.secrets))
        writer = self.connector.writer(http, self.secrets)
        return await writer.apply(Batch(tuple(parts), tuple(keys), batch_key(keys))), keys

    async def call(self, method: str, path: str, body: Any = None, **params: str) -> Any:
        """A call the connector does not make. Raises RuntimeError in words when the shop refuses it."""
        response = await self.raw.request(method, f"wp-json/wc/v3/{path}", json=body, params=params or None)
        if response.status_code >= 300:
            raise RuntimeError(f"{method} {path}: status {response.status_code} {response.text[:200]}")
        return response.json()


async def open_shop(
    url: str,
    key: str,
    secret: str,
    *,
    transport: httpx.AsyncBaseTransport | None,
    authorities: str | None,
) -> Shop:
    """The shop at `url`. Raises SystemExit in words when the settings cannot be used."""
    parts = urlsplit(url)
    entry = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    connector = WooCommerceConnector(private_hosts=[entry], read_s=60.0)
    try:
        settings = connector.settings({"url": url, "consumer_key": key, "consumer_secret": secret})
    except BadSettings as bad:
        raise SystemExit(f"These settings cannot be used: {bad}") from None
    clock, register = SystemClock(), SecretRegister()
    tls = tls_context(authorities)
    log = Log(lambda line: None, clock, register)
    wire = HttpTransport(clock, register, log, private_hosts=[entry], tls=tls, transport=transport)
    raw = httpx.AsyncClient(
        base_url=settings.plain["url"] + "/",
        auth=(key, secret),
        timeout=60,
        trust_env=False,
        transport=transport or httpx.AsyncHTTPTransport(verify=tls, trust_env=False),
    )
    return Shop(
        connector,
        ConnectionSecrets(_SHOP, settings.plain, settings.sealed, currency="EUR"),
        Outbound(wire),
        raw,
    )


@dataclass
class TrialObjects:
    """What the trial makes for itself and finds by `mark`: nothing of the merchant's is changed."""

    shop: Shop
    mark: str = field(default_factory=lambda: f"steward-trial-{secrets.token_hex(4)}")
    made: dict[str, str] = field(default_factory=dict)
    webhook_address: str = ""

    async def make(self) -> None:
        """Products nobody sees, a customer without mail, an order nobody has to send, a tag."""
        mark, call = self.mark, self.shop.call
        simple = {
            "name": mark,
            "type": "simple",
            "status": "private",
            "sku": f"{mark}-1",
            "regular_price": "10.00",
            "manage_stock": True,
            "stock_quantity": 5,
        }
        self.made["product"] = str((await call("POST", "products", simple))["id"])
        attribute = {"name": "Size", "variation": True, "options": ["S", "M"]}
        parent = {
            "name": f"{mark} sizes",
            "type": "variable",
            "status": "private",
            "manage_stock": True,
            "stock_quantity": 9,
            "attributes": [attribute],
        }
        self.made["parent"] = str((await call("POST", "products", parent))["id"])
        for size, own_values in (("S", {"manage_stock": True, "stock_quantity": 3}), ("M", {})):
            row = {
                "regular_price": "20.00",
                "sku": f"{mark}-{size}",
                "attributes": [{"name": "Size", "option": size}],
                **own_values,
            }
            variation = await call("POST", f"products/{self.made['parent']}/variations", row)
            self.made[f"variation {size}"] = str(variation["id"])
        person = {"email": f"{mark}@example.com", "first_name": "Steward", "last_name": mark}
        self.made["customer"] = str((await call("POST", "customers", person))["id"])
        order = {
            "status": "pending",
            "billing": {"first_name": "Steward", "last_name": mark, "country": "DE"},
            "line_items": [{"product_id": int(self.made["product"]), "quantity": 1}],
        }
        self.made["order"] = str((await call("POST", "orders", order))["id"])

    async def remove(self) -> list[str]:
        """Removes all of it permanently, found by its mark whatever was noted; what is left, in words."""
        remaining: list[str] = []
        for path in ("orders", "products", "customers", "products/tags"):
            try:
                for row in await self._search(path):
                    await self.shop.call("DELETE", f"{path}/{row['id']}", force="true")
            except (RuntimeError, httpx.HTTPError) as error:
                remaining.append(f"{path} named {self.mark}: {error}")
        return remaining

    async def _search(self, path: str) -> list[Any]:
        """Everything of ours under `path`; those noted as made are looked at as well."""
        status = {"status": "any"} if path in ("orders", "products") else {}
        role = {"role": "all"} if path == "customers" else {}
        outcome = await self.shop.call("GET", path, search=self.mark, per_page="100", **status, **role)
        kinds = {"orders": ("order",), "products": ("product", "parent"), "customers": ("customer",)}
        known_items = {int(self.made[kind]) for kind in kinds.get(path, ()) if kind in self.made}
        for number in known_items - {row["id"] for row in outcome}:
            response = await self.shop.raw.get(f"wp-json/wc/v3/{path}/{number}")
            if response.status_code == 200:
                outcome.append(response.json())
        return [row for row in outcome if row["id"] in known_items or self.mark in str(row)]


async def counts(shop: Shop) -> dict[str, int]:
    """How many there are of what the trial touches, by the shop's own totals."""
    results: dict[str, int] = {}
    for path in ("products", "orders", "customers", "products/tags", "webhooks"):
        response = await shop.raw.get(f"wp-json/wc/v3/{path}", params={"per_page": "1", "_fields": "id"})
        results[path] = int(response.headers.get("x-wp-total", "-1"))
    return results
