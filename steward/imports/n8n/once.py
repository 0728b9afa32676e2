"""Removes repeated findings: one for each AI step, one for all reads that send the run's data."""

from collections.abc import Iterable, Sequence, Set

from steward.imports.reach import named
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan
from steward.steps.workflow.responses import RUN_DATA_IN_READ

# Findings about the file itself stay at every step, even next to an AI node's finding.
_ABOUT_THE_FILE = frozenset(("disabled_step", "renamed_step", "secret_removed", "variable"))


def without_repetitions(plan: Plan, findings: Iterable[Finding]) -> list[Finding]:
    """Returns the findings without repetitions, in their order."""
    unique = list(dict.fromkeys(findings))
    return _with_one_for_reads({step.name for step in plan.running()}, _with_one_per_ai_step(unique))


def _with_one_per_ai_step(findings: Sequence[Finding]) -> list[Finding]:
    first_of: dict[str | None, Finding] = {}
    for finding in findings:
        if finding.code == "ai_node":
            first_of.setdefault(finding.step, finding)
    return [
        finding
        for finding in findings
        if finding.step not in first_of
        or finding is first_of[finding.step]
        or finding.code in _ABOUT_THE_FILE
    ]


def _with_one_for_reads(running_steps: Set[str], findings: Sequence[Finding]) -> list[Finding]:
    reads = [finding.step for finding in findings if finding.message == RUN_DATA_IN_READ]
    names = [name for name in reads if name is not None and name in running_steps]
    others = [finding for finding in findings if finding.message != RUN_DATA_IN_READ]
    if not names:
        return others
    if len(names) == 1:
        return [*others, Finding(names[0], FindingLevel.WARNING, "parameter", RUN_DATA_IN_READ)]
    message = (
        f"{named(names)} send data of the run when they read, and a test run makes these requests too. "
        "Check that none of them changes anything at its address."
    )
    return [*others, Finding(None, FindingLevel.WARNING, "parameter", message)]
