"""The node linear: issues and their comments, through a bound account."""

from collections.abc import Callable, Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, graphql_data, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation

_ISSUE = (
    "id identifier title description priority url createdAt archivedAt updatedAt dueDate"
    " assignee { id displayName } creator { id displayName } state { id name } cycle { id name }"
)
_NEW = OptionTable("additionalFields", "assigneeId description priorityId:priority stateId")
_CHANGES = OptionTable("updateFields", "assigneeId description priorityId:priority stateId teamId title")
_REPLY = OptionTable("additionalFields", "parentId")


def _document(
    text: str, form: CallForm, *variable_names: str
) -> Callable[[ServiceFields], dict[str, AnyJson]]:
    """Returns a function for the body of a GraphQL document.

    Its variables are the parameters `variable_names` and, as `input`, the fields of the form.
    """

    def body(fields: ServiceFields) -> dict[str, AnyJson]:
        variables: dict[str, AnyJson] = {name: fields.text(name) for name in variable_names}
        if "$input" in text:
            variables["input"] = form(fields)
        return {"query": text, "variables": variables}

    return body


def _objects_at(path: str) -> Callable[[AnyJson, ServiceFields], Sequence[Mapping[str, AnyJson]]]:
    def to_items(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
        return graphql_data(response, path)

    return to_items


def _operation(text: str, path: str, form: CallForm, variable_names: str, needed: str) -> ServiceOperation:
    return send(
        "POST", "", form, needed=needed, makes=_document(text, form, *variable_names.split()),
        to_items=_objects_at(path), recipient=needed.split()[0], text="title",
        is_query=text.startswith("query"),
    )  # fmt: skip


_OPERATIONS = {
    "issue.create": _operation(
        "mutation ($input: IssueCreateInput!) { issueCreate(input: $input)"
        f" {{ success issue {{ {_ISSUE} }} }} }}",
        "issueCreate.issue", CallForm("teamId title", (_NEW,)), "", "teamId title",
    ),
    "issue.update": _operation(
        "mutation ($issueId: String!, $input: IssueUpdateInput!) { issueUpdate(id: $issueId, input: $input)"
        f" {{ success issue {{ {_ISSUE} }} }} }}",
        "issueUpdate.issue", CallForm(tables=(_CHANGES,)), "issueId", "issueId",
    ),
    "issue.get": _operation(
        f"query ($issueId: String!) {{ issue(id: $issueId) {{ {_ISSUE} }} }}", "issue", CallForm(), "issueId",
        "issueId",
    ),
    "issue.delete": _operation(
        "mutation ($issueId: String!) { issueDelete(id: $issueId) { success } }", "issueDelete", CallForm(),
        "issueId", "issueId",
    ),
    "comment.addComment": _operation(
        "mutation ($input: CommentCreateInput!) { commentCreate(input: $input)"
        " { success comment { id body createdAt } } }",
        "commentCreate", CallForm("issueId comment:body", (_REPLY,)), "", "issueId comment",
    ),
}  # fmt: skip
_DEFAULTS = {"issue": "create", "comment": "addComment"}


class LinearNode(HttpServiceNode):
    """Supports single issues and comments on them, but not lists of issues and links."""

    types = ("linear",)
    versions = (1, 1.1)
    service = "Linear"
    address = "https://api.linear.app/graphql"
    credential_types = ("linearApi", "linearOAuth2Api")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "issue"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
