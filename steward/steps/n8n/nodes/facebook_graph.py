"""The node facebookGraphApi: arbitrary calls of Facebook's Graph API, through a bound account."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from steward.model.json import AnyJson
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem, is_expression

_NAMES = "hostUrl httpRequestMethod graphApiVersion node edge allowUnauthorizedCerts sendBinaryData options"
_METHODS = ("GET", "POST", "DELETE")
_HOST = "graph.facebook.com"


def _path(fields: ServiceFields) -> str:
    parts = (fields.text("graphApiVersion"), fields.text("node"), fields.text("edge"))
    segments = [segment for part in parts for segment in part.strip("/").split("/") if segment]
    if not fields.text("node").strip("/") or any(segment in (".", "..") for segment in segments):
        raise ItemFailed("This step does not say which node of the graph it means. Fill it in.")
    return "".join(f"/{quote(segment, safe='')}" for segment in segments)


def _query(fields: ServiceFields) -> dict[str, str]:
    """Returns the fields to read and the parameters. Raises ItemFailed."""
    query: dict[str, str] = {}
    names = [js.text(row.get("name")) for row in rows_of(fields.value("options.fields"), "field")]
    if names:
        query["fields"] = ",".join(names)
    for row in rows_of(fields.value("options.queryParameters"), "parameter"):
        query[js.text(row.get("name"))] = js.text(row.get("value"))
    parameters = fields.json("options.queryParametersJson", "Query Parameters JSON")
    if isinstance(parameters, Mapping):
        query |= {str(name): js.text(value) for name, value in parameters.items()}
    return query


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("hostUrl", _HOST) != _HOST:
        message = "It calls the host for videos, which is not called here. Choose the default host."
        yield StepProblem("error", "parameter", message)
    if node.get("sendBinaryData"):
        message = "It sends a file to Facebook, which is not supported. Send the file's address instead."
        yield StepProblem("error", "binary", message)
    options = node.get("options")
    for name in options if isinstance(options, Mapping) else ():
        if name not in ("fields", "queryParameters", "queryParametersJson"):
            message = f"Its option “{str(name)[:80]}” is not known here. Remove it."
            yield StepProblem("error", "parameter", message)


def _operation(method: str) -> ServiceOperation:
    fields: AnyJson = _query if method == "GET" else {}
    return ServiceOperation(
        method, "", fields, choose_path=_path, query=_query, recipient="node", text="edge", check=_problems,
        needed={"node": "which node of the graph it means"},
    )  # fmt: skip


_OPERATIONS = {f"graph.{method}": _operation(method) for method in _METHODS}


class FacebookGraphNode(HttpServiceNode):
    """Makes calls with parameters in the URL; does not send files."""

    types = ("facebookGraphApi",)
    versions = (1,)
    service = "Facebook"
    address = f"https://{_HOST}"
    credential_types = ("facebookGraphApi",)
    parameters = frozenset(_NAMES.split())
    default_resource = "graph"
    operations = _OPERATIONS

    def operation_key(self, node: NodeDefinition) -> str:
        """Returns the method as the operation."""
        method = node.get("httpRequestMethod", "GET")
        return f"graph.{method if is_expression(method) else str(method).upper()}"
