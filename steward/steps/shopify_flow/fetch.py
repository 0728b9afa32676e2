"""Task "Get data": searches the store for orders, products or customers."""

from collections.abc import Iterable

from steward.connectors.base.queries import FLOW_OBJECTS, FlowObjectsQuery
from steward.connectors.shopify.hydration import sort_order
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.outbound.errors import CallError
from steward.steps.shopify_flow.hydrate import variables_of
from steward.steps.shopify_flow.task_types import FlowCall, FlowResult, FlowType, StepProblem, TaskDefinition
from steward.steps.workflow.external_calls import as_item_failure

_MAX_OBJECTS = 100


class Fetch(FlowType):
    """Reads only the fields that later steps use: the plan's variable paths below its alias."""

    kind = StepKind.READ
    fields = frozenset(("object", "query", "sort", "maximum"))
    stores = frozenset(("shopify",))
    reads_store = True

    def __init__(self, root: str, singular: str) -> None:
        self.root = root
        self.tasks = tuple(f"shopify::flow::fetch::{name}" for name in (root, singular))
        self.label = f"Get {singular} data"
        self.variable = f"get{singular.capitalize()}Data"

    def operation(self, definition: TaskDefinition) -> str:
        """Returns `shopify.orders.list`, for example, like steps imported from n8n."""
        return f"shopify.{self.root}.list"

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields a limit out of range and an unknown sort order."""
        maximum = definition.config.get("maximum", _MAX_OBJECTS)
        if isinstance(maximum, bool) or not isinstance(maximum, int) or not 1 <= maximum <= _MAX_OBJECTS:
            yield StepProblem(
                "error",
                "parameter",
                f"It reads more than {_MAX_OBJECTS} at once. Ask for at most {_MAX_OBJECTS}.",
            )
        sort = definition.config.get("sort")
        if isinstance(sort, str) and sort_order(self.root, sort) is None:
            message = f"It sorts by “{sort[:80]}”, which the store does not know. Choose the order again."
            yield StepProblem("error", "parameter", message)

    async def run(self, call: FlowCall) -> FlowResult:
        """Returns the list. Raises ItemFailed, or CallError for a read to retry later."""
        alias = call.step.origin.alias if call.step.origin is not None else None
        variables = variables_of(call.step)
        paths = tuple(
            self.root + path.removeprefix(str(alias)) for variable in variables for path in variable.paths
        )
        query = FlowObjectsQuery(
            self.root,
            paths,
            query=call.text("query"),
            sort=call.text("sort") or None,
            limit=int(call.value("maximum") or _MAX_OBJECTS),
            patched=tuple(field for variable in variables for field in variable.patched),
        )
        objects: list[JsonValue] = []
        try:
            async for page in call.store.reader.read(FLOW_OBJECTS, query):
                objects += page.items
        except CallError as error:
            raise as_item_failure(error) from error
        return FlowResult(objects, counts=Counts(read=len(objects)))


ORDERS = Fetch("orders", "order")
PRODUCTS = Fetch("products", "product")
CUSTOMERS = Fetch("customers", "customer")
