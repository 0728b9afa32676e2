"""The node github: issues, releases, repositories and their files, by a bound account."""

from collections.abc import Mapping
from typing import Any

from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation

_PAGE = 100
_NAMES = (
    "authentication resource operation owner repository title body labels assignees issueNumber editFields"
    " lockReason returnAll limit getRepositoryIssuesFilters getUserIssuesFilters"
    " getRepositoryPullRequestsFilters filePath asBinaryProperty binaryPropertyName additionalParameters"
    " releaseTag release_id additionalFields organization email pullRequestNumber reviewId event commitId"
)
_FILTERS = frozenset(
    ("assignee", "creator", "mentioned", "labels", "since", "state", "sort", "direction", "filter")
)
_COLLECTIONS = {
    "editFields": frozenset(("assignees", "body", "labels", "state", "title", "lockReason", "state_reason")),
    "getRepositoryIssuesFilters": _FILTERS,
    "getUserIssuesFilters": _FILTERS,
    "getRepositoryPullRequestsFilters": _FILTERS,
    "additionalParameters": frozenset(("reference",)),
    "additionalFields": frozenset(
        (
            *("author", "name", "body", "draft", "prerelease", "target_commitish", "tag_name", "commitId"),
            *("organization", "role"),
        )
    ),
}
_REPOSITORY = "/repos/{owner}/{repository}"
_ISSUE = f"{_REPOSITORY}/issues/{{issueNumber}}"
_NUMBER = {"issueNumber": "the number of the issue"}


def _members(value: Any, name: str) -> list[Any]:
    """Returns the texts of rows such as `[{label: "bug"}]`; texts stay as they are."""
    rows = value if isinstance(value, list) else []
    texts = [row.get(name) if isinstance(row, Mapping) else row for row in rows]
    return [text for text in texts if text not in (None, "")]


def _new_issue(fields: ServiceFields) -> dict[str, Any]:
    return {
        "title": fields.text("title"),
        "body": fields.text("body"),
        "labels": _members(fields.value("labels"), "label"),
        "assignees": _members(fields.value("assignees"), "assignee"),
    }


def _edited_issue(fields: ServiceFields) -> dict[str, Any]:
    changes = fields.options("editFields")
    for name, member in (("labels", "label"), ("assignees", "assignee")):
        if name in changes:
            changes[name] = _members(changes[name], member)
    return changes


def _filters(name: str) -> Any:
    def query(fields: ServiceFields) -> dict[str, Any]:
        return fields.options(name) | {"per_page": _PAGE}

    return query


def _release(fields: ServiceFields) -> dict[str, Any]:
    return {"tag_name": fields.text("releaseTag"), **fields.options("additionalFields")}


def _contents(fields: ServiceFields) -> str:
    # The path of a file keeps its slashes; those of `{filePath}` alone would be quoted.
    parts = [part for part in fields.text("filePath").split("/") if part not in ("", ".", "..")]
    return f"{_REPOSITORY}/contents/" + "/".join(
        part.replace("{", "%7B").replace("?", "%3F") for part in parts
    )


def _next_page(answer: Any, query: Mapping[str, str]) -> Mapping[str, str] | None:
    if not isinstance(answer, list) or len(answer) < _PAGE:
        return None
    return {**query, "page": str(int(query.get("page", "1")) + 1)}


def _list(path: str, filters: str = "", **needed: str) -> ServiceOperation:
    query = _filters(filters) if filters else {"per_page": lambda fields: _PAGE}
    return ServiceOperation("GET", path, query, next_page=_next_page, needed=needed)


def _done(answer: Any, fields: ServiceFields) -> list[dict[str, Any]]:
    return [{"success": True}]


_REFERENCE = {"ref": "additionalParameters.reference"}
_OPERATIONS = {
    "issue.create": ServiceOperation(
        "POST", f"{_REPOSITORY}/issues", _new_issue, recipient="repository", text="title",
        needed={"title": "the title of the issue"},
    ),
    "issue.createComment": ServiceOperation(
        "POST", f"{_ISSUE}/comments", {"body": "body"}, recipient="repository", text="body",
        needed=_NUMBER | {"body": "the text of the comment"},
    ),
    "issue.edit": ServiceOperation("PATCH", _ISSUE, _edited_issue, recipient="repository", needed=_NUMBER),
    "issue.get": ServiceOperation("GET", _ISSUE, needed=_NUMBER),
    "issue.lock": ServiceOperation(
        "PUT", f"{_ISSUE}/lock", {"lock_reason": "lockReason"}, recipient="repository", needed=_NUMBER,
        answered=_done,
    ),
    "repository.get": ServiceOperation("GET", _REPOSITORY),
    "repository.getLicense": ServiceOperation("GET", f"{_REPOSITORY}/license"),
    "repository.getProfile": ServiceOperation("GET", f"{_REPOSITORY}/community/profile"),
    "repository.listPopularPaths": ServiceOperation("GET", f"{_REPOSITORY}/traffic/popular/paths"),
    "repository.listReferrers": ServiceOperation("GET", f"{_REPOSITORY}/traffic/popular/referrers"),
    "repository.getIssues": _list(f"{_REPOSITORY}/issues", "getRepositoryIssuesFilters"),
    "repository.getPullRequests": _list(f"{_REPOSITORY}/pulls", "getRepositoryPullRequestsFilters"),
    "user.getRepositories": _list("/users/{owner}/repos"),
    "user.getUserIssues": _list("/issues", "getUserIssuesFilters"),
    "organization.getRepositories": _list("/orgs/{owner}/repos"),
    "release.create": ServiceOperation(
        "POST", f"{_REPOSITORY}/releases", _release, recipient="repository", text="releaseTag",
        needed={"releaseTag": "the tag of the release"},
    ),
    "release.get": ServiceOperation("GET", f"{_REPOSITORY}/releases/{{release_id}}"),
    "release.getAll": _list(f"{_REPOSITORY}/releases"),
    "release.update": ServiceOperation(
        "PATCH", f"{_REPOSITORY}/releases/{{release_id}}", lambda fields: fields.options("additionalFields"),
        recipient="repository",
    ),
    "release.delete": ServiceOperation(
        "DELETE", f"{_REPOSITORY}/releases/{{release_id}}", recipient="repository", answered=_done
    ),
    "file.list": ServiceOperation("GET", "", _REFERENCE, choose_path=_contents),
}  # fmt: skip
_DEFAULTS = {
    "issue": "create",
    "repository": "getIssues",
    "user": "getRepositories",
    "release": "create",
    "file": "create",
    "organization": "getRepositories",
    "review": "get",
}
_HEADERS = {"accept": "application/vnd.github+json"}


class GithubNode(HttpServiceNode):
    """Issues, releases and repositories; files are only listed."""

    types = ("github",)
    versions = (1, 1.1)
    service = "GitHub"
    address = "https://api.github.com"
    credential_types = ("githubApi", "githubOAuth2Api")
    headers = _HEADERS
    parameters = frozenset(_NAMES.split(" "))
    collections = _COLLECTIONS
    default_resource = "issue"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
