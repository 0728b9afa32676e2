"""Imported plans as JSON: what a run reads and nothing else (imports 9); old formats stay readable."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from steward.model.json import JsonObject, JsonValue
from steward.model.plan import (
    DataMode,
    Edge,
    OnError,
    Origin,
    Patched,
    Plan,
    PlanStep,
    PlanTrigger,
    Retry,
    StepKind,
    Variable,
)

FORMAT = 1


def to_kept(plan: Plan) -> JsonObject:
    """A plan as kept."""
    return {
        "plan_format": FORMAT,
        "source": plan.source,
        "source_sha256": plan.source_sha256,
        "name": plan.name,
        "timezone": plan.timezone,
        "mode": plan.mode,
        "triggers": [_trigger(one) for one in plan.triggers],
        "steps": [_step(one) for one in plan.steps],
        "edges": [[one.source, one.port, one.target, one.input] for one in plan.edges],
        "variables": [_variable(one) for one in plan.variables],
        "inner": {name: to_kept(one) for name, one in plan.inner.items()},
    }


def _trigger(one: PlanTrigger) -> JsonObject:
    return {
        "name": one.name,
        "kind": one.kind,
        "schedule": one.schedule,
        "topics": list(one.topics),
        "replaced": one.replaced,
        "place": list(one.place),
    }


def _variable(one: Variable) -> list[JsonValue]:
    patched: list[JsonValue] = [[each.type, each.handle, each.namespace, each.key] for each in one.patched]
    return [one.root, list(one.paths), one.query, patched]


def _read_variable(
    root: str, paths: Sequence[str], query: str, patched: Sequence[Sequence[str]] = ()
) -> Variable:
    return Variable(root, tuple(paths), query, tuple(Patched(*each) for each in patched))


def _step(one: PlanStep) -> JsonObject:
    kept: dict[str, Any] = {
        "name": one.name,
        "title": one.title,
        "kind": str(one.kind),
        "operation": one.operation,
        "config": one.config,
    }
    origin = one.origin
    if origin is None:
        return kept
    retry = None if origin.retry is None else {"tries": origin.retry.tries, "wait_ms": origin.retry.wait_ms}
    return kept | {
        "source_type": origin.source_type,
        "source_version": origin.source_version,
        "needs": origin.needs,
        "target": origin.target,
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
        "place": list(origin.place),
    }


def from_kept(kept: Mapping[str, Any]) -> Plan:
    """A plan as it was kept. Raises ValueError for a format this service does not know."""
    if kept.get("plan_format") != FORMAT:
        raise ValueError(f"plan_format {kept.get('plan_format')} is not known")
    return Plan(
        steps=tuple(_read_step(one) for one in kept["steps"]),
        edges=tuple(Edge(*one) for one in kept["edges"]),
        source=kept["source"],
        source_sha256=kept["source_sha256"],
        name=kept["name"],
        timezone=kept["timezone"],
        mode=None if kept["mode"] is None else DataMode(kept["mode"]),
        triggers=tuple(_read_trigger(one) for one in kept["triggers"]),
        variables=tuple(_read_variable(*one) for one in kept["variables"]),
        inner={name: from_kept(one) for name, one in kept["inner"].items()},
    )


def _read_trigger(kept: Mapping[str, Any]) -> PlanTrigger:
    return PlanTrigger(
        name=kept["name"],
        kind=kept["kind"],
        schedule=kept["schedule"],
        topics=tuple(kept["topics"]),
        replaced=kept["replaced"],
        place=(kept["place"][0], kept["place"][1]),
    )


def _read_step(kept: Mapping[str, Any]) -> PlanStep:
    origin = None
    if "source_type" in kept:
        retry = kept["retry"]
        origin = Origin(
            source_type=kept["source_type"],
            source_version=kept["source_version"],
            needs=kept["needs"],
            target=kept["target"],
            alias=kept["alias"],
            on_error=OnError(kept["on_error"]),
            retry=None if retry is None else Retry(retry["tries"], retry["wait_ms"]),
            once=kept["once"],
            always_output=kept["always_output"],
            disabled=kept["disabled"],
            supported=kept["supported"],
            reachable=kept["reachable"],
            inputs=kept["inputs"],
            ports=tuple(kept["ports"]),
            place=(kept["place"][0], kept["place"][1]),
        )
    return PlanStep(
        name=kept["name"],
        title=kept["title"],
        kind=StepKind(kept["kind"]),
        operation=kept["operation"],
        config=kept["config"],
        origin=origin,
    )


def plan_sha256(kept: JsonObject) -> str:
    """SHA-256 of a plan as kept: the same file gives the same plan (imports 1 rule 6)."""
    text = json.dumps(kept, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def needed(plan: Plan) -> list[PlanStep]:
    """The steps that need a connection, in plan order: reachable, enabled ones (imports 13)."""
    return [
        step
        for step in plan.steps
        if step.origin is not None
        and step.origin.needs is not None
        and step.origin.reachable
        and not step.origin.disabled
    ]
