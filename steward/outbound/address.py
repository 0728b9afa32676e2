"""Which addresses may be connected to, judged on resolved addresses and never on strings (connectors 5.1)."""

import asyncio
import ipaddress
import re
import socket
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from steward.outbound.errors import Refused, Unavailable

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# What `is_global` lets through in some Python versions, or what holds any IPv4 address inside.
_NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "224.0.0.0/4", "240.0.0.0/4", "ff00::/8",
        "64:ff9b::/96", "64:ff9b:1::/48",
        "2002::/16", "2001::/32",
        "::/96",
        "fec0::/10",
        "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24",
        "168.63.129.16/32",
    )
)  # fmt: skip
_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of a call."""

    scheme: str
    host: str
    port: int

    @property
    def entry(self) -> str:
        """The `host:port` form of the operator's list."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Resolver(Protocol):
    """Names to addresses, as text."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Every address of `host`. Raises OSError when there is none."""
        ...


class SystemResolver:
    """The machine's resolver."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Every address of `host`. Raises OSError when there is none."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_allowed(address: Address) -> bool:
    """Whether a public call may go to `address`; an IPv4-mapped IPv6 address counts as its IPv4 one."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address.version == net.version and address in net for net in _NEVER)


def looks_like_address(host: str) -> bool:
    """Whether some resolver would read `host` as an address: dotted, decimal, octal, hex or full-width."""
    plain = unicodedata.normalize("NFKC", host).strip("[]").rstrip(".")
    if ":" in plain:
        return True
    return _NUMBER.fullmatch(plain.rpartition(".")[2]) is not None


def origin_of(url: str, private: Collection[str]) -> Origin:
    """The origin of `url` when a call may be made there at all.

    Raises Refused: user part, fragment, odd scheme, a host that is an address, and plain http or another
    port than 443 unless `host:port` is an exact entry of `private` (STEWARD_ALLOW_PRIVATE_HOSTS).
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("the address is not a URL") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise Refused("only https addresses are called")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Refused("an address carries no user part and no fragment")
    origin = Origin(parts.scheme, _named(parts.hostname), port or _PORTS[parts.scheme])
    if origin.entry in private:
        return origin
    if looks_like_address(parts.hostname):
        raise Refused("a host is given by name, not as an address")
    if not all(_LABEL.fullmatch(label) for label in origin.host.split(".")):
        raise Refused("the host is not a name")
    if origin.scheme != "https" or origin.port != 443:
        raise Refused("only https on port 443 is called")
    return origin


async def vetted(host: str, port: int, resolver: Resolver, private: Collection[str]) -> list[Address]:
    """The addresses of `host`, resolved once, when every one of them may be called.

    Raises Refused when one may not, Unavailable when the name does not resolve.
    """
    origin = Origin("", host, port)
    try:
        found = [ipaddress.ip_address(text) for text in await resolver.resolve(host, port)]
    except OSError:
        raise Unavailable("The host name of the account does not resolve.") from None
    except ValueError:
        raise Refused("the resolver gave something that is no address") from None
    if not found:
        raise Unavailable("The host name of the account does not resolve.")
    if origin.entry not in private and not all(is_allowed(address) for address in found):
        raise Refused("the host leads to an address that is not public")
    return found


def _named(host: str) -> str:
    """The host in the form it is looked up and compared in."""
    lowered = host.lower().rstrip(".")
    if lowered.isascii():
        return lowered
    try:
        return lowered.encode("idna").decode("ascii")
    except UnicodeError:
        raise Refused("the host is not a name") from None
