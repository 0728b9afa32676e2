"""Builds replies to Outlook messages, and sends drafts."""

from collections.abc import Iterable

from steward.connectors.base.mail import SendMail
from steward.connectors.base.service_calls import SendCall
from steward.model.json import JsonObject
from steward.outbound.mail_message import Mailbox, one_line
from steward.steps.base import AccountAccess
from steward.steps.n8n.mail.mail_nodes import mailboxes
from steward.steps.n8n.mail.outlook_fields import (
    bodies,
    mailboxes_in,
    message_body,
    message_options,
    message_path,
)
from steward.steps.n8n.mail.outlook_files import read_json
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServicePort, parsed_response
from steward.steps.workflow.step_types import StepCall


def is_to_sender(fields: ServiceFields) -> bool:
    """Returns whether a reply goes only to the sender."""
    if fields.version < 2:
        return fields.text("replyType", "reply") == "reply"
    return fields.flag("replyToSenderOnly")


def reply_draft(fields: ServiceFields) -> JsonObject:
    """Returns the body of a reply draft; a reply to all carries only a comment."""
    comment = fields.text("comment" if fields.version < 2 else "message")
    if not is_to_sender(fields):
        return {"comment": comment}
    message = message_body(fields, "additionalFields")
    if fields.version < 2:
        return {"message": message} if "body" in message else {"comment": comment, "message": message}
    text, markup = bodies(fields, "additionalFields", "message")
    body = {"contentType": "text" if markup is None else "html", "content": markup if text is None else text}
    return {"message": {**message, "body": body}}


def _without(own_address: str, mailboxes: Iterable[Mailbox]) -> list[Mailbox]:
    return [mailbox for mailbox in mailboxes if mailbox.address.lower() != own_address]


def _reply_subject(original: JsonObject) -> str:
    subject = one_line(str(original.get("subject") or ""))
    return subject if subject.lower().startswith("re:") else f"RE: {subject}"


async def reply_mail(call: StepCall, fields: ServiceFields, account: AccountAccess) -> SendMail:
    """Reads the original message and builds the reply to it. Raises ItemFailed."""
    path = message_path(fields)
    original = await read_json(call, path, {"$select": "subject,from,replyTo,toRecipients,ccRecipients"})
    own_address = str(account.connection.account_label or "").lower()
    senders = mailboxes_in(original.get("replyTo")) or mailboxes_in(original.get("from"))
    subject = _reply_subject(original)
    comment = fields.text("comment" if fields.version < 2 else "message")
    thread = fields.text("messageId")
    if not is_to_sender(fields):
        copies = _without(own_address, mailboxes_in(original.get("ccRecipients")))
        options: JsonObject = {"quotes": True}
        to = [*senders, *_without(own_address, mailboxes_in(original.get("toRecipients")))]
        return SendMail(to, subject, text=comment, cc=copies, thread=thread, options=options)
    text, markup = bodies(fields, "additionalFields", "comment" if fields.version < 2 else "message")
    if fields.version < 2 and fields.text("additionalFields.bodyContent"):
        text, markup = bodies(fields, "additionalFields", "additionalFields.bodyContent")
    return SendMail(
        to=mailboxes(fields, "additionalFields.toRecipients", "To") or senders,
        subject=one_line(fields.text("additionalFields.subject")) or subject,
        text=text,
        html=markup,
        cc=mailboxes(fields, "additionalFields.ccRecipients", "CC Recipients"),
        bcc=mailboxes(fields, "additionalFields.bccRecipients", "BCC Recipients"),
        reply_to=mailboxes(fields, "additionalFields.replyTo", "Reply To"),
        thread=thread,
        options=message_options(fields, "additionalFields"),
    )


async def sent_draft(port: ServicePort, path: str) -> SendCall:
    """Reads a draft and returns the call that sends it, described by its content. Raises ItemFailed."""
    response = await port.read(path, {"$select": "subject,bodyPreview,toRecipients"})
    draft = parsed_response(response.body.decode("utf-8", "replace"))
    whom = ", ".join(mailbox.address for mailbox in mailboxes_in(draft.get("toRecipients")))
    text = f"{draft.get('subject') or ''}\n{draft.get('bodyPreview') or ''}"
    return SendCall("POST", f"{path}/send", recipient=whom, text=text)
