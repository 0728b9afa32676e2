"""The service's own keys: created once, wrapped, rewrapped, and unreadable without their master key."""

import pytest

from steward.accounts import keys
from steward.database.accounts import keys as stored_keys
from steward.database.engine.base import Engine, Tx
from steward.model.refusals import NotConfigured
from steward.security.envelope import CannotOpen, MasterKey
from tests.fake_clock import FakeClock

FIRST = MasterKey("first", bytes(32))
SECOND = MasterKey("second", bytes(range(32)))


async def opened(engine: Engine, clock: FakeClock, *masters: MasterKey) -> keys.KeyRing:
    """Opens the key ring with these master keys."""
    return await keys.open_ring(engine, clock.now(), masters, issuer="https://a", audience="https://b")


async def test_keys_are_made_at_the_first_start_and_found_at_the_second(
    engine: Engine, clock: FakeClock
) -> None:
    """Creates one signing key, pepper and cursor key at the first start and reads them at the second."""
    first, second = await opened(engine, clock, FIRST), await opened(engine, clock, FIRST)
    rows = await engine.read(clock.now(), stored_keys.every)
    assert sorted(row.kind for row in rows) == ["cursor", "pepper", "signing"]
    assert (first.kid, first.pepper_id, first.cursor) == (second.kid, second.pepper_id, second.cursor)
    assert first.jwks == second.jwks
    assert "d" not in first.jwks["keys"][0]


async def test_keys_are_stored_wrapped(engine: Engine, clock: FakeClock) -> None:
    """Stores keys only in wrapped form."""
    ring = await opened(engine, clock, FIRST)
    for row in await engine.read(clock.now(), stored_keys.every):
        assert ring.cursor not in row.wrapped
        assert (ring.pepper(ring.pepper_id) or b"") not in row.wrapped


async def test_another_master_key_opens_nothing(engine: Engine, clock: FakeClock) -> None:
    """Raises CannotOpen with another master key."""
    await opened(engine, clock, FIRST)
    with pytest.raises(CannotOpen):
        await opened(engine, clock, SECOND)


async def test_rewrapped_keys_open_under_the_new_master_key_alone(engine: Engine, clock: FakeClock) -> None:
    """Rewraps keys once, after which only the new master key opens them."""
    before = await opened(engine, clock, FIRST)

    async def rewrap(tx: Tx) -> int:
        return await keys.rewrap(tx, [SECOND, FIRST])

    assert await engine.write(clock.now(), rewrap) == 3
    assert await engine.write(clock.now(), rewrap) == 0
    after = await opened(engine, clock, SECOND)
    assert (after.kid, after.cursor) == (before.kid, before.cursor)
    with pytest.raises(CannotOpen):
        await opened(engine, clock, FIRST)


async def test_a_ring_that_was_never_read_is_not_configured() -> None:
    """Raises NotConfigured on a ring that was never read."""
    ring = keys.KeyRing([FIRST], "https://a", "https://b")
    with pytest.raises(NotConfigured):
        str(ring.kid)
