"""Finds the triggers of an export and proposes a start for each."""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from steward.connectors.shopify.topics import TOPICS
from steward.imports.n8n import schedules
from steward.imports.n8n.field_labels import words_of
from steward.imports.n8n.form_fields import default_problems, form_fields
from steward.imports.n8n.schedules import ScheduleReading
from steward.imports.n8n.unwrap import READ_AS_FIRST, Node
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import PlanTrigger
from steward.steps.workflow.javascript import values as js

_BY_HAND = frozenset(("manualTrigger", "start", "executeWorkflowTrigger", "errorTrigger"))
SCHEDULED = frozenset(("scheduleTrigger", "cron", "interval"))
_STORES = frozenset(("shopifyTrigger", "wooCommerceTrigger"))
_UNMARKED = frozenset(
    ("webhook", "formTrigger", "emailReadImap")
)  # triggers whose type does not end in Trigger
_TRIGGER_END = ("Trigger", "trigger")
_OF_SEVERAL_VERSIONS = frozenset(
    ("webhook", "formTrigger", "emailReadImap", "executeWorkflowTrigger", "scheduleTrigger")
)

# Topics that a connected store can send, by n8n's event names.
_WOO_EVENTS = {
    f"{noun}.{verb}": f"{noun}.{verb}"
    for noun in ("order", "product", "customer", "coupon")
    for verb in ("created", "updated", "deleted", "restored")
}


def is_trigger(node: Node) -> bool:
    """Returns whether the node is a trigger and not a step."""
    if node.type in _BY_HAND or node.type in SCHEDULED or node.type in _UNMARKED:
        return True
    return node.type.rpartition(".")[2].endswith(_TRIGGER_END)


def call_trigger(nodes: Iterable[Node]) -> str | None:
    """Returns the trigger used when another workflow calls this one."""
    for node in nodes:
        if node.type == "executeWorkflowTrigger" and not node.disabled:
            return node.name
    return None


def manual_start(names: Container[str]) -> PlanTrigger:
    """Returns a manual start for a workflow without a trigger, with a name that no step has."""
    name, number = "Start by hand", 2
    while name in names:
        name, number = f"Start by hand ({number})", number + 1
    return PlanTrigger(name, "manual")


@dataclass(slots=True)
class ProposedTrigger:
    """A proposed trigger with its findings."""

    trigger: PlanTrigger
    findings: list[Finding] = field(default_factory=list)


def proposed(node: Node) -> ProposedTrigger:
    """Returns the start that a trigger node becomes, with its findings."""
    if node.type in _BY_HAND:
        trigger = PlanTrigger(node.name, "manual", position=node.position, picks=_picks(node))
        proposal = ProposedTrigger(trigger)
        if node.type in _STARTS:
            proposal.findings.append(_foreign(node, _STARTS[node.type]))
        return proposal
    if node.type in SCHEDULED:
        return _scheduled(node)
    if node.type in _STORES:
        return _by_event(node)
    trigger = PlanTrigger(node.name, "manual", replaced=node.type, position=node.position)
    if node.type == "formTrigger":
        fields = form_fields(node.parameters)
        trigger = replace(trigger, fields=fields, submitted_in_utc=_is_submitted_in_utc(node))
    proposal = ProposedTrigger(trigger)
    proposal.findings.append(_foreign(node, _started_in_n8n(node.type)))
    if node.type == "formTrigger":
        proposal.findings += [
            Finding(node.name, FindingLevel.WARNING, "parameter", words)
            for words in default_problems(node.parameters)
        ]
    return proposal


def unknown_version(node: Node) -> list[Finding]:
    """Returns a finding if the file does not contain the version of a trigger that has several."""
    if node.version_problem is None or node.type not in _OF_SEVERAL_VERSIONS:
        return []
    message = f"{node.version_problem} {READ_AS_FIRST}"
    return [Finding(node.name, FindingLevel.WARNING, "node_version", message)]


def _is_submitted_in_utc(node: Node) -> bool:
    """Returns whether a form has its time in UTC: by its option, or before version 2.1."""
    options = node.parameters.get("options")
    uses_workflow_zone = options.get("useWorkflowTimezone") if isinstance(options, Mapping) else None
    return not uses_workflow_zone if isinstance(uses_workflow_zone, bool) else node.version < 2.1


def _picks(node: Node) -> tuple[str, ...] | None:
    """Returns the fields that a called workflow accepts, or None for all, as before version 1.1."""
    if node.type != "executeWorkflowTrigger" or node.version < 1.1:
        return None
    source = node.parameters.get("inputSource", "workflowInputs")
    if source == "workflowInputs":
        inputs = node.parameters.get("workflowInputs")
        rows = inputs.get("values") if isinstance(inputs, Mapping) else None
        names = (
            [row.get("name") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
        )
        return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name))
    if source == "jsonExample":
        example = js.parse_json(str(node.parameters.get("jsonExample", "")))
        return tuple(example) if isinstance(example, Mapping) else ()
    return None


_STARTS = {
    "errorTrigger": "In n8n it starts when another workflow fails.",
    "webhook": "In n8n it starts when another program calls its address.",
    "formTrigger": "In n8n it starts when somebody sends a form.",
    "emailReadImap": "In n8n it starts when a mail arrives.",
    "chatTrigger": "In n8n it starts when somebody writes in a chat.",
    "manualChatTrigger": "In n8n it starts when somebody writes in a chat.",
    "mcpTrigger": "In n8n an AI agent starts it.",
    "executeWorkflowTrigger": "In n8n another workflow starts it.",
    "rssFeedReadTrigger": "In n8n it starts when a feed has a new entry.",
    "localFileTrigger": "In n8n it starts when a file changes.",
    "evaluationTrigger": "In n8n it starts to evaluate an AI model.",
    "sseTrigger": "In n8n it starts when a server sends a message.",
}


def _started_in_n8n(trigger_type: str) -> str:
    bare_type = trigger_type.rpartition(".")[2]
    known_words = _STARTS.get(bare_type)
    if known_words is not None:
        return known_words
    service = words_of(re.sub(r"[tT]rigger\Z", "", bare_type))
    return f"In n8n an event of {service[:60] or 'another service'} starts it."


def _foreign(node: Node, reason: str) -> Finding:
    if node.parameters.get("responseMode") == "lastNode":
        reason += " It answers with the output of the last step, and here nobody receives that answer."
    todo = "Here you start it by hand, on a schedule or by a store event; choose when you set it up."
    return Finding(node.name, FindingLevel.WARNING, "foreign_trigger", f"{reason} {todo}")


def output_count(node: Node) -> int:
    """Returns how many outputs a trigger has: one, or one for each method of a webhook with several."""
    return len(_methods(node)) or 1


def _methods(node: Node) -> list[str]:
    """Returns the methods for which a webhook has outputs of their own."""
    if node.type != "webhook" or node.parameters.get("multipleMethods") is not True:
        return []
    methods = node.parameters.get("httpMethod", ["GET", "POST"])
    return [str(method) for method in methods] if isinstance(methods, list) else []


def several_outputs(node: Node, output: int) -> Finding:
    """Returns the warning that a run begins at only one of a webhook's connected outputs."""
    message = (
        "In n8n it has an output for each kind of call. "
        f"A run here begins at the output {_methods(node)[output][:20]}, which leads to most steps; "
        "what only its other outputs lead to does not run. Import it again with the other output connected."
    )
    return Finding(node.name, FindingLevel.WARNING, "foreign_trigger", message)


def _by_event(node: Node) -> ProposedTrigger:
    if node.type == "wooCommerceTrigger":
        topic = _WOO_EVENTS.get(str(node.parameters.get("event", "")))
    else:
        topic_name = str(node.parameters.get("topic", ""))
        topic = topic_name if topic_name in TOPICS else None
    if topic is None:
        proposal = ProposedTrigger(
            PlanTrigger(node.name, "manual", replaced=node.type, position=node.position)
        )
        proposal.findings.append(
            _foreign(node, "In n8n it starts by an event that stores do not report to Steward.")
        )
        return proposal
    return ProposedTrigger(PlanTrigger(node.name, "event", topics=(topic,), position=node.position))


def _scheduled(node: Node) -> ProposedTrigger:
    reading = schedules.read_schedule(node.type, node.parameters)
    if reading.is_empty:
        proposal = ProposedTrigger(PlanTrigger(node.name, "manual", position=node.position))
        proposal.findings.append(_schedule_finding(node, reading))
        return proposal
    schedule = schedules.wire(**(reading.schedule or {"cadence": "manual"}))
    tells_time = node.type == "scheduleTrigger"
    trigger = PlanTrigger(
        node.name, "schedule", schedule=schedule, position=node.position, tells_time=tells_time
    )
    proposal = ProposedTrigger(trigger)
    if reading.schedule is None or reading.difference:
        proposal.findings.append(_schedule_finding(node, reading))
    return proposal


def _schedule_finding(node: Node, reading: ScheduleReading) -> Finding:
    return Finding(node.name, FindingLevel.WARNING, "schedule_not_representable", reading.words())
