"""Plays a freeze while many runs apply changes on three workers: nothing leaves late, all continue after it.

`FREEZE_RUNS=50` lets that many runs apply, and `FREEZE_SEEDS=20` plays so many orders of steps, from
`FREEZE_FROM` on; the suite plays a few runs once. See docs/design/closed-periods.md#freeze.
"""

import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from steward.database.closed_periods.records import StoredPeriod
from steward.database.engine.base import Row, Tx
from steward.fake_platforms.catalogue import priced
from steward.fake_platforms.exchange import Row as ShopRow
from steward.fake_platforms.sheets import FakeTab
from steward.model.change import Outcome
from steward.model.run import TERMINAL, Run, RunStatus
from tests.closed_periods.edit_periods import PeriodEditor
from tests.crash.simulating import Simulation, open_simulation
from tests.fake_clock import START
from tests.runs.shop import Shop

RUNS = int(os.environ.get("FREEZE_RUNS", "3"))
SEEDS = int(os.environ.get("FREEZE_SEEDS", "1"))
FIRST = int(os.environ.get("FREEZE_FROM", "1"))
PRODUCTS = 10  # of each run; every tenth product has variations, which are written by another request
# A write whose periods were read just before the freeze may leave up to this long after its response.
LATEST_S = 6.0
STOPPED_S = 60.0
STEPS = 100_000  # at most; the runs have ended long before


@dataclass
class FreezeSimulation(Simulation):
    """Stops all changes while many runs apply theirs, and resumes them a minute later."""

    freeze: StoredPeriod | None = None
    stopped_s: float = 0.0
    ended_s: float = 0.0
    in_flight: int = 0
    held: int = 0
    is_over: bool = False
    began: datetime = START

    async def play(self, seed: int, steps: int) -> list[str]:
        """Plays one order of steps, and also judges what was sent, and that nothing was left out."""
        self.freeze, self.stopped_s, self.ended_s, self.is_over = None, 0.0, 0.0, False
        for host in self.hosts:
            host.network.requests.clear()
        return await super().play(seed, steps)

    async def _start_runs(self) -> list[Run]:
        """Starts runs that price different products, and approves them all.

        The clocks are right: a process whose clock is ahead of its lease sends nothing.
        """
        shop = self.shop
        self.began = shop.clock.now()
        for host in self.hosts:
            host.clock.ahead = timedelta()
        shop.world.load_products(RUNS * PRODUCTS)
        rows = priced(shop.world.state.shop)
        runs = [await self._priced_by_run(number, rows[number::RUNS]) for number in range(RUNS)]
        await shop.drain()
        for run in runs:
            await shop.approve(run)
        return runs

    async def _priced_by_run(self, number: int, rows: list[ShopRow]) -> Run:
        """Starts a run that takes the prices of these products and variations from a tab of its own."""
        shop, title = self.shop, f"Prices {number}"
        lines = [("SKU", "Price"), *((row["sku"], float(row["regular_price"]) + 0.5) for row in rows)]
        cells = {(down, across): line[across] for down, line in enumerate(lines) for across in (0, 1)}
        shop.world.state.google.books["sheet-prices"].tabs.append(FakeTab(number + 1, title, cells=cells))
        sheet = {"integration_id": shop.connections["spreadsheet"].integration_id, "tab": title}
        return await shop.run_now(await shop.pricing(sheet=sheet, max_change_percent=90))

    async def step(self, runs: list[Run]) -> None:
        """Draws an operation that waits, a periodic task, or that time passes, until all runs have ended.

        Little time passes while operations wait, because a request that does not leave in 5 s is tried again
        and counts as unreachable in the end.
        """
        if self.is_over:
            return
        draw = self.chance.random()
        ready = [host for host in self.hosts if host.waiting and not host.dead]
        if ready and draw < 0.88:
            await self.grant(self.chance.choice(ready))
        elif draw < 0.5 or draw > 0.98:
            is_stopped = self.freeze is not None and not self.ended_s
            await self.shop.clock.advance((1 if ready else 5) if is_stopped else 0.1)
        else:
            await self.start_random_task(self.chance.choice(self.hosts))
        await self.shop.clock.settle()
        await self._brake()
        if self.ended_s and not ready and draw < 0.2:
            self.is_over = all(RunStatus(row["status"]) in TERMINAL for row in await self._rows())

    async def _brake(self) -> None:
        """Stops all changes once a third of the runs has written, and lets them go on after a minute."""
        closer = PeriodEditor(self.shop.engine, self.shop.clock, self.shop.owner)
        second = self.shop.clock.monotonic()
        if self.freeze is None and len(self._sent()) > RUNS // 3:
            frozen = await closer.freeze_now()
            self.freeze, self.in_flight, self.stopped_s = frozen.stored, frozen.in_flight, second
        elif self.freeze is not None and not self.ended_s and second > self.stopped_s + STOPPED_S:
            self.held = sum(row["held_name"] is not None for row in await self._rows())
            await closer.end(self.freeze)
            self.ended_s = second

    async def _rows(self) -> Sequence[Row]:
        """Returns the state of each run of this order of steps."""
        query = "SELECT status, held_name FROM runs WHERE org_id = :org AND queued_at >= :since"

        async def rows(tx: Tx) -> Sequence[Row]:
            return await tx.all(query, {"org": self.shop.owner.org, "since": self.began})

        return await self.shop.read(rows)

    def _sent(self) -> list[float]:
        """Returns the seconds at which writes left."""
        return [
            second
            for host in self.hosts
            for second, request in host.network.requests
            if "idempotency-key" in request.headers
        ]

    async def judge(self, runs: list[Run]) -> list[str]:
        """Judges the simulation, what was sent while changes were stopped, and what was not written."""
        assert self.is_over, "the runs came to no end"
        sent = self._sent()
        late = [
            f"a write left {second - self.stopped_s} s after changes were stopped"
            for second in sent
            if self.stopped_s + LATEST_S < second < self.ended_s
        ]
        wrong = late + await super().judge(runs)
        outcomes = Counter([change.outcome for run in runs for change in await self.shop.changes(run)])
        if set(outcomes) != {Outcome.APPLIED}:
            wrong.append(f"the changes ended {outcomes}")
        ended = Counter(row["status"] for row in await self._rows())
        if ended != {RunStatus.SUCCEEDED.value: RUNS}:
            wrong.append(f"the runs ended {ended}")
        if not self.held:
            wrong.append("no run was held")
        after = [second - self.stopped_s for second in sent if self.stopped_s <= second < self.ended_s]
        print(
            f"{self.shop.engine.dialect}: {RUNS} runs, {self.in_flight} in flight, {self.held} held,"
            f" {len(after)} writes left after the answer, the last {max(after, default=0):.1f} s,"
            f" {sum(outcomes.values())} changes applied, {len(wrong)} wrong"
        )
        return wrong


@pytest.fixture
async def simulation(shop: Shop) -> AsyncIterator[FreezeSimulation]:
    """Provides the shop with three more processes."""
    opened = await open_simulation(shop)
    yield FreezeSimulation(opened.shop, opened.hosts)
    for host in opened.hosts:
        await host.service.close()


async def test_many_runs_that_apply_stop_within_six_seconds_and_continue(
    simulation: FreezeSimulation,
) -> None:
    """Writes nothing later than 6 s after the freeze was answered, and each change once after its end."""
    outcome = {}
    for seed in range(FIRST, FIRST + SEEDS):
        if wrong := await simulation.play(seed, STEPS):
            outcome[seed] = wrong
    assert outcome == {}
