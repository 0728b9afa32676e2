"""Tests the retention of store events."""

from datetime import timedelta

from tests.events.world import ListeningService, order


async def count(listener: ListeningService, table: str) -> int:
    """Returns the number of rows of a table."""
    [row] = await listener.rows(f"SELECT count(*) AS n FROM {table} WHERE org_id = :org")
    return int(row["n"])


async def test_bodies_go_after_a_week_and_events_after_a_month(listener: ListeningService) -> None:
    """Bodies are deleted after 7 days, events after 30, own changes after 10 minutes.

    See docs/design/storage.md#retention.
    """
    automation = await listener.automation("orders/create")
    for number in (1, 2):
        await listener.deliver("order.created", order(number), delivery=f"kept-{number}")
    assert len(await listener.events_of_runs(automation)) == 2
    await listener.shop.tamper(
        "INSERT INTO own_changes (org_id, integration_id, object_type, object_id, automation_id, run_id,"
        " applied_at, set_modified_at, by_event) VALUES (:org, 1, 'order', '1', :automation, 'R', :now,"
        " TRUE, TRUE)",
        automation=automation["id"],
    )
    listener.shop.clock.tick(timedelta(minutes=9).total_seconds())
    await listener.tick("retention")
    assert await count(listener, "own_changes") == 1
    listener.shop.clock.tick(timedelta(minutes=2).total_seconds())
    await listener.tick("retention")
    assert await count(listener, "own_changes") == 0
    listener.shop.clock.tick(timedelta(days=6).total_seconds())
    await listener.tick("retention")
    assert (await count(listener, "events"), await count(listener, "event_bodies")) == (2, 2)
    listener.shop.clock.tick(timedelta(days=2).total_seconds())
    await listener.deliver("order.created", order(1), delivery="kept-1")
    await listener.tick("retention")
    assert await count(listener, "events") == 2
    if listener.shop.engine.dialect == "sqlite":  # months hold them on PostgreSQL, and go as a whole
        assert await count(listener, "event_bodies") == 0
    listener.shop.clock.tick(timedelta(days=22).total_seconds())
    await listener.tick("retention")
    assert (await count(listener, "events"), await count(listener, "event_bodies")) == (0, 0)
    assert len(await listener.rows("SELECT 1 FROM runs WHERE org_id = :org")) == 2
