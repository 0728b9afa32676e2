"""Every path a flow uses, by the object it is read from, and what of them cannot be read (imports 8.2)."""

from collections.abc import Mapping, Sequence
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

SECRETS: Final = "secrets"
FETCH: Final = "::fetch::"
MOST_SAID: Final = 20  # findings of paths, of one step


@dataclass(slots=True)
class Used:
    """The paths of a flow: `read` by root, `fetched` by the alias that fetches; each with its users."""

    read: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    fetched: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    said: set[Finding] = field(default_factory=set)

    def error(self, step: str, words: str, code: str = "parameter") -> None:
        """A path that cannot be worked out, told once of a step."""
        finding = Finding(step, FindingLevel.ERROR, code, words)
        if finding not in self.said:
            self.said.add(finding)
            self.findings.append(finding)


@dataclass(frozen=True, slots=True)
class Given:
    """What a flow is given: its trigger's objects, what its origin would also tell, what a run tells."""

    roots: tuple[str, ...]
    lost: tuple[str, ...]
    told: tuple[str, ...] = ()


def used(steps: Sequence[PlanStep], scopes: Scopes, given: Given) -> Used:
    """Every path of every step."""
    found = Used()
    roots = {SHOP, *given.roots}
    loops = {str(step.config["item"]) for step in steps if isinstance(step.config.get("item"), str)}
    by_name = {step.name: step for step in steps}
    for step in steps:
        said = len(found.findings)
        for path in asked_by(step, scopes, roots, found):
            if len(found.findings) - said < MOST_SAID:
                _place(found, step.name, path, scopes, by_name, roots, loops, given)
    return found


def asked_by(step: PlanStep, scopes: Scopes, roots: set[str], found: Used) -> list[str]:
    """The paths of one step, in the names it uses."""
    config, asked = step.config, list[str]()
    tree = config.get("condition")
    if isinstance(tree, Mapping):
        asked += conditions.paths_in(tree)
    path = config.get("list")
    if isinstance(path, str):
        asked.append(path)
    if step.operation == "code":
        try:
            asked += selection.read_selection(str(config.get("input") or "")).paths()
        except selection.UnreadableSelection:
            return asked  # its own check says so
    known = roots | set(scopes.variables) | set(scopes.of[step.name].items) | {SECRETS}
    for text in dict.fromkeys(templates_in(config)):
        try:
            read = liquid_paths.paths_of(text, known)
        except liquid_paths.TooMuch:
            words = "A text of it gives its names too many meanings to be followed. Make it simpler."
            found.error(step.name, words, "expression_feature")
            continue
        asked += [".".join(one) for one in read.paths]
        for one in read.unclear:
            words = f"It asks “{one[:80]}” for a field whose name it works out. Name the field."
            found.error(step.name, words, "expression_feature")
    return list(dict.fromkeys(asked))


def _place(
    found: Used,
    step: str,
    path: str,
    scopes: Scopes,
    by_name: Mapping[str, PlanStep],
    roots: set[str],
    loops: set[str],
    given: Given,
) -> None:
    """Puts a path where it is read from, or says why it cannot be."""
    whole = scopes.spelled(step, path)
    head, _, rest = whole.partition(".")
    if head in roots:
        found.read.setdefault(head, {}).setdefault(whole, []).append(step)
        return
    if whole in given.told:
        return
    other = scopes.variables.get(head)
    if other is not None:
        _of_step(found, step, by_name[other], rest, scopes)
    elif head in loops:
        words = f"“{head[:80]}” is there only within its for-each. Use it in the loop's own steps."
        found.error(step, words, "expression_feature")
    elif head == SECRETS:
        words = "It uses a secret of the store's product, which no connection holds here. Remove the step."
        found.error(step, words, "credential")
    elif head in given.lost:
        words = f"“{head[:80]}” is not told by any event of the store. Do without it."
        found.error(step, words)
    else:
        words = f"“{whole[:120]}” is nothing this flow has, no object of its trigger and no step’s output."
        words += " Do without it."
        found.error(step, words)


def _of_step(found: Used, step: str, other: PlanStep, rest: str, scopes: Scopes) -> None:
    """A path below an earlier step's output."""
    if not scopes.ran(step, other.name):
        words = (
            f"It uses what “{other.name[:80]}” gives, which has not run by then. Place it after that step."
        )
        found.error(step, words, "expression_feature")
    elif not scopes.lasts(step, other.name):
        words = f"What “{other.name[:80]}” gave is gone after a wait. Place that step behind the wait."
        found.error(step, words, "expression_feature")
    if not _gives(other, rest):
        words = f"“{rest[:120]}” is no field of the output of “{other.name[:80]}”. Correct the name."
        found.error(step, words, "expression_feature")
    task = other.origin.source_type if other.origin is not None else ""
    if FETCH in task and other.origin is not None:
        alias = str(other.origin.alias)
        path = f"{alias}.{rest}" if rest else alias
        found.fetched.setdefault(alias, {}).setdefault(path, []).append(step)


def _gives(step: PlanStep, rest: str) -> bool:
    """Whether a step's output may have a path; of code whose output has types only what they name is kept."""
    text = str(step.config.get("output_schema") or "") if step.operation == "code" else ""
    try:
        schema = selection.read_schema(text) if text.strip() else None
    except selection.UnreadableSelection:
        return True  # its own check says so
    return schema is None or schema.has([one for one in rest.split(".") if one not in OF_LIST and one])


def variables(found: Used, steps: Sequence[PlanStep], patched: tuple[Patched, ...]) -> list[Variable]:
    """What is read when the flow starts, and of each step that fetches what later ones look at (imports 8.2).

    What cannot be read becomes findings of the steps that ask for it.
    """
    made = [
        Variable(root, tuple(sorted(paths)), _compiled(found, root, root, paths, patched), patched)
        for root, paths in sorted(found.read.items())
    ]
    for step in steps:
        alias = step.origin.alias if step.origin is not None else None
        if alias is not None and FETCH in (step.origin.source_type if step.origin is not None else ""):
            paths = {alias: [step.name], **found.fetched.get(alias, {})}
            query = _compiled(found, alias, str(step.config.get("object")), paths, patched)
            made.append(Variable(alias, tuple(sorted(paths)), query, patched))
    return made


def _compiled(
    found: Used, name: str, root: str, paths: Mapping[str, Sequence[str]], patched: tuple[Patched, ...]
) -> str:
    """The query of what a flow calls `name`; its problems become findings of the steps that use the paths."""
    compiled = compile_read(root, sorted(root + path.removeprefix(name) for path in paths), patched)
    wrong: set[str] = set()
    for told, words in compiled.problems:
        path = name + told.removeprefix(root)
        users = paths.get(path) or sorted({step for steps in paths.values() for step in steps})[:1]
        wrong.add(path)
        for step in dict.fromkeys(users):
            found.error(step, f"“{path[:120]}” cannot be read. {words}")
    for told in compiled.lists:
        listed = name + told.removeprefix(root)
        below = (
            steps
            for path, steps in paths.items()
            if path not in wrong and (path == listed or path.startswith(f"{listed}."))
        )
        first = next((steps[0] for steps in below), None)
        if first is None:
            continue
        words = (
            f"Of “{listed[:120]}” at most 250 are read; the rest is left out. Look whether that is enough."
        )
        found.findings.append(Finding(first, FindingLevel.WARNING, "parameter", words))
    return compiled.query
