"""A base for connectors of services whose API takes a key."""

import base64
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast
from urllib.parse import urlencode, urlsplit

import msgspec

from steward.connectors.base.connector import (
    AnyWriteOperation,
    Capabilities,
    ConnectionKind,
    ConnectorFacts,
    Destination,
    Health,
)
from steward.connectors.base.deliveries import EventSource, TopicSpec
from steward.connectors.base.multipart import field_head, file_head, form_of_parts
from steward.connectors.base.options import Options
from steward.connectors.base.queries import PATH, PathQuery, ReadOp, RecordPage
from steward.connectors.base.send_once import SendOnceReader
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.settings import (
    IDENTITY,
    NAMES_CHANNEL,
    BadSettings,
    ConnectionSecrets,
    ConnectionSettings,
    unknown_settings,
)
from steward.connectors.base.statuses import failure_of_status
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import Batch
from steward.model.connection import Auth
from steward.model.json import JsonObject, JsonValue
from steward.model.write_response import WriteResponse
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import Bearer, Credentials, PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import (
    CallError,
    CallRefused,
    Invalid,
    MissingRight,
    RemoteNotFound,
    Unauthorized,
    UnusableResponse,
    WriteFailed,
)
from steward.outbound.response import Decoded, PlatformResponse
from steward.telemetry.redact import Secret

_JSON = {"content-type": "application/json"}
_FORM = {"content-type": "application/x-www-form-urlencoded"}
_ONE_A_SECOND = RateLimit(max_concurrency=1, min_interval_s=1.0)
_UNKNOWN_SETTING = "This is not a setting of {title}."


@dataclass(frozen=True, slots=True)
class SettingField:
    """A field of a connection's form; `words` are the error for a value that does not match."""

    name: str
    title: str
    words: str
    pattern: str = r"\S{1,500}"
    secret: bool = True
    needed: bool = True

    def accepts(self, text: str) -> bool:
        """Returns whether the text is a valid value of the field."""
        return bool(text) and re.fullmatch(self.pattern, text) is not None and text.isprintable()


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a key as the service names it; `identity` stays when the key is replaced."""

    label: str
    identity: str


class ServiceConnector(ABC):
    """Connects an account of a service by its key; a subclass names the service and its specifics.

    `base_url` is the address of the API, `check_path` a path that returns the key's account, `key_field`
    the setting whose error reports a refused key; `headers` are sent with every call. The form must contain
    exactly one of `alternatives`. `query_path` matches the paths at which a POST only reads.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    fields: ClassVar[tuple[SettingField, ...]]
    key_field: ClassVar[str]
    base_url: ClassVar[str] = ""
    check_path: ClassVar[str] = ""
    headers: ClassVar[Mapping[str, str]] = {}
    alternatives: ClassVar[tuple[str, ...]] = ()
    query_path: ClassVar[str] = ""
    rate_limit: ClassVar[RateLimit] = _ONE_A_SECOND
    operation: ClassVar[SendCallOperation]
    capabilities: ClassVar[Capabilities] = Capabilities(reads=True, writes=True)
    topics: Mapping[str, TopicSpec] = {}
    events: EventSource | None = None
    reads: Mapping[str, ReadOp[Any, Any]] = {PATH.name: PATH}

    def __init__(self, options: Options) -> None:
        self.private_hosts = options.private_hosts
        timeouts = Timeouts.of_kind(options.read_s, bounded=options.bounded)
        self.facts = ConnectorFacts(
            self.id,
            self.title,
            ConnectionKind.ACCOUNT,
            (Auth.KEY,),
            self.rate_limit,
            timeouts,
            self.settings_schema(),
            self.capabilities,
        )
        self.writes: Mapping[str, AnyWriteOperation] = {self.operation.name: self.operation}

    @classmethod
    def from_options(cls, options: Options) -> Self:
        """Returns the connector configured by the operator's settings."""
        return cls(options)

    def settings_schema(self) -> JsonObject:
        """Returns the schema of the connection form."""
        properties: dict[str, JsonValue] = {}
        for setting in self.fields:
            form: dict[str, JsonValue] = {"type": "string", "title": setting.title, "maxLength": 2000}
            properties[setting.name] = form | ({"secret": True} if setting.secret else {})
        needed: list[JsonValue] = [setting.name for setting in self.fields if setting.needed]
        ways: list[JsonValue] = [{"required": [name]} for name in self.alternatives]
        return {
            "type": "object",
            "additionalProperties": False,
            "required": needed,
            "properties": properties,
            **({"oneOf": ways} if ways else {}),
        }

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates the fields of the form. Raises BadSettings."""
        texts = self.texts(form)
        plain = {
            setting.name: texts[setting.name]
            for setting in self.fields
            if not setting.secret
            if setting.name in texts
        }
        sealed = {
            setting.name: Secret(texts[setting.name])
            for setting in self.fields
            if setting.secret and setting.name in texts
        }
        digest = hashlib.sha256("\n".join(texts[name] for name in sorted(texts)).encode()).hexdigest()
        return ConnectionSettings(plain, sealed, Auth.KEY, subject=f"{self.id} {digest[:24]}")

    def texts(self, form: JsonObject) -> dict[str, str]:
        """Returns the values of the form's fields without the empty ones. Raises BadSettings."""
        names = [setting.name for setting in self.fields]
        errors = unknown_settings(form, names, _UNKNOWN_SETTING.format(title=self.title))
        texts: dict[str, str] = {}
        for setting in self.fields:
            value = form.get(setting.name)
            text = value.strip() if isinstance(value, str) else ""
            if setting.accepts(text):
                texts[setting.name] = text
            elif setting.needed or value not in (None, ""):
                errors[setting.name] = [setting.words]
        if not errors:
            self._check_alternatives(texts, errors)
        if errors:
            raise BadSettings(errors)
        return texts

    def _check_alternatives(self, texts: Mapping[str, str], errors: dict[str, list[str]]) -> None:
        if self.alternatives and sum(name in texts for name in self.alternatives) != 1:
            titles = [setting.title.lower() for setting in self.fields if setting.name in self.alternatives]
            errors[self.alternatives[0]] = [f"Give exactly one of these: {' or '.join(titles)}."]

    def address(self, secrets: ConnectionSecrets) -> str:
        """Returns the address of the API. Raises BadSettings when it may no longer be called."""
        return self.base_url

    def credentials(self, secrets: ConnectionSecrets) -> Credentials:
        """Returns the credentials that authenticate the calls."""
        return Bearer(secrets.sealed[self.key_field])

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the endpoint at the address's host, the only host that is called. Raises BadSettings."""
        parts = urlsplit(self.address(secrets))
        return PlatformEndpoint(
            self.id,
            f"{parts.scheme}://{parts.netloc}",
            self.credentials(secrets),
            self.facts.timeouts,
            self.rate_limit,
            f"{self.id} {secrets.integration_id}",
            hosts=(parts.netloc,),
        )

    def url(
        self, secrets: ConnectionSecrets, path: str, query: Mapping[str, str] | Sequence[tuple[str, str]]
    ) -> str:
        """Returns the whole address of a call; the query may repeat a name. Raises BadSettings."""
        return f"{self.address(secrets)}{path}{f'?{urlencode(query)}' if query else ''}"

    def refusal(self, path: str, secrets: ConnectionSecrets) -> str | None:
        """Returns why the connection cannot call this path; null when it can."""
        return None

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> "ServiceReader":
        """Returns a reader of the API's paths."""
        return ServiceReader(self, http, secrets)

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> "ServiceWriter":
        """Returns a writer that makes one call."""
        return ServiceWriter(self, http, secrets)

    def file_bytes(self, query: PathQuery) -> int:
        """Returns the size limit of the response when the path is a file's; 0 for any other path."""
        return 0

    def failure(self, response: PlatformResponse) -> CallError | None:
        """Returns the error of a refused call; null for an accepted one."""
        if response.ok:
            return None
        try:
            message = self.reason(body_of(response))
        except UnusableResponse:
            message = ""
        return failure_of_status(self.title, response, message)

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns the service's own words for a refusal; an empty text when it gives none."""
        return ""

    def outcome(self, response: PlatformResponse) -> WriteOutcome:
        """Returns the outcome that a response reports for the call."""
        recorded = WriteResponse.of_body(response.status, {}, response.body)
        return WriteOutcome.of_response(self.failure(response), recorded)

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Asks the service which account the key belongs to."""
        return await self.check_at(http, secrets, self.check_path)

    async def check_at(self, http: ManagementClient, secrets: ConnectionSecrets, path: str) -> Health:
        """Reads a path that returns the key's account; never raises."""
        try:
            response = await http.fetch(self.url(secrets, path, {}), self.headers)
            failure = self.failure(response)
            if failure is not None:
                raise failure
            account = self.account(body_of(response), secrets)
        except CallError as error:
            is_key = isinstance(error, Unauthorized | RemoteNotFound | MissingRight)
            return Health(ok=False, error=error, error_field=self._key_of(secrets) if is_key else None)
        facts: JsonObject = {IDENTITY: f"{self.id} {account.identity}", NAMES_CHANNEL: False}
        return Health(
            ok=True, account_label=account.label, name=account.label, rights=("read", "write"), facts=facts
        )

    def _key_of(self, secrets: ConnectionSecrets) -> str:
        return self.key_field if self.key_field in secrets.sealed else next(iter(secrets.sealed))

    @abstractmethod
    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the account that the body of the check's response names. Raises UnusableResponse."""

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns an empty list: steps name their recipients themselves."""
        return []


class ServiceReader(SendOnceReader):
    """Reads paths of a service's API."""

    def __init__(self, connector: ServiceConnector, http: ReadClient, secrets: ConnectionSecrets) -> None:
        self._connector = connector
        self._http = http
        self._secrets = secrets

    def read(self, op: ReadOp[Any, Any], params: Any) -> AsyncIterator[RecordPage[Any]]:
        """Yields the one response of a path. Raises CallError; KeyError for an unsupported read."""
        if op.name != PATH.name:
            raise KeyError(op.name)
        return self._path(cast("PathQuery", params))

    async def _path(self, query: PathQuery) -> AsyncIterator[RecordPage[PlatformResponse]]:
        refusal = self._connector.refusal(query.path, self._secrets)
        if refusal is not None:
            raise Invalid([], refusal)
        if query.body is not None and not re.fullmatch(self._connector.query_path, query.path):
            raise CallRefused("a read changes nothing")
        url, file_bytes = self._connector.url(self._secrets, query.path, query.query), 0
        if query.body is None:
            file_bytes = self._connector.file_bytes(query)
        content = b"" if query.body is None else msgspec.json.encode(query.body)
        method, headers = ("POST", _JSON) if content else ("GET", {})
        headers = {**headers, **self._connector.headers}
        if file_bytes:
            path = urlsplit(url).path
            response = await self._http.get(path, dict(query.query), max_bytes=file_bytes)
        else:
            response = await self._http.fetch(method, url, headers, content)
        failure = self._connector.failure(response)
        if failure is not None:
            raise failure
        yield RecordPage((response,), total=1)


class ServiceWriter:
    """Writes to a service's API with one call."""

    def __init__(self, connector: ServiceConnector, http: WriteClient, secrets: ConnectionSecrets) -> None:
        self._connector = connector
        self._http = http
        self._secrets = secrets

    def encoded(self, arguments: JsonObject) -> tuple[bytes, Mapping[str, str]]:
        """Returns the body of a call and the headers that describe its encoding."""
        file = arguments.get("file")
        if isinstance(file, Mapping):
            return _with_file(arguments["body"], file)
        return _encoded(arguments["body"], is_form=bool(arguments["form"]))

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one call of a batch. Never raises a call's error."""
        [part] = batch.parts
        arguments = part.arguments
        path, query = str(arguments["path"]), arguments["query"]
        refusal = self._connector.refusal(path, self._secrets)
        if refusal is not None:
            return [WriteOutcome.of_error(WriteState.REFUSED, Invalid([], refusal))]
        content, headers = self.encoded(arguments)
        texts = {name: str(text) for name, text in query.items()} if isinstance(query, Mapping) else {}
        try:
            response = await self._http.send_request(
                str(arguments["method"]),
                self._connector.url(self._secrets, path, texts),
                content,
                headers={**headers, **self._connector.headers},
                write_keys=batch.write_keys,
                key=batch.key,
            )
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)]
        return [self._connector.outcome(response)]


def _with_file(body: JsonValue, file: Mapping[str, JsonValue]) -> tuple[bytes, Mapping[str, str]]:
    """Returns a multipart form: the fields of the body, the file, and values that are not text as JSON."""
    parts = [
        (field_head(name), value.encode() if isinstance(value, str) else msgspec.json.encode(value))
        for name, value in (body.items() if isinstance(body, Mapping) else ())
    ]
    head = file_head(str(file["field"]), str(file["name"]), str(file["mime_type"]))
    content, kind = form_of_parts([*parts, (head, base64.b64decode(str(file["content"])))])
    return content, {"content-type": kind}


def _encoded(body: JsonValue, *, is_form: bool) -> tuple[bytes, Mapping[str, str]]:
    """Returns a body and its content-type header; nothing for an empty body."""
    if not isinstance(body, Mapping) or not body:
        return b"", {}
    if is_form:
        return urlencode({name: str(value) for name, value in body.items()}).encode(), _FORM
    return msgspec.json.encode(body), _JSON


def body_of(response: PlatformResponse) -> dict[str, Decoded]:
    """Returns the JSON object in a response's body. Raises UnusableResponse."""
    decoded = response.json()
    if not isinstance(decoded, dict):
        raise UnusableResponse("it is not an object")
    return decoded


def text_of(body: Mapping[str, Decoded], name: str) -> str:
    """Returns a text or number of a body as text; empty if the body has none."""
    value = body.get(name)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
