"""The operation that sends without reading back, and the reader of a connection that only sends."""

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
    """Returns the fields an approver reads from rows of name, label and text; empty texts are left out."""
    return [
        FieldChange(name, label, None, text[:_FIELD_CHARACTERS], FieldKind.TEXT)
        for name, label, text in rows
        if text
    ]


class SendOnceOperation:
    """A send whose result cannot be read back: it is made at most once, and only a person may repeat it."""

    action: ClassVar[Action] = Action.SEND
    recovery: ClassVar[Recovery] = Recovery.AT_MOST_ONCE
    guard: ClassVar[Guard] = Guard.REREAD

    def recovery_of(self, part: Part) -> Recovery:
        """Returns `at_most_once` for every part."""
        return self.recovery

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Predicts nothing: the answer is unknown."""
        return {}, ("",)

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Makes each send in a call of its own."""
        return [(part,) for part in parts]

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Returns false: nothing can be read back."""
        return False

    def inverse(self, part: Part) -> Inverse:
        """Returns that a message cannot be taken back."""
        return NO_MESSAGE_BACK

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by operation and recipient."""
        return {f"{part.operation}|{part.target}": value}


class SendOnceReader:
    """The part of a reader that looks up writes, for a connection where none can be looked up."""

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Returns no values: what is sent has none before."""
        return [CurrentValue(part, None) for part in parts]

    async def confirm(self, part: Part) -> WriteOutcome:
        """Returns unknown: only a person may send it again."""
        return WriteOutcome(WriteState.UNKNOWN, reason="It cannot be told whether this was sent.")

    async def find_marker(self, part: Part, key: str) -> bool:
        """Returns false: what was sent cannot be searched."""
        return False

    async def look_up_inverses(
        self, parts: Sequence[Part], *, is_overwritten: bool = False
    ) -> list[LookUpResult]:
        """Returns, for each part, that it has no inverse to look up."""
        return [NOT_LOOKED_UP for _ in parts]
