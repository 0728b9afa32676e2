"""The node pushbullet: sends notes and links to a user's devices, as the person who signed in."""

from collections.abc import Iterable

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_TARGETS = ("channel_tag", "device_iden", "email")


def _push(fields: ServiceFields) -> dict[str, AnyJson]:
    body: dict[str, AnyJson] = {"type": fields.text("type", "note"), "body": fields.text("body")}
    for name in ("title", "url"):
        body |= {name: fields.text(name)} if fields.text(name) else {}
    target = fields.text("target", "default")
    return body | ({target: fields.text("value")} if target in _TARGETS else {})


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("type", "note") not in ("note", "link"):
        yield StepProblem("error", "binary", "It sends a file, which is not supported. Send a link instead.")


_OPERATIONS = {
    "push.create": send(
        "POST", "/pushes", CallForm("type title body url target value"), needed="body", recipient="value",
        text="body", makes=_push, check=_problems,
    ),
}  # fmt: skip
_DEFAULTS = {"push": "create"}


class PushbulletNode(HttpServiceNode):
    """Sends notes and links."""

    types = ("pushbullet",)
    service = "Pushbullet"
    address = "https://api.pushbullet.com/v2"
    credential_types = ("pushbulletOAuth2Api",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "push"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
