"""Receives deliveries: finds the address, verifies the signature, stores each event once."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from steward.clock import Clock
from steward.connections.vault import EVENT_SECRET, REPLACED_SUFFIX, Vault, open_secrets
from steward.connectors.base.deliveries import (
    EventSecrets,
    EventSource,
    IgnoredDelivery,
    PingDelivery,
    RawBody,
    UnverifiedDelivery,
    VerifiedDelivery,
)
from steward.database.accounts import connections
from steward.database.engine.base import Batchable, Engine, Tx
from steward.database.events import endpoints, subscriptions
from steward.database.events import records as events
from steward.database.events.records import NewEvent
from steward.events.floods import Floods
from steward.failpoint import failpoint
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId, RisingIds
from steward.model.refusals import NotFound, Unauthenticated
from steward.security.signatures import BodyVerifier
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.telemetry.redact import Secret

LARGEST = 256 * 1024
_MAX_OPENED = 1_000
_OPENED_SECONDS = 600.0  # cache of secrets; a replaced address ends within it


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """An open store address: its owner, and what deliveries to it are checked against."""

    org: OrgId
    integration: IntegrationId
    source: EventSource
    signing: tuple[Secret, ...]
    event_secrets: EventSecrets
    key_hash: str  # the hash of the address key, for logs and limits

    def verifier(self) -> BodyVerifier:
        """Returns the verifier of a delivery's signature; without a secret no signature is valid."""
        return BodyVerifier([secret.reveal().encode("utf-8") for secret in self.signing])


@dataclass(slots=True)
class DeliveryIntake:
    """The dependencies for receiving deliveries, and recently opened secrets by connection version."""

    engine: Engine
    clock: Clock
    vault: Vault
    log: Log
    metrics: Metrics
    floods: Floods = field(default_factory=Floods)
    ids: RisingIds = field(default_factory=RisingIds)  # events are matched in order of arrival
    opened: "OrderedDict[tuple[str, int], tuple[float, tuple[Secret, ...]]]" = field(
        default_factory=OrderedDict
    )

    async def address(self, key: str) -> StoreAddress:
        """Returns the address with this key. Raises NotFound, Unavailable (a flood)."""
        key_hash = endpoints.hashed(key)
        load = partial(self._load, key=key, key_hash=key_hash)
        address = await self.engine.read(self.clock.now(), load, small=True)
        if address is None:
            raise NotFound
        self.floods.admit(key_hash, self.clock.monotonic())
        return address

    async def _load(self, tx: Tx, key: str, key_hash: str) -> StoreAddress | None:
        """Returns the address with this key; None if it is unknown or its store is disconnected."""
        owner = await endpoints.find(tx, key)
        if owner is None:
            return None
        org, integration = owner
        await tx.set_tenant([org])
        connection = await connections.get(tx, org, integration)
        if connection is None or connection.state is ConnectionState.DISCONNECTED:
            return None
        connector = self.vault.connectors.get(connection.kind)
        if connector is None or connector.events is None:
            return None
        hooks = await subscriptions.remote_ids(tx, org, integration)
        return StoreAddress(
            org,
            integration,
            connector.events,
            await self._signing(tx, connection, connector.events, key_hash),
            EventSecrets(connection.domain, hooks),
            key_hash,
        )

    async def _signing(
        self, tx: Tx, connection: Connection, source: EventSource, key_hash: str
    ) -> tuple[Secret, ...]:
        """Returns the secrets that sign the store's deliveries; caches them for ten minutes."""
        key, now = (key_hash, connection.version), self.clock.monotonic()
        cached = self.opened.get(key)
        if cached is not None and now - cached[0] < _OPENED_SECONDS:
            return cached[1]
        sealed = (await open_secrets(tx, self.vault, connection)).sealed
        names = source.signing_settings or (EVENT_SECRET,)
        names = (*names, *(f"{name}{REPLACED_SUFFIX}" for name in names))
        secrets = tuple(sealed[name] for name in names if name in sealed)
        self.opened[key] = now, secrets
        while len(self.opened) > _MAX_OPENED:
            self.opened.popitem(last=False)
        return secrets

    async def receive(self, address: StoreAddress, headers: Mapping[str, str], body: RawBody) -> bool:
        """Verifies a delivery and stores its event durably; returns whether there is a new event to match.

        Raises Unauthenticated, and Unavailable if it could not be stored.
        """
        self.floods.count_bytes(address.key_hash, self.clock.monotonic(), size=body.size)
        verdict = address.source.verify_event(headers, body, address.event_secrets)
        if isinstance(verdict, UnverifiedDelivery):
            self.floods.count_invalid(address.key_hash, self.clock.monotonic())
            self._record_outcome(address, "unverified")
            raise Unauthenticated("This delivery is not signed with the secret of this address.")
        if isinstance(verdict, PingDelivery):
            self._record_outcome(address, "ping")
            return False
        if isinstance(verdict, IgnoredDelivery):
            self._record_outcome(address, verdict.reason)
            return False
        return await self._store(address, verdict, body)

    async def _store(self, address: StoreAddress, verdict: VerifiedDelivery, body: RawBody) -> bool:
        """Stores a verified delivery; returns whether it is new."""
        now = self.clock.now()
        new = NewEvent(
            org=address.org,
            id=self.ids.next(now),
            integration=address.integration,
            dedupe_key=verdict.dedupe_key,
            native=verdict.native,
            size=body.size,
            body=body.prefix if body.size <= LARGEST else None,
        )
        failpoint("before_event")
        is_new: Any = await self.engine.write(
            now,
            Batchable(new, events.store, events.store_batch, weight=len(new.body or b"")),
            org=address.org,
        )
        failpoint("after_event")
        self._record_outcome(address, "kept" if is_new else "repeated")
        return bool(is_new)

    def _record_outcome(self, address: StoreAddress, outcome: str) -> None:
        self.metrics.count("steward_events_received_total", outcome=outcome)
        self.log.debug("event_received", org=address.org, address=address.key_hash, outcome=outcome)
