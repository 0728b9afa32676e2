"""A pool of processes that run foreign code, each for one owner.

See docs/design/sandbox.md#child-processes.

A child serves one message at a time. It may serve further messages of the same owner, which is one run of one
organization; another owner gets a fresh child.
"""

import asyncio
import contextlib
import json
import os
import secrets
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from steward.sandbox.child_process import BadFrame, ChildProcess, Frame
from steward.sandbox.protocol import (
    CRASHED,
    DATA,
    FILE_MESSAGE_BYTES,
    MEMORY,
    MESSAGE_BYTES,
    MIB,
    NO_NONCE,
    NONCE_BYTES,
    PROGRESS,
    READY,
    REFUSED,
    REQUEST,
    RESULT,
    STOPPED,
    TIMEOUT,
    SandboxStopped,
    compact,
    frame,
    stopped,
)

# The owner of a child: organization and run. Fairness is between organizations.
Owner: TypeAlias = tuple[str, str]

JAVASCRIPT: Final = "javascript"
LIQUID: Final = "liquid"
FILES: Final = "files"
_BARE: Final = "bare"  # without an engine: it only reports its isolation and starts ten times as fast
_START_SECONDS: Final = 30.0
_MAX_REMEMBERED_TURNS: Final = 1000
# A child's total CPU time is limited; one that has used this much is not used again.
_CPU_SECONDS: Final = 12.0
_MESSAGE_SECONDS: Final = 120.0  # wall time of a whole message
# The limit of a part is CPU time of its child, so that a busy machine does not stop a harmless script. Its
# wall time may be this many times as long.
WALL_TIME_FACTOR: Final = 6
_YIELD_SECONDS: Final = 0.5  # after this much CPU time, all other processes take precedence over a part
_POLL_SECONDS: Final = 0.1
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation of a child, as far as it depends on the machine.

    `network`: it has namespaces of its own. `system_calls`: its system calls are filtered. `unprivileged`: it
    is not root and has no capabilities.
    """

    network: bool
    system_calls: bool
    unprivileged: bool

    @property
    def is_confined(self) -> bool:
        """Whether the machine confines foreign code beyond resource limits."""
        return self.network or self.system_calls


@dataclass(slots=True)
class SandboxTime:
    """The seconds that children spent on messages, in CPU time or else in wall time.

    Waiting for a child does not count.
    """

    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class _Child:
    process: ChildProcess
    kind: str
    isolation: Isolation
    owner: Owner | None = None
    busy: bool = False
    cpu_seconds: float = 0.0


@dataclass(slots=True, eq=False)
class _Waiter:
    owner: Owner
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class SandboxPool:
    """At most `count` sandbox processes of this service process; messages wait for a free one.

    The first message starts the first process. From then on a spare, unused process of that kind is ready, so
    that a new owner need not wait for a start. With `must_confine`, foreign code only runs if system call
    filters or namespaces are available.
    """

    def __init__(self, count: int, *, must_confine: bool = False) -> None:
        self._count = count
        self._must_confine = must_confine
        self._live: list[_Child] = []
        self._starting = 0
        self._waiting: list[_Waiter] = []
        self._turns: dict[str, None] = {}
        self._spares: set[asyncio.Task[None]] = set()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._closed = False

    @property
    def live(self) -> int:
        """The number of current processes, including the spare one."""
        return len(self._live) + self._starting

    async def send(
        self,
        owner: Owner,
        kind: str,
        request: dict[str, object],
        payload: bytes,
        seconds: float,
        time_used: SandboxTime | None = None,
    ) -> bytes:
        """Sends a message and returns its JSON result; adds the time spent to `time_used`.

        `seconds` limits the CPU time of each part of the result, and WALL_TIME_FACTOR times as much its wall
        time. Raises SandboxStopped if a limit is exceeded or the child dies; the child is then discarded.
        """
        if len(payload) > _message_bytes(kind):
            raise stopped(MEMORY)
        child = await self._acquire(owner, kind)
        reusable, clock = False, _Clock(child.process)
        try:
            exchange = _exchange(child.process, compact(request), payload, seconds)
            result = await asyncio.wait_for(exchange, _MESSAGE_SECONDS)
            child.cpu_seconds += clock.spent()
            reusable = child.cpu_seconds < _CPU_SECONDS
            return result
        except TimeoutError as end:
            raise stopped(TIMEOUT) from end
        finally:
            if time_used is not None:
                time_used.seconds += clock.spent()
            if not reusable:
                await self._end_child(child)
            child.busy = False
            self._wake_waiting()
            self._keep_spare(kind)

    async def probe_isolation(self, kind: str = _BARE) -> Isolation:
        """Starts a child and returns the isolation it reports. Raises SandboxStopped."""
        process = await _spawn_process(kind, self._working_folder())
        try:
            return (await _await_ready(process, kind)).isolation
        finally:
            await process.end()

    async def close(self) -> None:
        """Ends every child."""
        self._closed = True
        for task in list(self._spares):
            task.cancel()
        await asyncio.gather(*self._spares, return_exceptions=True)
        for child in list(self._live):
            await self._end_child(child)
        if self._folder is not None:
            os.chmod(self._folder.name, 0o700)
            self._folder.cleanup()
            self._folder = None

    async def _acquire(self, owner: Owner, kind: str) -> _Child:
        while True:
            await self._end_untrusted()
            child = self._reusable_child(owner, kind)
            if child is None and not self._must_wait(owner):
                try:
                    child = await self._start_or_replace(kind)
                except BaseException:
                    self._wake_waiting()  # the reserved place is free again
                    raise
            if child is not None:
                child.busy, child.owner = True, owner
                self._record_turn(owner[0])
                return child
            waiting = _Waiter(owner)
            self._waiting.append(waiting)
            try:
                await waiting.turn
            finally:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)

    async def _end_untrusted(self) -> None:
        """Ends every idle child that wrote more than its result.

        It searches again after each one, because other tasks end children at the same time.
        """
        while untrusted := [child for child in self._live if not child.busy and child.process.unread]:
            await self._end_child(untrusted[0])

    def _reusable_child(self, owner: Owner, kind: str) -> _Child | None:
        """Returns an idle child of this owner, or an unused one unless other organizations go first."""
        idle = [child for child in self._live if child.kind == kind and not child.busy]
        same_owner = next((child for child in idle if child.owner == owner), None)
        if same_owner is not None or self._must_wait(owner):
            return same_owner
        return next((child for child in idle if child.owner is None), None)

    def _must_wait(self, owner: Owner) -> bool:
        """Returns whether the organization has a busy child while others wait for their first."""
        serving = {child.owner[0] for child in self._live if child.busy and child.owner is not None}
        others = {waiting.owner[0] for waiting in self._waiting} - {owner[0]}
        return owner[0] in serving and bool(others - serving)

    async def _start_or_replace(self, kind: str) -> _Child | None:
        """Starts a child, replacing an idle one if all places are taken; returns None if all are busy."""
        if self.live < self._count:
            return await self._start(kind)
        idle = next((child for child in self._live if not child.busy), None)
        return None if idle is None else await self._start(kind, instead=idle)

    async def _start(self, kind: str, instead: _Child | None = None) -> _Child:
        """Reserves a place before anything is awaited, then starts a process."""
        self._starting += 1
        try:
            if instead is not None:
                await self._end_child(instead)
            process = await _spawn_process(kind, self._working_folder())
            try:
                child = await _await_ready(process, kind)
                if self._must_confine and not child.isolation.is_confined:
                    raise stopped(REFUSED)
            except BaseException:  # also when cancelled
                await process.end()
                raise
            self._live.append(child)
            return child
        finally:
            self._starting -= 1

    def _working_folder(self) -> str:
        """Returns the empty read-only working folder of the children."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="steward-confined-")
            os.chmod(self._folder.name, 0o500)
        return self._folder.name

    async def _end_child(self, child: _Child) -> None:
        if child in self._live:
            self._live.remove(child)
        await child.process.end()

    def _record_turn(self, organization: str) -> None:
        """Marks an organization as the last one served."""
        self._turns.pop(organization, None)
        self._turns[organization] = None
        if len(self._turns) > _MAX_REMEMBERED_TURNS:
            del self._turns[next(iter(self._turns))]

    def _wake_waiting(self) -> None:
        """Wakes all waiters, those least recently served first; each checks again."""
        ranks = {organization: rank for rank, organization in enumerate(self._turns)}
        for waiting in sorted(self._waiting, key=lambda waiter: ranks.get(waiter.owner[0], -1)):
            if not waiting.turn.done():
                waiting.turn.set_result(None)

    def _keep_spare(self, kind: str) -> None:
        unused = any(child.owner is None and child.kind == kind for child in self._live)
        if self._closed or unused or self._spares or self._waiting or self.live >= self._count:
            return
        task = asyncio.ensure_future(self._start_spare(kind))
        self._spares.add(task)
        task.add_done_callback(self._spares.discard)

    async def _start_spare(self, kind: str) -> None:
        with contextlib.suppress(SandboxStopped):
            if self.live < self._count:
                await self._start(kind)
                self._wake_waiting()


def _message_bytes(kind: str) -> int:
    return FILE_MESSAGE_BYTES if kind == FILES else MESSAGE_BYTES


async def _spawn_process(kind: str, folder: str) -> ChildProcess:
    """Starts an interpreter that gets only the paths of the engines."""
    script = str(Path(__file__).with_name("child.py"))
    command = [sys.executable, "-I", "-S", script, kind, *_folders()]
    return await ChildProcess.start(command, folder, _message_bytes(kind) + MIB)


def _folders() -> Sequence[str]:
    return list(dict.fromkeys([str(_ROOT), sysconfig.get_path("platlib"), sysconfig.get_path("purelib")]))


async def _await_ready(process: ChildProcess, kind: str) -> _Child:
    try:
        ready_frame = await asyncio.wait_for(process.frame(NO_NONCE), _START_SECONDS)
        if ready_frame.kind != READY:
            raise BadFrame
        isolation = Isolation(**json.loads(ready_frame.body))
    except (TimeoutError, BadFrame) as end:
        raise SandboxStopped(
            CRASHED, "The engine for expressions and scripts does not start. The operator runs `make setup`."
        ) from end
    return _Child(process, kind, isolation)


async def _exchange(process: ChildProcess, request: bytes, payload: bytes, seconds: float) -> bytes:
    """Sends a message and returns its result, which is not trusted. Raises SandboxStopped."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    sending = asyncio.ensure_future(
        process.send(frame(nonce, REQUEST, request) + frame(nonce, DATA, payload))
    )
    try:
        kind = PROGRESS
        while kind == PROGRESS:
            kind, body = await _next_frame(process, nonce, seconds)
    except TimeoutError as end:
        raise stopped(TIMEOUT) from end
    except BadFrame as end:
        raise stopped(CRASHED) from end
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    if kind == RESULT and not process.unread:
        return body
    code = body.decode("ascii", "replace")
    raise stopped(code if kind == STOPPED and code in (TIMEOUT, MEMORY) else CRASHED)


async def _next_frame(process: ChildProcess, nonce: bytes, seconds: float) -> Frame:
    """Returns a child's next frame. Raises TimeoutError after `seconds` of CPU time.

    It also raises TimeoutError after WALL_TIME_FACTOR times as much wall time.
    """
    clock, reading = _Clock(process), asyncio.ensure_future(process.frame(nonce))
    try:
        while not (await asyncio.wait({reading}, timeout=min(seconds, _POLL_SECONDS)))[0]:
            spent = clock.spent()
            if spent >= seconds or clock.wall() >= WALL_TIME_FACTOR * seconds:
                raise TimeoutError
            if spent >= _YIELD_SECONDS:
                process.lower_priority()
        return reading.result()
    finally:
        reading.cancel()  # and finished before the next read, since only one may wait on a pipe
        await asyncio.gather(reading, return_exceptions=True)


class _Clock:
    """Measures the time that a child spends on a message."""

    def __init__(self, process: ChildProcess) -> None:
        self._process, self._loop = process, asyncio.get_running_loop()
        self._began, self._cpu = self._loop.time(), process.cpu()

    def wall(self) -> float:
        """Returns the seconds of wall time."""
        return self._loop.time() - self._began

    def spent(self) -> float:
        """Returns the child's CPU seconds, or wall time if the system does not report them."""
        now = self._process.cpu()
        return self.wall() if now is None or self._cpu is None else now - self._cpu
