"""Tests that a cancel takes effect before the next request of a step that reads."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from steward.fake_platforms.application import FakePlatforms
from steward.model.automation import Automation
from steward.model.run import Mode, Run, RunStatus
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop


@dataclass
class RecordingTransport(httpx.AsyncBaseTransport):
    """A transport that records requests and calls `on_request` while request `request_number` is sent."""

    inner: httpx.AsyncBaseTransport | None = None
    on_request: Callable[[], Awaitable[None]] | None = None
    request_number: int = 0
    seen: list[str] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Records the request and passes it on."""
        assert self.inner is not None
        self.seen.append(f"{request.method} {request.url.path}")
        if self.on_request is not None and len(self.seen) == self.request_number:
            await self.on_request()
        return await self.inner.handle_async_request(request)


@pytest.fixture
def recording() -> RecordingTransport:
    """Provides the transport through which the service sends."""
    return RecordingTransport()


@pytest.fixture
async def shop(
    database_url: str, clock: FakeClock, tmp_path: Path, recording: RecordingTransport
) -> AsyncIterator[Shop]:
    """Provides a connected service, once on each engine, whose requests are recorded."""

    def around(world: FakePlatforms) -> None:
        recording.inner = world.transport()
        world.transport = lambda: recording  # type: ignore[method-assign]

    opened = await open_shop(database_url, clock, tmp_path, around=around)
    await connect_all(opened)
    yield opened
    await opened.service.close()


async def read_until(
    shop: Shop, recording: RecordingTransport, automation: Automation, mode: Mode, *, cancel_at: int
) -> Run:
    """Runs an automation and cancels it while request number `cancel_at` is in flight; 0 does not cancel."""
    run = await shop.run_now(automation, mode)

    async def cancel() -> None:
        await shop.cancel(run)

    recording.seen.clear()
    recording.on_request, recording.request_number = cancel, cancel_at
    await shop.drain()
    return await shop.run(run)


@pytest.mark.parametrize("mode", list(Mode))
async def test_nothing_is_asked_after_a_cancel(shop: Shop, recording: RecordingTransport, mode: Mode) -> None:
    """After a cancel during any request of the reading step, no further request is sent."""
    automation = await shop.hiding()
    whole = await read_until(shop, recording, automation, mode, cancel_at=0)
    assert whole.status in (RunStatus.SUCCEEDED, RunStatus.WAITING_APPROVAL)
    request = len(recording.seen)
    assert request >= 3, recording.seen
    if mode is Mode.LIVE:
        await shop.cancel(whole)
    for index in range(1, request):
        await shop.clock.advance(60)  # no reading waits for what another has asked
        run = await read_until(shop, recording, automation, mode, cancel_at=index)
        assert (run.status, run.code) == (RunStatus.CANCELLED, "by_person")
        assert len(recording.seen) == index, recording.seen
        assert run.summary is not None
        assert str(run.summary["text"]).startswith("Cancelled while reading ")


async def test_a_read_that_waits_to_try_again_is_not_sent_after_a_cancel(
    shop: Shop, recording: RecordingTransport
) -> None:
    """A throttled read that the worker waits for in memory is not repeated after a cancel."""
    automation = await shop.hiding()
    shop.fault("throttle", "GET", "**/products", retry_after=30)
    run = await shop.run_now(automation)
    recording.seen.clear()

    async def cancel() -> None:
        await shop.cancel(run)

    recording.on_request, recording.request_number = cancel, 2
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.CANCELLED
    assert len(recording.seen) == 2, recording.seen
