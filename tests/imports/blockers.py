"""Ranks the blockers of exports, and orders them by how many exports each fix would make clean."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from steward.imports.n8n.unwrap import AI
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan

_TYPES = frozenset(("node_type", "community_node", "ai_node", "binary"))
_MAX_SHOWN = 40
_QUOTED = re.compile(r"“[^”]*”")
_COLUMN = re.compile(r" \([^()]*column \d+\)")
_NUMBER = re.compile(r"\b\d+\b")


@dataclass(frozen=True, slots=True)
class Blocker:
    """Names one reason: the node type of the step that has it, and the cause in general words."""

    node_type: str
    cause: str

    def __str__(self) -> str:
        return f"{self.node_type}: {self.cause}" if self.node_type else self.cause


@dataclass(frozen=True, slots=True)
class SurveyedExport:
    """The data of one export that the report uses."""

    name: str
    clean: bool
    has_ai: bool
    blockers: frozenset[Blocker]
    findings: set[str]


def has_ai_node(plan: Plan) -> bool:
    """Returns whether the workflow has a node of n8n's AI package."""
    steps = (step.origin.source_type for step in plan.steps if step.origin is not None)
    triggers = (trigger.replaced or "" for trigger in plan.triggers)
    return any(name.startswith(AI) for name in (*steps, *triggers))


def blockers_of(plan: Plan, findings: Iterable[Finding]) -> frozenset[Blocker]:
    """Returns the errors of a workflow in general words, so that equal causes compare equal."""
    types = {step.name: step.origin.source_type for step in plan.steps if step.origin is not None}
    return frozenset(
        Blocker(types.get(finding.step or "", ""), _general(finding))
        for finding in findings
        if finding.level is FindingLevel.ERROR
    )


def _general(finding: Finding) -> str:
    if finding.code in _TYPES:
        return finding.code
    first = re.split(r"(?<=[.!?])\s", _COLUMN.sub("", finding.message))[0]
    stored = finding.code == "expression_feature" and finding.message.startswith("“")
    return f"{finding.code}: {_NUMBER.sub('0', first if stored else _QUOTED.sub('“…”', first))[:160]}"


@dataclass(slots=True)
class SurveyReport:
    """Collects the verdicts on a folder of exports."""

    exports: list[SurveyedExport] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    broke: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")

    def add(self, export: SurveyedExport) -> None:
        """Adds an export that could be read."""
        self.exports.append(export)

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON."""
        without_ai = [export for export in self.exports if not export.has_ai]
        return {
            "exports": len(self.exports) + len(self.refused) + len(self.broke),
            "read": len(self.exports),
            "refused": [list(refusal) for refusal in self.refused],
            "broke": self.broke,
            "clean": {"all": _share(self.exports), "without_ai": _share(without_ai)},
            "blockers": {
                "by_node_type": _ranked(without_ai, lambda blocker: blocker.node_type or blocker.cause),
                "by_cause": _ranked(without_ai, str),
            },
            "greedy": greedy_order(without_ai),
            "findings": dict(
                Counter(name for export in self.exports for name in export.findings).most_common()
            ),
            "slowest": {"file": self.slowest[1], "ms": round(self.slowest[0], 1)},
        }

    def to_text(self) -> Sequence[str]:
        """Returns the report as lines of text."""
        facts = self.to_json()
        lines = [
            f"{facts['exports']} exports: {facts['read']} read, {len(self.refused)} refused with a reason,"
            f" {len(self.broke)} broke",
            f"clean: {_words(facts['clean']['all'])}",
            f"clean, of those without AI nodes: {_words(facts['clean']['without_ai'])}",
            f"slowest: {facts['slowest']['ms']} ms, {facts['slowest']['file']}",
        ]
        lines += [f"broke: {words}" for words in self.broke]
        lines += [f"refused: {name}: {words}" for name, words in self.refused]
        for title, name in (("node type", "by_node_type"), ("cause", "by_cause")):
            lines.append(f"what blocks exports without AI nodes, by {title} (alone, in all):")
            rows = facts["blockers"][name]
            lines += [f"  {row['alone']:4d} {row['exports']:4d}  {row['blocker']}" for row in rows]
        lines.append("what to fix next for the greatest gain (clean then, gained):")
        lines += [f"  {row['clean']:4d} {row['gains']:4d}  {row['blocker']}" for row in facts["greedy"]]
        lines.append("findings, exports with:")
        return lines + [f"  {number:4d}  {name}" for name, number in facts["findings"].items()]


def _share(exports: Sequence[SurveyedExport]) -> dict[str, Any]:
    clean = sum(export.clean for export in exports)
    return {"exports": len(exports), "clean": clean, "share": round(clean / max(len(exports), 1), 4)}


def _words(share: dict[str, Any]) -> str:
    return f"{share['clean']} of {share['exports']} ({share['share']:.1%})"


def _ranked(exports: Sequence[SurveyedExport], name_of: Any) -> list[dict[str, Any]]:
    """Ranks blockers by how many exports each alone blocks, then by how many exports have it."""
    total: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for export in exports:
        names = {name_of(blocker) for blocker in export.blockers}
        total.update(names)
        if len(names) == 1:
            alone.update(names)
    ranked = sorted(total, key=lambda name: (-alone[name], -total[name], name))[:_MAX_SHOWN]
    return [{"blocker": name, "alone": alone[name], "exports": total[name]} for name in ranked]


def greedy_order(exports: Sequence[SurveyedExport]) -> list[dict[str, Any]]:
    """Orders blockers so that fixing each next one makes the most exports clean.

    Where no single blocker makes an export clean, the next is the one that comes nearest: an export
    counts the less the more blockers it has.
    """
    remaining = [set(map(str, export.blockers)) for export in exports if export.blockers]
    clean = sum(export.clean for export in exports)
    order: list[dict[str, Any]] = []
    while remaining and len(order) < _MAX_SHOWN:
        gains: Counter[str] = Counter()
        nearness: Counter[str] = Counter()
        for names in remaining:
            for name in names:
                gains[name] += len(names) == 1
                nearness[name] += 1000 // len(names)
        best = min(nearness, key=lambda name: (-gains[name], -nearness[name], name))
        clean += gains[best]
        order.append({"blocker": best, "gains": gains[best], "clean": clean})
        remaining = [open_blockers for names in remaining if (open_blockers := names - {best})]
    return order
