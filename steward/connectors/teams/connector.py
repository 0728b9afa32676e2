"""The Microsoft Teams connector: posts one card per message to a workflow address, at most once."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

from steward.connectors.base.commands import PostCard
from steward.connectors.base.connector import (
    ConnectionKind,
    ConnectorFacts,
    CurrentValue,
    Destination,
    Guard,
    Health,
    ItemProblem,
    PlannedChanges,
    WriteOperation,
)
from steward.connectors.base.deliveries import EventSource, TopicSpec
from steward.connectors.base.queries import ReadOp
from steward.connectors.base.settings import BadSettings, ConnectionSecrets, ConnectionSettings
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.teams.card import message
from steward.model.change import Action, Batch, FieldChange, FieldKind, ObjectRef, Part, Proposal, Recovery
from steward.model.connection import Auth
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.outbound.address import UrlOrigin, origin_of
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, SecretUrl, Timeouts
from steward.outbound.errors import (
    CallRefused,
    Invalid,
    PlatformUnavailable,
    Throttled,
    Unauthorized,
    WriteFailed,
)
from steward.outbound.response import PlatformResponse
from steward.telemetry.redact import Secret

_PACE = RateLimit(max_concurrency=1, min_interval_s=1.0)
_RETIRED = (".webhook.office.com", "webhook.office.com", "outlook.office.com")
_HIDDEN = re.compile(rb"HTTP error (\d{3})")
_SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["webhook_url"],
    "properties": {
        "webhook_url": {
            "type": "string",
            "title": "Address of the workflow",
            "maxLength": 2000,
            "secret": True,
        }
    },
}


@dataclass(frozen=True, slots=True)
class TeamsPostOperation:
    """`teams.post`: one message. Nothing can be read back, so it is sent at most once."""

    name: str = "teams.post"
    action: Action = Action.SEND
    recovery: Recovery = Recovery.AT_MOST_ONCE
    guard: Guard = Guard.REREAD
    reversible: bool = False

    def recovery_of(self, part: Part) -> Recovery:
        """Returns `at_most_once` for every part."""
        return self.recovery

    def plan(self, commands: Sequence[PostCard], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans one message per command; a message without a title is a problem."""
        proposals: list[Proposal] = []
        problems: list[ItemProblem] = []
        for command in commands:
            if not command.title.strip():
                problems.append(ItemProblem("message", "empty", "A message needs a title.", "title"))
                continue
            part = Part(self.name, integration_id, "channel", message(command), None, None)
            lines = len(command.text) + len(command.facts)
            fields = (FieldChange("lines", "Lines", None, lines, FieldKind.NUMBER),)
            ref = ObjectRef("message", None, command.title[:200])
            proposals.append(
                Proposal(ref, self.action, fields, (part,), integration_id, False, command.message)
            )
        return PlannedChanges(tuple(proposals), tuple(problems))

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the message itself."""
        return arguments, ()

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Sends each message in a call of its own."""
        return [(part,) for part in parts]

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Returns false: a message cannot be read back."""
        return False


class TeamsReader:
    """Has no reads: a message does not exist before it is sent and cannot be looked up afterwards."""

    def read(self, op: ReadOp[Any, Any], params: object) -> NoReturn:
        """Raises KeyError: the connector has no reads."""
        raise KeyError(op.name)

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Returns no values."""
        return [CurrentValue(part, None) for part in parts]

    async def confirm(self, part: Part) -> WriteOutcome:
        """Returns unknown: only a person may send the message again."""
        return WriteOutcome(WriteState.UNKNOWN, reason="It cannot be told whether the message was sent.")

    async def find_marker(self, part: Part, key: str) -> bool:
        """Returns false: messages cannot be searched."""
        return False


class TeamsWriter:
    """Posts one card."""

    def __init__(self, http: WriteClient) -> None:
        self._http = http

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Sends the one POST; applied means accepted, not displayed. Never raises a call's error."""
        [part] = batch.parts
        try:
            answer = await self._http.send(
                "POST",
                "",
                _marked(part.arguments, batch.effect_keys[0]),
                effect_keys=batch.effect_keys,
                key=batch.key,
                operation=part.operation,
            )
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)]
        return [_outcome(answer)]


class TeamsConnector:
    """Connects Teams workflows.

    `hosts` are suffixes such as `.logic.azure.com`, or exact `host:port` entries.
    """

    topics: Mapping[str, TopicSpec] = {}
    events: EventSource | None = None
    reads: Mapping[str, ReadOp[Any, Any]] = {}

    def __init__(
        self,
        *,
        hosts: Collection[str],
        private_hosts: Collection[str],
        read_s: float,
        bounded: bool = False,
    ) -> None:
        self._hosts = tuple(hosts)
        self._private = frozenset(private_hosts)
        self._times = Timeouts.of_kind(read_s, bounded=bounded)
        self.facts = ConnectorFacts(
            "teams", "Microsoft Teams", ConnectionKind.ACCOUNT, (Auth.KEY,), _PACE, self._times, _SCHEMA
        )
        self.writes: Mapping[str, WriteOperation[Any]] = {"teams.post": TeamsPostOperation()}

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates webhook_url, which is the secret itself. Raises BadSettings."""
        url = form.get("webhook_url")
        if form.keys() - {"webhook_url"}:
            raise BadSettings(
                {name: ["This is no setting of Teams."] for name in form.keys() - {"webhook_url"}}
            )
        if not isinstance(url, str) or not 1 <= len(url.strip()) <= 2000 or not url.strip().isprintable():
            raise BadSettings({"webhook_url": ["This is needed."]})
        origin = self._origin(url.strip())
        base = f"{origin.scheme}://{origin.entry}"
        number = hashlib.sha256(url.strip().encode("utf-8")).hexdigest()[:24]
        sealed = {"webhook_url": Secret(url.strip())}
        plain = {"host": origin.host, "origin": base}
        return ConnectionSettings(plain, sealed, Auth.KEY, subject=f"{origin.host} {number}")

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the endpoint; only the host of the secret address is displayed. Raises BadSettings."""
        base = secrets.plain["origin"]
        self._allowed(base)
        proof = SecretUrl(secrets.sealed["webhook_url"])
        return PlatformEndpoint("teams", base, proof, self._times, _PACE, f"teams {secrets.integration_id}")

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> TeamsReader:
        """Returns a reader without reads."""
        return TeamsReader()

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> TeamsWriter:
        """Returns a writer to the one channel."""
        return TeamsWriter(http)

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Checks the form of the address alone, without sending anything."""
        try:
            host = self._allowed(secrets.plain["origin"]).host
        except BadSettings as bad:
            words = " ".join(bad.errors["webhook_url"])
            return Health(ok=False, error=CallRefused(words, words), error_field="webhook_url")
        return Health(ok=True, account_label=host, name=host, rights=("write",))

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns the one channel."""
        host = secrets.plain["host"]
        return [Destination(host, "channel", host)] if parent is None else []

    def _origin(self, url: str) -> UrlOrigin:
        """Returns the origin of a complete address. Raises BadSettings."""
        origin = self._allowed(url)
        parts = urlsplit(url)
        if len(parts.path) < 2 or "sig" not in parse_qs(parts.query):
            raise BadSettings({"webhook_url": ["The address is not complete: copy it whole."]})
        return origin

    def _allowed(self, url: str) -> UrlOrigin:
        """Returns the origin of an address that may be a workflow's. Raises BadSettings."""
        try:
            origin = origin_of(url, self._private)
        except CallRefused:
            raise BadSettings({"webhook_url": ["Give the https address the workflow shows."]}) from None
        if origin.host.endswith(_RETIRED):
            words = (
                "Addresses of the old connectors are retired. Make a workflow in Teams and give its address."
            )
            raise BadSettings({"webhook_url": [words]})
        suffixes = tuple(host for host in self._hosts if host.startswith("."))
        if not origin.host.endswith(suffixes) and origin.entry not in self._hosts:
            raise BadSettings({"webhook_url": ["This is not the address of a Teams workflow."]})
        return origin


def _marked(arguments: JsonObject, effect: str) -> JsonValue:
    """Returns the message with the effect's key as the card's id."""
    attachments = arguments["attachments"]
    if not isinstance(attachments, Sequence) or isinstance(attachments, str):
        return arguments
    marked: list[JsonValue] = []
    for attachment in attachments:
        content = attachment.get("content") if isinstance(attachment, Mapping) else None
        if isinstance(attachment, Mapping) and isinstance(content, Mapping):
            marked.append({**attachment, "content": {**content, "id": effect}})
    return {**arguments, "attachments": marked}


def _outcome(answer: PlatformResponse) -> WriteOutcome:
    hidden = _HIDDEN.search(answer.body[:4000])
    if answer.ok and hidden is not None:
        if hidden[1] == b"429":
            return WriteOutcome.of_error(WriteState.NOT_SENT, Throttled(30.0))
        return WriteOutcome(WriteState.UNKNOWN, reason="Teams answered with an error of its own.")
    if answer.ok:
        return WriteOutcome(WriteState.APPLIED)
    if answer.status in (401, 403, 404):
        gone = Unauthorized("Teams does not know this address any more. Reconnect it.")
        return WriteOutcome.of_error(WriteState.REFUSED, gone)
    if answer.status < 500:
        refusal = Invalid([], f"Teams refused the message (status {answer.status}).")
        return WriteOutcome.of_error(WriteState.REFUSED, refusal)
    return WriteOutcome.of_error(WriteState.UNKNOWN, PlatformUnavailable("Teams failed to answer."))
