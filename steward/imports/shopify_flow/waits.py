"""Finds waits that delay more here than in Shopify Flow: parallel branches and later loop iterations."""

from collections.abc import Sequence

from steward.imports.shopify_flow.scope import Scopes
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import PlanEdge, StepKind

_BESIDE = (
    "While it waits, the parallel branches wait too: their changes and messages are approved and made "
    "after the wait. Move them to a flow of their own if that is too late."
)
_IN_LOOP = (
    "The elements of its for-each wait one after another, and later steps see an element as it was before "
    "the wait. Check whether this is what you want."
)


def wait_findings(edges: Sequence[PlanEdge], scopes: Scopes) -> list[Finding]:
    """Returns a warning for each wait that delays other steps."""
    warnings: list[Finding] = []
    for step in scopes.steps:
        if step.kind is not StepKind.WAIT:
            continue
        if scopes.of[step.name].items:
            warnings.append(Finding(step.name, FindingLevel.WARNING, "parameter", _IN_LOOP))
        if _has_branch_beside(step.name, edges, scopes):
            warnings.append(Finding(step.name, FindingLevel.WARNING, "parameter", _BESIDE))
    return warnings


def _has_branch_beside(wait: str, edges: Sequence[PlanEdge], scopes: Scopes) -> bool:
    """Returns whether an output of a step before the wait also leads to other steps."""
    leads: dict[tuple[str, str], set[bool]] = {}
    for edge in edges:
        to_wait = edge.target == wait or scopes.runs_before(wait, edge.target)
        leads.setdefault((edge.source, edge.port), set()).add(to_wait)
    return any(len(leads_to_wait) == 2 for leads_to_wait in leads.values())
