"""Plans which parts of approved changes are sent next, and how many in one request; pure, no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from steward.connectors.base.connector import AnyWriteOperation
from steward.model.change import Change, Outcome, Part
from steward.model.ids import IntegrationId
from steward.runs.batch_sizes import MAX_CANDIDATES

KnownResults = Mapping[
    str, tuple[Outcome, str | None]
]  # outcome and message of each settled part, by write key
UnsentOutcome = tuple["PartToApply", Outcome, str | None]

# How many changes are considered for one round; later ones wait for the next.
_MAX_SCANNED = 500
# Requests are added to a round until they hold this many parts, which are read again together.
_ENOUGH_PARTS = 100
_SUCCEEDED = (Outcome.APPLIED, Outcome.UNCHANGED)


@dataclass(frozen=True, slots=True)
class PartToApply:
    """A part of one change, with its write key."""

    change: Change
    number: int
    part: Part
    key: str


@dataclass(frozen=True, slots=True)
class Round:
    """The next step of applying: requests of one operation and connection, and parts now blocked."""

    blocked: tuple[UnsentOutcome, ...] = ()
    requests: tuple[tuple[PartToApply, ...], ...] = ()


class Operations(Protocol):
    """The planner's interface to a part's operation."""

    def operation(self, part: Part) -> AnyWriteOperation:
        """Returns the connector's definition of the part's operation."""
        ...

    def is_order_free(self, part: Part) -> bool:
        """Returns whether the part may be sent before parts of earlier changes."""
        ...


def next_round(
    unsettled: Sequence[Sequence[PartToApply]],
    results: KnownResults,
    operations: Operations,
    *,
    max_parts: int | None = None,
) -> Round:
    """Returns the next round of `unsettled`: the parts of each change in order, changes in order.

    A part is sent after every earlier part of its change succeeded, and after all parts of earlier changes on
    the same object. Parts of one operation and connection go together; the first part that may go decides
    which. An ordered part waits for all parts before it, and all parts after it wait for it. Parts after a
    failed one are blocked with its message. `max_parts` bounds the order-free parts of a round.
    """
    blocked: list[UnsentOutcome] = []
    scan = _Scan(operations)
    for index, pending_parts in enumerate(unsettled[:_MAX_SCANNED]):
        open_ = [pending for pending in pending_parts if pending.key not in results]
        failed_part = _failed_result(pending_parts, results)
        if failed_part is not None:
            blocked += [(pending, Outcome.CONFLICT, failed_part[1]) for pending in open_]
        elif not open_:
            continue
        elif scan.is_empty and not operations.is_order_free(open_[0].part):
            return Round(tuple(blocked), _in_turn(open_[0], unsettled[index:], results, operations))
        elif not scan.take(open_):
            break
    return Round(tuple(blocked), scan.requests(max_parts))


def _failed_result(
    pending_parts: Sequence[PartToApply], results: KnownResults
) -> tuple[Outcome, str | None] | None:
    """Returns the result of the first part that did not succeed."""
    for pending in pending_parts:
        result = results.get(pending.key)
        if result is not None and result[0] not in _SUCCEEDED:
            return result
    return None


def _same_operation(part: Part, other: Part) -> bool:
    return (part.operation, part.integration_id) == (other.operation, other.integration_id)


class _Scan:
    """Collects the parts that may be sent side by side, walking the changes in order."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._candidates: list[PartToApply] = []
        self._waits_for: dict[
            tuple[IntegrationId, str], PartToApply | None
        ] = {}  # None: for parts that differ

    @property
    def is_empty(self) -> bool:
        """Whether no unsettled part has been seen."""
        return not self._waits_for

    def take(self, open_: Sequence[PartToApply]) -> bool:
        """Takes the open parts of one change; returns False when no later part may be taken."""
        for pending in open_:
            if not self._operations.is_order_free(pending.part):
                return False
            is_free = self._is_free(pending) and pending is open_[0]
            if is_free and (not self._candidates or _same_operation(self._candidates[0].part, pending.part)):
                self._candidates.append(pending)
        return len(self._candidates) < MAX_CANDIDATES

    def _is_free(self, pending: PartToApply) -> bool:
        """Returns whether no earlier part uses the part's object, except one equal to it."""
        object_key = (pending.part.integration_id, pending.part.target)
        ahead = self._waits_for.setdefault(object_key, pending)
        if ahead is pending:
            return True
        if ahead is not None and ahead.part == pending.part:
            return True
        self._waits_for[object_key] = None
        return False

    def requests(self, max_parts: int | None) -> tuple[tuple[PartToApply, ...], ...]:
        """Returns the candidates grouped as the operation allows: at most `max_parts`, or enough groups."""
        requests: list[tuple[PartToApply, ...]] = []
        count = 0
        for group in _grouped(self._candidates, self._operations):
            if count >= (_ENOUGH_PARTS if max_parts is None else max_parts):
                break
            requests.append(group if max_parts is None else group[: max_parts - count])
            count += len(requests[-1])
        return tuple(requests)


def _in_turn(
    first: PartToApply, rest: Sequence[Sequence[PartToApply]], results: KnownResults, operations: Operations
) -> tuple[tuple[PartToApply, ...], ...]:
    """Returns the first request of ordered parts: changes of one part each may share it, others go alone."""
    together = [first]
    if len(rest[0]) == 1:
        for pending_parts in rest[1:MAX_CANDIDATES]:
            if len(pending_parts) > 1 or not _same_operation(first.part, pending_parts[0].part):
                break
            together += [pending for pending in pending_parts if pending.key not in results]
    return tuple(_grouped(together, operations)[:1])


def _grouped(pending_parts: Sequence[PartToApply], operations: Operations) -> list[tuple[PartToApply, ...]]:
    if not pending_parts:
        return []
    by_part = {id(pending.part): pending for pending in pending_parts}
    groups = operations.operation(pending_parts[0].part).group([pending.part for pending in pending_parts])
    return [tuple(by_part[id(part)] for part in group) for group in groups]


def one_of_each_object(pending_parts: Sequence[PartToApply]) -> list[PartToApply]:
    """Returns the first of `pending_parts` on each object: one read holds for one write."""
    first: dict[str, PartToApply] = {}
    for pending in pending_parts:
        first.setdefault(pending.part.target, pending)
    return list(first.values())
