"""The listen tick: what stores are asked to tell follows what automations wait for (connectors 9.3)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from secrets import choice, token_hex

from steward.connections.vault import BEFORE, EVENT_KEY, EVENT_SECRET, Vault, add, open_secrets
from steward.connectors.base.connector import Connector
from steward.connectors.base.deliveries import DesiredSubscriptions, Subscription, SubscriptionOutcome
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.database.events import catch_ups, endpoints, last_seen, subscriptions
from steward.database.events.catch_ups import Fill
from steward.database.events.subscriptions import Heard, Listener, Subscribed
from steward.database.events.subscriptions import SubscriptionState as Kept
from steward.events import hearing
from steward.events.apart import tried
from steward.failpoint import failpoint
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.errors import CallError, CallRefused, PlatformUnavailable, Throttled
from steward.runs.worker_context import WorkerContext
from steward.telemetry.redact import Secret

CHECK_EVERY = timedelta(hours=6)
UNWANTED_FOR = timedelta(minutes=10)
MOST_MENDED = 3
MENDED_WITHIN = timedelta(hours=24)
TRIES_TO_FAIL = 5
LONGEST_WAIT = timedelta(minutes=60)
ASK_SECONDS = 60.0
SWITCHED_OFF = (
    "The store switched this off again and again: it could not reach Steward at {address}. Check that the"
    " store reaches this address, then pause and resume."
)
BROKEN = "Its subscriptions could not be made because of a defect of the service. Tell its operator."
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_KEY_BEFORE = f"{EVENT_KEY}{BEFORE}"
# Which objects a topic is about, where they can be read again (connectors 9.4).
_ABOUT = {
    "orders": "order",
    "refunds": "order",
    "products": "product",
    "inventory_levels": "product",
    "variants": "product",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a store's subscriptions is about: what to ask of it, and what was known before."""

    connection: Connection
    connector: Connector
    secrets: ConnectionSecrets
    wanted: DesiredSubscriptions
    before: Listener
    topics: tuple[str, ...]


async def listen_due(ctx: WorkerContext) -> bool:
    """Looks at the subscriptions of the stores whose turn it is; True when there were some.

    One that fails is put off alone (engine 16).
    """
    found = await ctx.engine.read(ctx.clock.now(), subscriptions.due)
    for org, integration in found:
        error = await tried(look(ctx, org, integration))
        if error is not None:
            ctx.log.error("store_not_looked_at", error, org=org, integration=integration)
            put_off = partial(_put_off, org=org, integration=integration)
            await ctx.engine.write(ctx.clock.now(), put_off, org=org)
    return bool(found)


async def _put_off(tx: Tx, *, org: OrgId, integration: IntegrationId) -> None:
    """A defect of ours: the store is looked at again later; from the fifth time on it says so."""
    before = await subscriptions.lock(tx, org, integration)
    if before is None:
        return
    tries = before.tries + 1
    if tries >= TRIES_TO_FAIL:
        for topic in await subscriptions.topics_wanted(tx, org, integration):
            await subscriptions.set_heard(tx, org, integration, topic, state=Heard.FAILED, reason=BROKEN)
    await subscriptions.looked(
        tx, org, integration, next_at=tx.now + _wait(tries), tries=tries, asked=before.asked
    )


def _wait(tries: int) -> timedelta:
    return min(timedelta(minutes=2 ** min(tries - 1, 6)), LONGEST_WAIT)


async def look(ctx: WorkerContext, org: OrgId, integration: IntegrationId) -> None:
    """Makes, checks, mends and removes a store's subscriptions until it has what automations wait for."""
    while await _look_once(ctx, org, integration):
        pass


async def _look_once(ctx: WorkerContext, org: OrgId, integration: IntegrationId) -> bool:
    """Returns True when a topic was added or removed meanwhile.

    This look may then have removed a subscription that another process found in place for the new topic, so
    the process that removed it has to look again.
    """
    begin = partial(_begin, org=org, ctx=ctx, integration=integration)
    at_hand = await ctx.engine.write(ctx.clock.now(), begin, org=org)
    if at_hand is None:
        return False
    failpoint("before_subscribe")
    try:
        await _clear_before(ctx, at_hand)
        rows = await _ask(ctx.vault, at_hand)
    except CallError as error:
        settle = partial(_not_asked, org=org, look=at_hand, error=error)
        ctx.log.info("store_not_asked", org=org, integration=integration, why=error.message)
    else:
        settle = partial(_asked, org=org, look=at_hand, rows=rows, every=ctx.rules.catch_up)
    failpoint("after_subscribe")
    is_outdated = await ctx.engine.write(ctx.clock.now(), settle, org=org)
    ctx.wake("catch_up")  # a first fill, or what was lost while a subscription was away
    return is_outdated


async def _clear_before(ctx: WorkerContext, at_hand: Look) -> None:
    """After a reconnecting: what leads to the address before is taken away. Raises CallError."""
    opened = at_hand.secrets
    if _KEY_BEFORE not in opened.sealed:
        return
    before = replace(opened, sealed={**opened.sealed, EVENT_KEY: opened.sealed[_KEY_BEFORE]})
    nothing = _wanted(before, ctx.rules.base_url, [])
    await _subscribe(ctx.vault, at_hand.connector, at_hand.connection, opened, nothing)
    org, integration = at_hand.connection.org, at_hand.connection.integration_id
    erase = partial(connections.erase_some, org=org, integration=integration, fields=[_KEY_BEFORE])
    await ctx.engine.write(ctx.clock.now(), erase, org=org)


async def _ask(vault: Vault, at_hand: Look) -> list[Subscription]:
    return await _subscribe(vault, at_hand.connector, at_hand.connection, at_hand.secrets, at_hand.wanted)


async def _subscribe(
    vault: Vault,
    connector: Connector,
    connection: Connection,
    opened: ConnectionSecrets,
    wanted: DesiredSubscriptions,
) -> list[Subscription]:
    if connector.events is None:
        return []
    try:
        http = vault.outbound.management_client(
            connection.org, connection.integration_id, connector.endpoint(opened)
        )
        async with asyncio.timeout(ASK_SECONDS):
            return await connector.events.subscribe(http, opened, wanted)
    except (CallRefused, BadSettings) as error:
        raise CallError(str(error)) from error
    except TimeoutError:
        raise PlatformUnavailable(f"No answer within {ASK_SECONDS:.0f} s.") from None


async def _begin(tx: Tx, *, org: OrgId, ctx: WorkerContext, integration: IntegrationId) -> Look | None:
    """What to ask of the store; None when there is nothing to ask, or nobody to ask it from."""
    before = await subscriptions.lock(tx, org, integration)
    if before is None:
        return None
    connection = await connections.get(tx, org, integration)
    connector = None if connection is None else ctx.vault.connectors.get(connection.kind)
    if connection is None or connector is None or connector.events is None:
        await _close(tx, org, integration)
        return None
    topics = await subscriptions.topics_wanted(tx, org, integration)
    if connection.state is ConnectionState.DISCONNECTED and not topics:
        await _close(tx, org, integration)
        return None
    specs = [connector.topics[topic] for topic in topics if topic in connector.topics]
    natives = tuple(dict.fromkeys(native for spec in specs for native in spec.native))
    natives += connector.events.revocation_topics if natives else ()
    before = await _follow(tx, org, integration, before, natives)
    kept = [one for one in before.subscribed.values() if not _is_over(one, tx.now)]
    if not topics and not kept and not any(one.remote_id for one in before.subscribed.values()):
        await _close(tx, org, integration)
        return None
    if connection.state is not ConnectionState.CONNECTED:
        later = tx.now + CHECK_EVERY  # reconnecting looks again at once
        await subscriptions.looked(tx, org, integration, next_at=later, tries=0, asked=before.asked)
        return None
    opened = await _with_address(tx, ctx.vault, connection)
    wanted = _wanted(opened, ctx.rules.base_url, kept)
    return Look(connection, connector, opened, wanted, before, tuple(topics))


async def _follow(
    tx: Tx, org: OrgId, integration: IntegrationId, before: Listener, natives: Sequence[str]
) -> Listener:
    """New topics are wanted; those nobody waits for any more are noted, to be removed in a while."""
    known = dict(before.subscribed)
    for native in natives:
        one = known.get(native)
        if one is None:
            known[native] = Subscribed(native)
        elif one.unwanted_since is not None:
            known[native] = replace(one, unwanted_since=None)
    for native, one in known.items():
        if native not in natives and one.unwanted_since is None:
            known[native] = replace(one, unwanted_since=tx.now)
        if before.subscribed.get(native) != known[native]:
            await subscriptions.put(tx, org, integration, known[native])
    return replace(before, subscribed=known)


def _is_over(one: Subscribed, now: datetime) -> bool:
    return one.unwanted_since is not None and now - one.unwanted_since >= UNWANTED_FOR


async def _close(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Nothing of the store is listened to any more."""
    await endpoints.close(tx, org, integration)
    await connections.erase_some(tx, org, integration, (EVENT_KEY, EVENT_SECRET, _KEY_BEFORE))
    await last_seen.forget_store(tx, org, integration)
    await subscriptions.end(tx, org, integration)


async def _with_address(tx: Tx, vault: Vault, connection: Connection) -> ConnectionSecrets:
    """The connection opened, with an event address of its own: new at each reconnecting (contract 2.11)."""
    org, integration = connection.org, connection.integration_id
    opened = await open_secrets(tx, vault, connection)
    if EVENT_KEY in opened.sealed and EVENT_SECRET in opened.sealed:
        return opened
    key = "".join(choice(_ALPHABET) for _ in range(32))
    made = {EVENT_KEY: Secret(key), EVENT_SECRET: Secret(token_hex(32))}
    await add(tx, vault, org, integration=integration, version=connection.version, sealed=made)
    await endpoints.open_for(tx, org, integration, key)
    vault.register.add(*made.values())
    return replace(opened, sealed={**opened.sealed, **made})


async def _asked(tx: Tx, *, org: OrgId, look: Look, rows: Sequence[Subscription], every: timedelta) -> bool:
    """Keeps what became of each subscription, and what is to be read again; True when topics have changed."""
    integration = look.connection.integration_id
    now_wanted = await subscriptions.lock(tx, org, integration)
    if now_wanted is None:
        return False
    if not await _is_as_it_was(tx, look.connection):
        await subscriptions.look_again_if_listening(tx, org, integration)
        return False
    is_mended = False
    for row in rows:
        before = look.before.subscribed[row.native]
        after = _after(before, row, tx.now, address=look.wanted.address)
        is_mended = is_mended or row.repaired
        await subscriptions.put(tx, org, integration, after)
    over = [one.native for one in look.before.subscribed.values() if one.native not in look.wanted.native]
    await subscriptions.remove(tx, org, integration, over)
    if not look.wanted.native and not await subscriptions.topics_wanted(tx, org, integration):
        await _close(tx, org, integration)
        return False
    await _read_again(tx, look, every=every)
    if is_mended:
        await catch_ups.at_once(tx, org, integration)
    await hearing.tell(tx, org, integration, look.connector)
    next_at = _next_look(look, tx.now, failed=any(row.outcome is SubscriptionOutcome.FAILED for row in rows))
    await subscriptions.looked(tx, org, integration, next_at=next_at, tries=0, asked=look.before.asked)
    return now_wanted.asked != look.before.asked


async def _is_as_it_was(tx: Tx, before: Connection) -> bool:
    """Whether the connection still is the one that was asked: not reconnected or disconnected meanwhile."""
    now = await connections.get(tx, before.org, before.integration_id)
    return now is not None and (now.state, now.connected_at) == (before.state, before.connected_at)


def _next_look(look: Look, now: datetime, *, failed: bool) -> datetime:
    unwanted = [one.unwanted_since for one in look.before.subscribed.values() if one.unwanted_since]
    ends = [since + UNWANTED_FOR for since in unwanted if since + UNWANTED_FOR > now]
    return min([now + (LONGEST_WAIT if failed else CHECK_EVERY), *ends])


def _after(before: Subscribed, row: Subscription, now: datetime, *, address: str) -> Subscribed:
    """The subscription after a look; mended too often in a day it has failed, however often it is made."""
    mended, since = before.mended, before.mended_since
    if since is not None and now - since >= MENDED_WITHIN:
        mended, since = 0, None
    if row.repaired:
        mended, since = mended + 1, since or now
    state = Kept.MADE if row.outcome is SubscriptionOutcome.ACTIVE else Kept.FAILED
    reason = row.reason
    if mended > MOST_MENDED:
        state, reason = Kept.FAILED, SWITCHED_OFF.format(address=address.rpartition("/")[0])
    return replace(
        before,
        state=state,
        remote_id=row.remote_id or before.remote_id,
        reason=reason,
        mended=mended,
        mended_since=since,
    )


async def _read_again(tx: Tx, look: Look, *, every: timedelta) -> None:
    """The types of objects that are read again, and filled first where topics are derived from them."""
    org, integration = look.connection.org, look.connection.integration_id
    if "changed" not in look.connector.reads:
        return
    specs = {topic: look.connector.topics[topic] for topic in look.topics if topic in look.connector.topics}
    fills = {kind for spec in specs.values() for kind in spec.snapshot_types}
    kinds = {_ABOUT[name] for topic in specs if (name := topic.partition("/")[0]) in _ABOUT} | fills
    known = await catch_ups.of(tx, org, integration)
    for kind in sorted(kinds):
        if kind not in known:
            fill, next_at = (Fill.WANTED, tx.now) if kind in fills else (Fill.NONE, tx.now + every)
            await catch_ups.begin(tx, org, integration, kind, fill=fill, next_at=next_at)
        elif kind in fills and known[kind].fill is Fill.NONE:
            await catch_ups.fill_anew(tx, org, integration, kind)
    await catch_ups.remove_others(tx, org, integration, kinds)


async def _not_asked(tx: Tx, *, org: OrgId, look: Look, error: CallError) -> bool:
    """The store could not be asked: what was made stays, what was not fails in time, with the reason."""
    integration, tries = look.connection.integration_id, look.before.tries + 1
    if await subscriptions.lock(tx, org, integration) is None:
        return False
    passing = isinstance(error, PlatformUnavailable | Throttled)
    if not passing or tries >= TRIES_TO_FAIL:
        for one in look.before.subscribed.values():
            if one.state is not Kept.MADE:
                await subscriptions.put(
                    tx, org, integration, replace(one, state=Kept.FAILED, reason=error.message)
                )
    await hearing.tell(tx, org, integration, look.connector)
    await subscriptions.looked(
        tx, org, integration, next_at=tx.now + _wait(tries), tries=tries, asked=look.before.asked
    )
    return False


async def unsubscribe(
    vault: Vault, connection: Connection, opened: ConnectionSecrets, *, base_url: str
) -> None:
    """Asks a store to tell nothing any more, before its keys are erased. Raises CallError (connectors 10)."""
    connector = vault.connectors.get(connection.kind)
    if connector is not None and EVENT_KEY in opened.sealed and EVENT_SECRET in opened.sealed:
        await _subscribe(vault, connector, connection, opened, _wanted(opened, base_url, []))


def _wanted(opened: ConnectionSecrets, base_url: str, kept: Sequence[Subscribed]) -> DesiredSubscriptions:
    return DesiredSubscriptions(
        address=f"{base_url}/v1/store-events/{opened.sealed[EVENT_KEY].reveal()}",
        native=tuple(one.native for one in kept),
        secret=opened.sealed[EVENT_SECRET],
        known_ids={one.native: one.remote_id for one in kept if one.remote_id is not None},
    )
