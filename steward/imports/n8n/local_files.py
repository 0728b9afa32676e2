"""Steps that read files from disk: only files that an earlier step of the run wrote exist.

See docs/design/files.md#files-of-the-machine.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from steward.imports.n8n.unwrap import Node
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan
from steward.steps.n8n.nodes.local_files import selected
from steward.steps.workflow.step_types import is_expression

_WORDS: Final = (
    "It reads a file of the machine that n8n runs on, and no step before it writes that file. Read it with a"
    " step, of Google Drive for example, or fetch it by an HTTP request."
)
_SELECTORS: Final = {
    "readBinaryFile": "filePath",
    "readBinaryFiles": "fileSelector",
    "readWriteFile": "fileSelector",
}


def unwritten_file_findings(plan: Plan, nodes: Iterable[Node]) -> list[Finding]:
    """Returns an error for each running step that reads a file which no earlier step writes."""
    by_name = {node.name: node for node in nodes}
    sources: dict[str, list[str]] = {}
    for edge in plan.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    findings = []
    for step in plan.running():
        node = by_name.get(step.name)
        if node is None or not _reads(node):
            continue
        paths = list(_paths_written_before(sources, step.name, by_name))
        selector = node.parameters.get(_SELECTORS[node.type])
        if not _may_select(selector, paths):
            findings.append(Finding(step.name, FindingLevel.ERROR, "binary", _WORDS))
    return findings


def _reads(node: Node) -> bool:
    if node.type == "readWriteFile":
        return node.parameters.get("operation", "read") == "read"
    return node.type in _SELECTORS


def _writes(node: Node) -> bool:
    if node.disabled:
        return False
    return node.type == "writeBinaryFile" or (
        node.type == "readWriteFile" and node.parameters.get("operation") == "write"
    )


def _may_select(selector: object, paths: Sequence[object]) -> bool:
    texts = [path for path in paths if isinstance(path, str)]
    if not isinstance(selector, str) or is_expression(selector):
        return isinstance(selector, str) and bool(texts)
    return any(map(is_expression, texts)) or bool(selected(selector, texts))


def _paths_written_before(
    sources: Mapping[str, Sequence[str]], name: str, nodes: Mapping[str, Node]
) -> Iterator[object]:
    """Returns the paths that the steps before a step write to."""
    pending, reached = [name], {name}
    while pending:
        for source in sources.get(pending.pop(), ()):
            if source not in reached:
                reached.add(source)
                pending.append(source)
    return (nodes[step].parameters.get("fileName") for step in reached & nodes.keys() if _writes(nodes[step]))
