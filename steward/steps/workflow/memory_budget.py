"""How much data the steps of one run may hold in memory; counted as JSON, before anything is written out.

A value that stands in many places counts in each of them: that is what keeping it or sending it would take.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from steward.steps.workflow.items import Outputs
from steward.steps.workflow.javascript.values import SCALARS

MIB: Final = 1024 * 1024
STEP_BYTES: Final = 8 * MIB  # what one execution may give (engine 3.5)
RUN_BYTES: Final = 64 * MIB  # what all executions of a run, those of called workflows among them, may hold
_SCALAR_BYTES = 8
_MAX_DEPTH = 500


class MemoryBudgetExceeded(Exception):
    """More data than steps may hold: no failure of the step that could be tolerated, but the run's end."""


def json_size(value: object, sizes: dict[int, int] | None = None) -> int:
    """About how many bytes the value takes as JSON; what is shared is looked at once and counted each time.

    Raises TooMuch for what is nested deeper than it could be written.
    """
    return _size(value, {} if sizes is None else sizes, 0)


def _size(value: Any, sizes: dict[int, int], depth: int) -> int:
    kind = type(value)
    if kind is str:
        return len(value) + 3 if value.isascii() else 3 * len(value)
    if kind in SCALARS:
        return _SCALAR_BYTES
    if kind is dict or isinstance(value, Mapping):
        return _object_size(value, sizes, depth)
    if kind is list or kind is tuple:
        return _list_size(value, sizes, depth)
    return len(value) if kind is bytes else _SCALAR_BYTES


def _object_size(value: Mapping[str, Any], sizes: dict[int, int], depth: int) -> int:
    total = sizes.get(id(value))
    if total is None:
        if depth > _MAX_DEPTH:
            raise MemoryBudgetExceeded
        total = 2
        for name, member in value.items():
            total += len(name) + 4 + _size(member, sizes, depth + 1)
        sizes[id(value)] = total
    return total


def _list_size(value: Sequence[Any], sizes: dict[int, int], depth: int) -> int:
    total = sizes.get(id(value))
    if total is None:
        if depth > _MAX_DEPTH:
            raise MemoryBudgetExceeded
        total = 2
        for element in value:
            total += 1 + _size(element, sizes, depth + 1)
        sizes[id(value)] = total
    return total


@dataclass(slots=True)
class StepBudget:
    """What one run of a step has gathered so far, so that it ends before memory does."""

    remaining: int = STEP_BYTES

    def add(self, *values: object) -> None:
        """So much more. Raises TooMuch."""
        sizes: dict[int, int] = {}
        self.remaining -= sum(json_size(value, sizes) for value in values)
        if self.remaining < 0:
            raise MemoryBudgetExceeded


@dataclass(slots=True)
class MemoryBudget:
    """What is left of what a walk may hold; a called workflow's part is given back when it has ended."""

    remaining: int = RUN_BYTES
    _step: int = field(default=STEP_BYTES)

    def reserve(self, outputs: Outputs | None) -> None:
        """One execution's outputs are held from now on. Raises TooMuch."""
        sizes: dict[int, int] = {}
        size = sum(json_size(item.json, sizes) + 16 for items in outputs or () for item in items)
        self.remaining -= size
        if size > self._step or self.remaining < 0:
            raise MemoryBudgetExceeded

    def for_sub_workflow(self) -> "MemoryBudget":
        """What a called workflow may take of it."""
        return MemoryBudget(self.remaining, self._step)
