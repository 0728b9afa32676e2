"""Shows how an import would run, without running anything or reading any store (contract 2.8, 3.6)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steward.automations import workflows
from steward.automations.bindings import check_bindings
from steward.automations.checks import Faults
from steward.automations.platforms import lacking
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.imports import keep
from steward.model import kept_plan
from steward.model.account import Actor
from steward.model.connection import Connection
from steward.model.finding import Finding, FindingLevel
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Plan, StepKind


@dataclass(frozen=True, slots=True)
class PreviewAsk:
    """What a preview may be told of how the automation would be set up."""

    integration_id: IntegrationId | None = None
    bindings: Mapping[str, Any] | None = None
    topics_of: Callable[[Connection], frozenset[str]] | None = None  # what a store can send


async def preview(
    tx: Tx, actor: Actor, plan: JsonObject, issues: Sequence[JsonValue], ask: PreviewAsk
) -> JsonObject:
    """The fields of Preview (contract 3.6). Raises ValidationFailed."""
    read = kept_plan.from_kept(plan)
    given = ask.bindings or {}
    ids = workflows.integrations_in(given)
    ids |= set() if ask.integration_id is None else {ask.integration_id}
    known = await connections.among(tx, actor.org, ids) if ids else {}
    faults = Faults()
    store = None
    if ask.integration_id is not None:
        store = known.get(ask.integration_id)
        if store is None:
            faults.add("integration_id", "This organisation has no such store.")
    bindings = check_bindings(faults, read, given, known)
    faults.refuse()
    missing = workflows.unconfigured(read, bindings, store, known)
    changes, sends = effects_of(read)
    elsewhere = (
        []
        if store is None
        else [one.wire() for one in [*lacking(read, store.kind), *_untold(read, store, ask)]]
    )
    readiness: JsonObject = {
        "ready": not missing,
        "missing": [],
        "unconfigured": [one.wire() for one in missing],
    }
    return {
        "plan": keep.shown_plan(plan),
        "readiness": readiness,
        "issues": [*elsewhere, *issues],
        "would_wait_for_approval": bool(changes or sends),
        "store_changes": changes,
        "sends": sends,
    }


def _untold(plan: Plan, store: Connection, ask: PreviewAsk) -> list[Finding]:
    """The proposed start, where the store never tells what it starts by."""
    entry = plan.entry()
    if entry is None or entry.kind != "event" or ask.topics_of is None:
        return []
    told = ask.topics_of(store)
    words = "{} cannot send {}, which starts it. Choose another start when you set it up."
    return [
        Finding(entry.name, FindingLevel.WARNING, "foreign_trigger", words.format(store.name, topic))
        for topic in entry.topics
        if topic not in told
    ]


def effects_of(plan: Plan) -> tuple[list[str], list[str]]:
    """The steps that would change the store, and those that would send, of what a run can reach."""
    reached = [
        step
        for step in plan.steps
        if step.origin is not None and step.origin.reachable and not step.origin.disabled
    ]
    changes = [step.name for step in reached if step.kind is StepKind.CHANGE]
    sends = [step.name for step in reached if step.kind is StepKind.SEND]
    return changes, sends
