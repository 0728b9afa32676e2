"""Finds steps that read a list as one item, as n8n outputs it, where each element is an item here.

See docs/design/imports-verdict.md#missing-values.
"""

from collections.abc import Iterable
from typing import Final

from steward.imports.n8n.field_reads import passing_on, reads_of, receiving
from steward.imports.n8n.unwrap import Node
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan, PlanStep
from steward.steps.n8n.nodes.http_request import outputs_whole_lists
from steward.steps.workflow.step_types import NodeDefinition

_ADVICE: Final = (
    "Here each element is an item of its own. In n8n let the request split its response into items, and read"
    " their fields."
)


def whole_list_findings(plan: Plan, nodes: Iterable[Node]) -> list[Finding]:
    """Returns an error for each running step that reads an older HTTP Request step's item as a list."""
    running = {step.name: step for step in plan.running()}
    sources = [node.name for node in nodes if node.name in running and _outputs_whole_lists(node)]
    if not sources:
        return []
    lists = {name: _list_reads(step) for name, step in running.items()}
    readers_of_own_items = {name for name, read_names in lists.items() if None in read_names}
    findings = []
    for source in sources:
        names = passing_on(plan, source)
        readers = readers_of_own_items & receiving(plan, source, joined=False)
        readers |= {name for name, read_names in lists.items() if not read_names.isdisjoint(names)}
        message = f"It reads the list that “{source[:80]}” passes on as one item in n8n. {_ADVICE}"
        findings += [
            Finding(name, FindingLevel.ERROR, "parameter", message) for name in running if name in readers
        ]
    return findings


def _outputs_whole_lists(node: Node) -> bool:
    definition = NodeDefinition(node.name, node.version, node.parameters, node.credentials)
    return node.type == "httpRequest" and outputs_whole_lists(definition)


def _list_reads(step: PlanStep) -> set[str | None]:
    """Returns the steps whose items a step reads as lists; None stands for its own items."""
    return {name for name, read in reads_of(step).by_name if read.is_list and not read.keys}
