"""Wrappers of engines: a base for those that change how writes are made, and longer time limits."""

from collections.abc import Collection
from datetime import datetime
from typing import TypeVar

from steward.database.engine.base import Act, Autocommit, Batchable, Engine, Tx, WeightedAct
from steward.model.ids import OrgId

T = TypeVar("T")


class EngineWrapper:
    """Forwards every call to the wrapped engine; a subclass overrides what it changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dialect = engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes as the wrapped engine does."""
        return await self._engine.write(now, act, org=org, urgent=urgent)

    async def read(
        self,
        now: datetime,
        act: Act[T],
        *,
        org: OrgId | Collection[OrgId] = (),
        small: bool = False,
        sets_tenant: bool = False,
    ) -> T:
        """Reads as the wrapped engine does."""
        return await self._engine.read(now, act, org=org, small=small, sets_tenant=sets_tenant)

    async def close(self) -> None:
        """Closes the wrapped engine."""
        await self._engine.close()


class LongLimitEngine(EngineWrapper):
    """An engine that allows each statement of a transaction more time, at the cost of one more call.

    Small reads and acts without a transaction of their own keep the limit of the wrapped engine.
    """

    def __init__(self, engine: Engine, seconds: float) -> None:
        super().__init__(engine)
        self._seconds = seconds

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes as the wrapped engine does, with the longer limit."""
        if isinstance(act, Autocommit | Batchable):
            return await super().write(now, act, org=org, urgent=urgent)
        weighted_act = WeightedAct(self._with_limit(act), getattr(act, "weight", 0))
        return await super().write(now, weighted_act, org=org, urgent=urgent)

    async def read(
        self,
        now: datetime,
        act: Act[T],
        *,
        org: OrgId | Collection[OrgId] = (),
        small: bool = False,
        sets_tenant: bool = False,
    ) -> T:
        """Reads as the wrapped engine does, with the longer limit."""
        if not (small or isinstance(act, Autocommit)):
            act = self._with_limit(act)
        return await super().read(now, act, org=org, small=small, sets_tenant=sets_tenant)

    def _with_limit(self, act: Act[T]) -> Act[T]:
        async def limited(tx: Tx) -> T:
            await tx.extend_time_limit(self._seconds)
            return await act(tx)

        return limited
