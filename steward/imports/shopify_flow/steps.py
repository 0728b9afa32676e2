"""Converts a task of a flow to a step with a name, variable and settings, and findings."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from steward.connectors.shopify.hydration import OBJECTS
from steward.imports.n8n.unwrap import MAX_NAME, MAX_TITLE
from steward.imports.shopify_flow.file import Task
from steward.imports.shopify_flow.settings import TaskSettings, read_settings
from steward.imports.shopify_flow.tasks import camel, is_message, label_of
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import BOUND_KINDS, PlanStep, StepKind, StepSource
from steward.steps.shopify_flow.task_types import ONWARD, FlowType, TaskDefinition
from steward.steps.shopify_flow.types import FLOW_TYPES

_UNSUPPORTED: Final = "unsupported"
_OUTPUT: Final = "output"  # the file's name for the port of a task that has only one
_GID = re.compile(r"gid://shopify/(\w{1,60})/\d+")
_NUMBER = re.compile(r"\d{6,20}\Z")
_OWN_IDS: Final = frozenset(("id", "legacyResourceId"))


@dataclass(slots=True)
class StepNames:
    """The names and variables in use: a second step is named “Add order tags 2”, its variable `…1`."""

    used: frozenset[str] = frozenset()  # all words in the file's settings
    used_names: set[str] = field(default_factory=set)
    variables: Counter[str] = field(default_factory=Counter)
    used_variables: set[str] = field(default_factory=set)  # each used by a single step
    numbered: set[str] = field(default_factory=set)  # those distinguished only by the file's order

    def name(self, preferred: str) -> str:
        """Returns the preferred name, shortened and numbered to be unique."""
        bare = preferred if len(preferred) <= MAX_NAME else preferred[: MAX_NAME - 3] + "…"
        unique, number = bare, 2
        while unique in self.used_names:
            tail = f" {number}"
            unique = bare[: MAX_NAME - len(tail)] + tail
            number += 1
        self.used_names.add(unique)
        return unique

    def variable(self, preferred: str | None, name: str) -> str | None:
        """Returns the variable for a step's output, numbered as in Shopify Flow.

        It is derived from the step's own name if the file uses that variable, else from the label. It is
        never the name of a store object, which it would hide from other steps.
        """
        if preferred is None:
            return None
        from_name = camel(name)
        if from_name != preferred and from_name in self.used and from_name not in OBJECTS:
            preferred = from_name
        while True:
            number = self.variables[preferred]
            self.variables[preferred] += 1
            unique = f"{preferred}{number}" if number else preferred
            if unique not in self.used_variables:
                self.used_variables.add(unique)
                self.numbered |= {unique} if number else set()
                return unique


def _name_of(task: Task) -> str:
    """Returns the task's own name, else the label of its type."""
    kind = FLOW_TYPES.get(task.task)
    label = kind.label if kind is not None and kind.label else label_of(task.task)
    return task.name or label


def step_of(task: Task, names: StepNames, ports: Iterable[str]) -> tuple[PlanStep, list[Finding]]:
    """Returns the step of a task with its findings; `ports` are the ports that its links start from."""
    name = names.name(_name_of(task))
    kind = FLOW_TYPES.get(task.task)
    if task.wrong is not None:
        message = f"{task.wrong} Open the flow in Shopify Flow and export it again."
        return _unsupported(task, name, ports, ("parameter", message))
    if kind is None:
        return _unsupported(task, name, ports, _why(task))
    if task.version not in kind.versions:
        versions = " and ".join(f"{version:g}" for version in kind.versions)
        message = (
            f"Version {task.version:g} of this step is not known, only {versions}. Build the step again."
        )
        return _unsupported(task, name, ports, ("node_version", message))
    try:
        return _supported(task, name, kind, names)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        message = (
            "Its settings are not of the shape Shopify Flow writes. Build the step again and export again."
        )
        return _unsupported(task, name, ports, ("parameter", message))


_KIND_WORDS = {"teams": "Teams", "smtp": "a mail server (SMTP)", "gmail": "Gmail"}


def _supported(task: Task, name: str, kind: FlowType, names: StepNames) -> tuple[PlanStep, list[Finding]]:
    settings = read_settings(task, kind.fields)
    definition = TaskDefinition(name, task.task, settings.config)
    problems = list(settings.problems)
    if not problems:
        problems += kind.check(definition)
    findings = [
        Finding(name, FindingLevel(problem.level), problem.code, problem.message) for problem in problems
    ]
    needs = kind.required_connection(definition)
    if needs in BOUND_KINDS:
        kinds = [_KIND_WORDS.get(name, name) for name in kind.connection_kinds or (needs,)]
        message = f"It needs a connection: {' or '.join(kinds)}. Choose one for this step."
        findings.append(Finding(name, FindingLevel.WARNING, "credential", message))
    findings += [
        Finding(
            name, FindingLevel.WARNING, "store_specific_value", f"{hint} Confirm that it is of your store."
        )
        for hint in _store_specific(settings)
    ]
    origin = StepSource(
        source_type=task.task,
        source_version=task.version,
        needs=needs,
        target=kind.target(definition),
        alias=names.variable(kind.variable_of(definition), task.name),
        supported=not any(problem.level is FindingLevel.ERROR for problem in findings),
        ports=kind.ports(definition),
        position=task.position,
    )
    title = _title(kind.title(definition), task)
    step = PlanStep(
        name, title, kind.kind_of(definition), kind.operation(definition), settings.config, origin
    )
    return step, list(dict.fromkeys(findings))


def _unsupported(
    task: Task, name: str, ports: Iterable[str], why: tuple[str, str]
) -> tuple[PlanStep, list[Finding]]:
    origin = StepSource(
        source_type=task.task[:200] or _UNSUPPORTED,
        source_version=task.version,
        supported=False,
        ports=tuple(dict.fromkeys(ONWARD if port in ("", _OUTPUT) else port[:40] for port in ports))
        or (ONWARD,),
        position=task.position,
    )
    step = PlanStep(name, _title(name, task), StepKind.DECIDE, _UNSUPPORTED, {}, origin)
    return step, [Finding(name, FindingLevel.ERROR, *why)]


def _why(task: Task) -> tuple[str, str]:
    """Returns the code and message of the finding for an unsupported task."""
    if is_message(task.task):
        message = (
            "It sends a message, and no kind of connection here does that. Replace it by an internal email, "
        )
        message += "whose text goes to a Teams channel here, or remove it."
        return "credential", message
    task_id = task.task[:80]
    if not task.task.startswith("shopify::"):
        return "node_type", f"“{task_id}” is a task of an app and cannot run here. Remove the step."
    return "node_type", f"A step of kind “{task_id}” cannot run here. Remove the step."


def _title(words: str, task: Task) -> str:
    title = f"{words}: {task.note}" if task.note else words
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


def port_of(step: PlanStep, port: str) -> str | None:
    """Returns the port of a step that a link starts from, or None if it has no such port."""
    ports = step.origin.ports if step.origin is not None else ()
    if port in ("", _OUTPUT) and ports == (ONWARD,):
        return ONWARD
    return port if port in ports and port != ONWARD else None


def _store_specific(settings: TaskSettings) -> list[str]:
    """Returns hints about ids of a single store's objects that are written out in a step."""
    hints: list[str] = []
    open_: list[tuple[str, Any]] = list(settings.config.items())
    while open_:
        where, current = open_.pop(0)
        if isinstance(current, Mapping):
            hints += _compared_id_hints(current)
            open_ += [(where, member) for key, member in current.items() if key not in ("chunks", "lang")]
        elif isinstance(current, list):
            open_ += [(where, member) for member in current]
        elif isinstance(current, str):
            hints += [
                f"It contains an id of one store in {where[:80]}: {id_}." for id_ in _ids_in(where, current)
            ]
    return list(dict.fromkeys(hints))[:20]


def _compared_id_hints(condition: Mapping[str, Any]) -> list[str]:
    path, compared = condition.get("path"), condition.get("value")
    if isinstance(path, str) and path.rpartition(".")[2] in _OWN_IDS and compared:
        return [f"It compares “{path[:80]}” with an id of one store, {str(compared)[:80]}."]
    return []


def _ids_in(field_name: str, text: str) -> list[str]:
    """Returns the ids of store objects in a text, including the whole text of a numeric id field."""
    ids = [hit[0] for hit in _GID.finditer(text)]
    if field_name.endswith("_id") and _NUMBER.match(text):
        ids.append(text)
    return ids
