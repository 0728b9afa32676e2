"""The WooCommerce connector (REST wc/v3): its operations and how a shop is connected."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self
from urllib.parse import urlencode, urlsplit

from steward.connectors.base.connector import (
    AnyWriteOperation,
    Capabilities,
    ConnectionKind,
    ConnectorFacts,
    Destination,
    Health,
    HealthWarning,
)
from steward.connectors.base.deliveries import CHANGED, IDS, EventSource, TopicSpec
from steward.connectors.base.options import Options
from steward.connectors.base.queries import (
    CATEGORIES,
    CUSTOMER,
    CUSTOMERS,
    FLOW_OBJECT,
    FLOW_OBJECTS,
    OBJECTS,
    ORDER,
    ORDERS,
    PATH,
    PRODUCT,
    PRODUCTS,
    REFUNDS,
    TAGS,
    VARIANT,
    VARIANTS,
    ReadOp,
)
from steward.connectors.base.settings import (
    BadSettings,
    ConnectionSecrets,
    ConnectionSettings,
    unknown_settings,
)
from steward.connectors.woocommerce.check import LISTS_VARIATIONS, check_shop
from steward.connectors.woocommerce.hooks import WooCommerceWebhooks
from steward.connectors.woocommerce.operations import MAKE_TAG, SET_PRICE, SET_STOCK, SET_TAGS, SET_VISIBLE
from steward.connectors.woocommerce.operations_orders import (
    ADD_NOTE,
    CANCEL,
    SET_CUSTOMER_TAGS,
    SET_ORDER_STATUS,
    SET_ORDER_TAGS,
    SET_STATUS,
)
from steward.connectors.woocommerce.reader import WooCommerceReader
from steward.connectors.woocommerce.topics import TOPICS
from steward.connectors.woocommerce.webhook_address import no_keys_reason, unreachable_reason
from steward.connectors.woocommerce.writer import WooCommerceWriter
from steward.model.connection import Auth
from steward.model.json import JsonObject
from steward.outbound.address import origin_of
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import Basic, PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import CallRefused
from steward.telemetry.redact import Secret

WRITE_S = 60.0
_PACE = RateLimit(
    max_concurrency=2, urgent_concurrency=1, slow_after_s=5.0, failure_backoff_s=(2.0, 8.0, 30.0)
)
_NAMES = ("url", "consumer_key", "consumer_secret")
_SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": list(_NAMES),
    "properties": {
        "url": {"type": "string", "title": "Address of the shop", "format": "uri", "maxLength": 500},
        "consumer_key": {"type": "string", "title": "Consumer key", "maxLength": 200},
        "consumer_secret": {"type": "string", "title": "Consumer secret", "maxLength": 200, "secret": True},
    },
}

_READS: tuple[ReadOp[Any, Any], ...] = (
    PRODUCTS, PRODUCT, VARIANTS, VARIANT, TAGS, CATEGORIES, ORDERS, ORDER, REFUNDS, CUSTOMERS, CUSTOMER,
    OBJECTS, PATH, FLOW_OBJECT, FLOW_OBJECTS, CHANGED, IDS,
)  # fmt: skip
_CHANGES: tuple[AnyWriteOperation, ...] = (
    SET_PRICE, SET_STOCK, SET_VISIBLE, SET_STATUS, SET_TAGS, MAKE_TAG, SET_ORDER_TAGS, SET_CUSTOMER_TAGS,
    SET_ORDER_STATUS, CANCEL, ADD_NOTE,
)  # fmt: skip


class WooCommerceConnector:
    """Connects WooCommerce shops.

    `read_s` is the service's time limit for a read and, with `bounded`, for a write too.
    """

    topics: Mapping[str, TopicSpec] = TOPICS
    events: EventSource | None = WooCommerceWebhooks()
    title: ClassVar[str] = "WooCommerce"
    capabilities: ClassVar[Capabilities] = Capabilities(reads=True, writes=True, sends_events=True)

    def __init__(
        self,
        *,
        private_hosts: Collection[str],
        read_s: float,
        bounded: bool = False,
        own_address: str | None = None,
    ) -> None:
        self._private = frozenset(private_hosts)
        self._own_address = own_address
        self._times = Timeouts.of_kind(read_s, write_s=WRITE_S, bounded=bounded)
        self.facts = ConnectorFacts(
            "woocommerce",
            self.title,
            ConnectionKind.STORE,
            (Auth.KEY,),
            _PACE,
            self._times,
            _SCHEMA,
            self.capabilities,
            ("wc/v3",),
        )
        self.reads: Mapping[str, ReadOp[Any, Any]] = {op.name: op for op in _READS}
        self.writes: Mapping[str, AnyWriteOperation] = {op.name: op for op in _CHANGES}

    @classmethod
    def from_options(cls, options: Options) -> Self:
        """Returns the connector configured by the operator's settings."""
        return cls(
            private_hosts=options.private_hosts,
            read_s=options.read_s,
            bounded=options.bounded,
            own_address=options.own_address,
        )

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates url, consumer_key and consumer_secret. Raises BadSettings."""
        errors = unknown_settings(form, _NAMES, "This is not a setting of a WooCommerce shop.")
        texts: dict[str, str] = {}
        for name in _NAMES:
            value = form.get(name)
            text = value.strip() if isinstance(value, str) else ""
            if not (1 <= len(text) <= 500 and text.isprintable()):
                errors[name] = ["This is needed."]
            elif name != "url" and not _is_key(text):
                errors[name] = ["This is not a key of WooCommerce."]
            else:
                texts[name] = text
        base = self._address(texts.get("url", ""), errors) if "url" in texts else ""
        if errors:
            raise BadSettings(errors)
        sealed = {name: Secret(texts[name]) for name in ("consumer_key", "consumer_secret")}
        domain = _domain(base)
        return ConnectionSettings({"url": base}, sealed, Auth.KEY, subject=domain, domain=domain)

    def no_keys_reason(self, origin: str) -> str | None:
        """Returns why a shop cannot send keys to a web app at this origin, in words; null when it can."""
        return no_keys_reason(origin)

    def key_page(self, form: JsonObject, *, state: str, return_url: str, callback_url: str) -> str:
        """Returns the address of the shop's own page that issues keys. Raises BadSettings."""
        errors: dict[str, list[str]] = {}
        url = form.get("url")
        base = self._address(url.strip() if isinstance(url, str) else "", errors)
        if errors:
            raise BadSettings(errors)
        query = {
            "app_name": "Steward",
            "scope": "read_write",
            "user_id": state,
            "return_url": return_url,
            "callback_url": callback_url,
        }
        return f"{base}/wc-auth/v1/authorize?{urlencode(query)}"

    def issued_settings(self, form: JsonObject, delivery: JsonObject) -> JsonObject:
        """Returns the settings form with the keys that the shop delivered. Raises BadSettings."""
        names = ("consumer_key", "consumer_secret")
        missing = {name: ["The shop sent no such key."] for name in names if not delivery.get(name)}
        if missing:
            raise BadSettings(missing)
        return {"url": form.get("url"), **{name: delivery[name] for name in names}}

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the endpoint of the shop's address, with the key as HTTP Basic credentials."""
        base = secrets.plain["url"]
        proof = Basic(secrets.sealed["consumer_key"], secrets.sealed["consumer_secret"])
        return PlatformEndpoint(
            "woocommerce", base, proof, self._times, _PACE, f"woocommerce {_domain(base)}"
        )

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> WooCommerceReader:
        """Returns a reader of the shop."""
        return WooCommerceReader(
            http,
            self.writes,
            base=secrets.plain["url"],
            currency=secrets.currency,
            lists_variations=secrets.facts.get(LISTS_VARIATIONS) is True,
        )

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> WooCommerceWriter:
        """Returns a writer of the shop."""
        return WooCommerceWriter(http, self.writes)

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Checks that this is a WooCommerce shop; reads rights, time zone, currency and order storage."""
        health = await check_shop(http, domain=_domain(secrets.plain["url"]))
        parts = urlsplit(secrets.plain["url"])
        # A shop that is allowed at a private address is in the service's own network, and can be configured
        # to reach it.
        is_near = f"{parts.hostname}:{parts.port or 443}" in self._private
        words = None if self._own_address is None or is_near else unreachable_reason(self._own_address)
        if words is None or not health.ok:
            return health
        return replace(health, warnings=(*health.warnings, HealthWarning("events_not_reached", words)))

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns an empty list: a shop has no destinations."""
        return []

    def _address(self, url: str, errors: dict[str, list[str]]) -> str:
        parts = urlsplit(url)
        if parts.query or parts.fragment:
            errors["url"] = ["The address has no query. Give the address of the shop's front page."]
            return ""
        try:
            origin = origin_of(url, self._private)
        except CallRefused as refusal:
            errors["url"] = [
                f"Give the shop's https address, such as https://shop.example. {refusal.sentence}"
            ]
            return ""
        path = parts.path.partition("/wp-json")[0].rstrip("/")
        if any(mark in path for mark in ("//", "\\", "/..", "/.")):
            errors["url"] = ["This is not the address of a shop."]
        plain_port = origin.port == (443 if origin.scheme == "https" else 80)
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        return f"{origin.scheme}://{host if plain_port else f'{host}:{origin.port}'}{path}"


def _is_key(text: str) -> bool:
    return text.isascii() and ":" not in text and " " not in text


def _domain(base: str) -> str:
    return base.partition("://")[2]


CONNECTOR = WooCommerceConnector
