"""Sends a step's requests to the open web or to a host of its account."""

from collections.abc import Mapping
from dataclasses import dataclass

from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.base.queries import HTTP, HttpQuery
from steward.connectors.web_request.connector import CHANGES
from steward.model.ids import IntegrationId
from steward.model.json import JsonValue
from steward.outbound.address import parsed_origin
from steward.outbound.errors import CallRefused
from steward.outbound.hosts import entry_of, names_origin
from steward.outbound.response import RESPONSE_BYTES, PlatformResponse
from steward.outbound.web import NO_CONNECTION, WebReadClient
from steward.steps.base import AccountAccess
from steward.steps.workflow.external_calls import account_of, web_of
from steward.steps.workflow.run_marks import check_marks
from steward.steps.workflow.step_types import ItemFailed, StepCall

KIND = "http_api"


@dataclass(frozen=True, slots=True)
class WebAccess:
    """Reads addresses and provides the write operation; `account` is None for the open web."""

    account: AccountAccess | None
    web: WebReadClient | None
    marks: tuple[str, ...] = ()  # valid texts of this run's markers of removed keys

    async def read(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        max_bytes: int = RESPONSE_BYTES,
    ) -> PlatformResponse:
        """Returns the response to a GET or HEAD, of at most `max_bytes`. Raises CallError, ItemFailed."""
        if self.account is not None:
            query = HttpQuery(method, url, tuple(headers.items()), body, max_bytes)
            return await self._ask(self.account, query)
        assert self.web is not None
        return await self.web.read(method, url, headers, body, max_bytes=max_bytes)

    async def query(self, url: str, body: bytes, headers: Mapping[str, str]) -> PlatformResponse:
        """Returns the response to a POST that changes nothing. Raises CallError, ItemFailed."""
        if self.account is not None:
            return await self._ask(self.account, HttpQuery("POST", url, tuple(headers.items()), body))
        assert self.web is not None
        return await self.web.query(url, body, headers)

    async def _ask(self, account: AccountAccess, query: HttpQuery) -> PlatformResponse:
        self.check_host(query.url)
        check_marks(self.marks, query.url, query.content)
        [page] = [page async for page in account.reader.read(HTTP, query)]
        [response] = page.items
        return response

    def check_host(self, url: str) -> None:
        """Raises ItemFailed if the URL is not on a host of the account."""
        if self.account is None:
            return
        settings: JsonValue = self.account.connection.facts.get("settings")
        hosts = str(settings.get("hosts", "") if isinstance(settings, Mapping) else "").split()
        try:
            origin = parsed_origin(url)
        except CallRefused as refusal:
            raise ItemFailed(refusal.message) from refusal
        if not names_origin(hosts, origin):
            name = self.account.connection.name
            raise ItemFailed(
                f"The address is on {entry_of(origin)[:100]}, and requests of {name} are sent only to its "
                f"own hosts ({', '.join(hosts)[:200]}). Choose another account, or change the address."
            )

    @property
    def operation(self) -> AnyWriteOperation:
        """The write operation that sends requests."""
        return CHANGES["http.send"] if self.account is None else self.account.changes["http_api.send"]

    @property
    def integration_id(self) -> IntegrationId:
        """The connection that sent requests belong to."""
        return NO_CONNECTION if self.account is None else self.account.connection.integration_id


def web_access_of(call: StepCall) -> WebAccess:
    """Returns access through the step's bound account, or to the open web. Raises WorkflowStepFailed."""
    if call.step.origin is not None and call.step.origin.needs == KIND:
        return WebAccess(account_of(call), None, call.environment.marks)
    return WebAccess(None, web_of(call))
