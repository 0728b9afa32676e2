"""Reads an n8n export into a Plan and findings; a node that cannot run is a finding, not an error."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steward.imports.content import Content, Unreadable, parsed
from steward.imports.n8n import graph, start_fields, steps, triggers, unwrap
from steward.imports.n8n.form_pages import with_pages
from steward.imports.n8n.once import without_repetitions
from steward.imports.n8n.secrets import without_key_variables, without_secrets
from steward.imports.n8n.start_files import with_start_files
from steward.imports.n8n.unwrap import Node, Workflow
from steward.imports.n8n.value_findings import value_findings
from steward.imports.reach import reach_findings
from steward.model.called import CannotBeCalled, is_open, open_calls, with_called
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import DataMode, Plan, PlanEdge, PlanStep, PlanTrigger
from steward.scheduling.zones import zone
from steward.steps.n8n.nodes.subplan import calls_itself, inline
from steward.steps.workflow.step_types import MAX_SUB_WORKFLOW_DEPTH

SOURCE = "workflow_tool"
MAX_BOUND_STEPS = 500


@dataclass(slots=True)
class ReadExport:
    """The result of reading: the plan, the findings, and the content without secrets.

    `key_variables` are the variables of n8n that expressions read as keys, also in called workflows.
    """

    plan: Plan
    findings: list[Finding]
    cleaned: Mapping[str, Any]
    key_variables: frozenset[str] = frozenset()


def read(content: Content, name: str | None = None) -> ReadExport:
    """Returns the plan of an export. Raises Unreadable if it is no export or cannot be stored."""
    return read_value(parsed(content.text), content.sha256, name)


def read_value(
    value: Any, sha256: str | None = None, name: str | None = None, *, depth: int = 0
) -> ReadExport:
    """Like `read`, for parsed JSON; `depth` counts the enclosing workflows."""
    raw_workflow = unwrap.unwrapped(value)
    cleaned, paths = without_secrets(raw_workflow)
    marked, key_variables = without_key_variables(cleaned)
    workflow = unwrap.workflow_of(marked)
    workflow.nodes = with_pages(workflow.nodes)
    if depth == 0:
        _check_has_usable_step(workflow)
    reading = _WorkflowReader(workflow, {node.name: node for node in workflow.nodes}, cleaned)
    for old_name, new_name in workflow.renamed:
        message = (
            f"It was called “{old_name[:80]}”; names are unique, of at most {unwrap.MAX_NAME} characters."
        )
        reading.add_finding(
            new_name, FindingLevel.NOTE, "renamed_step", f"{message} Look for it under the new name."
        )
    starts = reading.starts()
    steps_ = reading.steps()
    inner = reading.called(steps_, depth)
    edges = reading.edges({start.name for start in starts}, steps_)
    if not starts:
        starts, edges = reading.without_trigger(steps_, edges, depth)
    plan = Plan(
        steps=tuple(steps_.values()),
        edges=tuple(edges),
        source=SOURCE,
        source_sha256=sha256,
        name=name or workflow.name,
        timezone=_timezone(workflow),
        mode=DataMode.ITEMS,
        triggers=tuple(starts),
        inner=inner,
    )
    plan = graph.arranged(plan, start=triggers.call_trigger(workflow.nodes) if depth else None)
    plan = with_start_files(start_fields.with_call_fields(plan), workflow.nodes)
    reading.start_findings(plan, depth)
    plan, missing = value_findings(plan, workflow, cleaned["nodes"], paths, key_variables)
    reading.findings += missing
    reading.settings(plan)
    reading.findings += graph.findings(plan)
    _check_bound_steps(plan)
    names = reading.inner_key_variables.union(*key_variables.values())
    return ReadExport(plan, without_repetitions(plan, reading.findings), cleaned, names)


@dataclass(slots=True)
class _WorkflowReader:
    workflow: Workflow
    nodes: dict[str, Node]
    content: Mapping[str, Any]
    findings: list[Finding] = field(default_factory=list)
    findings_by_trigger: dict[str, list[Finding]] = field(default_factory=dict)
    inner_key_variables: frozenset[str] = frozenset()

    def add_finding(self, step: str | None, level: FindingLevel, code: str, message: str) -> None:
        """Adds a finding."""
        self.findings.append(Finding(step, level, code, message))

    def starts(self) -> list[PlanTrigger]:
        """Returns the enabled triggers and stores their findings."""
        plan_triggers: list[PlanTrigger] = []
        for node in self.workflow.nodes:
            if not triggers.is_trigger(node):
                continue
            if node.disabled:
                message = "This trigger is switched off, so it starts nothing. Nothing to do."
                self.add_finding(node.name, FindingLevel.NOTE, "disabled_step", message)
                continue
            proposed = triggers.proposed(node)
            plan_triggers.append(proposed.trigger)
            self.findings_by_trigger[node.name] = proposed.findings + triggers.unknown_version(node)
        return plan_triggers

    def without_trigger(
        self, steps_: dict[str, PlanStep], edges: list[PlanEdge], depth: int
    ) -> tuple[list[PlanTrigger], list[PlanEdge]]:
        """Returns a manual start at the first step, with the edges; reports if nothing could run."""
        first = graph.first_step(list(steps_.values()), edges)
        if depth or first is None:
            message = "Nothing starts this workflow, so no step of it would run. Add a trigger in n8n."
            self.add_finding(None, FindingLevel.ERROR, "nothing_runs", message)
            return [], edges
        start = triggers.manual_start(steps_)
        message = (
            f"The workflow has no trigger, so a run begins at “{first}”. "
            "Start it by hand, or choose a schedule when you set it up."
        )
        self.add_finding(None, FindingLevel.NOTE, "foreign_trigger", message)
        return [start], [PlanEdge(start.name, "out:0", first), *edges]

    def start_findings(self, plan: Plan, depth: int) -> None:
        """Adds the findings of the proposed trigger and of the steps it does not reach."""
        entry = plan.entry()
        if entry is not None:
            findings = self.findings_by_trigger.get(entry.name, [])
            self.findings += (
                findings if depth else [start_fields.with_fields(plan, finding) for finding in findings]
            )
        if not depth:
            self.findings += reach_findings(plan)

    def steps(self) -> dict[str, PlanStep]:
        """Returns the steps of all nodes except triggers, by name, and adds their findings."""
        steps_: dict[str, PlanStep] = {}
        for node in self.workflow.nodes:
            if triggers.is_trigger(node):
                continue
            step, findings = steps.step_of(node, self.workflow.targets)
            steps_[node.name] = step
            self.findings += findings
        return steps_

    def called(self, steps_: dict[str, PlanStep], depth: int) -> dict[str, Plan]:
        """Returns the workflows embedded in steps; if one cannot run, neither can its step."""
        inner_plans: dict[str, Plan] = {}
        for name, step in steps_.items():
            is_itself = calls_itself(self.nodes[name].parameters)
            if not is_itself and not _holds_workflow(step, self.nodes[name]):
                continue
            try:
                read = self._read_itself(depth) if is_itself else _read_called(self.nodes[name], depth)
                inner_plans[name] = read.plan
                self.inner_key_variables |= read.key_variables
                _check_inner_errors(read)
                steps_[name] = with_called(step, read.plan)
            except (Unreadable, CannotBeCalled) as error:
                self._refused(steps_, step, error.message)
        return inner_plans

    def _read_itself(self, depth: int) -> ReadExport:
        """Returns the workflow as it runs when it calls itself, without steps that are then not reached.

        Raises Unreadable.
        """
        if depth:
            raise Unreadable("It would call itself again and again, without an end.")
        if triggers.call_trigger(self.workflow.nodes) is None:
            raise Unreadable("It calls itself, and has no trigger for that. Add one in n8n.")
        read = read_value(self.content, depth=1)
        steps_ = tuple(step for step in read.plan.steps if step.origin is not None and step.origin.reachable)
        names = {step.name for step in steps_}
        edges = tuple(edge for edge in read.plan.edges if edge.target in names)
        inner = {name: plan for name, plan in read.plan.inner.items() if name in names}
        plan = replace(read.plan, steps=steps_, edges=edges, inner=inner)
        return replace(read, plan=plan, findings=graph.softened(read.plan, read.findings))

    def _refused(self, steps_: dict[str, PlanStep], step: PlanStep, message: str) -> None:
        self.add_finding(
            step.name,
            FindingLevel.ERROR,
            "sub_workflow_missing",
            f"The workflow it calls cannot run. {message}",
        )
        if step.origin is not None:
            steps_[step.name] = replace(step, origin=replace(step.origin, supported=False))

    def edges(self, starts: set[str], steps_: dict[str, PlanStep]) -> list[PlanEdge]:
        """Returns the connections; leaves out and reports those that lead nowhere."""
        edges: list[PlanEdge] = []
        for source_name, sides in self._connections(starts):
            source = self.workflow.targets.get(source_name)
            if source is None or not isinstance(sides, Mapping):
                if sides:
                    self._unread_connections(str(source_name), source)
                continue
            for kind, outputs in sides.items():
                if kind == "main":
                    edges += self._outputs(source, outputs, starts, steps_)
                elif isinstance(outputs, list) and any(outputs):
                    self._foreign_connection(source, str(kind))
        if len(edges) > unwrap.MAX_EDGES:
            raise Unreadable(f"This export has more than {unwrap.MAX_EDGES} connections.")
        return self._with_one_output(list(dict.fromkeys(edges)), starts)

    def _connections(self, starts: set[str]) -> Iterator[tuple[str, Any]]:
        """Yields the connections by their source, except those of triggers that are switched off."""
        for source_name, sides in self.workflow.connections.items():
            source = self.nodes.get(self.workflow.targets.get(source_name, ""))
            if source is None or source.name in starts or not triggers.is_trigger(source):
                yield source_name, sides

    def _unread_connections(self, source_name: str, source: str | None) -> None:
        """Adds the finding on connections from a missing step, or of an unknown form."""
        if source is None:
            message = f"A connection comes from “{source_name[:80]}”, which is not there. It was left out."
        else:
            message = (
                "Its connections are not in the form of n8n, which lists them by “main”, and were left out. "
                "Connect what follows it in n8n and export the workflow again."
            )
        self.add_finding(source, FindingLevel.WARNING, "parameter", message)

    def _foreign_connection(self, source: str, kind: str) -> None:
        """Adds the finding on connections that pass no items."""
        if kind.startswith("ai_"):
            message = "It is a part of an AI step, and those cannot run here. Remove both."
            self.add_finding(source, FindingLevel.ERROR, "ai_node", message)
            return
        message = f"Its connections of the kind “{kind[:40]}” are not known and were left out. "
        message += "Check what follows it in n8n."
        self.add_finding(source, FindingLevel.WARNING, "parameter", message)

    def _with_one_output(self, edges: list[PlanEdge], starts: set[str]) -> list[PlanEdge]:
        """Returns the edges without those of a trigger's outputs that a run does not begin at."""
        for start in sorted(starts):
            outputs = graph.start_outputs(edges, start)
            if outputs in ([], ["out:0"]):
                continue
            if len(outputs) > 1:
                finding = triggers.several_outputs(self.nodes[start], int(outputs[0].removeprefix("out:")))
                self.findings_by_trigger[start].append(finding)
            edges = [
                replace(edge, port="out:0") if edge.source == start else edge
                for edge in edges
                if edge.source != start or edge.port == outputs[0]
            ]
        return edges

    def _outputs(
        self, source: str, outputs: Any, starts: set[str], steps_: dict[str, PlanStep]
    ) -> list[PlanEdge]:
        edges: list[PlanEdge] = []
        for number, target in _targets(outputs):
            name = self.workflow.targets.get(str(target.get("node")))
            if source in starts:
                port = f"out:{number}" if number < triggers.output_count(self.nodes[source]) else None
            else:
                port = _port(steps_.get(source), number)
            if name is None or port is None:
                leads_on = "leads to no step" if name is None else "is left out, since it has no such output"
                message = f"The connection from its output {number + 1} {leads_on}. Check what follows it."
                self.add_finding(source, FindingLevel.WARNING, "parameter", message)
            elif name in steps_:
                input_index = target.get("index", 0)
                is_index = isinstance(input_index, int) and input_index >= 0
                edges.append(PlanEdge(source, port, name, input_index if is_index else 0))
                self._check_input(steps_[name], edges[-1].input)
                self._check_output(edges[-1], steps_)
        return edges

    def _check_output(self, edge: PlanEdge, steps_: dict[str, PlanStep]) -> None:
        """Adds an error if a connection begins at an output that only n8n fills."""
        step = steps_.get(edge.source)
        message = steps.unfilled_output(self.nodes[edge.source], edge.port) if step is not None else None
        if step is not None and step.origin is not None and message is not None:
            self.add_finding(edge.source, FindingLevel.ERROR, "parameter", message)
            steps_[edge.source] = replace(step, origin=replace(step.origin, supported=False))

    def _check_input(self, step: PlanStep, input_index: int) -> None:
        """Adds a finding if a connection leads to an input that the step does not have."""
        if step.origin is None or not step.origin.supported or input_index < step.origin.inputs:
            return
        inputs = "1 input" if step.origin.inputs == 1 else f"{step.origin.inputs} inputs"
        message = f"A connection leads to input {input_index + 1}, but this step has only {inputs}. "
        message += "Connect it to another input, or set the number of inputs, in n8n."
        self.add_finding(step.name, FindingLevel.WARNING, "parameter", message)

    def _execution_order(self, order: Any, plan: Plan) -> None:
        if order is None:
            message = "The file does not say in which order branches run; they run as in new workflows. "
            message += "Check the order of the steps."
            self.add_finding(None, FindingLevel.NOTE, "execution_order_assumed", message)
        elif order != "v1" and graph.order_matters(plan):
            message = (
                "The workflow uses the branch order of old n8n versions; here the new order (v1) is used. "
            )
            message += "Choose v1 in the workflow's settings in n8n, and check that it still does the same."
            self.add_finding(None, FindingLevel.WARNING, "parameter", message)

    def settings(self, plan: Plan) -> None:
        """Adds findings on the file's settings."""
        file_settings = self.workflow.settings
        self._execution_order(file_settings.get("executionOrder"), plan)
        for key, message in _SETTINGS.items():
            if file_settings.get(key) and file_settings[key] not in (-1, "", "none", "DEFAULT"):
                self.add_finding(None, FindingLevel.WARNING, "parameter", message)
        if self.workflow.has_pin_data:
            message = (
                "The file contains pinned sample data, which runs do not use. A test run shows real data."
            )
            self.add_finding(None, FindingLevel.NOTE, "pin_data_ignored", message)
        if (
            file_settings.get("timezone")
            and _timezone(self.workflow) is None
            and file_settings["timezone"] != "DEFAULT"
        ):
            message = "The workflow's time zone is not known. Choose one when you set it up."
            self.add_finding(None, FindingLevel.WARNING, "parameter", message)


def _targets(outputs: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields each target of a node's outputs with the number of its output."""
    for number, targets in enumerate(outputs if isinstance(outputs, list) else ()):
        for target in targets if isinstance(targets, list) else ():
            if isinstance(target, Mapping):
                yield number, target


def _holds_workflow(step: PlanStep, node: Node) -> bool:
    """Returns whether the step calls a workflow embedded in it; a person chooses any other."""
    return is_open(step, Plan((), ())) and node.parameters.get("source") == "parameter"


def _read_called(node: Node, depth: int) -> ReadExport:
    """Returns the workflow embedded in a node. Raises Unreadable."""
    if depth >= MAX_SUB_WORKFLOW_DEPTH:
        raise Unreadable(
            f"Workflows call each other more than {MAX_SUB_WORKFLOW_DEPTH} deep. Nest fewer of them."
        )
    return read_value(inline(node.parameters), depth=depth + 1)


def _check_bound_steps(plan: Plan) -> None:
    """Raises Unreadable for more steps that need a connection than an automation can bind."""
    bound = sum(step.origin is not None and step.origin.needs is not None for step in plan.steps)
    if bound > MAX_BOUND_STEPS:
        raise Unreadable(
            f"More than {MAX_BOUND_STEPS} of its steps need a connection. Split it and import the parts."
        )


def _check_inner_errors(read: ReadExport) -> None:
    """Raises Unreadable if a called workflow has an error in a step that would run."""
    for finding in graph.softened(read.plan, read.findings):
        if finding.level is FindingLevel.ERROR:
            raise Unreadable(f"{finding.step or 'The workflow'}: {finding.message}")
    for path in open_calls(read.plan):
        raise Unreadable(f"{path}: the workflow it calls is not in the file. Put its JSON into that step.")


def _check_has_usable_step(workflow: Workflow) -> None:
    """Raises Unreadable unless a node other than a trigger has a type and is enabled.

    A called workflow is exempt, since one with only a trigger returns its items.
    """
    steps = [node for node in workflow.nodes if not triggers.is_trigger(node)]
    if not steps:
        raise Unreadable(
            "This export contains only triggers. Add a step that does something and export it again."
        )
    if all(node.disabled for node in steps):
        raise Unreadable("Every step of this export is disabled. Enable one in n8n and export it again.")
    if not any(node.type and not node.disabled for node in steps):
        raise Unreadable("No enabled step of this export says what type it is. Export it from n8n again.")


_SETTINGS = {
    "errorWorkflow": "In n8n another workflow starts when a run fails; here none does. "
    "You find failed runs in the list of runs.",
    "executionTimeout": "The workflow limits how long a run may take; here Steward's own limit applies. "
    "Check that it is long enough.",
}


def _port(step: PlanStep | None, number: int) -> str | None:
    if step is None or step.origin is None:
        return None
    ports = step.origin.ports
    if number < len(ports):
        return ports[number]
    # the outputs of an unsupported step are unknown; a supported step has no such output
    return f"out:{number}" if not step.origin.supported else None


def _timezone(workflow: Workflow) -> str | None:
    name = workflow.settings.get("timezone")
    return name if isinstance(name, str) and zone(name) is not None else None
