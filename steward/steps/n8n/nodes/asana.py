"""The node asana: tasks, their comments and projects, through a bound account."""

from collections.abc import Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import (
    CallForm,
    get,
    get_all,
    parameters_of,
    send,
    success,
    token_pages,
)
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, joined
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js

_SIZE = {"limit": 100}
_FIELDS = "assignee assignee_status completed due_on liked name notes projects"
_OTHERS = OptionTable("otherProperties", _FIELDS)
_FILTERS = OptionTable(
    "filters", "assignee completed_since modified_since project section workspace",
    {"opt_fields": joined("opt_fields")},
)  # fmt: skip
_PROJECT = OptionTable("additionalFields", "archived team workspace")
_PAGES = token_pages("next_page.offset", "offset")


def _data(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    data = js.get_path(response, "data")
    return [data] if isinstance(data, Mapping) else []


_OPERATIONS = {
    "task.create": send(
        "POST", "/tasks", CallForm("name workspace", (_OTHERS,), within="data"), needed="name",
        recipient="workspace", text="name", to_items=_data,
    ),
    "task.update": send(
        "PUT", "/tasks/{id}", CallForm(tables=(_OTHERS,), within="data"), text="otherProperties.name",
        to_items=_data,
    ),
    "task.get": get("/tasks/{id}", items="data"),
    "task.getAll": get_all(
        "/tasks", "data", _PAGES, CallForm(tables=(_FILTERS,), fixed=_SIZE), limit=100
    ),
    "task.delete": send("DELETE", "/tasks/{id}", to_items=success),
    "task.move": send(
        "POST", "/sections/{section}/addTask", CallForm("id:task", within="data"), needed="id",
        recipient="section", to_items=success,
    ),
    "subtask.create": send(
        "POST", "/tasks/{taskId}/subtasks", CallForm("name", (_OTHERS,), within="data"), needed="name",
        text="name", to_items=_data,
    ),
    "taskProject.add": send(
        "POST", "/tasks/{id}/addProject", CallForm("project", within="data"), needed="project",
        to_items=success,
    ),
    "taskTag.add": send(
        "POST", "/tasks/{id}/addTag", CallForm("tag", within="data"), needed="tag", to_items=success
    ),
    "project.get": get("/projects/{id}", items="data"),
    "project.getAll": get_all(
        "/projects", "data", _PAGES, CallForm("workspace", (_PROJECT,), fixed=_SIZE), limit=100
    ),
    "user.get": get("/users/{userId}", items="data"),
    "user.getAll": get_all(
        "/workspaces/{workspace}/users", "data", _PAGES, CallForm(fixed=_SIZE), returns_all=True
    ),
}  # fmt: skip
_DEFAULTS = {
    "task": "create", "subtask": "create", "taskProject": "add", "taskTag": "add", "taskComment": "add",
    "project": "get", "user": "get",
}  # fmt: skip


class AsanaNode(HttpServiceNode):
    """Supports tasks with subtasks and tags, and reading projects and users."""

    types = ("asana",)
    service = "Asana"
    address = "https://app.asana.com/api/1.0"
    credential_types = ("asanaApi", "asanaOAuth2Api")
    parameters = parameters_of(_OPERATIONS, "projectId")
    default_resource = "task"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
