"""Finds the fields of a step's items that expressions and scripts of other steps read by name."""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

from steward.imports.step_templates import templates_of
from steward.model.plan import Plan, PlanStep
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.n8n.nodes.code import script_of
from steward.steps.workflow.execute import raw_parameters
from steward.steps.workflow.expressions.template import Chunk
from steward.steps.workflow.step_types import FieldUse

SCRIPTS: Final = frozenset(("code", "function", "functionItem"))
_JOINING: Final = frozenset(("merge", "compareDatasets"))  # types whose items come from several steps
_QUOTED = r"""'[^'\\\n]*'|"[^"\\\n]*\""""
_KEYS = (
    rf"""(?P<keys>(?:\s*\??\.\s*[A-Za-z_$][\w$]*|\s*(?:\?\.)?\[\s*(?:\d+|{_QUOTED})\s*\])*)(?P<call>\s*\()?"""
)
_CURRENT = re.compile(
    rf"""(?<![\w$.])(?:\$json|\$input\.item\.json|\$input\.(?:first|last)\(\)\.json|\$input\.all\(\)\[\d+\]\.json
    |items?(?:\[\d+\])?\.json){_KEYS}""",
    re.VERBOSE,
)
_NAMED = re.compile(
    rf"""(?:\$\(\s*(?P<call_name>{_QUOTED})\s*\)\.(?:item|first\(\)|last\(\)|all\(\)\[\d+\])
    |\$node\[\s*(?P<node_name>{_QUOTED})\s*\]|\$node\.(?P<dotted>[A-Za-z_]\w*))\.json{_KEYS}""",
    re.VERBOSE,
)
_KEY = re.compile(rf"""\.\s*(?P<name>[A-Za-z_$][\w$]*)|\[\s*(?:(?P<number>\d+)|(?P<quoted>{_QUOTED}))\s*\]""")
_OF_LISTS = frozenset(
    ("map", "filter", "forEach", "find", "some", "every", "reduce", "join", "flatMap", "length")
)


@dataclass(frozen=True, slots=True)
class FieldRead:
    """A read of a field, with its keys up to a list or a method.

    `is_list` marks a list of which more than the length is read; `element` is the field read from its
    element, if named.
    """

    keys: tuple[str, ...]
    is_list: bool = False
    element: str | None = None


def receiving(plan: Plan, source: str, *, joined: bool = True, extended: bool = True) -> set[str]:
    """Returns the steps whose items have the fields that `source` outputs.

    Without `joined`, it leaves out steps whose items may also come from another step; without `extended`,
    steps whose items got further fields from other steps.
    """
    steps = {step.name: step for step in plan.steps}
    targets: dict[str, list[str]] = {}
    for edge in plan.edges:
        targets.setdefault(edge.source, []).append(edge.target)
    receivers: set[str] = set()
    pending = [source]
    while pending:
        for target in targets.get(pending.pop(), ()):
            if target in receivers or target not in steps:
                continue
            receivers.add(target)
            if _passes(steps[target], joined=joined, extended=extended):
                pending.append(target)
    return receivers


def _passes(step: PlanStep, *, joined: bool, extended: bool) -> bool:
    if step.origin is None or step.origin.disabled:
        return True
    step_type = BY_TYPE.get(step.origin.source_type)
    if step_type is None or (not joined and step.origin.source_type in _JOINING):
        return False
    field_use = step_type.field_use_of(step)
    return field_use is FieldUse.PASSES_ITEMS or (extended and field_use is FieldUse.EXTENDS_ITEMS)


def passing_on(plan: Plan, source: str) -> set[str]:
    """Returns `source` and the steps that pass its items on unchanged."""
    same = receiving(plan, source, joined=False, extended=False)
    steps = [step for step in plan.steps if step.name in same]
    return {source, *(step.name for step in steps if _passes(step, joined=False, extended=False))}


def codes_of(step: PlanStep) -> Iterator[str]:
    """Yields the code of a step's expressions and of its script."""
    for _, template in templates_of(step):
        yield from (part.code for part in template.parts if isinstance(part, Chunk))
    source_type = step.origin.source_type if step.origin is not None else ""
    if source_type in SCRIPTS:
        yield script_of(source_type, raw_parameters(step.config)).text


@dataclass(frozen=True, slots=True)
class StepReads:
    """The fields that a step's code reads, in order; the step name is None for its own items."""

    by_name: tuple[tuple[str | None, FieldRead], ...]

    def of(self, sources: Container[str], *, receives: bool) -> Iterator[FieldRead]:
        """Yields the reads from items of `sources`; with `receives`, its own items count among them."""
        for name, read in self.by_name:
            if receives if name is None else name in sources:
                yield read


def reads_of(step: PlanStep) -> StepReads:
    """Returns the distinct reads of a step."""
    return StepReads(tuple(dict.fromkeys(read for code in codes_of(step) for read in _reads_in(code))))


def _reads_in(code: str) -> Iterator[tuple[str | None, FieldRead]]:
    for match in _CURRENT.finditer(code):
        yield None, _field_read(match)
    for match in _NAMED.finditer(code):
        yield _step_name(match), _field_read(match)


def _step_name(match: re.Match[str]) -> str:
    return match["dotted"] or (match["call_name"] or match["node_name"])[1:-1]


def _field_read(match: re.Match[str]) -> FieldRead:
    keys: list[str] = []
    matches = list(_KEY.finditer(match["keys"]))
    for position, key in enumerate(matches):
        name = _name_of(key)
        is_method = key["name"] is not None and match["call"] is not None and position == len(matches) - 1
        if key["number"] is not None or (name in _OF_LISTS and (is_method or name == "length")):
            return FieldRead(tuple(keys), name != "length", _element(key, matches[position + 1 :]))
        if is_method or not name:
            break
        keys.append(name)
    return FieldRead(tuple(keys))


def _element(key: re.Match[str], below: list[re.Match[str]]) -> str | None:
    """Returns the field read from a list's element after the element's index."""
    return _name_of(below[0]) or None if key["number"] is not None and below else None


def _name_of(key: re.Match[str]) -> str:
    return key["name"] or (key["quoted"] or "")[1:-1]
