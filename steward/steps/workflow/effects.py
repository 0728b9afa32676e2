"""What steps that read or change something outside share.

Ccalls put into words, proposals and their items.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from steward.connectors.base.connector import ChangeOp, Planned
from steward.connectors.base.queries import Page
from steward.model.change import Proposal
from steward.model.plan import OnError
from steward.model.run import Counts, Mode
from steward.outbound.errors import CallError
from steward.outbound.web import WebReadClient
from steward.steps.base import AccountAccess, StepContext, StoreAccess
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.memory_budget import WALK_BYTES, Gathered
from steward.steps.workflow.step_types import Call, ItemFailed, Result, StepBroke, error_item, same

I = TypeVar("I")  # noqa: E741


def context_of(call: Call) -> StepContext:
    """The run around the step. Raises StepBroke where there is none."""
    if call.scene.context is None:
        raise StepBroke("This step reaches outside, which is not possible here.")
    return call.scene.context


def store_of(call: Call) -> StoreAccess:
    """The automation's store. Raises StepBroke."""
    store = context_of(call).store
    if store is None:
        raise StepBroke("This automation runs on no store. Choose one.")
    return store


def account_of(call: Call) -> AccountAccess:
    """The connection the step is bound to. Raises StepBroke."""
    binding = call.scene.binding(call.step.name)
    number = binding.get("integration_id") if binding is not None else None
    for integration, access in context_of(call).accounts.items():
        if integration == number:
            return access
    raise StepBroke("This step is bound to no connection that can be used. Bind one.")


def web_of(call: Call) -> WebReadClient:
    """Reads of addresses without a connection. Raises StepBroke where there are none."""
    web = context_of(call).web
    if web is None:
        raise StepBroke("This step reaches outside, which is not possible here.")
    return web


async def each_read(call: Call, read: Callable[[int], Awaitable[Sequence[dict[str, Any]]]]) -> Result:
    """What is read for each item; one that fails goes where the step's `on_error` says.

    Raises ItemFailed when that is nowhere, TooMuch.
    """
    out: Items = []
    failed: Items = []
    for place, item in enumerate(call.items):
        try:
            found = await read(place)
        except ItemFailed as failure:
            if call.on_error is OnError.STOP:
                raise
            if call.on_error is OnError.PASS_INPUT:
                out.append(Item({"error": failure.message}, same(place), failure.message))
            else:
                failed.append(error_item(item, place, failure.message))
            continue
        call.gathered.add(*found)
        out += [Item(one, same(place)) for one in found]
    outputs = [out, failed] if call.on_error is OnError.ERROR_OUTPUT else [out]
    return Result(outputs, counts=Counts(read=len(out)))


async def gathered(pages: AsyncIterator[Page[I]], most: int | None = None) -> list[I]:
    """All that a read gives, or the first `most`. Raises ItemFailed, TooMuch; a wait passes through."""
    found: list[I] = []
    into = Gathered()
    try:
        async for page in pages:
            found += page.items
            into.add(*page.items)
            if most is not None and len(found) >= most:
                return found[:most]
    except CallError as error:
        raise in_words(error) from error
    return found


def in_words(error: CallError) -> Exception:
    """A call's failure as the item's own; one that is to be waited for stays as it is."""
    return error if error.wait_s is not None else ItemFailed(error.message)


@dataclass(slots=True)
class Effects:
    """Proposals gathered item by item, and the items that stand when they are made true."""

    call: Call
    items: Items = field(default_factory=list)
    failed: Items = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    item_of: list[int] = field(default_factory=list)
    unchanged: int = 0
    proposed: Gathered = field(default_factory=lambda: Gathered(WALK_BYTES))

    def fails(self, place: int, message: str) -> None:
        """An item that cannot be done. Raises ItemFailed when that stops the step."""
        if self.call.on_error is OnError.STOP:
            raise ItemFailed(message)
        if self.call.on_error is OnError.PASS_INPUT:
            self.items.append(Item({"error": message}, ((place, 0),), message))
        else:
            self.failed.append(error_item(self.call.items[place], place, message))

    def planned(
        self, place: int, planned: Planned, item: Item, operation: ChangeOp[Any] | None = None
    ) -> None:
        """What one item's ask comes to: changes, nothing to change, or a fault. Raises TooMuch.

        `operation` foretells what a test run hands on: where it cannot know all of it the item is partial.
        """
        self.proposed.add(*(part.arguments for one in planned.proposals for part in one.parts))
        if planned.problems:
            self.fails(place, " ".join(problem.message for problem in planned.problems))
            return
        self.items.append(replace(item, partial=self._is_unknown(planned, operation)))
        if not planned.proposals:
            self.unchanged += 1
        for proposal in planned.proposals:
            self.proposals.append(proposal)
            self.item_of.append(len(self.items) - 1)

    def _is_unknown(self, planned: Planned, operation: ChangeOp[Any] | None) -> bool:
        if operation is None or self.call.scene.mode is not Mode.TEST:
            return False
        parts = [part for one in planned.proposals for part in one.parts]
        return any(operation.predict(part.before, part.arguments)[1] for part in parts)

    def result(self, *, read: int = 0) -> Result:
        """The step's result."""
        has_error_output = self.call.on_error is OnError.ERROR_OUTPUT
        return Result(
            outputs=[self.items, self.failed] if has_error_output else [self.items],
            counts=Counts(read=read, matched=len(self.proposals), unchanged=self.unchanged),
            proposals=tuple(self.proposals),
            item_of=tuple(self.item_of),
        )


def listed(result: Sequence[I], most: int) -> list[I]:
    """The first so many."""
    return list(result[:most])
