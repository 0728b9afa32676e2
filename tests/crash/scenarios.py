"""Short scenarios that the right engine passes and a faulty one fails; each returns what went wrong."""

import asyncio
import sqlite3
from datetime import timedelta
from typing import Any

import httpx

from steward import app, worker
from steward.config import read
from steward.model.run import RunStatus
from steward.runs import claim
from steward.runs.walk import leased_run
from tests.crash import stalled_worker
from tests.crash.killing import KINDS, Killer, judge, play
from tests.runs.shop import Shop

GET = ("GET", "HEAD")
# Of a run whose changes are approved: begin, intent, then the outcome of the first call.
FIRST_OUTCOME = 3


async def killed_after_a_call(shop: Shop) -> list[str]:
    """A message was sent and the process dies before the outcome is stored."""
    run = await play(shop, "teams", dry := Killer())
    number = dry.visited.index("after_call")
    run = await play(shop, "teams", Killer([number]))
    return await judge(shop, run, blind=True)


async def killed_before_a_write(shop: Shop) -> list[str]:
    """The process dies between an intent and its call, which must then still be made."""
    run = await play(shop, "price", dry := Killer())
    number = dry.visited.index("after_intent")
    run = await play(shop, "price", Killer([number]))
    return await judge(shop, run, blind=False)


class DelayedTransport(httpx.AsyncBaseTransport):
    """A transport that holds writes back until `deliver` is set."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport
        self.writes_held = asyncio.Event()
        self.deliver = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Passes reads at once and holds batch writes back."""
        if request.method not in GET and "/batch" in request.url.path:
            self.writes_held.set()
            await self.deliver.wait()
        return await self._transport.handle_async_request(request)


async def late_call(shop: Shop) -> list[str]:
    """A lost worker's write arrives only after another worker has taken over its run."""
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    network = DelayedTransport(shop.world.transport())
    slow = await app.build(
        read(dict(shop.environ)), clock=shop.clock, serve=False, transport=network, write_log=print
    )
    lost = await worker.register(slow.worker_context, slow.hints, poll=timedelta(seconds=1))
    [lease] = await claim.claim(slow.worker_context.engine, slow.clock.now(), lost.id, free=1, full=[])
    task = asyncio.create_task(leased_run.work(slow.worker_context, lease))
    await network.writes_held.wait()
    await shop.clock.advance(shop.service.worker_context.worker_rules.lease.total_seconds() + 1)
    shop.worker = None
    await shop.drain()
    early = len(shop.writes())
    network.deliver.set()
    await task
    await slow.close()
    wrong = await judge(shop, await shop.until_settled(run), blind=False)
    if early:
        wrong.append("a write was repeated while the first one was under way")
    if len(shop.writes()) != len(shop.applied()):
        wrong.append("a write was repeated")
    return wrong


async def late_refusal(shop: Shop) -> list[str]:
    """A lost worker receives a refusal after another worker has made the change."""
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    body: dict[str, Any] = {"code": "no", "message": "No.", "data": {"status": 400}}
    shop.fault("status", "POST", "**/batch", status=400, body=body)
    return await _wake_after_takeover(shop, run, stalled_write=FIRST_OUTCOME, blind=False)


async def late_end(shop: Shop) -> list[str]:
    """A lost worker wakes before its last write, after another worker has ended the run."""
    run = await shop.run_now(await KINDS["teams"](shop))
    last = await stalled_worker.count_run_writes(shop)
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    await shop.world.reset()
    await shop.restart()
    shop.connected_at = 0
    run = await shop.run_now(await KINDS["teams"](shop))
    return await _wake_after_takeover(shop, run, stalled_write=last, blind=True)


async def _wake_after_takeover(shop: Shop, run: Any, *, stalled_write: int, blind: bool) -> list[str]:
    """Stalls a worker at write number `stalled_write`, lets another finish the run, and wakes the first."""
    stalled = await stalled_worker.stall(shop, stalled_write)
    assert stalled is not None
    ended = await stalled_worker.finish_elsewhere(shop, run)
    before = await stalled_worker.rows(shop)
    await stalled_worker.wake(stalled)
    after = await stalled_worker.rows(shop)
    wrong = [f"{table} was written too late" for table in before if before[table] != after[table]]
    return wrong + await judge(shop, ended, blind=blind)


async def passed_over(shop: Shop) -> list[str]:
    """A blocked run is cancelled while another run of the automation is active."""
    automation = await shop.hiding()
    holder = await shop.waiting(automation)
    second, third = await shop.run_now(automation), await shop.run_now(automation)
    try:
        await shop.cancel(second)
    except sqlite3.IntegrityError as error:
        return [f"two runs would have been live: {error}"]
    await shop.drain()
    wrong = []
    if (await shop.run(third)).status is not RunStatus.QUEUED:
        wrong.append("a second run of the automation is live")
    if (await shop.run(holder)).status is not RunStatus.WAITING_APPROVAL:
        wrong.append("the holder does not wait any more")
    return wrong


async def tampered(shop: Shop) -> list[str]:
    """A price is changed in the database between the approval and its application."""
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    await shop.tamper("UPDATE changes SET parts = replace(parts, '41.61', '1.61') WHERE org_id = :org")
    await shop.drain()
    wrong = ["something was written"] if shop.writes() else []
    if (await shop.run(run)).code != "approval_mismatch":
        wrong.append("the run does not say that it was tampered with")
    return wrong
