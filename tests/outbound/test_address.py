"""Which addresses may be called: every range and spelling, names of two places.

See docs/design/connectors.md#addresses.
"""

import ipaddress
import socket

import pytest

from steward.outbound.address import UrlOrigin, is_allowed, looks_like_address, origin_of, resolve_allowed
from steward.outbound.errors import CallRefused, PlatformUnavailable, UnknownHost

REFUSED = [
    "0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.8",
    "192.0.0.170", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.7", "203.0.113.9",
    "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::7f00:1", "::a9fe:a9fe", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1",
    "2002:7f00:1::", "2002:808:808::1", "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip
# IANA's registries of special-purpose addresses: what is not globally reachable or may hold an IPv4 address.
SPECIAL = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
    "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "240.0.0.0/4", "224.0.0.0/4",
    "::1/128", "::/128", "::ffff:0:0/108", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64",
    "2001::/23", "2001::/32", "2001:2::/48", "2001:10::/28", "2001:db8::/32", "2002::/16", "3fff::/20",
    "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "::/96", "4000::/3", "e000::/4",
]  # fmt: skip
ALLOWED = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "168.63.129.15", "168.63.129.17",
           "172.15.255.255", "172.32.0.0", "192.88.98.1", "223.255.255.255", "2606:4700::1111",
           "2a00:1450::1", "::ffff:8.8.8.8", "2001:200::1", "2003::1", "3ffe:ffff::1", "3fff:1000::1",
           "1.0.0.0", "100.128.0.0", "191.255.255.255", "192.0.1.0", "198.20.0.0",
           "223.255.255.255"]  # fmt: skip
SPELLINGS = [
    "127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "017700000001", "0x7f.0.0.1",
    "127.0.0.1.", "１２７.０.０.１", "[::1]", "[::ffff:127.0.0.1]", "0", "0x",
    "１２７．１", "[fe80::1%25eth0]",
    "127。0。0。1", "8。8。8。8", "１２７｡０｡０｡１", "127.0.0.1。", "⒏⒏⒏⒏", "8\u00ad.8.8.8",
    "８.８.８.８", "⑧.⑧.⑧.⑧", "𝟪.𝟪.𝟪.𝟪",
    "１３４７４４０７２", "０ｘ０８０８０８０８", "0x08。0x08。0x08。0x08",
    "０１０。０１０。０１０。０１０", "8.8.2056", "8.526344",
    "134744072", "0X8080808", "8.8.8.8.", "[::ffff:8.8.8.8]", "[2606:4700::1111]", "[64:ff9b::8.8.8.8]",
    "[2002:808:808::]", "[::8.8.8.8]",
]  # fmt: skip


class Names:
    """A resolver that knows what a test says."""

    def __init__(self, *addresses: str, reason: int | None = None) -> None:
        self.reason = reason
        self.addresses = list(addresses)
        self.asked = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        """What was given; nothing is a name that does not resolve."""
        self.asked += 1
        if self.reason is not None:
            raise socket.gaierror(self.reason, "no such name")
        if not self.addresses:
            raise OSError("no such name")
        return self.addresses


@pytest.mark.parametrize("text", REFUSED)
def test_an_address_that_is_not_public_is_refused(text: str) -> None:
    """See docs/design/connectors.md#addresses."""
    assert not is_allowed(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", SPECIAL)
def test_no_address_of_a_special_range_is_called(text: str) -> None:
    """The IANA registries of special-purpose addresses, at both ends of each range and inside."""
    network = ipaddress.ip_network(text)
    for number in (0, network.num_addresses // 2, network.num_addresses - 1):
        assert not is_allowed(network[number])


@pytest.mark.parametrize("text", ALLOWED)
def test_a_public_address_beside_each_range_is_allowed(text: str) -> None:
    """See docs/design/connectors.md#addresses."""
    assert is_allowed(ipaddress.ip_address(text))


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_host_given_as_an_address_in_any_spelling_is_refused(host: str) -> None:
    """See docs/design/connectors.md#addresses."""
    assert looks_like_address(host)
    with pytest.raises(CallRefused, match="by name, not as an address"):
        origin_of(f"https://{host}/", ())


@pytest.mark.parametrize("host", ["shop.example", "1.shop.example", "xn--mnchen-3ya.example", "a-b.example"])
def test_a_name_is_not_taken_for_an_address(host: str) -> None:
    """See docs/design/connectors.md#addresses."""
    assert origin_of(f"https://{host}/path?x=1", ()) == UrlOrigin("https", host, 443)


def test_a_name_in_unicode_is_the_name_that_is_looked_up() -> None:
    """One form is judged, compared and called."""
    for url, host in (
        ("https://münchen.example/", "xn--mnchen-3ya.example"),
        ("https://Bücher。example/", "xn--bcher-kva.example"),
        ("https://Shop.Example./", "shop.example"),
    ):
        assert origin_of(url, ()).host == host


@pytest.mark.parametrize(
    "url", ["https://straße.example/", "https://sh\u200dop.example/", "https://βόλος.example/"]
)
def test_a_name_that_two_editions_of_idna_read_differently_is_refused(url: str) -> None:
    """What is judged is what is called."""
    with pytest.raises(CallRefused):
        origin_of(url, ())


@pytest.mark.parametrize(
    "url",
    [
        "http://shop.example/", "https://shop.example:8443/", "https://shop.example:80/", "ftp://shop.example/",
        "https://user@shop.example/", "https://user:word@shop.example/", "https://shop.example/#part",
        "https:///path", "shop.example", "", "file:///etc/passwd", "https://sh op.example/",
        "https://shop.example:99999/", "https://shop..example/", "https://-shop.example/",
    ],
)  # fmt: skip
def test_other_schemes_ports_and_odd_addresses_are_refused(url: str) -> None:
    """See docs/design/connectors.md#addresses."""
    with pytest.raises(CallRefused):
        origin_of(url, ())


def test_only_an_exact_entry_of_the_private_list_opens_http_and_other_ports() -> None:
    """See docs/design/connectors.md#addresses."""
    private = {"127.0.0.1:8500", "shop.internal:443"}
    assert origin_of("http://127.0.0.1:8500/x", private).entry == "127.0.0.1:8500"
    assert origin_of("https://shop.internal/", private).host == "shop.internal"
    for url in (
        "http://127.0.0.1:8501/",
        "http://127.0.0.1/",
        "http://localhost:8500/",
        "http://2130706433:8500/",
    ):
        with pytest.raises(CallRefused):
            origin_of(url, private)


def test_plain_http_is_called_only_without_a_key_and_on_its_own_port() -> None:
    """Every other rule holds as over https."""
    assert origin_of("http://shop.example/x", (), allows_http=True).entry == "shop.example:80"
    assert origin_of("https://shop.example/x", (), allows_http=True).entry == "shop.example:443"
    for url in (
        "http://shop.example:443/",
        "https://shop.example:80/",
        "http://shop.example:8080/",
        "http://user@shop.example/",
        "http://127.0.0.1/",
        "http://2130706433/",
    ):
        with pytest.raises(CallRefused):
            origin_of(url, (), allows_http=True)


async def test_a_name_with_one_good_and_one_bad_address_is_refused() -> None:
    """See docs/design/connectors.md#addresses."""
    for addresses in (["8.8.8.8", "10.0.0.1"], ["10.0.0.1", "8.8.8.8"], ["::ffff:10.0.0.1"]):
        with pytest.raises(CallRefused):
            await resolve_allowed("shop.example", 443, Names(*addresses), ())


async def test_a_private_host_is_only_that_host_and_port() -> None:
    """See docs/design/connectors.md#addresses."""
    assert await resolve_allowed("shop.internal", 443, Names("10.0.0.1"), {"shop.internal:443"})
    for host, port in (("shop.internal", 8443), ("other.internal", 443)):
        with pytest.raises(CallRefused):
            await resolve_allowed(host, port, Names("10.0.0.1"), {"shop.internal:443"})


async def test_a_name_that_does_not_resolve_is_unavailable_and_a_strange_response_refused() -> None:
    """See docs/design/connectors.md#errors."""
    with pytest.raises(PlatformUnavailable):
        await resolve_allowed("shop.example", 443, Names(), ())
    for reason, error in ((socket.EAI_NONAME, UnknownHost), (socket.EAI_AGAIN, PlatformUnavailable)):
        with pytest.raises(PlatformUnavailable) as raised:
            await resolve_allowed("shop.example", 443, Names(reason=reason), ())
        assert type(raised.value) is error
    with pytest.raises(CallRefused):
        await resolve_allowed("shop.example", 443, Names("not an address"), ())
