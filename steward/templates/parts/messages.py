"""Finds the connections that meet a template's needs, and builds the message of its last step."""

from collections.abc import Iterable

from steward.connectors import kinds_receiving, title_of
from steward.connectors.base.commands import PostCard
from steward.connectors.base.connector import Receivable
from steward.connectors.base.messages import message_operation
from steward.connectors.base.settings import NAMES_CHANNEL
from steward.model.connection import Connection
from steward.model.ids import IntegrationId
from steward.steps.base import AccountAccess, JsonRecord, MemoryWrite, StepContext, StepOutput, StepResult

# The kinds of connection on which an automation can run.
STORES = ("shopify", "woocommerce")


def accepted_kinds(need: str) -> tuple[str, ...]:
    """Returns the kinds of connection that meet a need by its public name.

    `store` is any store, `teams` any connection that receives messages; each other need is one kind.
    """
    if need == "store":
        return STORES
    if need == "teams":
        return kinds_receiving(Receivable.MESSAGE)
    return (need,)


def wrong_kind(connection: Connection, need: str) -> str:
    """Returns the sentence for a connection whose kind does not meet a need; it names those that do."""
    titles = ", ".join(title_of(kind) for kind in accepted_kinds(need))
    words = {"store": f"a store ({titles})", "teams": f"a channel for messages ({titles})"}
    needed = words.get(need, f"a connection to {titles}")
    return f"This is a connection to {title_of(connection.kind)}. Needed here is {needed}."


def names_channel(connection: Connection) -> bool:
    """Returns whether the connection has its own channel, so that messages need not name one."""
    return connection.facts.get(NAMES_CHANNEL) is not False


class TeamsInput(JsonRecord, frozen=True):
    """The input `teams`."""

    integration_id: int


class PostedMessage(StepOutput, frozen=True):
    """The output of a step that posts a message: the platform's name for sentences."""

    platform: str


class SheetInput(JsonRecord, frozen=True):
    """The input `sheet`."""

    integration_id: int
    spreadsheet_id: str | None = None
    tab: str | None = None

    def account(self, context: StepContext) -> AccountAccess:
        """Returns the connection of the sheet."""
        return context.accounts[IntegrationId(self.integration_id)]


def post_card(context: StepContext, card: PostCard, *, remember: Iterable[MemoryWrite] = ()) -> StepResult:
    """Proposes `card` for the channel of the input `teams`; stores `remember` once it is sent."""
    teams = TeamsInput.from_json(context.inputs["teams"])
    account = context.accounts[IntegrationId(teams.integration_id)]
    operation = message_operation(account.changes)
    planned = operation.plan([card], integration_id=account.connection.integration_id)
    title = f"Post one message to {operation.platform}"
    return PostedMessage(operation.platform).as_result(title, proposals=planned.proposals, memory=remember)


def no_message(*, remember: Iterable[MemoryWrite] = ()) -> StepResult:
    """Returns the step's result when there is nothing to report."""
    return StepResult({}, title="Nothing to tell, no message", memory=tuple(remember))
