"""The changes of one step being applied, and the results of their parts so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.base.writing import WriteOutcome
from steward.database.runs.transitions import Lease
from steward.model.change import (
    Change,
    Outcome,
    Part,
    Recovery,
    write_key,
)
from steward.model.connection import Connection
from steward.model.ids import ChangeId, IntegrationId
from steward.model.undo import Irreversible
from steward.runs.run_context import WriteContext
from steward.runs.writes.rounds import PartToApply
from steward.runs.writes.write_responses import ResponseBudget


@dataclass(slots=True)
class ApplyingStep:
    """The changes of one step being applied, and the results of their parts so far."""

    ctx: WriteContext
    lease: Lease
    changes: Sequence[Change]
    connections: Mapping[IntegrationId, Connection]
    change_hash: str
    version: int
    done: int = 0  # changes of the step whose outcome was known before
    results: dict[str, tuple[Outcome, str | None]] = field(default_factory=dict)
    modified: dict[str, datetime | None] = field(default_factory=dict)  # before the write, by write key
    attempts: dict[str, int] = field(default_factory=dict)  # of this worker, by write key
    max_parts: int | None = None  # of a round, once one could not be read
    unavailable: int = 0  # consecutive single-object reads that failed: account unavailable
    response_budget: ResponseBudget | None = None  # None where no later step can read the responses
    _parts: dict[ChangeId, list[PartToApply]] = field(default_factory=dict)
    _unsettled: list[list[PartToApply]] | None = None

    def parts_of(self, change: Change) -> list[PartToApply]:
        """Returns the change's parts in order, with their permanent keys."""
        parts = self._parts.get(change.id)
        if parts is None:
            parts = self._parts[change.id] = [
                PartToApply(change, number, part, self._key(change, number))
                for number, part in enumerate(change.proposal.parts, start=1)
            ]
        return parts

    def _key(self, change: Change, number: int) -> str:
        return write_key(
            self.lease.run,
            change.name,
            change.iteration,
            position=change.position,
            part=number,
            version=self.version,
        )

    def unsettled(self) -> list[list[PartToApply]]:
        """Returns the parts of every change that has an unsettled part, in order."""
        if self._unsettled is None:
            self._unsettled = [self.parts_of(change) for change in self.changes]
        self._unsettled = [
            parts for parts in self._unsettled if any(pending.key not in self.results for pending in parts)
        ]
        return self._unsettled

    def next_of(self, integration: IntegrationId) -> list[PartToApply]:
        """Returns the next part of each unsettled change whose next part uses the connection."""
        following = [
            next(pending for pending in parts if pending.key not in self.results)
            for parts in self.unsettled()
        ]
        return [pending for pending in following if pending.part.integration_id == integration]

    def report_progress(self) -> None:
        """Updates how many of the step's changes the run's `current_step` shows as done."""
        progress = self.ctx.progress.get(self.lease.run)
        if progress is not None:
            total = self.done + len(self.changes)
            done = total - len(self.unsettled())
            self.ctx.progress[self.lease.run] = replace(progress, done=done, total=total)

    def admit_responses(self, outcomes: Sequence[WriteOutcome]) -> list[WriteOutcome]:
        """Returns the outcomes with only those responses that are stored for later steps."""
        budget = self.response_budget
        return [
            replace(outcome, response=None if budget is None else budget.admit(outcome))
            for outcome in outcomes
        ]

    def operation(self, part: Part) -> AnyWriteOperation:
        """Returns the connector's definition of the part's operation."""
        kind = self.connections[part.integration_id].kind
        return self.ctx.access.changes(kind)[part.operation]

    def is_order_free(self, part: Part) -> bool:
        """Returns whether the part sets a reversible value of a store's object, so that any order will do.

        Messages, rows of a sheet and what cannot be undone are sent in order.
        """
        operation = self.operation(part)
        is_blind = operation.recovery_of(part) is Recovery.AT_MOST_ONCE
        if is_blind or not self.connections[part.integration_id].is_store:
            return False
        return not isinstance(operation.inverse(part), Irreversible)
