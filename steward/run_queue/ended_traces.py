"""Sends traces of runs that end without a worker: cancelled, rejected, expired, superseded."""

import asyncio
from collections.abc import Collection
from contextvars import ContextVar
from datetime import datetime
from typing import NamedTuple, TypeVar

from steward.database.engine.base import Act, Autocommit, Batchable, Engine, Tx, WeightedAct
from steward.database.engine.wrapper import EngineWrapper
from steward.model.ids import OrgId, RunId
from steward.run_queue import spans
from steward.telemetry.traces import Traces

T = TypeVar("T")


class _EndedRun(NamedTuple):
    """A run that a transaction ended, and its attempt."""

    org: OrgId
    run: RunId
    attempt: int


# The runs that the current transaction has ended; None without tracing.
_ended: ContextVar[list[_EndedRun] | None] = ContextVar("ended_runs", default=None)


def note_end(org: OrgId, run: RunId, *, attempt: int) -> None:
    """Records that the current transaction ends a run; its trace is sent after the commit."""
    ended = _ended.get()
    if ended is not None:
        ended.append(_EndedRun(org, run, attempt))


class TracedEngine(EngineWrapper):
    """An engine that sends the trace of each run that its transactions end without a worker.

    The trace is built from rows after the commit, and no caller waits for it.
    """

    def __init__(self, engine: Engine, traces: Traces) -> None:
        super().__init__(engine)
        self._traces = traces
        self._sending: set[asyncio.Task[None]] = set()

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes like the wrapped engine.

        Acts that share a call are passed on unchanged: none of them calls `ending.end`.
        """
        if isinstance(act, Batchable | Autocommit):
            return await self._engine.write(now, act, org=org, urgent=urgent)
        ended: list[_EndedRun] = []

        async def noting(tx: Tx) -> T:
            ended.clear()  # from an attempt that was rolled back
            token = _ended.set(ended)
            try:
                return await act(tx)
            finally:
                _ended.reset(token)

        weighted_act = WeightedAct(noting, getattr(act, "weight", 0))
        result = await self._engine.write(now, weighted_act, org=org, urgent=urgent)
        if ended:
            task = asyncio.create_task(self._send(now, ended))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return result

    async def _send(self, now: datetime, ended: Collection[_EndedRun]) -> None:
        for org, run, attempt in ended:
            await spans.add_finished(self._traces, self._engine, now, org=org, run=run, attempt=attempt)

    async def close(self) -> None:
        """Waits for pending traces, then closes the engine."""
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self._traces.close()
        await super().close()
