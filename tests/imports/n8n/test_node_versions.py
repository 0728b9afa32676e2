"""Tests which versions of node types run: all listed ones, and unlisted minor ones with a warning."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.imports.n8n.unwrap import SAVE_AGAIN
from steward.model.finding import Finding, FindingLevel
from steward.steps.n8n.nodes import BY_TYPE
from tests.imports.exports import chain, node
from tests.imports.n8n.one_step import errors_of, outputs_of, workflow_of
from tests.source import ROOT

# The versions that n8n has, as they were compared with `n8n_version` on `compared_on`. A step type that is
# added later declares its own and needs no entry until the next comparison.
COMPARED: dict[str, Any] = json.loads((ROOT / "tests/data/n8n_node_versions.json").read_text("utf-8"))


@pytest.mark.parametrize("name", COMPARED["versions"])
def test_a_step_type_declares_each_version_that_n8n_has(name: str) -> None:
    """A step type runs or refuses each version of its node type, runs the newest, and declares no other."""
    versions, step_type = COMPARED["versions"][name], BY_TYPE[name]
    assert sorted([*step_type.versions, *step_type.refused_versions]) == versions
    assert max(step_type.versions) == max(versions)


@pytest.mark.parametrize(
    ("kind", "version", "code"),
    [
        ("set", 3.5, None),
        ("set", 3.6, "node_version"),
        ("set", 3.05, "node_version"),
        ("noOp", 1.9, "node_version"),
    ],
)
async def test_a_minor_version_that_is_not_listed_runs_with_a_warning(
    kind: str, version: float, code: str | None
) -> None:
    """Runs later minor versions and versions that n8n never had, with a `node_version` warning."""
    findings = read_value(workflow_of(kind, version, {})).findings
    assert [finding.code for finding in findings if finding.level is not FindingLevel.NOTE] == (
        [code] if code else []
    )
    parameters = {"includeOtherFields": True} if kind == "set" else {}
    assert await outputs_of(kind, version, parameters, [{"n": 1}]) == [[{"n": 1}]]


@pytest.mark.parametrize(("version", "words"), [(4, "newer than 3.5"), (0, "older than those")])
def test_another_major_version_is_an_error_with_advice(version: float, words: str) -> None:
    """Says whether the version is newer or older, and never tells to export the workflow again."""
    [error] = errors_of("set", version, {})
    assert error.code == "node_version"
    assert words in error.message
    assert "xport" not in error.message


def test_a_new_parameter_of_a_new_minor_version_is_an_error() -> None:
    """Reports an unknown parameter of a newer minor version as a `parameter` error."""
    assert [finding.code for finding in errors_of("set", 3.6, {"newSetting": 1})] == ["parameter"]


NO_NUMBER = "Its version in the file is not a number. "
NOT_SAID = "The file does not say its version. "
DIFFER = "The versions of this step differ. "
FIRST = "It is read as version 1, the first one. "


@pytest.mark.parametrize(
    ("kind", "version", "level", "words"),
    [
        ("set", None, "error", NOT_SAID + DIFFER),
        ("set", "3.4", "error", NO_NUMBER + DIFFER),
        ("set", [3.4], "error", NO_NUMBER + DIFFER),
        ("mailerLite", None, "error", NOT_SAID + DIFFER),
        ("wait", None, "error", NOT_SAID + DIFFER),
        ("html", None, "warning", NOT_SAID + FIRST),
        ("html", "1.2", "warning", NO_NUMBER + FIRST),
        ("noOp", None, None, None),
        ("noOp", "1", None, None),
    ],
)
def test_a_missing_version_of_a_step_makes_a_finding(
    kind: str, version: object, level: str | None, words: str | None
) -> None:
    """Refuses a step whose versions differ much, and warns of others of several versions."""
    version_findings = _version_findings({**node("Step", kind, 1, {}), "typeVersion": version})
    assert [str(finding.level) for finding in version_findings] == ([level] if level else [])
    assert all(finding.message == f"{words}{SAVE_AGAIN}" for finding in version_findings)


@pytest.mark.parametrize("kind", ["set", "wait", "html"])
def test_the_version_of_a_disabled_step_does_not_matter(kind: str) -> None:
    """Tells nothing about the version of a step that passes its items on."""
    assert _version_findings({**node("Step", kind, 1, {}, disabled=True), "typeVersion": None}) == []


def _version_findings(step: Mapping[str, Any]) -> list[Finding]:
    findings = read_value(chain(step, node("End", "noOp", 1, {}))).findings
    return [finding for finding in findings if finding.code == "node_version"]


@pytest.mark.parametrize(
    ("kind", "version", "is_told"),
    [
        ("formTrigger", None, True),
        ("webhook", None, True),
        ("executeWorkflowTrigger", "1.1", True),
        ("executeWorkflowTrigger", 1.1, False),
        ("manualTrigger", None, False),
    ],
)
def test_a_missing_version_of_a_trigger_makes_a_finding(kind: str, version: object, *, is_told: bool) -> None:
    """Warns that a trigger with several versions is read as the first."""
    export = chain(node("Step", "noOp", 1, {}))
    export["nodes"][0] |= {"type": f"n8n-nodes-base.{kind}", "typeVersion": version}
    version_findings = [finding for finding in read_value(export).findings if finding.code == "node_version"]
    assert [str(finding.level) for finding in version_findings] == ["warning"] * is_told
    assert all(FIRST in finding.message for finding in version_findings)
