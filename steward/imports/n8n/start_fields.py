"""Determines the values that a person can start a run with: form fields, and fields that steps read.

See docs/design/api/runs.md#run-now.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from steward.imports.n8n.field_reads import reads_of, receiving
from steward.model.finding import Finding
from steward.model.plan import CALL_PARTS, DataMode, Plan, PlanTrigger, StartField, StartFieldType

_MAX_FIELDS: Final = 100
_NAMED_FIELDS: Final = 8  # per finding
_KEPT_FIELDS: Final = {
    "formTrigger": frozenset(("submittedAt", "formMode")),
    "chatTrigger": frozenset(("sessionId", "action")),
}


@dataclass(frozen=True, slots=True)
class StartForm:
    """The form of a manual start with its fields in order; without fields, only JSON is accepted."""

    fields: tuple[StartField, ...]


def start_form(plan: Plan) -> StartForm | None:
    """Returns the form of the values that a run can start with, or None if the start accepts none."""
    entry = plan.entry()
    if entry is None or plan.mode is not DataMode.ITEMS or entry.kind == "schedule":
        return None
    trigger = (entry.replaced or "").rpartition(".")[2]
    # Files are not part of the payload, so a value may have the same name as a file.
    fields = {(field.path, field.is_file): field for field in entry.fields}
    if trigger == "chatTrigger":
        path: tuple[str, ...] = ("chatInput",)
        fields[path, False] = StartField(path, "Message", StartFieldType.LONG_TEXT, required=True)
    files = {field.label for field in entry.fields if field.is_file and trigger == "formTrigger"}
    stored_fields = _KEPT_FIELDS.get(trigger, frozenset()) | files
    for path, field_type in _without_parents(_read_paths(plan, entry, in_body=trigger == "webhook")).items():
        is_known = (path[:1], False) in fields or path[0] in stored_fields
        if not is_known and len(fields) < _MAX_FIELDS:
            fields[path, False] = StartField(path, ".".join(path), field_type)
    takes_values = trigger in ("webhook", "formTrigger", "chatTrigger")
    return StartForm(tuple(fields.values())) if fields or takes_values else None


def with_fields(plan: Plan, finding: Finding) -> Finding:
    """Returns the finding of a foreign trigger, extended by the fields that steps read from it."""
    form = start_form(plan) if finding.code == "foreign_trigger" else None
    fields = form.fields if form is not None else ()
    names = [field.name for field in fields if not field.is_file]
    message = finding.message
    if names:
        message += f" Its steps read {_listed('field', names)} of what starts it: "
        message += f"give {_it(names)} as the payload of a run."
    files = [field.name for field in fields if field.is_file]
    if files:
        message += f" It starts with {_listed('file', files)}: give {_it(files)} with the payload."
    return replace(finding, message=message)


def _listed(noun: str, names: Sequence[str]) -> str:
    """Lists names in words: the field “a”, or the fields “a”, “b” and 3 more."""
    quoted_names = [f"“{name[:60]}”" for name in names[:_NAMED_FIELDS]]
    listed = ", ".join(quoted_names) + (
        f" and {len(names) - len(quoted_names)} more" if len(names) > len(quoted_names) else ""
    )
    return f"the {noun if len(names) == 1 else noun + 's'} {listed}"


def _it(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def with_call_fields(plan: Plan) -> Plan:
    """Returns the plan with the parts of a webhook call that steps read added to the trigger's fields.

    A payload has them under `query`, `params` and `headers`; everything else in it is the body.
    """
    entry = plan.entry()
    if entry is None or (entry.replaced or "").rpartition(".")[2] != "webhook":
        return plan
    paths = [path for path in _read_paths(plan, entry, in_body=True) if path[0] in CALL_PARTS]
    fields = tuple(StartField(path, ".".join(path)) for path in dict.fromkeys(path[:2] for path in paths))
    called = replace(entry, fields=fields[:_MAX_FIELDS])
    triggers = tuple(called if trigger.name == entry.name else trigger for trigger in plan.triggers)
    return replace(plan, triggers=triggers)


def _read_paths(plan: Plan, entry: PlanTrigger, *, in_body: bool) -> dict[tuple[str, ...], StartFieldType]:
    """Returns the start's fields that running steps read, with their types, in plan order."""
    types_by_path: dict[tuple[str, ...], StartFieldType] = {}
    receivers = receiving(plan, entry.name)
    for step in plan.running():
        for read in reads_of(step).of((entry.name,), receives=step.name in receivers):
            path = read.keys
            field_type = StartFieldType.JSON if read.is_list else StartFieldType.TEXT
            if in_body:
                if path[:1] == ("body",):
                    path = path[1:]
                elif path[:1] and path[0] not in CALL_PARTS:
                    continue
            if path and types_by_path.get(path) is not StartFieldType.JSON:
                types_by_path[path] = field_type
    return types_by_path


def _without_parents(
    types_by_path: dict[tuple[str, ...], StartFieldType],
) -> dict[tuple[str, ...], StartFieldType]:
    """Removes fields of which other steps read members, since the form has the members."""
    parents = {path[:length] for path in types_by_path for length in range(1, len(path))}
    return {path: field_type for path, field_type in types_by_path.items() if path not in parents}
