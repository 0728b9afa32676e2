"""Reads the changes that an undo run puts back from the rows of the original run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from steward.clock import Clock
from steward.database.engine.base import Engine, Tx
from steward.database.runs import memory_log, undos
from steward.database.runs import records as runs
from steward.model.change import Change
from steward.model.ids import RunId
from steward.model.run import Run
from steward.model.undo import OriginalChange, OriginalRun
from steward.scheduling import zones


@dataclass(frozen=True, slots=True)
class StoredUndoSource:
    """Reads the changes to put back from the rows of the original run."""

    engine: Engine
    clock: Clock
    run: Run
    of_run: RunId
    timezone: str

    async def original_run(self) -> OriginalRun:
        """Returns the original run with the chosen changes, read in pages."""
        changes: list[Change] = []
        after = (0, -1)
        org = self.run.org
        while True:
            load = partial(undos.written_changes, org=org, run=self.of_run, after=after)
            page = await self.engine.read(self.clock.now(), load, org=org)
            if not page:
                break
            changes += page
            after = page[-1].seq, page[-1].position
        complete = partial(self._completed, changes=changes)
        return await self.engine.read(self.clock.now(), complete, org=org)

    async def _completed(self, tx: Tx, changes: Sequence[Change]) -> OriginalRun:
        """Returns the run with the changes' written parts and what they made the automation remember."""
        org, of_run = self.run.org, self.of_run
        original_run = await runs.get(tx, org, of_run)
        stored = await undos.get(tx, org, self.run.id)
        chosen = None if stored.chosen is None else frozenset(stored.chosen)
        numbers = await undos.written_parts(tx, org, of_run)
        memory_by_change = await memory_log.of_run(tx, org, of_run)
        originals = tuple(
            OriginalChange(
                change,
                tuple(numbers.get(change.id, ())),
                memory_by_change.get((change.name, change.iteration, change.position), ()),
            )
            for change in changes
            if chosen is None or change.id in chosen
        )
        began = _people_time(original_run.started_at or original_run.queued_at, self.timezone)
        cannot = await undos.count_not_undoable(tx, org, of_run) if chosen is None else 0
        return OriginalRun(began, originals, cannot)


def _people_time(instant: datetime, timezone: str) -> str:
    """Returns a time as people read it, such as `21 Nov 06:02`."""
    zone = zones.zone(timezone)
    return instant.astimezone(zone).strftime("%-d %b %H:%M") if zone is not None else instant.isoformat()
