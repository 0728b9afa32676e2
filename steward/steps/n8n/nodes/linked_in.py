"""The node linkedIn: posts of a person or an organization, as the person who signed in."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem

_OPTIONS = OptionTable("additionalFields", "visibility originalUrl title description")
_NAMES = "postAs person organization shareMediaCategory binaryPropertyName"


def _author(fields: ServiceFields) -> str:
    name = "organization" if fields.text("postAs", "person") == "organization" else "person"
    number = fields.text(name)
    if not number:
        raise ItemFailed("This step does not say who posts. Choose a person or an organization.")
    return f"urn:li:{name}:{number}"


def _post(fields: ServiceFields) -> dict[str, AnyJson]:
    options = _OPTIONS.read(fields)
    content: dict[str, AnyJson] = {
        "shareCommentary": {"text": fields.text("text")},
        "shareMediaCategory": fields.text("shareMediaCategory", "NONE"),
    }
    if content["shareMediaCategory"] == "ARTICLE":
        media: dict[str, AnyJson] = {"status": "READY", "originalUrl": options.get("originalUrl", "")}
        for name in ("title", "description"):
            media |= {name: {"text": options[name]}} if options.get(name) else {}
        content["media"] = [media]
    return {
        "author": _author(fields),
        "lifecycleState": "PUBLISHED",
        "specificContent": {"com.linkedin.ugc.ShareContent": content},
        "visibility": {"com.linkedin.ugc.MemberNetworkVisibility": options.get("visibility") or "PUBLIC"},
    }


def _urn(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    return [{"urn": js.to_json(js.get_path(response, "id"))}]


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    category = node.get("shareMediaCategory", "NONE")
    if category == "IMAGE":
        yield StepProblem(
            "error", "binary", "It posts an image, which is not supported. Post a link instead."
        )
    elif category not in ("NONE", "ARTICLE"):
        message = "The kind of media that it posts is not known here. Choose another kind."
        yield StepProblem("error", "parameter", message)


_OPERATIONS = {
    "post.create": send(
        "POST", "/ugcPosts", CallForm(tables=(_OPTIONS,)), needed="text", makes=_post, recipient=_author,
        text="text", to_items=_urn, check=_problems,
    ),
}  # fmt: skip
_HEADERS = {"accept": "application/json", "X-Restli-Protocol-Version": "2.0.0"}
_DEFAULTS = {"post": "create"}


class LinkedInNode(HttpServiceNode):
    """Publishes posts with text and links; does not send images."""

    types = ("linkedIn",)
    service = "LinkedIn"
    address = "https://api.linkedin.com/v2"
    credential_types = ("linkedInOAuth2Api", "linkedInCommunityManagementOAuth2Api")
    headers = MappingProxyType(_HEADERS)
    parameters = parameters_of(_OPERATIONS, _NAMES)
    default_resource = "post"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
