"""The source address limits count (contract 1.6)."""

from ipaddress import ip_network

import pytest

from steward.api.address import source

PROXIES = (ip_network("10.0.0.0/8"), ip_network("2001:db8:aaaa::/48"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "counted"),
    [
        ("203.0.113.7", [], "203.0.113.7"),
        ("203.0.113.7", [b"198.51.100.1"], "203.0.113.7"),  # not from a proxy: not believed
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
    ],
)
def test_the_rightmost_address_that_is_no_trusted_proxy_counts(
    peer: str | None, forwarded: list[bytes], counted: str
) -> None:
    """contract 1.6: X-Forwarded-For only behind trusted proxies; IPv6 by /64"""
    assert source(peer, forwarded, PROXIES) == counted
