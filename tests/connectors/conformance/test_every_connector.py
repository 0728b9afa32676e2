"""Rules that every registered connector keeps, whatever its platform."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from steward import connectors
from steward.connectors.base.connector import Connector, Receivable
from steward.connectors.base.messages import MessageConnector, PostMessage, message_operation
from steward.connectors.base.options import SignInClient
from steward.connectors.base.queries import ReadOp
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.model.change import Recovery
from steward.model.connection import Auth
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.client import Outbound
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import Secret, SecretRegister
from tests.connectors.options import connector_options
from tests.fake_clock import FakeClock

OPTIONS = connector_options(
    google=SignInClient("https://token.example", "app", "secret app"),
    microsoft=SignInClient("https://login.example/token", "app", "secret app"),
    teams_hosts=(".example",),
)
BUILT = connectors.build(OPTIONS)
# Settings as stored; each connector reads those it knows.
PLAIN = {
    "shop_domain": "x.myshopify.com",
    "url": "https://api.example",
    "client_email": "a@b.example",
    "spreadsheet_id": "sheet",
    "endpoint_url": "https://api.example",
    "region": "eu-1",
    "bucket": "bucket",
    "prefix": "",
    "access_key_id": "key",
    "host": "api.example",
    "origin": "https://api.example",
    "hosts": "api.example",
    "sign_in": "bearer",
    "test_url": "https://api.example/me",
    "base_url": "https://api.example",
    "account_sid": "AC" + "0" * 32,
    "phone_number_id": "100",
    "address": "smtps://mail.invalid:465",
    "sender": "shop@mail.invalid",
}
SEALED = {
    name: Secret(f"secret {name}")
    for name in (
        "access_token",
        "consumer_key",
        "consumer_secret",
        "secret_access_key",
        "token",
        "refresh_token",
    )
} | {"webhook_url": Secret("https://api.example/hook?sig=1"), "private_key": Secret("key")}


def secrets_of(connector: Connector) -> ConnectionSecrets:
    """Returns settings and secrets of a connection, with a token where a webhook would do as well."""
    form = properties_of(connector)
    tokens = {name: Secret(f"secret {name}") for name, field in form.items() if field.get("secret")}
    sealed = {**tokens, **SEALED}
    if "bot_token" in sealed:
        del sealed["webhook_url"]
    plain = dict(PLAIN)
    if isinstance(connector, MessageConnector) and connector.hosts is not None:
        name = next(host for host in connector.hosts if ":" not in host)
        origin = f"https://api{name}" if name.startswith(".") else f"https://{name}"
        plain["origin"], sealed["webhook_url"] = origin, Secret(f"{origin}/hook?sig=1")
    return ConnectionSecrets(IntegrationId(7), plain, sealed, "EUR", "UTC")


every_connector = pytest.mark.parametrize("connector", BUILT.values(), ids=list(BUILT))


def properties_of(connector: Connector) -> Mapping[str, Mapping[str, Any]]:
    """Returns the fields of the connection form."""
    fields: Any = connector.facts.settings_schema["properties"]
    return fields  # type: ignore[no-any-return]


@every_connector
def test_its_facts_name_it_by_its_folder(connector: Connector) -> None:
    """Registers each connector under its folder's name, which connections are stored by."""
    assert connectors.ALL[connector.facts.id] is type(connector)
    assert type(connector).__module__ == f"steward.connectors.{connector.facts.id}.connector"
    assert connector.facts.title.strip()
    assert connector.facts.auth
    assert connector.facts.rate_limit.max_concurrency >= 1


@every_connector
def test_its_settings_schema_is_a_form_with_titles_and_marked_secrets(connector: Connector) -> None:
    """Describes the settings by a valid JSON schema with titles and marked secrets, for the web form."""
    schema = connector.facts.settings_schema
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    fields = properties_of(connector)
    assert all(field.get("title") for field in fields.values())
    has_form = connector.facts.auth != (Auth.USER_SIGN_IN,)
    assert any(field.get("secret") is True for field in fields.values()) is has_form


@every_connector
def test_an_unknown_setting_and_an_empty_form_are_refused(connector: Connector) -> None:
    """Refuses unknown settings and an empty form under the names of fields."""
    with pytest.raises(BadSettings) as unknown:
        connector.settings({"no_such_setting": "x"})
    assert "no_such_setting" in unknown.value.errors
    with pytest.raises(BadSettings) as empty:
        connector.settings({})
    assert set(empty.value.errors) - {""} <= set(properties_of(connector))


@every_connector
def test_its_capabilities_are_what_it_implements(connector: Connector) -> None:
    """Declares exactly the capabilities that the connector implements."""
    capabilities = connector.facts.capabilities
    assert capabilities == type(connector).capabilities
    assert capabilities.reads is bool(connector.reads)
    assert capabilities.writes is bool(connector.writes)
    assert capabilities.sends_events is bool(connector.events is not None and connector.topics)
    assert capabilities.sign_in is (Auth.USER_SIGN_IN in connector.facts.auth)
    posts = any(isinstance(operation, PostMessage) for operation in connector.writes.values())
    assert (Receivable.MESSAGE in capabilities.receives) is posts


@every_connector
def test_its_operations_are_called_by_their_names_and_say_how_they_are_recovered(
    connector: Connector,
) -> None:
    """Registers operations under their own names with a recovery class, so that the ledger finds them."""
    for name, operation in connector.writes.items():
        assert name == operation.name
        assert isinstance(operation.recovery, Recovery)
        assert operation.plan([], integration_id=IntegrationId(7)).proposals == ()
    assert all(name == read.name for name, read in connector.reads.items())


@every_connector
def test_a_connection_without_messages_says_so(connector: Connector) -> None:
    """Offers an operation that posts a message, or raises LookupError with words."""
    if Receivable.MESSAGE in connector.facts.capabilities.receives:
        assert message_operation(connector.writes).recovery is Recovery.AT_MOST_ONCE
    else:
        with pytest.raises(LookupError, match="no messages"):
            message_operation(connector.writes)


def outbound(clock: FakeClock, status: int) -> Outbound:
    """Returns clients whose every request is answered with `status`."""
    transport = httpx.MockTransport(lambda request: httpx.Response(status, stream=httpx.ByteStream(b"no")))
    wire = HttpTransport(
        clock, SecretRegister(), Log(lambda line: None, clock, SecretRegister()), transport=transport
    )
    return Outbound(wire, jitter=lambda: 0.0)


@every_connector
async def test_a_check_that_is_refused_ends_in_words(connector: Connector, clock: FakeClock) -> None:
    """Reports a refused check in words without raising and without a secret."""
    http = outbound(clock, 403).management_client(OrgId(1), None, connector.endpoint(secrets_of(connector)))
    health = await connector.check(http, secrets_of(connector))
    assert health.ok is (health.error is None)
    if connector.reads:
        assert not health.ok
    assert health.error is None or health.error.message.strip()
    assert not any(f"secret {name}" in repr(health) for name in SEALED)


@every_connector
async def test_a_read_it_does_not_have_is_refused(connector: Connector, clock: FakeClock) -> None:
    """Raises LookupError for a read that the connector does not offer."""
    http = outbound(clock, 403).read_client(
        OrgId(1), IntegrationId(7), connector.endpoint(secrets_of(connector))
    )
    unknown: ReadOp[Any, Any] = ReadOp("no_such_read", object, object)
    with pytest.raises(LookupError):
        async for _ in connector.reader(http, secrets_of(connector)).read(unknown, object()):
            pass
