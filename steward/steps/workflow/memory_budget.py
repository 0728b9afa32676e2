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
WALK_BYTES: Final = 64 * MIB  # what all executions of a run, those of called workflows among them, may hold
_NUMBER = 8
_DEEPEST = 500


class TooMuch(Exception):
    """More data than steps may hold: no failure of the step that could be tolerated, but the run's end."""


def weight(value: object, known: dict[int, int] | None = None) -> int:
    """About how many bytes the value takes as JSON; what is shared is looked at once and counted each time.

    Raises TooMuch for what is nested deeper than it could be written.
    """
    return _weight(value, {} if known is None else known, 0)


def _weight(value: Any, known: dict[int, int], depth: int) -> int:
    kind = type(value)
    if kind is str:
        return len(value) + 3 if value.isascii() else 3 * len(value)
    if kind in SCALARS:
        return _NUMBER
    if kind is dict or isinstance(value, Mapping):
        return _of_object(value, known, depth)
    if kind is list or kind is tuple:
        return _of_list(value, known, depth)
    return len(value) if kind is bytes else _NUMBER


def _of_object(value: Mapping[str, Any], known: dict[int, int], depth: int) -> int:
    total = known.get(id(value))
    if total is None:
        if depth > _DEEPEST:
            raise TooMuch
        total = 2
        for name, one in value.items():
            total += len(name) + 4 + _weight(one, known, depth + 1)
        known[id(value)] = total
    return total


def _of_list(value: Sequence[Any], known: dict[int, int], depth: int) -> int:
    total = known.get(id(value))
    if total is None:
        if depth > _DEEPEST:
            raise TooMuch
        total = 2
        for one in value:
            total += 1 + _weight(one, known, depth + 1)
        known[id(value)] = total
    return total


@dataclass(slots=True)
class Gathered:
    """What one run of a step has gathered so far, so that it ends before memory does."""

    left: int = STEP_BYTES

    def add(self, *values: object) -> None:
        """So much more. Raises TooMuch."""
        known: dict[int, int] = {}
        self.left -= sum(weight(value, known) for value in values)
        if self.left < 0:
            raise TooMuch


@dataclass(slots=True)
class Room:
    """What is left of what a walk may hold; a called workflow's part is given back when it has ended."""

    left: int = WALK_BYTES
    _step: int = field(default=STEP_BYTES)

    def take(self, outputs: Outputs | None) -> None:
        """One execution's outputs are held from now on. Raises TooMuch."""
        known: dict[int, int] = {}
        taken = sum(weight(item.json, known) + 16 for items in outputs or () for item in items)
        self.left -= taken
        if taken > self._step or self.left < 0:
            raise TooMuch

    def within(self) -> "Room":
        """What a called workflow may take of it."""
        return Room(self.left, self._step)
