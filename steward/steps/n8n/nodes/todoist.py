"""The node todoist: a user's tasks, through a bound account."""

from collections.abc import Mapping

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.calls.tables import CallForm, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation

_PAGE = 100
_NAMES = (
    "authentication resource operation project labels content options taskId updateFields filters returnAll"
    " limit section"
)
_TASK = {"taskId": "which task it means"}
_FIELDS = (
    "description dueDateTime:due_datetime dueString:due_string dueDate:due_date dueLang:due_lang priority"
    " section:section_id parentId:parent_id order"
)
_NEW = OptionTable("options", _FIELDS)
_CHANGES = OptionTable("updateFields", f"content labels {_FIELDS}")
_FILTERS = OptionTable(
    "filters",
    "filter:query lang projectId:project_id sectionId:section_id labelId:label label ids parentId:parent_id",
)


def _new_task(fields: ServiceFields) -> JsonObject:
    labels = fields.value("labels")
    return {
        "content": fields.text("content"),
        "project_id": fields.text("project") or None,
        "labels": labels or None,
        **_NEW.read(fields),
    }


def _next_page(response: JsonValue, query: JsonObject) -> Mapping[str, AnyJson] | None:
    cursor = response.get("next_cursor") if isinstance(response, Mapping) else None
    return {**query, "cursor": str(cursor)} if cursor else None


def _success(response: JsonValue, fields: ServiceFields) -> list[dict[str, JsonValue]]:
    return [{"success": True}]


def _act(method: str, path: str) -> ServiceOperation:
    return ServiceOperation(method, path, recipient="taskId", needed=_TASK, to_items=_success)


_OPERATIONS = {
    "task.create": ServiceOperation(
        "POST", "/tasks", _new_task, recipient="project", text="content",
        needed={"content": "the text of the task"}, check=_NEW.check,
    ),
    "task.update": ServiceOperation(
        "POST", "/tasks/{taskId}", _CHANGES.read, recipient="taskId", text="updateFields.content",
        needed=_TASK, check=_CHANGES.check, to_items=_success,
    ),
    "task.get": ServiceOperation("GET", "/tasks/{taskId}", needed=_TASK),
    "task.getAll": ServiceOperation(
        "GET", "/tasks", lambda fields: {"limit": _PAGE, **_FILTERS.read(fields)}, "results",
        next_page=_next_page, limit=50, check=_FILTERS.check,
        choose_path=lambda fields: "/tasks/filter" if fields.text("filters.filter") else "/tasks",
    ),
    "task.move": send(
        "POST", "/tasks/{taskId}/move",
        CallForm("project:project_id", (OptionTable("options", "parent:parent_id section:section_id"),)),
        needed="project", to_items=_success,
    ),
    "task.close": _act("POST", "/tasks/{taskId}/close"),
    "task.reopen": _act("POST", "/tasks/{taskId}/reopen"),
    "task.delete": _act("DELETE", "/tasks/{taskId}"),
}  # fmt: skip


_DEFAULTS = {"task": "create"}


class TodoistNode(HttpServiceNode):
    """Supports tasks, through Todoist's current API in every version of the node."""

    types = ("todoist",)
    versions = (1, 2, 2.1)
    service = "Todoist"
    address = "https://api.todoist.com/api/v1"
    credential_types = ("todoistApi", "todoistOAuth2Api")
    parameters = frozenset(_NAMES.split())
    default_resource = "task"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
