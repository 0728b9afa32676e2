"""Tests that the dashboard uses existing metrics and labels, and shows every metric that is not left out."""

import json
import re
from collections.abc import Iterator

from steward.telemetry.metric_list import DESCRIPTIONS
from tests.source import ROOT

BOARD = json.loads((ROOT / "deploy/grafana/steward.json").read_text("utf-8"))
GUIDE = (ROOT / "docs/guides/operators.md").read_text("utf-8")
# Metrics that an operator reads in the log or in the web app instead.
LEFT_OUT = {
    "steward_audit_round_seconds",
    "steward_commit_batches_split_total",
    "steward_commits_unknown_total",
    "steward_database_connect_seconds",
    "steward_database_host",
    "steward_database_lost_total",
    "steward_dead_rows",
    "steward_events_not_run_total",
    "steward_message_delay_seconds",
    "steward_notices_total",
    "steward_oldest_transaction_seconds",
    "steward_release",
    "steward_rest_rows",
    "steward_routes_broken",
    "steward_spans_dropped_total",
    "steward_standby_clock_skew_seconds",
    "steward_standbys",
    "steward_transaction_age",
    "steward_undo_changes_total",
    "steward_undo_runs_total",
}
# The labels of the scrape and of histograms.
OF_PROMETHEUS = {"instance", "job", "le"}


def expressions() -> Iterator[str]:
    """Yields the queries of all panels."""
    for panel in BOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def metrics(expression: str) -> set[str]:
    """Returns the metrics of a query, histograms by their own name."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"steward_[a-z_]+", expression)}


def labels_of(metric: str) -> set[str]:
    """Returns the labels that the operators' guide gives a metric."""
    row = re.search(rf"^\| `{metric}`((?: by|,) [^|]*)?", GUIDE, re.M)
    return set(re.findall(r"`([a-z_]+)`", row[1] or "")) if row else set()


def test_metrics_and_labels_of_the_dashboard_exist() -> None:
    """Fails for a panel of a metric or label that does not exist, which would silently be empty."""
    displayed = set().union(*map(metrics, expressions()))
    assert displayed <= set(DESCRIPTIONS)
    assert set(DESCRIPTIONS) - displayed == LEFT_OUT
    for expression in expressions():
        used = {name.strip() for by in re.findall(r"by \(([^)]+)\)", expression) for name in by.split(",")}
        used |= set(re.findall(r"[{,]\s*([a-z_]+)(?:=~|=)", expression))
        union = OF_PROMETHEUS.union(*map(labels_of, metrics(expression)))
        assert used <= union, expression
        assert 'job=~"$job"' in expression


def test_the_dashboard_has_five_rows_and_one_variable() -> None:
    """Has the rows promises, runs, API, database and processes; panels have different ids and places."""
    assert [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"] == [
        *("Promises", "Runs", "API", "Database", "Processes")
    ]
    assert [entry["name"] for entry in BOARD["templating"]["list"] if entry["type"] == "query"] == ["job"]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in BOARD["panels"]}
    assert len(places) == len(BOARD["panels"])
