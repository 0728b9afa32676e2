"""The base of the write operations of all stores.

They set absolute values and are planned one command after the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from steward.connectors.base.connector import (
    AnyWriteOperation,
    CurrentValue,
    Guard,
    ItemProblem,
    PlannedChanges,
)
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import Action, Part, Proposal, Recovery
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.outbound.errors import RemoteNotFound

A = TypeVar("A", contravariant=True)


@dataclass(frozen=True, slots=True)
class StoreOperation(Generic[A]):
    """An operation that is read back after an interruption, unless a subclass overrides this."""

    name: str
    action: Action = Action.UPDATE
    recovery: Recovery = Recovery.READABLE
    guard: Guard = Guard.REREAD

    def plan(self, commands: Sequence[A], *, integration_id: IntegrationId) -> PlannedChanges:
        """Returns changes, problems and unchanged objects, in the order of the commands."""
        proposals: list[Proposal] = []
        problems: list[ItemProblem] = []
        unchanged: list[str] = []
        for command in commands:
            match self._plan_one(command, integration_id):
                case Proposal() as proposal:
                    proposals.append(proposal)
                case ItemProblem() as problem:
                    problems.append(problem)
                case str() as item:
                    unchanged.append(item)
        return PlannedChanges(tuple(proposals), tuple(problems), tuple(unchanged))

    def recovery_of(self, part: Part) -> Recovery:
        """Returns the class of the operation, which is the same for every part."""
        return self.recovery

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the value after; everything can be predicted."""
        return dict(arguments), ()

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Groups each object into a separate request."""
        return [(part,) for part in parts]

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares the operation's values for equality."""
        return expected == actual

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by operation and object."""
        return {f"{self.name}|{part.target}": value}

    def _plan_one(self, command: A, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        """Returns the change of one command, why it is impossible, or the id of an unchanged object."""
        raise TypeError(f"{self.name} plans its asks itself")


def read_back(operation: AnyWriteOperation, now: CurrentValue) -> WriteOutcome:
    """Reconciles an interrupted write by the part's current value: applied, not sent, or conflict."""
    if now.is_gone:
        return WriteOutcome.of_error(WriteState.CONFLICT, RemoteNotFound())
    if operation.same(now.part.after, now.value):
        return WriteOutcome(WriteState.APPLIED, seen=now.value)
    if operation.same(now.part.before, now.value):
        return WriteOutcome(WriteState.NOT_SENT, seen=now.value)
    return WriteOutcome(WriteState.CONFLICT, seen=now.value, reason="It has another value now.")
