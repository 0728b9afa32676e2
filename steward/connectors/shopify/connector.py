"""Shopify over its Admin GraphQL API: what the connector offers and how a store is connected.

`docs/design/connectors.md#shopify` describes it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from steward.connectors.base.connector import (
    AnyWriteOperation,
    Capabilities,
    ConnectionKind,
    ConnectorFacts,
    Destination,
    Health,
)
from steward.connectors.base.deliveries import CHANGED, IDS, EventSource, TopicSpec
from steward.connectors.base.options import Options
from steward.connectors.base.queries import (
    CUSTOMER,
    CUSTOMERS,
    DRAFT_ORDER,
    FIELDS,
    FLOW_OBJECT,
    FLOW_OBJECTS,
    METAFIELD,
    ORDER,
    ORDERS,
    PRODUCT,
    PRODUCTS,
    REDIRECT,
    REFUNDS,
    VARIANT,
    VARIANTS,
    ReadOp,
)
from steward.connectors.base.settings import ConnectionSecrets, ConnectionSettings
from steward.connectors.shopify.deliveries import ShopifyDeliveries
from steward.connectors.shopify.documents import READ_ONLY_MUTATIONS, READS
from steward.connectors.shopify.hydration import compile_document
from steward.connectors.shopify.mutations import WRITES
from steward.connectors.shopify.reader import ShopifyReader
from steward.connectors.shopify.sign_in import SCHEMA, check_store, credentials_of, settings_of
from steward.connectors.shopify.topics import TOPICS
from steward.connectors.shopify.write_operations import WRITE_OPERATIONS
from steward.connectors.shopify.writer import ShopifyWriter
from steward.model.connection import Auth
from steward.model.json import JsonObject
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.documents import DocumentRegistry
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.query_cost import CostBudget

# All documents are valid for these versions; older ones have no idempotency keys for inventory.
VERSIONS = ("2026-01", "2026-04", "2026-07", "2026-10")
WRITE_S = 30.0
# The host from which the results of bulk operations are downloaded.
_RESULT_HOSTS = ("storage.googleapis.com", "shopifycloud.com")
_RATE_LIMIT = RateLimit(max_concurrency=4, cost_budget=CostBudget())


class Shopify:
    """The Shopify connector.

    `url` replaces `https://{shop_domain}`; `version` is the API version to request. Raises ValueError for a
    version that is too old.
    """

    topics: Mapping[str, TopicSpec] = TOPICS
    title: ClassVar[str] = "Shopify"
    capabilities: ClassVar[Capabilities] = Capabilities(reads=True, writes=True, sends_events=True)

    def __init__(self, *, version: str, url: str | None, read_s: float, bounded: bool = False) -> None:
        if version < VERSIONS[0]:
            raise ValueError(f"Shopify's versions before {VERSIONS[0]} know no keys for writes of stock")
        self._url = url
        self._version = version
        self._times = Timeouts.of_kind(read_s, write_s=WRITE_S, bounded=bounded)
        path = f"/admin/api/{version}/graphql.json"
        self._documents = DocumentRegistry(
            path, (*READS, *WRITES), read_only_mutations=READ_ONLY_MUTATIONS, compiler=compile_document
        )
        self.events: EventSource | None = ShopifyDeliveries()
        self.facts = ConnectorFacts(
            "shopify",
            self.title,
            ConnectionKind.STORE,
            (Auth.KEY,),
            _RATE_LIMIT,
            self._times,
            SCHEMA,
            self.capabilities,
            VERSIONS,
        )
        reads: tuple[ReadOp[Any, Any], ...] = (
            *(PRODUCTS, PRODUCT, VARIANTS, VARIANT, ORDERS, ORDER, REFUNDS, CUSTOMERS, CUSTOMER, DRAFT_ORDER),
            *(METAFIELD, REDIRECT, FIELDS, FLOW_OBJECT, FLOW_OBJECTS, CHANGED, IDS),
        )
        self.reads: Mapping[str, ReadOp[Any, Any]] = {op.name: op for op in reads}
        self.writes: Mapping[str, AnyWriteOperation] = {op.name: op for op in WRITE_OPERATIONS}

    @classmethod
    def from_options(cls, options: Options) -> Self:
        """Returns the connector configured by the operator's settings."""
        return cls(
            version=options.shopify_version,
            url=options.shopify_url,
            read_s=options.read_s,
            bounded=options.bounded,
        )

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates shop_domain, and client_id with client_secret or access_token. Raises BadSettings."""
        return settings_of(form)

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the store's own domain; one app shares one cost bucket per store. Raises BadSettings."""
        domain = secrets.plain["shop_domain"]
        base = self._url or f"https://{domain}"
        proof = credentials_of(secrets.plain, secrets.sealed, base)
        whose = secrets.plain.get("client_id") or f"connection {secrets.integration_id}"
        return PlatformEndpoint(
            "shopify",
            base,
            proof,
            self._times,
            _RATE_LIMIT,
            f"shopify {domain} {whose}",
            documents=self._documents,
            result_hosts=_RESULT_HOSTS,
        )

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> ShopifyReader:
        """Returns a reader of the store."""
        domain = secrets.plain["shop_domain"]
        return ShopifyReader(http, self.writes, domain=domain, currency=secrets.currency)

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> ShopifyWriter:
        """Returns a writer of the store."""
        return ShopifyWriter(http, self.writes, path=self._documents.path)

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Checks the key and reads its rights and the store's time zone, currency, locations and channels."""
        verifies = any(name in secrets.sealed for name in ShopifyDeliveries.signing_settings)
        domain = secrets.plain["shop_domain"]
        return await check_store(http, domain=domain, version=self._version, verifies=verifies)

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns an empty list: a store has no destinations."""
        return []


CONNECTOR = Shopify
