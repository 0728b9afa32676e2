"""The node github: issues, releases, repositories and their files, through a bound account."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from steward.connectors.base.service_calls import SendCall
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n import item_files
from steward.steps.n8n.drive_fields import file_of_run
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation, ServicePort, parsed_response
from steward.steps.workflow.external_calls import read_items
from steward.steps.workflow.items import Item
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    paired_with,
)

_PAGE = 100
_NAMES = (
    "authentication resource operation owner repository title body labels assignees issueNumber editFields"
    " lockReason returnAll limit getRepositoryIssuesFilters getUserIssuesFilters"
    " getRepositoryPullRequestsFilters filePath asBinaryProperty binaryPropertyName additionalParameters"
    " releaseTag release_id additionalFields organization email pullRequestNumber reviewId event commitId"
    " binaryData fileContent commitMessage workflowId ref inputs"
)
_FILTERS = frozenset(
    ("assignee", "creator", "mentioned", "labels", "since", "state", "sort", "direction", "filter")
)
_COLLECTIONS = {
    "editFields": frozenset(("assignees", "body", "labels", "state", "title", "lockReason", "state_reason")),
    "getRepositoryIssuesFilters": _FILTERS,
    "getUserIssuesFilters": _FILTERS,
    "getRepositoryPullRequestsFilters": _FILTERS,
    "additionalParameters": frozenset(("author", "branch", "committer", "reference")),
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


def _members(value: JsonValue, name: str) -> list[AnyJson]:
    """Returns the texts of rows such as `[{label: "bug"}]`; plain texts stay unchanged."""
    rows = value if isinstance(value, list) else []
    texts = [row.get(name) if isinstance(row, Mapping) else row for row in rows]
    return [text for text in texts if text not in (None, "")]


def _new_issue(fields: ServiceFields) -> JsonObject:
    return {
        "title": fields.text("title"),
        "body": fields.text("body"),
        "labels": _members(fields.value("labels"), "label"),
        "assignees": _members(fields.value("assignees"), "assignee"),
    }


def _edited_issue(fields: ServiceFields) -> dict[str, JsonValue]:
    changes = fields.options("editFields")
    for name, member in (("labels", "label"), ("assignees", "assignee")):
        if name in changes:
            changes[name] = _members(changes[name], member)
    return changes


def _filters(name: str) -> AnyJson:
    def query(fields: ServiceFields) -> dict[str, JsonValue]:
        return fields.options(name) | {"per_page": _PAGE}

    return query


def _release(fields: ServiceFields) -> JsonObject:
    return {"tag_name": fields.text("releaseTag"), **fields.options("additionalFields")}


def _contents(fields: ServiceFields) -> str:
    # A file's path keeps its slashes, which `{filePath}` would escape.
    parts = [part for part in fields.text("filePath").split("/") if part not in ("", ".", "..")]
    return f"{_REPOSITORY}/contents/" + "/".join(quote(part, safe="") for part in parts)


def _commit(fields: ServiceFields) -> JsonObject:
    """Returns the message, people and branch of the commit that changes a file."""
    people = fields.options("additionalParameters", "author", "committer")
    branch = fields.text("additionalParameters.branch.branch")
    return {
        "message": fields.value("commitMessage"),
        **{name: person for name, person in people.items() if person},
        **({"branch": branch} if branch else {}),
    }


def _as_base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _next_page(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    if not isinstance(response, list) or len(response) < _PAGE:
        return None
    return {**query, "page": str(int(query.get("page", "1")) + 1)}


def _list(path: str, filters: str = "", **needed: str) -> ServiceOperation:
    query = _filters(filters) if filters else {"per_page": lambda fields: _PAGE}
    return ServiceOperation("GET", path, query, next_page=_next_page, needed=needed)


def _done(response: JsonValue, fields: ServiceFields) -> Sequence[JsonObject]:
    return [{"success": True}]


_PATH = {"filePath": "which file it means"}
_CHANGED = _PATH | {"commitMessage": "the message of the commit"}
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
        to_items=_done,
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
    "review.get": ServiceOperation("GET", f"{_REPOSITORY}/pulls/{{pullRequestNumber}}/reviews/{{reviewId}}"),
    "review.getAll": _list(f"{_REPOSITORY}/pulls/{{pullRequestNumber}}/reviews"),
    "workflow.get": ServiceOperation("GET", f"{_REPOSITORY}/actions/workflows/{{workflowId}}"),
    "workflow.dispatch": ServiceOperation(
        "POST", f"{_REPOSITORY}/actions/workflows/{{workflowId}}/dispatches",
        {"ref": "ref", "inputs": lambda fields: fields.json("inputs", "Inputs") or None},
        recipient="workflowId", needed={"ref": "the branch"}, to_items=_done,
    ),
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
        "DELETE", f"{_REPOSITORY}/releases/{{release_id}}", recipient="repository", to_items=_done
    ),
    "file.list": ServiceOperation("GET", "", _REFERENCE, choose_path=_contents),
    "file.get": ServiceOperation("GET", "", _REFERENCE, choose_path=_contents, needed=_PATH),
    "file.create": ServiceOperation(
        "PUT", "", _commit, choose_path=_contents, recipient="filePath", text="commitMessage", needed=_CHANGED
    ),
    "file.edit": ServiceOperation(
        "PUT", "", _commit, choose_path=_contents, recipient="filePath", text="commitMessage", needed=_CHANGED
    ),
    "file.delete": ServiceOperation(
        "DELETE", "", _commit, choose_path=_contents, recipient="filePath", text="commitMessage",
        needed=_CHANGED,
    ),
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
_FETCH = {"resource": "file", "operation": "get"}

_SHOWN_FOR = {
    "editFields": ("issue.edit",),
    "getRepositoryIssuesFilters": ("repository.getIssues",),
    "getRepositoryPullRequestsFilters": ("repository.getPullRequests",),
    "getUserIssuesFilters": ("user.getUserIssues",),
}


class GithubNode(HttpServiceNode):
    """Supports issues, releases, repositories and their files."""

    types = ("github",)
    versions = (1, 1.1)
    service = "GitHub"
    address = "https://api.github.com"
    credential_types = ("githubApi", "githubOAuth2Api")
    headers = _HEADERS
    parameters = frozenset(_NAMES.split(" "))
    collections = _COLLECTIONS
    shown_for = _SHOWN_FOR
    default_resource = "issue"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
    file_parameters = _FETCH
    sends_files = ("file.create", "file.edit")

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item; for a file, with its content and current hash. Raises ItemFailed."""
        prepared = self.operations[key].call(fields)
        body = dict(prepared.body)
        if key in self.sends_files:
            body["content"] = await _content(call, index, fields)
        if key in ("file.edit", "file.delete"):
            branch = fields.text("additionalParameters.branch.branch")
            response = await port.read(prepared.path, {"ref": branch} if branch else {})
            current = parsed_response(response.body.decode("utf-8", "replace"))
            if not isinstance(current, Mapping) or not current.get("sha"):
                raise ItemFailed("GitHub has no such file. Check its path.")
            body["sha"] = str(current["sha"])
        return replace(prepared, body=body)

    async def run(self, call: StepCall) -> NodeResult:
        """Fetches a file for each item, or makes one call or read for each."""
        node = NodeDefinition(call.step.name, call.version, call.first.tree)
        if self.operation_key(node) != "file.get" or call.first.get("asBinaryProperty", True) is not True:
            return await super().run(call)
        port = self.port(call)

        async def fetch(index: int, item: Item) -> list[Item]:
            fields = ServiceFields(call.params(index), call.version, {}, item.json)
            request = self.operations["file.get"].call(fields)
            response = await port.read(request.path, request.query)
            decoded = parsed_response(response.body.decode("utf-8", "replace"))
            if not isinstance(decoded, Mapping) or decoded.get("encoding") != "base64":
                raise ItemFailed("GitHub gives only files of at most 1 MB here, and no folders.")
            content = item_files.from_base64(str(decoded.get("content", "")))
            file = await item_files.store(call, content, file_name=str(decoded.get("name") or ""))
            name = fields.text("binaryPropertyName") or "data"
            return [Item(dict(item.json), paired_with(index), binary={**item.binary, name: file})]

        return await read_items(call, fetch)


async def _content(call: StepCall, index: int, fields: ServiceFields) -> str:
    """Returns the new content of a file as Base64. Raises ItemFailed."""
    if not fields.flag("binaryData"):
        return _as_base64(fields.text("fileContent").encode())
    _, content, _ = await file_of_run(call, index, fields, fields.text("binaryPropertyName"))
    return _as_base64(content)
