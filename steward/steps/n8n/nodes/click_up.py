"""The node clickUp: tasks, comments, lists and folders, through a bound account."""

from steward.steps.n8n.calls.tables import (
    CallForm,
    get,
    get_all,
    numbered_pages,
    one_page,
    parameters_of,
    send,
    success,
)
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.workflow.step_types import ItemFailed

_PLACES = "team space folderless folder list"
_SHARED = "notifyAll:notify_all parentId:parent priority status timeEstimate:time_estimate"
_NEW = OptionTable("additionalFields", f"content:description assignees tags {_SHARED}")
_CHANGES = OptionTable("updateFields", f"content:description name {_SHARED}")
_FILTERS = OptionTable("filters", "archived orderBy:order_by subtasks")
_COMMENT = OptionTable("additionalFields", "assignee notifyAll:notify_all")
_ARCHIVED = OptionTable("filters", "archived")
_COMMENTED = ("task", "list", "view")


def _comment_path(fields: ServiceFields) -> str:
    """Returns the path of the comments of a list, task or view. Raises ItemFailed for anything else."""
    commented = fields.text("commentOn", "list")
    if commented not in _COMMENTED:
        raise ItemFailed(f"“{commented[:40]}” cannot be commented on. Choose a list, a task or a view.")
    return f"/{commented}/{path_segment(fields.text('id'), 'id')}/comment"


def _lists_path(fields: ServiceFields) -> str:
    if fields.flag("folderless"):
        return f"/space/{path_segment(fields.text('space'), 'space')}/list"
    return f"/folder/{path_segment(fields.text('folder'), 'folder')}/list"


_OPERATIONS = {
    "task.create": send(
        "POST", "/list/{list}/task", CallForm("name", (_NEW,)), text="name", needed="name"
    ),
    "task.update": send("PUT", "/task/{id}", CallForm(tables=(_CHANGES,)), text="updateFields.name"),
    "task.get": get("/task/{id}"),
    "task.getAll": get_all(
        "/list/{list}/task", "tasks", numbered_pages("tasks", 100, first=0), CallForm(tables=(_FILTERS,)),
        limit=50,
    ),
    "task.delete": send("DELETE", "/task/{id}", to_items=success),
    "taskTag.add": send("POST", "/task/{taskId}/tag/{tagName}", recipient="taskId", to_items=success),
    "taskTag.remove": send("DELETE", "/task/{taskId}/tag/{tagName}", recipient="taskId", to_items=success),
    "comment.create": send(
        "POST", "", CallForm("commentText:comment_text", (_COMMENT,)), needed="id commentText",
        recipient="id", text="commentText", choose_path=_comment_path,
    ),
    "list.get": get("/list/{list}"),
    "list.getAll": get_all(
        "", "lists", one_page, CallForm(tables=(_ARCHIVED,)), limit=50, choose_path=_lists_path
    ),
    "folder.getAll": get_all(
        "/space/{space}/folder", "folders", one_page, CallForm(tables=(_ARCHIVED,)), limit=50
    ),
    "folder.create": send("POST", "/space/{space}/folder", CallForm("name"), needed="name", text="name"),
}  # fmt: skip
_DEFAULTS = {name: "create" for name in ("task", "comment", "list", "folder", "checklist", "goal")} | {
    "taskTag": "add"
}


class ClickUpNode(HttpServiceNode):
    """Supports tasks with tags and comments, lists and folders; does not write dates."""

    types = ("clickUp",)
    service = "ClickUp"
    address = "https://api.clickup.com/api/v2"
    credential_types = ("clickUpApi", "clickUpOAuth2Api")
    parameters = parameters_of(_OPERATIONS, f"{_PLACES} commentOn")
    default_resource = "task"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
