"""The channel `email`: one mail to one member, through the operator's own mail server."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from steward.model.ids import OrgId, PersonId
from steward.model.notice import MessageKind, NoticeMessage
from steward.notifications.account_mail import AccountMail
from steward.notifications.channel import DeliveryOutcome, DeliveryResult
from steward.notifications.mail import mail_words
from steward.outbound.errors import LocalQueueFull
from steward.outbound.mail import MailTransport
from steward.outbound.mail_message import InvalidMail, Mailbox, MailContent, MailMessage, compose
from steward.outbound.mail_server import MailOutcome, MailResult, MailServer

_MAX_WAIT_S: Final = 60.0
_AUTOMATIC: Final = {"Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All"}
# Responses that concern the server as a whole instead of one message.
_SERVER_CODES: Final = frozenset((421, 454, 530, 534, 535, 538))


@dataclass(frozen=True, slots=True)
class EmailChannel:
    """Sends mails through `server` in the name of `sender`.

    `open_account_mail` decrypts the content of an account mail; `unsubscribe_url` returns the address that
    ends a person's digests.
    """

    transport: MailTransport
    server: MailServer
    sender: Mailbox
    web_origin: str
    open_account_mail: Callable[[NoticeMessage], Awaitable[AccountMail]] | None = None
    unsubscribe_url: Callable[[OrgId, PersonId], str] | None = None
    max_wait_s: float = field(default=_MAX_WAIT_S)

    async def deliver(self, message: NoticeMessage) -> DeliveryOutcome:
        """Sends one mail. A retry sends the same bytes, because the stored message is fixed."""
        try:
            mail = await self.composed(message)
        except InvalidMail as error:
            return DeliveryOutcome(DeliveryResult.REFUSED, error=str(error))
        outcome = await self.transport.send(self.server, mail, max_wait_s=self.max_wait_s)
        return _delivery_outcome(outcome)

    async def composed(self, message: NoticeMessage) -> MailMessage:
        """Builds the mail to send. Raises InvalidMail."""
        if message.kind is MessageKind.TRANSACTIONAL and self.open_account_mail is not None:
            mail = await self.open_account_mail(message)
            words = mail.words()
            to = Mailbox(mail.to)
        else:
            words = mail_words(message, web_origin=self.web_origin)
            to = Mailbox(message.address or "")
        content = MailContent(
            sender=self.sender,
            to=[to],
            subject=words.subject,
            message_id=message.id,
            date=message.closed_at,
            text=words.text,
            html=words.html,
            headers={**_AUTOMATIC, **self._further_headers(message)},
        )
        return compose(content)

    def _further_headers(self, message: NoticeMessage) -> dict[str, str]:
        headers: dict[str, str] = {}
        automations = {stored.notice.automation for stored in message.notices}
        if len(automations) == 1 and (automation := automations.pop()) is not None:
            domain = self.sender.address.rpartition("@")[2]
            headers["References"] = f"<automation-{automation}@{domain}>"
        is_digest = message.kind is MessageKind.DIGEST and message.person is not None
        if is_digest and self.unsubscribe_url is not None and message.person is not None:
            headers["List-Unsubscribe"] = f"<{self.unsubscribe_url(message.org, message.person)}>"
            headers["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        return headers


def _delivery_outcome(outcome: MailOutcome) -> DeliveryOutcome:
    """Returns the outcome of a delivery from the server's response.

    A failure before the server responded to the message itself means that the channel is down.
    """
    words = None if outcome.error is None else outcome.error.message
    if outcome.result is MailResult.ACCEPTED:
        return DeliveryOutcome(DeliveryResult.ACCEPTED, outcome.code)
    if outcome.result is MailResult.REFUSED:
        return DeliveryOutcome(DeliveryResult.REFUSED, outcome.code, words)
    is_down = (
        outcome.result is MailResult.DEFERRED
        and not isinstance(outcome.error, LocalQueueFull)
        and (outcome.code is None or outcome.code in _SERVER_CODES)
    )
    return DeliveryOutcome(DeliveryResult.TRY_AGAIN, outcome.code, words, is_down=is_down)
