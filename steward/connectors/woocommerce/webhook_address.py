"""Decides whether WordPress would deliver webhooks to the service's own address."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from steward.outbound.address import is_allowed, is_local_name

# The ports to which WordPress sends requests (`wp_http_validate_url`).
PORTS = (80, 443, 8080)


def unreachable_reason(address: str) -> str | None:
    """Returns why a shop cannot deliver to an address, in words for people; null when it can."""
    parts = urlsplit(address)
    host = (parts.hostname or "").rstrip(".").lower()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    message = f"This shop cannot tell what happens in it: it does not deliver to {parts.netloc}, since"
    if _is_private(host):
        return f"{message} that is an address within a network. Give Steward a public address."
    if port not in PORTS:
        return f"{message} WordPress uses only the ports 80, 443 and 8080. Put Steward behind one of them."
    return None


def no_keys_reason(origin: str) -> str | None:
    """Returns why a shop cannot send keys to a web app at this origin, for people; null when it can."""
    parts = urlsplit(origin)
    if parts.scheme == "https" and not _is_private((parts.hostname or "").rstrip(".").lower()):
        return None
    return (
        f"A shop sends keys only to a public https address, and Steward is at {parts.netloc}."
        " Enter the keys of the shop instead."
    )


def _is_private(host: str) -> bool:
    try:
        return not is_allowed(ip_address(host))
    except ValueError:
        return is_local_name(host)
