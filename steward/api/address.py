"""The source address of a request as limits count it (contract 1.6); leaves the limits to accounts/."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

UNKNOWN = "0.0.0.0"


def source(peer: str | None, forwarded: Sequence[bytes], proxies: Sequence[IPv4Network | IPv6Network]) -> str:
    """The peer, or behind trusted proxies the rightmost forwarded address that is not such a proxy."""
    here = peer or UNKNOWN
    if not proxies or not is_among(here, proxies):
        return _counted(here)
    named = b",".join(forwarded).decode("latin-1").split(",")
    for entry in reversed(named):
        text = entry.strip()
        if _address(text) is None:
            break
        here = text
        if not is_among(text, proxies):
            break
    return _counted(here)


def _address(text: str) -> object | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_among(text: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether an address lies in one of the networks."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return any(address in network for network in networks)


def _counted(text: str) -> str:
    """An IPv6 address counts by its /64."""
    try:
        address = ip_address(text)
    except ValueError:
        return text
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((int(address) >> 64 << 64, 64)))
    return str(address)
