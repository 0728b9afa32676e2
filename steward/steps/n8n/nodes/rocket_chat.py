"""The node rocketchat: sends messages, through a bound account."""

from collections.abc import Iterable

from steward.steps.n8n.calls.tables import CallForm, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_OPTIONS = OptionTable("options", "alias avatar emoji")


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("attachments") or node.get("attachmentsJson"):
        yield StepProblem(
            "error", "parameter", "It has attachments, which are not sent here. Write them as text."
        )


_OPERATIONS = {
    "chat.postMessage": send(
        "POST", "/chat.postMessage", CallForm("channel text", (_OPTIONS,)), needed="channel text",
        recipient="channel", text="text", check=_problems,
    ),
}  # fmt: skip
_DEFAULTS = {"chat": "postMessage"}


class RocketChatNode(HttpServiceNode):
    """Sends messages without attachments."""

    types = ("rocketchat",)
    service = "Rocket.Chat"
    address = "https://{host}/api/v1"
    credential_types = ("rocketchatApi",)
    parameters = parameters_of(_OPERATIONS, "jsonParameters attachments attachmentsJson")
    default_resource = "chat"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
