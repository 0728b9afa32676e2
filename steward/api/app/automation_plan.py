"""The steps of a workflow automation in the web app, and which of them need a connection."""

from typing import Literal

import msgspec

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.json_passthrough import BindableStep, CallableStep, PlanWire, Variable
from steward.automations.bindable import bindable
from steward.automations.calls import callable_steps
from steward.automations.workflows import variables_wire
from steward.database.automations import plans
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.imports.n8n.start_fields import start_form
from steward.imports.storage import shown_plan
from steward.model import plan_json
from steward.model.account import Role
from steward.model.automation import AutomationKind
from steward.model.ids import AutomationId
from steward.model.plan import StartField

_NONE: PlanWire = {"trigger": None, "steps": [], "edges": []}


class StartFieldRecord(msgspec.Struct):
    """A value that a run can be started with; `path` is its place in the payload, of a file its name.

    `default` is the text of the value that is passed on if the payload leaves it out, or empty for none.
    """

    name: str
    path: list[str]
    label: str
    type: Literal[
        "text", "long_text", "number", "email", "date", "choice", "choices", "json", "file", "files"
    ]
    required: bool
    options: list[str]
    default: str


class AutomationPlanResponse(msgspec.Struct):
    """The automation's own plan, in the form of an import's plan; empty for an automation of a template.

    `bindable` are the steps whose connection is chosen by `bindings` or `accounts`, in plan order; the store
    is the automation's. `callable` are those whose called workflow is chosen by `calls`. `variables` are
    those of n8n that it reads, with their values. `idle`: the names of the steps that no run reaches.
    `start_fields` are the values that a run by hand is started with, null when its start takes none.
    """

    plan: PlanWire
    bindable: list[BindableStep]
    callable: list[CallableStep]
    variables: list[Variable]
    idle: list[str]
    start_fields: list[StartFieldRecord] | None


async def find(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/automations/{automationId}/plan`."""
    automation = await automations.get(tx, call.actor.org, AutomationId(call.ids["automation_id"]))
    stored_plan = None
    if automation.kind is AutomationKind.WORKFLOW:
        stored_plan = await plans.newest(tx, automation.org, automation.id)
    if stored_plan is None:
        return AutomationPlanResponse(_NONE, [], [], [], [], None)
    plan = plan_json.from_json(stored_plan.plan)
    idle = [
        step.name
        for step in plan.steps
        if step.origin is not None and (step.origin.disabled or not step.origin.reachable)
    ]
    form = start_form(plan)
    fields = None if form is None else [_start_field(field) for field in form.fields]
    can_bind = await bindable(tx, automation.org, plan)
    can_call = await callable_steps(tx, automation.org, stored_plan.plan)
    variables = variables_wire(plan)
    return AutomationPlanResponse(shown_plan(stored_plan.plan), can_bind, can_call, variables, idle, fields)


def _start_field(field: StartField) -> StartFieldRecord:
    return StartFieldRecord(
        name=field.name,
        path=list(field.path),
        label=field.label,
        type=field.type.value,
        required=field.required,
        options=list(field.options),
        default="" if field.default is None else str(field.default),
    )


OPERATIONS = (
    Operation(
        name="automations.get_plan",
        method="GET",
        path="/app/automations/{automation_id}/plan",
        access=Access.APP,
        role=Role.MEMBER,
        function=find,
        response=AutomationPlanResponse,
        summary="Get the steps of a workflow automation",
    ),
)
