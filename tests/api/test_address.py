"""The source address that rate limits count by."""

from ipaddress import ip_network

import pytest

from steward.api.http.address import source

PROXIES = (ip_network("10.0.0.0/8"), ip_network("2001:db8:aaaa::/48"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "counted"),
    [
        ("203.0.113.7", [], "203.0.113.7"),
        ("203.0.113.7", [b"198.51.100.1"], "203.0.113.7"),  # not from a proxy: ignored
        ("10.0.0.1", [b"198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", [b"1.2.3.4, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", [b"198.51.100.1, 10.0.0.9 , 10.0.0.8"], "198.51.100.1"),
        ("10.0.0.1", [b"198.51.100.1", b"10.0.0.9"], "198.51.100.1"),
        ("10.0.0.1", [b"198.51.100.1, unknown"], "10.0.0.1"),
        ("10.0.0.1", [b"10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", [b""], "10.0.0.1"),
        ("2001:db8:aaaa::1", [b"2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", [], "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", [], "203.0.113.7"),
        (None, [], "0.0.0.0"),
        # A server that listens on IPv6 for both protocols sees IPv4 proxies as mapped addresses.
        ("::ffff:10.0.0.1", [b"198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", [b"198.51.100.1, ::ffff:10.0.0.9"], "198.51.100.1"),
        ("::ffff:203.0.113.7", [b"198.51.100.1"], "203.0.113.7"),
        ("10.0.0.1", [b"::ffff:198.51.100.1"], "198.51.100.1"),
        # Some proxies append the port to the address.
        ("10.0.0.1", [b"198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.1", [b"[2001:db8:1:2:3:4:5:6]:4711, 10.0.0.9:80"], "2001:db8:1:2::/64"),
        ("10.0.0.1", [b"[2001:db8:1:2:3:4:5:6]"], "2001:db8:1:2::/64"),
        ("10.0.0.1", [b"198.51.100.1:port"], "10.0.0.1"),
    ],
)
def test_the_rightmost_address_that_is_no_trusted_proxy_counts(
    peer: str | None, forwarded: list[bytes], counted: str
) -> None:
    """Reads X-Forwarded-For only behind trusted proxies and groups IPv6 addresses by /64."""
    assert source(peer, forwarded, PROXIES) == counted
