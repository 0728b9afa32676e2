"""The node homeAssistant: states and services of a home, through a bound account."""

from collections.abc import Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import (
    CallForm,
    elements,
    get,
    get_all,
    one_page,
    parameters_of,
    send,
    success,
)
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import rows_of
from steward.steps.workflow.javascript import values as js


def _attributes(value: AnyJson) -> Mapping[str, AnyJson]:
    return {js.text(row.get("name")): row.get("value") for row in rows_of(value, "attributes")}


def _state_attributes(value: AnyJson) -> Mapping[str, AnyJson]:
    return {"attributes": _attributes(value)}


_OPERATIONS = {
    "service.call": send(
        "POST", "/services/{domain}/{service}", CallForm(shapes={"serviceAttributes": _attributes}),
        recipient="service", to_items=success,
    ),
    "state.get": get("/states/{entityId}"),
    "state.getAll": get_all("/states", "", one_page, limit=50),
    "state.upsert": send(
        "POST", "/states/{entityId}", CallForm("state", shapes={"stateAttributes": _state_attributes}),
        needed="state", text="state", to_items=elements(),
    ),
}  # fmt: skip
_DEFAULTS = {"state": "get"}


class HomeAssistantNode(HttpServiceNode):
    """Reads and sets states, and calls services."""

    types = ("homeAssistant",)
    service = "Home Assistant"
    address = "https://{host}/api"
    credential_types = ("homeAssistantApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "config"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
