"""The alert rules: sound, firing when they must and only then, by the metrics that the service has."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from steward.telemetry.known import DESCRIPTIONS
from tests.documents import anchors
from tests.source import ROOT

RULES = ROOT / "deploy/prometheus/steward.rules.yml"
PROMTOOL = shutil.which("promtool") or str(ROOT / ".cache/promtool/promtool")
promtool_is_here = pytest.mark.skipif(
    not Path(PROMTOOL).exists(), reason="SKIPPED LOUDLY: promtool is not here; run make promtool"
)
JOB = 'job="steward",instance="a"'
# Of each alert: series that make it fire, series that do not, and the hours until the end of both.
CASES: dict[str, tuple[dict[str, str], dict[str, str], float]] = {
    "StewardSlotMissing": (
        {"steward_slots_missing_total": "0x10 1x5"},
        {"steward_slots_missing_total": "4x15"},
        0.25,
    ),
    "StewardSlotUnexpected": (
        {"steward_slots_unexpected_total": "0x10 1x5"},
        {"steward_slots_unexpected_total": "4x15"},
        0.25,
    ),
    "StewardUnknownWrites": (
        {'steward_effects_open{state="unknown"}': "1x70"},
        {
            'steward_effects_open{state="unknown"}': "1x50 0x20",
            'steward_effects_open{state="intent"}': "9x70",
        },
        1.1,
    ),
    "StewardBehind": (
        {"steward_schedule_behind_seconds": "61x10"},
        {"steward_schedule_behind_seconds": "60x10"},
        0.1,
    ),
    "StewardNoWorker": (
        {'steward_workers{lease="held"}': "0x10", 'steward_workers{lease="expired"}': "1x10"},
        {'steward_workers{lease="held"}': "1x10"},
        0.1,
    ),
    "StewardNotReady": ({"steward_ready": "0x10"}, {"steward_ready": "1x10"}, 0.1),
    "StewardUnavailable": (
        {'steward_requests_total{status="503"}': "0+2x20", 'steward_requests_total{status="200"}': "0+98x20"},
        {
            'steward_requests_total{status="503"}': "0+1x20",
            'steward_requests_total{status="200"}': "0+99x20",
        },
        0.25,
    ),
    "StewardDefects": (
        {'steward_requests_total{status="500"}': "0x10 1x5"},
        {
            'steward_requests_total{status="503"}': "0+1x15",
            'steward_requests_total{status="404"}': "0+500x15",
        },
        0.25,
    ),
    "StewardQueueOld": (
        {'steward_queue_oldest_seconds{state="ready"}': "61x10"},
        {
            'steward_queue_oldest_seconds{state="ready"}': "60x10",
            'steward_queue_oldest_seconds{state="parked"}': "9000x10",
        },
        0.15,
    ),
    "StewardApprovalsOld": (
        {'steward_queue_oldest_seconds{state="parked"}': "172801x10"},
        {'steward_queue_oldest_seconds{state="parked"}': "172800x10"},
        0.1,
    ),
    "StewardEventsPoison": (
        {'steward_events_failed_total{poison="true"}': "0x10 1x5"},
        {'steward_events_failed_total{poison="false"}': "0+1x15"},
        0.25,
    ),
    "StewardRowsDeferred": (
        {'steward_rows_deferred_total{task="match"}': "0+1x240"},
        {'steward_rows_deferred_total{task="match"}': "0+1x120 120x120"},
        4,
    ),
    "StewardAuditBroken": (
        {"steward_audit_broken_total": "0x10 1x5"},
        {"steward_audit_broken_total": "4x15"},
        0.25,
    ),
    "StewardLongReader": (
        {'steward_oldest_transaction_seconds{kind="session"}': "121x10"},
        {'steward_oldest_transaction_seconds{kind="session"}': "120x10"},
        0.1,
    ),
    "StewardDiskFull": ({"steward_disk_full": "1x10"}, {"steward_disk_full": "0x10"}, 0.1),
    "StewardDiskLow": ({"steward_disk_free_ratio": "0.09x15"}, {"steward_disk_free_ratio": "0.1x15"}, 0.25),
}


def rules() -> list[dict[str, object]]:
    """Every rule of the file."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def labelled(series: str) -> str:
    """The series as scraped: with the labels of its target."""
    name, _, labels = series.rstrip("}").partition("{")
    return f"{name}{{{', '.join(filter(None, [labels, JOB]))}}}"


def promql_test(alert: str, series: dict[str, str], hours: float, fires: bool) -> dict[str, object]:
    """One test of promtool: how many alerts of a name fire at the end of the series."""
    # What is there in a sound service, so that no alert on absent series fires beside.
    quiet = {} if alert == "StewardNoWorker" else {'steward_workers{lease="held"}': "1x300"}
    return {
        "interval": "1m",
        "name": f"{alert} {'fires' if fires else 'is silent'}",
        "input_series": [
            {"series": labelled(name), "values": values} for name, values in {**quiet, **series}.items()
        ],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{round(hours * 60)}m",
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if fires else [],
            }
        ],
    }


@promtool_is_here
def test_rules_fire_when_they_must_and_only_then(tmp_path: Path) -> None:
    """`promtool check` and `promtool test rules`: each alert by itself, one past its limit and at it."""
    assert set(CASES) == {rule["alert"] for rule in rules()}
    tests = [
        promql_test(alert, series, hours, fires)
        for alert, (firing, silent, hours) in CASES.items()
        for series, fires in ((firing, True), (silent, False))
    ]
    (tmp_path / "tests.yml").write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
    for words in (("check", "rules", str(RULES)), ("test", "rules", str(tmp_path / "tests.yml"))):
        judged = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, check=False, timeout=60)
        assert judged.returncode == 0, judged.stdout + judged.stderr


def test_rules_ask_for_metrics_that_exist_and_lead_to_the_guide() -> None:
    """Every name is a metric of the service, and every runbook an anchor of the operators' guide."""
    for rule in rules():
        names = set(re.findall(r"steward_[a-z_]+", str(rule["expr"])))
        assert names <= set(DESCRIPTIONS), rule["alert"]
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        page, _, anchor = annotations["runbook"].partition("#")
        assert anchor in anchors(ROOT / page), annotations["runbook"]
        assert set(annotations) == {"summary", "description", "runbook"}
        assert rule["labels"] in ({"severity": "page"}, {"severity": "ticket"})
