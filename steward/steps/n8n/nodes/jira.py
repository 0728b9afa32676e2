"""The node jira: issues and their comments in Jira Cloud, through a bound account."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.calls.tables import CallForm, get
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_PAGE = 100
_NAMES = (
    "jiraVersion resource operation project issueType summary issueKey additionalFields updateFields"
    " simplifyOutput returnAll limit options deleteSubtasks jsonParameters comment commentId accountId"
)
Check = Callable[[NodeDefinition], Iterable[StepProblem]]


def _plain(value: JsonValue) -> AnyJson:
    """Returns the value inside a resource locator, or any other value unchanged."""
    return value.get("value") if isinstance(value, Mapping) and value.get("__rl") is True else value


def _by_id(name: str) -> Callable[[AnyJson], dict[str, AnyJson]]:
    return lambda value: {name: {"id": js.text(_plain(value))}} if _plain(value) not in ("", None) else {}


def _ids(name: str) -> Callable[[AnyJson], dict[str, AnyJson]]:
    return lambda value: (
        {name: [{"id": js.text(number)} for number in value]} if isinstance(value, list) else {}
    )


def _parent(value: JsonValue) -> JsonObject:
    return {"parent": {"key": js.text(value).upper()}} if value else {}


def _custom_fields(value: JsonValue) -> JsonObject:
    rows = rows_of(value, "customFieldsValues")
    return {js.text(_plain(row.get("fieldId"))): row.get("fieldValue") for row in rows}


_SHAPES: Mapping[str, AnyJson] = {
    "assignee": _by_id("assignee"),
    "reporter": _by_id("reporter"),
    "priority": _by_id("priority"),
    "parentIssueKey": _parent,
    "customFieldsUi": _custom_fields,
}
_NEW_ISSUE = OptionTable(
    "additionalFields",
    "description labels",
    {**_SHAPES, "componentIds": _ids("components"), "updateHistory": lambda value: {}},
)
_CHANGES = OptionTable(
    "updateFields", "description labels summary", {**_SHAPES, "issueType": _by_id("issuetype")}
)


def _checked(*tables: OptionTable) -> Check:
    """Returns a check of the options and of settings that no operation supports."""

    def check(node: NodeDefinition) -> Iterable[StepProblem]:
        for table in tables:
            yield from table.check(node)
        if node.get("jiraVersion", "cloud") != "cloud":
            message = "It calls a Jira server of your own; only Jira Cloud is called here."
            yield StepProblem("error", "parameter", f"{message} Call it by an HTTP Request step.")
        if node.get("jsonParameters"):
            message = "Its comment is written as JSON, which is not supported. Write it as text."
            yield StepProblem("error", "parameter", message)
        if node.get("simplifyOutput"):
            message = "It simplifies what it puts out, which is not supported. Turn that off."
            yield StepProblem("error", "parameter", message)

    return check


def _status_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from _checked()(node)
    if len(node.get("updateFields", {})) > 1:
        message = "It changes the status and other fields at once. Use a step for each."
        yield StepProblem("error", "parameter", message)


def _new_issue(fields: ServiceFields) -> dict[str, AnyJson]:
    first = {
        "summary": fields.text("summary"),
        "project": {"id": fields.text("project")},
        "issuetype": {"id": fields.text("issueType")},
    }
    return {"fields": {**first, **_NEW_ISSUE.read(fields)}}


def _history(fields: ServiceFields) -> dict[str, str]:
    return {"updateHistory": "true"} if fields.flag("additionalFields.updateHistory") else {}


def _transition(fields: ServiceFields) -> JsonObject:
    return {"transition": {"id": fields.text("updateFields.statusId")}}


def _done(response: JsonValue, fields: ServiceFields) -> Sequence[JsonObject]:
    return [{"success": True}]


def _comment(fields: ServiceFields) -> dict[str, AnyJson]:
    """Returns a comment as a document, or as wiki markup if the step says so."""
    text = fields.text("comment")
    if fields.flag("options.wikiMarkup"):
        return {"body": text}
    paragraph = {"type": "paragraph", "content": [{"type": "text", "text": text}]}
    return {"body": {"type": "doc", "version": 1, "content": [paragraph]}}


def _comments(suffix: str = "") -> Callable[[ServiceFields], str]:
    path = f"/issue/{{issueKey}}/comment{suffix}"
    return lambda fields: f"/2{path}" if fields.flag("options.wikiMarkup") else f"/3{path}"


def _expanded(fields: ServiceFields) -> dict[str, str]:
    expand = fields.text("options.expand")
    return {"expand": expand} if expand else {}


def _commenting(method: str, suffix: str = "") -> ServiceOperation:
    return ServiceOperation(
        method, "", _comment, recipient="issueKey", text="comment", query=_expanded,
        choose_path=_comments(suffix), needed={"comment": "the text of the comment"},
        check=_checked(OptionTable("options", "expand wikiMarkup")),
    )  # fmt: skip


def _pages(path: str, items: str, table: OptionTable) -> ServiceOperation:
    """Returns an operation that lists by offset."""

    def next_page(response: AnyJson, query: Mapping[str, str]) -> Mapping[str, str] | None:
        listed = response.get(items) if isinstance(response, Mapping) else None
        count = len(listed) if isinstance(listed, list) else 0
        position = int(query.get("startAt", "0")) + count
        more = count > 0 and position < int(js.number(response.get("total", 0)))
        return {**query, "startAt": str(position)} if more else None

    return ServiceOperation(
        "GET", path, lambda fields: {"maxResults": _PAGE, **table.read(fields)}, items,
        next_page=next_page, check=_checked(table),
    )  # fmt: skip


_SEARCH_OPTIONS = OptionTable("options", "jql expand fields fieldsByKey")
_TRANSITIONS = OptionTable("additionalFields", "expand transitionId skipRemoteOnlyCondition")
_READ = OptionTable("additionalFields", "expand fields fieldsByKey properties updateHistory")


def _query(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the search query; without a condition it matches all issues."""
    chosen = {name: value for name, value in _SEARCH_OPTIONS.read(fields).items() if value != ""}
    return {"maxResults": _PAGE, "jql": 'created >= "1970-01-01"', "fields": "*navigable", **chosen}


def _next_found(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    token = response.get("nextPageToken") if isinstance(response, Mapping) else None
    return {**query, "nextPageToken": js.text(token)} if token else None


_ISSUE = "/2/issue/{issueKey}"
_OPERATIONS = {
    "issue.create": ServiceOperation(
        "POST", "/2/issue", _new_issue, recipient="project", text="summary", query=_history,
        needed={
            "project": "the project", "issueType": "the type of the issue",
            "summary": "the summary of the issue",
        },
        check=_checked(_NEW_ISSUE),
    ),
    "issue.update": ServiceOperation(
        "PUT", _ISSUE, lambda fields: {"fields": _CHANGES.read(fields)}, recipient="issueKey",
        to_items=_done, check=_checked(_CHANGES),
    ),
    "issue.changeStatus": ServiceOperation(
        "POST", f"{_ISSUE}/transitions", _transition, recipient="issueKey", to_items=_done,
        check=_status_problems,
    ),
    "issue.get": ServiceOperation("GET", _ISSUE, _READ.read, check=_checked(_READ)),
    "issue.getAll": ServiceOperation(
        "GET", "/2/search/jql", _query, "issues", next_page=_next_found, check=_checked(_SEARCH_OPTIONS)
    ),
    "user.get": get(
        "/2/user", CallForm("accountId", (OptionTable("additionalFields", "expand"),)), needed="accountId"
    ),
    "issue.changelog": _pages(f"{_ISSUE}/changelog", "values", OptionTable("options")),
    "issue.transitions": ServiceOperation(
        "GET", f"{_ISSUE}/transitions", _TRANSITIONS.read, "transitions", check=_checked(_TRANSITIONS)
    ),
    "issue.delete": ServiceOperation(
        "DELETE", _ISSUE, recipient="issueKey", to_items=_done, check=_checked(),
        query=lambda fields: {"deleteSubtasks": "true" if fields.flag("deleteSubtasks") else "false"},
    ),
    "issueComment.add": _commenting("POST"),
    "issueComment.update": _commenting("PUT", "/{commentId}"),
    "issueComment.get": ServiceOperation(
        "GET", f"{_ISSUE}/comment/{{commentId}}", {"expand": "options.expand"},
        check=_checked(OptionTable("options", "expand")),
    ),
    "issueComment.getAll": _pages(f"{_ISSUE}/comment", "comments", OptionTable("options", "expand")),
    "issueComment.remove": ServiceOperation(
        "DELETE", f"{_ISSUE}/comment/{{commentId}}", recipient="issueKey", to_items=_done,
        check=_checked(),
    ),
}  # fmt: skip
_DEFAULTS = {"issue": "create", "issueComment": "add", "issueAttachment": "add", "user": "create"}


class JiraNode(HttpServiceNode):
    """Supports issues and comments of Jira Cloud, but not attachments, users and Jira servers."""

    types = ("jira",)
    versions = (1,)
    service = "Jira"
    address = "https://{host}/rest/api"
    credential_types = ("jiraSoftwareCloudApi",)
    parameters = frozenset(_NAMES.split())
    default_resource = "issue"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    def operation_key(self, node: NodeDefinition) -> str:
        """Returns `resource.operation`; a status change has its own key."""
        key = super().operation_key(node)
        is_status = key == "issue.update" and node.get("updateFields.statusId") is not None
        return "issue.changeStatus" if is_status else key
