"""Requests of imported workflows that change something elsewhere, sent at most once.

They go to addresses of their own (`http.send`) or to the hosts of an account (`http_api.send`).
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.inverses import UNKNOWN_EFFECT
from steward.connectors.base.send_once import SendOnceOperation
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import Batch, FieldChange, FieldKind, ObjectRef, Part, Proposal
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Inverse
from steward.model.write_response import WriteResponse
from steward.outbound.errors import Invalid, PlatformUnavailable, WriteFailed
from steward.outbound.response import PlatformResponse
from steward.outbound.web import NO_CONNECTION


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Command of one request as a step prepared it; `body_text` is its body as people read it.

    With `accepts_any_status`, a response with an error status also counts as success.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    body_text: str = ""
    message: str | None = None
    accepts_any_status: bool = False


@dataclass(frozen=True, slots=True)
class SendRequestOperation(SendOnceOperation):
    """Sends a request at most once, as it cannot be read back; only a person may repeat it."""

    name: str = "http.send"

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: the effect of the request is unknown."""
        return UNKNOWN_EFFECT

    def plan(self, commands: Sequence[SendRequest], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans one request per command."""
        return PlannedChanges(tuple(self._proposal(command, integration_id) for command in commands), ())

    def _proposal(self, command: SendRequest, integration_id: IntegrationId) -> Proposal:
        host = urlsplit(command.url).netloc
        arguments: JsonObject = {
            "method": command.method,
            "url": command.url,
            "headers": dict(command.headers),
            "body": base64.b64encode(command.body).decode(),
        }
        if command.accepts_any_status:
            arguments = {**arguments, "accepts_any_status": True}
        part = Part(self.name, integration_id, host, arguments, None, None)
        header_lines = "\n".join(f"{name}: {value}" for name, value in sorted(command.headers.items()))
        fields = (
            FieldChange("request", "Request", None, f"{command.method} {command.url}"[:2000], FieldKind.TEXT),
            FieldChange("headers", "Headers", None, header_lines, FieldKind.TEXT),
            FieldChange("body", "Body", None, command.body_text, FieldKind.TEXT),
        )
        account = None if integration_id == NO_CONNECTION else integration_id
        ref = ObjectRef("request", None, f"{command.method} {host}"[:200])
        return Proposal(ref, self.action, fields, (part,), account, command.message)


def _headers(stored: JsonValue) -> dict[str, str]:
    return {name: str(text) for name, text in stored.items()} if isinstance(stored, Mapping) else {}


class RequestSender(Protocol):
    """Sends one granted request and returns its response. Raises NotSent, OutcomeUnknown."""

    async def __call__(
        self,
        method: str,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        write_keys: Sequence[str],
        key: str,
    ) -> PlatformResponse:
        """Sends the request."""
        ...


@dataclass(slots=True)
class RequestWriter:
    """Sends the one request of a batch."""

    send: RequestSender

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Sends the request. Returns applied for a 2xx response, or for any if the request accepts it.

        Never raises a call's error.
        """
        [part] = batch.parts
        try:
            response = await self.send(
                str(part.arguments["method"]),
                str(part.arguments["url"]),
                base64.b64decode(str(part.arguments["body"])),
                headers=_headers(part.arguments["headers"]),
                write_keys=batch.write_keys,
                key=batch.key,
            )
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)]
        return [_web_outcome(response, accepts_any_status=bool(part.arguments.get("accepts_any_status")))]


def _web_outcome(response: PlatformResponse, *, accepts_any_status: bool = False) -> WriteOutcome:
    """Returns the outcome that a response reports, together with its content for a workflow."""
    recorded = WriteResponse.of_body(response.status, response.headers, response.body)
    if response.ok or accepts_any_status:
        return WriteOutcome(WriteState.APPLIED, response=recorded)
    message = f"The address refused the request (status {response.status})."
    if response.status < 500:
        return WriteOutcome.of_error(WriteState.REFUSED, Invalid([], message), recorded)
    return WriteOutcome.of_error(WriteState.UNKNOWN, PlatformUnavailable(message), recorded)
