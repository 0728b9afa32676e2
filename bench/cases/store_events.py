"""Deliveries of stores over a real socket at 200 a second: signed, judged, durable before their answer."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count as numbers

from bench.load import Caller, PendingRequests, posting
from bench.postgres import fresh_database
from bench.rounds import Case, Env, Figure, OpenCase
from bench.servers import Server, ready, serving
from bench.service import Bench, open_bench
from steward.clock import SystemClock
from steward.connections import vault
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.database.events import endpoints, subscriptions
from steward.database.events.subscriptions import StoredState, StoredSubscription
from steward.model.connection import Auth, Connection, ConnectionState
from steward.security.signatures import sign
from steward.telemetry.redact import Secret

RATE = 200
STORES = 5  # so that none is over the 60 a second of docs/design/events.md#receiving-deliveries
CALLERS = 16
CLOCK = SystemClock()
NATIVE = "order.updated"
NOTE = "x" * 2_000  # an order with one line has about 2 KB (docs/design/connectors.md#woocommerce)


@dataclass(frozen=True, slots=True)
class Store:
    """An address that is listened at, and what its deliveries are signed with."""

    path: str
    secret: bytes


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database."""
    async with _measured(f"sqlite:///{env.folder}/steward.db", env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """A database server beside."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _measured(url, env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _measured(url: str, env: Env) -> AsyncIterator[OpenCase]:
    bench = await open_bench(url, env.folder)
    stores = [await _listening(bench, number) for number in range(STORES)]
    await bench.service.close()
    sent = _deliveries(stores)
    with serving(url, env.folder) as server:
        await ready(server, "/healthz", {})
        yield OpenCase(partial(_round, server, sent, env.size(RATE * 10, RATE * 3)))


async def _listening(bench: Bench, number: int) -> Store:
    """A store that is connected and listened to, as the `listen` tick leaves it."""
    key, secret = f"{number:032d}", f"{number:064x}"
    safe, org = bench.ctx.vault, bench.owner.org

    async def make(tx: Tx) -> None:
        integration = await connections.new_integration_id(tx, org)
        store = Connection(
            org=org,
            integration_id=integration,
            kind="woocommerce",
            is_store=True,
            name=f"Store {number}",
            domain=f"store-{number}.example",
            zone="UTC",
            currency="EUR",
            state=ConnectionState.CONNECTED,
            auth=Auth.KEY,
            account_label=None,
            facts={"settings": {"url": f"https://store-{number}.example"}},
            version=1,
            connected_at=tx.now,
            last_ok_at=tx.now,
            checked_at=tx.now,
            last_error=None,
        )
        await connections.insert(tx, org, store, subject=f"store-{number}")
        secrets = {vault.EVENT_KEY: Secret(key), vault.EVENT_SECRET: Secret(secret)}
        await vault.replace_secrets(tx, safe, org, integration=integration, version=1, secrets=secrets)
        await endpoints.open_for(tx, org, integration, key)
        await subscriptions.schedule_check(tx, org, [integration])
        hook = StoredSubscription(NATIVE, StoredState.ACTIVE, remote_id="1")
        await subscriptions.put(tx, org, integration, hook)

    await bench.write(make)
    return Store(f"/v1/store-events/{key}", secret.encode())


def _deliveries(stores: list[Store]) -> Iterator[bytes]:
    """Orders of one store after the other, each another one."""
    for number in numbers(1):
        store = stores[number % len(stores)]
        body = b'{"id":%d,"status":"processing","note":"%s"}' % (number, NOTE.encode())
        headers = {
            "x-wc-webhook-topic": NATIVE,
            "x-wc-webhook-id": "1",
            "x-wc-webhook-delivery-id": f"bench-{number}",
            "x-wc-webhook-signature": sign(body, store.secret),
        }
        yield posting(store.path, headers, body)


async def _round(server: Server, sent: Iterator[bytes], count: int) -> Mapping[str, float]:
    """Milliseconds from the moment a delivery was due to its response, no matter who was still busy."""
    idle: asyncio.Queue[_IdleConnection] = asyncio.Queue()
    for _ in range(CALLERS):
        idle.put_nowait(await _IdleConnection.connect(server.port))
    spent: list[float] = []
    running: set[asyncio.Task[None]] = set()
    began = time.perf_counter()

    async def deliver(due: float, delivery: bytes) -> None:
        connection = await idle.get()
        await connection.ask(delivery)
        spent.append((time.perf_counter() - due) * 1000)
        idle.put_nowait(connection)

    for number in range(count):
        due = began + number / RATE
        await CLOCK.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(deliver(due, next(sent)))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    while not idle.empty():
        idle.get_nowait().close()
    cuts = statistics.quantiles(spent, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


class _IdleConnection:
    """One kept-alive connection that answers one delivery at a time."""

    def __init__(self, caller: Caller, transport: asyncio.BaseTransport) -> None:
        self._caller = caller
        self._transport = transport

    @classmethod
    async def connect(cls, port: int) -> "_IdleConnection":
        """Opens it, with nothing to send yet."""
        loop = asyncio.get_running_loop()
        nothing = PendingRequests(0, 0, loop.create_future())
        transport, caller = await loop.create_connection(lambda: Caller(iter(()), nothing), "127.0.0.1", port)
        return cls(caller, transport)

    async def ask(self, delivery: bytes) -> None:
        """Sends a delivery and waits for its response."""
        pending = PendingRequests(1, 1, asyncio.get_running_loop().create_future())
        self._caller.next_of(iter((delivery,)), pending)
        await pending.done

    def close(self) -> None:
        """Ends it."""
        self._transport.close()


_FIGURES = (Figure("p50", "ms"), Figure("p99", "ms", maximum=250))
CASES = (
    Case("store_events_sqlite", _FIGURES, on_sqlite),
    Case("store_events_postgres", _FIGURES, on_postgres, needs_postgres=True),
)
