"""Reads an export of any source: its plan and findings, with scripts and expressions compiled."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from steward.imports import report
from steward.imports.content import Content, Unreadable
from steward.imports.n8n import graph
from steward.imports.n8n import read as workflow_tool
from steward.imports.n8n.field_labels import label_of
from steward.imports.report import ImportReport
from steward.imports.secrets.variables import is_key
from steward.imports.shopify_flow import read as store_flow
from steward.imports.step_templates import templates_of
from steward.model import plan_json
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import DataMode, N8nVariable, OnError, Plan, PlanStep, PlanTrigger
from steward.steps.n8n.nodes.code import script_of
from steward.steps.workflow.execute import raw_parameters
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import Chunk, Lang, ParameterTemplate
from steward.steps.workflow.expressions.views import (
    CheckRequest,
    CodeStopped,
    ExpressionProblem,
    Script,
    ScriptMode,
)

_READERS = {workflow_tool.SOURCE: workflow_tool.read, store_flow.SOURCE: store_flow.read}
SOURCES = tuple(_READERS)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_INVALID = "The export contains invalid characters. Export it again."
_GUARDED = re.compile(r"\bisExecuted\b|\bcatch\b")  # a script that handles steps that did not run
_LISTED_STEPS = 5
_SCRIPTS = frozenset(("code", "function", "functionItem", "aiTransform"))


@dataclass(frozen=True, slots=True)
class ImportReading:
    """A read export: its plan, report and cleaned content."""

    plan: Plan
    report: ImportReport
    cleaned: Mapping[str, Any]


async def read_export(
    source: str, content: Content, name: str | None, evaluator: Evaluator | None
) -> ImportReading:
    """Reads and checks an export. Raises Unreadable.

    Without an evaluator, expressions and scripts are not compiled.
    """
    reader = _READERS.get(source)
    if reader is None:
        raise Unreadable("Exports of this source are not known. Send one of n8n or of Shopify Flow.")
    try:
        # a large export takes over a second, so it must not block other requests
        export = await asyncio.to_thread(reader, content, name)
    except UnicodeEncodeError:
        raise Unreadable(_INVALID) from None
    findings = list(export.findings)
    if export.plan.mode is DataMode.ITEMS:
        findings += _references(export.plan)
    plan = export.plan
    if evaluator is not None:
        plan, problems = await _compiled(plan, evaluator, export.key_variables)
        findings += problems
    plan = _marked(plan, findings)
    reading = ImportReading(plan, report.report_of(plan, findings), export.cleaned)
    if _SURROGATE_ESCAPE.search(content.text):
        _check_characters(reading)
    return reading


def _check_characters(reading: ImportReading) -> None:
    """Raises Unreadable for lone surrogates, however deeply escaped: they can be neither stored nor shown."""
    findings = [finding.wire() for finding in reading.report.findings]
    try:
        text = json.dumps([plan_json.to_json(reading.plan), findings, reading.cleaned], ensure_ascii=False)
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unreadable(_INVALID) from None


def _marked(plan: Plan, findings: list[Finding]) -> Plan:
    """Returns the plan with steps that have an error marked as unsupported."""
    blocked = {finding.step for finding in findings if finding.level is FindingLevel.ERROR}
    steps = tuple(
        replace(step, origin=replace(step.origin, supported=False))
        if step.name in blocked and step.origin is not None
        else step
        for step in plan.steps
    )
    return replace(plan, steps=steps)


def _references(plan: Plan) -> list[Finding]:
    """Returns an error for each reference to a step that does not exist, never runs, or runs later.

    A step whose failure the workflow tolerates continues without it, as in n8n.
    """
    entry = plan.entry()
    names = {step.name for step in plan.steps} | {trigger.name for trigger in plan.triggers}
    # including disabled steps, which pass their items on
    executed = {step.name for step in plan.steps if step.origin is not None and step.origin.reachable}
    executed |= set() if entry is None else {entry.name}
    steps_after = _steps_after(plan)
    findings: list[Finding] = []
    for step in plan.steps:
        source = step.origin
        if source is None or not source.supported or source.on_error is not OnError.STOP:
            continue
        referenced = _referenced_steps(step, source.source_type)
        for name in sorted(referenced - executed):
            message = _never_runs(name, entry) if name in names else _is_absent(name)
            findings.append(Finding(step.name, FindingLevel.ERROR, "expression_feature", message))
        later_steps = referenced & executed and (referenced & executed & steps_after(step.name)) - {step.name}
        findings += (
            Finding(step.name, FindingLevel.ERROR, "expression_feature", _runs_later(name))
            for name in sorted(later_steps)
            if step.name not in steps_after(name)  # in a loop, an earlier iteration may have run it
        )
    return findings


def _steps_after(plan: Plan) -> Callable[[str], set[str]]:
    """Returns a cached function from a step's name to the names of the steps that follow it."""
    targets = graph.targets_by_source(plan.edges)
    return lru_cache(maxsize=None)(lambda name: graph.reach_from(targets, name))


def _is_absent(name: str) -> str:
    return f"It asks for the step “{name[:80]}”, which is not there. Correct the name in n8n."


def _runs_later(name: str) -> str:
    return (
        f"It reads the output of “{name[:80]}”, which only runs after it. "
        "Change the order in n8n, or read the value from a step before it."
    )


def _never_runs(name: str, entry: PlanTrigger | None) -> str:
    start = "" if entry is None else f" behind “{entry.name[:80]}”"
    return (
        f"It reads the output of “{name[:80]}”, which does not run{start}. "
        "Connect that step in n8n, or read the value from another one."
    )


def _referenced_steps(step: PlanStep, source_type: str) -> set[str]:
    """Returns the names of the steps that a step's expressions and script require."""
    referenced: set[str] = set()
    for _, template_ in templates_of(step):
        guarded = any(isinstance(part, Chunk) and "isExecuted" in part.code for part in template_.parts)
        if not guarded and template_.steps is not None:
            referenced.update(template_.steps)
    if source_type in _SCRIPTS:
        text = script_of(source_type, raw_parameters(step.config)).text
        names_in_script, _ = template.names_in([text])
        if names_in_script is not None and not _GUARDED.search(text):
            referenced.update(names_in_script)
    return referenced


async def _compiled(plan: Plan, evaluator: Evaluator, key_variables: Set[str]) -> tuple[Plan, list[Finding]]:
    """Compiles every expression and script without running them.

    Returns the plan with the variables of n8n that it reads, and the findings. `key_variables` are keys
    whatever their names.
    """
    plan, findings = await _with_compiled_inner(plan, evaluator, key_variables)
    templates, liquid, scripts = _code_in(plan)
    if not templates and not scripts and not liquid:
        return plan, findings
    request = CheckRequest(
        templates=[template_ for _, _, template_ in templates],
        scripts=[script for _, _, script in scripts],
        liquid=[template_ for _, _, template_ in liquid],
    )
    try:
        checked = await evaluator.check(request)
    except CodeStopped as stopped:
        message = f"Its expressions could not be checked: {stopped.message}"
        return plan, [*findings, Finding(None, FindingLevel.ERROR, "expression_feature", message)]
    code_problems = [*checked.templates, *checked.liquid, *checked.scripts]
    located = [
        (step, path, problem)
        for (step, path, _), problems in zip((*templates, *liquid, *scripts), code_problems, strict=True)
        for problem in problems
    ]
    findings += [_finding(step, problem, path) for step, path, problem in located if problem.variable is None]
    reads = [
        (step, problem, path)
        for step, path, problem in located
        if problem.variable is not None and _runs(step)
    ]
    variables, variable_findings = _variables_in(reads, key_variables)
    findings += variable_findings
    return replace(plan, n8n_variables=variables), list(dict.fromkeys(findings))


_VariableRead = tuple[PlanStep, ExpressionProblem, str]  # with the path of the parameter that reads it


def _variables_in(
    reads: Sequence[_VariableRead], key_variables: Set[str]
) -> tuple[tuple[N8nVariable, ...], list[Finding]]:
    """Returns the variables of n8n that are read, without keys, and the findings of all."""
    key_reads = [read for read in reads if _is_key(read[1], key_variables)]
    findings = [_key_finding(step, problem, path) for step, problem, path in key_reads]
    variables = _variables([read for read in reads if not _is_key(read[1], key_variables)])
    findings += [_variable_finding(variable, steps) for variable, steps in variables.items()]
    return tuple(variables), findings


def _runs(step: PlanStep) -> bool:
    return step.origin is not None and step.origin.reachable and not step.origin.disabled


def _is_key(problem: ExpressionProblem, key_variables: Set[str]) -> bool:
    return is_key(str(problem.variable)) or problem.variable in key_variables


def _variables(reads: Sequence[_VariableRead]) -> dict[N8nVariable, list[str]]:
    """Returns the variables of n8n that steps read, each with the names of these steps."""
    required: dict[str, bool] = {}
    steps: dict[str, dict[str, None]] = {}
    for step, problem, _ in reads:
        name = str(problem.variable)
        required[name] = required.get(name, False) or problem.level == FindingLevel.ERROR
        steps.setdefault(name, {})[step.name] = None
    return {N8nVariable(name, is_required): list(steps[name]) for name, is_required in required.items()}


async def _with_compiled_inner(
    plan: Plan, evaluator: Evaluator, key_variables: Set[str]
) -> tuple[Plan, list[Finding]]:
    """Compiles the workflows embedded in steps; their findings become findings of these steps."""
    inner, findings = dict(plan.inner), list[Finding]()
    for step in plan.steps:
        if step.name in inner and step.origin is not None and step.origin.supported:
            inner[step.name], below = await _compiled(inner[step.name], evaluator, key_variables)
            findings += [
                replace(finding, step=step.name, message=f"In the workflow it calls: {finding.message}")
                for finding in graph.softened(inner[step.name], below)
                if _runs(step) or finding.code != "variable"
            ]
    return replace(plan, inner=inner), findings


_LocatedTemplates = list[tuple[PlanStep, str, ParameterTemplate]]


def _code_in(
    plan: Plan,
) -> tuple[_LocatedTemplates, _LocatedTemplates, list[tuple[PlanStep, str, Script]]]:
    """Returns the JavaScript templates, the Liquid templates and the scripts of the supported steps."""
    templates: _LocatedTemplates = []
    liquid: _LocatedTemplates = []
    scripts: list[tuple[PlanStep, str, Script]] = []
    for step in plan.steps:
        if step.origin is None or not step.origin.supported:
            continue
        for path, template_ in templates_of(step):
            if template_.lang is Lang.LIQUID:
                liquid.append((step, path, template_))
            elif template_.lang is not Lang.LITERAL:
                templates.append((step, path, template_))
        if (script := _script_of(step, plan)) is not None:
            scripts.append((step, "", script))
    return templates, liquid, scripts


def _script_of(step: PlanStep, plan: Plan) -> Script | None:
    """Returns the script that a step runs, if any."""
    if step.origin is None:
        return None
    if plan.mode is DataMode.ENVIRONMENT:
        return Script(str(step.config.get("script")), ScriptMode.FLOW) if step.operation == "code" else None
    if step.origin.source_type not in _SCRIPTS:
        return None
    return script_of(step.origin.source_type, raw_parameters(step.config))


def _variable_finding(variable: N8nVariable, steps: Sequence[str]) -> Finding:
    """Returns the finding of a variable of n8n that gets its value at set-up, with the steps that read it."""
    first, *others = steps
    listed = ", ".join(f"“{step[:80]}”" for step in steps[:_LISTED_STEPS])
    more = f" and {len(steps) - _LISTED_STEPS} more" if len(steps) > _LISTED_STEPS else ""
    subject = f"{listed}{more} read" if others else "It reads"
    message = f"{subject} “{variable.name[:80]}” of n8n. Give its value when you set the automation up"
    message += "." if variable.is_required else ", or leave it empty: its fallback is used then."
    level = FindingLevel.WARNING if variable.is_required else FindingLevel.NOTE
    return Finding(None if others else first, level, "variable", message)


def _key_finding(step: PlanStep, problem: ExpressionProblem, path: str) -> Finding:
    """Returns the finding of a variable of n8n that holds a key and thus gets no value at set-up."""
    variable = str(problem.variable)
    shown, position = f"“{variable[:80]}”", _position(step, problem, path)
    why = "by its name" if is_key(variable) else "since a request sends it as one"
    if problem.level == FindingLevel.ERROR:
        message = (
            f"It reads {shown}, a key {why}, and code does not get keys. {position} Use an HTTP "
            "Request step with a saved credential, or write the value into the workflow if it is not a key."
        )
        return Finding(step.name, FindingLevel.ERROR, "variable", message)
    message = f"{shown} is a key {why}, so it is empty here and its fallback is used. {position}"
    message += " Write the value into the workflow if it is not a key."
    return Finding(step.name, FindingLevel.WARNING, "variable", message)


def _position(step: PlanStep, problem: ExpressionProblem, path: str) -> str:
    label = label_of(raw_parameters(step.config), f"parameters.{path}") if path else "Its code"
    return f"({label}, from character {problem.column}.)"


def _finding(step: PlanStep, problem: ExpressionProblem, path: str) -> Finding:
    level = FindingLevel(problem.level)
    # Invalid JavaScript fails in n8n as well, so a tolerated failure is only a warning.
    if (
        problem.syntax
        and level is FindingLevel.ERROR
        and step.origin
        and step.origin.on_error is not OnError.STOP
    ):
        level = FindingLevel.WARNING
    message = f"{problem.message} {_position(step, problem, path)} {problem.what_to_do}"
    return Finding(step.name, level, problem.code, message)


__all__ = ["SOURCES", "ImportReading", "Unreadable", "read_export", "templates_of"]
