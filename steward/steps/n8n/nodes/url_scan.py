"""The node urlScanIo: scans URLs, through a bound account."""

from collections.abc import Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js


def _tags(value: AnyJson) -> Mapping[str, AnyJson]:
    return {"tags": [part.strip() for part in js.text(value).split(",") if part.strip()]}


_OPTIONS = OptionTable("additionalFields", "customAgent:customagent referer visibility", {"tags": _tags})


def _with_id(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    """Returns the scan with its id under the name that n8n uses."""
    scan = dict(response) if isinstance(response, Mapping) else {}
    number = scan.pop("uuid", None)
    return [{"scanId": number, **scan} if number else scan]


_OPERATIONS = {
    "scan.perform": send(
        "POST", "/scan/", CallForm("url", (_OPTIONS,)), needed="url", recipient="url", to_items=_with_id
    ),
    "scan.get": get("/result/{scanId}/"),
}
_DEFAULTS = {"scan": "perform"}


class UrlScanNode(HttpServiceNode):
    """Creates and reads scans; does not search them."""

    types = ("urlScanIo",)
    service = "urlscan.io"
    address = "https://urlscan.io/api/v1"
    credential_types = ("urlScanIoApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "scan"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
