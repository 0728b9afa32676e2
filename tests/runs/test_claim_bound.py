"""Where the claims of a worker begin: never past a run that they may still have to take."""

from steward.database.runs import fairness
from steward.model.run import Mode
from steward.run_queue.claim_bound import FULL_WALK_EVERY, MARGIN, ClaimBound
from steward.runs import claim
from tests.runs.shop import Shop, neighbour

FREE = 50


class _Time:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        """Returns the instant."""
        return self.seconds


def test_the_bound_is_a_clock_of_the_margin_ago() -> None:
    """A claim becomes the bound only when a later one follows after the margin."""
    time = _Time()
    bound = ClaimBound(time.monotonic)
    assert bound.first_vt() == 0  # the walk of the start
    time.seconds += MARGIN
    bound.note_claimed(500, clock=480)
    time.seconds += MARGIN - 0.001
    bound.note_claimed(900, clock=880)
    assert bound.first_vt() == 0
    time.seconds += 0.001
    bound.note_claimed(950, clock=940)
    assert bound.first_vt() == 480


def test_the_bound_passes_neither_the_clock_nor_the_last_claim() -> None:
    """What becomes ready is stamped with the clock; what was left ready follows the last claimed stamp."""
    for last_vt, clock in ((300, 200), (200, 300)):
        time = _Time()
        bound = ClaimBound(time.monotonic)
        bound.first_vt()
        for _ in range(2):
            time.seconds += MARGIN
            bound.note_claimed(last_vt, clock=clock)
        assert bound.first_vt() == 200


def test_one_claim_in_thirty_seconds_begins_at_the_start() -> None:
    """A walk over everything comes at the interval, and once."""
    time = _Time()
    bound = ClaimBound(time.monotonic)
    bound.first_vt()
    for _ in range(2):
        time.seconds += MARGIN
        bound.note_claimed(200, clock=200)
    time.seconds += FULL_WALK_EVERY - 2 * MARGIN - 0.001
    assert bound.first_vt() == 200
    time.seconds += 0.001
    assert [bound.first_vt(), bound.first_vt()] == [0, 200]


async def test_a_run_below_the_bound_starts_with_the_next_walk(shop: Shop) -> None:
    """Such a run was committed later than the margin allows: it waits for the walk and is not lost."""
    time = _Time()
    bound = ClaimBound(time.monotonic)
    late = await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    bound.first_vt()
    for _ in range(2):
        time.seconds += MARGIN
        bound.note_claimed(10_000, clock=10_000)

    async def claimed() -> list[str]:
        leases = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=FREE, full=(), bound=bound)
        return [lease.run for lease in leases]

    assert await claimed() == []
    time.seconds += FULL_WALK_EVERY
    assert await claimed() == [late.id]


async def test_the_bound_rests_while_an_organization_is_left_out(shop: Shop) -> None:
    """Its runs keep their stamps, and are claimed as soon as it has room."""
    time = _Time()
    bound = ClaimBound(time.monotonic)
    other = await neighbour(shop)
    held_back = await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    bound.first_vt()
    for _ in range(3):
        time.seconds += MARGIN - 1  # short of the next walk
        for _ in range(3):
            await other.run_now(await other.hiding(), Mode.TEST)
        taken = await claim.claim(
            shop.engine, shop.clock.now(), hired.id, free=FREE, full=[shop.owner.org], bound=bound
        )
        assert len(taken) == 3
    assert (await shop.engine.read(shop.clock.now(), fairness.present)) > 3
    leases = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=FREE, full=(), bound=bound)
    assert [lease.run for lease in leases] == [held_back.id]
