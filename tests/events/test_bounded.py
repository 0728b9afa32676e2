"""Tests that the database file stops growing under a constant load of events.

See docs/design/storage.md#retention and docs/design/storage.md#disk-reserve.
"""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from steward import periodic_tasks
from tests.events.world import ListeningService, order

DAYS = int(os.environ.get("BOUNDED_DAYS", "0"))
pytestmark = pytest.mark.skipif(not DAYS, reason="in `make soak`: weeks of events, in virtual time")

RUNS_FOR = timedelta(days=10)
FULL_AFTER = 33  # days: an event is kept for thirty, everything else for less
A_DAY = 60
WORDS = "x" * 2_000
GROWS = 1.10


def _used_bytes(file: Path) -> int:
    """Returns the bytes of the file and its write-ahead log."""
    return sum(path.stat().st_size for path in (file, file.with_name(file.name + "-wal")) if path.exists())


async def test_the_file_is_bounded_under_a_days_load(listener: ListeningService) -> None:
    """With retention the file is bounded under a day's load."""
    shop = listener.shop
    if shop.engine.dialect != "sqlite":
        pytest.skip("of SQLite: PostgreSQL drops months, and what is deleted is its vacuum's")
    assert DAYS >= FULL_AFTER + 20
    ctx = shop.service.worker_context
    shop.service = replace(
        shop.service, worker_context=replace(ctx, retention=replace(ctx.retention, history=RUNS_FOR))
    )
    shop.worker = None
    await listener.automation("orders/create")
    file, sizes = Path(str(ctx.retention.file)), []
    for day in range(DAYS):
        for hour in range(24):
            await shop.clock.advance(3600)
            if hour % 4 == 0:
                for number in range(A_DAY // 6):
                    body = {**order(day * 10_000 + hour * 100 + number), "customer_note": WORDS}
                    response = await listener.deliver(
                        "order.created", body, delivery=f"{day} {hour} {number}"
                    )
                    assert response.status == 200
                    shop.clock.tick(20)
                await shop.drain()
        while await periodic_tasks.apply_retention(await shop.registered_worker()):
            pass
        sizes.append(_used_bytes(file))
    print("MiB by day:", [round(size / 2**20, 1) for size in sizes])
    assert max(sizes[FULL_AFTER + 10 :]) <= GROWS * max(sizes[FULL_AFTER : FULL_AFTER + 10])
