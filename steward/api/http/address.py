"""The source address of a request as limits count it."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_UNKNOWN = "0.0.0.0"
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}")


def source(peer: str | None, forwarded: Sequence[bytes], proxies: Sequence[IPv4Network | IPv6Network]) -> str:
    """Returns the client's address: the peer or, behind trusted proxies, the last one forwarded to them.

    `forwarded` holds the values of X-Forwarded-For; some proxies write the client's port behind its address.
    """
    address = peer or _UNKNOWN
    if not proxies or not is_among(address, proxies):
        return _counted(address)
    forwarded_addresses = b",".join(forwarded).decode("latin-1").split(",")
    for entry in reversed(forwarded_addresses):
        text = _without_port(entry.strip())
        if _address(text) is None:
            break
        address = text
        if not is_among(text, proxies):
            break
    return _counted(address)


def is_among(text: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Returns whether an address lies in one of the networks; IPv4-mapped ones count as IPv4."""
    address = _address(text)
    return address is not None and any(address in network for network in networks)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _without_port(text: str) -> str:
    match = _WITH_PORT.fullmatch(text)
    return text if match is None else match[1] or match[2]


def _counted(text: str) -> str:
    """Returns an address as rate limits count it: an IPv6 address by its /64."""
    address = _address(text)
    if isinstance(address, IPv6Address):
        return str(ip_network((int(address) >> 64 << 64, 64)))
    return text if address is None else str(address)
