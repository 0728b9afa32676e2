"""A base for connectors that post messages to an address that is itself the secret."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol, Self

from steward.connectors.base.commands import PostCard
from steward.connectors.base.connector import (
    AnyWriteOperation,
    Capabilities,
    ConnectionKind,
    ConnectorFacts,
    Destination,
    Health,
    ItemProblem,
    PlannedChanges,
    Receivable,
)
from steward.connectors.base.deliveries import EventSource, TopicSpec
from steward.connectors.base.options import Options
from steward.connectors.base.queries import ReadOp
from steward.connectors.base.send_once import SendOnceOperation, SendOnceReader
from steward.connectors.base.settings import (
    BadSettings,
    ConnectionSecrets,
    ConnectionSettings,
    unknown_settings,
)
from steward.connectors.base.statuses import failure_of_status
from steward.connectors.base.writing import WriteOutcome
from steward.model.change import Batch, FieldChange, FieldKind, ObjectRef, Part, Proposal
from steward.model.connection import Auth
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.outbound.address import UrlOrigin, origin_of
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, SecretUrl, Timeouts
from steward.outbound.errors import CallRefused, Unauthorized, WriteFailed
from steward.outbound.response import PlatformResponse
from steward.telemetry.redact import Secret

_RATE_LIMIT = RateLimit(max_concurrency=1, min_interval_s=1.0)
_SETTING = "webhook_url"
_MAX_URL = 2000


@dataclass(frozen=True, slots=True)
class PostMessage(SendOnceOperation):
    """Posts a message, at most once, because it cannot be read back.

    `platform` is its name in sentences. `body` returns the request's body, as JSON, for the command.
    """

    name: str
    platform: str
    body: Callable[[PostCard], JsonObject]

    def plan(self, commands: Sequence[PostCard], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans one message per command; reports a problem for a message without a title."""
        proposals: list[Proposal] = []
        problems: list[ItemProblem] = []
        for command in commands:
            if not command.title.strip():
                problems.append(ItemProblem("message", "empty", "A message needs a title.", "title"))
                continue
            part = Part(self.name, integration_id, "channel", self.body(command), None, None)
            lines = len(command.text) + len(command.facts)
            fields = (FieldChange("lines", "Lines", None, lines, FieldKind.NUMBER),)
            ref = ObjectRef("message", None, command.title[:200])
            proposals.append(Proposal(ref, self.action, fields, (part,), integration_id, command.message))
        return PlannedChanges(tuple(proposals), tuple(problems))

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the message itself."""
        return arguments, ()


def message_operation(operations: Mapping[str, AnyWriteOperation]) -> PostMessage:
    """Returns the operation that posts a message. Raises LookupError when the connection has none."""
    for operation in operations.values():
        if isinstance(operation, PostMessage):
            return operation
    raise LookupError("This connection receives no messages.")


class MessageReader(SendOnceReader):
    """A reader without reads: a message does not exist before it is sent, nor can it be looked up later."""

    def read(self, op: ReadOp[Any, Any], params: object) -> NoReturn:
        """Raises KeyError: the connector has no reads."""
        raise KeyError(op.name)


class MessagePlatform(Protocol):
    """The interface through which a writer of messages uses its connector."""

    def marked(self, arguments: JsonObject, write_key: str) -> JsonValue:
        """Returns the message as sent."""
        ...

    def outcome(self, response: PlatformResponse) -> WriteOutcome:
        """Returns the outcome that a response reports for the message."""
        ...


class MessageWriter:
    """Posts one message."""

    def __init__(self, connector: MessagePlatform, http: WriteClient) -> None:
        self._connector = connector
        self._http = http

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Sends the one POST. `applied` means accepted, not displayed. Never raises a call's error."""
        [part] = batch.parts
        try:
            response = await self._http.send(
                "POST",
                "",
                self._connector.marked(part.arguments, batch.write_keys[0]),
                write_keys=batch.write_keys,
                key=batch.key,
                operation=part.operation,
            )
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)]
        return [self._connector.outcome(response)]


class MessageConnector:
    """Connects an address that messages are posted to; a subclass names the platform and its operation.

    `setting_title` is the label of the address in the form, and `address_source` the place from which a
    person copies the address. `hosts` are the only hosts that are called: names, suffixes such as
    `.example.com`, or `host:port`; None for any public host.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    setting_title: ClassVar[str] = "Address of the webhook"
    address_source: ClassVar[str] = "the platform"
    hosts: Sequence[str] | None = None
    operation: ClassVar[PostMessage]
    capabilities: ClassVar[Capabilities] = Capabilities(
        writes=True, receives=frozenset((Receivable.MESSAGE,))
    )
    topics: Mapping[str, TopicSpec] = {}
    events: EventSource | None = None
    reads: Mapping[str, ReadOp[Any, Any]] = {}

    def __init__(self, options: Options) -> None:
        self._private_hosts = options.private_hosts
        timeouts = Timeouts.of_kind(options.read_s, bounded=options.bounded)
        self.facts = ConnectorFacts(
            self.id,
            self.title,
            ConnectionKind.ACCOUNT,
            (Auth.KEY,),
            _RATE_LIMIT,
            timeouts,
            _schema(self.setting_title),
            self.capabilities,
        )
        self.writes: Mapping[str, AnyWriteOperation] = {self.operation.name: self.operation}

    @classmethod
    def from_options(cls, options: Options) -> Self:
        """Returns the connector configured by the operator's settings."""
        return cls(options)

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates webhook_url, which is itself the secret. Raises BadSettings."""
        url = form.get(_SETTING)
        unknown = unknown_settings(form, (_SETTING,), f"This is not a setting of {self.operation.platform}.")
        if unknown:
            raise BadSettings(unknown)
        if not isinstance(url, str) or not url.strip():
            raise BadSettings({_SETTING: ["This is needed."]})
        url = url.strip()
        if len(url) > _MAX_URL or not url.isprintable():
            limit = f"on one line of at most {_MAX_URL} characters"
            words = f"Give the https address {self.address_source} shows, {limit}."
            raise BadSettings({_SETTING: [words]})
        origin = self.allowed_origin(url)
        self.check_address(url)
        number = hashlib.sha256(url.encode("utf-8")).hexdigest()[:24]
        plain = {"host": origin.host, "origin": f"{origin.scheme}://{origin.entry}"}
        return ConnectionSettings(plain, {_SETTING: Secret(url)}, Auth.KEY, subject=f"{origin.host} {number}")

    def allowed_origin(self, url: str) -> UrlOrigin:
        """Returns the origin of an address that may be called. Raises BadSettings."""
        try:
            origin = origin_of(url, self._private_hosts)
        except CallRefused:
            raise BadSettings({_SETTING: [f"Give the https address {self.address_source} shows."]}) from None
        self.check_host(origin)
        return origin

    def check_host(self, origin: UrlOrigin) -> None:
        """Checks that the host is one of the platform's. Raises BadSettings."""
        if self.hosts is not None and not origin.is_named_by(self.hosts):
            platform = self.operation.platform
            words = f"This is not an address of {platform}. Give the one {self.address_source} shows."
            raise BadSettings({_SETTING: [words]})

    def check_address(self, url: str) -> None:
        """Checks that an entered address is complete. Raises BadSettings."""

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the endpoint; only the host of the secret address is displayed. Raises BadSettings."""
        origin = secrets.plain["origin"]
        self.allowed_origin(origin)
        credentials = SecretUrl(secrets.sealed[_SETTING])
        scope = f"{self.id} {secrets.integration_id}"
        return PlatformEndpoint(self.id, origin, credentials, self.facts.timeouts, _RATE_LIMIT, scope)

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> MessageReader:
        """Returns a reader without reads."""
        return MessageReader()

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> MessageWriter:
        """Returns a writer for the one channel."""
        return MessageWriter(self, http)

    def marked(self, arguments: JsonObject, write_key: str) -> JsonValue:
        """Returns the message as sent; a platform that stores the sender's id gets `write_key`."""
        return arguments

    def outcome(self, response: PlatformResponse) -> WriteOutcome:
        """Returns the outcome that a response reports for the message."""
        platform = self.operation.platform
        failure = failure_of_status(platform, response)
        if response.status in (401, 403, 404):
            failure = Unauthorized(f"{platform} does not know this address any more. Reconnect it.")
        return WriteOutcome.of_response(failure)

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Checks only the form of the address; sends nothing."""
        try:
            host = self.allowed_origin(secrets.plain["origin"]).host
        except BadSettings as bad_settings:
            words = " ".join(bad_settings.errors[_SETTING])
            return Health(ok=False, error=CallRefused(words, words), error_field=_SETTING)
        return Health(ok=True, account_label=host, name=host, rights=("write",))

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns the one channel."""
        host = secrets.plain["host"]
        return [Destination(host, "channel", host)] if parent is None else []


def _schema(title: str) -> JsonObject:
    address: JsonObject = {"type": "string", "title": title, "maxLength": _MAX_URL, "secret": True}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [_SETTING],
        "properties": {_SETTING: address},
    }
