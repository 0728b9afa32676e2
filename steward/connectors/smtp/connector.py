"""The mail server connector: sends messages through an organization's own account, at most once."""

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, Self

from steward.connectors.base.connector import (
    AnyWriteOperation,
    Capabilities,
    ConnectionKind,
    ConnectorFacts,
    Destination,
    Health,
)
from steward.connectors.base.deliveries import EventSource, TopicSpec
from steward.connectors.base.mail import SEND_MAIL, mail_content, outcome_of_mail
from steward.connectors.base.options import Options
from steward.connectors.base.queries import ReadOp
from steward.connectors.base.send_once import SendOnceReader
from steward.connectors.base.settings import (
    BadSettings,
    ConnectionSecrets,
    ConnectionSettings,
    unknown_settings,
)
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import Batch
from steward.model.connection import Auth
from steward.model.json import JsonObject
from steward.outbound.address import UrlOrigin
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import Basic, PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import BadCertificate, CallError, CallRefused, Invalid, Unauthorized, WriteFailed
from steward.outbound.mail import MAX_CONNECTIONS
from steward.outbound.mail_message import InvalidMail, Mailbox, compose, mailboxes_of
from steward.outbound.mail_server import MESSAGE_S, mail_origin
from steward.telemetry.redact import Secret

_RATE_LIMIT = RateLimit(max_concurrency=MAX_CONNECTIONS)
_SECURITY = {"tls": "smtps", "starttls": "smtp"}
_PORTS = {"tls": 465, "starttls": 587}
_FIELDS = ("host", "port", "security", "user", "password", "sender")
_SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["host", "sender"],
    "properties": {
        "host": {"type": "string", "title": "Mail server", "maxLength": 253},
        "port": {"type": "integer", "title": "Port", "minimum": 1, "maximum": 65535},
        "security": {
            "type": "string",
            "title": "Encryption: tls from the start, or starttls",
            "enum": ["tls", "starttls"],
        },
        "user": {"type": "string", "title": "User", "maxLength": 320},
        "password": {"type": "string", "title": "Password", "maxLength": 1000, "secret": True},
        "sender": {"type": "string", "title": "Sender, such as Shop <shop@example.com>", "maxLength": 400},
    },
}


class SmtpConnector:
    """Connects an account at a mail server; every message has its sender address."""

    topics: Mapping[str, TopicSpec] = {}
    events: EventSource | None = None
    reads: Mapping[str, ReadOp[Any, Any]] = {}
    title: ClassVar[str] = "Mail server (SMTP)"
    capabilities: ClassVar[Capabilities] = Capabilities(writes=True)

    def __init__(self, options: Options) -> None:
        self._private_hosts = options.private_hosts
        timeouts = Timeouts.of_kind(options.read_s, write_s=MESSAGE_S, bounded=options.bounded)
        self.facts = ConnectorFacts(
            "smtp", self.title, ConnectionKind.ACCOUNT, (Auth.KEY,), _RATE_LIMIT, timeouts,
            _SCHEMA, self.capabilities,
        )  # fmt: skip
        self.writes: Mapping[str, AnyWriteOperation] = {SEND_MAIL.name: SEND_MAIL}

    @classmethod
    def from_options(cls, options: Options) -> Self:
        """Returns the connector configured by the operator's settings."""
        return cls(options)

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates the form; without a port or encryption it uses the usual ones. Raises BadSettings."""
        errors = unknown_settings(form, _FIELDS, "This is not a setting of a mail server.")
        texts = {name: _text(form.get(name)) for name in ("host", "user", "sender")}
        origin = self._origin(texts["host"], form, errors)
        sender = _sender(texts["sender"])
        if sender is None:
            errors["sender"] = ["Give one e-mail address, with or without a name before it."]
        password = form.get("password") or ""
        is_readable = isinstance(password, str) and password.isprintable()
        if not is_readable or bool(password) != bool(texts["user"]):
            errors["password"] = ["Give both user and password, or neither."]
        if errors or origin is None or sender is None:
            raise BadSettings(errors)
        plain = {"host": origin.host, "address": f"{origin.scheme}://{origin.entry}", "user": texts["user"]}
        plain |= {"sender": sender.address, "sender_name": sender.name}
        subject = f"{origin.entry} {texts['user']} {sender.address}"
        sealed = {"password": Secret(str(password))} if password else {}
        return ConnectionSettings(plain, sealed, Auth.KEY, subject=subject)

    def _origin(self, host: str, form: JsonObject, errors: dict[str, list[str]]) -> UrlOrigin | None:
        """Returns the origin of the form's server, or adds its faults to `errors`."""
        security = _text(form.get("security")) or ("starttls" if form.get("port") == 587 else "tls")
        port = form.get("port") or _PORTS.get(security, 465)
        if security not in _SECURITY:
            errors["security"] = ["Choose tls, which encrypts from the start, or starttls."]
        try:
            return mail_origin(f"{_SECURITY.get(security, 'smtps')}://{host}:{port}", self._private_hosts)
        except CallRefused as refusal:
            if "ports" in refusal.rule:
                errors["port"] = [refusal.sentence]
            else:
                errors["host"] = [refusal.sentence if host else "Give the name of the mail server."]
            return None

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the endpoint. Raises BadSettings when the server may no longer be called."""
        address = secrets.plain["address"]
        try:
            mail_origin(address, self._private_hosts)
        except CallRefused as refusal:
            raise BadSettings({"host": [refusal.sentence]}) from None
        password = secrets.sealed.get("password")
        user = Secret(secrets.plain.get("user", ""))
        credentials = None if password is None else Basic(user, password)
        scope = f"smtp {secrets.integration_id}"
        return PlatformEndpoint("smtp", address, credentials, self.facts.timeouts, _RATE_LIMIT, scope)

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> "SmtpReader":
        """Returns a reader without reads."""
        return SmtpReader()

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> "SmtpWriter":
        """Returns a writer that sends from the account's sender address."""
        sender = Mailbox(secrets.plain["sender"], secrets.plain.get("sender_name", ""))
        return SmtpWriter(http, sender)

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Connects, encrypts and signs in; sends no message."""
        label = secrets.plain.get("sender") or secrets.plain["host"]
        try:
            await http.check_mail()
        except CallError as error:
            field = {Unauthorized: "password", BadCertificate: "security"}.get(type(error))
            return Health(ok=False, account_label=label, error=error, error_field=field)
        return Health(ok=True, account_label=label, name=label, rights=("write",))

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns an empty list: steps name their recipients themselves."""
        return []


class SmtpReader(SendOnceReader):
    """A reader without reads: mail is not fetched, and a message cannot be looked up afterwards."""

    def read(self, op: ReadOp[Any, Any], params: object) -> NoReturn:
        """Raises KeyError: the connector has no reads."""
        raise KeyError(op.name)


class SmtpWriter:
    """Sends messages through a mail server."""

    def __init__(self, http: WriteClient, sender: Mailbox) -> None:
        self._http = http
        self._sender = sender

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Sends the one message of a batch. Never raises a call's error."""
        [part] = batch.parts
        [write_key] = batch.write_keys
        try:
            content = mail_content(
                part.arguments, self._sender, message_id=write_key, date=self._http.mail.now()
            )
            message = compose(content)
            outcome = await self._http.mail.send(message, write_keys=batch.write_keys, key=batch.key)
        except InvalidMail as error:
            return [WriteOutcome.of_error(WriteState.REFUSED, Invalid([error.field], str(error)))]
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)]
        return [outcome_of_mail(message, outcome)]


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) and value.isprintable() else ""


def _sender(text: str) -> Mailbox | None:
    try:
        mailboxes = mailboxes_of(text)
    except InvalidMail:
        return None
    return mailboxes[0] if len(mailboxes) == 1 else None


CONNECTOR = SmtpConnector
