"""Counters, gauges and histograms of one process by name, kept by prometheus_client."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector

from steward.telemetry.metric_list import DESCRIPTIONS

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VALUE = re.compile(r"[a-zA-Z0-9_.:/ -]{0,60}")
_MAX_SERIES = 1_000

M = TypeVar("M", Counter, Gauge, Histogram)
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of one process, including those of the process itself (CPU, memory, descriptors).

    Label values are words of the code (a connector, an outcome), never input: other text, and more than
    1,000 series of a name, raise ValueError.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        # The series of each name by their labels: the library's own lookup costs as much as counting.
        self._series: dict[str, dict[tuple[tuple[str, str], ...], Any]] = {}

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Adds to a counter."""
        counter = self._counters.get(name)
        if counter is None:
            counter = self._counters[name] = Counter(*_described(name, labels), registry=self._registry)
        self._child(counter, name, labels).inc(by)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge."""
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = self._gauges[name] = Gauge(*_described(name, labels), registry=self._registry)
        self._child(gauge, name, labels).set(value)

    def remove(self, name: str, **labels: str) -> None:
        """Removes a series of a gauge whose value is no longer known."""
        if self._series.get(name, {}).pop(tuple(labels.items()), None) is not None:
            self._gauges[name].remove(*labels.values())

    def observe(self, name: str, value: float, *, bounds: Sequence[float] = SECONDS, **labels: str) -> None:
        """Adds a value to a histogram; the first value's `bounds` apply to all."""
        self._child(self._histogram(name, bounds, labels), name, labels).observe(value)

    def recorder(self, name: str, bounds: Sequence[float] = SECONDS) -> Callable[[float], None]:
        """Returns `observe` bound to one histogram, for frequent events such as requests."""
        observe: Callable[[float], None] = self._histogram(name, bounds, {}).observe
        return observe

    def add_counter(self, name: str, counts: Mapping[tuple[int, str], int], **places: int) -> None:
        """Exports counts that are kept elsewhere and read at each scrape.

        `places` maps each label to the position of its value in the keys of `counts`.
        """
        self._registry.register(_Counts(name, counts, places))

    def value(self, name: str, **labels: str) -> float:
        """Returns a counter's or gauge's value, or how many values a histogram holds; 0 without any."""
        if name in self._histograms:
            name = f"{name}_count"
        return self._registry.get_sample_value(name, labels) or 0

    def last(self, name: str, **labels: str) -> float | None:
        """Returns a gauge's value; None before it is set and after it is removed."""
        return self._registry.get_sample_value(name, labels)

    def text(self) -> str:
        """Returns every metric in the Prometheus text format."""
        return generate_latest(self._registry).decode("utf-8")

    def _histogram(self, name: str, bounds: Sequence[float], labels: Mapping[str, str]) -> Histogram:
        histogram = self._histograms.get(name)
        if histogram is None:
            described = _described(name, labels)
            histogram = Histogram(*described, buckets=tuple(bounds), registry=self._registry)
            self._histograms[name] = histogram
        return histogram

    def _child(self, metric: M, name: str, labels: Mapping[str, str]) -> M:
        if not labels:
            return metric
        series_by_labels = self._series.setdefault(name, {})
        key = tuple(labels.items())
        series: M | None = series_by_labels.get(key)
        if series is None:
            if len(series_by_labels) >= _MAX_SERIES:
                raise ValueError(f"{name} has {_MAX_SERIES} series already: its labels are input")
            _check_labels(key)
            series = series_by_labels[key] = metric.labels(**labels)
        return series


class _Counts:
    """Collects a counter from a mapping."""

    def __init__(self, name: str, counts: Mapping[tuple[int, str], int], places: Mapping[str, int]) -> None:
        self._name, self._counts, self._places = name, counts, places

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yields the counter with its current values."""
        name, description, labels = _described(self._name, dict.fromkeys(self._places, ""))
        family = CounterMetricFamily(name, description, labels=labels)
        for key, count in sorted(self._counts.items()):
            family.add_metric([str(key[position]) for position in self._places.values()], count)
        yield family


def _described(name: str, labels: Mapping[str, str]) -> tuple[str, str, tuple[str, ...]]:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of a metric")
    return name, DESCRIPTIONS.get(name, ""), tuple(labels)


@lru_cache(maxsize=_MAX_SERIES)
def _check_labels(labels: tuple[tuple[str, str], ...]) -> None:
    for name, value in labels:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name of a label")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the label {name} does not take such text")
