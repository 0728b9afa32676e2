"""The operation `mail.send` of mail servers and mail services: sends one message, at most once."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from steward.connectors.base.connector import ItemProblem, PlannedChanges
from steward.connectors.base.send_once import LABEL_CHARACTERS, SendOnceOperation, text_fields
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.model.change import FieldChange, ObjectRef, Part, Proposal
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.write_response import WriteResponse
from steward.outbound.errors import PlatformUnavailable, Unauthorized
from steward.outbound.mail_message import (
    InvalidMail,
    MailAttachment,
    Mailbox,
    MailContent,
    MailMessage,
    compose,
)
from steward.outbound.mail_server import MailOutcome, MailResult

# Any sender and time will do: a message that can be composed with these can be composed with the account's.
_ANYBODY = Mailbox("sender@mail.invalid")
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SendMail:
    """Command of one message, sent from the account's own address; `sender_name` is shown beside it.

    `thread` is the service's id of the conversation or message to reply to, with `headers` that refer to
    it. `options` are specific to the service, such as an importance, and `attachments` are files.
    """

    to: Sequence[Mailbox]
    subject: str
    text: str | None = None
    html: str | None = None
    cc: Sequence[Mailbox] = ()
    bcc: Sequence[Mailbox] = ()
    reply_to: Sequence[Mailbox] = ()
    sender_name: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    thread: str = ""
    attachments: Sequence[MailAttachment] = ()
    options: JsonObject = field(default_factory=dict)
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SendMailOperation(SendOnceOperation):
    """`mail.send`: a message cannot be read back, so it is sent at most once."""

    name: str = "mail.send"

    def plan(self, commands: Sequence[SendMail], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans one message per command; an invalid message becomes a problem."""
        proposals: list[Proposal] = []
        problems: list[ItemProblem] = []
        for command in commands:
            arguments = _arguments(command)
            try:
                compose(mail_content(arguments, _ANYBODY, message_id="m", date=_ANY_TIME))
            except InvalidMail as error:
                problems.append(ItemProblem("mail", "invalid", str(error), error.field))
                continue
            label = command.subject.strip()[:LABEL_CHARACTERS] or "Message without a subject"
            part = Part(self.name, integration_id, "mail", arguments, None, None)
            ref = ObjectRef("mail", None, label)
            fields = tuple(_fields(command))
            proposals.append(Proposal(ref, self.action, fields, (part,), integration_id, command.message))
        return PlannedChanges(tuple(proposals), tuple(problems))


SEND_MAIL = SendMailOperation()


def mail_content(arguments: JsonObject, sender: Mailbox, *, message_id: str, date: datetime) -> MailContent:
    """Returns the message of a planned part, sent by `sender`. Raises InvalidMail."""
    headers = arguments.get("headers")
    return MailContent(
        sender=Mailbox(sender.address, str(arguments.get("sender_name") or "") or sender.name),
        to=_mailboxes(arguments, "to"),
        subject=str(arguments.get("subject", "")),
        message_id=message_id,
        date=date,
        text=_text(arguments, "text"),
        html=_text(arguments, "html"),
        cc=_mailboxes(arguments, "cc"),
        bcc=_mailboxes(arguments, "bcc"),
        reply_to=_mailboxes(arguments, "reply_to"),
        headers={name: str(value) for name, value in headers.items()} if isinstance(headers, Mapping) else {},
        attachments=_attachments_of(arguments),
        is_draft=is_draft(arguments),
    )


def is_draft(arguments: JsonObject) -> bool:
    """Returns whether a planned part creates a draft in the mailbox instead of sending a message."""
    options = arguments.get("options")
    return isinstance(options, Mapping) and options.get("draft") is True


def _attachments_of(arguments: JsonObject) -> list[MailAttachment]:
    """Returns the files of a planned part."""
    rows = arguments.get("attachments")
    return [
        MailAttachment(str(row["name"]), str(row["type"]), base64.b64decode(str(row["content"])))
        for row in (rows if isinstance(rows, list | tuple) else ())
        if isinstance(row, Mapping)
    ]


def outcome_of_mail(message: MailMessage, outcome: MailOutcome) -> WriteOutcome:
    """Returns the outcome of a planned part, with the server's reply as mail programs report it."""
    match outcome.result:
        case MailResult.ACCEPTED:
            return WriteOutcome(
                WriteState.APPLIED, response=WriteResponse.of_value(_report(message, outcome))
            )
        case MailResult.DEFERRED if not isinstance(outcome.error, Unauthorized):
            return WriteOutcome.of_error(WriteState.NOT_SENT, outcome.error or PlatformUnavailable())
        case MailResult.UNKNOWN:
            return WriteOutcome.of_error(WriteState.UNKNOWN, outcome.error or PlatformUnavailable())
        case _:
            return WriteOutcome.of_error(WriteState.REFUSED, outcome.error or PlatformUnavailable())


def _report(message: MailMessage, outcome: MailOutcome) -> JsonObject:
    rejected = [address for address in message.recipients if address in outcome.rejected]
    return {
        "accepted": [address for address in message.recipients if address not in outcome.rejected],
        "rejected": list(rejected),
        "messageSize": len(message.content),
        "response": f"{outcome.code} {outcome.reply}",
        "envelope": {"from": message.sender, "to": list(message.recipients)},
        "messageId": message.message_id,
    }


def _arguments(command: SendMail) -> JsonObject:
    lists = {"to": command.to, "cc": command.cc, "bcc": command.bcc, "reply_to": command.reply_to}
    arguments: dict[str, JsonValue] = {
        name: [[mailbox.address, mailbox.name] for mailbox in mailboxes] for name, mailboxes in lists.items()
    }
    arguments |= {"subject": command.subject, "text": command.text, "html": command.html}
    arguments |= {"sender_name": command.sender_name, "headers": dict(command.headers)}
    if command.attachments:
        arguments["attachments"] = [
            {
                "name": attachment.file_name,
                "type": attachment.media_type,
                "content": base64.b64encode(attachment.content).decode("ascii"),
            }
            for attachment in command.attachments
        ]
    return arguments | {"thread": command.thread, "options": command.options}


def _mailboxes(arguments: JsonObject, name: str) -> list[Mailbox]:
    rows = arguments.get(name)
    if not isinstance(rows, list | tuple):
        return []
    return [Mailbox(str(row[0]), str(row[1])) for row in rows if isinstance(row, list | tuple)]


def _text(arguments: JsonObject, name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) else None


def _fields(command: SendMail) -> list[FieldChange]:
    """Returns the fields that the approver sees."""
    rows = (
        ("to", "To", _list(command.to)),
        ("cc", "Cc", _list(command.cc)),
        ("bcc", "Bcc", _list(command.bcc)),
        ("reply_to", "Reply to", _list(command.reply_to)),
        ("subject", "Subject", command.subject),
        ("text", "Text", command.text or ""),
        ("html", "HTML", command.html or ""),
        ("files", "Files", ", ".join(map(_shown, command.attachments))),
        ("options", "Options", json.dumps(command.options, ensure_ascii=False) if command.options else ""),
    )
    return text_fields(rows)


def _shown(attachment: MailAttachment) -> str:
    size = len(attachment.content)
    return (
        f"{attachment.file_name} ({size} bytes)"
        if size < 1024
        else f"{attachment.file_name} ({size // 1024} KiB)"
    )


def _list(mailboxes: Sequence[Mailbox]) -> str:
    return ", ".join(
        f"{mailbox.name} <{mailbox.address}>" if mailbox.name else mailbox.address for mailbox in mailboxes
    )
