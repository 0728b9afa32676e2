"""Helpers to read and edit the calendar with short times."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from steward.model.account import Actor
from steward.model.automation import Automation
from steward.model.occurrence import Occurrence
from steward.model.refusals import Refusal, ValidationFailed
from steward.occurrences import calendar, edit
from steward.occurrences.calendar import CalendarPage, CalendarPageQuery
from steward.occurrences.edit import MoveCommand, MoveScope
from steward.occurrences.slot import EditedOccurrence, SlotReference
from tests.automations.world import World

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
THIS, LATER = MoveScope.THIS, MoveScope.THIS_AND_LATER


def utc(text: str) -> datetime:
    """Parses an instant such as `05-02 08:00` of 2026, or with its year before it."""
    whole = text if len(text) > 11 and text[4] == "-" else f"2026-{text}"
    return datetime.fromisoformat(whole).replace(tzinfo=UTC)


def short(moment: datetime) -> str:
    """Formats an instant as `05-02 08:00`."""
    return moment.strftime("%m-%d %H:%M")


@dataclass
class CalendarClient:
    """Reads and edits the calendar of the world's owner."""

    world: World

    async def page(self, actor: Actor | None = None, **query: Any) -> CalendarPage:
        """Returns a page of the calendar."""
        who = actor or self.world.owner
        expected = CalendarPageQuery(**{"limit": 200, **query})
        act = partial(calendar.page, org=who.org, query=expected)
        return await self.world.engine.read(self.world.now, act, org=who.org)

    async def rows(self, automation: Automation | None = None, **query: Any) -> list[Occurrence]:
        """Returns the rows of a page."""
        only = {} if automation is None else {"automation": automation.id}
        return list((await self.page(**only, **query)).rows)

    async def row(self, automation: Automation, slot_at: datetime) -> Occurrence:
        """Returns the occurrence of one slot, wherever in the range it was moved to."""
        query = {"since": self.world.now - 31 * DAY, "until": self.world.now + 61 * DAY, "limit": 500}
        [occurrence] = [row for row in await self.rows(automation, **query) if row.slot_at == slot_at]
        return occurrence

    async def move(
        self,
        automation: Automation,
        slot_at: datetime,
        run_at: datetime,
        scope: MoveScope = THIS,
        *,
        version: int = 0,
        **changes: Any,
    ) -> EditedOccurrence:
        """Moves the occurrence of a slot that was read with `version`."""
        command = MoveCommand(self._slot(automation, slot_at, version, changes), run_at, scope)
        actor = changes.get("actor", self.world.owner)
        act = partial(edit.move, actor=actor, command=command, rules=self.world.rules)
        return await self.world.engine.write(self.world.now, act, org=actor.org)

    async def skip(
        self, automation: Automation, slot_at: datetime, *, version: int = 0, **changes: Any
    ) -> EditedOccurrence:
        """Skips the occurrence of a slot."""
        return await self._turn(edit.skip, automation, slot_at, version, changes)

    async def unskip(
        self, automation: Automation, slot_at: datetime, *, version: int = 1, **changes: Any
    ) -> EditedOccurrence:
        """Removes a skip."""
        return await self._turn(edit.unskip, automation, slot_at, version, changes)

    async def _turn(
        self, verb: Any, automation: Automation, slot_at: datetime, version: int, changes: dict[str, Any]
    ) -> EditedOccurrence:
        actor = changes.get("actor", self.world.owner)
        act = partial(verb, actor=actor, command=self._slot(automation, slot_at, version, changes))
        done: EditedOccurrence = await self.world.engine.write(self.world.now, act, org=actor.org)
        return done

    def _slot(
        self, automation: Automation, slot_at: datetime, version: int, changes: dict[str, Any]
    ) -> SlotReference:
        of = changes.get("automation_version", automation.version)
        return SlotReference(automation.id, slot_at, version, of)


def fields(refusal: Refusal) -> list[str]:
    """Returns the fields that a 422 names."""
    assert isinstance(refusal, ValidationFailed)
    assert refusal.errors is not None
    return sorted(refusal.errors)
