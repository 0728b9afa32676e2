"""Shortcuts to the Shopify connector over the fake store, whose ledger records every request."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from steward.connectors.base.connector import PlannedChanges, Reader
from steward.connectors.base.queries import PRODUCTS, ProductsQuery, ReadOp, RecordPage
from steward.connectors.base.records import Product
from steward.connectors.base.settings import ConnectionSecrets
from steward.connectors.base.writing import WriteOutcome, Writer
from steward.connectors.shopify.connector import Shopify
from steward.model.change import Batch, Part, batch_key, write_key
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.outbound.client import Outbound
from steward.outbound.grant import WriteGrant
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock
from tests.fakes.shopify.network import StoreTransport
from tests.fakes.shopify.store import ShopifyFake

ORG, NUMBER = OrgId(1), IntegrationId(21)
RUN = RunId("01KAH1B0M4N7P9Q2R5S8T1V3W6")
I = TypeVar("I")  # noqa: E741
P = TypeVar("P")


@dataclass
class StoreConnection:
    """A connection to the fake store and what a run receives of it."""

    clock: FakeClock
    store: ShopifyFake
    version: str = "2026-10"
    given: dict[str, Any] | None = None
    lines: list[str] = field(default_factory=list)
    _position: int = 0

    def __post_init__(self) -> None:
        self.register = SecretRegister()
        log = Log(self.lines.append, self.clock, self.register)
        wire = HttpTransport(self.clock, self.register, log, transport=StoreTransport(self.store.transport()))
        self.outbound = Outbound(wire, jitter=lambda: 0.5)
        self.connector = Shopify(version=self.version, url=None, read_s=20.0)
        settings = self.connector.settings(self.given or self.store.settings())
        self.secrets = ConnectionSecrets(
            NUMBER, settings.plain, settings.sealed, currency=self.store.currency
        )

    def reader(self) -> Reader:
        """Returns a reader of the connection."""
        http = self.outbound.read_client(ORG, NUMBER, self.connector.endpoint(self.secrets))
        return self.connector.reader(http, self.secrets)

    def writer(self, keys: Sequence[str]) -> Writer:
        """Returns a writer for writes whose intent is stored."""
        now = self.clock.now()
        grant = WriteGrant(
            org=ORG,
            run=RUN,
            epoch=1,
            change_hash="0" * 64,
            connections=dict.fromkeys(keys, NUMBER),
            confirmed_until=lambda: now + timedelta(seconds=30),
            send_by=now + timedelta(seconds=5),
        )
        http = self.outbound.write_client(grant, NUMBER, self.connector.endpoint(self.secrets))
        return self.connector.writer(http, self.secrets)

    async def check(self) -> Any:
        """Checks the connection as connecting does."""
        http = self.outbound.management_client(ORG, NUMBER, self.connector.endpoint(self.secrets))
        return await self.connector.check(http, self.secrets)

    async def all(self, op: ReadOp[P, I], params: P) -> list[I]:
        """Returns every item of a read over all pages."""
        return [item for page in await self.pages(op, params) for item in page.items]

    async def pages(self, op: ReadOp[P, I], params: P) -> list[RecordPage[I]]:
        """Returns every page of a read."""
        return [page async for page in self.reader().read(op, params)]

    def plan(self, operation: str, *asks: Any) -> PlannedChanges:
        """Returns what an operation plans."""
        return self.connector.writes[operation].plan(asks, integration_id=NUMBER)

    def keys(self, count: int) -> list[str]:
        """Returns write keys that were not used before."""
        self._position += 1
        return [
            write_key(RUN, "step", "-", position=self._position, part=part, version=1)
            for part in range(1, count + 1)
        ]

    def batch(self, parts: Sequence[Part]) -> Batch:
        """Returns a batch of these parts with new keys."""
        keys = self.keys(len(parts))
        return Batch(tuple(parts), tuple(keys), batch_key(keys))

    async def send(self, batch: Batch) -> list[WriteOutcome]:
        """Sends a batch once and returns its outcomes."""
        return await self.writer(batch.write_keys).apply(batch)

    async def all_products(self) -> list[Product]:
        """Returns every product of the store."""
        return await self.all(PRODUCTS, ProductsQuery())
