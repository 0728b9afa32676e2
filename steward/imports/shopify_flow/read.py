"""Reads an export of Shopify Flow into a Plan and findings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steward.imports.content import Content, Unreadable, parsed
from steward.imports.n8n import graph
from steward.imports.n8n.read import MAX_BOUND_STEPS, ReadExport
from steward.imports.n8n.schedules import wire
from steward.imports.reach import reach_findings
from steward.imports.shopify_flow import file, paths, scope, waits
from steward.imports.shopify_flow.file import Flow, Task
from steward.imports.shopify_flow.schedules import read_recurrence
from steward.imports.shopify_flow.secrets import without_secrets
from steward.imports.shopify_flow.settings import with_resolved_names
from steward.imports.shopify_flow.steps import StepNames, port_of, step_of
from steward.imports.shopify_flow.tasks import SCHEDULED, FlowTrigger, label_of, started_by
from steward.model.finding import Finding, FindingLevel
from steward.model.json import JsonObject
from steward.model.plan import DataMode, Plan, PlanEdge, PlanStep, PlanTrigger
from steward.steps.shopify_flow.task_types import ONWARD

SOURCE = "store_flow"
_WORD = re.compile(r"[A-Za-z_]\w*")


def read(content: Content, name: str | None = None) -> ReadExport:
    """Returns the plan of an export. Raises Unreadable if it is no export or cannot be stored."""
    text, checksum_matches = file.split(content.text)
    export = read_value(parsed(text), content.sha256, name)
    if checksum_matches is not True:
        message = "Its checksum does not fit its text" if checksum_matches is False else "It has no checksum"
        message += ": it was changed after it was exported, or cut. Look at every step, or export it again."
        export.findings.insert(0, Finding(None, FindingLevel.WARNING, "checksum_mismatch", message))
    return export


def read_value(value: Any, sha256: str | None = None, name: str | None = None) -> ReadExport:
    """Like `read`, for the JSON after the checksum."""
    file.root_of(value)
    cleaned, secrets = without_secrets(value)
    flow = file.flow_of(cleaned)
    reading = _FlowReader(flow, names=StepNames(_words(flow)))
    reading.about_file()
    trigger = reading.start()
    steps = reading.steps()
    edges = reading.edges(trigger.name)
    reading.secrets(cleaned, secrets)
    scopes = scope.scopes_of(steps, edges, trigger.name)
    reading.circles(scopes)
    used = paths.used(steps, scopes, paths.FlowInputs(reading.roots, reading.lost, reading.run_values))
    plan = Plan(
        steps=tuple(steps),
        edges=tuple(dict.fromkeys(edges)),
        source=SOURCE,
        source_sha256=sha256,
        name=name or flow.name,
        timezone=reading.timezone,
        mode=DataMode.ENVIRONMENT,
        triggers=(trigger,),
        variables=tuple(paths.variables(used, steps, tuple(flow.patched))),
    )
    plan = graph.arranged(plan, by_port=True)
    findings = (
        reading.findings + used.findings + waits.wait_findings(edges, scopes) + graph.reads_beside(plan)
    )
    findings += reach_findings(plan)
    if (
        sum(step.origin is not None and step.origin.needs is not None for step in plan.steps)
        > MAX_BOUND_STEPS
    ):
        raise Unreadable(
            f"More than {MAX_BOUND_STEPS} of its steps need a connection. Split it and import the parts."
        )
    return ReadExport(plan, findings, cleaned)


@dataclass(slots=True)
class _FlowReader:
    flow: Flow
    findings: list[Finding] = field(default_factory=list)
    names: StepNames = field(default_factory=StepNames)
    steps_by_id: dict[str, PlanStep] = field(default_factory=dict)  # by id in the file
    roots: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    run_values: tuple[str, ...] = ()
    same: Mapping[str, str] = field(default_factory=dict)
    timezone: str | None = None
    trigger_name: str = ""
    order: list[str] = field(default_factory=list)  # names of the steps in the file

    def add_finding(self, step: str | None, level: FindingLevel, code: str, message: str) -> None:
        """Adds a finding."""
        self.findings.append(Finding(step, level, code, message))

    def about_file(self) -> None:
        """Adds findings on the file's version and on parts that were left out."""
        if self.flow.version != file.VERSION:
            message = (
                f"The file is of version {self.flow.version:g}; {file.VERSION:g} is known. Check every step."
            )
            self.add_finding(None, FindingLevel.WARNING, "node_version", message)
        for message in self.flow.oddities:
            self.add_finding(
                None, FindingLevel.WARNING, "parameter", f"{message} Check whether anything needs it."
            )

    def start(self) -> PlanTrigger:
        """Returns the plan's start for the flow's trigger, and adds its findings."""
        task = self.flow.trigger
        if task.task == SCHEDULED:
            return self._scheduled(task)
        started = started_by(task.task)
        self.trigger_name = self.names.name(task.name or (started.label if started else label_of(task.task)))
        if started is None:
            message = f"Its trigger “{task.task[:80]}” is not supported here. The automation's own trigger "
            message += "replaces it: choose a schedule, a store event or start it by hand."
            self.add_finding(self.trigger_name, FindingLevel.WARNING, "foreign_trigger", message)
            return PlanTrigger(self.trigger_name, "manual", replaced=task.task[:200], position=task.position)
        self.roots, self.lost, self.same = started.roots, started.lost, started.paths_by_value
        self._trigger_findings(task, started)
        return PlanTrigger(self.trigger_name, "event", topics=started.topics, position=task.position)

    def _trigger_findings(self, task: Task, started: FlowTrigger) -> None:
        """Adds findings on differences of a trigger: its settings, its version, and a broader topic."""
        if started.wider:
            message = f"No event of the store is the same. {started.wider} Check whether that is right."
            self.add_finding(self.trigger_name, FindingLevel.WARNING, "foreign_trigger", message)
        if task.version != file.VERSION:
            message = (
                f"Version {task.version:g} of this trigger is not known. Check whether it starts as it did."
            )
            self.add_finding(self.trigger_name, FindingLevel.WARNING, "node_version", message)
        for name, text in task.fields.items():
            if text.strip():
                message = f"Its setting “{name[:80]}” does not narrow what starts it here. Add a condition."
                self.add_finding(self.trigger_name, FindingLevel.WARNING, "parameter", message)

    def _scheduled(self, task: Task) -> PlanTrigger:
        self.trigger_name = self.names.name(task.name or "Scheduled time")
        self.run_values = ("scheduledAt",)
        recurrence = read_recurrence(task.fields.get("recurrence", ""))
        self.timezone = recurrence.zone
        schedule: JsonObject | None = recurrence.schedule
        if schedule is None:
            message = (
                f"No schedule here is the same. The nearest is {recurrence.nearest}; choose one at set-up."
            )
            self.add_finding(self.trigger_name, FindingLevel.WARNING, "schedule_not_representable", message)
            schedule = wire(cadence="manual")
        return PlanTrigger(self.trigger_name, "schedule", schedule=schedule, position=task.position)

    def steps(self) -> list[PlanStep]:
        """Returns the steps of all tasks and adds their findings."""
        ports: dict[str, list[str]] = {}
        for link in self.flow.links:
            ports.setdefault(link.source, []).append(link.port)
        steps_: list[PlanStep] = []
        for task in self.flow.tasks:
            step, findings = step_of(task, self.names, ports.get(task.id, ()))
            if self.same:
                step = replace(step, config=with_resolved_names(step.config, self.same))
            steps_.append(step)
            self.order.append(step.name)
            self.findings += findings
            if task.id in self.steps_by_id or task.id == self.flow.trigger.id:
                message = "Another step of the file has the same id, so what leads to it is not clear. "
                message += "Export it again."
                self.add_finding(step.name, FindingLevel.ERROR, "parameter", message)
            self.steps_by_id.setdefault(task.id, step)
            self._numbered(step)
        return steps_

    def _numbered(self, step: PlanStep) -> None:
        """Adds a finding for a variable shared by several steps of the same kind."""
        alias = step.origin.alias if step.origin is not None else None
        if alias in self.names.numbered and alias in self.names.used:
            message = (
                f"Several steps could be what the flow calls “{alias[:80]}”. Here it is this one, by the "
            )
            message += "order of the file. Check whether it is the one that is meant."
            self.add_finding(step.name, FindingLevel.WARNING, "parameter", message)

    def edges(self, trigger: str) -> list[PlanEdge]:
        """Returns the links; leaves out and reports those that lead nowhere."""
        edges: list[PlanEdge] = []
        for link in self.flow.links:
            target = self.steps_by_id.get(link.target)
            if target is None or link.target == self.flow.trigger.id:
                message = f"A connection leads to “{link.target[:80]}”, which is not a step. It was left out."
                self.add_finding(None, FindingLevel.WARNING, "parameter", message)
            elif link.input not in ("", "input"):
                message = (
                    f"A connection leads to its input “{link.input[:40]}”, which it does not have here. "
                )
                self.add_finding(
                    target.name,
                    FindingLevel.ERROR,
                    "parameter",
                    message + "Build the step again in Shopify Flow.",
                )
            elif link.source == self.flow.trigger.id:
                edges.append(PlanEdge(trigger, ONWARD, target.name))
            elif (source := self.steps_by_id.get(link.source)) is None:
                message = (
                    f"A connection comes from “{link.source[:80]}”, which is not there. It was left out."
                )
                self.add_finding(None, FindingLevel.WARNING, "parameter", message)
            elif (port := port_of(source, link.port)) is None:
                message = (
                    f"A connection leaves from its output “{link.port[:40]}”, which it does not have here. "
                )
                self.add_finding(
                    source.name,
                    FindingLevel.ERROR,
                    "parameter",
                    message + "Build the step again in Shopify Flow.",
                )
            else:
                edges.append(PlanEdge(source.name, port, target.name))
        return edges

    def secrets(self, cleaned: Mapping[str, Any], places: list[tuple[int | None, str]]) -> None:
        """Adds a finding for each place that held a credential, by step and field."""
        by_place = self._by_place(cleaned)
        for index, where in places:
            step = by_place.get(index) if index is not None else None
            message = f"A credential was in {where[:120]} and was not kept. Remove it from the flow."
            self.add_finding(step, FindingLevel.WARNING, "secret_removed", message)
            is_reported = any(
                (finding.step, finding.code) == (step, "credential") for finding in self.findings
            )
            if where == "url" and step is not None and not is_reported:
                message = "Its address is itself a key, and no key is taken from a file. Remove the step."
                self.add_finding(step, FindingLevel.ERROR, "credential", message)

    def _by_place(self, cleaned: Mapping[str, Any]) -> dict[int, str]:
        """Returns the steps' names by position in the file's list."""
        names = iter(self.order)
        rows = cleaned["root"]["steps"]
        return {
            index: self.trigger_name if row.get("task_type") == file.TRIGGER else next(names)
            for index, row in enumerate(rows)
            if isinstance(row, Mapping)
        }

    def circles(self, scopes: scope.Scopes) -> None:
        """Adds findings for steps that lead back to themselves, which Shopify Flow does not allow."""
        for name in scopes.circles:
            message = (
                "What follows it leads back to it, which Shopify Flow does not allow. Export the flow again."
            )
            self.add_finding(name, FindingLevel.ERROR, "parameter", message)


def _words(flow: Flow) -> frozenset[str]:
    """Returns all words in the settings, some of which name variables of steps."""
    return frozenset(
        word for task in flow.tasks for text in task.fields.values() for word in _WORD.findall(text)
    )
