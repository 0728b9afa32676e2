"""Sorts and counts an import's findings for people."""

from collections.abc import Iterable
from dataclasses import dataclass

from steward.imports.n8n import graph
from steward.imports.reach import TriggerReach, reach_of
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan

_MAX_FINDINGS = 500
_ORDER = {FindingLevel.ERROR: 0, FindingLevel.WARNING: 1, FindingLevel.NOTE: 2}


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The findings of an import, worst first, and its step counts."""

    findings: tuple[Finding, ...]
    steps: int
    unsupported: int
    reach: TriggerReach

    @property
    def supported(self) -> bool:
        """Whether the import can run."""
        return not any(finding.level is FindingLevel.ERROR for finding in self.findings)


def report_of(plan: Plan, findings: Iterable[Finding]) -> ImportReport:
    """Returns the report of a plan, with findings worst first, then in plan order.

    Errors of steps that its trigger does not reach count as warnings.
    """
    softened = graph.softened(plan, findings)
    places = {step.name: number for number, step in enumerate(plan.steps)}
    ordered = sorted(
        softened, key=lambda finding: (_ORDER[finding.level], places.get(finding.step or "", -1))
    )
    if len(ordered) > _MAX_FINDINGS:
        omitted = len(ordered) - _MAX_FINDINGS
        message = f"{omitted} more findings are not shown. Correct these first and import the workflow again."
        ordered = [*ordered[:_MAX_FINDINGS], Finding(None, FindingLevel.NOTE, "parameter", message)]
    blocked = {finding.step for finding in ordered if finding.level is FindingLevel.ERROR}
    unsupported = sum(step.name in blocked for step in plan.steps)
    return ImportReport(tuple(ordered), len(plan.steps), unsupported, reach_of(plan))
