"""How calls to a shop on plain http are let in: WooCommerce takes Basic over https alone."""

import base64
import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Callable
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import httpx

from steward.clock import Clock, SystemClock

Sign = Callable[[httpx.Request], None]


def is_private(url: str) -> bool:
    """Whether every address of the host is private or loopback: where plain http may be chosen."""
    parts = urlsplit(url)
    try:
        getaddrinfo = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    except OSError:
        return False
    addresses = [ipaddress.ip_address(str(entry[4][0])) for entry in getaddrinfo]
    return bool(addresses) and all(address.is_private or address.is_loopback for address in addresses)


def forwarded(request: httpx.Request) -> None:
    """Says what a proxy that ends TLS says, which WordPress in containers believes."""
    request.headers["x-forwarded-proto"] = "https"


def oauth(key: str, secret: str, *, clock: Clock | None = None) -> Sign:
    """OAuth 1.0a with one leg (RFC 5849), which WooCommerce takes on plain http in place of Basic."""

    times = clock or SystemClock()

    def sign(request: httpx.Request) -> None:
        url = httpx.URL(str(request.url))
        query = parse_qsl(url.query.decode("ascii"), keep_blank_values=True)
        query += [
            ("oauth_consumer_key", key),
            ("oauth_nonce", secrets.token_hex(8)),
            ("oauth_signature_method", "HMAC-SHA256"),
            ("oauth_timestamp", str(int(times.now().timestamp()))),
        ]
        new_signature = signature(request.method, str(url.copy_with(query=None)), query, secret)
        request.headers.pop("authorization", None)
        signed = urlencode([*query, ("oauth_signature", new_signature)], quote_via=quote)
        request.url = url.copy_with(query=signed.encode("ascii"))

    return sign


def signature(method: str, url: str, query: list[tuple[str, str]], secret: str) -> str:
    """The signature of RFC 5849 3.4 with HMAC-SHA256 and no token."""
    text = base_string(method, url, query)
    digest = hmac.new(f"{_escaped(secret)}&".encode(), text.encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode("ascii")


def base_string(method: str, url: str, query: list[tuple[str, str]]) -> str:
    """What is signed: method, address and sorted parameters (RFC 5849 3.4.1)."""
    pairs = sorted((_escaped(name), _escaped(value)) for name, value in query)
    joined = "&".join(f"{name}={value}" for name, value in pairs)
    return "&".join((method.upper(), _escaped(url), _escaped(joined)))


def _escaped(text: str) -> str:
    return quote(text, safe="-._~")


class Signing(httpx.AsyncBaseTransport):
    """Sends what it is given after `sign`, over a transport of its own."""

    def __init__(self, sign: Sign) -> None:
        self._sign = sign
        self._inner = httpx.AsyncHTTPTransport(retries=0, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The shop's response."""
        self._sign(request)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Closes its sockets."""
        await self._inner.aclose()


async def way_in(url: str, key: str, secret: str) -> tuple[str, httpx.AsyncBaseTransport | None]:
    """The first way the shop lets the key in, in words, and the transport for it; None: the ordinary one.

    Raises SystemExit in words when none does.
    """
    if urlsplit(url).scheme == "https":
        return "Basic over https", None
    if not is_private(url):
        raise SystemExit("Plain http is tried only on a private or loopback address: the keys would be read.")
    ways: list[tuple[str, Sign | None]] = [
        ("Basic over plain http", None),
        ("Basic over plain http, said to have come over https (X-Forwarded-Proto)", forwarded),
        ("OAuth 1.0a over plain http", oauth(key, secret)),
    ]
    status = 0
    for words, sign in ways:
        transport = Signing(sign or (lambda request: None))
        async with httpx.AsyncClient(transport=transport, auth=(key, secret), timeout=30) as client:
            try:
                response = await client.get(f"{url}/wp-json/wc/v3/products", params={"per_page": "1"})
            except httpx.HTTPError as error:
                raise SystemExit(f"The shop does not answer: {type(error).__name__}.") from None
        status = response.status_code
        if status == 200:
            return words, Signing(sign) if sign is not None else None
    raise SystemExit(f"The shop let the key in on no way: its last answer had status {status}.")
