"""Shared code of steps that read or change external systems."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from steward.connectors.base.connector import AnyWriteOperation, PlannedChanges
from steward.connectors.base.queries import RecordPage
from steward.model.change import Proposal
from steward.model.json import AnyJson, JsonObject
from steward.model.plan import OnError
from steward.model.run import Counts, Mode
from steward.outbound.errors import CallError
from steward.outbound.web import WebReadClient
from steward.steps.base import AccountAccess, StepContext, StoreAccess
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.memory_budget import RUN_BYTES, StepBudget
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeResult,
    ResponseUse,
    StepCall,
    WorkflowStepFailed,
    error_item,
    paired_with,
)

I = TypeVar("I")  # noqa: E741


def _context_of(call: StepCall) -> StepContext:
    """Returns the context of the run. Raises WorkflowStepFailed if there is none."""
    if call.environment.context is None:
        raise WorkflowStepFailed("This step reaches outside, which is not possible here.")
    return call.environment.context


def store_of(call: StepCall) -> StoreAccess:
    """Returns the automation's store. Raises WorkflowStepFailed without one."""
    store = _context_of(call).store
    if store is None:
        raise WorkflowStepFailed("This automation runs on no store. Choose one.")
    return store


def account_of(call: StepCall) -> AccountAccess:
    """Returns the connection bound to the step. Raises WorkflowStepFailed without one."""
    binding = call.environment.binding(call.step.name)
    number = binding.get("integration_id") if binding is not None else None
    for integration, access in _context_of(call).accounts.items():
        if integration == number:
            return access
    raise WorkflowStepFailed("This step is bound to no connection that can be used. Bind one.")


def web_of(call: StepCall) -> WebReadClient:
    """Returns the client for addresses outside any connection. Raises WorkflowStepFailed."""
    web = _context_of(call).web
    if web is None:
        raise WorkflowStepFailed("This step reaches outside, which is not possible here.")
    return web


async def read_items(call: StepCall, read: Callable[[int, Item], Awaitable[Iterable[Item]]]) -> NodeResult:
    """Reads items for each item, handles failures like `convert_each_item`, and counts the items read."""
    result = await convert_each_item(call, read)
    return replace(result, counts=Counts(read=len(result.outputs[0])))


async def read_each_item(
    call: StepCall, read: Callable[[int], Awaitable[Sequence[dict[str, AnyJson]]]]
) -> NodeResult:
    """Reads objects for each item, handles failures like `convert_each_item`, and counts the objects."""

    async def read_objects(index: int, _: Item) -> list[Item]:
        return [Item(fields, paired_with(index)) for fields in await read(index)]

    return await read_items(call, read_objects)


async def read_all(pages: AsyncIterator[RecordPage[I]], limit: int | None = None) -> list[I]:
    """Reads all pages, or the first `limit` records. Raises ItemFailed, MemoryBudgetExceeded, CallError."""
    records: list[I] = []
    budget = StepBudget()
    try:
        async for page in pages:
            records += page.items
            budget.add(*page.items)
            if limit is not None and len(records) >= limit:
                return records[:limit]
    except CallError as error:
        raise as_item_failure(error) from error
    return records


def as_item_failure(error: CallError) -> Exception:
    """Converts the error of a call to an ItemFailed; returns an error to retry later unchanged."""
    return error if error.wait_s is not None else ItemFailed(error.message)


@dataclass(slots=True)
class ItemProposals:
    """Collects proposals item by item, together with the output items that hold once they are applied.

    `failure_of` builds the failure of an item from its message.
    """

    call: StepCall
    failure_of: Callable[[str], ItemFailed] = ItemFailed
    items: Items = field(default_factory=list)
    failed: Items = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    item_of: list[int] = field(default_factory=list)
    response_uses: dict[int, ResponseUse] = field(default_factory=dict)
    unchanged: int = 0
    proposed: StepBudget = field(default_factory=lambda: StepBudget(RUN_BYTES))

    def fail_item(self, index: int, message: str) -> None:
        """Handles a failed item by the step's `on_error`. Raises ItemFailed if it stops the step."""
        failure = self.failure_of(message)
        if self.call.on_error is OnError.STOP:
            raise failure
        if self.call.on_error is OnError.PASS_INPUT:
            self.items.append(Item({"error": failure.error}, ((index, 0),), message))
        else:
            self.failed.append(error_item(self.call.items[index], index, message, failure.error))

    def add_plan(
        self,
        index: int,
        planned: PlannedChanges,
        item: Item,
        operation: AnyWriteOperation | None = None,
        response_settings: JsonObject | None = None,
    ) -> None:
        """Adds the planned changes of one item, or its failure. Raises MemoryBudgetExceeded.

        `operation` predicts the result in a test run; if the prediction is incomplete, the item is partial.
        With `response_settings`, the step type's `items_of_response` derives the item from the response.
        """
        self.proposed.add(*(part.arguments for proposal_ in planned.proposals for part in proposal_.parts))
        if planned.problems:
            self.fail_item(index, " ".join(problem.message for problem in planned.problems))
            return
        self.items.append(replace(item, partial=self._is_unknown(planned, operation)))
        if response_settings is not None and self.call.step.origin is not None:
            use = ResponseUse(self.call.step.origin.source_type, response_settings)
            self.response_uses[len(self.items) - 1] = use
        if not planned.proposals:
            self.unchanged += 1
        for proposal in planned.proposals:
            self.proposals.append(proposal)
            self.item_of.append(len(self.items) - 1)

    def _is_unknown(self, planned: PlannedChanges, operation: AnyWriteOperation | None) -> bool:
        if operation is None or self.call.environment.mode is not Mode.TEST:
            return False
        parts = [part for proposal in planned.proposals for part in proposal.parts]
        return any(operation.predict(part.before, part.arguments)[1] for part in parts)

    def result(self, *, read: int = 0) -> NodeResult:
        """Returns the step's result."""
        has_error_output = self.call.on_error is OnError.ERROR_OUTPUT
        return NodeResult(
            outputs=[self.items, self.failed] if has_error_output else [self.items],
            counts=Counts(read=read, matched=len(self.proposals), unchanged=self.unchanged),
            proposals=tuple(self.proposals),
            item_of=tuple(self.item_of),
            response_uses=self.response_uses,
        )
