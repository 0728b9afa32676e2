"""The node microsoftToDo: tasks and task lists, as the person who signed in."""

from collections.abc import Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, parameters_of, send, success
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, Shape
from steward.steps.workflow.javascript import values as js

_TASKS = "/lists/{taskListId}/tasks"


def _next_page(response: AnyJson, query: Mapping[str, AnyJson]) -> Mapping[str, AnyJson] | None:
    """Returns the query of the next page, taken from Microsoft Graph's link."""
    link = response.get("@odata.nextLink") if isinstance(response, Mapping) else None
    page = js.get_path(response, "value")
    if not link or not isinstance(page, list):
        return None
    return {**query, "$skip": str(int(str(query.get("$skip") or 0)) + len(page))}


def _content(value: AnyJson) -> Mapping[str, AnyJson]:
    return {"body": {"content": value, "contentType": "html"}}


_SHAPES: Mapping[str, Shape] = {"content": _content}
_NEW = OptionTable("additionalFields", "importance status", _SHAPES)
_CHANGES = OptionTable("updateFields", "importance status title", _SHAPES)
_OPERATIONS = {
    "task.create": send("POST", _TASKS, CallForm("title", (_NEW,)), needed="title", text="title"),
    "task.get": get(f"{_TASKS}/{{taskId}}"),
    "task.getAll": get_all(_TASKS, "value", _next_page, CallForm(fixed={"$top": 100}), limit=50),
    "task.update": send("PATCH", f"{_TASKS}/{{taskId}}", CallForm(tables=(_CHANGES,))),
    "task.delete": send("DELETE", f"{_TASKS}/{{taskId}}", to_items=success),
    "list.create": send(
        "POST", "/lists", CallForm("displayName"), needed="displayName", recipient="displayName"
    ),
    "list.get": get("/lists/{listId}"),
    "list.getAll": get_all("/lists", "value", _next_page, CallForm(fixed={"$top": 100}), limit=50),
    "list.update": send("PATCH", "/lists/{listId}", CallForm("displayName"), needed="displayName"),
    "list.delete": send("DELETE", "/lists/{listId}", to_items=success),
}
_DEFAULTS = {"task": "get", "list": "get", "linkedResource": "get"}


class MicrosoftToDoNode(HttpServiceNode):
    """Supports tasks and lists, but not resources linked to tasks."""

    types = ("microsoftToDo",)
    service = "Microsoft To Do"
    address = "https://graph.microsoft.com/v1.0/me/todo"
    credential_types = ("microsoftToDoOAuth2Api",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "task"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
