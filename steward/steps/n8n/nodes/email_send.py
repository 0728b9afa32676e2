"""The node emailSend: sends a message through the bound mail server."""

from collections.abc import Iterable, Mapping

from steward.connectors.base.mail import SendMail
from steward.outbound.mail_message import InvalidMail, mailboxes_of
from steward.steps.n8n.mail.attachments import names_in
from steward.steps.n8n.mail.mail_nodes import (
    WAITS,
    MailNode,
    mailboxes,
    needed_problems,
    option_problems,
    subject_of,
)
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.step_types import NodeDefinition, StepProblem, is_expression

_OPTIONS = frozenset(
    ("allowUnauthorizedCerts", "appendAttribution", "attachments", "bccEmail", "ccEmail", "replyTo")
)
_SENDER = (
    "It writes as the sender of the account bound to it, not as the sender in the file."
    " Choose the account whose address your customers know."
)
_EMPTY = (
    "Nothing is written where n8n looks for its message, so an empty one is sent, as by n8n."
    " Fill in the text or the HTML in n8n and import it again."
)
_CERTIFICATES = (
    "It would accept any certificate. Here the mail server's certificate is always checked:"
    " a server with a wrong one gets no message."
)


class EmailSendNode(MailNode):
    """Sends text, HTML or both; the sender is the account, under the name given in the file."""

    types = ("emailSend",)
    versions = (1, 2, 2.1)
    connector = "smtp"
    parameters = frozenset(
        [
            "attachments", "bccEmail", "ccEmail", "emailFormat", "fromEmail", "html", "message", "operation",
            "options", "resource", "subject", "text", "toEmail",
        ]
    )  # fmt: skip
    knows_all_parameters = True

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported operations, options and files, and differences from n8n."""
        if node.get("operation", "send") != "send" or node.get("resource", "email") != "email":
            yield StepProblem("error", "parameter", WAITS)
            return
        yield from option_problems(node, "options", _OPTIONS, has_attribution=node.version >= 2)
        yield from needed_problems(node, ("toEmail", "whom it writes to"))
        if not any(node.get(name) for name in _body_names(node)):
            yield StepProblem("warning", "parameter", _EMPTY)
        yield StepProblem("note", "parameter", _SENDER)
        options = node.get("options")
        if isinstance(options, Mapping) and options.get("allowUnauthorizedCerts"):
            yield StepProblem("warning", "parameter", _CERTIFICATES)

    def command(self, fields: ServiceFields) -> SendMail:
        """Builds the message. Raises ItemFailed, InvalidMail."""
        copies = "" if fields.version < 2 else "options."
        text, markup = _bodies(fields)
        return SendMail(
            to=mailboxes(fields, "toEmail", "To Email"),
            subject=subject_of(fields),
            text=text,
            html=markup,
            cc=mailboxes(fields, f"{copies}ccEmail", "CC Email"),
            bcc=mailboxes(fields, f"{copies}bccEmail", "BCC Email"),
            reply_to=mailboxes(fields, "options.replyTo", "Reply To"),
            sender_name=_sender_name(fields.text("fromEmail")),
        )

    def attachment_names(self, fields: ServiceFields) -> list[str]:
        """Returns the names in the step's attachment list."""
        return names_in(fields.text("attachments" if fields.version < 2 else "options.attachments"))


def _body_names(node: NodeDefinition) -> tuple[str, ...]:
    """Returns the parameters that hold the message in the chosen format."""
    if node.version < 2 or is_expression(node.get("emailFormat")):
        return ("text", "html")
    chosen = node.get("emailFormat", "text" if node.version < 2.1 else "html")
    return ("text", "html") if chosen == "both" else (str(chosen),)


def _bodies(fields: ServiceFields) -> tuple[str | None, str | None]:
    """Returns the text and the HTML that the chosen format sends; None for the other."""
    text, markup = fields.text("text"), fields.text("html")
    if fields.version < 2:
        return (text if text or not markup else None), (markup or None)
    chosen = fields.text("emailFormat", "text" if fields.version < 2.1 else "html")
    return (text if chosen in ("text", "both") else None), (markup if chosen in ("html", "both") else None)


def _sender_name(sender: str) -> str:
    """Returns the sender's display name, or an empty text if there is none."""
    try:
        return next((mailbox.name for mailbox in mailboxes_of(sender)), "")
    except InvalidMail:
        return ""
