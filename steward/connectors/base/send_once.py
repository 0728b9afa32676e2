"""An operation that sends without reading back, and a reader for connections that only send."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from steward.connectors.base.connector import CurrentValue, Guard
from steward.connectors.base.inverses import NO_MESSAGE_BACK, NOT_LOOKED_UP
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import Action, FieldChange, FieldKind, Part, Recovery
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Inverse, LookUpResult

LABEL_CHARACTERS = 200
_FIELD_CHARACTERS = 8192


def text_fields(rows: Iterable[tuple[str, str, str]]) -> list[FieldChange]:
    """Returns the fields that an approver reads from (name, label, text) rows; drops empty texts."""
    return [
        FieldChange(name, label, None, text[:_FIELD_CHARACTERS], FieldKind.TEXT)
        for name, label, text in rows
        if text
    ]


class SendOnceOperation:
    """A send whose result cannot be read back: made at most once, and only a person may repeat it."""

    action: ClassVar[Action] = Action.SEND
    recovery: ClassVar[Recovery] = Recovery.AT_MOST_ONCE
    guard: ClassVar[Guard] = Guard.REREAD

    def recovery_of(self, part: Part) -> Recovery:
        """Returns `at_most_once` for every part."""
        return self.recovery

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Predicts nothing, because the response is unknown."""
        return {}, ("",)

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Groups each send into a separate call."""
        return [(part,) for part in parts]

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Returns False: nothing can be read back."""
        return False

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: a message cannot be taken back."""
        return NO_MESSAGE_BACK

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by operation and recipient."""
        return {f"{part.operation}|{part.target}": value}


class SendOnceReader:
    """The look-ups of a reader, for a connection where nothing can be looked up."""

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Returns null values: a message does not exist before it is sent."""
        return [CurrentValue(part, None) for part in parts]

    async def confirm(self, part: Part) -> WriteOutcome:
        """Returns unknown: only a person may send the message again."""
        return WriteOutcome(WriteState.UNKNOWN, reason="It cannot be told whether this was sent.")

    async def find_marker(self, part: Part, key: str) -> bool:
        """Returns False: a sent message cannot be searched for."""
        return False

    async def look_up_inverses(
        self, parts: Sequence[Part], *, is_overwritten: bool = False
    ) -> list[LookUpResult]:
        """Returns for each part that its inverse cannot be looked up."""
        return [NOT_LOOKED_UP for _ in parts]
