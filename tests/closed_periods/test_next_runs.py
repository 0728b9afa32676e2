"""Tests how next runs follow a change of closed periods: in batches, for many automations as for one.

See docs/design/closed-periods.md#slots.
"""

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from steward.automations import setup
from steward.database import due_rows
from steward.database.automations import records as automations
from steward.database.closed_periods import records
from steward.database.engine.base import Act, Args, Row, Sql, Tx, ms
from steward.database.engine.wrapper import EngineWrapper
from steward.model.automation import Automation
from steward.model.closed_period import ClosedKind
from steward.model.ids import OrgId
from steward.model.json import JsonObject
from steward.occurrences import closings
from steward.occurrences.closings import BATCH
from steward.runs.tasks import timers
from steward.scheduling.zones import instant_of
from tests.automations.world import World
from tests.closed_periods.edit_periods import PeriodEditor
from tests.occurrences.calendar_edits import CalendarClient, utc
from tests.runs.shop import Shop, neighbour

T = TypeVar("T")
DAILY_IN_BERLIN = {"cadence": "daily", "run_at": "10:00"}  # 08:00 UTC in summer
HIDING = "hide-out-of-stock-products"
SECOND, THIRD, FOURTH = utc("05-02 08:00"), utc("05-03 08:00"), utc("05-04 08:00")


class _CountedTx:
    """A transaction that counts its statements, besides running them."""

    def __init__(self, tx: Tx, engine: "_CountingEngine") -> None:
        self._tx = tx
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def first(self, sql: Sql, args: Args | None = None) -> Row | None:
        """Counts and runs a statement of one row."""
        self._engine.statements += 1
        return await self._tx.first(sql, args)

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """Counts and runs a statement of several rows."""
        self._engine.statements += 1
        return await self._tx.all(sql, args)

    async def execute(self, sql: Sql, args: Args | None = None) -> int:
        """Counts and runs a statement that changes rows."""
        self._engine.statements += 1
        return await self._tx.execute(sql, args)


class _CountingEngine(EngineWrapper):
    """An engine that counts the statements of writing acts."""

    statements = 0

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes like the wrapped engine, counting."""

        async def counted(tx: Tx) -> T:
            return await act(_CountedTx(tx, self))

        return await super().write(now, counted, org=org, urgent=urgent)


async def create_many(world: World, count: int) -> None:
    """Creates daily automations in one transaction."""
    command = world.ask(timezone="UTC")

    async def act(tx: Tx) -> None:
        for _ in range(count):
            await setup.create(tx, world.owner, command, rules=world.rules)

    await world.engine.write(world.now, act, org=world.org)


async def follow_once(world: World) -> tuple[int, bool]:
    """Makes one pass; returns how many statements it took, and whether more is left."""
    counting = _CountingEngine(world.engine)
    has_more = await counting.write(world.now, partial(closings.follow_changes, org=world.org), org=world.org)
    return counting.statements, has_more


async def next_runs(world: World) -> list[int | None]:
    """Returns the next run of every automation, by rising id."""
    sql = "SELECT next_run_at FROM schedules ORDER BY automation_id"
    rows = await world.engine.read(world.now, lambda tx: tx.all(sql), org=world.org)
    return [row["next_run_at"] for row in rows]


async def test_a_pass_takes_as_many_statements_for_a_full_batch_as_for_two(
    world: World, closer: PeriodEditor
) -> None:
    """Rewrites 499 automations in one pass and 501 in two."""
    await create_many(world, 2)
    await closer.close("05-01T00:00", "05-02T00:00")
    for_two = await follow_once(world)
    assert await next_runs(world) == [ms(SECOND)] * 2
    await create_many(world, BATCH - 3)
    await closer.close("05-02T00:00", "05-03T00:00")
    assert await follow_once(world) == for_two == (for_two[0], False)
    assert await next_runs(world) == [ms(THIRD)] * (BATCH - 1)
    await create_many(world, 2)
    await closer.close("05-03T00:00", "05-04T00:00")
    assert await follow_once(world) == (for_two[0], True)
    assert await next_runs(world) == [ms(FOURTH)] * BATCH + [ms(THIRD)]
    assert await follow_once(world) == (for_two[0], False)
    assert await next_runs(world) == [ms(FOURTH)] * (BATCH + 1)
    assert await follow_once(world) == (1, False)


async def test_next_runs_of_one_schedule_are_searched_for_once(world: World, closer: PeriodEditor) -> None:
    """Rewrites fifty automations that never run again at the cost of two, and an edited one by itself."""
    mornings: JsonObject = {"days": [1, 2, 3, 4, 5, 6, 7], "from": "07:00", "to": "09:00"}
    edited = await world.create(timezone="UTC")
    await create_many(world, 49)
    await closer.make(ClosedKind.WEEKLY, mornings)
    row = await CalendarClient(world).row(edited, SECOND)
    await CalendarClient(world).unskip(edited, SECOND, version=row.version, actor=closer.actor)
    before = instant_of.cache_info()
    await follow_once(world)
    after = instant_of.cache_info()
    assert Counter(await next_runs(world)) == {ms(SECOND): 1, None: 49}
    # One search passes 2,000 closings, whose ends it computes, and one slot in each.
    assert 4_000 < after.hits + after.misses - before.hits - before.misses < 16_000


async def _next_run(shop: Shop, automation: Automation) -> datetime | None:
    stored = await shop.read(partial(automations.get, org=shop.owner.org, automation=automation.id))
    return stored.next_run_at


async def test_a_period_that_cannot_be_read_holds_up_no_other_organization(
    shop: Shop, shopkeeper: PeriodEditor
) -> None:
    """Defers the organization for a minute, and rewrites the next runs of one that asked later.

    See docs/design/runs.md#periodic-tasks-and-failing-rows.
    """
    other = await neighbour(shop)
    own, theirs = [
        await each_shop.set_up(HIDING, {}, schedule=DAILY_IN_BERLIN) for each_shop in (shop, other)
    ]
    before = await _next_run(shop, own)
    await shopkeeper.close("05-01T00:00", "05-02T00:00")
    stored = await shop.read(lambda tx: tx.first("SELECT when_json FROM closed_periods"))
    assert stored is not None
    set_when = "UPDATE closed_periods SET when_json = :when WHERE org_id = :org"
    await shop.tamper(set_when, when="[]")
    await shop.clock.advance(1)
    await PeriodEditor(other.engine, other.clock, other.owner).close("05-01T00:00", "05-02T00:00")
    ctx = (await shop.registered_worker()).ctx
    assert await timers.follow_closed_periods(ctx) is False
    assert (await _next_run(shop, own), await _next_run(other, theirs)) == (before, SECOND)
    late = partial(due_rows.deferred_keys, task="closings")
    assert await shop.engine.read(shop.clock.now(), late) == {str(shop.owner.org)}
    await shop.tamper(set_when, when=stored["when_json"])
    await timers.follow_closed_periods(ctx)
    assert await _next_run(shop, own) == before
    await shop.clock.advance(60)
    await timers.follow_closed_periods(ctx)
    assert await _next_run(shop, own) == SECOND


async def test_a_change_of_periods_ends_the_deferral(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Rewrites next runs at once when a period is made after the broken one is gone."""
    automation = await shop.set_up(HIDING, {}, schedule=DAILY_IN_BERLIN)
    await shopkeeper.close("05-01T00:00", "05-02T00:00")
    await shop.tamper("UPDATE closed_periods SET when_json = '[]' WHERE org_id = :org")
    ctx = (await shop.registered_worker()).ctx
    await timers.follow_closed_periods(ctx)
    await shop.tamper("DELETE FROM closed_periods WHERE org_id = :org")
    await shopkeeper.close("05-01T00:00", "05-03T00:00")
    await timers.follow_closed_periods(ctx)
    assert await _next_run(shop, automation) == THIRD


async def test_a_bound_that_cannot_be_raised_holds_up_no_other(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Defers the organization whose period cannot be read, and raises the bound of the next one."""
    other = await neighbour(shop)
    for closer in (shopkeeper, PeriodEditor(other.engine, other.clock, other.owner)):
        await closer.close("05-01T07:00", "05-01T09:00")
    await shop.tamper("UPDATE closed_periods SET when_json = '[]' WHERE org_id = :org")
    await shop.clock.advance(86_400)
    ctx = (await shop.registered_worker()).ctx
    failures = "SELECT failures FROM deferred_rows WHERE task = 'closing_bounds'"
    for _ in range(2):
        await timers.raise_closing_bounds(ctx, timedelta(minutes=15))
        bounds = [
            await each_shop.read(partial(records.closed_from, org=each_shop.owner.org))
            for each_shop in (shop, other)
        ]
        assert bounds == [utc("05-01 07:00"), None]
        rows = await shop.engine.read(shop.clock.now(), lambda tx: tx.all(failures))
        assert [row["failures"] for row in rows] == [1]
