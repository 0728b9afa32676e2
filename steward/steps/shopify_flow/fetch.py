"""Get data: orders, products or customers of the store by a search, as a list (imports 8.3)."""

from collections.abc import Iterable

from steward.connectors.base.queries import FLOW_OBJECTS, FlowObjectsQuery
from steward.connectors.shopify.hydration import sort_of
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.outbound.errors import CallError
from steward.steps.shopify_flow.hydrate import variables_of
from steward.steps.shopify_flow.kinds import FlowAsked, FlowCall, FlowResult, FlowType, StepProblem
from steward.steps.workflow.effects import as_item_failure

MOST = 100


class Fetch(FlowType):
    """Only what later steps use is read: the paths below its alias, among the plan's variables."""

    kind = StepKind.READ
    known = frozenset(("object", "query", "sort", "maximum"))
    stores = frozenset(("shopify",))
    of_store = True

    def __init__(self, root: str, one: str) -> None:
        self.root = root
        self.tasks = tuple(f"shopify::flow::fetch::{name}" for name in (root, one))
        self.label = f"Get {one} data"
        self.variable = f"get{one.capitalize()}Data"

    def operation(self, asked: FlowAsked) -> str:
        """shopify.orders.list and so on, as other imports have it."""
        return f"shopify.{self.root}.list"

    def check(self, asked: FlowAsked) -> Iterable[StepProblem]:
        """A number it may read, and an order the store knows."""
        most = asked.config.get("maximum", MOST)
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST:
            yield StepProblem(
                "error", "parameter", f"It reads more than {MOST} at once. Ask for at most {MOST}."
            )
        sort = asked.config.get("sort")
        if isinstance(sort, str) and sort_of(self.root, sort) is None:
            words = f"It sorts by “{sort[:80]}”, which the store does not know. Choose the order anew."
            yield StepProblem("error", "parameter", words)

    async def run(self, call: FlowCall) -> FlowResult:
        """The list. Raises CallError for a read that is to be waited for."""
        alias = call.step.origin.alias if call.step.origin is not None else None
        told = variables_of(call.step)
        paths = tuple(self.root + path.removeprefix(str(alias)) for one in told for path in one.paths)
        ask = FlowObjectsQuery(
            self.root,
            paths,
            query=call.text("query"),
            sort=call.text("sort") or None,
            limit=int(call.value("maximum") or MOST),
            patched=tuple(each for one in told for each in one.patched),
        )
        found: list[JsonValue] = []
        try:
            async for page in call.store.reader.read(FLOW_OBJECTS, ask):
                found += page.items
        except CallError as error:
            raise as_item_failure(error) from error
        return FlowResult(found, counts=Counts(read=len(found)))


ORDERS = Fetch("orders", "order")
PRODUCTS = Fetch("products", "product")
CUSTOMERS = Fetch("customers", "customer")
