"""Steps that use a file of the start, which a run gets with its payload.

In n8n, webhooks, forms and mail bring files; here the request that starts the run does. See
docs/design/imports-verdict.md#missing-values.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from steward.imports.n8n.field_reads import codes_of
from steward.imports.n8n.unwrap import Node
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan, PlanStep, PlanTrigger, StartField, StartFieldType, StepKind
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.workflow.step_types import NodeDefinition, is_expression

# Node types that never add a file to their items.
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
_FILE_IN_CODE = re.compile(
    r"\$binary\s*(?:\.\s*(?P<dotted>[A-Za-z_]\w*)|\[\s*['\"](?P<quoted>[^'\"]+)['\"]|\[)"
)
# Messages may have no attachments, so an expression may name none.
_MAILS: Final = ("emailSend", "gmail", "microsoftOutlook")
_FORM: Final = "formTrigger"
_MAX_FILES: Final = 20


def start_file_findings(plan: Plan, nodes: Iterable[Node]) -> list[Finding]:
    """Returns an error for each running step that needs a file which the start cannot bring."""
    entry = plan.entry()
    by_name = {node.name: node for node in nodes}
    message = (
        None if entry is None or entry.name not in by_name else _no_file_words(entry, by_name[entry.name])
    )
    if entry is None or message is None:
        return []
    without = _without_files(plan, entry.name, by_name)
    return [
        Finding(step.name, FindingLevel.ERROR, "binary", message)
        for step in plan.running()
        if step.name in without and _needs_file(step, by_name.get(step.name))
    ]


def _no_file_words(entry: PlanTrigger, node: Node) -> str | None:
    """Returns why a run starts without files, or None if it can start with some."""
    if _is_called(node):
        return None
    if entry.replaced is None:
        message = f"It works on a file, and “{entry.name[:80]}” passes on none. "
        return message + "Read the file with a step, of Google Drive for example."
    if entry.replaced == _FORM and not any(start_field.is_file for start_field in entry.fields):
        message = f"It works on a file, and the form of “{entry.name[:80]}” asks for none. "
        return message + "Add a field for the file in n8n."
    return None


def with_start_files(plan: Plan, nodes: Iterable[Node]) -> Plan:
    """Returns the plan with the files that steps read from a foreign start, such as a webhook.

    A form declares its files itself.
    """
    entry = plan.entry()
    by_name = {node.name: node for node in nodes}
    if entry is None or entry.replaced in (None, _FORM) or entry.name not in by_name:
        return plan
    without = _without_files(plan, entry.name, by_name)
    steps = [step for step in plan.running() if step.name in without]
    names = [name for step in steps for name in _literal_names(step, by_name.get(step.name))]
    files = tuple(StartField((name,), name, StartFieldType.FILE) for name in dict.fromkeys(names))
    start = replace(entry, fields=(*entry.fields, *files[:_MAX_FILES]))
    triggers = tuple(start if trigger.name == entry.name else trigger for trigger in plan.triggers)
    return replace(plan, triggers=triggers)


def _literal_names(step: PlanStep, node: Node | None) -> Iterator[str]:
    """Yields the names of the files that a step reads, except those that expressions decide."""
    for name in _file_names(node):
        if not is_expression(name):
            yield name
    for code in codes_of(step):
        for match in _FILE_IN_CODE.finditer(code):
            name = match["dotted"] or match["quoted"]
            if name:
                yield name


def _needs_file(step: PlanStep, node: Node | None) -> bool:
    """Returns whether a supported step needs a file."""
    if step.origin is None or not step.origin.supported:
        return False
    names = _file_names(node)
    if node is not None and node.type in _MAILS:
        names = [name for name in names if not is_expression(name)]
    return bool(names) or any(_FILE_IN_CODE.search(code) for code in codes_of(step))


def _is_called(node: Node) -> bool:
    return node.type == "executeWorkflowTrigger"


def _file_names(node: Node | None) -> Sequence[str]:
    """Returns the names of the item files that a node uses; an expression stands for itself."""
    step_type = BY_TYPE.get(node.type) if node is not None else None
    if node is None or step_type is None:
        return ()
    return step_type.file_names(NodeDefinition(node.name, node.version, node.parameters, node.credentials))


def _without_files(plan: Plan, start: str, nodes: dict[str, Node]) -> set[str]:
    """Returns the steps that receive no file from any other step."""
    steps = {step.name for step in plan.steps}
    pending = [step.name for step in plan.steps if _may_bring_file(step, nodes.get(step.name))]
    reached: set[str] = set()
    while pending:
        name = pending.pop()
        for edge in plan.edges:
            if edge.source == name and edge.target not in reached:
                reached.add(edge.target)
                pending.append(edge.target)
    return steps - reached - {start}


def _may_bring_file(step: PlanStep, node: Node | None) -> bool:
    """Returns whether a step may add a file to its items."""
    if node is None:
        return True
    # a send stores no file from its response, see decision 0313
    is_send = step.kind is StepKind.SEND and node.type in ("httpRequest", "graphql")
    return not is_send and node.type not in _NO_FILES
