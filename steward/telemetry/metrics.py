"""Counters, gauges and histograms by name, and their Prometheus text; leaves serving it to app.py."""

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TypeVar

from steward.telemetry.known import KNOWN

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VALUE = re.compile(r"[a-zA-Z0-9_.:/ -]{0,60}")
_SERIES = 1_000

T = TypeVar("T")
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """The numbers of one process. Labels are words of the code (a connector, an outcome), never input."""

    def __init__(self) -> None:
        # The metrics port is read by a thread of its own.
        self._turn = threading.Lock()
        self._counters: dict[str, dict[Labels, float]] = {}
        self._gauges: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, list[float]]] = {}
        self._bounds: dict[str, tuple[float, ...]] = {}
        self._fills: list[Callable[[], None]] = []

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Adds to a counter."""
        key = _labels(labels)
        with self._turn:
            series = _series(self._counters, name, key)
            series[key] = series.get(key, 0) + by

    def set(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge."""
        key = _labels(labels)
        with self._turn:
            _series(self._gauges, name, key)[key] = value

    def observe(self, name: str, value: float, *, bounds: Sequence[float] = SECONDS, **labels: str) -> None:
        """Enters a value into a histogram; its bounds are those of its first value."""
        key = _labels(labels)
        with self._turn:
            series = _series(self._histograms, name, key)
            edges = self._bounds.setdefault(name, tuple(bounds))
            # The last two places hold the sum and the number of values.
            row = series.setdefault(key, [0.0] * (len(edges) + 3))
            row[bisect_left(edges, value)] += 1
            row[-2] += value
            row[-1] += 1

    def total(self, name: str, value: float, **labels: str) -> None:
        """Sets a counter to what somebody has counted by themselves."""
        key = _labels(labels)
        with self._turn:
            _series(self._counters, name, key)[key] = value

    def recorder(self, name: str, bounds: Sequence[float] = SECONDS) -> Callable[[float], None]:
        """`observe` of one histogram without labels, for what happens with every request; of one thread."""
        edges = self._bounds.setdefault(name, tuple(bounds))
        row = _series(self._histograms, name, ()).setdefault((), [0.0] * (len(edges) + 3))

        def record(value: float) -> None:
            row[bisect_left(edges, value)] += 1
            row[-2] += value
            row[-1] += 1

        return record

    def before_showing(self, fill: Callable[[], None]) -> None:
        """Calls `fill` whenever the text is made, for counts kept elsewhere."""
        self._fills.append(fill)

    def value(self, name: str, **labels: str) -> float:
        """A counter's or gauge's value, or how many values a histogram holds; 0 when it has none."""
        key = _labels(labels)
        with self._turn:
            for kind in (self._counters, self._gauges):
                if name in kind:
                    return kind[name].get(key, 0)
            row = self._histograms.get(name, {}).get(key)
            return row[-1] if row else 0

    def text(self) -> str:
        """Everything in the Prometheus text form."""
        for fill in self._fills:
            fill()
        lines: list[str] = []
        with self._turn:
            for kind, table in (("counter", self._counters), ("gauge", self._gauges)):
                for name, series in sorted(table.items()):
                    lines += _help(name)
                    lines.append(f"# TYPE {name} {kind}")
                    lines += [f"{name}{_label_text(key)} {value:g}" for key, value in sorted(series.items())]
            for name, rows in sorted(self._histograms.items()):
                lines += _help(name)
                lines.append(f"# TYPE {name} histogram")
                for key, row in sorted(rows.items()):
                    lines += self._histogram(name, key, row)
        return "\n".join([*lines, ""])

    def _histogram(self, name: str, key: Labels, row: list[float]) -> list[str]:
        edges = [*(f"{edge:g}" for edge in self._bounds[name]), "+Inf"]
        sums = accumulate(row[:-2])
        buckets = [
            f"{name}_bucket{_label_text((*key, ('le', edge)))} {value:g}"
            for edge, value in zip(edges, sums, strict=True)
        ]
        return [
            *buckets,
            f"{name}_sum{_label_text(key)} {row[-2]:g}",
            f"{name}_count{_label_text(key)} {row[-1]:g}",
        ]


def _help(name: str) -> list[str]:
    return [f"# HELP {name} {KNOWN[name]}"] if name in KNOWN else []


def _series(table: dict[str, dict[Labels, T]], name: str, labels: Labels) -> dict[Labels, T]:
    series = table.get(name)
    if series is None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a metric")
        series = table[name] = {}
    if len(series) >= _SERIES and labels not in series:
        raise ValueError(f"{name} has {_SERIES} series already: its labels are input")
    return series


def _labels(labels: dict[str, str]) -> Labels:
    return _sorted(tuple(labels.items())) if labels else ()


@lru_cache(maxsize=_SERIES)
def _sorted(labels: Labels) -> Labels:
    for name, value in labels:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a label")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the label {name} does not take such text")
    return tuple(sorted(labels))


def _label_text(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""
