"""No connector sends anything but reads in a test run.

See docs/design/connectors.md#test-mode.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.connectors import ALL, build
from steward.connectors.base.options import SignInClient
from steward.connectors.base.queries import ReadOp
from steward.connectors.base.requests import RequestWriter, SendRequest
from steward.connectors.base.settings import ConnectionSecrets
from steward.connectors.base.writing import WriteState
from steward.connectors.web_request.connector import CHANGES
from steward.model.change import Batch, Part
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.outbound.client import Outbound, ReadClient, WriteClient
from steward.outbound.documents import operation_of
from steward.outbound.errors import CallError
from steward.outbound.grant import WriteGrant
from steward.outbound.transport import HttpTransport
from steward.outbound.web import NO_CONNECTION
from steward.telemetry.log import Log
from steward.telemetry.redact import Secret, SecretRegister
from tests.connectors.options import connector_options
from tests.fake_clock import FakeClock

READING = {"GET", "HEAD", "OPTIONS"}
BUILT = build(
    connector_options(
        sheets_url="https://sheets.googleapis.com",
        google=SignInClient("https://oauth2.googleapis.com/token", "app", "secret app"),
        microsoft=SignInClient("https://login.example/token", "app", "secret app"),
    )
)
# Answers that a platform could give to anything; what a reader makes of them does not matter here.
RESPONSES: tuple[Any, ...] = (
    [],
    {},
    {"data": {}},
    {"values": [["A"]]},
    "<html>",
    [{"id": 1}],
    {"data": {"nodes": []}},
)
PLAIN = {
    "shop_domain": "x.myshopify.com",
    "url": "https://shop.example",
    "client_email": "a@b.example",
    "spreadsheet_id": "sheet",
    "endpoint_url": "https://store.example",
    "region": "eu-1",
    "bucket": "b",
    "prefix": "",
    "access_key_id": "AK",
    "origin": "https://a.logic.azure.com",
    "address": "smtps://mail.invalid:465",
    "hosts": "api.example",
    "sign_in": "bearer",
    "base_url": "https://chat.example",
    "account_sid": "AC" + "0" * 32,
    "phone_number_id": "100",
}
SECRET = Secret("https://a.logic.azure.com/x?sig=abcdefgh")
SEALED = dict.fromkeys(
    (
        "access_token",
        "consumer_key",
        "consumer_secret",
        "webhook_url",
        "secret_access_key",
        "private_key",
        "refresh_token",
    ),
    SECRET,
)


class HastyClock(FakeClock):
    """A clock whose sleep returns at once and moves the time on."""

    async def sleep(self, seconds: float) -> None:
        """Advances the time by the seconds and returns."""
        self.tick(max(seconds, 0.001))


@dataclass
class Recording(httpx.AsyncBaseTransport):
    """Records every request and gives the same response to all."""

    response: Any
    sent: list[httpx.Request] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Records the request and answers at once."""
        await request.aread()
        self.sent.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(msgspec.json.encode(self.response)))


def only_read(request: httpx.Request) -> bool:
    """Returns whether a request can change nothing, by its method or its GraphQL document."""
    if request.method in READING:
        return True
    kind, _, roots = operation_of(msgspec.json.decode(request.content)["query"])
    return kind == "query" or set(roots) <= {"bulkOperationRunQuery"}


def reader_of(kind: str, transport: httpx.AsyncBaseTransport) -> Any:
    """Returns the connector's reader over a recording transport, without its sign-in.

    See docs/design/connectors.md#test-mode.
    """
    clock, connector = HastyClock(), BUILT[kind]
    wire = HttpTransport(
        clock, SecretRegister(), Log(lambda line: None, clock, SecretRegister()), transport=transport
    )
    form: Any = connector.facts.settings_schema["properties"]
    sealed = SEALED | dict.fromkeys((name for name, setting in form.items() if setting.get("secret")), SECRET)
    if "bot_token" in form:  # a bot token replaces the webhook address
        del sealed["webhook_url"]
    secrets = ConnectionSecrets(IntegrationId(7), PLAIN, sealed, "EUR", "UTC")
    link = replace(connector.endpoint(secrets), credentials=None)
    http = Outbound(wire, jitter=lambda: 0.0).read_client(OrgId(1), IntegrationId(7), link)
    return connector.reader(http, secrets)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TARGETS = st.sampled_from(["7", "7/8", "item:7@8", "/x", "Tab", ""])


@pytest.mark.parametrize("kind", BUILT)
@settings(max_examples=20, deadline=None)
@given(target=TARGETS, values=VALUES, response=st.sampled_from(RESPONSES))
async def test_nothing_but_reads_leaves_where_a_test_run_works(
    kind: str, target: str, values: Any, response: Any
) -> None:
    """Sends only reads for every operation, whatever its values and the platform's response.

    See docs/design/connectors.md#test-mode.
    """
    transport = Recording(response)
    reader = reader_of(kind, transport)
    arguments = values if isinstance(values, Mapping) else {"value": values}
    for name in BUILT[kind].writes:
        part = Part(name, IntegrationId(7), target, arguments, values, values)
        await _tried(reader.current([part]))
        await _tried(reader.confirm(part))
        await _tried(reader.find_marker(part, "key"))
    for op in BUILT[kind].reads.values():
        await _tried(_first(reader, op))
    assert [request.method for request in transport.sent if not only_read(request)] == []


async def _first(reader: Any, op: ReadOp[Any, Any]) -> None:
    """Reads the first page and fills parameters without a default with some value."""
    named = {
        name: _some(kind) for name, kind in op.params.__annotations__.items() if not hasattr(op.params, name)
    }
    async for _ in reader.read(op, op.params(**named)):
        break


def _some(kind: object) -> Any:
    return datetime(2026, 5, 1, tzinfo=UTC) if "datetime" in str(kind) else "order"


async def _tried(request: Awaitable[object]) -> None:
    """Awaits a request that may fail in any way, since only the requests sent matter."""
    try:
        await request
    except (CallError, LookupError, TypeError, ValueError, AttributeError, NotImplementedError):
        return


METHODS = st.sampled_from(["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "get", "", "QUERY"])


@settings(max_examples=20, deadline=None)
@given(method=METHODS, path=st.text(alphabet="a/?=&%. ", max_size=8), response=st.sampled_from(RESPONSES))
async def test_nothing_but_reads_leaves_for_addresses_without_a_connection(
    method: str, path: str, response: Any
) -> None:
    """Sends only reads to addresses without a connection, and nothing without a matching grant.

    See docs/design/connectors.md#test-mode and docs/design/imports-n8n.md#http-steps.
    """
    transport = Recording(response)
    clock = HastyClock()
    wire = HttpTransport(
        clock, SecretRegister(), Log(lambda line: None, clock, SecretRegister()), transport=transport
    )
    url = f"https://api.example/{path}"
    await _tried(Outbound(wire).web_read_client(OrgId(1)).read(method, url, {}))
    assert {request.method for request in transport.sent} <= READING
    before = len(transport.sent)
    sending = CHANGES["http.send"]
    [planned] = sending.plan([SendRequest(method, url, {}, b"{}")], integration_id=NO_CONNECTION).proposals
    later = clock.now() + timedelta(seconds=5)
    of_another = {"another": NO_CONNECTION}
    grant = WriteGrant(OrgId(1), RunId("R"), 1, "0" * 64, of_another, lambda: later, later)
    writer = RequestWriter(Outbound(wire).web_write_client(grant).send)
    [outcome] = await writer.apply(Batch(planned.parts, ("mine",), "mine"))
    assert (outcome.state, len(transport.sent)) == (WriteState.NOT_SENT, before)


async def test_a_read_by_a_document_that_changes_something_is_stopped() -> None:
    """Refuses every GraphQL mutation but the one that starts a bulk query.

    See docs/design/connectors.md#test-mode.
    """
    transport = Recording({"data": {}})
    http = reader_of("shopify", transport)._queries._http
    for name in ("SetPrices", "CancelOrder", "Subscribe"):
        with pytest.raises(CallError, match="changes nothing"):
            await http.execute(name, {})
    with pytest.raises(KeyError):
        await http.execute("query { shop { name } }", {})
    assert transport.sent == []
    await http.execute("StartBulk", {"query": "query A { shop { name } }"})
    assert len(transport.sent) == 1


def test_every_connector_is_among_them_and_a_reader_has_no_way_to_write() -> None:
    """Builds every connector here, and gives readers no method that sends.

    See docs/design/connectors.md#test-mode.
    """
    assert len(ALL) == len(BUILT)
    assert not issubclass(ReadClient, WriteClient)
    assert not hasattr(ReadClient, "send")
