"""Says each thing once: one finding for an AI step, one for all reads that send data of the run."""

from collections.abc import Iterable, Sequence, Set

from steward.imports.reach import named
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan
from steward.steps.workflow.answers import RUN_DATA_IN_READ

_NOT_TAKEN = "which is not taken from a file"  # of keys that a removed secret's own finding names too
_ABOUT_THE_FILE = frozenset(("disabled_step", "renamed_step"))


def said_once(plan: Plan, findings: Iterable[Finding]) -> list[Finding]:
    """Returns the findings without repetitions, in their order."""
    unique = _without_removed_keys(list(dict.fromkeys(findings)))
    return _with_one_for_reads({step.name for step in plan.running()}, _with_one_per_ai_step(unique))


def _without_removed_keys(findings: Sequence[Finding]) -> list[Finding]:
    """Leaves out that a step sends a key where another finding says that this secret was removed."""
    removed: dict[str | None, str] = {}
    for finding in findings:
        if finding.code == "secret_removed" and finding.level is FindingLevel.ERROR:
            removed[finding.step] = removed.get(finding.step, "") + finding.message
    return [
        finding
        for finding in findings
        if finding.code != "credential"
        or _NOT_TAKEN not in finding.message
        or not _names_the_same(finding.message, removed.get(finding.step, ""))
    ]


def _names_the_same(words: str, removed: str) -> bool:
    """Whether the words on a key that is sent are on one of the removed secrets."""
    if words.startswith("Its address"):
        return "The URL held" in removed or "The endpoint held" in removed
    return f"“{words.partition('“')[2].partition('”')[0]}”" in removed


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
    words = (
        f"{named(names)} send data of the run when they read, and a test run makes these requests too. "
        "Check that none of them changes anything at its address."
    )
    return [*others, Finding(None, FindingLevel.WARNING, "parameter", words)]
