"""Tests which versions of node types run: all listed ones, and unlisted minor ones with a warning."""

import pytest

from steward.model.finding import FindingLevel
from steward.steps.n8n.node_versions import COMPARED_ON, N8N_VERSION, VERSIONS
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.n8n.nodes.store_event import EVENT_TYPE
from tests.imports.n8n.one_step import errors_of, outputs_of, read_value, workflow_of


@pytest.mark.parametrize("name", sorted(BY_TYPE.keys() - {EVENT_TYPE}))
def test_every_step_type_supports_the_newest_version_of_its_node_type(name: str) -> None:
    """Every step type supports the newest version of its node type, and no version that n8n does not have."""
    assert set(BY_TYPE[name].versions) <= set(VERSIONS[name])
    assert max(BY_TYPE[name].versions) == max(VERSIONS[name]), f"n8n {N8N_VERSION} of {COMPARED_ON}"


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
def test_another_major_version_is_an_error_that_says_what_can_be_done(version: float, words: str) -> None:
    """The message says whether the version is newer or older, and never asks for another export."""
    [error] = errors_of("set", version, {})
    assert error.code == "node_version"
    assert words in error.message
    assert "xport" not in error.message


def test_a_new_parameter_of_a_new_minor_version_is_an_error() -> None:
    """Reports an unknown parameter of a newer minor version as a `parameter` error."""
    assert [finding.code for finding in errors_of("set", 3.6, {"newSetting": 1})] == ["parameter"]
