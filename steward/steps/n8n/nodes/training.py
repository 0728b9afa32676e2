"""The nodes of n8n's course: its sample customers, and messages that are not sent."""

from collections.abc import Iterable

from steward.steps.workflow.items import Item
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    for_each_item,
    paired_with,
)

_COLUMNS = ("id", "name", "email", "notes", "country", "created")
_PEOPLE = tuple(
    dict(zip(_COLUMNS, row, strict=True))
    for row in (
        (
            "23423532", "Jay Gatsby", "gatsby@west-egg.com", "Keeps asking about a green light??", "US",
            "1925-04-10",
        ),
        (
            "23423533", "José Arcadio Buendía", "jab@macondo.co",
            "Lots of people named after him. Very confusing", "CO", "1967-05-05",
        ),
        (
            "23423534", "Max Sendak", "info@in-and-out-of-weeks.org", "Keeps rolling his terrible eyes", "US",
            "1963-04-09",
        ),
        (
            "23423535", "Zaphod Beeblebrox", "captain@heartofgold.com",
            "Felt like I was talking to more than one person", None, "1979-10-12",
        ),
        ("23423536", "Edmund Pevensie", "edmund@narnia.gov", "Passionate sailor", "UK", "1950-10-16"),
    )
)  # fmt: skip
_LIMIT = 5


class TrainingCustomersNode(StepType):
    """Outputs the five customers of n8n's course."""

    types = ("n8nTrainingCustomerDatastore",)
    field_use = FieldUse.REPLACES_ITEMS
    parameters = frozenset(("operation", "returnAll", "limit"))
    choices = {"operation": frozenset(("getAllPeople", "getOnePerson"))}  # noqa: RUF012

    async def run(self, call: StepCall) -> NodeResult:
        """Returns the customers for each item, or the first of them. Raises ItemFailed."""

        def customers(index: int, _: Item) -> list[Item]:
            params = call.params(index)
            if params.text("operation", "getOnePerson") == "getOnePerson":
                return [Item(dict(_PEOPLE[0]), paired_with(index))]
            limit = params.get("limit", _LIMIT)
            if not params.flag("returnAll") and (not isinstance(limit, int | float) or limit < 1):
                raise ItemFailed("This step does not say how many customers it reads. Fill in a number.")
            count = len(_PEOPLE) if params.flag("returnAll") else int(limit)
            return [Item(dict(person), paired_with(index)) for person in _PEOPLE[:count]]

        return for_each_item(call, customers)


class TrainingMessengerNode(StepType):
    """Simulates sending messages, as in n8n's course."""

    types = ("n8nTrainingCustomerMessenger",)
    field_use = FieldUse.REPLACES_ITEMS
    parameters = frozenset(("customerId", "message"))

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a note that the message is not sent."""
        message = "It belongs to n8n's course: its messages go to nobody, as in n8n. Nothing to do."
        yield StepProblem("note", "parameter", message)

    async def run(self, call: StepCall) -> NodeResult:
        """Returns n8n's report on each message."""

        def sentence(index: int, _: Item) -> list[Item]:
            customer = call.params(index).text("customerId")
            return [Item({"output": f"Sent message to customer {customer}"}, paired_with(index))]

        return for_each_item(call, sentence)
