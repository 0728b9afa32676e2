"""Tests the alert rules: they are valid, fire only when they must, and use existing metrics."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from steward.telemetry.metric_list import DESCRIPTIONS
from tests.documents import anchors
from tests.source import ROOT

RULES = ROOT / "deploy/prometheus/steward.rules.yml"
RULE_TESTS = RULES.with_name("steward.rules.test.yml")
PROMTOOL = shutil.which("promtool") or str(ROOT / ".cache/promtool/promtool")
promtool_is_here = pytest.mark.skipif(
    not Path(PROMTOOL).exists(), reason="SKIPPED LOUDLY: promtool is not here; run make promtool"
)


def rules() -> list[dict[str, object]]:
    """Returns every rule of the file."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@promtool_is_here
def test_rules_fire_when_they_must_and_only_then() -> None:
    """Runs `promtool check` and `promtool test rules` on the rules and their tests."""
    for words in (("check", "rules", RULES), ("test", "rules", RULE_TESTS)):
        result = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, check=False, timeout=60)
        assert result.returncode == 0, result.stdout + result.stderr


def test_each_alert_has_a_test_that_fires_and_one_that_is_silent() -> None:
    """Has two tests for each alert: one in which it alone fires, and one in which no alert fires."""
    cases = {case["name"]: case for case in yaml.safe_load(RULE_TESTS.read_text())["tests"]}
    alerts = [rule["alert"] for rule in rules()]
    assert set(cases) == {f"{alert} {way}" for alert in alerts for way in ("fires", "is silent")}
    for name, case in cases.items():
        alert, _, way = name.partition(" ")
        [evaluated] = case["promql_expr_test"]
        assert evaluated["expr"] == 'count by (alertname) (ALERTS{alertstate="firing"})'
        firing = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if way == "fires" else []
        assert evaluated["exp_samples"] == firing


def test_rules_ask_for_metrics_that_exist_and_lead_to_the_guide() -> None:
    """Uses only metrics of the service, and links to anchors of the operators' guide."""
    for rule in rules():
        names = set(re.findall(r"steward_[a-z_]+", str(rule["expr"])))
        assert names <= set(DESCRIPTIONS), rule["alert"]
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        page, _, anchor = annotations["runbook"].partition("#")
        assert anchor in anchors(ROOT / page), annotations["runbook"]
        assert set(annotations) == {"summary", "description", "runbook"}
        assert rule["labels"] in ({"severity": "page"}, {"severity": "ticket"})
