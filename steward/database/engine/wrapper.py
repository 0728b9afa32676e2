"""An engine around another one: the base of those that change how a write is made."""

from collections.abc import Collection
from datetime import datetime
from typing import TypeVar

from steward.database.engine.base import Act, Engine
from steward.model.ids import OrgId

T = TypeVar("T")


class EngineWrapper:
    """Passes everything on to the wrapped engine; a subclass overrides what it changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dialect = engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes like the wrapped engine."""
        return await self._engine.write(now, act, org=org, urgent=urgent)

    async def read(
        self,
        now: datetime,
        act: Act[T],
        *,
        org: OrgId | Collection[OrgId] = (),
        small: bool = False,
        sets_tenant: bool = False,
    ) -> T:
        """Reads like the wrapped engine."""
        return await self._engine.read(now, act, org=org, small=small, sets_tenant=sets_tenant)

    async def close(self) -> None:
        """Closes the wrapped engine."""
        await self._engine.close()
