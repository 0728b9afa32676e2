"""What a case is, and how it is measured: its rounds alternate with those of its reference."""

import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VOID_SPREAD = 0.25

Round = Callable[[], Awaitable[Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a case may work: a folder of its own, PostgreSQL when there is one, and how long to take."""

    folder: Path
    postgres: str | None
    programs: Path | None
    quick: bool

    def size(self, whole: int, quick: int) -> int:
        """How much to do in one round."""
        return quick if self.quick else whole


@dataclass(frozen=True, slots=True)
class Opened:
    """A case made ready: one round of its own and one of its reference (None: it has none)."""

    own: Round
    reference: Round | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a case. `least` and `most` are bars on it, `ratio` one on it over its reference;
    one bar that holds is enough, as the design puts it ("≥ 15,000 or ≥ 0.50 × R3")."""

    name: str
    unit: str
    reference: str | None = None
    least: float | None = None
    most: float | None = None
    ratio: float | None = None
    stretch: str | None = None

    def bar(self) -> str | None:
        """The bar in words."""
        words = [f"≥ {self.least:g} {self.unit}"] if self.least is not None else []
        words += [f"≤ {self.most:g} {self.unit}"] if self.most is not None else []
        words += [f"≥ {self.ratio:g} × {self.reference}"] if self.ratio is not None else []
        return " or ".join(words) or None

    def ok(self, median: float, ratio: float | None) -> bool | None:
        """Whether a bar holds; None without one."""
        held = [median >= self.least] if self.least is not None else []
        held += [median <= self.most] if self.most is not None else []
        held += [ratio >= self.ratio] if self.ratio is not None and ratio is not None else []
        return any(held) if held else None


@dataclass(frozen=True, slots=True)
class Case:
    """A named measurement: `open` makes it ready and clears it away."""

    name: str
    figures: tuple[Figure, ...]
    open: Callable[[Place], AbstractAsyncContextManager[Opened]]
    needs_postgres: bool = False


async def measure(case: Case, place: Place, rounds: int) -> dict[str, dict[str, Any]]:
    """Every figure of the case by its full name; own and reference rounds take turns."""
    own: list[Mapping[str, float]] = []
    reference: list[Mapping[str, float]] = []
    async with case.open(place) as opened:
        async for _ in _turns(rounds):
            if opened.reference is not None:
                reference.append(await opened.reference())
            own.append(await opened.own())
    return {f"{case.name}.{figure.name}": _told(figure, own, reference) for figure in case.figures}


async def _turns(rounds: int) -> AsyncIterator[int]:
    for number in range(rounds):
        yield number


def _told(
    figure: Figure, own: Sequence[Mapping[str, float]], reference: Sequence[Mapping[str, float]]
) -> dict[str, Any]:
    values = [found[figure.name] for found in own]
    median = statistics.median(values)
    told: dict[str, Any] = {
        "median": _short(median),
        "unit": figure.unit,
        "rounds": [_short(v) for v in values],
    }
    ratio = None
    if figure.reference is not None:
        others = [found[figure.reference] for found in reference if figure.reference in found]
        if others:
            middle = statistics.median(others)
            ratio = median / middle
            told["reference"] = {
                "name": figure.reference,
                "median": _short(middle),
                "rounds": [_short(v) for v in others],
            }
            told["ratio"] = round(ratio, 3)
            told["void"] = (max(others) - min(others)) / middle > VOID_SPREAD
    told["bar"] = figure.bar()
    if figure.stretch is not None:
        told["stretch"] = figure.stretch
    told["ok"] = figure.ok(median, ratio)
    return told


def _short(value: float) -> float:
    return round(value, 1) if value >= 10 else round(value, 3)
