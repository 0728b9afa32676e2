"""Tests random interleavings of several workers: the right engine holds, a faulty one is caught.

See docs/guides/contributors.md#tests.
"""

import os
from collections.abc import AsyncIterator

import pytest

from tests.crash.simulating import Simulation, open_simulation
from tests.crash.wrong import no_intent
from tests.runs.shop import Shop

# `make soak` sets more, and other ones for each round.
FIRST = int(os.environ.get("SIMULATE_FROM", "1"))
COUNT = int(os.environ.get("SIMULATE_SEEDS", "2"))
SEEDS = {"sqlite": COUNT, "postgresql": max(1, COUNT // 4)}
STEPS = 600
# A wrong engine has to be caught within so many; about one in five shows it.
MAX_SEEDS = 40


async def _opened(shop: Shop) -> AsyncIterator[Simulation]:
    opened = await open_simulation(shop)
    yield opened
    for host in opened.hosts:
        await host.service.close()


@pytest.fixture
async def simulation(shop: Shop) -> AsyncIterator[Simulation]:
    """Provides a simulation with three more processes, once on each engine."""
    async for opened in _opened(shop):
        yield opened


@pytest.fixture
async def sqlite_simulation(sqlite_shop: Shop) -> AsyncIterator[Simulation]:
    """Provides the same simulation on SQLite only."""
    async for opened in _opened(sqlite_shop):
        yield opened


async def test_any_interleaving_loses_and_doubles_nothing(simulation: Simulation) -> None:
    """Three workers with ended leases, pauses, wrong clocks and database errors lose and double nothing.

    See docs/guides/contributors.md#tests.
    """
    faults = {}
    for seed in range(FIRST, FIRST + SEEDS[simulation.shop.engine.dialect]):
        if wrong := await simulation.play(seed, STEPS):
            faults[seed] = (wrong, simulation.trace)
    assert faults == {}


@pytest.mark.skipif(
    "SIMULATE_SEEDS" not in os.environ,
    reason="in `make soak`: it takes some seeds until the wrong engine shows",
)
async def test_an_engine_without_intents_is_caught(
    sqlite_simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulation finds the fault of an engine that writes no intents.

    See docs/guides/contributors.md#tests.
    """
    no_intent.install(monkeypatch)
    for seed in range(1, MAX_SEEDS + 1):
        if wrong := await sqlite_simulation.play(seed, STEPS):
            break
    assert wrong
