"""The node gitlab: issues, releases and repositories, through a bound account."""

from collections.abc import Callable

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, numbered_pages, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields, path_segment

_PAGES = numbered_pages("", 100)
_SIZE: dict[str, AnyJson] = {"per_page": 100}
_PROJECT = "owner repository"
_FILTERS = OptionTable(
    "getRepositoryIssuesFilters",
    "assignee_username creator:author_username labels state updated_after",
)
_RELEASE = OptionTable("additionalFields", "name description ref released_at")


def _names(rows: str, name: str) -> Callable[[AnyJson], dict[str, AnyJson]]:
    """Returns a shape that joins rows of one field with commas, as GitLab expects."""

    def shape(value: AnyJson) -> dict[str, AnyJson]:
        elements = (
            [row.get(name) for row in value if isinstance(row, dict)] if isinstance(value, list) else []
        )
        return {rows: ",".join(map(str, elements))} if elements else {}

    return shape


def _ids(value: AnyJson) -> dict[str, AnyJson]:
    elements = (
        [row.get("assignee") for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    )
    return {"assignee_ids": elements} if elements else {}


def _path(end: str, last: str = "") -> Callable[[ServiceFields], str]:
    """Returns a function for a path within the step's project, whose `*` is the parameter `last`."""

    def path(fields: ServiceFields) -> str:
        project = f"{fields.text('owner')}/{fields.text('repository')}"
        more = f"/{path_segment(fields.text(last), last)}" if last else ""
        return f"/projects/{path_segment(project.strip('/'), 'repository')}{end.replace('*', more)}"

    return path


_NEW_ISSUE = CallForm(
    "title body:description due_date", shapes={"labels": _names("labels", "label"), "assignee_ids": _ids}
)
_OPERATIONS = {
    "issue.create": send(
        "POST", "", _NEW_ISSUE, needed=f"{_PROJECT} title", recipient="repository", text="title",
        choose_path=_path("/issues"),
    ),
    "issue.createComment": send(
        "POST", "", CallForm("body"), needed=f"{_PROJECT} issueNumber body", recipient="issueNumber",
        text="body", choose_path=_path("/issues*/notes", "issueNumber"),
    ),
    "issue.get": get("", needed=f"{_PROJECT} issueNumber", choose_path=_path("/issues*", "issueNumber")),
    "repository.get": get("", needed=_PROJECT, choose_path=_path("")),
    "repository.getIssues": get_all(
        "", "", _PAGES, CallForm(tables=(_FILTERS,), fixed=_SIZE), limit=50, needed=_PROJECT,
        choose_path=_path("/issues"),
    ),
    "release.create": send(
        "POST", "", CallForm("releaseTag:tag_name", (_RELEASE,)), needed=f"{_PROJECT} releaseTag",
        recipient="repository", text="releaseTag", choose_path=_path("/releases"),
    ),
    "user.getRepositories": get_all(
        "/users/{owner}/projects", "", _PAGES, CallForm(fixed=_SIZE), limit=50
    ),
}  # fmt: skip
_DEFAULTS = {"issue": "create", "release": "create", "repository": "getIssues", "user": "getRepositories"}


class GitLabNode(HttpServiceNode):
    """Supports issues with comments, releases, and reading repositories, but not files."""

    types = ("gitlab",)
    service = "GitLab"
    address = "https://{host}/api/v4"
    credential_types = ("gitlabApi", "gitlabOAuth2Api")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "issue"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
