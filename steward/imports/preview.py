"""Shows how an import would run, without running anything or reading any store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steward.automations import calls, workflows
from steward.automations.bindable import bindable
from steward.automations.bindings import check_bound
from steward.automations.checks import RequestErrors
from steward.automations.platforms import unsupported_parts
from steward.automations.workflow_checks import with_variables
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.imports import storage
from steward.imports.reach import reach_of
from steward.model import plan_json
from steward.model.account import Actor
from steward.model.connection import Connection
from steward.model.finding import Finding, FindingLevel
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Plan, StepKind


@dataclass(frozen=True, slots=True)
class PreviewQuery:
    """The set-up choices that a preview takes into account."""

    integration_id: IntegrationId | None = None
    bindings: Mapping[str, Any] | None = None
    accounts: Mapping[str, Any] | None = None
    topics_of: Callable[[Connection], frozenset[str]] | None = None  # the topics that a store can send
    calls: Mapping[str, Any] | None = None
    variables: Mapping[str, str] | None = None
    import_id: str | None = None  # of a stored import


async def preview(
    tx: Tx, actor: Actor, plan: JsonObject, issues: Sequence[JsonValue], query: PreviewQuery
) -> JsonObject:
    """Returns the fields of Preview. Raises ValidationFailed."""
    errors = RequestErrors()
    plan = await calls.choose(tx, actor.org, errors, plan, query.import_id, query.calls or {})
    # values of names that nothing reads are ignored, so that a person can try another called workflow
    plan = with_variables(RequestErrors(), plan, query.variables or {})
    plan_ = plan_json.from_json(plan)
    requested = (query.bindings or {}, query.accounts or {})
    ids = workflows.integrations_in(*requested)
    ids |= set() if query.integration_id is None else {query.integration_id}
    connections_by_id = await connections.among(tx, actor.org, ids) if ids else {}
    store = None
    if query.integration_id is not None:
        store = connections_by_id.get(query.integration_id)
        if store is None:
            errors.add("integration_id", "This organization has no such store.")
    bindings = check_bound(errors, plan_, *requested, connections_by_id)
    errors.refuse()
    missing = workflows.unconfigured(plan_, bindings, store, connections_by_id)
    changes, sends = _effects_of(plan_)
    elsewhere = (
        []
        if store is None
        else [
            entry.wire()
            for entry in [*unsupported_parts(plan_, store.kind), *_unsent_topics(plan_, store, query)]
        ]
    )
    return {
        "plan": storage.shown_plan(plan),
        "bindable": await bindable(tx, actor.org, plan_),
        "callable": await calls.callable_steps(tx, actor.org, plan),
        "variables": workflows.variables_wire(plan_),
        "readiness": workflows.readiness_wire(workflows.WorkflowState(plan_, {}, missing)),
        "issues": [*elsewhere, *issues],
        "reach": reach_of(plan_).wire(),
        "would_wait_for_approval": bool(changes or sends),
        "store_changes": changes,
        "sends": sends,
    }


def _unsent_topics(plan: Plan, store: Connection, query: PreviewQuery) -> list[Finding]:
    """Returns a warning for each topic of the proposed start that the store cannot send."""
    entry = plan.entry()
    if entry is None or entry.kind != "event" or query.topics_of is None:
        return []
    sent_topics = query.topics_of(store)
    message = "{} cannot send {}, which starts it. Choose another start when you set it up."
    return [
        Finding(entry.name, FindingLevel.WARNING, "foreign_trigger", message.format(store.name, topic))
        for topic in entry.topics
        if topic not in sent_topics
    ]


def _effects_of(plan: Plan) -> tuple[list[str], list[str]]:
    """Returns the reachable steps that would change the store, and those that would send."""
    reached = plan.running()
    changes = [step.name for step in reached if step.kind is StepKind.CHANGE]
    sends = [step.name for step in reached if step.kind is StepKind.SEND]
    return changes, sends
