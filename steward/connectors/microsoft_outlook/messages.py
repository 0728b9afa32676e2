"""Messages in the form of Microsoft Graph."""

import base64
from collections.abc import Sequence
from typing import Any

from steward.model.json import JsonObject
from steward.outbound.mail_message import MailAttachment, Mailbox, MailContent


def message_of(content: MailContent, options: JsonObject) -> dict[str, Any]:
    """Returns a message in Graph's form: its properties, and `options` beside them."""
    markup = content.html is not None
    body = {"contentType": "html" if markup else "text", "content": content.html or content.text or ""}
    message: dict[str, Any] = {
        **options,
        "subject": content.subject,
        "body": body,
        "toRecipients": recipients(content.to),
        "ccRecipients": recipients(content.cc),
        "bccRecipients": recipients(content.bcc),
        "replyTo": recipients(content.reply_to),
        "attachments": [file_attachment(attachment) for attachment in content.attachments],
    }
    always = ("subject", "body", "toRecipients", *options)
    return {name: value for name, value in message.items() if value or name in always}


def recipients(mailboxes: Sequence[Mailbox]) -> list[dict[str, Any]]:
    """Returns addresses in Graph's form."""
    return [
        {"emailAddress": {"address": mailbox.address, **({"name": mailbox.name} if mailbox.name else {})}}
        for mailbox in mailboxes
    ]


def file_attachment(attachment: MailAttachment) -> dict[str, Any]:
    """Returns an attached file in Graph's form."""
    return {
        "@odata.type": "#microsoft.graph.fileAttachment",
        "name": attachment.file_name,
        "contentType": attachment.media_type,
        "contentBytes": base64.b64encode(attachment.content).decode("ascii"),
    }
