"""The steps of a workflow automation in the web app, and which of them want a connection."""

import msgspec

from steward.api.http.operation import Access, Answer, ApiCall, Operation
from steward.api.schema.json_passthrough import BindableStep, PlanWire
from steward.automations.bindable import bindable
from steward.database.automations import plans
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.imports.keep import shown_plan
from steward.model import kept_plan
from steward.model.account import Role
from steward.model.automation import AutomationKind
from steward.model.ids import AutomationId

_NONE: PlanWire = {"trigger": None, "steps": [], "edges": []}


class AutomationPlanAnswer(msgspec.Struct):
    """The automation's own copy of its plan, as an import's is shown.

    `bindable` are the steps whose connection is chosen by `bindings` or `accounts`, in plan order; the store
    is the automation's. `idle` names the steps no run comes to. Empty for an automation of a template.
    """

    plan: PlanWire
    bindable: list[BindableStep]
    idle: list[str]


async def find(tx: Tx, call: ApiCall) -> Answer:
    """`GET /app/automations/{automationId}/plan`."""
    automation = await automations.get(tx, call.actor.org, AutomationId(call.ids["automation_id"]))
    stored_plan = None
    if automation.kind is AutomationKind.WORKFLOW:
        stored_plan = await plans.newest(tx, automation.org, automation.id)
    if stored_plan is None:
        return AutomationPlanAnswer(_NONE, [], [])
    plan = kept_plan.from_kept(stored_plan.plan)
    idle = [
        step.name
        for step in plan.steps
        if step.origin is not None and (step.origin.disabled or not step.origin.reachable)
    ]
    return AutomationPlanAnswer(shown_plan(stored_plan.plan), await bindable(tx, automation.org, plan), idle)


OPERATIONS = (
    Operation(
        method="GET",
        path="/app/automations/{automation_id}/plan",
        access=Access.APP,
        role=Role.MEMBER,
        function=find,
        answer=AutomationPlanAnswer,
        summary="Get the steps of a workflow automation",
    ),
)
