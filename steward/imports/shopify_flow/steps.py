"""One task of a flow into one step: name, variable, settings, and what cannot run (imports 7, 8.3)."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from steward.connectors.shopify.hydration import OBJECTS
from steward.imports.n8n.unwrap import LONGEST_NAME, LONGEST_TITLE
from steward.imports.shopify_flow.file import Task
from steward.imports.shopify_flow.settings import Settings, read_settings
from steward.imports.shopify_flow.tasks import camel, is_message, label_of
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import PlanStep, StepKind, StepSource
from steward.steps.shopify_flow.task_types import ONWARD, FlowType, TaskDefinition
from steward.steps.shopify_flow.types import FLOW_TYPES

UNSUPPORTED: Final = "unsupported"
OUTPUT: Final = "output"  # the file's name of the port of a task that has but one
_GID = re.compile(r"gid://shopify/(\w{1,60})/\d+")
_NUMBER = re.compile(r"\d{6,20}\Z")
_OWN_IDS: Final = frozenset(("id", "legacyResourceId"))


@dataclass(slots=True)
class Names:
    """Names and variables given so far: a label's second step is “Add order tags 2”, its variable `…1`."""

    used: frozenset[str] = frozenset()  # every word of the file's settings
    taken: set[str] = field(default_factory=set)
    variables: Counter[str] = field(default_factory=Counter)
    given: set[str] = field(default_factory=set)  # variables, each of one step alone
    numbered: set[str] = field(default_factory=set)  # those told apart by the order of the file

    def name(self, wanted: str) -> str:
        """A name no other step has."""
        bare = wanted if len(wanted) <= LONGEST_NAME else wanted[: LONGEST_NAME - 3] + "…"
        found, number = bare, 2
        while found in self.taken:
            tail = f" {number}"
            found = bare[: LONGEST_NAME - len(tail)] + tail
            number += 1
        self.taken.add(found)
        return found

    def variable(self, wanted: str | None, name: str) -> str | None:
        """What later steps call its output, numbered as the origin does it.

        Of a step with a name of its own that is its name, where the file uses it so, else the label's;
        never that of an object of the store, which it would hide from all other steps.
        """
        if wanted is None:
            return None
        own = camel(name)
        if own != wanted and own in self.used and own not in OBJECTS:
            wanted = own
        while True:
            number = self.variables[wanted]
            self.variables[wanted] += 1
            found = f"{wanted}{number}" if number else wanted
            if found not in self.given:
                self.given.add(found)
                self.numbered |= {found} if number else set()
                return found


def name_of(task: Task) -> str:
    """The name a task asks for: its own, else the label of what it does."""
    kind = FLOW_TYPES.get(task.task)
    label = kind.label if kind is not None and kind.label else label_of(task.task)
    return task.name or label


def step_of(task: Task, names: Names, ports: Iterable[str]) -> tuple[PlanStep, list[Finding]]:
    """The step of a task and what was found; `ports` are those its links leave from."""
    name = names.name(name_of(task))
    kind = FLOW_TYPES.get(task.task)
    if task.wrong is not None:
        words = f"{task.wrong} Open the flow in the product and export it again."
        return _unsupported(task, name, ports, ("parameter", words))
    if kind is None:
        return _unsupported(task, name, ports, _why(task))
    if task.version not in kind.versions:
        known = " and ".join(f"{one:g}" for one in kind.versions)
        words = f"Version {task.version:g} of this step is not known; known is {known}. Build the step anew."
        return _unsupported(task, name, ports, ("node_version", words))
    try:
        return _known(task, name, kind, names)
    except (AttributeError, TypeError, ValueError, KeyError, IndexError):
        words = "Its settings are not of the shape the product writes. Build the step anew and export again."
        return _unsupported(task, name, ports, ("parameter", words))


def _known(task: Task, name: str, kind: FlowType, names: Names) -> tuple[PlanStep, list[Finding]]:
    settings = read_settings(task, kind.fields)
    definition = TaskDefinition(name, task.task, settings.config)
    problems = list(settings.problems)
    if not problems:
        problems += kind.check(definition)
    found = [Finding(name, FindingLevel(one.level), one.code, one.message) for one in problems]
    needs = kind.required_connection(definition)
    if needs in ("spreadsheet", "teams"):
        words = (
            f"It needs a {' or '.join(kind.connection_kinds or (needs,))} connection. Bind one to this step."
        )
        found.append(Finding(name, FindingLevel.WARNING, "credential", words))
    found += [
        Finding(
            name, FindingLevel.WARNING, "store_specific_value", f"{what} Confirm that it is of your store."
        )
        for what in _store_specific(settings)
    ]
    origin = StepSource(
        source_type=task.task,
        source_version=task.version,
        needs=needs,
        target=kind.target(definition),
        alias=names.variable(kind.variable_of(definition), task.name),
        supported=not any(one.level is FindingLevel.ERROR for one in found),
        ports=kind.ports(definition),
        place=task.place,
    )
    title = _title(kind.title(definition), task)
    step = PlanStep(
        name, title, kind.kind_of(definition), kind.operation(definition), settings.config, origin
    )
    return step, list(dict.fromkeys(found))


def _unsupported(
    task: Task, name: str, ports: Iterable[str], why: tuple[str, str]
) -> tuple[PlanStep, list[Finding]]:
    origin = StepSource(
        source_type=task.task[:200] or UNSUPPORTED,
        source_version=task.version,
        supported=False,
        ports=tuple(dict.fromkeys(ONWARD if one in ("", OUTPUT) else one[:40] for one in ports)) or (ONWARD,),
        place=task.place,
    )
    step = PlanStep(name, _title(name, task), StepKind.DECIDE, UNSUPPORTED, {}, origin)
    return step, [Finding(name, FindingLevel.ERROR, *why)]


def _why(task: Task) -> tuple[str, str]:
    """The finding's code and words for a task that cannot run here."""
    if is_message(task.task):
        words = (
            "It sends a message, and no kind of connection here does that. Replace it by an internal email, "
        )
        words += "whose text goes to a Teams channel here, or remove it."
        return "credential", words
    shown = task.task[:80]
    if not task.task.startswith("shopify::"):
        return "node_type", f"“{shown}” is a task of an app and cannot run here. Remove the step."
    return "node_type", f"A step of kind “{shown}” cannot run here. Remove the step."


def _title(words: str, task: Task) -> str:
    title = f"{words}: {task.note}" if task.note else words
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…"


def port_of(step: PlanStep, port: str) -> str | None:
    """The port of a step a link leaves from; None: it has none of that name."""
    ports = step.origin.ports if step.origin is not None else ()
    if port in ("", OUTPUT) and ports == (ONWARD,):
        return ONWARD
    return port if port in ports and port != ONWARD else None


def _store_specific(settings: Settings) -> list[str]:
    """Ids of objects of one store, written out in a step (imports 7)."""
    found: list[str] = []
    open_: list[tuple[str, Any]] = list(settings.config.items())
    while open_:
        where, here = open_.pop(0)
        if isinstance(here, Mapping):
            path = here.get("path")
            if isinstance(path, str) and path.rpartition(".")[2] in _OWN_IDS and here.get("value"):
                found.append(f"It compares “{path[:80]}” with an id of one store, {str(here['value'])[:80]}.")
            open_ += [(where, one) for key, one in here.items() if key not in ("chunks", "lang")]
        elif isinstance(here, list):
            open_ += [(where, one) for one in here]
        elif isinstance(here, str):
            found += [f"An id of one store stands in {where[:80]}: {hit[0]}." for hit in _GID.finditer(here)]
            if where.endswith("_id") and _NUMBER.match(here):
                found.append(f"An id of one store stands in {where[:80]}: {here}.")
    return list(dict.fromkeys(found))[:20]
