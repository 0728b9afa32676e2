"""The node n8n: workflows and executions of an n8n instance, through an account bound at its host."""

from collections.abc import Mapping

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.calls.tables import CallForm, get_all
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.step_types import ItemFailed

_PAGE = 100
_NAMES = (
    "resource operation workflowId workflowObject executionId filters options returnAll limit requestOptions"
)
_WORKFLOW = {"workflowId": "which workflow it means"}
_EXECUTION = {"executionId": "which execution it means"}
_PARTS = ("name", "nodes", "connections", "settings", "staticData")  # accepted by the API


def _active(value: JsonValue) -> JsonObject:
    return {"active": "true"} if value else {}


def _without_pins(value: JsonValue) -> JsonObject:
    return {"excludePinnedData": "true"} if value else {}


_FILTERS = OptionTable(
    "filters", "tags name projectId", {"activeWorkflows": _active, "excludePinnedData": _without_pins}
)


def _details(value: JsonValue) -> JsonObject:
    return {"includeData": "true"} if value else {}


_EXECUTIONS = OptionTable("filters", "workflowId status projectId")
_DETAILS = OptionTable("options", "", {"activeWorkflows": _details})


def _workflow(fields: ServiceFields) -> JsonObject:
    """Returns the members of a workflow that the API accepts. Raises ItemFailed."""
    workflow = fields.json("workflowObject", "Workflow Object")
    if not isinstance(workflow, Mapping):
        raise ItemFailed("This step does not say which workflow it writes. Fill it in.")
    return {name: workflow[name] for name in _PARTS if name in workflow}


def _next_page(response: JsonValue, query: JsonObject) -> Mapping[str, AnyJson] | None:
    cursor = response.get("nextCursor") if isinstance(response, Mapping) else None
    return {**query, "cursor": str(cursor)} if cursor else None


def _act(method: str, path: str) -> ServiceOperation:
    return ServiceOperation(method, path, recipient="workflowId", needed=_WORKFLOW)


_OPERATIONS = {
    "workflow.getAll": ServiceOperation(
        "GET", "/workflows", lambda fields: {"limit": _PAGE, **_FILTERS.read(fields)}, "data",
        next_page=_next_page, returns_all=True, check=_FILTERS.check,
    ),
    "workflow.get": ServiceOperation("GET", "/workflows/{workflowId}", needed=_WORKFLOW),
    "workflow.create": ServiceOperation("POST", "/workflows", _workflow, text="workflowObject"),
    "workflow.update": ServiceOperation(
        "PUT", "/workflows/{workflowId}", _workflow, recipient="workflowId", text="workflowObject",
        needed=_WORKFLOW,
    ),
    "workflow.activate": _act("POST", "/workflows/{workflowId}/activate"),
    "workflow.deactivate": _act("POST", "/workflows/{workflowId}/deactivate"),
    "workflow.delete": _act("DELETE", "/workflows/{workflowId}"),
    "execution.getAll": get_all(
        "/executions", "data", _next_page, CallForm(tables=(_EXECUTIONS, _DETAILS), fixed={"limit": _PAGE}),
        limit=100,
    ),
    "execution.get": ServiceOperation(
        "GET", "/executions/{executionId}", needed=_EXECUTION, check=OptionTable("options").check
    ),
    "execution.delete": ServiceOperation(
        "DELETE", "/executions/{executionId}", recipient="executionId", needed=_EXECUTION
    ),
}  # fmt: skip


_DEFAULTS = {"workflow": "getAll"}


class N8nNode(HttpServiceNode):
    """Supports workflows and executions, but not credentials and audits."""

    types = ("n8n",)
    versions = (1,)
    service = "n8n"
    address = "https://{host}/api/v1"
    credential_types = ("n8nApi",)
    parameters = frozenset(_NAMES.split())
    default_resource = "workflow"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
