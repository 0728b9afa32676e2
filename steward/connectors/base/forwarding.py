"""A reader that wraps another one, so that a caller can count, record or cut short its calls."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from steward.connectors.base.connector import CurrentValue, Reader
from steward.connectors.base.queries import ReadOp, RecordPage
from steward.connectors.base.writing import WriteOutcome
from steward.model.change import Part
from steward.model.undo import LookUpResult

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741


@dataclass(frozen=True, slots=True)
class ForwardingReader:
    """A `Reader` that forwards every call to `reader`; a subclass overrides the calls that it changes."""

    reader: Reader

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Yields pages."""
        return self.reader.read(op, params)

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Reads the current values of parts."""
        return await self.reader.current(parts)

    async def confirm(self, part: Part) -> WriteOutcome:
        """Reads back whether a write took effect."""
        return await self.reader.confirm(part)

    async def find_marker(self, part: Part, key: str) -> bool:
        """Searches for the marker of a write."""
        return await self.reader.find_marker(part, key)

    async def look_up_inverses(
        self, parts: Sequence[Part], *, is_overwritten: bool = False
    ) -> list[LookUpResult]:
        """Looks up the inverses of parts."""
        return await self.reader.look_up_inverses(parts, is_overwritten=is_overwritten)
