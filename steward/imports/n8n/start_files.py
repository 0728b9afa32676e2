"""Steps that work on a file of the start, which runs begin without.

In n8n a webhook, a form or a mail brings files; a run here begins with values alone.
See docs/design/imports-verdict.md#missing-values.
"""

import re
from collections.abc import Iterable
from typing import Final

from steward.imports.n8n.field_reads import codes_of
from steward.imports.n8n.unwrap import Node
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan, PlanStep
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.workflow.step_types import NodeDefinition

# Steps of which no item has a file that did not come to them.
_NO_FILES: Final = frozenset(
    re.findall(
        r"\w+",
        """
        aggregate compareDatasets dateTime executionData filter googleSheets if itemLists limit merge noOp
        removeDuplicates renameKeys respondToWebhook set sort splitInBatches splitOut stopAndError summarize
        switch wait
        """,
    )
)
_FILE_IN_CODE = re.compile(r"\$binary\s*[.\[]")


def start_file_findings(plan: Plan, nodes: Iterable[Node]) -> list[Finding]:
    """Returns an error for each running step whose file could only come from the start."""
    entry = plan.entry()
    by_name = {node.name: node for node in nodes}
    if entry is None or by_name.get(entry.name) is None or _is_called(by_name[entry.name]):
        return []
    without = _without_files(plan, entry.name, by_name)
    words = (
        f"It works on a file that “{entry.name[:80]}” hands on in n8n. A run here begins with values alone. "
        "Read the file with a step, of Google Drive for example."
    )
    return [
        Finding(step.name, FindingLevel.ERROR, "binary", words)
        for step in plan.running()
        if step.name in without and _needs_file(step, by_name.get(step.name))
    ]


def _needs_file(step: PlanStep, node: Node | None) -> bool:
    """Returns whether a step that can run works on a file."""
    if step.origin is None or not step.origin.supported:
        return False
    return _reads_file(node) or any(_FILE_IN_CODE.search(code) for code in codes_of(step))


def _is_called(node: Node) -> bool:
    return node.type == "executeWorkflowTrigger"


def _reads_file(node: Node | None) -> bool:
    step_type = BY_TYPE.get(node.type) if node is not None else None
    if node is None or step_type is None:
        return False
    return step_type.reads_file(NodeDefinition(node.name, node.version, node.parameters, node.credentials))


def _without_files(plan: Plan, start: str, nodes: dict[str, Node]) -> set[str]:
    """Returns the steps to which no step hands on a file."""
    steps = {step.name for step in plan.steps}
    pending = [name for name in steps if name not in nodes or nodes[name].type not in _NO_FILES]
    reached: set[str] = set()
    while pending:
        name = pending.pop()
        for edge in plan.edges:
            if edge.source == name and edge.target not in reached:
                reached.add(edge.target)
                pending.append(edge.target)
    return steps - reached - {start}
