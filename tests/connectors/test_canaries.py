"""Secrets appear in no log line, message or outcome, whatever error a connector meets."""

import asyncio
import base64
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from steward.connectors.base.commands import AppendRows, PostCard
from steward.connectors.base.queries import (
    FILE,
    FILES,
    ORDERS,
    PRODUCTS,
    TABS,
    VALUES,
    FileQuery,
    FilesQuery,
    OrdersQuery,
    ProductsQuery,
    TabsQuery,
    ValuesQuery,
)
from steward.connectors.base.requests import RequestWriter, SendRequest
from steward.connectors.base.settings import BadSettings
from steward.connectors.web_request.connector import CHANGES
from steward.model.change import Batch, Part, batch_key
from steward.outbound.client import Outbound
from steward.outbound.errors import CallError
from steward.outbound.grant import WriteGrant
from steward.outbound.transport import HttpTransport
from steward.outbound.web import NO_CONNECTION
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.connectors.fake_connections import ORG, RUN, Connection, FakePlatformsClient
from tests.fake_clock import FakeClock

KINDS = ("woocommerce", "spreadsheet", "teams", "cloud_s3")
READS: dict[str, list[tuple[Any, Any]]] = {
    "woocommerce": [(PRODUCTS, ProductsQuery()), (ORDERS, OrdersQuery())],
    "spreadsheet": [(TABS, TabsQuery()), (VALUES, ValuesQuery("Prices"))],
    "teams": [],
    "cloud_s3": [(FILES, FilesQuery()), (FILE, FileQuery("stock.csv"))],
}
FAULTS: list[dict[str, Any]] = [
    *({"kind": "status", "status": status} for status in (400, 401, 404, 429, 503)),
    {"kind": "status", "status": 200},
    {"kind": "drop_after"},
]


def canaries(connection: Connection) -> set[str]:
    """Returns the secrets of a connection in every encoding in which they could appear."""
    secret_forms: set[str] = set()
    for secret in connection.secrets.sealed.values():
        value = secret.reveal()
        lines = [line for line in value.split("\n") if len(line) >= 8 and "-----" not in line] or [value]
        for text in (value, *lines[:3]):
            secret_forms |= {text, quote(text, safe=""), base64.b64encode(text.encode()).decode()}
    keys = [secret.reveal() for secret in connection.secrets.sealed.values()]
    if connection.connector.facts.id == "woocommerce":
        secret_forms.add(base64.b64encode(":".join(keys).encode()).decode())
    return {text for text in secret_forms if len(text) >= 8}


async def told(connection: Connection, world: FakePlatformsClient) -> list[str]:
    """Returns everything that a connection outputs when it is read, checked, listed and written to."""
    output: list[str] = []
    for op, query in READS[connection.connector.facts.id]:
        try:
            output.append(repr(await connection.all(op, query)))
        except CallError as error:
            output += [repr(error), str(error), error.message, error.platform_text, repr(error.__dict__)]
    output.append(repr(await connection.check()))
    http = world.outbound.read_client(
        ORG, connection.number, connection.connector.endpoint(connection.secrets)
    )
    try:
        output.append(repr(await connection.connector.destinations(http, connection.secrets, None)))
    except CallError as error:
        output += [error.message, error.platform_text]
    return output + await sent(connection)


async def sent(connection: Connection) -> list[str]:
    """Returns the outcomes of a write that fails."""
    asks: dict[str, tuple[str, Any]] = {
        "woocommerce": ("product_tag.create", None),
        "spreadsheet": ("sheet.append_rows", AppendRows("Prices", (("X",),))),
        "teams": ("teams.post", PostCard("Hello")),
    }
    kind = connection.connector.facts.id
    if kind not in asks:
        return []
    name, query = asks[kind]
    if query is None:
        parts = (Part(name, connection.number, "Sale", {"name": "Sale"}, None, {"name": "Sale"}),)
    else:
        parts = connection.plan(name, query).proposals[0].parts
    return [repr(outcome) for outcome in await connection.send(parts)]


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{row['kind']} {row.get('status', '')}" for row in FAULTS])
@pytest.mark.parametrize("kind", KINDS)
async def test_no_error_contains_a_secret(
    world: FakePlatformsClient, kind: str, fault: dict[str, Any]
) -> None:
    """Repeats no secret when a platform echoes our own keys in its error.

    See docs/design/security.md#logs-and-redaction and docs/design/connectors.md#redaction.
    """
    connection = world.connection(kind)
    planted = canaries(connection)
    assert planted
    echo = " ".join(sorted(planted))[:4000]
    body = {"code": "woocommerce_rest_cannot_view", "message": echo, "error": {"message": echo}}
    more = {"body": body} if fault["kind"] == "status" else {}
    if fault.get("status") == 429:
        fault = {"kind": "throttle", "retry_after": 90}
    world.world.state.faults.make({"method": "*", "path": "/**", "count": -1, **fault, **more})
    working = told(connection, world)
    output = await _through(world, working)
    everything = "\n".join([*output, *world.lines, repr(connection.secrets), repr(connection.connector)])
    assert not [text for text in planted if text in everything]


async def _through(world: FakePlatformsClient, working: Any) -> list[str]:
    """Awaits the work while time passes for the retries of reads."""
    outcomes: list[str] = await _within(world.clock, working)
    return outcomes


async def _within(clock: FakeClock, working: Any) -> Any:
    """Returns the result of the work while the clock advances."""
    task = asyncio.ensure_future(working)
    for _ in range(60):
        await clock.advance(120)
        if task.done():
            break
    return await task


def echoing(status: int) -> httpx.AsyncBaseTransport:
    """Returns a transport that echoes all it was sent; with status 0 it fails to answer."""

    async def respond(request: httpx.Request) -> httpx.Response:
        if status == 0:
            raise httpx.ReadError("gone", request=request)
        actual = f"{request.url} {request.headers} {(await request.aread()).decode()}"
        return httpx.Response(status, stream=httpx.ByteStream(actual.encode()))

    return httpx.MockTransport(respond)


@pytest.mark.parametrize("status", [0, 200, 302, 400, 401, 429, 500, 503])
async def test_data_sent_without_a_connection_is_shown_nowhere(clock: FakeClock, status: int) -> None:
    """Repeats no key that people wrote into a step's address, headers or body.

    See docs/design/security.md#logs-and-redaction and docs/design/imports-n8n.md#http-steps.
    """
    canary, lines = "canary-0123456789abcdef", list[str]()
    register = SecretRegister()
    log = Log(lines.append, clock, register)
    outbound = Outbound(HttpTransport(clock, register, log, transport=echoing(status)), jitter=lambda: 0.5)
    later = clock.now() + timedelta(seconds=5)
    grant = WriteGrant(ORG, RUN, 1, "0" * 64, {"mine": NO_CONNECTION}, lambda: later, later)
    url, headers = f"https://api.example/?key={canary}", {"authorization": f"Bearer {canary}"}
    query = SendRequest("POST", url, headers, canary.encode())
    [planned] = CHANGES["http.send"].plan([query], integration_id=NO_CONNECTION).proposals
    writer = RequestWriter(outbound.web_write_client(grant).send)
    output = [repr(await writer.apply(Batch(planned.parts, ("mine",), batch_key(["mine"]))))]

    async def read() -> str:
        try:
            return str((await outbound.web_read_client(ORG).read("GET", url, headers)).status)
        except CallError as error:
            return f"{error!r} {error.message} {error.platform_text}"

    output.append(await _within(clock, read()))
    assert lines
    assert canary not in "\n".join([*output, *lines])


@pytest.mark.parametrize("kind", KINDS)
async def test_refused_settings_reveal_no_secret(world: FakePlatformsClient, kind: str) -> None:
    """Names no secret when it refuses settings, and none in the connection's repr.

    See docs/design/api/connections.md#connecting.
    """
    connection = world.connection(kind)
    connector = world.connectors[kind]
    canary = "canary-0123456789abcdef"
    for name in connector.facts.settings_schema["properties"]:  # type: ignore[attr-defined]
        with pytest.raises(BadSettings) as refused:
            connector.settings({name: f"{canary} \n", "unknown": canary})
        assert canary not in repr(refused.value)
        assert canary not in str(refused.value)
    assert not [text for text in canaries(connection) if text in repr(connection)]
