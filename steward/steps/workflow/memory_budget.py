"""Limits the data that the steps of one run hold in memory, measured as JSON size.

A value that is referenced several times counts each time, since storing or sending it takes as much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.workflow.items import Outputs
from steward.steps.workflow.javascript.values import SCALARS

_MIB: Final = 1024 * 1024
STEP_BYTES: Final = 8 * _MIB  # for the output of one execution
RUN_BYTES: Final = 64 * _MIB  # for the outputs of all executions of a run, including sub-workflows
_SCALAR_BYTES = 8
_FILE_BYTES = 256  # for a file's reference; its content is not in memory
_MAX_DEPTH = 500


class MemoryBudgetExceeded(Exception):
    """Raised if steps hold too much data; ends the run, even if the step tolerates failures."""


def json_size(value: object, sizes: dict[int, int] | None = None) -> int:
    """Returns the approximate size of the value's JSON in bytes, where a shared part counts each time.

    `sizes` keeps the sizes of objects and lists by `id`, so that each is measured only once.

    Raises MemoryBudgetExceeded for a value too deeply nested to be written as JSON.
    """
    return _size(value, {} if sizes is None else sizes, 0)


def _size(value: AnyJson, sizes: dict[int, int], depth: int) -> int:
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


def _object_size(value: JsonObject, sizes: dict[int, int], depth: int) -> int:
    total = sizes.get(id(value))
    if total is None:
        if depth > _MAX_DEPTH:
            raise MemoryBudgetExceeded
        total = 2
        for name, member in value.items():
            total += len(name) + 4 + _size(member, sizes, depth + 1)
        sizes[id(value)] = total
    return total


def _list_size(value: Sequence[JsonValue], sizes: dict[int, int], depth: int) -> int:
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
    """The data that one run of a step may still collect."""

    remaining: int = STEP_BYTES

    def add(self, *values: object) -> None:
        """Counts the values. Raises MemoryBudgetExceeded."""
        sizes: dict[int, int] = {}
        self.remaining -= sum(json_size(value, sizes) for value in values)
        if self.remaining < 0:
            raise MemoryBudgetExceeded


@dataclass(slots=True)
class MemoryBudget:
    """The data that a run may still hold; what a sub-workflow held no longer counts once it ended."""

    remaining: int = RUN_BYTES
    _step: int = field(default=STEP_BYTES)

    def reserve(self, outputs: Outputs | None) -> None:
        """Counts the outputs of one execution. Raises MemoryBudgetExceeded."""
        sizes: dict[int, int] = {}
        size = sum(
            json_size(item.json, sizes) + 16 + _FILE_BYTES * len(item.binary)
            for items in outputs or ()
            for item in items
        )
        self.remaining -= size
        if size > self._step or self.remaining < 0:
            raise MemoryBudgetExceeded

    def for_sub_workflow(self) -> "MemoryBudget":
        """Returns a separate budget for a sub-workflow with the remaining bytes."""
        return MemoryBudget(self.remaining, self._step)
