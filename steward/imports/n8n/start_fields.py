"""The values that a run started by hand can be given: those of a form, and those later steps read.

See docs/design/api/runs.md#run-now.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from steward.imports.step_templates import templates_of
from steward.model.finding import Finding
from steward.model.plan import DataMode, Plan, PlanStep, PlanTrigger, StartField, StartFieldType
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.n8n.nodes.code import script_of
from steward.steps.workflow.execute import raw_parameters
from steward.steps.workflow.expressions.template import Chunk
from steward.steps.workflow.step_types import FieldUse

_SCRIPTS: Final = frozenset(("code", "function", "functionItem"))
_MAX_FIELDS: Final = 100
_NAMED_FIELDS: Final = 8  # in one finding
_KEPT_FIELDS: Final = {
    "formTrigger": frozenset(("submittedAt", "formMode")),
    "chatTrigger": frozenset(("sessionId", "action")),
}
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
class StartForm:
    """What a person is asked before a run: fields in the order they are asked; none if only JSON is taken."""

    fields: tuple[StartField, ...]


def start_form(plan: Plan) -> StartForm | None:
    """What a run of the plan can be started with; None when its start takes no values."""
    entry = plan.entry()
    if entry is None or plan.mode is not DataMode.ITEMS or entry.kind == "schedule":
        return None
    trigger = (entry.replaced or "").rpartition(".")[2]
    fields = {field.path: field for field in entry.fields}
    if trigger == "chatTrigger":
        fields["chatInput",] = StartField(("chatInput",), "Message", StartFieldType.LONG_TEXT, required=True)
    stored_fields = _KEPT_FIELDS.get(trigger, frozenset())
    for path, field_type in _without_parents(_read_paths(plan, entry, in_body=trigger == "webhook")).items():
        if path[:1] not in fields and path[0] not in stored_fields and len(fields) < _MAX_FIELDS:
            fields[path] = StartField(path, ".".join(path), field_type)
    asks = trigger in ("webhook", "formTrigger", "chatTrigger")
    return StartForm(tuple(fields.values())) if fields or asks else None


def with_fields(plan: Plan, finding: Finding) -> Finding:
    """The finding of a start that another program made in n8n, with the fields of it that steps read."""
    form = start_form(plan) if finding.code == "foreign_trigger" else None
    names = [field.name for field in form.fields] if form is not None else []
    if not names:
        return finding
    quoted_names = [f"“{name[:60]}”" for name in names[:_NAMED_FIELDS]]
    listed = ", ".join(quoted_names) + (
        f" and {len(names) - len(quoted_names)} more" if len(names) > len(quoted_names) else ""
    )
    is_one = len(names) == 1
    words = f"Its steps read {'the field' if is_one else 'the fields'} {listed} of what starts it: "
    words += f"give {'it' if is_one else 'them'} as the payload of a run."
    return replace(finding, message=f"{finding.message} {words}")


def _read_paths(plan: Plan, entry: PlanTrigger, *, in_body: bool) -> dict[tuple[str, ...], StartFieldType]:
    """The fields of the start that running steps read, each with what it must be, in plan order."""
    types_by_path: dict[tuple[str, ...], StartFieldType] = {}
    receiving = _receiving(plan, entry)
    for step in plan.running():
        for code in _codes(step):
            for match in _matches(code, entry.name, receives=step.name in receiving):
                path, field_type = _path(match)
                if in_body:
                    if path[:1] != ("body",):
                        continue
                    path = path[1:]
                if path and types_by_path.get(path) is not StartFieldType.JSON:
                    types_by_path[path] = field_type
    return types_by_path


def _without_parents(
    types_by_path: dict[tuple[str, ...], StartFieldType],
) -> dict[tuple[str, ...], StartFieldType]:
    """Leaves out a field of which other steps read members: the members are asked for."""
    parents = {path[:length] for path in types_by_path for length in range(1, len(path))}
    return {path: field_type for path, field_type in types_by_path.items() if path not in parents}


def _receiving(plan: Plan, entry: PlanTrigger) -> set[str]:
    """The steps whose items still have the fields of the start."""
    steps = {step.name: step for step in plan.steps}
    receiving: set[str] = set()
    pending = [entry.name]
    while pending:
        source = pending.pop()
        for edge in plan.edges:
            if edge.source != source or edge.target in receiving or edge.target not in steps:
                continue
            receiving.add(edge.target)
            if _passes(steps[edge.target]):
                pending.append(edge.target)
    return receiving


def _passes(step: PlanStep) -> bool:
    if step.origin is None or step.origin.disabled:
        return True
    step_type = BY_TYPE.get(step.origin.source_type)
    return step_type is not None and step_type.field_use_of(step) in (
        FieldUse.PASSES_ITEMS,
        FieldUse.EXTENDS_ITEMS,
    )


def _codes(step: PlanStep) -> Iterator[str]:
    for _, template in templates_of(step):
        yield from (part.code for part in template.parts if isinstance(part, Chunk))
    source_type = step.origin.source_type if step.origin is not None else ""
    if source_type in _SCRIPTS:
        yield script_of(source_type, raw_parameters(step.config)).text


def _matches(code: str, start: str, *, receives: bool) -> Iterator[re.Match[str]]:
    if receives:
        yield from _CURRENT.finditer(code)
    for match in _NAMED.finditer(code):
        name = match["dotted"] or (match["call_name"] or match["node_name"])[1:-1]
        if name == start:
            yield match


def _path(match: re.Match[str]) -> tuple[tuple[str, ...], StartFieldType]:
    """The keys up to a list's index or a method, and whether the field there is a list."""
    keys: list[str] = []
    key_matches = list(_KEY.finditer(match["keys"]))
    for position, key in enumerate(key_matches):
        name = key["name"] or (key["quoted"] or "")[1:-1]
        is_method = key["name"] is not None and match["call"] is not None and position == len(key_matches) - 1
        if key["number"] is not None or (name in _OF_LISTS and (is_method or name == "length")):
            return tuple(keys), StartFieldType.TEXT if name == "length" else StartFieldType.JSON
        if is_method or not name:
            break
        keys.append(name)
    return tuple(keys), StartFieldType.TEXT
