"""A held execution as the journal stores it until it is decided and applied."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from steward.model.change import Outcome
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import PlanStep
from steward.model.run import Counts
from steward.steps.base import MemoryWrite, StepResult
from steward.steps.workflow.output_after_changes import ChangeResult, OutputAfterChanges

DONE_OUTCOMES = (Outcome.APPLIED, Outcome.UNCHANGED)


@dataclass(frozen=True, slots=True)
class HeldStep:
    """A held execution as it is stored until it is decided and applied."""

    output: JsonValue
    title: str
    message: str | None
    memory: tuple[MemoryWrite, ...]
    counts: Counts
    item_of: tuple[int, ...] | None = None  # a workflow's step: the item that each proposal belongs to

    @classmethod
    def of(cls, step: PlanStep, produced: StepResult, counts: Counts) -> "HeldStep":
        """Returns the data to store for an execution with this result."""
        title = produced.title or step.title
        return cls(produced.output, title, produced.message, produced.memory, counts, produced.item_of)

    def to_json(self) -> JsonObject:
        """Returns the journal's form."""
        return {
            "output": self.output,
            "title": self.title,
            "message": self.message,
            "memory": [write.to_json() for write in self.memory],
            "counts": self.counts.wire(),
            **({} if self.item_of is None else {"item_of": list(self.item_of)}),
        }

    @classmethod
    def from_json(cls, stored: JsonValue) -> "HeldStep":
        """Reads the journal's form."""
        assert isinstance(stored, dict)
        return cls(
            output=stored["output"],
            title=stored["title"],
            message=stored["message"],
            memory=tuple(MemoryWrite.from_json(write) for write in stored["memory"]),
            counts=Counts(**stored["counts"]),
            item_of=tuple(stored["item_of"]) if "item_of" in stored else None,
        )

    def output_after(self, outcomes: Mapping[int, Outcome]) -> JsonValue:
        """Returns the output after the changes; a workflow's lacks the items whose change was not made."""
        if self.item_of is None or not isinstance(self.output, dict):
            return self.output
        dropped_items = {
            item for index, item in enumerate(self.item_of) if outcomes.get(index) not in DONE_OUTCOMES
        }
        first, *other_items = self.output["out"]
        remaining_items = [item for index, item in enumerate(first) if index not in dropped_items]
        return {**self.output, "out": [remaining_items, *other_items]}


# Returns the output of a workflow's step once its changes are done; None leaves the planned output.
ComputeOutput = Callable[[HeldStep, Sequence[ChangeResult]], OutputAfterChanges | None]
