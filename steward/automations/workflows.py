"""The state of a workflow automation: its plan, and the steps that are not ready."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steward.database.accounts import connections, organizations
from steward.database.automations import plans
from steward.database.engine.base import Tx
from steward.model import plan_json
from steward.model.automation import Automation
from steward.model.called import open_calls
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import STEP_NEEDS, Plan, PlanStep
from steward.steps.shopify_flow.types import FLOW_TYPES

_MAX_NAMED = 5
_WORKFLOW = "workflow"  # the kind of a step that calls a workflow which is not chosen yet
_MAX_ID = 2**53 - 1  # the largest integer of the API: JSON numbers are exact up to it


@dataclass(frozen=True, slots=True)
class UnboundStep:
    """A step without a usable connection, and why."""

    step: str
    kind: str
    target: JsonObject | None
    why: str

    def wire(self) -> JsonObject:
        """Returns the API form of the step."""
        return {"step": self.step, "kind": self.kind, "target": self.target, "why": self.why}

    @property
    def is_account(self) -> bool:
        """Whether it is bound by `accounts`: its kind is not in the interface's closed list."""
        return self.kind not in STEP_NEEDS


def readiness_wire(state: "WorkflowState | None") -> JsonObject:
    """Returns the API form of a workflow's readiness, with unbound steps and variables without a value."""
    steps_to_bind = () if state is None else state.unconfigured
    return {
        "ready": state is not None and state.is_ready,
        "missing": [],
        "unconfigured": [entry.wire() for entry in steps_to_bind if not entry.is_account],
        "unbound": [
            {"step": entry.step, "kind": entry.kind, "why": entry.why}
            for entry in steps_to_bind
            if entry.is_account
        ],
        "unset": [] if state is None else list(state.plan.unset_variables()),
    }


def variables_wire(plan: Plan) -> list[JsonObject]:
    """Returns the API form of the variables of n8n that a workflow reads, with their values."""
    return [
        {"name": name, "required": required, "value": plan.values.get(name)}
        for name, required in ((part.name, part.is_required) for part in plan.all_n8n_variables())
    ]


def unconfigured(
    plan: Plan,
    bindings: JsonObject,
    store: Connection | None,
    connections_by_id: Mapping[IntegrationId, Connection],
) -> list[UnboundStep]:
    """Returns the steps without a needed connection, in plan order; then those without a workflow to call."""
    steps_to_bind: list[UnboundStep] = []
    for step in plan_json.needed(plan):
        needs = step.origin.needs if step.origin is not None else None
        target = step.origin.target if step.origin is not None else None
        if needs == "store":
            why = None if store is not None and _is_up(store) else "needs_reconnecting"
        else:
            why = _why_unbound(step, bindings.get(step.name), connections_by_id)
        if why is not None:
            steps_to_bind.append(UnboundStep(step.name, str(needs), target, why))
    return steps_to_bind + [UnboundStep(path, _WORKFLOW, None, "no_connection") for path in open_calls(plan)]


def _is_up(connection: Connection) -> bool:
    return connection.state is ConnectionState.CONNECTED


def _why_unbound(
    step: PlanStep, binding: JsonValue, connections_by_id: Mapping[IntegrationId, Connection]
) -> str | None:
    if not isinstance(binding, Mapping) or step.origin is None:
        return "no_connection"
    connection = _bound_connection(binding, connections_by_id)
    if connection is None or connection.kind not in bound_kinds(step):
        return "no_connection"
    if not _is_up(connection):
        return "needs_reconnecting"
    expected = _document(step.origin.target)
    bound = _document(binding.get("target")) or own_document(connection)
    return "wrong_target" if expected is not None and bound is not None and expected != bound else None


def _bound_connection(
    binding: JsonObject, connections_by_id: Mapping[IntegrationId, Connection]
) -> Connection | None:
    number = binding.get("integration_id")
    return connections_by_id.get(IntegrationId(number)) if isinstance(number, int) else None


def bound_kinds(step: PlanStep) -> tuple[str, ...]:
    """Returns the kinds of connection a step may be bound to: the one it needs and its alternatives."""
    if step.origin is None or step.origin.needs is None:
        return ()
    kind = FLOW_TYPES.get(step.origin.source_type)
    return kind.connection_kinds if kind is not None and kind.connection_kinds else (step.origin.needs,)


def _document(target: JsonValue) -> str | None:
    document = target.get("spreadsheet_id") if isinstance(target, Mapping) else None
    return document if isinstance(document, str) else None


def own_document(connection: Connection) -> str | None:
    """Returns the one spreadsheet of a service account; None for other accounts."""
    settings = connection.facts.get("settings")
    return _document(settings) if connection.auth is Auth.SERVICE_ACCOUNT else None


async def connections_of(
    tx: Tx, org: OrgId, bound: Sequence[JsonObject], store: IntegrationId | None
) -> Mapping[IntegrationId, Connection]:
    """Returns the connections a workflow's steps are bound to, and the store it runs on."""
    ids = integrations_in(*bound) | (set() if store is None else {store})
    return await connections.among(tx, org, ids) if ids else {}


def integrations_in(*bound: JsonObject) -> set[IntegrationId]:
    """Returns the connections that steps are bound to, without invalid ids, which the check reports."""
    return {
        IntegrationId(number)
        for bindings in bound
        for binding in bindings.values()
        if isinstance(binding, Mapping)
        and isinstance(number := binding.get("integration_id"), int)
        and 1 <= number <= _MAX_ID
    }


@dataclass(frozen=True, slots=True)
class WorkflowState:
    """A workflow automation's plan as it is now, and whether it could run."""

    plan: Plan
    calls: JsonObject
    unconfigured: Sequence[UnboundStep]
    is_send_allowed: bool = False  # by the organization

    @property
    def is_ready(self) -> bool:
        """Whether every step that needs a connection has one, and every required variable a value."""
        return not self.unconfigured and not self.plan.unset_variables()

    @property
    def may_send(self) -> bool:
        """Whether it may send without approval."""
        return self.is_send_allowed and self.is_ready


async def state_of(tx: Tx, automation: Automation) -> WorkflowState | None:
    """Returns the state of a workflow automation; None when its plan was deleted."""
    stored_plan = await plans.newest(tx, automation.org, automation.id)
    if stored_plan is None:
        return None
    plan = plan_json.from_json(stored_plan.plan)
    missing = await _missing(tx, automation, plan)
    organization = await organizations.get(tx, automation.org)
    allowed = organization is not None and organization.send_without_approval
    return WorkflowState(plan, chosen_imports(stored_plan.plan), missing, allowed)


def chosen_imports(plan: JsonObject) -> JsonObject:
    """Returns the API form of the imports chosen for the steps of a stored plan that call a workflow."""
    return {path: {"import_id": part.import_id} for path, part in plan_json.chosen_in(plan).items()}


async def _missing(tx: Tx, automation: Automation, plan: Plan) -> list[UnboundStep]:
    connections_by_id = await connections_of(
        tx, automation.org, [automation.bindings], automation.integration_id
    )
    store = None if automation.integration_id is None else connections_by_id.get(automation.integration_id)
    return unconfigured(plan, automation.bindings, store, connections_by_id)


async def store_plan(
    tx: Tx, org: OrgId, automation: AutomationId, version: int, plan: JsonObject, bindings: JsonObject
) -> None:
    """Stores the plan of a version and the bindings of its steps."""
    stored_plan = plans.StoredPlan(plan, bindings)
    sha256 = plan_json.plan_sha256(plan)
    await plans.insert(tx, org, automation, version, stored_plan=stored_plan, sha256=sha256)


def why_not_ready(state: WorkflowState) -> str:
    """Returns sentences that say why the workflow is not ready and name its steps and variables."""
    calling = [step.step for step in state.unconfigured if step.kind == _WORKFLOW]
    unbound = [step.step for step in state.unconfigured if step.kind != _WORKFLOW]
    unset = state.plan.unset_variables()
    sentences = []
    if unbound:
        sentences.append(f"These steps have no usable connection: {_named(unbound)}. Bind them.")
    if calling:
        words = f"No workflow is chosen for these steps to call: {_named(calling)}."
        sentences.append(f"{words} Choose one of your imports.")
    if unset:
        sentences.append(f"These variables have no value: {_named(unset)}. Enter their values.")
    return " ".join([*sentences, "Then run it again."])


def _named(names: Sequence[str]) -> str:
    """Returns the first names in quotation marks, and how many more there are."""
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(f"“{name}”" for name in names[:_MAX_NAMED]) + more
