"""A base for nodes of services without a connector, whose calls an `http_api` account signs.

A node is defined by a table of operations, as in service_nodes.py, and the URL of the service's public API.
"""

import json
from collections.abc import Awaitable, Mapping
from typing import ClassVar
from urllib.parse import urlencode

from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.base.requests import SendRequest
from steward.connectors.base.service_calls import SendCall
from steward.model.json import JsonObject
from steward.model.plan import StepKind
from steward.outbound.errors import CallError
from steward.outbound.response import PlatformResponse
from steward.steps.n8n.credential_types import CREDENTIAL_TYPES, CredentialType, declare
from steward.steps.n8n.service_nodes import ServiceNode, ServicePort
from steward.steps.workflow.external_calls import account_of, as_item_failure, web_of
from steward.steps.workflow.run_marks import check_marks
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepCall
from steward.steps.workflow.web_access import KIND, WebAccess

_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"


class HttpServicePort(ServicePort):
    """Makes a step's calls as HTTP requests to the service's API, authenticated by its account."""

    def __init__(self, node: "HttpServiceNode", call: StepCall) -> None:
        account = account_of(call)
        super().__init__(account, KIND)
        self._node = node
        self._access = WebAccess(account, None, call.environment.marks)

    @property
    def operation(self) -> AnyWriteOperation:
        """The write operation that sends requests."""
        return self._access.operation

    def command(self, call: SendCall) -> SendRequest:
        """Returns the request of a call. Raises ItemFailed if the URL is not on a host of the account."""
        url = self._url(call.path, call.query)
        self._access.check_host(url)
        if call.file is not None:
            headers = {**self._node.headers, "content-type": call.file.mime_type}
            return SendRequest(call.method, url, headers, call.file.content, call.file.shown, call.message)
        body, kind = _body_of(call)
        check_marks(self._access.marks, url, body)
        headers = {**self._node.headers, **({"content-type": kind} if body else {})}
        return SendRequest(call.method, url, headers, body.encode(), body, call.message)

    async def read(self, path: str, query: Mapping[str, str]) -> PlatformResponse:
        """Returns the response to a GET. Raises CallError, ItemFailed."""
        return await self._checked(self._access.read("GET", self._url(path, query), self._node.headers))

    async def query(self, path: str, body: JsonObject) -> PlatformResponse:
        """Returns the response to a POST that only reads. Raises CallError, ItemFailed."""
        headers = {**self._node.headers, "content-type": _JSON}
        content = json.dumps(body, ensure_ascii=False).encode()
        return await self._checked(self._access.query(self._url(path, {}), content, headers))

    async def _checked(self, pending: Awaitable[PlatformResponse]) -> PlatformResponse:
        try:
            response = await pending
        except CallError as error:
            raise as_item_failure(error) from error
        if not response.ok:
            raise ItemFailed(f"{self._node.service} answered with status {response.status}.")
        return response

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        address = path if path.startswith(("https://", "http://")) else self._node.api(self.settings) + path
        return f"{address}{'&' if '?' in path else '?'}{urlencode(query)}" if query else address


def _body_of(call: SendCall) -> tuple[str, str]:
    """Returns the body of a call and its content type; both are empty without a body."""
    if not call.body:
        return "", ""
    if not call.is_form:
        return json.dumps(call.body, ensure_ascii=False), _JSON
    texts = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in call.body.items()
    }
    return urlencode(texts), _FORM


class HttpServiceNode(ServiceNode):
    """A node whose calls go to a public API; a subclass adds `address` and `credential_types`.

    `address` is the base URL. For services on a host of their own (`*.example.com` in the credential type),
    `{host}` in `address` stands for the first host of the account, which may be a private one with its scheme
    and port. `headers` are sent with every call. `credential_types` are n8n's, the first of them for a file
    that names none: a `CredentialType` declares how it signs in, a name is one of credential_types.py.
    """

    connector = KIND
    address: ClassVar[str]
    credential_types: ClassVar[tuple[CredentialType | str, ...]]
    headers: ClassVar[Mapping[str, str]] = {"accept": _JSON}

    def __init_subclass__(cls) -> None:
        """Declares the credential types of the node, so that HTTP Request steps know them too."""
        for credential_type in getattr(cls, "credential_types", ()):
            if isinstance(credential_type, CredentialType):
                declare(credential_type)

    def api(self, settings: Mapping[str, str]) -> str:
        """Returns the base URL for an account. Raises ItemFailed if the account names no host."""
        hosts = [host for host in settings.get("hosts", "").split() if "*" not in host]
        if "{host}" in self.address and not hosts:
            raise ItemFailed(
                f"The account does not name its host at {self.service}. Reconnect it with the host."
            )
        if not hosts:
            return self.address
        return self.address.replace(
            "https://{host}", hosts[0] if "://" in hosts[0] else f"https://{hosts[0]}"
        )

    def operation(self, node: NodeDefinition) -> str:
        """Returns http.read or http.send."""
        return "http.read" if self.kind_of(node) is StepKind.READ else "http.send"

    def account(self, node: NodeDefinition) -> JsonObject | None:
        """Returns the account to bind: its credential type, sign-in, and hosts."""
        first = self.credential_types[0]
        proposed = first.name if isinstance(first, CredentialType) else first
        name = next((name for name in node.credentials if name in CREDENTIAL_TYPES), proposed)
        credential_type = CREDENTIAL_TYPES.get(name, CredentialType(name, ""))
        return {
            "credential": name,
            "sign_in": credential_type.sign_in or None,
            "name": credential_type.parameter,
            "hosts": list(credential_type.hosts),
        }

    def port(self, call: StepCall) -> HttpServicePort:
        """Returns the port for the step's calls. Raises WorkflowStepFailed."""
        return HttpServicePort(self, call)


class PublicServicePort(HttpServicePort):
    """Reads a public API that needs no account."""

    def __init__(self, node: "PublicServiceNode", call: StepCall) -> None:
        self.settings = {}
        self._node = node
        self._access = WebAccess(None, web_of(call))


class PublicServiceNode(HttpServiceNode):
    """A node that reads a public API; its operations only read."""

    credential_types = ()

    def required_connection(self, node: NodeDefinition) -> str | None:
        """Returns None: the node needs no account."""
        return None

    def account(self, node: NodeDefinition) -> JsonObject | None:
        """Returns None: the node does not sign in."""
        return None

    def port(self, call: StepCall) -> HttpServicePort:
        """Returns the port for the step's reads. Raises WorkflowStepFailed."""
        return PublicServicePort(self, call)
