"""The node googleTasks: the tasks in a user's lists, through a bound account."""

from collections.abc import Mapping

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation

_PAGE = 100
_NAMES = "resource operation task taskId title additionalFields updateFields returnAll limit"
_LIST = {"task": "which list it means"}
_ONE_TASK = _LIST | {"taskId": "which task it means"}
_TASKS, _TASK = "/lists/{task}/tasks", "/lists/{task}/tasks/{taskId}"
_NEW = OptionTable("additionalFields", "completed deleted dueDate:due notes status parent previous")
_CHANGES = OptionTable("updateFields", "completed deleted dueDate:due notes status title parent previous")
_READ = OptionTable(
    "additionalFields",
    "completedMin completedMax dueMin dueMax showCompleted showDeleted showHidden updatedMin",
)
_IN_QUERY = ("parent", "previous")


def _body(table: OptionTable) -> AnyJson:
    def body(fields: ServiceFields) -> dict[str, AnyJson]:
        title = {"title": fields.text("title")} if table is _NEW else {}
        return title | {name: value for name, value in table.read(fields).items() if name not in _IN_QUERY}

    return body


def _places(fields: ServiceFields) -> dict[str, str]:
    """Returns the position of a new task in its list."""
    return {name: str(value) for name, value in fields.options("additionalFields", *_IN_QUERY).items()}


def _next_page(response: JsonValue, query: JsonObject) -> Mapping[str, AnyJson] | None:
    token = response.get("nextPageToken") if isinstance(response, Mapping) else None
    return {**query, "pageToken": str(token)} if token else None


def _success(response: JsonValue, fields: ServiceFields) -> list[dict[str, JsonValue]]:
    return [{"success": True}]


_DEFAULTS = {"task": "create"}
_OPERATIONS = {
    "task.create": ServiceOperation(
        "POST", _TASKS, _body(_NEW), query=_places, recipient="task", text="title", needed=_LIST,
        check=_NEW.check,
    ),
    "task.update": ServiceOperation(
        "PATCH", _TASK, _body(_CHANGES), recipient="taskId", text="updateFields.title", needed=_ONE_TASK,
        check=_CHANGES.check,
    ),
    "task.get": ServiceOperation("GET", _TASK, needed=_ONE_TASK),
    "task.delete": ServiceOperation(
        "DELETE", _TASK, recipient="taskId", needed=_ONE_TASK, to_items=_success
    ),
    "task.getAll": ServiceOperation(
        "GET", _TASKS, lambda fields: {"maxResults": _PAGE, **_READ.read(fields)}, "items",
        next_page=_next_page, limit=20, needed=_LIST, check=_READ.check,
    ),
}  # fmt: skip


class GoogleTasksNode(HttpServiceNode):
    """Supports the tasks in a user's lists."""

    types = ("googleTasks",)
    versions = (1,)
    service = "Google Tasks"
    address = "https://tasks.googleapis.com/tasks/v1"
    credential_types = ("googleTasksOAuth2Api",)
    parameters = frozenset(_NAMES.split())
    default_resource = "task"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
