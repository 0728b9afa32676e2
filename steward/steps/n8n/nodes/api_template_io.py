"""The node apiTemplateIo: renders templates as images and documents, through a bound account."""

from collections.abc import Callable, Iterable, Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem


def _template(name: str) -> Callable[[ServiceFields], Mapping[str, str]]:
    return lambda fields: {"template_id": fields.text(name)}


def _json_of(fields: ServiceFields, name: str, label: str) -> AnyJson:
    value = fields.json(name, label)
    if value is None:
        raise ItemFailed(f"“{label}” of this step is empty. Fill it in.")
    return value


def _image(fields: ServiceFields) -> dict[str, AnyJson]:
    return {"overrides": _json_of(fields, "overridesJson", "Overrides (JSON)")}


def _document(fields: ServiceFields) -> Mapping[str, AnyJson]:
    if fields.flag("jsonParameters"):
        value = _json_of(fields, "propertiesJson", "Properties (JSON)")
        return value if isinstance(value, Mapping) else {}
    rows = rows_of(fields.value("propertiesUi"), "propertyItem")
    return {js.text(row.get("key")): row.get("value") for row in rows}


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("download"):
        message = "It fetches the file that it makes, which is not supported. Fetch it by a next step."
        yield StepProblem("error", "binary", message)


def _image_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from _problems(node)
    if not node.get("jsonParameters"):
        message = "What it changes of the template is not written as JSON. Write it as JSON."
        yield StepProblem("error", "parameter", message)


_FORM = CallForm("jsonParameters overridesJson overridesUi propertiesJson propertiesUi download")
_OPERATIONS = {
    "image.create": send(
        "POST", "/create", _FORM, needed="imageTemplateId", recipient="imageTemplateId", makes=_image,
        query=_template("imageTemplateId"), check=_image_problems,
    ),
    "pdf.create": send(
        "POST", "/create", _FORM, needed="pdfTemplateId", recipient="pdfTemplateId", makes=_document,
        query=_template("pdfTemplateId"), check=_problems,
    ),
    "account.get": get("/account-information"),
}  # fmt: skip
_DEFAULTS = {"image": "create", "pdf": "create", "account": "get"}


class ApiTemplateNode(HttpServiceNode):
    """Renders images and documents; does not download the files."""

    types = ("apiTemplateIo",)
    service = "APITemplate.io"
    address = "https://api.apitemplate.io/v1"
    credential_types = ("apiTemplateIoApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "image"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
