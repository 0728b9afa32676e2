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
class Env:
    """Where a case may work: a folder of its own, PostgreSQL when there is one, and how long to take."""

    folder: Path
    postgres: str | None
    programs: Path | None
    quick: bool

    def size(self, full: int, quick: int) -> int:
        """How much to do in one round."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class OpenCase:
    """A case made ready: one round of its own and one of its reference (None: it has none)."""

    subject: Round
    reference: Round | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a case. `minimum` and `maximum` are bars on it, `ratio` one on it over its reference;
    one bar that holds is enough, as the design puts it ("≥ 15,000 or ≥ 0.50 × R3")."""

    name: str
    unit: str
    reference: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    ratio: float | None = None
    stretch: str | None = None

    def bar(self) -> str | None:
        """The bar in words."""
        words = [f"≥ {self.minimum:g} {self.unit}"] if self.minimum is not None else []
        words += [f"≤ {self.maximum:g} {self.unit}"] if self.maximum is not None else []
        words += [f"≥ {self.ratio:g} × {self.reference}"] if self.ratio is not None else []
        return " or ".join(words) or None

    def ok(self, median: float, ratio: float | None) -> bool | None:
        """Whether a bar holds; None without one."""
        held = [median >= self.minimum] if self.minimum is not None else []
        held += [median <= self.maximum] if self.maximum is not None else []
        held += [ratio >= self.ratio] if self.ratio is not None and ratio is not None else []
        return any(held) if held else None


@dataclass(frozen=True, slots=True)
class Case:
    """A named measurement: `open` makes it ready and clears it away."""

    name: str
    figures: tuple[Figure, ...]
    open: Callable[[Env], AbstractAsyncContextManager[OpenCase]]
    needs_postgres: bool = False


async def measure(case: Case, env: Env, rounds: int) -> dict[str, dict[str, Any]]:
    """Every figure of the case by its full name; own and reference rounds take turns."""
    subject: list[Mapping[str, float]] = []
    reference: list[Mapping[str, float]] = []
    async with case.open(env) as opened:
        async for _ in _turns(rounds):
            if opened.reference is not None:
                reference.append(await opened.reference())
            subject.append(await opened.subject())
    return {f"{case.name}.{figure.name}": _summary(figure, subject, reference) for figure in case.figures}


async def _turns(rounds: int) -> AsyncIterator[int]:
    for number in range(rounds):
        yield number


def _summary(
    figure: Figure, subject: Sequence[Mapping[str, float]], reference: Sequence[Mapping[str, float]]
) -> dict[str, Any]:
    values = [figures[figure.name] for figures in subject]
    median = statistics.median(values)
    summary: dict[str, Any] = {
        "median": _short(median),
        "unit": figure.unit,
        "rounds": [_short(v) for v in values],
    }
    ratio = None
    if figure.reference is not None:
        others = [figures[figure.reference] for figures in reference if figure.reference in figures]
        if others:
            middle = statistics.median(others)
            ratio = median / middle
            summary["reference"] = {
                "name": figure.reference,
                "median": _short(middle),
                "rounds": [_short(v) for v in others],
            }
            summary["ratio"] = round(ratio, 3)
            summary["void"] = (max(others) - min(others)) / middle > VOID_SPREAD
    summary["bar"] = figure.bar()
    if figure.stretch is not None:
        summary["stretch"] = figure.stretch
    summary["ok"] = figure.ok(median, ratio)
    return summary


def _short(value: float) -> float:
    return round(value, 1) if value >= 10 else round(value, 3)
