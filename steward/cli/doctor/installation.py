"""The installation that the checks of the doctor look at."""

from dataclasses import dataclass
from datetime import datetime

from steward.clock import SystemClock
from steward.config import Settings
from steward.database.engine.base import Act, Engine, T
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable
from steward.security.envelope import MasterKey

NOT_KNOWN = "Not known: the database cannot be used."


class CheckFailed(Exception):
    """Raised for a failed check, with a message that says what to do."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation to check; without an engine, `why` says why the database could not be opened."""

    settings: Settings
    now: datetime
    masters: list[MasterKey]
    engine: Engine | None
    clock: SystemClock
    why: str = ""
    is_full: bool = False  # whether to read the whole SQLite file

    async def read(self, act: Act[T], org: OrgId | None = None) -> T:
        """Runs one read. Raises CheckFailed if the database is not usable."""
        if self.engine is None:
            raise CheckFailed(NOT_KNOWN)
        try:
            return await self.engine.read(self.now, act, org=() if org is None else org)
        except Unavailable as error:
            raise CheckFailed(NOT_KNOWN) from error
