"""What reading an import found, ordered and counted for people, and over a folder of exports."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from steward.imports.n8n import graph
from steward.imports.reach import Reach, reach_of
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan

MAX_FINDINGS = 500
_ORDER = {FindingLevel.ERROR: 0, FindingLevel.WARNING: 1, FindingLevel.NOTE: 2}


@dataclass(frozen=True, slots=True)
class ImportReport:
    """An import's findings, worst first, and its steps counted."""

    findings: tuple[Finding, ...]
    steps: int
    runnable: int
    to_bind: int
    unsupported: int
    reach: Reach

    @property
    def supported(self) -> bool:
        """Whether nothing keeps it from running."""
        return not any(finding.level is FindingLevel.ERROR for finding in self.findings)


def report_of(plan: Plan, findings: Iterable[Finding]) -> ImportReport:
    """The report of a plan: levels as they count for its trigger, worst first, then in plan order."""
    softened = graph.softened(plan, findings)
    places = {step.name: number for number, step in enumerate(plan.steps)}
    ordered = sorted(
        softened, key=lambda finding: (_ORDER[finding.level], places.get(finding.step or "", -1))
    )
    if len(ordered) > MAX_FINDINGS:
        rest = len(ordered) - MAX_FINDINGS
        words = f"{rest} more findings are not shown. Mend those shown and import again."
        ordered = [*ordered[:MAX_FINDINGS], Finding(None, FindingLevel.NOTE, "parameter", words)]
    blocked = {finding.step for finding in ordered if finding.level is FindingLevel.ERROR}
    bound = sum(step.origin is not None and step.origin.needs not in (None, "store") for step in plan.steps)
    unsupported = sum(step.name in blocked for step in plan.steps)
    count = len(plan.steps)
    return ImportReport(tuple(ordered), count, count - unsupported, bound, unsupported, reach_of(plan))


@dataclass(slots=True)
class Survey:
    """What a folder of exports would come to."""

    exports: int = 0
    refused: int = 0
    supported: int = 0
    as_it_starts: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    broke: list[str] = field(default_factory=list)
    slowest_ms: float = 0.0

    def add(self, plan: Plan, report: ImportReport) -> None:
        """One export that could be read."""
        self.exports += 1
        self.codes.update({f"{finding.code} {finding.level}" for finding in report.findings})
        if report.supported:
            self.supported += 1
            self.as_it_starts += not any(finding.code == "foreign_trigger" for finding in report.findings)
        blocked = {
            finding.step
            for finding in report.findings
            if finding.level is FindingLevel.ERROR and finding.code in _TYPES
        }
        kinds = {step.origin.source_type for step in plan.steps if step.name in blocked and step.origin}
        self.missing.update(kinds)

    def to_json(self) -> dict[str, object]:
        """As printed."""
        count = max(self.exports, 1)
        return {
            "exports": self.exports + self.refused + len(self.broke),
            "read": self.exports,
            "refused": self.refused,
            "broke": self.broke,
            "fully_supported": self.as_it_starts,
            "fully_supported_share": round(self.as_it_starts / count, 4),
            "runnable_with_replaced_trigger": self.supported,
            "runnable_with_replaced_trigger_share": round(self.supported / count, 4),
            "most_wanted": [[name, number] for name, number in self.missing.most_common(25)],
            "findings": [[name, number] for name, number in self.codes.most_common()],
            "slowest_ms": round(self.slowest_ms, 1),
        }

    def to_text(self) -> Sequence[str]:
        """The same in lines."""
        counts = self.to_json()
        lines = [
            f"{counts['exports']} exports: {counts['read']} read, {counts['refused']} refused with a reason,"
            f" {len(self.broke)} broke",
            f"fully supported: {self.as_it_starts} ({self.as_it_starts / max(self.exports, 1):.1%})",
            f"runnable, with a replaced trigger where needed: {self.supported}"
            f" ({self.supported / max(self.exports, 1):.1%})",
            f"slowest: {counts['slowest_ms']} ms",
            "most wanted types:",
        ]
        lines += [f"  {number:4d}  {name}" for name, number in self.missing.most_common(25)]
        lines += ["findings, exports with:"]
        return lines + [f"  {number:4d}  {name}" for name, number in self.codes.most_common()]


_TYPES = frozenset(("node_type", "community_node", "ai_node", "binary", "node_version"))
