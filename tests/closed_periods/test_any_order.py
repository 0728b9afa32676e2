"""Plays several workers in any order of steps while an owner stops changes: nothing is sent meanwhile.

`CLOSED_SEEDS=1000` plays that many seeds on SQLite and a quarter of them on PostgreSQL, from
`CLOSED_FROM` on; the suite plays one. See docs/design/closed-periods.md#writing.
"""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from steward.database.closed_periods.records import StoredPeriod
from steward.model.run import Run
from tests.closed_periods.edit_periods import PeriodEditor
from tests.crash.simulating import Simulation, open_simulation
from tests.runs.shop import Shop

FIRST = int(os.environ.get("CLOSED_FROM", "1"))
COUNT = int(os.environ.get("CLOSED_SEEDS", "1"))
SEEDS = {"sqlite": COUNT, "postgresql": max(1, COUNT // 4)}
STEPS = 600
MAX_SEEDS_TO_A_WRITE = 20
# A write whose periods were read just before a freeze may leave up to this long after it.
LATEST_S = 6.0


@dataclass
class BrakedSimulation(Simulation):
    """Adds an owner who stops all changes now and then, and resumes them."""

    freeze: StoredPeriod | None = None
    stops: list[tuple[float, float]] = field(default_factory=list)  # seconds from a stop to its end
    sent: int = 0

    async def play(self, seed: int, steps: int) -> list[str]:
        """Plays one seed, and also judges what was sent while changes were stopped."""
        self.freeze, self.stops = None, []
        for host in self.hosts:
            host.network.requests.clear()
        return await super().play(seed, steps)

    async def step(self, runs: list[Run]) -> None:
        """Makes a step of the simulation, or stops or resumes all changes."""
        if self.chance.random() < (0.01 if self.freeze is None else 0.04):
            await self.brake()
        else:
            await super().step(runs)

    async def brake(self) -> None:
        """Stops or resumes all changes."""
        closer = PeriodEditor(self.shop.engine, self.shop.clock, self.shop.owner)
        second = self.shop.clock.monotonic()
        if self.freeze is None:
            self.freeze = await closer.freeze()
            self.stops.append((second, float("inf")))
        else:
            await closer.end(self.freeze)
            self.freeze = None
            self.stops[-1] = (self.stops[-1][0], second)
        self.trace.append("changes are stopped" if self.freeze else "changes are resumed")

    async def judge(self, runs: list[Run]) -> list[str]:
        """Resumes changes, and judges the simulation and what was sent while they were stopped."""
        if self.freeze is not None:
            await self.brake()
        return self._sent_while_stopped() + await super().judge(runs)

    def _sent_while_stopped(self) -> list[str]:
        """Returns writes to stores and sheets that left too long after a stop and before its end."""
        wrong = []
        for second, request in (
            each_request for host in self.hosts for each_request in host.network.requests
        ):
            if "idempotency-key" not in request.headers or "/teams/" in request.url.path:
                continue
            self.sent += 1
            wrong += [
                f"{request.url.path} left {second - since} s after changes were stopped"
                for since, until in self.stops
                if since + LATEST_S < second < until
            ]
        return wrong


@pytest.fixture
async def simulation(shop: Shop) -> AsyncIterator[BrakedSimulation]:
    """Provides the shop with three more processes."""
    opened = await open_simulation(shop)
    yield BrakedSimulation(opened.shop, opened.hosts)
    for host in opened.hosts:
        await host.service.close()


async def test_nothing_is_sent_in_any_order_while_changes_are_stopped(simulation: BrakedSimulation) -> None:
    """Three workers that are killed, paused and lose the database send nothing inside a freeze.

    A few seeds may send nothing at all, so more are played until there is a write to judge.
    """
    outcome, seeds = {}, SEEDS[simulation.shop.engine.dialect]
    for seed in range(FIRST, FIRST + max(seeds, MAX_SEEDS_TO_A_WRITE)):
        if seed >= FIRST + seeds and simulation.sent:
            break
        if wrong := await simulation.play(seed, STEPS):
            outcome[seed] = (wrong, simulation.trace)
    print(f"{simulation.shop.engine.dialect}: {SEEDS}, {simulation.sent} writes, {len(outcome)} wrong")
    assert outcome == {}
    assert simulation.sent > 0
