"""A process whose wall clock is wrong, beside a database whose clock is right.

See docs/design/runs.md#principles.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from steward.database.engine.base import Act, Dialect, Engine
from steward.model.ids import OrgId
from steward.runs.run_context import LeaseConfirmation
from steward.worker import WorkerContext
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop

T = TypeVar("T")


@dataclass
class SkewedClock:
    """A host's clock: its wall time is off by `ahead`, its seconds are as long as everybody's."""

    right: FakeClock
    ahead: timedelta

    def now(self) -> datetime:
        """What this host takes for the time."""
        return self.right.now() + self.ahead

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self.right.monotonic()

    async def sleep(self, seconds: float) -> None:
        """As everybody's."""
        await self.right.sleep(seconds)


@dataclass
class OwnTime:
    """An engine with a clock of its own, as PostgreSQL has outside of tests: the caller's decides nothing."""

    engine: Engine
    right: FakeClock

    @property
    def dialect(self) -> Dialect:
        """As the engine behind."""
        return self.engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """As the engine behind, at the database's time."""
        return await self.engine.write(self.right.now(), act, org=org, urgent=urgent)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """As the engine behind, at the database's time."""
        return await self.engine.read(self.right.now(), act, org=org, small=small)

    async def close(self) -> None:
        """The engine behind is closed by who opened it."""


def skewed(shop: Shop, ahead: timedelta, engine: Engine | None = None) -> WorkerContext:
    """What a process of the shop's service is given whose clock is off."""
    lagging = (
        shop.service.worker_context if engine is None else replace(shop.service.worker_context, engine=engine)
    )
    return replace(
        lagging,
        engine=OwnTime(lagging.engine, shop.clock),
        clock=SkewedClock(shop.clock, ahead),
        lease_confirmation=LeaseConfirmation(),
        progress={},
    )
