"""The node webflow: items of collections, through a bound account."""

from collections.abc import Callable, Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, offset_pages, parameters_of, send, success
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import rows_of
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.workflow.javascript import values as js

_ITEMS = "/collections/{collectionId}/items"


def _fields(value: AnyJson) -> Mapping[str, AnyJson]:
    rows = rows_of(value, "fieldValues")
    return {"fieldData": {js.text(row.get("fieldId")): row.get("fieldValue") for row in rows}}


def _path(*names: str) -> Callable[[ServiceFields], str]:
    """Returns a function for the path of a collection or item, of its live version if the step says so."""

    def path(fields: ServiceFields) -> str:
        collection, *item = (path_segment(fields.text(name), "item") for name in names)
        end = "/live" if fields.flag("live") else ""
        return f"/collections/{collection}/items{''.join(f'/{segment}' for segment in item)}{end}"

    return path


_BOTH = ("collectionId", "itemId")
_FORM = CallForm(shapes={"fieldsUi": _fields})
_OPERATIONS = {
    "item.create": send(
        "POST", _ITEMS, _FORM, needed="collectionId fieldsUi", choose_path=_path("collectionId")
    ),
    "item.update": send("PATCH", f"{_ITEMS}/{{itemId}}", _FORM, needed="fieldsUi", choose_path=_path(*_BOTH)),
    "item.get": get(f"{_ITEMS}/{{itemId}}"),
    "item.getAll": get_all(
        _ITEMS, "items", offset_pages("items", 100), CallForm(fixed={"limit": 100}), limit=100
    ),
    "item.deleteItem": send("DELETE", f"{_ITEMS}/{{itemId}}", to_items=success),
}
_DEFAULTS = {"item": "get"}


class WebflowNode(HttpServiceNode):
    """Supports items, through Webflow's current API, which version 2 of the node calls."""

    types = ("webflow",)
    versions = (2,)
    refused_versions = (1,)
    service = "Webflow"
    address = "https://api.webflow.com/v2"
    credential_types = ("webflowOAuth2Api",)
    parameters = parameters_of(_OPERATIONS, "siteId live")
    default_resource = "item"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
