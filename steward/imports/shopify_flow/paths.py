"""Collects the paths that a flow reads, by the object they belong to, and those it cannot read."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from steward.connectors.shopify.hydration import compile_read
from steward.imports.shopify_flow import conditions, liquid_paths
from steward.imports.shopify_flow.liquid_paths import OF_LIST
from steward.imports.shopify_flow.scope import Scopes
from steward.imports.shopify_flow.settings import templates_in
from steward.imports.shopify_flow.tasks import SHOP
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Patched, PlanStep, Variable
from steward.steps.shopify_flow import selection

_SECRETS: Final = "secrets"
_FETCH: Final = "::fetch::"
_NUMBERS_AS_TEXT: Final = frozenset(("BigInt", "Decimal", "Money", "UnsignedInt64"))
_MAX_FINDINGS_OF_STEP: Final = 20  # findings on paths, per step


@dataclass(slots=True)
class UsedPaths:
    """The paths that a flow reads, with their steps: `read` by root, `fetched` by alias of the fetch.

    `as_numbers` are those that Liquid compares with a number for equality.
    """

    read: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    fetched: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    as_numbers: dict[str, list[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    reported: set[Finding] = field(default_factory=set)

    def error(self, step: str, message: str, code: str = "parameter") -> None:
        """Adds an error for a path that cannot be read, once per step."""
        finding = Finding(step, FindingLevel.ERROR, code, message)
        if finding not in self.reported:
            self.reported.add(finding)
            self.findings.append(finding)

    def equals_numbers(self, step: str, paths: Set[str], scopes: Scopes) -> None:
        """Records the paths that a step's Liquid compares with a number for equality."""
        for path in sorted(paths):
            self.as_numbers.setdefault(scopes.spelled(step, path), []).append(step)


@dataclass(frozen=True, slots=True)
class FlowInputs:
    """The names that a flow starts with: objects of its trigger, lost values, and values of a run."""

    roots: tuple[str, ...]
    lost: tuple[str, ...]
    by_run: tuple[str, ...] = ()


def used(steps: Sequence[PlanStep], scopes: Scopes, inputs: FlowInputs) -> UsedPaths:
    """Returns the paths that all steps read, and findings on those that cannot be read."""
    used_paths = UsedPaths()
    roots = {SHOP, *inputs.roots}
    loops = {str(step.config["item"]) for step in steps if isinstance(step.config.get("item"), str)}
    by_name = {step.name: step for step in steps}
    for step in steps:
        reported = len(used_paths.findings)
        for path in _paths_of_step(step, scopes, roots, used_paths):
            if len(used_paths.findings) - reported < _MAX_FINDINGS_OF_STEP:
                _assign_path(used_paths, step.name, path, scopes, by_name, roots, loops, inputs)
    return used_paths


def _paths_of_step(step: PlanStep, scopes: Scopes, roots: set[str], used_paths: UsedPaths) -> list[str]:
    """Returns the paths that a step reads, under its own names; reports those that are unclear."""
    config, paths = step.config, list[str]()
    tree = config.get("condition")
    if isinstance(tree, Mapping):
        paths += conditions.paths_in(tree)
    path = config.get("list")
    if isinstance(path, str):
        paths.append(path)
    if step.operation == "code":
        try:
            paths += selection.read_selection(str(config.get("input") or "")).paths()
        except selection.UnreadableSelection:
            return paths  # reported by the step's own check
    names = roots | set(scopes.variables) | set(scopes.of[step.name].items) | {_SECRETS}
    paths += _paths_of_texts(step, scopes, names, used_paths)
    return list(dict.fromkeys(paths))


def _paths_of_texts(step: PlanStep, scopes: Scopes, names: set[str], used_paths: UsedPaths) -> list[str]:
    """Returns the paths that the Liquid texts of a step read; reports those that are not clear."""
    paths: list[str] = []
    for text in dict.fromkeys(templates_in(step.config)):
        try:
            read = liquid_paths.paths_of(text, names)
        except liquid_paths.TooManyMeanings:
            message = "A text of it gives its names too many meanings to be followed. Make it simpler."
            used_paths.error(step.name, message, "expression_feature")
            continue
        paths += [".".join(liquid_path) for liquid_path in read.paths]
        used_paths.equals_numbers(
            step.name, {".".join(number_path) for number_path in read.as_numbers}, scopes
        )
        for liquid_path in read.unclear:
            message = f"It reads a field of “{liquid_path[:80]}” by a computed name. Write the name."
            used_paths.error(step.name, message, "expression_feature")
    return paths


def _assign_path(
    used_paths: UsedPaths,
    step: str,
    path: str,
    scopes: Scopes,
    by_name: Mapping[str, PlanStep],
    roots: set[str],
    loops: set[str],
    inputs: FlowInputs,
) -> None:
    """Records a path under the object it is read from, or reports why it cannot be read."""
    full_path = scopes.spelled(step, path)
    head, _, members = full_path.partition(".")
    if head in roots:
        used_paths.read.setdefault(head, {}).setdefault(full_path, []).append(step)
        return
    if full_path in inputs.by_run:
        return
    other = scopes.variables.get(head)
    if other is not None:
        _of_step(used_paths, step, by_name[other], members, scopes)
    elif head in loops:
        message = f"“{head[:80]}” exists only within its for-each. Use it in the loop's own steps."
        used_paths.error(step, message, "expression_feature")
    elif head == _SECRETS:
        message = "It uses a secret of Shopify Flow, which no connection holds here. Remove the step."
        used_paths.error(step, message, "credential")
    elif head in inputs.lost:
        message = f"No event of the store contains “{head[:80]}”. Remove it."
        used_paths.error(step, message)
    else:
        message = (
            f"“{full_path[:120]}” is nothing this flow has, no object of its trigger and no step’s output."
        )
        message += " Do without it."
        used_paths.error(step, message)


def _of_step(used_paths: UsedPaths, step: str, other: PlanStep, members: str, scopes: Scopes) -> None:
    """Checks a path below an earlier step's output, and records it if that step fetches objects."""
    if not scopes.runs_before(step, other.name):
        message = (
            f"It uses what “{other.name[:80]}” gives, which has not run by then. Place it after that step."
        )
        used_paths.error(step, message, "expression_feature")
    elif not scopes.can_use_output(step, other.name):
        message = f"The output of “{other.name[:80]}” is gone after a wait. Place that step after the wait."
        used_paths.error(step, message, "expression_feature")
    if not _may_output(other, members):
        message = f"“{members[:120]}” is not a field of the output of “{other.name[:80]}”. Correct the name."
        used_paths.error(step, message, "expression_feature")
    task = other.origin.source_type if other.origin is not None else ""
    if _FETCH in task and other.origin is not None:
        alias = str(other.origin.alias)
        path = f"{alias}.{members}" if members else alias
        used_paths.fetched.setdefault(alias, {}).setdefault(path, []).append(step)


def _may_output(step: PlanStep, members: str) -> bool:
    """Returns whether a step's output may have a path; code with output types has only typed paths."""
    text = str(step.config.get("output_schema") or "") if step.operation == "code" else ""
    try:
        schema = selection.read_schema(text) if text.strip() else None
    except selection.UnreadableSelection:
        return True  # reported by the step's own check
    return schema is None or schema.has([name for name in members.split(".") if name not in OF_LIST and name])


def variables(
    used_paths: UsedPaths, steps: Sequence[PlanStep], patched: tuple[Patched, ...]
) -> list[Variable]:
    """Returns the queries for the start's objects and for each step that fetches objects.

    Paths that cannot be read become findings of the steps that use them.
    """
    plan_variables = [
        Variable(root, tuple(sorted(paths)), _compiled(used_paths, root, root, paths, patched), patched)
        for root, paths in sorted(used_paths.read.items())
    ]
    for step in steps:
        alias = step.origin.alias if step.origin is not None else None
        if alias is not None and _FETCH in (step.origin.source_type if step.origin is not None else ""):
            paths = {alias: [step.name], **used_paths.fetched.get(alias, {})}
            query = _compiled(used_paths, alias, str(step.config.get("object")), paths, patched)
            plan_variables.append(Variable(alias, tuple(sorted(paths)), query, patched))
    return plan_variables


def _compiled(
    used_paths: UsedPaths,
    name: str,
    root: str,
    paths: Mapping[str, Sequence[str]],
    patched: tuple[Patched, ...],
) -> str:
    """Returns the query for the object that a flow calls `name`; its problems become findings."""
    compiled = compile_read(root, sorted(root + path.removeprefix(name) for path in paths), patched)
    wrong: set[str] = set()
    for schema_path, message in compiled.problems:
        path = name + schema_path.removeprefix(root)
        users = paths.get(path) or sorted({step for steps in paths.values() for step in steps})[:1]
        wrong.add(path)
        for step in dict.fromkeys(users):
            used_paths.error(step, f"“{path[:120]}” cannot be read. {message}")
    _report_equalities(used_paths, name, root, compiled.types)
    for schema_path in compiled.lists:
        listed = name + schema_path.removeprefix(root)
        first = _first_user(listed, paths, wrong)
        if first is None:
            continue
        message = (
            f"Of “{listed[:120]}” at most 250 are read; the rest is left out. Check whether that is enough."
        )
        used_paths.findings.append(Finding(first, FindingLevel.WARNING, "parameter", message))
    return compiled.query


def _report_equalities(used_paths: UsedPaths, name: str, root: str, types: Mapping[str, str]) -> None:
    """Adds an error for each step whose Liquid compares an amount with a number for equality."""
    for schema_path in (path for path, kind in types.items() if kind in _NUMBERS_AS_TEXT):
        path = name + schema_path.removeprefix(root)
        message = f"It compares “{path[:120]}” with a number by == or !=, and stores give it as a text."
        for step in used_paths.as_numbers.get(path, ()):
            used_paths.error(step, f"{message} Use <= and >=, or a text in quotes.", "expression_feature")


def _first_user(listed: str, paths: Mapping[str, Sequence[str]], wrong: set[str]) -> str | None:
    """Returns the first step that uses a list, or a readable path below it."""
    for path, steps in paths.items():
        if path not in wrong and (path == listed or path.startswith(f"{listed}.")):
            return steps[0]
    return None
