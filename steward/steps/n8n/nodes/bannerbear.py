"""The node bannerbear: renders templates as images, through a bound account."""

from collections.abc import Iterable, Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, one_page, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, rows_of
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_OPTIONS = OptionTable("additionalFields", "metadata webhookUrl:webhook_url")
_CHANGED = {
    "name": "name",
    "text": "text",
    "color": "color",
    "background": "background",
    "imageUrl": "image_url",
}


def _modifications(value: AnyJson) -> Mapping[str, AnyJson]:
    rows = rows_of(value, "modificationsValues")
    return {
        "modifications": [
            {name: row[parameter] for parameter, name in _CHANGED.items() if row.get(parameter)}
            for row in rows
        ]
    }


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("additionalFields.waitForImage"):
        message = (
            "It waits until the image is made, which is not supported. Wait and read the image in steps."
        )
        yield StepProblem("error", "parameter", message)


_OPERATIONS = {
    "image.create": send(
        "POST", "/images",
        CallForm("templateId:template", (_OPTIONS,), {"modificationsUi": _modifications}),
        needed="templateId", recipient="templateId", check=_problems,
    ),
    "image.get": get("/images/{imageId}"),
    "template.get": get("/templates/{templateId}"),
    "template.getAll": get_all("/templates", "", one_page, returns_all=True),
}  # fmt: skip
_DEFAULTS = {"image": "create", "template": "get"}


class BannerbearNode(HttpServiceNode):
    """Creates and reads images, and reads templates."""

    types = ("bannerbear",)
    service = "Bannerbear"
    address = "https://api.bannerbear.com/v2"
    credential_types = ("bannerbearApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "image"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
