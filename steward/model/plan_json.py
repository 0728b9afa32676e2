"""Imported plans as JSON: exactly what a run reads; old formats stay readable."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steward.model import called
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import (
    DataMode,
    N8nVariable,
    OnError,
    Patched,
    Plan,
    PlanEdge,
    PlanStep,
    PlanTrigger,
    Retry,
    StartField,
    StartFieldType,
    StepKind,
    StepSource,
    Variable,
)

_FORMAT = 1
_CHOSEN = "chosen"
_VALUES = "values"


def to_json(plan: Plan) -> JsonObject:
    """Returns a plan in its stored form."""
    return {
        "plan_format": _FORMAT,
        "source": plan.source,
        "source_sha256": plan.source_sha256,
        "name": plan.name,
        "timezone": plan.timezone,
        "mode": plan.mode,
        "triggers": [_trigger(part) for part in plan.triggers],
        "steps": [_step(part) for part in plan.steps],
        "edges": [[part.source, part.port, part.target, part.input] for part in plan.edges],
        "variables": [_variable(part) for part in plan.variables],
        "inner": {name: to_json(part) for name, part in plan.inner.items()},
        **(
            {"n8n_variables": [_n8n_variable(part) for part in plan.n8n_variables]}
            if plan.n8n_variables
            else {}
        ),
    }


def _trigger(trigger: PlanTrigger) -> JsonObject:
    return {
        "name": trigger.name,
        "kind": trigger.kind,
        "schedule": trigger.schedule,
        "topics": list(trigger.topics),
        "replaced": trigger.replaced,
        "place": list(trigger.position),
        "fields": [_field(part) for part in trigger.fields],
        "picks": None if trigger.picks is None else list(trigger.picks),
        **({} if trigger.tells_time else {"tells_time": False}),
        **({"submitted_in_utc": True} if trigger.submitted_in_utc else {}),
    }


def _field(field: StartField) -> JsonObject:
    return {
        "path": list(field.path),
        "label": field.label,
        "type": str(field.type),
        "required": field.required,
        "options": list(field.options),
        **({"default": field.default} if field.default is not None else {}),
    }


def _read_field(stored: Mapping[str, Any]) -> StartField:
    return StartField(
        path=tuple(stored["path"]),
        label=stored["label"],
        type=StartFieldType(stored["type"]),
        required=stored["required"],
        options=tuple(stored["options"]),
        default=stored.get("default"),
    )


def _n8n_variable(variable: N8nVariable) -> list[JsonValue]:
    return [variable.name, variable.is_required]


def _variable(variable: Variable) -> list[JsonValue]:
    patched: list[JsonValue] = [
        [field.type, field.handle, field.namespace, field.key] for field in variable.patched
    ]
    return [variable.root, list(variable.paths), variable.query, patched]


def _read_variable(
    root: str, paths: Sequence[str], query: str, patched: Sequence[Sequence[str]] = ()
) -> Variable:
    return Variable(root, tuple(paths), query, tuple(Patched(*field) for field in patched))


def _step(step: PlanStep) -> JsonObject:
    stored: dict[str, Any] = {
        "name": step.name,
        "title": step.title,
        "kind": str(step.kind),
        "operation": step.operation,
        "config": step.config,
    }
    origin = step.origin
    if origin is None:
        return stored
    retry = None if origin.retry is None else {"tries": origin.retry.tries, "wait_ms": origin.retry.wait_ms}
    return stored | {
        "source_type": origin.source_type,
        "source_version": origin.source_version,
        "needs": origin.needs,
        "target": origin.target,
        "account": origin.account,
        "alias": origin.alias,
        "on_error": str(origin.on_error),
        "retry": retry,
        "once": origin.once,
        "always_output": origin.always_output,
        "disabled": origin.disabled,
        "supported": origin.supported,
        "reachable": origin.reachable,
        "inputs": origin.inputs,
        "ports": list(origin.ports),
        "place": list(origin.position),
    }


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """The stored plan of an import that a person chose for a step that calls a workflow."""

    import_id: str
    name: str
    plan: JsonObject


def with_chosen(stored: JsonObject, chosen: Mapping[str, ChosenPlan]) -> JsonObject:
    """Returns a stored plan with the workflows chosen for its steps, by each step's path."""
    other_settings = {name: value for name, value in stored.items() if name != _CHOSEN}
    parts: JsonObject = {
        path: {"import_id": part.import_id, "name": part.name, "plan": part.plan}
        for path, part in chosen.items()
    }
    return {**other_settings, _CHOSEN: parts} if chosen else other_settings


def chosen_in(stored: Mapping[str, Any]) -> Mapping[str, ChosenPlan]:
    """Returns the workflows chosen for a plan's steps, by each step's path."""
    return {path: ChosenPlan(**part) for path, part in stored.get(_CHOSEN, {}).items()}


def with_values(stored: JsonObject, values: Mapping[str, str]) -> JsonObject:
    """Returns a stored plan with the values of the variables of n8n that it reads."""
    other_settings = {name: value for name, value in stored.items() if name != _VALUES}
    return {**other_settings, _VALUES: dict(values)} if values else other_settings


def values_in(stored: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns the values of the variables of n8n in a stored plan, by name."""
    values: Mapping[str, str] = stored.get(_VALUES, {})
    return values


def from_json(stored: Mapping[str, Any]) -> Plan:
    """Returns a stored plan, with the workflows chosen for its steps.

    Raises ValueError for a format that this service does not know.
    """
    plan, chosen = _from_json(stored), chosen_in(stored)
    if not chosen:
        return plan
    return called.with_chosen(plan, {path: _from_json(part.plan) for path, part in chosen.items()})


def _from_json(stored: Mapping[str, Any]) -> Plan:
    if stored.get("plan_format") != _FORMAT:
        raise ValueError(f"plan_format {stored.get('plan_format')} is not known")
    return Plan(
        steps=tuple(_read_step(part) for part in stored["steps"]),
        edges=tuple(PlanEdge(*part) for part in stored["edges"]),
        source=stored["source"],
        source_sha256=stored["source_sha256"],
        name=stored["name"],
        timezone=stored["timezone"],
        mode=None if stored["mode"] is None else DataMode(stored["mode"]),
        triggers=tuple(_read_trigger(part) for part in stored["triggers"]),
        variables=tuple(_read_variable(*part) for part in stored["variables"]),
        inner={name: _from_json(part) for name, part in stored["inner"].items()},
        n8n_variables=tuple(N8nVariable(*part) for part in stored.get("n8n_variables", ())),
        values=values_in(stored),
    )


def _read_trigger(stored: Mapping[str, Any]) -> PlanTrigger:
    return PlanTrigger(
        name=stored["name"],
        kind=stored["kind"],
        schedule=stored["schedule"],
        topics=tuple(stored["topics"]),
        replaced=stored["replaced"],
        position=(stored["place"][0], stored["place"][1]),
        fields=tuple(_read_field(part) for part in stored.get("fields", ())),
        picks=None if stored.get("picks") is None else tuple(stored["picks"]),
        tells_time=stored.get("tells_time", True),
        submitted_in_utc=stored.get("submitted_in_utc", False),
    )


def _read_step(stored: Mapping[str, Any]) -> PlanStep:
    origin = None
    if "source_type" in stored:
        retry = stored["retry"]
        origin = StepSource(
            source_type=stored["source_type"],
            source_version=stored["source_version"],
            needs=stored["needs"],
            target=stored["target"],
            account=stored.get("account"),
            alias=stored["alias"],
            on_error=OnError(stored["on_error"]),
            retry=None if retry is None else Retry(retry["tries"], retry["wait_ms"]),
            once=stored["once"],
            always_output=stored["always_output"],
            disabled=stored["disabled"],
            supported=stored["supported"],
            reachable=stored["reachable"],
            inputs=stored["inputs"],
            ports=tuple(stored["ports"]),
            position=(stored["place"][0], stored["place"][1]),
        )
    return PlanStep(
        name=stored["name"],
        title=stored["title"],
        kind=StepKind(stored["kind"]),
        operation=stored["operation"],
        config=stored["config"],
        origin=origin,
    )


def plan_sha256(stored: JsonObject) -> str:
    """Returns the SHA-256 of a stored plan, which is the same for the same file."""
    text = json.dumps(stored, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def needed(plan: Plan) -> list[PlanStep]:
    """Returns the reachable, enabled steps that need a connection, in plan order."""
    return [
        step
        for step in plan.steps
        if step.origin is not None
        and step.origin.needs is not None
        and step.origin.reachable
        and not step.origin.disabled
    ]
