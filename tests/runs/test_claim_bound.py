"""Tests that a worker's claims never start past a run that is still to be claimed."""

import asyncpg
import pytest

from steward.database.engine.base import Tx
from steward.database.engine.migrate import is_sqlite
from steward.database.runs import fairness, transitions
from steward.database.runs.transitions import Claim
from steward.model.run import Mode
from steward.run_queue.claim_bound import FULL_WALK_EVERY, MARGIN, ClaimBound
from steward.runs import claim
from tests.runs.shop import Shop, neighbour

FREE = 50


class _SetClock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        """Returns the instant."""
        return self.seconds


def _claim(last_vt: int, clock: int) -> Claim:
    return Claim([], last_vt, clock)


def _raised(time: _SetClock, last_vt: int, clock: int) -> ClaimBound:
    """Returns a bound that two claims with a margin between them have raised; its walk is just done."""
    bound = ClaimBound(time.monotonic)
    for _ in range(2):
        time.seconds += MARGIN
        bound.note(0, _claim(last_vt, clock), leaves_out=False)
    return bound


def test_a_claim_becomes_the_bound_after_the_margin() -> None:
    """A claim becomes the bound only when a later one follows after the margin."""
    time = _SetClock()
    bound = ClaimBound(time.monotonic)
    assert bound.first_vt() == 0  # the walk of the start
    time.seconds += MARGIN
    bound.note(0, _claim(500, clock=480), leaves_out=False)
    time.seconds += MARGIN - 0.001
    bound.note(0, _claim(900, clock=880), leaves_out=False)
    assert bound.first_vt() == 0
    time.seconds += 0.001
    bound.note(0, _claim(950, clock=940), leaves_out=False)
    assert bound.first_vt() == 480


@pytest.mark.parametrize(("last_vt", "clock"), [(300, 200), (200, 300)])
def test_the_bound_passes_neither_the_clock_nor_the_last_claim(last_vt: int, clock: int) -> None:
    """The bound is the lower of both: new runs get the clock's stamp, others follow the last claim's."""
    assert _raised(_SetClock(), last_vt, clock).first_vt() == 200


def test_one_claim_per_interval_begins_at_the_start() -> None:
    """A claim starts at the beginning once per interval, and again if that claim failed."""
    time = _SetClock()
    bound = _raised(time, 200, 200)
    time.seconds += FULL_WALK_EVERY - 0.001
    assert bound.first_vt() == 200
    time.seconds += 0.001
    assert [bound.first_vt(), bound.first_vt()] == [0, 0]  # the first claim failed
    bound.note(0, None, leaves_out=False)
    assert bound.first_vt() == 200


def test_a_claim_below_the_bound_lowers_it() -> None:
    """A claim from the beginning lowers the bound for later claims, also while organizations are left out."""
    for leaves_out in (False, True):
        time = _SetClock()
        bound = _raised(time, 200, 200)
        bound.note(0, _claim(5, clock=210), leaves_out=leaves_out)
        assert bound.first_vt() == 5
        time.seconds += MARGIN
        bound.note(5, _claim(250, clock=240), leaves_out=False)
        assert bound.first_vt() == 5  # the candidate was lowered too
        time.seconds += MARGIN
        bound.note(5, _claim(250, clock=240), leaves_out=False)
        assert bound.first_vt() == 240


async def test_runs_below_the_bound_start_with_the_next_walk(shop: Shop) -> None:
    """Runs committed after the margin wait for the next claim from the beginning; then all are claimed."""
    time = _SetClock()
    late = [await shop.run_now(await shop.hiding()) for _ in range(3)]
    hired = await shop.registered_worker()
    bound = _raised(time, 10_000, 10_000)

    async def claimed() -> list[str]:
        leases = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=(), bound=bound)
        return [lease.run for lease in leases]

    assert await claimed() == []
    time.seconds += FULL_WALK_EVERY
    assert [await claimed() for _ in range(4)] == [*([run.id] for run in late), []]


async def test_a_run_cancelled_as_it_falls_asleep_gets_a_new_stamp(shop: Shop) -> None:
    """A run that is cancelled as it falls asleep is stamped above the bound and claimed at once."""
    run = await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    now = shop.clock.now()
    [lease] = await claim.claim(shop.engine, now, hired.id, free=1, full=())

    async def stop_asleep(tx: Tx) -> None:
        assert await transitions.start(tx, lease)
        await fairness.advance(tx, 500)
        assert await transitions.request_cancel(tx, shop.owner.org, run.id, code="by_person", vt=0)
        assert await transitions.sleep(tx, lease, until=now, leased_ms=0, settles=False)

    await shop.engine.write(now, stop_asleep, org=shop.owner.org)
    bound = _raised(_SetClock(), 500, 500)
    leases = await claim.claim(shop.engine, now, hired.id, free=1, full=(), bound=bound)
    assert [lease.run for lease in leases] == [run.id]


async def test_the_bound_does_not_rise_while_an_organization_is_full(shop: Shop) -> None:
    """The runs of a full organization keep their stamps and are claimed as soon as it has room."""
    time = _SetClock()
    bound = ClaimBound(time.monotonic)
    other = await neighbour(shop)
    held_back = await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    for _ in range(3):
        time.seconds += MARGIN - 1  # short of the next walk
        for _ in range(3):
            await other.run_now(await other.hiding(), Mode.TEST)
        taken = await claim.claim(
            shop.engine, shop.clock.now(), hired.id, free=FREE, full=[shop.owner.org], bound=bound
        )
        assert len(taken) == 3
    assert (await shop.engine.read(shop.clock.now(), fairness.current_stamp)) > 3
    leases = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=FREE, full=(), bound=bound)
    assert [lease.run for lease in leases] == [held_back.id]


async def test_a_claim_leases_no_more_than_the_free_slots_whatever_the_plan(
    shop: Shop, database_url: str
) -> None:
    """Leases one run where statistics of a single run let PostgreSQL read all runs first in a join."""
    await shop.run_now(await shop.hiding())
    if not is_sqlite(database_url):
        connection = await asyncpg.connect(database_url)
        try:
            await connection.execute("ANALYZE runs")
        finally:
            await connection.close()
    for _ in range(3):
        await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    leases = [await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=()) for _ in range(5)]
    assert [len(claimed) for claimed in leases] == [1, 1, 1, 1, 0]
