"""Compares moves, skips, closings, states, dispatch, clock jumps and crashes with a plain model."""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from steward.closed_periods import bounds, change
from steward.closed_periods.change import ChangePeriod, SentWhen
from steward.database.closed_periods.records import StoredPeriod
from steward.database.engine.base import Engine, Tx
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.postgres import PostgresEngine
from steward.database.engine.sqlite import SqliteEngine
from steward.model.automation import Automation
from steward.model.closed_period import ClosedKind, ClosedScope, ClosedScopeKind
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject
from steward.model.occurrence import Occurrence
from steward.model.refusals import Refusal, StaleVersion, ValidationFailed
from steward.occurrences import closings, edit
from steward.occurrences.audit import audit_slots
from steward.occurrences.edit import MoveCommand, MoveScope
from steward.occurrences.slot import SlotReference
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.telemetry.redact import SecretRegister
from tests.automations.world import RULES, World, actor
from tests.closed_periods.edit_periods import WHOLE, PeriodEditor
from tests.fake_clock import FakeClock
from tests.occurrences.calendar_edits import DAY, HOUR, LATER, MINUTE, THIS, CalendarClient
from tests.occurrences.calendar_model import Closing, ExpectedRefusal, Plan, Row

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "8"))
STEPS = 30
ZONES = {"UTC": timedelta(0), "Asia/Kolkata": 330 * MINUTE, "America/Phoenix": -7 * HOUR}

times = st.sampled_from(["00:00", "03:15", "08:00", "12:30", "23:45"])
schedules = st.one_of(
    st.builds(lambda location: {"cadence": "daily", "run_at": location}, times),
    st.builds(
        lambda position, days: {"cadence": "weekdays", "run_at": position, "days": sorted(days)},
        times,
        st.sets(st.integers(1, 7), min_size=1, max_size=6),
    ),
    st.builds(
        lambda at, day: {"cadence": "weekly", "run_at": at, "day_of_week": day}, times, st.integers(1, 7)
    ),
    st.just({"cadence": "hourly"}),
    st.just({"cadence": "every_6_hours"}),
)
distances = st.sampled_from(
    [-DAY, -HOUR, -MINUTE, 7 * MINUTE, 90 * MINUTE, 5 * HOUR, DAY, 2 * DAY + HOUR, 9 * DAY, 400 * DAY]
)
places = st.integers(0, 40)
numbers = count()


class Crash(Exception):
    """Ends the process before the commit."""


class Calendar(RuleBasedStateMachine):
    """One automation of the service beside its plain model."""

    engine: Engine
    runner: "asyncio.Runner"
    decided: Counter[str]

    @initialize(schedule=schedules, zone=st.sampled_from(sorted(ZONES)), spread_max=st.sampled_from([0, 9]))
    def set_up(self, schedule: dict[str, Any], zone: str, spread_max: int) -> None:
        """Creates a new organization with one automation."""
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.lines: list[str] = []
        self.made = self.run(self._make(schedule, zone, spread_max))
        spread = self.made.spread_minutes * MINUTE
        self.plan = Plan(schedule, ZONES[zone], spread, self.clock.now())

    async def _make(self, schedule: dict[str, Any], zone: str, spread_max: int) -> Automation:
        owner = await actor(self.engine, self.clock.now(), f"Shop {next(numbers)}")
        self.closer = PeriodEditor(self.engine, self.clock, owner)
        self.periods: list[tuple[StoredPeriod, Closing]] = []
        none = IntegrationId(0)
        rules = replace(RULES, spread_max=spread_max)
        world = World(self.engine, self.clock, rules, owner, owner, none, none, none, none, none, [])
        world.store = await world.connect("woocommerce", "Corner")
        self.world, self.diary = world, CalendarClient(world)
        return await world.create(schedule=schedule, timezone=zone)

    def run(self, work: Any) -> Any:
        """Runs a coroutine to its end."""
        return self.runner.run(work)

    def both(self, real: Any, model: Any, *args: Any) -> None:
        """Applies an act to both; the service must refuse as the model does."""
        expected: str | None = None
        attempt = self.plan.copy()
        try:
            getattr(attempt, model)(*args)
        except ExpectedRefusal as refused:
            expected = refused.what
        else:
            self.plan = attempt
        what: str | None = None
        try:
            self.run(real)
        except Refusal as refusal:
            what = _what(refusal)
        assert what == expected

    def current(self) -> Automation:
        """Reads the automation."""
        automation: Automation = self.run(self.world.read(self.made))
        return automation

    def pick(self, place: int) -> Row:
        """Picks a row of the calendar, else a stored one, else an unknown slot."""
        rows = self.plan.calendar(self.clock.now() - 3 * DAY, self.clock.now() + 30 * DAY)
        rows += sorted(self.plan.rows.values(), key=lambda item: item["slot_at"])
        if not rows or place == 40:
            moment = self.clock.now() + 7 * MINUTE
            return {"slot_at": moment, "run_at": moment}
        return rows[place % len(rows)]

    @rule(by=st.sampled_from([MINUTE, 9 * MINUTE, HOUR, 7 * HOUR, DAY, 3 * DAY]), is_ticking=st.booleans())
    def time_goes_on(self, by: timedelta, is_ticking: bool) -> None:
        """Advances the clock, with or without dispatch."""
        self.clock.tick(by.total_seconds())
        self.plan.now = self.clock.now()
        if is_ticking:
            self.tick()

    @rule(place=places)
    def time_goes_on_to_a_run(self, place: int) -> None:
        """Advances the clock exactly to a run."""
        run_at = self.pick(place)["run_at"]
        if run_at > self.clock.now():
            self.clock.tick((run_at - self.clock.now()).total_seconds())
            self.plan.now = self.clock.now()

    @precondition(lambda self: self.plan.state == "active")
    @rule(by=st.sampled_from([7 * HOUR, DAY, 3 * DAY]), ends=st.booleans())
    def every_run_begins_in_its_time(self, by: timedelta, ends: bool) -> None:
        """Dispatches each run at its time for a while; `ends`: each is over before the next."""
        rows = self.plan.calendar(self.plan.now, self.plan.now + by)
        for run_at in sorted({row["run_at"] for row in rows if row["run_at"] > self.plan.now})[:20]:
            self.clock.tick((run_at - self.clock.now()).total_seconds())
            self.plan.now = self.clock.now()
            self.run(self.world.dispatch())
            self.plan.tick()
            if ends:
                self.the_run_ends()
        self.run(self._audit())

    @rule(by=st.sampled_from([MINUTE, HOUR, 10 * HOUR]))
    def the_clock_is_set_back(self, by: timedelta) -> None:
        """Sets the clock back."""
        self.clock.jump(-by.total_seconds())
        self.plan.now = self.clock.now()

    @rule()
    def tick(self) -> None:
        """Runs dispatch, then the auditor."""
        self.run(self.world.dispatch())
        self.plan.tick()
        self.run(self._audit())

    async def _audit(self) -> None:
        now = self.clock.now()
        log = Log(self.lines.append, self.clock, SecretRegister())
        every = timedelta(0)
        await audit_slots(
            self.engine, now, late_limit=10 * MINUTE, log=log, metrics=self.metrics, every=every
        )

    @rule()
    def the_run_ends(self) -> None:
        """Ends the queued run."""
        self.run(self.world.end(self.made))
        self.plan.is_live = False

    @rule(verb=st.sampled_from(["pause", "pause", "resume", "archive", "restore"]))
    def turn(self, verb: str) -> None:
        """Applies a change of state, valid or not."""
        self.both(self.world.turn(verb, self.current()), verb)

    @precondition(lambda self: self.plan.state in ("paused", "archived"))
    @rule()
    def come_back(self) -> None:
        """Restores or resumes the automation."""
        self.turn("resume" if self.plan.state == "paused" else "restore")

    @rule(schedule=schedules)
    def update(self, schedule: dict[str, Any]) -> None:
        """Sets another schedule."""
        plain = {"cadence": self.plan.schedule["cadence"]}
        if schedule["cadence"] == "weekdays" and plain == {"cadence": "weekdays"}:
            schedule = {**schedule, "days": self.plan.schedule.get("days") or schedule["days"]}
        self.both(self.world.update(self.current(), schedule=schedule), "update", schedule)

    @rule(place=places, by=distances, scope=st.sampled_from([THIS, THIS, LATER]))
    def move(self, place: int, by: timedelta, scope: MoveScope) -> None:
        """Moves a row to a random time."""
        picked = self.pick(place)
        run_at = (picked["run_at"] + by).replace(second=0, microsecond=0)
        version = self.plan.version_of(picked["slot_at"])
        real = self.diary.move(self.current(), picked["slot_at"], run_at, scope, version=version)
        model = "move" if scope is THIS else "move_later"
        self.both(real, model, picked["slot_at"], run_at)

    @precondition(lambda self: self.plan.state == "active")
    @rule(
        place=st.integers(0, 6),
        by=st.sampled_from([-7 * HOUR, -MINUTE, 11 * MINUTE, 3 * HOUR, 26 * HOUR]),
        scope=st.sampled_from([THIS, LATER]),
    )
    def move_a_coming_run(self, place: int, by: timedelta, scope: MoveScope) -> None:
        """Makes a move that mostly succeeds."""
        rows = self.plan.calendar(self.plan.now, self.plan.now + 60 * DAY)
        coming = [row for row in rows if row["state"] == "pending"]
        if coming:
            picked = coming[place % len(coming)]
            run_at = (picked["run_at"] + by).replace(second=0, microsecond=0)
            version = self.plan.version_of(picked["slot_at"])
            real = self.diary.move(self.current(), picked["slot_at"], run_at, scope, version=version)
            self.both(real, "move" if scope is THIS else "move_later", picked["slot_at"], run_at)

    @rule(place=places, onto=places)
    def move_onto_another(self, place: int, onto: int) -> None:
        """Moves a row exactly to another row's time."""
        picked, run_at = self.pick(place), self.pick(onto)["run_at"]
        version = self.plan.version_of(picked["slot_at"])
        real = self.diary.move(self.current(), picked["slot_at"], run_at, version=version)
        self.both(real, "move", picked["slot_at"], run_at)

    @rule(place=places)
    def skip(self, place: int) -> None:
        """Skips a row."""
        slot_at = self.pick(place)["slot_at"]
        version = self.plan.version_of(slot_at)
        self.both(self.diary.skip(self.current(), slot_at, version=version), "skip", slot_at)

    @rule(place=places, by_person=st.booleans())
    def unskip(self, place: int, by_person: bool) -> None:
        """Removes the skip of a row, as a person or with a token."""
        self._unskip(self.pick(place)["slot_at"], by_person)

    @rule(place=places, by_person=st.booleans())
    def unskip_a_skipped_one(self, place: int, by_person: bool) -> None:
        """Removes a skip if there is one, as a person or with a token."""
        skipped = [row for row in self.plan.rows.values() if row["state"] == "skipped"]
        if skipped:
            self._unskip(skipped[place % len(skipped)]["slot_at"], by_person)

    def _unskip(self, slot_at: datetime, by_person: bool) -> None:
        version = self.plan.version_of(slot_at)
        caller = self.closer.actor if by_person else self.world.owner
        real = self.diary.unskip(self.current(), slot_at, version=version, actor=caller)
        self.both(real, "unskip", slot_at, by_person)

    @rule(
        begins=st.sampled_from([-9 * HOUR, -MINUTE, timedelta(0), 20 * HOUR, 5 * DAY]),
        lasts=st.sampled_from([MINUTE, 7 * HOUR, DAY, 3 * DAY]),
        is_own=st.booleans(),
    )
    def close(self, begins: timedelta, lasts: timedelta, is_own: bool) -> None:
        """Makes a closed period of the automation or of the organization."""
        if len(self.periods) < 4:
            start, end = self._closing_times(begins, lasts)
            own = ClosedScope(ClosedScopeKind.AUTOMATION, automation=self.made.id)
            name, scope = f"Closed {next(numbers)}", own if is_own else WHOLE
            real = self.closer.make(ClosedKind.ONCE, _once(start, end), name, scope=scope)
            self._begin_version(self.run(real), start, end)

    @precondition(lambda self: self.periods)
    @rule(place=places)
    def end_a_period(self, place: int) -> None:
        """Ends a closed period now."""
        stored, closing = self.periods.pop(place % len(self.periods))
        self.run(self.closer.end(stored))
        self.plan.end_version(closing)
        self._follow_changes()

    @precondition(lambda self: self.periods)
    @rule(
        place=places,
        begins=st.sampled_from([-9 * HOUR, HOUR, DAY]),
        lasts=st.sampled_from([HOUR, 2 * DAY]),
    )
    def change_a_period(self, place: int, begins: timedelta, lasts: timedelta) -> None:
        """Changes when a period closes, as its next version."""
        stored, closing = self.periods.pop(place % len(self.periods))
        start, end = self._closing_times(begins, lasts)
        when = SentWhen(ClosedKind.ONCE, _once(start, end))
        command = ChangePeriod(stored.period.id, stored.period.version, when=when)
        act = partial(change.change, actor=self.closer.actor, command=command)
        self.plan.end_version(closing)
        self._begin_version(self.run(self.world.write(act)), start, end)

    def _closing_times(self, begins: timedelta, lasts: timedelta) -> tuple[datetime, datetime]:
        """Returns a closing that begins so long after the next run, or after now, and is not over."""
        begin = self.plan.next_run_at() or self.clock.now()
        start = (begin + begins).replace(second=0, microsecond=0)
        return start, max(start, self.clock.now().replace(second=0, microsecond=0)) + lasts

    def _begin_version(self, stored: StoredPeriod, start: datetime, end: datetime) -> None:
        period = stored.period
        is_own = period.scope.kind is ClosedScopeKind.AUTOMATION
        closing = Closing(period.id, period.name, is_own, start, end, self.clock.now())
        self.plan.close(closing)
        self.periods.append((stored, closing))
        self._follow_changes()

    def _follow_changes(self) -> None:
        """Rewrites when the automation runs next, as the task `closings` does."""
        while self.run(self.world.write(partial(closings.follow_changes, org=self.world.org))):
            pass

    @rule()
    def raise_bound(self) -> None:
        """Raises the bound from which closed periods are read, as the task `closing_bounds` does."""
        act = partial(bounds.raise_bound, org=self.world.org, late_limit=10 * MINUTE)
        self.run(self.world.write(act))

    @precondition(lambda self: self.plan.state == "active" and self.plan.closings)
    @rule(place=places, by_person=st.sampled_from([True, True, False]))
    def let_a_closed_run_through(self, place: int, by_person: bool) -> None:
        """Takes up a run that a closing leaves out, which a token may not."""
        left_out = self._left_out()
        if left_out:
            self._unskip(left_out[place % len(left_out)]["slot_at"], by_person)

    @precondition(lambda self: self.plan.state == "active" and self.plan.closings)
    @rule(place=st.integers(0, 3), late=st.sampled_from([timedelta(0), MINUTE, 4 * HOUR]))
    def time_goes_on_to_a_closed_run(self, place: int, late: timedelta) -> None:
        """Advances the clock to a run that a closing leaves out, or beyond it, and dispatches."""
        left_out = self._left_out()
        if left_out:
            run_at = left_out[place % len(left_out)]["run_at"]
            self.clock.tick((run_at + late - self.clock.now()).total_seconds())
            self.plan.now = self.clock.now()
            self.tick()

    def _left_out(self) -> list[Row]:
        """Returns the coming runs that a closing leaves out."""
        rows = self.plan.calendar(self.plan.now, self.plan.now + 30 * DAY)
        return [row for row in rows if row["closed_name"] and row["run_at"] > self.plan.now]

    @precondition(lambda self: any(row["exempt"] for row in self.plan.rows.values()))
    @rule(place=places, by=st.sampled_from([-HOUR, 7 * MINUTE, 5 * HOUR, DAY]))
    def move_a_run_that_was_let_through(self, place: int, by: timedelta) -> None:
        """Moves a run within the closing that it was let through, or out of it."""
        exempt = [row for row in self.plan.rows.values() if row["exempt"]]
        picked = exempt[place % len(exempt)]
        run_at = (picked["run_at"] + by).replace(second=0, microsecond=0)
        version = self.plan.version_of(picked["slot_at"])
        real = self.diary.move(self.current(), picked["slot_at"], run_at, version=version)
        self.both(real, "move", picked["slot_at"], run_at)

    @rule(place=places)
    def a_stale_edit(self, place: int) -> None:
        """Makes an edit with another version, which is refused in any state."""
        slot_at = self.pick(place)["slot_at"]
        try:
            self.plan.find(slot_at)
        except ExpectedRefusal:
            return
        with pytest.raises(StaleVersion):
            self.run(self.diary.skip(self.current(), slot_at, version=self.plan.version_of(slot_at) + 1))

    @rule(place=places, by=distances, scope=st.sampled_from([THIS, LATER]))
    def a_crash(self, place: int, by: timedelta, scope: MoveScope) -> None:
        """Ends the process within an edit; nothing of it stays."""
        picked, now = self.pick(place), self.current()
        command = MoveCommand(
            SlotReference(now.id, picked["slot_at"], self.plan.version_of(picked["slot_at"]), now.version),
            (picked["run_at"] + by).replace(second=0, microsecond=0),
            scope,
        )

        async def act(tx: Tx) -> None:
            await edit.move(tx, self.world.owner, command, rules=self.world.rules)
            raise Crash

        with pytest.raises((Crash, Refusal)):
            self.run(self.world.write(act))

    @invariant()
    def both_are_alike(self) -> None:
        """Compares rows, calendar, state, version and next run."""
        if not hasattr(self, "plan"):
            return
        now = self.clock.now()
        since, until = now - 3 * DAY, now + 12 * DAY
        occurrences: list[Occurrence] = self.run(
            self.diary.rows(self.made, since=since, until=until, limit=500)
        )
        expected = self.plan.calendar(since, until)
        assert [_shown(occurrence) for occurrence in occurrences] == [_of(record) for record in expected]
        automation = self.current()
        assert (automation.state, automation.version) == (self.plan.state, self.plan.version)
        assert automation.next_run_at == self.plan.next_run_at()
        stored = self.run(self.world.rows(self.made))
        assert [(item.slot_at, item.run_at, item.state, item.exempt) for item in stored] == [
            (row["slot_at"], row["run_at"], row["state"], row["exempt"])
            for row in sorted(self.plan.rows.values(), key=lambda entry: entry["slot_at"])
        ]
        queued = [element.run_id for element in stored if element.run_id]
        runs = self.run(self.world.runs(self.made))
        assert sorted(queued) == sorted(run.id for run in runs)
        assert self.lines == []

    def teardown(self) -> None:
        """Archives the automation, so that later examples dispatch only their own, and counts its slots."""
        if hasattr(self, "plan"):
            decided = [row for row in self.plan.rows.values() if row["state"] != "pending"]
            self.decided["closed"] += len([row for row in decided if row["closed_name"]])
            self.decided["all"] += len(decided)
        if hasattr(self, "plan") and self.plan.state != "archived":
            self.run(self.world.turn("archive", self.made))


def _once(start: datetime, end: datetime) -> JsonObject:
    return {"start": f"{start:%Y-%m-%dT%H:%M}", "end": f"{end:%Y-%m-%dT%H:%M}"}


def _what(refusal: Refusal) -> str:
    if isinstance(refusal, ValidationFailed) and refusal.errors:
        [name] = refusal.errors
        return name
    return refusal.code


def _shown(item: Occurrence) -> tuple[Any, ...]:
    return (
        item.slot_at, item.run_at, item.state.value, item.reason and item.reason.value, item.moved_from,
        item.version, item.is_projected, item.closed_name,
    )  # fmt: skip


def _of(row: Row) -> tuple[Any, ...]:
    names = ("slot_at", "run_at", "state", "reason", "moved_from", "version", "projected", "closed_name")
    return tuple(row[name] for name in names)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """Returns a loop for a synchronous test."""
    with asyncio.Runner() as made:
        yield made


def test_the_calendar_is_what_a_plain_model_says(database_url: str, runner: asyncio.Runner) -> None:
    """All rules together match the model on both engines.

    See docs/design/schedule.md#what-a-due-slot-becomes and docs/design/schedule.md#moving-this-and-later.
    """

    async def open_engine() -> Engine:
        clock = FakeClock()
        if is_sqlite(database_url):
            return SqliteEngine(sqlite_path(database_url), clock=clock)
        return await PostgresEngine.open(database_url, size=2, clock=clock, test=True)

    opened = runner.run(open_engine())
    decided: Counter[str] = Counter()
    machine = type("Calendar", (Calendar,), {"engine": opened, "runner": runner, "decided": decided})
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
            ),
        )
    finally:
        print(f"{opened.dialect}: {dict(decided)} slots decided in {EXAMPLES} examples")
        runner.run(opened.close())
