"""Tests that a child belongs to one run, and that every organization gets its turn.

See docs/design/sandbox.md#sandbox-for-foreign-code.
"""

import asyncio
import os
import signal
import sys

import pytest
from anyio.lowlevel import checkpoint

from steward.sandbox.pool import JAVASCRIPT, Owner, SandboxPool, SandboxTime
from steward.sandbox.protocol import SandboxStopped

MATCH = b'[["a","","a"]]'
KEEP = b'[["a","","abc"]]'


async def _ask(children: SandboxPool, owner: Owner) -> set[int]:
    """Sends one message and returns the processes that serve the owner after it."""
    await children.send(owner, JAVASCRIPT, {"op": "match"}, MATCH, 5.0)
    return _served(children, owner)


def _served(children: SandboxPool, owner: Owner) -> set[int]:
    return {child.process.pid for child in children._live if child.owner == owner}


async def test_a_child_serves_a_single_run() -> None:
    """Serves further messages of the same run with the same child, and every other run with a new one.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    children = SandboxPool(2)
    first = await _ask(children, ("one", "1"))
    assert await _ask(children, ("one", "1")) == first
    others = [
        await _ask(children, owner) for owner in (("two", "1"), ("one", "2"), ("two", "2"), ("three", "1"))
    ]
    used = [first, *others]
    assert all(len(pids) == 1 for pids in used)
    assert len(set.union(*used)) == len(used)
    assert children.live <= 2
    await children.close()
    assert children.live == 0


async def test_messages_beyond_the_number_of_children_wait() -> None:
    """Lets messages wait when all places are taken. See docs/design/sandbox.md#sandbox-for-foreign-code."""
    children = SandboxPool(2)
    owners = [(f"org{number % 5}", str(number)) for number in range(12)]
    await asyncio.gather(*(_ask(children, owner) for owner in owners))
    assert children.live <= 2
    await children.close()


async def test_no_second_child_while_another_organization_waits_for_its_first() -> None:
    """Gives an organization no second child while another one waits for its first.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    children = SandboxPool(1)
    order: list[str] = []

    async def ask(owner: Owner) -> None:
        await children.send(owner, JAVASCRIPT, {"op": "match"}, KEEP, 5.0)
        order.append(owner[0])

    busy = [asyncio.ensure_future(ask(("loud", str(number)))) for number in range(6)]
    await checkpoint()
    quiet = asyncio.ensure_future(ask(("quiet", "1")))
    await asyncio.gather(quiet, *busy)
    assert order[:2] == ["loud", "quiet"]
    await children.close()


async def test_a_child_that_forges_responses_or_dies_fails_only_its_step() -> None:
    """Stops the message with `code_crashed` when its child dies, and serves the next one.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    children = SandboxPool(1)
    await _ask(children, ("one", "1"))
    (child,) = children._live
    child.process.kill()
    with pytest.raises(SandboxStopped) as end:
        await _ask(children, ("one", "1"))
    assert end.value.code == "code_crashed"
    assert await _ask(children, ("one", "1"))
    with pytest.raises(SandboxStopped):
        await children.send(("one", "1"), JAVASCRIPT, {"op": "nothing"}, b"{}", 5.0)
    assert await _ask(children, ("one", "1"))
    await children.close()


async def test_a_cancelled_message_ends_its_child() -> None:
    """Ends the child of a cancelled message and serves the next one with another.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    children = SandboxPool(1)
    [process] = await _ask(children, ("one", "1"))
    os.kill(process, signal.SIGSTOP)  # it answers nothing before the message is cancelled
    task = asyncio.ensure_future(_ask(children, ("one", "1")))
    for _ in range(3):
        await checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await _ask(children, ("one", "1"))
    await children.close()


async def test_an_engine_that_does_not_start_fails_every_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops every waiting message when the engine does not start, and frees its place.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    children = SandboxPool(1)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    requests = [_ask(children, (f"org{number}", "1")) for number in range(3)]
    ends = await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 20)
    assert [type(end) for end in ends] == [SandboxStopped] * 3
    monkeypatch.undo()
    assert await _ask(children, ("one", "1"))
    await children.close()


async def test_waiting_for_a_child_is_not_counted_as_its_time() -> None:
    """Counts only the time that a child works for the run, not the time that it waits for one.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    children, used, now = SandboxPool(1), SandboxTime(), asyncio.get_running_loop().time
    await _ask(children, ("one", "1"))
    [child] = [child for child in children._live if child.owner is not None]
    child.busy = True  # as while it works on another message
    began = now()
    task = asyncio.ensure_future(children.send(("two", "1"), JAVASCRIPT, {"op": "match"}, MATCH, 5.0, used))
    while now() < began + 0.3:
        await checkpoint()
    child.busy = False
    children._wake_waiting()
    await task
    for _ in range(2):  # the kernel now and then reports no time of a process that another core still runs
        await children.send(("two", "1"), JAVASCRIPT, {"op": "match"}, MATCH, 5.0, used)
    assert 0 < used.seconds <= now() - began - 0.3
    await children.close()
