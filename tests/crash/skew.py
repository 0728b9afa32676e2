"""Gives a process a wrong wall clock beside a database whose clock is right.

See docs/design/runs.md#principles.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from steward.database.engine.base import Act, Dialect, Engine
from steward.model.ids import OrgId
from steward.runs.lease import LeaseConfirmation
from steward.worker import WorkerContext
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop

T = TypeVar("T")


@dataclass
class SkewedClock:
    """A clock whose wall time is off by `ahead` and whose seconds have the right length."""

    right: FakeClock
    ahead: timedelta

    def now(self) -> datetime:
        """Returns the wrong wall time of this host."""
        return self.right.now() + self.ahead

    def monotonic(self) -> float:
        """Returns seconds that never go back."""
        return self.right.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleeps on the right clock."""
        await self.right.sleep(seconds)


@dataclass
class OwnTime:
    """An engine that uses its own time and ignores the caller's, as PostgreSQL does in production."""

    engine: Engine
    right: FakeClock

    @property
    def dialect(self) -> Dialect:
        """Returns the dialect of the engine."""
        return self.engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes at the database's time."""
        return await self.engine.write(self.right.now(), act, org=org, urgent=urgent)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """Reads at the database's time."""
        return await self.engine.read(self.right.now(), act, org=org, small=small)

    async def close(self) -> None:
        """Does nothing: the test that opened the engine closes it."""


def skewed(shop: Shop, ahead: timedelta, engine: Engine | None = None) -> WorkerContext:
    """Returns the context of a worker whose clock is off by `ahead`."""
    ctx = (
        shop.service.worker_context if engine is None else replace(shop.service.worker_context, engine=engine)
    )
    return replace(
        ctx,
        engine=OwnTime(ctx.engine, shop.clock),
        clock=SkewedClock(shop.clock, ahead),
        lease_confirmation=LeaseConfirmation(),
        progress={},
    )
