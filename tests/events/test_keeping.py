"""Tests the retention of store events."""

from datetime import timedelta

from tests.events.world import ListeningService, order


async def count(ears: ListeningService, table: str) -> int:
    """Returns the number of rows of a table."""
    [row] = await ears.rows(f"SELECT count(*) AS n FROM {table} WHERE org_id = :org")
    return int(row["n"])


async def test_bodies_go_after_a_week_and_events_after_a_month(ears: ListeningService) -> None:
    """Bodies are deleted after 7 days, events after 30, own changes after 10 minutes.

    See docs/design/storage.md#retention.
    """
    automation = await ears.automation("orders/create")
    for number in (1, 2):
        await ears.deliver("order.created", order(number), delivery=f"kept-{number}")
    assert len(await ears.events_of_runs(automation)) == 2
    await ears.shop.tamper(
        "INSERT INTO own_changes (org_id, integration_id, object_type, object_id, automation_id, run_id,"
        " applied_at, set_modified_at, by_event) VALUES (:org, 1, 'order', '1', :automation, 'R', :now,"
        " TRUE, TRUE)",
        automation=automation["id"],
    )
    ears.shop.clock.tick(timedelta(minutes=9).total_seconds())
    await ears.tick("retention")
    assert await count(ears, "own_changes") == 1
    ears.shop.clock.tick(timedelta(minutes=2).total_seconds())
    await ears.tick("retention")
    assert await count(ears, "own_changes") == 0
    ears.shop.clock.tick(timedelta(days=6).total_seconds())
    await ears.tick("retention")
    assert (await count(ears, "events"), await count(ears, "event_bodies")) == (2, 2)
    ears.shop.clock.tick(timedelta(days=2).total_seconds())
    await ears.deliver("order.created", order(1), delivery="kept-1")
    await ears.tick("retention")
    assert await count(ears, "events") == 2
    if ears.shop.engine.dialect == "sqlite":  # months hold them on PostgreSQL, and go as a whole
        assert await count(ears, "event_bodies") == 0
    ears.shop.clock.tick(timedelta(days=22).total_seconds())
    await ears.tick("retention")
    assert (await count(ears, "events"), await count(ears, "event_bodies")) == (0, 0)
    assert len(await ears.rows("SELECT 1 FROM runs WHERE org_id = :org")) == 2
