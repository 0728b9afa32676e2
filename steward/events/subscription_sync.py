"""Synchronizes the subscriptions at stores with the topics that automations need."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from secrets import choice, token_hex

from steward.connections.vault import (
    EVENT_KEY,
    EVENT_SECRET,
    REPLACED_SUFFIX,
    Vault,
    add_secrets,
    open_secrets,
)
from steward.connectors.base.connector import Connector
from steward.connectors.base.deliveries import DesiredSubscriptions, Subscription, SubscriptionOutcome
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.database.accounts import connections
from steward.database.due_rows import attempt
from steward.database.engine.base import Tx
from steward.database.events import catch_ups, endpoints, last_seen, subscriptions
from steward.database.events.catch_ups import Fill
from steward.database.events.subscriptions import DeliveryState, Listener, StoredState, StoredSubscription
from steward.events import delivery_state
from steward.events.context import EventContext
from steward.failpoint import failpoint
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.errors import CallError, CallRefused, PlatformUnavailable, Throttled
from steward.telemetry.redact import Secret

_CHECK_EVERY = timedelta(hours=6)
UNWANTED_FOR = timedelta(minutes=10)
_MAX_REPAIRS = 3
_REPAIR_WINDOW = timedelta(hours=24)
_TRIES_TO_FAIL = 5
_MAX_WAIT = timedelta(minutes=60)
_TIMEOUT_SECONDS = 60.0
_SWITCHED_OFF = (
    "The store switched this off again and again: it could not reach Steward at {address}. Check that the"
    " store reaches this address, then pause and resume."
)
_BROKEN = "Its subscriptions could not be created because of a defect of the service. Tell the operator."
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_FORMER_KEY = f"{EVENT_KEY}{REPLACED_SUFFIX}"
# By topic prefix: the object type to read again.
_OBJECT_TYPES = {
    "orders": "order",
    "refunds": "order",
    "products": "product",
    "inventory_levels": "product",
    "variants": "product",
}


@dataclass(frozen=True, slots=True)
class _SubscriptionCheck:
    """A check of a store's subscriptions: what to request from it, and the earlier state."""

    connection: Connection
    connector: Connector
    secrets: ConnectionSecrets
    requested: DesiredSubscriptions
    before: Listener
    topics: tuple[str, ...]


async def sync_due(ctx: EventContext) -> bool:
    """Checks the subscriptions of due stores; returns True if there were any.

    A store that fails is deferred without affecting others.
    """
    due_stores = await ctx.engine.read(ctx.clock.now(), subscriptions.due)
    for org, integration in due_stores:
        error = await attempt(check(ctx, org, integration))
        if error is not None:
            ctx.log.error("subscription_check_failed", error, org=org, integration=integration)
            defer = partial(_defer, org=org, integration=integration)
            await ctx.engine.write(ctx.clock.now(), defer, org=org)
    return bool(due_stores)


async def _defer(tx: Tx, *, org: OrgId, integration: IntegrationId) -> None:
    """Defers the store's check after an internal error; from the fifth on, its deliveries count as failed."""
    before = await subscriptions.lock(tx, org, integration)
    if before is None:
        return
    tries = before.tries + 1
    if tries >= _TRIES_TO_FAIL:
        for topic in await subscriptions.needed_topics(tx, org, integration):
            await subscriptions.set_delivery(
                tx, org, integration, topic, state=DeliveryState.FAILED, reason=_BROKEN
            )
    await subscriptions.finish_check(
        tx,
        org,
        integration,
        next_at=tx.now + _wait(tries),
        tries=tries,
        topics_revision=before.topics_revision,
    )


def _wait(tries: int) -> timedelta:
    return min(timedelta(minutes=2 ** min(tries - 1, 6)), _MAX_WAIT)


async def check(ctx: EventContext, org: OrgId, integration: IntegrationId) -> None:
    """Creates, checks, repairs and removes a store's subscriptions until they match its topics."""
    while await _check_once(ctx, org, integration):
        pass


async def _check_once(ctx: EventContext, org: OrgId, integration: IntegrationId) -> bool:
    """Checks once; returns True if topics were added or removed in the meantime.

    This check may then have removed a subscription that another process found in place for the new topic, so
    it has to check again.
    """
    prepare = partial(_prepare, org=org, ctx=ctx, integration=integration)
    pending_check = await ctx.engine.write(ctx.clock.now(), prepare, org=org)
    if pending_check is None:
        return False
    failpoint("before_subscribe")
    try:
        await _remove_former_subscriptions(ctx, pending_check)
        rows = await _request_subscriptions(ctx.vault, pending_check)
    except CallError as error:
        store = partial(_store_failure, org=org, pending_check=pending_check, error=error)
        ctx.log.info("subscriptions_not_checked", org=org, integration=integration, reason=error.message)
    else:
        store = partial(
            _store_results, org=org, pending_check=pending_check, rows=rows, every=ctx.rules.catch_up
        )
    failpoint("after_subscribe")
    is_outdated = await ctx.engine.write(ctx.clock.now(), store, org=org)
    ctx.wake("catch_up")  # for a first fill, or for events missed while a subscription was gone
    return is_outdated


async def _remove_former_subscriptions(ctx: EventContext, pending_check: _SubscriptionCheck) -> None:
    """Removes the subscriptions and the address key from before a reconnection. Raises CallError."""
    opened = pending_check.secrets
    if _FORMER_KEY not in opened.sealed:
        return
    before = replace(opened, sealed={**opened.sealed, EVENT_KEY: opened.sealed[_FORMER_KEY]})
    nothing = _request(before, ctx.rules.base_url, [])
    await _subscribe(ctx.vault, pending_check.connector, pending_check.connection, opened, nothing)
    org, integration = pending_check.connection.org, pending_check.connection.integration_id
    erase = partial(connections.erase_some, org=org, integration=integration, fields=[_FORMER_KEY])
    await ctx.engine.write(ctx.clock.now(), erase, org=org)


async def _request_subscriptions(vault: Vault, pending_check: _SubscriptionCheck) -> list[Subscription]:
    return await _subscribe(
        vault,
        pending_check.connector,
        pending_check.connection,
        pending_check.secrets,
        pending_check.requested,
    )


async def _subscribe(
    vault: Vault,
    connector: Connector,
    connection: Connection,
    opened: ConnectionSecrets,
    requested: DesiredSubscriptions,
) -> list[Subscription]:
    """Makes the store's subscriptions match the requested ones. Raises CallError."""
    if connector.events is None:
        return []
    try:
        http = vault.outbound.management_client(
            connection.org, connection.integration_id, connector.endpoint(opened)
        )
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            return await connector.events.subscribe(http, opened, requested)
    except (CallRefused, BadSettings) as error:
        raise CallError(str(error)) from error
    except TimeoutError:
        raise PlatformUnavailable(f"No response within {_TIMEOUT_SECONDS:.0f} s.") from None


async def _prepare(
    tx: Tx, *, org: OrgId, ctx: EventContext, integration: IntegrationId
) -> _SubscriptionCheck | None:
    """Returns the requests to send to the store; None if there are none or it is not connected."""
    before = await subscriptions.lock(tx, org, integration)
    if before is None:
        return None
    connection = await connections.get(tx, org, integration)
    connector = _listening_connector(ctx.vault, connection)
    if connection is None or connector is None:
        await _close(tx, org, integration)
        return None
    topics = await subscriptions.needed_topics(tx, org, integration)
    if connection.state is ConnectionState.DISCONNECTED and not topics:
        await _close(tx, org, integration)
        return None
    before = await _update_topics(tx, org, integration, before, _native_topics(connector, topics))
    needed = _subscriptions_to_keep(before, tx.now)
    if not topics and not needed and not _has_remote(before):
        await _close(tx, org, integration)
        return None
    if connection.state is not ConnectionState.CONNECTED:
        later = tx.now + _CHECK_EVERY  # reconnecting triggers a check at once
        await subscriptions.finish_check(
            tx, org, integration, next_at=later, tries=0, topics_revision=before.topics_revision
        )
        return None
    opened = await _with_address(tx, ctx.vault, connection)
    requested = _request(opened, ctx.rules.base_url, needed)
    return _SubscriptionCheck(connection, connector, opened, requested, before, tuple(topics))


def _listening_connector(vault: Vault, connection: Connection | None) -> Connector | None:
    """Returns the connection's connector if it can send events."""
    connector = None if connection is None else vault.connectors.get(connection.kind)
    return None if connector is None or connector.events is None else connector


def _native_topics(connector: Connector, topics: Collection[str]) -> tuple[str, ...]:
    """Returns the store's own topics needed for `topics`, plus those that report revoked keys."""
    specs = [connector.topics[topic] for topic in topics if topic in connector.topics]
    natives = tuple(dict.fromkeys(native for spec in specs for native in spec.native))
    if not natives or connector.events is None:
        return natives
    return natives + connector.events.revocation_topics


def _subscriptions_to_keep(listener: Listener, now: datetime) -> list[StoredSubscription]:
    return [
        subscription for subscription in listener.subscribed.values() if not _is_removable(subscription, now)
    ]


def _has_remote(listener: Listener) -> bool:
    return any(subscription.remote_id for subscription in listener.subscribed.values())


async def _update_topics(
    tx: Tx, org: OrgId, integration: IntegrationId, before: Listener, natives: Sequence[str]
) -> Listener:
    """Subscribes to new topics, and marks topics no longer needed for later removal."""
    updated = dict(before.subscribed)
    for native in natives:
        subscription = updated.get(native)
        if subscription is None:
            updated[native] = StoredSubscription(native)
        elif subscription.unused_since is not None:
            updated[native] = replace(subscription, unused_since=None)
    for native, subscription in updated.items():
        if native not in natives and subscription.unused_since is None:
            updated[native] = replace(subscription, unused_since=tx.now)
        if before.subscribed.get(native) != updated[native]:
            await subscriptions.put(tx, org, integration, updated[native])
    return replace(before, subscribed=updated)


def _is_removable(subscription: StoredSubscription, now: datetime) -> bool:
    return subscription.unused_since is not None and now - subscription.unused_since >= UNWANTED_FOR


async def _close(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Stops receiving events: removes the store's address, keys, snapshots and subscriptions."""
    await endpoints.close(tx, org, integration)
    await connections.erase_some(tx, org, integration, (EVENT_KEY, EVENT_SECRET, _FORMER_KEY))
    await last_seen.forget_store(tx, org, integration)
    await subscriptions.end(tx, org, integration)


async def _with_address(tx: Tx, vault: Vault, connection: Connection) -> ConnectionSecrets:
    """Returns the connection's secrets with its event address, which changes with each reconnection."""
    org, integration = connection.org, connection.integration_id
    opened = await open_secrets(tx, vault, connection)
    if EVENT_KEY in opened.sealed and EVENT_SECRET in opened.sealed:
        return opened
    key = "".join(choice(_ALPHABET) for _ in range(32))
    new_secrets = {EVENT_KEY: Secret(key), EVENT_SECRET: Secret(token_hex(32))}
    await add_secrets(
        tx, vault, org, integration=integration, version=connection.version, secrets=new_secrets
    )
    await endpoints.open_for(tx, org, integration, key)
    vault.register.add(*new_secrets.values())
    return replace(opened, sealed={**opened.sealed, **new_secrets})


async def _store_results(
    tx: Tx, *, org: OrgId, pending_check: _SubscriptionCheck, rows: Sequence[Subscription], every: timedelta
) -> bool:
    """Stores each subscription's result and what to read again; returns whether topics have changed."""
    integration = pending_check.connection.integration_id
    listener = await subscriptions.lock(tx, org, integration)
    if listener is None:
        return False
    if not await _has_same_connection(tx, pending_check.connection):
        await subscriptions.schedule_check_if_listening(tx, org, integration)
        return False
    await _store_subscriptions(tx, pending_check, rows)
    if not pending_check.requested.native and not await subscriptions.needed_topics(tx, org, integration):
        await _close(tx, org, integration)
        return False
    await _schedule_catch_up(tx, pending_check, every=every)
    if any(row.repaired for row in rows):
        await catch_ups.make_due(tx, org, integration)
    await delivery_state.update_deliveries(tx, org, integration, pending_check.connector)
    next_at = _next_check(
        pending_check, tx.now, failed=any(row.outcome is SubscriptionOutcome.FAILED for row in rows)
    )
    await subscriptions.finish_check(
        tx, org, integration, next_at=next_at, tries=0, topics_revision=pending_check.before.topics_revision
    )
    return listener.topics_revision != pending_check.before.topics_revision


async def _store_subscriptions(
    tx: Tx, pending_check: _SubscriptionCheck, rows: Sequence[Subscription]
) -> None:
    """Stores the state of the requested subscriptions and removes all others."""
    org, integration = pending_check.connection.org, pending_check.connection.integration_id
    for row in rows:
        before = pending_check.before.subscribed[row.native]
        after = _checked_subscription(before, row, tx.now, address=pending_check.requested.address)
        await subscriptions.put(tx, org, integration, after)
    unneeded = [
        subscription.native
        for subscription in pending_check.before.subscribed.values()
        if subscription.native not in pending_check.requested.native
    ]
    await subscriptions.remove(tx, org, integration, unneeded)


async def _has_same_connection(tx: Tx, before: Connection) -> bool:
    """Returns whether the connection was neither reconnected nor disconnected since the read."""
    now = await connections.get(tx, before.org, before.integration_id)
    return now is not None and (now.state, now.connected_at) == (before.state, before.connected_at)


def _next_check(pending_check: _SubscriptionCheck, now: datetime, *, failed: bool) -> datetime:
    unused = [
        subscription.unused_since
        for subscription in pending_check.before.subscribed.values()
        if subscription.unused_since
    ]
    ends = [since + UNWANTED_FOR for since in unused if since + UNWANTED_FOR > now]
    return min([now + (_MAX_WAIT if failed else _CHECK_EVERY), *ends])


def _checked_subscription(
    before: StoredSubscription, row: Subscription, now: datetime, *, address: str
) -> StoredSubscription:
    """Returns the subscription after a check; one restored too often in a day counts as failed."""
    repairs, since = before.repairs, before.repairs_since
    if since is not None and now - since >= _REPAIR_WINDOW:
        repairs, since = 0, None
    if row.repaired:
        repairs, since = repairs + 1, since or now
    state = StoredState.ACTIVE if row.outcome is SubscriptionOutcome.ACTIVE else StoredState.FAILED
    reason = row.reason
    if repairs > _MAX_REPAIRS:
        state, reason = StoredState.FAILED, _SWITCHED_OFF.format(address=address.rpartition("/")[0])
    return replace(
        before,
        state=state,
        remote_id=row.remote_id or before.remote_id,
        reason=reason,
        repairs=repairs,
        repairs_since=since,
    )


async def _schedule_catch_up(tx: Tx, pending_check: _SubscriptionCheck, *, every: timedelta) -> None:
    """Stores the object types to read again; types for a new derived topic are filled first."""
    org, integration = pending_check.connection.org, pending_check.connection.integration_id
    if "changed" not in pending_check.connector.reads:
        return
    kinds, fills = _types_to_read(pending_check)
    existing = await catch_ups.of(tx, org, integration)
    for kind in sorted(kinds):
        if kind not in existing:
            fill, next_at = (Fill.PENDING, tx.now) if kind in fills else (Fill.NONE, tx.now + every)
            await catch_ups.start(tx, org, integration, kind, fill=fill, next_at=next_at)
        elif kind in fills and existing[kind].fill is Fill.NONE:
            await catch_ups.restart_fill(tx, org, integration, kind)
    await catch_ups.remove_others(tx, org, integration, kinds)


def _types_to_read(pending_check: _SubscriptionCheck) -> tuple[set[str], set[str]]:
    """Returns the object types that catch-up reads, and those that have snapshots."""
    specs = {
        topic: pending_check.connector.topics[topic]
        for topic in pending_check.topics
        if topic in pending_check.connector.topics
    }
    fills = {kind for spec in specs.values() for kind in spec.snapshot_types}
    subjects = {_OBJECT_TYPES[name] for topic in specs if (name := topic.partition("/")[0]) in _OBJECT_TYPES}
    return subjects | fills, fills


async def _store_failure(tx: Tx, *, org: OrgId, pending_check: _SubscriptionCheck, error: CallError) -> bool:
    """Records a failed check; once it counts as permanent, inactive subscriptions count as failed."""
    integration, tries = pending_check.connection.integration_id, pending_check.before.tries + 1
    if await subscriptions.lock(tx, org, integration) is None:
        return False
    is_transient = isinstance(error, PlatformUnavailable | Throttled)
    if not is_transient or tries >= _TRIES_TO_FAIL:
        for subscription in pending_check.before.subscribed.values():
            if subscription.state is not StoredState.ACTIVE:
                await subscriptions.put(
                    tx,
                    org,
                    integration,
                    replace(subscription, state=StoredState.FAILED, reason=error.message),
                )
    await delivery_state.update_deliveries(tx, org, integration, pending_check.connector)
    await subscriptions.finish_check(
        tx,
        org,
        integration,
        next_at=tx.now + _wait(tries),
        tries=tries,
        topics_revision=pending_check.before.topics_revision,
    )
    return False


async def unsubscribe(
    vault: Vault, connection: Connection, opened: ConnectionSecrets, *, base_url: str
) -> None:
    """Removes a store's subscriptions before its keys are erased. Raises CallError."""
    connector = vault.connectors.get(connection.kind)
    if connector is not None and EVENT_KEY in opened.sealed and EVENT_SECRET in opened.sealed:
        await _subscribe(vault, connector, connection, opened, _request(opened, base_url, []))


def _request(
    opened: ConnectionSecrets, base_url: str, subscriptions_to_keep: Sequence[StoredSubscription]
) -> DesiredSubscriptions:
    return DesiredSubscriptions(
        address=f"{base_url}/v1/store-events/{opened.sealed[EVENT_KEY].reveal()}",
        native=tuple(subscription.native for subscription in subscriptions_to_keep),
        secret=opened.sealed[EVENT_SECRET],
        known_ids={
            subscription.native: subscription.remote_id
            for subscription in subscriptions_to_keep
            if subscription.remote_id is not None
        },
    )
