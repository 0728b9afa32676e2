"""The hosts that an account's key may be sent to: one connection, several hosts, whole addresses.

An entry is the name of a host, for https on port 443; `*.` and a name, for every name below it; or scheme,
host and port, such as `http://localhost:3000`.
"""

import re
from collections.abc import Collection
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from steward.outbound.address import (
    UrlOrigin,
    is_local_name,
    looks_like_address,
    origin_of,
    parsed_origin,
)
from steward.outbound.errors import CallRefused
from steward.outbound.transport import HttpTransport, Target

_NAME = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)+")


def entry_of(origin: UrlOrigin) -> str:
    """Returns how the hosts of an account name an origin: by its name if possible, else as a whole."""
    if origin.is_usual() and is_host_entry(origin.host) and not looks_like_address(origin.host):
        return origin.host
    return f"{origin.scheme}://{origin.entry}"


def listing_of(entry: str) -> str | None:
    """Returns the `host:port` that the operator has to list before a host of an account may be called.

    Returns None for hosts that may be called anyway, and for `*.` and a name: each host is checked then.
    """
    host_and_port = entry.rpartition("://")[2]
    if ":" in host_and_port:
        return host_and_port
    return f"{entry}:443" if is_local_name(entry) and not entry.startswith("*.") else None


def unlisted_words(listing: str) -> str:
    """Returns a sentence on what to do about a host that the operator does not list."""
    return (
        f"Steward may not call {listing}, as its operator does not list it. "
        f"Ask them to add {listing} to STEWARD_ALLOW_PRIVATE_HOSTS."
    )


def is_host_entry(entry: str) -> bool:
    """Returns whether an entry is a host name, or `*.` and a name with at least two labels."""
    return len(entry) <= 253 and _NAME.fullmatch(entry) is not None


def is_among(host: str, entries: Collection[str]) -> bool:
    """Returns whether a host is one of the entries, or below one that begins with `*.`."""
    return any(
        host == entry or (entry.startswith("*.") and host.endswith(entry[1:]) and host != entry[2:])
        for entry in entries
    )


def with_scheme(entry: str) -> str:
    """Returns an entry as it is written now: older releases kept `host:port` for https on another port."""
    return f"https://{entry}" if ":" in entry and "://" not in entry else entry


def names_origin(entries: Collection[str], origin: UrlOrigin) -> bool:
    """Returns whether the hosts of an account name an origin."""
    if origin.is_usual() and is_among(origin.host, entries):
        return True
    return entry_of(origin) in map(with_scheme, entries)


def target_at(transport: HttpTransport, account: Target, url: str) -> Target:
    """Returns the account's target at the host of an address.

    Raises CallRefused for any other host, and for one that the operator does not list any more.
    """
    origin = parsed_origin(url)
    if not names_origin(account.endpoint.hosts, origin):
        message = (
            f"The account is not used at {entry_of(origin)[:100]}: its key is sent only to its own hosts."
        )
        raise CallRefused("a key goes to the hosts of its account", message)
    origin_of(url, account.private_hosts)
    parts = urlsplit(url)
    base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    return transport.target(account.org, account.integration_id, replace(account.endpoint, base_url=base))
