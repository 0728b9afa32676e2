"""Reads what a flow is about: a step of its own before all others, and again after every wait (imports 8.2).

The kept plan names paths; these steps are put into it when it is run, so that what was read is journaled and
shown like any step's. How the store is asked is its connector's.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from steward.connectors.base.queries import FLOW_OBJECT, FLOW_OBJECTS, FlowObjectQuery, FlowObjectsQuery
from steward.connectors.woocommerce.flow_objects import unsupported_paths
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Patched, Plan, PlanEdge, PlanStep, StepKind, StepSource, Variable
from steward.model.run import Counts, Mode
from steward.steps.base import StoreEvent
from steward.steps.shopify_flow.kinds import ONWARD, FlowCall, FlowResult, FlowType, WorkflowStepFailed

READ_TASK = "@read"
SHOP = "shop"
# What flows fetch lists of, and under what name one of them is looked at.
FETCHED: Mapping[str, str] = {"order": "orders", "product": "products", "customer": "customers"}
# The objects of store events under the names they have in flows; of some events the owner's too.
_OF_EVENT: Mapping[str, tuple[str, ...]] = {
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


# Paths that a platform cannot read, told without a call; one that is not here reads whatever was compiled.
UNREAD: Mapping[str, Callable[[str, Iterable[str]], list[str]]] = {"woocommerce": unsupported_paths}


class ReadObjects(FlowType):
    """Reads the objects a run began with, and the shop, as they are now."""

    tasks = (READ_TASK,)
    kind = StepKind.READ
    stores = frozenset(("shopify", "woocommerce"))

    async def run(self, call: FlowCall) -> FlowResult:
        """The objects by name. Raises CallError, StepBroke."""
        event = call.context.event
        found: dict[str, JsonValue] = {}
        message = None
        for variable in variables_of(call.step):
            if variable.root == SHOP or event is not None:
                found[variable.root] = await _read(call, variable, _id_of(event, variable.root))
            else:
                found[variable.root] = await _newest(call, variable)
                spoken = _spoken(variable.root)
                message = f"No event told this test run of a {spoken}: the newest one was taken."
        return FlowResult(found, counts=Counts(read=len(found)), message=message)


def _id_of(event: StoreEvent | None, root: str) -> str:
    if root == SHOP or event is None:
        return ""
    names = _OF_EVENT.get(event.object_type, ())
    number = None
    if root in names:
        number = event.object_id if names.index(root) == 0 else event.parent_id
    if not number:
        raise WorkflowStepFailed(
            f"The event that started this run tells of no {_spoken(root)}, which it looks at."
        )
    return number


async def _read(call: FlowCall, variable: Variable, number: str) -> JsonValue:
    ask = FlowObjectQuery(variable.root, number, variable.paths, variable.patched)
    async for page in call.store.reader.read(FLOW_OBJECT, ask):
        for one in page.items:
            return one
    raise WorkflowStepFailed(f"The {_spoken(variable.root)} this run began with is no longer in the store.")


async def _newest(call: FlowCall, variable: Variable) -> JsonValue:
    """Of a test run by hand, which has no object of its own, the newest there is."""
    root = variable.root
    if call.scene.mode is not Mode.TEST:
        words = f"This flow begins with a {_spoken(root)} of the store, and no event told this run of one."
        raise WorkflowStepFailed(f"{words} Let the store's event start it, or make a test run.")
    fetched = FETCHED.get(root)
    if fetched is None:
        words = f"This flow begins with a {_spoken(root)} of the store, and a test run by hand has none."
        raise WorkflowStepFailed(f"{words} Wait for one that the store's event starts.")
    paths = tuple(fetched + path.removeprefix(root) for path in variable.paths)
    ask = FlowObjectsQuery(fetched, paths, sort="ID desc", limit=1, patched=variable.patched)
    async for page in call.store.reader.read(FLOW_OBJECTS, ask):
        for one in page.items:
            return one
    raise WorkflowStepFailed(f"The store has no {_spoken(root)} yet that a test run could look at.")


def with_reads(plan: Plan, entry: str) -> Plan:
    """The plan with a reading step after its trigger and after each wait, where it looks at objects at all.

    A step that fetches by itself is told what is looked at below its alias.
    """
    fetching = {step.origin.alias for step in plan.steps if step.origin is not None}
    plan = replace(plan, steps=tuple(_told(step, plan.variables) for step in plan.steps))
    wanted = [one for one in plan.variables if one.root not in fetching]
    if not wanted:
        return plan
    what = _spoken(wanted[0].root)
    titles = {entry: f"Read the {what}"}
    titles |= {step.name: f"Read the {what} again" for step in plan.steps if step.kind is StepKind.WAIT}
    taken = {step.name for step in plan.steps} | {trigger.name for trigger in plan.triggers}
    steps: dict[str, PlanStep] = {}
    for after, title in titles.items():
        if any(edge.source == after for edge in plan.edges):
            steps[after] = _reading(_free(title, taken), title, wanted)
            taken.add(steps[after].name)
    edges = [
        replace(edge, source=steps[edge.source].name, port=ONWARD) if edge.source in steps else edge
        for edge in plan.edges
    ]
    edges += [PlanEdge(after, ONWARD, step.name) for after, step in steps.items()]
    return replace(plan, steps=(*steps.values(), *plan.steps), edges=tuple(edges))


def _told(step: PlanStep, variables: Iterable[Variable]) -> PlanStep:
    alias = step.origin.alias if step.origin is not None else None
    own = [_kept(one) for one in variables if alias is not None and one.root == alias]
    return replace(step, config={**step.config, "variables": own}) if own else step


def _reading(name: str, title: str, wanted: Iterable[Variable]) -> PlanStep:
    config: JsonObject = {"variables": [_kept(one) for one in wanted]}
    return PlanStep(
        name, title, StepKind.READ, "flow.object", config, StepSource(READ_TASK, 1.0, needs="store")
    )


def _kept(one: Variable) -> JsonValue:
    patched: list[JsonValue] = [[each.type, each.handle, each.namespace, each.key] for each in one.patched]
    return {"root": one.root, "paths": list(one.paths), "patched": patched}


def variables_of(step: PlanStep) -> list[Variable]:
    """What a reading or fetching step reads, as it was put into its config."""
    found: list[Variable] = []
    kept: Any = step.config.get("variables", ())
    for one in kept:
        patched = tuple(Patched(*each) for each in one["patched"])
        found.append(Variable(one["root"], tuple(one["paths"]), "", patched))
    return found


def _spoken(root: str) -> str:
    """draftOrder is a draft order."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", root).lower()


def _free(wanted: str, taken: set[str]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted} {number}"
    return name
