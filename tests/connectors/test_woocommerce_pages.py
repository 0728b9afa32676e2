"""A shop too slow for long pages is read in shorter ones without losing or doubling rows."""

from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.connectors.woocommerce.pages import ListPages
from steward.connectors.woocommerce.responses import id_of
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.client import Outbound
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import CallTimedOut
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock


@dataclass
class Shop:
    """A list of ids behind numbered pages; `slow` decides by count and length which requests time out."""

    ids: list[int]
    slow: Callable[[int, int], bool] = lambda count, length: False
    before: Callable[[int], None] = lambda count: None
    timeout: int | None = None  # a proxy's status; None when no response comes at all
    late: type[httpx.TimeoutException] = httpx.ReadTimeout
    requested_pages: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answers one page as WooCommerce numbers it."""
        length, number = (int(request.url.params[name]) for name in ("per_page", "page"))
        self.before(len(self.requested_pages))
        self.requested_pages.append((length, number))
        if self.slow(len(self.requested_pages) - 1, length):
            if self.timeout is None:
                raise self.late("slow")
            return httpx.Response(self.timeout, stream=httpx.ByteStream(b"<html>"))
        index = (number - 1) * length
        headers = {"x-wp-total": str(len(self.ids)), "x-wp-totalpages": str(-(-len(self.ids) // length))}
        rows = b",".join(b'{"id": %d}' % object_id for object_id in self.ids[index : index + length])
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(b"[" + rows + b"]"))

    def pages(self, clock: FakeClock) -> ListPages:
        """Returns the lists of this shop as a run receives them."""
        register = SecretRegister()
        log = Log(lambda line: None, clock, register)
        wire = HttpTransport(clock, register, log, transport=httpx.MockTransport(self))
        link = PlatformEndpoint("woocommerce", "https://shop.example", None, Timeouts(), RateLimit(), "shop")
        return ListPages(Outbound(wire).read_client(OrgId(1), IntegrationId(1), link))


async def read(pages: ListPages, *, size: int = 100) -> list[int]:
    """Returns the ids of a whole list, repeated if read twice."""
    return [
        int(id_of(row)) async for rows, _ in pages.fetch_all("/things", {}, "read", size=size) for row in rows
    ]


async def test_a_page_that_does_not_arrive_is_asked_for_half_as_long_and_stays_so(clock: FakeClock) -> None:
    shop = Shop(list(range(1, 251)), slow=lambda count, length: length > 50)
    pages = shop.pages(clock)
    assert await read(pages) == shop.ids
    assert shop.requested_pages == [(100, 1), *((50, number) for number in range(1, 6))]
    del shop.requested_pages[:]
    assert await read(pages) == shop.ids  # another list of the same run
    assert {length for length, _ in shop.requested_pages} == {50}
    del shop.requested_pages[:]
    await read(shop.pages(clock))  # another run tries the long pages again
    assert shop.requested_pages[0] == (100, 1)


async def test_the_lengths_go_down_to_ten_and_ten_is_tried_three_times(clock: FakeClock) -> None:
    shop = Shop(list(range(1, 31)), slow=lambda count, length: True)
    with pytest.raises(CallTimedOut):
        await clock.through(read(shop.pages(clock)))
    assert shop.requested_pages == [(100, 1), (50, 1), (25, 1), (10, 1), (10, 1), (10, 1)]


@pytest.mark.parametrize("status", [504, 524])
async def test_a_proxy_that_gave_up_waiting_counts_as_a_timeout(clock: FakeClock, status: int) -> None:
    shop = Shop([1, 2, 3], slow=lambda count, length: length > 25, timeout=status)
    assert await read(shop.pages(clock)) == [1, 2, 3]
    assert [length for length, _ in shop.requested_pages] == [100, 50, 25]


async def test_a_connection_that_is_not_made_says_nothing_of_the_length(clock: FakeClock) -> None:
    """Retries the page at its length after a wait, since a failed connection says nothing of the length."""
    shop = Shop([1, 2, 3], slow=lambda count, length: count < 2, late=httpx.ConnectTimeout)
    assert await clock.through(read(shop.pages(clock))) == [1, 2, 3]
    assert shop.requested_pages == [(100, 1)] * 3


async def test_a_page_that_comes_in_time_keeps_its_length(clock: FakeClock) -> None:
    shop = Shop(list(range(1, 301)))
    assert await read(shop.pages(clock)) == shop.ids
    assert shop.requested_pages == [(100, 1), (100, 2), (100, 3)]


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(0, 260),
    size=st.sampled_from([7, 30, 99, 100]),
    timeouts=st.sets(st.integers(0, 30), max_size=3),
    removals=st.dictionaries(st.integers(1, 12), st.sets(st.integers(1, 260), max_size=30), max_size=3),
)
async def test_no_object_is_lost_or_doubled_whatever_times_out_and_whatever_goes(
    count: int, size: int, timeouts: set[int], removals: dict[int, set[int]]
) -> None:
    """Yields each object that stays exactly once, whatever times out or is removed between requests."""
    shop = Shop(list(range(1, count + 1)), slow=lambda number, length: number in timeouts and length > 10)

    def remove(number: int) -> None:
        gone = removals.get(number, set())
        shop.ids = [object_id for object_id in shop.ids if object_id not in gone]

    shop.before = remove
    clock = FakeClock()
    seen = await clock.through(read(shop.pages(clock), size=size))
    assert len(seen) == len(set(seen))
    assert set(shop.ids) <= set(seen) <= set(range(1, count + 1))
