"""The node pushover: sends messages to a user's devices, through a bound account."""

from collections.abc import Iterable

from steward.model.json import AnyJson
from steward.model.removed_secrets import marker
from steward.steps.n8n.calls.tables import CallForm, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_OPTIONS = OptionTable("additionalFields", "device sound timestamp title url url_title html")
_EMERGENCY = 2


def _message(fields: ServiceFields) -> dict[str, AnyJson]:
    """Returns the message; the account replaces the marker with its application token."""
    body: dict[str, AnyJson] = {
        "token": marker(1), "user": fields.text("userKey"), "message": fields.text("message"),
        "priority": fields.text("priority"),
    }  # fmt: skip
    if body["priority"] == str(_EMERGENCY):
        body |= {"retry": fields.text("retry", "30"), "expire": fields.text("expire", "30")}
    options = {name: value for name, value in _OPTIONS.read(fields).items() if value not in ("", False)}
    return body | options | ({"html": "1"} if "html" in options else {})


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("priority") is None:
        message = "It does not say the priority of its message. Choose one in n8n."
        yield StepProblem("error", "parameter", message)


_OPERATIONS = {
    "message.push": send(
        "POST", "/messages.json", CallForm("userKey message priority retry expire", (_OPTIONS,)),
        needed="userKey message", recipient="userKey", text="message", makes=_message, is_form=True,
        check=_problems,
    ),
}  # fmt: skip
_DEFAULTS = {"message": "push"}


class PushoverNode(HttpServiceNode):
    """Sends messages without files."""

    types = ("pushover",)
    service = "Pushover"
    address = "https://api.pushover.net/1"
    credential_types = ("pushoverApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "message"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
