"""A cancel while a step reads takes effect before the step's next request, however many it would make."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from steward.fake_platforms.world import FakePlatforms
from steward.model.automation import Automation
from steward.model.run import Mode, Run, RunStatus
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop


@dataclass
class Watched(httpx.AsyncBaseTransport):
    """The way to the outside world, with something that happens while the n-th request is on its way."""

    inner: httpx.AsyncBaseTransport | None = None
    happening: Callable[[], Awaitable[None]] | None = None
    at: int = 0
    seen: list[str] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As the way behind."""
        assert self.inner is not None
        self.seen.append(f"{request.method} {request.url.path}")
        if self.happening is not None and len(self.seen) == self.at:
            await self.happening()
        return await self.inner.handle_async_request(request)


@pytest.fixture
def watched() -> Watched:
    """What the service sends."""
    return Watched()


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path, watched: Watched) -> AsyncIterator[Shop]:
    """A service beside the pretend shop, once on each engine, whose requests are watched."""

    def around(world: FakePlatforms) -> None:
        watched.inner = world.transport()
        world.transport = lambda: watched  # type: ignore[method-assign]

    opened = await open_shop(database_url, clock, tmp_path, around=around)
    await connect_all(opened)
    yield opened
    await opened.service.close()


async def read_until(
    shop: Shop, watched: Watched, automation: Automation, mode: Mode, *, cancel_at: int
) -> Run:
    """A run that is cancelled while its request number `cancel_at` is on its way; 0: it is not."""
    run = await shop.run_now(automation, mode)

    async def cancel() -> None:
        await shop.cancel(run)

    watched.seen.clear()
    watched.happening, watched.at = cancel, cancel_at
    await shop.drain()
    return await shop.run(run)


@pytest.mark.parametrize("mode", list(Mode))
async def test_nothing_is_asked_after_a_cancel(shop: Shop, watched: Watched, mode: Mode) -> None:
    """Whichever request of the reading step was on its way."""
    automation = await shop.hiding()
    whole = await read_until(shop, watched, automation, mode, cancel_at=0)
    assert whole.status in (RunStatus.SUCCEEDED, RunStatus.WAITING_APPROVAL)
    request = len(watched.seen)
    assert request >= 3, watched.seen
    if mode is Mode.LIVE:
        await shop.cancel(whole)
    for index in range(1, request):
        await shop.clock.advance(60)  # no reading waits for what another has asked
        run = await read_until(shop, watched, automation, mode, cancel_at=index)
        assert (run.status, run.code) == (RunStatus.CANCELLED, "by_person")
        assert len(watched.seen) == index, watched.seen
        assert run.summary is not None
        assert str(run.summary["text"]).startswith("Cancelled while reading ")


async def test_a_read_that_waits_to_try_again_is_not_sent_after_a_cancel(
    shop: Shop, watched: Watched
) -> None:
    """The shop asks for a short pause, which the worker waits for with the run in hand."""
    automation = await shop.hiding()
    shop.fault("throttle", "GET", "**/products", retry_after=30)
    run = await shop.run_now(automation)
    watched.seen.clear()

    async def cancel() -> None:
        await shop.cancel(run)

    watched.happening, watched.at = cancel, 2
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.CANCELLED
    assert len(watched.seen) == 2, watched.seen
