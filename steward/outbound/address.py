"""Decides which addresses may be called: by resolved addresses, never by strings.

The rules are in `docs/design/connectors.md#addresses`.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

import httpx

from steward.outbound.errors import CallRefused, PlatformUnavailable, UnknownHost

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# Ranges that the IANA special-purpose address registries mark as not globally reachable, and multicast.
# Listed here because `ipaddress` has the registries of its Python's release date.
_SPECIAL_IPV4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # the host of a virtual machine in Azure
    )
)  # fmt: skip
# Every other part of IPv6 is reserved, local, multicast, or embeds an IPv4 address.
_UNICAST_IPV6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_IPV6 = tuple(
    ipaddress.IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Definite results; EAI_AGAIN, of a resolver that does not answer, is none. Not every system has EAI_NODATA.
_NO_SUCH_NAME = frozenset((socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)))
_PORTS = {"https": 443, "http": 80}
_LOCAL = tuple(f".{name}" for name in ("localhost", "local", "internal", "lan", "home.arpa"))


@dataclass(frozen=True, slots=True)
class UrlOrigin:
    """Scheme, host and port of a call."""

    scheme: str
    host: str
    port: int

    @property
    def entry(self) -> str:
        """The `host:port` form that STEWARD_ALLOW_PRIVATE_HOSTS uses."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def is_usual(self) -> bool:
        """Returns whether it is that of https on port 443."""
        return (self.scheme, self.port) == ("https", 443)

    def is_named_by(self, hosts: Collection[str]) -> bool:
        """Returns whether `hosts` list it: by host (port 443), `host:port`, or a suffix such as `.a.com`."""
        suffixes = tuple(host for host in hosts if host.startswith("."))
        is_named = self.entry in hosts or (self.port == 443 and self.host in hosts)
        return is_named or self.host.endswith(suffixes)


class Resolver(Protocol):
    """Resolves host names to addresses, as text."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Returns every address of `host`. Raises OSError when there is none."""
        ...


class SystemResolver:
    """The resolver of the operating system."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Returns every address of `host`. Raises OSError when there is none."""
        address_infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in address_infos))


def is_allowed(address: Address) -> bool:
    """Returns whether a public call may go to `address`; IPv4-mapped addresses count as IPv4."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    return address in _UNICAST_IPV6 and not any(address in network for network in _SPECIAL_IPV6)


def looks_like_address(host: str) -> bool:
    """Returns whether a resolver could interpret `host` as an address.

    Resolvers accept dotted, decimal, octal and hexadecimal numbers, in any Unicode form.
    """
    try:
        plain = normalized(host)
    except CallRefused:
        return False  # no resolver accepts it in any form
    if ":" in plain:
        return True
    return _NUMBER.fullmatch(plain.rpartition(".")[2]) is not None


def is_local_name(host: str) -> bool:
    """Returns whether only a local network resolves a host name, such as `localhost`."""
    return "." not in host or host.endswith(_LOCAL)


def origin_of(url: str, private: Collection[str], *, allows_http: bool = False) -> UrlOrigin:
    """Returns the origin of `url` when a call to it is allowed at all.

    Raises CallRefused for a user part, a fragment, another scheme, a host that is an address, and for plain
    http or a port other than 443 unless `host:port` is an exact entry of `private`
    (STEWARD_ALLOW_PRIVATE_HOSTS). `allows_http`: also http on port 80, for calls without any key.
    """
    origin, is_plain = parsed_origin(url), _is_ascii(url)
    if is_plain and origin.entry in private:
        return origin
    if looks_like_address(origin.host):
        raise CallRefused("a host is given by name, not as an address")
    if not is_plain and _called_host(url) != origin.host:
        raise CallRefused("the host is not a name")
    if origin.entry in private:
        return origin
    if not is_host_name(origin.host):
        raise CallRefused("the host is not a name")
    is_plain_http = allows_http and (origin.scheme, origin.port) == ("http", 80)
    if not is_plain_http and not origin.is_usual():
        raise CallRefused("only https on port 443 is called")
    return origin


def is_host_name(host: str) -> bool:
    """Returns whether each part of a host is written as in the names of hosts."""
    return all(_LABEL.fullmatch(label) for label in host.split("."))


def _is_ascii(url: str) -> bool:
    return (urlsplit(url).hostname or "").isascii()


def parsed_origin(url: str) -> UrlOrigin:
    """Returns the origin of `url`, whether or not it may be called.

    Raises CallRefused for a user part, a fragment, another scheme, and a host that is none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise CallRefused("the address is not a URL") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise CallRefused("only https addresses are called")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise CallRefused("an address carries no user part and no fragment")
    return UrlOrigin(parts.scheme, normalized(parts.hostname), port or _PORTS[parts.scheme])


async def resolve_allowed(
    host: str, port: int, resolver: Resolver, private: Collection[str]
) -> list[Address]:
    """Resolves `host` once and returns its addresses if every one of them may be called.

    Raises CallRefused if any may not, UnknownHost, and PlatformUnavailable if the resolver does not answer.
    """
    origin = UrlOrigin("", host, port)
    try:
        addresses = [ipaddress.ip_address(text) for text in await resolver.resolve(host, port)]
    except OSError as error:
        if error.errno in _NO_SUCH_NAME:
            raise UnknownHost(host) from None
        raise PlatformUnavailable("The host name of the account does not resolve.") from None
    except ValueError:
        raise CallRefused("the resolver gave something that is not an address") from None
    if not addresses:
        raise PlatformUnavailable("The host name of the account does not resolve.")
    if origin.entry not in private and not all(is_allowed(address) for address in addresses):
        raise CallRefused("the host leads to an address that is not public")
    return addresses


def _called_host(url: str) -> str:
    """Returns the host that the HTTP library calls.

    The library's newer IDNA keeps some letters that older versions replace.
    """
    try:
        return httpx.URL(url).raw_host.decode("ascii").rstrip(".")
    except httpx.InvalidURL:
        return ""


def normalized(host: str) -> str:
    """Returns the host in the resolvers' form: ASCII, lower case, no final dot. Raises CallRefused."""
    try:
        return host.encode("idna").decode("ascii").lower().rstrip(".")
    except UnicodeError:
        raise CallRefused("the host is not a name") from None
