"""Creates and ends closed periods in tests."""

from dataclasses import replace
from functools import partial

from steward.closed_periods import change
from steward.closed_periods.change import CreatePeriod, FrozenChanges, SentWhen
from steward.database.closed_periods.records import StoredPeriod
from steward.database.engine.base import Engine, Tx
from steward.model.account import Actor, CreatedVia, Role
from steward.model.closed_period import ClosedKind, ClosedScope, ClosedScopeKind, Stops
from steward.model.json import JsonObject
from tests.fake_clock import FakeClock

WHOLE = ClosedScope(ClosedScopeKind.ORGANIZATION)


class PeriodEditor:
    """Acts as the owner in the web app, who creates and ends closed periods."""

    def __init__(self, engine: Engine, clock: FakeClock, owner: Actor) -> None:
        self.engine, self.clock = engine, clock
        self.actor = replace(owner, role=Role.OWNER, via=CreatedVia.UI)

    async def close(
        self,
        start: str,
        end: str,
        *,
        name: str = "Christmas",
        stops: Stops = Stops.RUNS,
        scope: ClosedScope = WHOLE,
    ) -> StoredPeriod:
        """Closes from `start` to `end`, such as `05-01T07:00` of 2026, in UTC."""
        return await self.make(
            ClosedKind.ONCE, {"start": f"2026-{start}", "end": f"2026-{end}"}, name, stops, scope
        )

    async def make(
        self,
        kind: ClosedKind,
        fields: JsonObject,
        name: str = "Christmas",
        stops: Stops = Stops.RUNS,
        scope: ClosedScope = WHOLE,
    ) -> StoredPeriod:
        """Creates a period in UTC."""
        command = CreatePeriod(name, scope, stops, SentWhen(kind, fields), "UTC")
        act = partial(change.create, actor=self.actor, command=command)
        return await self.engine.write(self.clock.now(), act, org=self.actor.org)

    async def close_often(self, count: int, scope: ClosedScope = WHOLE) -> list[StoredPeriod]:
        """Creates `count` periods of 1 May in one transaction."""
        fields: JsonObject = {"start": "2026-05-01T00:00", "end": "2026-05-02T00:00"}
        command = CreatePeriod("Day off", scope, Stops.RUNS, SentWhen(ClosedKind.ONCE, fields), "UTC")

        async def act(tx: Tx) -> list[StoredPeriod]:
            return [await change.create(tx, self.actor, command) for _ in range(count)]

        return await self.engine.write(self.clock.now(), act, org=self.actor.org)

    async def end(self, stored: StoredPeriod) -> StoredPeriod:
        """Ends a period now."""
        period = stored.period
        act = partial(change.end, actor=self.actor, period_id=period.id, version=period.version)
        return await self.engine.write(self.clock.now(), act, org=self.actor.org)

    async def freeze(self, scope: ClosedScope = WHOLE) -> StoredPeriod:
        """Stops all changes now."""
        return (await self.freeze_now(scope)).stored

    async def freeze_now(self, scope: ClosedScope = WHOLE) -> FrozenChanges:
        """Stops all changes now; also returns how many requests were under way."""
        act = partial(change.freeze, actor=self.actor, scope=scope, reason=None)
        return await self.engine.write(self.clock.now(), act, org=self.actor.org)
