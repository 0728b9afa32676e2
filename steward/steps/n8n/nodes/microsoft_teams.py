"""The node microsoftTeams: sends a message to the channel of the bound connection."""

import html
import re
from collections.abc import Iterable

from steward.connectors.base.commands import PostCard
from steward.connectors.base.messages import message_operation
from steward.model.plan import StepKind
from steward.steps.workflow.external_calls import ItemProposals, account_of
from steward.steps.workflow.items import Item
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
)

_TAG = re.compile(r"<[^>]{0,2000}>")
_BREAK = re.compile(r"(?i)<\s*(?:br|/p|/div|/li|/h[1-6]|/tr)\b[^>]*>")


class MicrosoftTeamsNode(StepType):
    """Supports only creating messages in a channel or chat."""

    types = ("microsoftTeams",)
    field_use = FieldUse.REPLACES_ITEMS
    versions = (1, 1.1, 2)
    kind = StepKind.SEND
    parameters = frozenset(
        [
            "authentication",
            "resource",
            "operation",
            "teamId",
            "channelId",
            "chatId",
            "message",
            "messageType",
            "contentType",
            "options",
            "includeLinkToWorkflow",
        ]
    )

    def operation(self, node: NodeDefinition) -> str:
        """Returns teams.post."""
        return "teams.post"

    def required_connection(self, node: NodeDefinition) -> str:
        """Returns teams."""
        return "teams"

    def lacks_response(self, node: NodeDefinition) -> bool:
        """Returns True: the channel's webhook does not return the message, which n8n outputs."""
        return True

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported operations, or a warning about the channel."""
        resource = node.get("resource", "channel")
        if resource not in ("channelMessage", "chatMessage") or node.get("operation", "create") != "create":
            message = (
                "Teams steps only send messages here. "
                "Call Microsoft Graph by an HTTP Request step instead, or remove the step."
            )
            yield StepProblem("error", "parameter", message, is_operation=True)
            return
        message = (
            "It writes to the channel of the connection bound to it, not to the one in the file."
            " Check that this is right."
        )
        yield StepProblem("warning", "parameter", message)

    async def run(self, call: StepCall) -> NodeResult:
        """Proposes one message for each item."""
        account = account_of(call)
        operation = message_operation(account.changes)
        item_proposals = ItemProposals(call)
        for index in range(len(call.items)):
            params = call.params(index)
            try:
                lines = _lines(
                    params.text("message"), params.text("contentType", params.text("messageType", "text"))
                )
            except ItemFailed as failure:
                item_proposals.fail_item(index, failure.message)
                continue
            if not lines:
                item_proposals.fail_item(index, "The message of this step is empty. Fill it in.")
                continue
            card = PostCard(title=lines[0][:200], text=tuple(lines[1:]) if len(lines) > 1 else ())
            planned = operation.plan([card], integration_id=account.connection.integration_id)
            item_proposals.add_plan(
                index, planned, Item({"message": "\n".join(lines)}, paired_with(index)), operation
            )
        return item_proposals.result()


def _lines(message: str, kind: str) -> list[str]:
    """Returns the lines of the message without HTML tags."""
    text = message
    if kind == "html":
        text = html.unescape(_TAG.sub("", _BREAK.sub("\n", message)))
    return [line.strip() for line in text.splitlines() if line.strip()]
