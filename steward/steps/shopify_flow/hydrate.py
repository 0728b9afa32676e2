"""Reads the objects that a flow uses, in a separate step at the start and after every wait.

The stored plan contains only paths. These steps are added when it runs, so that their output is stored and
shown like that of any step. The connector decides how to read the store.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from steward.connectors.base.queries import FLOW_OBJECT, FLOW_OBJECTS, FlowObjectQuery, FlowObjectsQuery
from steward.connectors.woocommerce.flow_objects import unsupported_paths
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import Patched, Plan, PlanEdge, PlanStep, StepKind, StepSource, Variable
from steward.model.run import Counts, Mode
from steward.steps.base import StoreEvent
from steward.steps.shopify_flow.task_types import ONWARD, FlowCall, FlowResult, FlowType, WorkflowStepFailed

READ_TASK = "@read"
_SHOP = "shop"
# The lists that flows fetch, by the name of a single object.
_FETCHED: Mapping[str, str] = {"order": "orders", "product": "products", "customer": "customers"}
# By object type of a store event: names of its objects in flows; some events include the object's owner.
_ROOTS_BY_EVENT: Mapping[str, tuple[str, ...]] = {
    "order": ("order",),
    "product": ("product",),
    "customer": ("customer",),
    "draft_order": ("draftOrder",),
    "variant": ("productVariant", "product"),
    "refund": ("refund", "order"),
    "fulfilment": ("fulfillment", "order"),
    "return": ("return",),
    "collection": ("collection",),
    "location": ("location",),
}


# Returns the paths a platform cannot read, without a call; platforms not listed read every compiled path.
UNREAD: Mapping[str, Callable[[str, Iterable[str]], list[str]]] = {"woocommerce": unsupported_paths}


class ReadObjects(FlowType):
    """Reads the current state of the objects a run began with, and of the shop."""

    tasks = (READ_TASK,)
    kind = StepKind.READ
    stores = frozenset(("shopify", "woocommerce"))

    async def run(self, call: FlowCall) -> FlowResult:
        """Returns the objects by name. Raises CallError, WorkflowStepFailed."""
        event = call.context.event
        objects: dict[str, JsonValue] = {}
        message = None
        for variable in variables_of(call.step):
            if variable.root == _SHOP or event is not None:
                objects[variable.root] = await _read_object(call, variable, _id_of(event, variable.root))
            else:
                objects[variable.root] = await _read_newest(call, variable)
                object_name = _object_name(variable.root)
                message = f"No event told this test run of a {object_name}: the newest one was taken."
        return FlowResult(objects, counts=Counts(read=len(objects)), message=message)


def _id_of(event: StoreEvent | None, root: str) -> str:
    if root == _SHOP or event is None:
        return ""
    names = _ROOTS_BY_EVENT.get(event.object_type, ())
    number = None
    if root in names:
        number = event.object_id if names.index(root) == 0 else event.parent_id
    if not number:
        raise WorkflowStepFailed(
            f"The event that started this run tells of no {_object_name(root)}, which it looks at."
        )
    return number


async def _read_object(call: FlowCall, variable: Variable, number: str) -> JsonValue:
    query = FlowObjectQuery(variable.root, number, variable.paths, variable.patched)
    async for page in call.store.reader.read(FLOW_OBJECT, query):
        for object_ in page.items:
            return object_
    raise WorkflowStepFailed(
        f"The {_object_name(variable.root)} this run began with is no longer in the store."
    )


async def _read_newest(call: FlowCall, variable: Variable) -> JsonValue:
    """Reads the newest object, for a manual test run that was started without an object."""
    root = variable.root
    if call.run_environment.mode is not Mode.TEST:
        message = (
            f"This flow begins with a {_object_name(root)} of the store, and no event told this run of one."
        )
        raise WorkflowStepFailed(f"{message} Let the store's event start it, or make a test run.")
    fetched = _FETCHED.get(root)
    if fetched is None:
        message = (
            f"This flow begins with a {_object_name(root)} of the store, and a test run by hand has none."
        )
        raise WorkflowStepFailed(f"{message} Wait for one that the store's event starts.")
    paths = tuple(fetched + path.removeprefix(root) for path in variable.paths)
    query = FlowObjectsQuery(fetched, paths, sort="ID desc", limit=1, patched=variable.patched)
    async for page in call.store.reader.read(FLOW_OBJECTS, query):
        for object_ in page.items:
            return object_
    raise WorkflowStepFailed(f"The store has no {_object_name(root)} yet that a test run could look at.")


def with_reads(plan: Plan, entry: str) -> Plan:
    """Returns the plan with reading steps after its trigger and each wait, if it uses objects.

    Steps that fetch objects themselves get the paths used below their alias.
    """
    fetching = {step.origin.alias for step in plan.steps if step.origin is not None}
    plan = replace(plan, steps=tuple(_with_variables(step, plan.variables) for step in plan.steps))
    to_read = [variable for variable in plan.variables if variable.root not in fetching]
    if not to_read:
        return plan
    steps = _reading_steps(plan, entry, to_read)
    edges = [
        replace(edge, source=steps[edge.source].name, port=ONWARD) if edge.source in steps else edge
        for edge in plan.edges
    ]
    edges += [PlanEdge(after, ONWARD, step.name) for after, step in steps.items()]
    return replace(plan, steps=(*steps.values(), *plan.steps), edges=tuple(edges))


def _reading_steps(plan: Plan, entry: str, to_read: Sequence[Variable]) -> dict[str, PlanStep]:
    """Returns the reading steps, keyed by the trigger or wait that each follows."""
    object_name = _object_name(to_read[0].root)
    titles = {entry: f"Read the {object_name}"}
    titles |= {
        step.name: f"Read the {object_name} again" for step in plan.steps if step.kind is StepKind.WAIT
    }
    used_names = {step.name for step in plan.steps} | {trigger.name for trigger in plan.triggers}
    steps: dict[str, PlanStep] = {}
    for after, title in titles.items():
        if any(edge.source == after for edge in plan.edges):
            steps[after] = _reading_step(_unused_name(title, used_names), title, to_read)
            used_names.add(steps[after].name)
    return steps


def _with_variables(step: PlanStep, variables: Iterable[Variable]) -> PlanStep:
    alias = step.origin.alias if step.origin is not None else None
    read_by_step = [
        _encode_variable(variable) for variable in variables if alias is not None and variable.root == alias
    ]
    return replace(step, config={**step.config, "variables": read_by_step}) if read_by_step else step


def _reading_step(name: str, title: str, variables: Iterable[Variable]) -> PlanStep:
    config: JsonObject = {"variables": [_encode_variable(variable) for variable in variables]}
    return PlanStep(
        name, title, StepKind.READ, "flow.object", config, StepSource(READ_TASK, 1.0, needs="store")
    )


def _encode_variable(variable: Variable) -> JsonValue:
    patched: list[JsonValue] = [
        [field.type, field.handle, field.namespace, field.key] for field in variable.patched
    ]
    return {"root": variable.root, "paths": list(variable.paths), "patched": patched}


def variables_of(step: PlanStep) -> list[Variable]:
    """Returns the variables that a reading or fetching step reads, as stored in its config."""
    variables: list[Variable] = []
    stored: AnyJson = step.config.get("variables", ())
    for row in stored:
        patched = tuple(Patched(*field) for field in row["patched"])
        variables.append(Variable(row["root"], tuple(row["paths"]), "", patched))
    return variables


def _object_name(root: str) -> str:
    """Returns an object's name as words: draftOrder becomes draft order."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", root).lower()


def _unused_name(title: str, used_names: set[str]) -> str:
    number, name = 1, title
    while name in used_names:
        number += 1
        name = f"{title} {number}"
    return name
