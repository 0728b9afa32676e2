"""The hosts that an account's key may be sent to: one connection, several hosts, whole addresses."""

import re
from collections.abc import Collection
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from steward.outbound.address import UrlOrigin, origin_of
from steward.outbound.errors import CallRefused
from steward.outbound.transport import HttpTransport, Target

_NAME = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)+")


def is_host_entry(entry: str) -> bool:
    """Returns whether an entry is a host name, or `*.` and a name with at least two labels."""
    return len(entry) <= 253 and _NAME.fullmatch(entry) is not None


def is_among(host: str, entries: Collection[str]) -> bool:
    """Returns whether a host is one of the entries, or below one that begins with `*.`."""
    return any(
        host == entry or (entry.startswith("*.") and host.endswith(entry[1:]) and host != entry[2:])
        for entry in entries
    )


def target_at(transport: HttpTransport, account: Target, url: str) -> Target:
    """Returns the account's target at the host of an address. Raises CallRefused for any other host."""
    origin: UrlOrigin = origin_of(url, account.private_hosts)
    if not is_among(origin.host, account.endpoint.hosts) and origin.entry not in account.endpoint.hosts:
        message = f"The account is not used at {origin.host[:100]}: its key is sent only to its own hosts."
        raise CallRefused("a key goes to the hosts of its account", message)
    parts = urlsplit(url)
    base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    return transport.target(account.org, account.integration_id, replace(account.endpoint, base_url=base))
