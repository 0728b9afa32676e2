"""Accounts of HTTP APIs: the settings, the sign-in methods, and the hosts that keys are sent to."""

import json
from base64 import b64encode
from typing import Any

import httpx
import pytest

from steward.connectors.base.queries import HTTP, HttpQuery
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.connectors.http_api.connector import CONNECTOR, HttpApiConnector
from steward.connectors.http_api.settings import MAX_HOSTS
from steward.model.ids import IntegrationId, OrgId
from steward.model.limits import MAX_PATH_KEYS
from steward.outbound.address import parsed_origin
from steward.outbound.client import Outbound
from steward.outbound.errors import CallError, CallRefused, Unauthorized, UnusableResponse, WrongResponder
from steward.outbound.hosts import is_among, is_host_entry, names_origin
from steward.outbound.response import PlatformResponse
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.connectors.options import connector_options
from tests.fake_clock import FakeClock
from tests.fakes.partner_api import API, AUTH, CLIENT_ID, CLIENT_SECRET, ELSEWHERE, KEY, REFRESH, PartnerApi

ME = f"https://{API}/me"
TOKENS = f"https://{AUTH}/token"
SIGN_INS: dict[str, dict[str, Any]] = {
    "bearer": {"token": KEY},
    "header": {"header_name": "X-Api-Key", "header_value": KEY},
    "query": {"query_name": "api_key", "query_value": KEY},
    "basic": {"username": "ann", "password": KEY},
    "refresh_token": {
        "person_client_id": CLIENT_ID,
        "person_client_secret": CLIENT_SECRET,
        "person_token_url": TOKENS,
        "refresh_token": REFRESH,
    },
    "custom": {"custom": json.dumps({"headers": {"X-Api-Key": KEY}, "qs": {"v": 2}})},
    "client_credentials": {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "token_url": TOKENS},
}
every_sign_in = pytest.mark.parametrize("sign_in", SIGN_INS)


def connector() -> HttpApiConnector:
    """Returns the connector of an operator who allows no private hosts."""
    return CONNECTOR.from_options(connector_options())


def connected(fields: dict[str, Any], hosts: str = API) -> ConnectionSecrets:
    """Returns the account as stored."""
    settings = connector().settings({"hosts": hosts, **fields})
    return ConnectionSecrets(IntegrationId(7), settings.plain, settings.sealed)


class PartnerClients:
    """The HTTP clients over a partner's API, without sockets."""

    def __init__(self, clock: FakeClock) -> None:
        self.api = PartnerApi()
        self.lines: list[str] = []
        self.clock = clock
        register = SecretRegister()
        log = Log(self.lines.append, clock, register)
        wire = HttpTransport(clock, register, log, transport=httpx.MockTransport(self.api.response))
        self.outbound = Outbound(wire, jitter=lambda: 0.0)

    async def read(self, secrets: ConnectionSecrets, url: str = ME, **headers: str) -> PlatformResponse:
        """Reads an address with the account."""
        return await self.ask(secrets, HttpQuery("GET", url, tuple(headers.items())))

    async def ask(self, secrets: ConnectionSecrets, query: HttpQuery) -> PlatformResponse:
        """Sends a reading request with the account and returns the response."""
        http = self.outbound.read_client(OrgId(1), IntegrationId(7), connector().endpoint(secrets))
        [page] = [page async for page in connector().reader(http, secrets).read(HTTP, query)]
        return page.items[0]


@pytest.fixture
def world(clock: FakeClock) -> PartnerClients:
    """Returns a partner's API."""
    return PartnerClients(clock)


@every_sign_in
async def test_every_sign_in_is_accepted_by_the_api(world: PartnerClients, sign_in: str) -> None:
    """Sends the key in its place for each sign-in method and logs no key."""
    secrets = connected(SIGN_INS[sign_in])
    assert secrets.plain["sign_in"] == sign_in
    response = await world.read(secrets)
    assert (response.status, response.json()) == (200, {"path": "/me", "method": "GET"})
    assert world.lines
    assert not any(KEY in line or CLIENT_SECRET in line for line in world.lines)


@every_sign_in
async def test_a_key_is_sent_to_the_hosts_of_its_account_alone(world: PartnerClients, sign_in: str) -> None:
    """Sends a key to the hosts of its account alone, whatever a step's address or a redirect names."""
    secrets = connected(SIGN_INS[sign_in])
    with pytest.raises(CallRefused, match=r"thief\.example"):
        await world.read(secrets, f"https://{ELSEWHERE}/me")
    assert world.api.seen == []
    away = httpx.Response(302, headers={"location": f"https://{ELSEWHERE}/me"}, stream=httpx.ByteStream(b""))
    world.api.respond = lambda request: away
    with pytest.raises(CallRefused, match=r"thief\.example"):
        await world.read(secrets)
    assert {request.url.host for request in world.api.seen} == {API}


async def test_a_redirect_within_the_accounts_hosts_is_followed(world: PartnerClients) -> None:
    """Follows a redirect within the account's hosts with the key, at most three times."""
    world.api.respond = lambda request: _redirect("/me") if request.url.path == "/old" else None
    assert (await world.read(connected(SIGN_INS["bearer"]), f"https://{API}/old")).status == 200
    world.api.respond = lambda request: _redirect("/old")
    with pytest.raises(WrongResponder):
        await world.read(connected(SIGN_INS["bearer"]))
    assert len(world.api.seen) == 2 + 4


def _redirect(path: str) -> httpx.Response:
    return httpx.Response(307, headers={"location": path}, stream=httpx.ByteStream(b""))


async def test_the_accounts_key_replaces_what_the_request_has_in_its_place(world: PartnerClients) -> None:
    """Replaces an empty header or parameter of an import by the account's key, once."""
    await world.read(connected(SIGN_INS["header"]), **{"X-Api-Key": ""})
    await world.read(connected(SIGN_INS["query"]), f"{ME}?api_key=&page=2")
    first, second = world.api.seen
    assert first.headers.get_list("x-api-key") == [KEY]
    assert second.url.params.multi_items() == [("page", "2"), ("api_key", KEY)]


async def test_a_key_in_the_path_is_put_at_the_beginning_alone(world: PartnerClients) -> None:
    """Puts the key where the import's mark follows the path prefix, and sends no mark anywhere else."""
    secrets = connected({"path_prefix": "/bot", "path_key": KEY})
    base, mark = f"https://{API}", "__removed_secret_1__"
    assert (await world.read(secrets, f"{base}/bot{mark}/send?text=a")).status == 200
    for path in (f"/bot{mark}/send?text={mark}", f"/notes/bot{mark}/send", f"/bot{mark}{mark}"):
        with pytest.raises(CallRefused, match="address of the request contains the mark"):
            await world.read(secrets, f"{base}{path}")
    [sent] = world.api.seen
    assert str(sent.url) == f"{base}/bot{KEY}/send?text=a"
    assert not any(KEY in line for line in world.lines)


@pytest.mark.parametrize("sign_in", ["bearer", "header", "query", "basic"])
async def test_a_mark_in_a_header_is_not_sent(world: PartnerClients, sign_in: str) -> None:
    """Refuses a request whose header contains the mark of a key that the account does not put there."""
    with pytest.raises(CallRefused, match="header of the request contains the mark"):
        await world.read(connected(SIGN_INS[sign_in]), **{"X-Other": "Key __removed_secret_1__"})
    assert world.api.seen == []


async def test_a_custom_sign_in_has_keys_in_the_path_and_a_basic_sign_in(world: PartnerClients) -> None:
    """Sends a path key, HTTP Basic, a header and a parameter with one request, and logs none of them."""
    keys = {"a": "path-key-1", "b": "password-key-2", "c": "header-key-3", "d": "query-key-4"}
    custom = {
        "path": {"/bot": keys["a"]},
        "auth": {"username": "ann", "password": keys["b"]},
        "headers": {"X-Api-Key": keys["c"]},
        "qs": {"k": keys["d"]},
    }
    world.api.respond = lambda request: httpx.Response(200, stream=httpx.ByteStream(b"{}"))
    await world.read(
        connected({"custom": json.dumps(custom)}), f"https://{API}/bot__removed_secret_7__/x?n=1"
    )
    [sent] = world.api.seen
    assert str(sent.url) == f"https://{API}/bot{keys['a']}/x?n=1&k={keys['d']}"
    basic = b64encode(f"ann:{keys['b']}".encode()).decode()
    assert sent.headers["authorization"] == f"Basic {basic}"
    assert sent.headers["x-api-key"] == keys["c"]
    assert not any(key in line for key in keys.values() for line in world.lines)


@pytest.mark.parametrize(
    ("custom", "words"),
    [
        ({"path": {"bot": "k"}}, "“path” must be an object"),
        ({"path": {f"/{'*/' * count}": "k" for count in range(MAX_PATH_KEYS + 1)}}, "at most 5 keys"),
        ({"path": ["k"]}, "“path” must be an object"),
        ({"auth": {"username": "ann"}}, "“auth” must have a “username”"),
        ({"auth": {"username": "a:b", "password": "k"}}, "without a colon"),
        (
            {"auth": {"username": "a", "password": "k"}, "headers": {"authorization": "k"}},
            "Give either “auth”",
        ),
        ({"paths": {"/a": "k"}}, "Give an object with"),
    ],
)
def test_a_custom_sign_in_that_cannot_be_sent_is_refused(custom: dict[str, object], words: str) -> None:
    """Names what is wrong with the path or the basic sign-in of a custom sign-in."""
    with pytest.raises(BadSettings) as refused:
        connected({"custom": json.dumps(custom)})
    assert words in str(refused.value.errors["custom"])


BODIES = {
    "application/json": ('{"a": "__removed_secret_4__", "b": "__removed_secret_4__"}', 'k"1', r"k\"1", 2),
    "application/x-www-form-urlencoded": ("a=__removed_secret_4__&n=1", "k&1", "k%261", 1),
    "text/plain": ("__removed_secret_4__", "k&1", "k&1", 1),
}


@pytest.mark.parametrize(("content_type", "case"), BODIES.items(), ids=BODIES.keys())
async def test_a_key_in_the_body_is_put_where_the_import_left_its_mark(
    world: PartnerClients, content_type: str, case: tuple[str, str, str, int]
) -> None:
    """Encodes the key as the body requires, and refuses to send a mark that the account has no key for."""
    body, key, written, times = case
    world.api.respond = lambda request: httpx.Response(200, stream=httpx.ByteStream(b"{}"))
    query = HttpQuery("GET", ME, (("Content-Type", content_type),), body.encode())
    await world.ask(connected({"body_key": key}), query)
    [request] = world.api.seen
    assert request.content.decode() == body.replace("__removed_secret_4__", written)
    assert request.content.decode().count(written) == times
    for fields in (SIGN_INS["bearer"], {"custom": json.dumps({"headers": {"X": KEY}, "body": []})}):
        with pytest.raises(CallRefused, match="was removed at import"):
            await world.ask(connected(fields), query)
    assert len(world.api.seen) == 1


async def test_several_keys_in_a_body_come_in_the_order_of_the_account(world: PartnerClients) -> None:
    """Puts the keys in the account's order: the first mark of the body takes the first key."""
    world.api.respond = lambda request: httpx.Response(200, stream=httpx.ByteStream(b"{}"))
    body = b'{"b": "__removed_secret_9__", "a": "__removed_secret_2__", "c": "__removed_secret_9__"}'
    secrets = connected({"custom": json.dumps({"body": ["first-key", "second-key"]})})
    await world.ask(secrets, HttpQuery("GET", ME, (("content-type", "application/json"),), body))
    assert world.api.seen[0].content == b'{"b": "first-key", "a": "second-key", "c": "first-key"}'
    assert not any("first-key" in line or "second-key" in line for line in world.lines)


async def test_a_refresh_token_is_exchanged_and_a_revoked_one_refused(world: PartnerClients) -> None:
    """Exchanges a refresh token for a bearer token (RFC 6749 section 6); refuses a revoked one."""
    secrets = connected(SIGN_INS["refresh_token"])
    assert (await world.read(secrets)).status == 200
    assert world.api.grants[0]["grant_type"] == "refresh_token"
    with pytest.raises(Unauthorized):
        await world.read(connected({**SIGN_INS["refresh_token"], "refresh_token": "revoked"}))


@pytest.mark.parametrize("key_location", ["body", "header"])
async def test_a_token_is_fetched_once_and_again_when_it_is_no_longer_accepted(
    world: PartnerClients, key_location: str
) -> None:
    """Exchanges client credentials in body or header once, and again when the token is refused.

    See RFC 6749 section 4.4.
    """
    fields = {**SIGN_INS["client_credentials"], "client_in": key_location, "scope": "read write"}
    secrets = connected(fields)
    await world.read(secrets)
    await world.read(secrets)
    [grant] = world.api.grants
    assert (grant["by"], grant["grant_type"], grant["scope"]) == (
        key_location,
        "client_credentials",
        "read write",
    )
    world.api.tokens.clear()
    assert (await world.read(secrets)).status == 200
    assert len(world.api.grants) == 2


@pytest.mark.parametrize(("lifetime", "seconds"), [(None, 2880.0), ("600", 480.0), (600, 480.0)])
async def test_a_token_is_used_for_most_of_its_lifetime(
    world: PartnerClients, lifetime: object, seconds: float
) -> None:
    """Uses a token for 80 % of its lifetime, which may be text and is an hour when not named."""
    world.api.lifetime_s = lifetime
    secrets = connected(SIGN_INS["client_credentials"])
    await world.read(secrets)
    await world.clock.advance(seconds - 1)
    await world.read(secrets)
    assert len(world.api.grants) == 1
    await world.clock.advance(2)
    await world.read(secrets)
    assert len(world.api.grants) == 2


async def test_a_refused_client_and_an_unusable_token_differ_in_their_errors(world: PartnerClients) -> None:
    """Raises Unauthorized for a refused client and UnusableResponse for a token that cannot be used."""
    with pytest.raises(Unauthorized):
        await world.read(connected({**SIGN_INS["client_credentials"], "client_secret": "wrong"}))
    world.api.lifetime_s = "soon"
    with pytest.raises(UnusableResponse):
        await world.read(connected(SIGN_INS["client_credentials"]))


@every_sign_in
async def test_the_test_request_distinguishes_a_good_key_from_a_bad_one(
    world: PartnerClients, sign_in: str
) -> None:
    """Reports a refused key on the field of its secret, and a good one as ok."""
    secrets = connected({**SIGN_INS[sign_in], "test_url": ME})
    http = world.outbound.management_client(OrgId(1), None, connector().endpoint(secrets))
    assert (await connector().check(http, secrets)).ok
    world.api.respond = lambda request: httpx.Response(401, stream=httpx.ByteStream(b"no"))
    health = await connector().check(http, secrets)
    assert not health.ok
    assert health.error_field in secrets.sealed


async def test_without_a_test_address_the_check_says_that_nothing_was_tried(world: PartnerClients) -> None:
    """Calls nothing without a test address and warns that nothing was tried."""
    secrets = connected(SIGN_INS["bearer"])
    http = world.outbound.management_client(OrgId(1), None, connector().endpoint(secrets))
    health = await connector().check(http, secrets)
    assert health.ok
    assert [warning.code for warning in health.warnings] == ["not_tried"]
    assert world.api.seen == []


async def test_a_client_is_tried_without_a_test_address(world: PartnerClients) -> None:
    """Fetches the token of a client without a test address, and reports a refused client on its secret."""
    good = connected(SIGN_INS["client_credentials"])
    world.api.respond = lambda request: httpx.Response(404, stream=httpx.ByteStream(b""))
    http = world.outbound.management_client(OrgId(1), None, connector().endpoint(good))
    assert (await connector().check(http, good)).ok
    bad = connected({**SIGN_INS["client_credentials"], "client_secret": "wrong"})
    http = world.outbound.management_client(OrgId(1), None, connector().endpoint(bad))
    health = await connector().check(http, bad)
    assert (health.ok, health.error_field) == (False, "client_secret")


@pytest.mark.parametrize(
    ("respond", "error"),
    [
        (lambda request: httpx.Response(200, stream=httpx.ByteStream(b"x" * (16 * 1024 * 1024))), CallError),
        (lambda request: (_ for _ in ()).throw(httpx.ReadTimeout("slow")), CallError),
        (lambda request: (_ for _ in ()).throw(httpx.RemoteProtocolError("cut")), CallError),
    ],
    ids=["too large", "slow", "cut"],
)
async def test_a_server_that_misbehaves_ends_in_an_error(
    world: PartnerClients, respond: Any, error: type
) -> None:
    """Raises CallError for a response that is too large, slow or cut off."""
    world.api.respond = respond
    secrets = connected(SIGN_INS["bearer"])
    with pytest.raises(error):
        await world.clock.through(world.read(secrets))


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({}, {"token"}),
        ({"token": "a", "password": "b"}, {"token", "password"}),
        ({"username": "ann"}, {"password"}),
        ({"header_name": "Host", "header_value": "x"}, {"header_name"}),
        ({"header_name": "A B", "header_value": "x"}, {"header_name"}),
        ({"token": "a\nb"}, {"token"}),
        ({"token": 7}, {"token"}),
        ({"token": "a" * 8001}, {"token"}),
        ({"token": "a", "test_url": "http://api.partner.example/"}, {"test_url"}),
        ({"token": "a", "test_url": "https://other.example/"}, {"test_url"}),
        ({"token": "a", "hosts": ""}, {"hosts"}),
        ({"token": "a", "hosts": "localhost"}, {"hosts"}),
        ({"token": "a", "hosts": "*.com"}, {"hosts"}),
        ({"token": "a", "hosts": "127.0.0.1:80"}, {"hosts"}),
        ({"token": "a", "hosts": " ".join(f"h{n}.example" for n in range(MAX_HOSTS + 1))}, {"hosts"}),
        ({"client_id": "a", "client_secret": "b", "token_url": "x"}, {"token_url"}),
        ({**SIGN_INS["client_credentials"], "client_in": "query"}, {"client_in"}),
        ({"path_prefix": "bot?", "path_key": "x"}, {"path_prefix"}),
        ({**SIGN_INS["refresh_token"], "person_token_url": "x"}, {"person_token_url"}),
        ({"custom": "x"}, {"custom"}),
        ({"custom": '{"body": {"a": "b"}}'}, {"custom"}),
        ({"custom": '{"headers": {"Content-Length": "1"}}'}, {"custom"}),
        ({"custom": '{"headers": {"A": {}}}'}, {"custom"}),
        ({"token": "a", "colour": "red"}, {"colour"}),
    ],
)
def test_a_form_that_cannot_be_used_is_refused_by_field(fields: dict[str, Any], errors: set[str]) -> None:
    """Names the field of each invalid setting."""
    with pytest.raises(BadSettings) as refused:
        connector().settings({"hosts": API, **fields})
    assert set(refused.value.errors) == errors


def test_hosts_are_read_from_names_and_addresses() -> None:
    """Reads hosts from names and addresses with any separator, twenty at most."""
    settings = connector().settings(
        {"hosts": f"https://{API}/v1/, *.partner.example;API.PARTNER.EXAMPLE", "token": "a"}
    )
    assert settings.plain["hosts"] == f"{API} *.partner.example"
    limit = " ".join(f"h{number}.example" for number in range(MAX_HOSTS))
    assert connector().settings({"hosts": limit, "token": "a"}).domain == "h0.example"


def test_new_keys_are_the_same_account_and_other_hosts_another() -> None:
    """Identifies an account by hosts, sign-in and account name, so that a new key leads to the same one."""
    subjects = {
        connector().settings({"hosts": API, **fields}).subject
        for fields in (
            {"token": "a"},
            {"token": "b"},
            {"token": "a", "account": "second"},
            {"token": "a", "hosts": AUTH},
            {"username": "ann", "password": "a"},
        )
    }
    assert len(subjects) == 4


@pytest.mark.parametrize(
    ("host", "entry", "is_one"),
    [
        ("api.example.com", "api.example.com", True),
        ("api.example.com", "*.example.com", True),
        ("a.b.example.com", "*.example.com", True),
        ("example.com", "*.example.com", False),
        ("evilexample.com", "*.example.com", False),
        ("example.com.evil.com", "*.example.com", False),
        ("api.example.com", "example.com", False),
    ],
)
def test_a_star_stands_for_names_below(host: str, entry: str, is_one: bool) -> None:
    """Matches names below the domain with a star, and neither the domain itself nor one that ends alike."""
    assert is_host_entry(entry)
    assert is_among(host, [entry]) is is_one


NO_KEY = {"sign_in": "none"}
LISTED = frozenset(
    (
        "nas.lan:443",
        "nas.lan:8123",
        "myservice:8443",
        "localhost:3000",
        "localhost:80",
        "192.168.1.5:8123",
        "[::1]:8080",
        f"{API}:8443",
    )
)


def listing_connector() -> HttpApiConnector:
    """Returns the connector of an operator who lists private hosts."""
    return CONNECTOR.from_options(connector_options(private_hosts=LISTED))


@pytest.mark.parametrize(
    ("host", "kept"),
    [
        ("http://nas.lan:8123/api", "http://nas.lan:8123"),
        ("https://NAS.lan:8123", "https://nas.lan:8123"),
        ("https://nas.lan/", "nas.lan"),
        ("nas.lan", "nas.lan"),
        ("http://localhost", "http://localhost:80"),
        ("http://192.168.1.5:8123", "http://192.168.1.5:8123"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
        (f"https://{API}:8443", f"https://{API}:8443"),
        (f"https://{API}:443", API),
    ],
)
def test_a_private_host_is_named_with_scheme_and_port(host: str, kept: str) -> None:
    """Keeps the whole origin of a host that the operator lists, and only its name where that is enough."""
    settings = listing_connector().settings({"hosts": host, **NO_KEY})
    assert (settings.plain["hosts"], settings.plain["sign_in"], settings.sealed) == (kept, "none", {})
    secrets = ConnectionSecrets(IntegrationId(7), settings.plain, {})
    assert listing_connector().endpoint(secrets).credentials is None
    if kept != API:
        with pytest.raises(CallRefused, match="does not list it"):
            connector().endpoint(secrets)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("http://nas.lan:9000", "nas.lan:9000"),
        ("https://localhost", "localhost:443"),
        ("https://10.0.0.1", "10.0.0.1:443"),
        (f"http://{API}", f"{API}:80"),
        ("nas.lan:8123", "Write http:// or https:// before"),
        ("localhost", "is not the name of a host"),
        ("192.168.1.5", "is not the name of a host"),
        ("http://user@nas.lan:8123", "is not the name of a host"),
        ("ftp://nas.lan:8123", "is called over https or http"),
        (f"ftp://{API}", "is called over https or http"),
        ("http://*.partner.example", "possible only for https on port 443"),
        ("https://*.partner.example:8443", "possible only for https on port 443"),
        ("http://*", "is not the name of a host"),
        ("http://na$s.lan:8123", "is not the name of a host"),
        ("http://nas.lan:8123 http://localhost", "needs an account of its own"),
        (f"{API} http://nas.lan:8123", "needs an account of its own"),
        (f"{API} nas.lan", "needs an account of its own"),
    ],
)
def test_a_host_that_may_not_be_called_is_refused(host: str, words: str) -> None:
    """Says what the operator has to list, and how a private host is written."""
    with pytest.raises(BadSettings) as refused:
        listing_connector().settings({"hosts": host, **NO_KEY})
    [message] = refused.value.errors["hosts"]
    assert words in message


@pytest.mark.parametrize(
    ("entry", "url", "is_named"),
    [
        ("nas.lan", "https://nas.lan/x", True),
        ("nas.lan", "https://nas.lan:8123/x", False),
        ("nas.lan", "http://nas.lan/x", False),
        ("*.lan", "https://nas.lan:8123/x", False),
        ("http://nas.lan:8123", "http://nas.lan:8123/x", True),
        ("http://nas.lan:8123", "https://nas.lan:8123/x", False),
        ("http://nas.lan:8123", "http://nas.lan:8124/x", False),
        ("http://nas.lan:80", "http://nas.lan/x", True),
        ("nas.lan:8123", "https://nas.lan:8123/x", True),
        ("nas.lan:8123", "http://nas.lan:8123/x", False),
    ],
)
def test_an_entry_names_exactly_its_origin(entry: str, url: str, is_named: bool) -> None:
    """Compares scheme, host and port; without a scheme, as older releases kept them, https is meant."""
    assert names_origin([entry], parsed_origin(url)) is is_named


def test_a_host_on_another_port_is_the_same_account_as_in_older_releases() -> None:
    """Identifies it without the scheme of https, so that it can be reconnected."""
    subject = listing_connector().settings({"hosts": "https://nas.lan:8123", "token": "a"}).subject
    assert subject == "bearer nas.lan:8123  "


@pytest.mark.parametrize(
    "host", ["myservice:8443", "localhost:3000", "nas.lan:8123", "[::1]:8080", f"{API}:8443"]
)
def test_an_account_of_an_older_release_is_used_over_https(host: str) -> None:
    """Reaches a host that was kept without its scheme while the operator lists it."""
    kept = ConnectionSecrets(IntegrationId(7), {"hosts": host, "sign_in": "none"}, {})
    assert listing_connector().endpoint(kept).base_url == f"https://{host}"
    with pytest.raises(CallRefused, match="does not list it"):
        connector().endpoint(kept)


async def test_a_host_without_a_sign_in_is_tried_and_asks_for_none(world: PartnerClients) -> None:
    """Reports an address that asks for a sign-in, on the field of the address, and that nothing was tried."""
    tried = connected({"sign_in": "none", "test_url": ME})
    http = world.outbound.management_client(OrgId(1), None, connector().endpoint(tried))
    health = await connector().check(http, tried)
    assert (health.ok, health.error_field) == (False, "test_url")
    assert "asks for a sign-in (status 401)" in str(health.error)
    untried = connected(NO_KEY)
    [warning] = (await connector().check(http, untried)).warnings
    assert warning.message.startswith("Nothing was called")
    assert len(world.api.seen) == 1
