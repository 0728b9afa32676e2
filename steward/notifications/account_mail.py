"""Mails about a person's account: invitations, password links and notices of changes.

Their content is stored encrypted until it is delivered, because it holds single-use links.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.connections import vault as vaults
from steward.connections.rotation import mail_field
from steward.connections.vault import Vault
from steward.database.engine.base import Tx
from steward.database.notifications import messages
from steward.database.notifications.messages import Receiver
from steward.model.ids import MessageId, OrgId, PersonId, new_id
from steward.model.notice import ChannelName, MessageKind, NoticeMessage
from steward.notifications.mail import MAX_SUBJECT, MailWords
from steward.outbound.mail_message import one_line


@dataclass(frozen=True, slots=True)
class AccountMail:
    """The address and content of a mail; `link` is the page that it leads to."""

    to: str
    subject: str
    paragraphs: Sequence[str]
    link: str | None = None

    def to_bytes(self) -> bytes:
        """Returns the mail in the form that is encrypted."""
        value = {
            "to": self.to,
            "subject": self.subject,
            "paragraphs": list(self.paragraphs),
            "link": self.link,
        }
        return json.dumps(value, ensure_ascii=False).encode("utf-8")

    def words(self) -> MailWords:
        """Returns the subject and bodies."""
        paragraphs = [*self.paragraphs, *([self.link] if self.link else [])]
        html_paragraphs = [f"<p>{html.escape(text)}</p>" for text in self.paragraphs]
        if self.link:
            link = html.escape(self.link)
            html_paragraphs.append(f'<p><a href="{link}">{link}</a></p>')
        body = f"<!doctype html><html><body>{''.join(html_paragraphs)}</body></html>\n"
        return MailWords(one_line(self.subject)[:MAX_SUBJECT], "\n\n".join(paragraphs) + "\n", body)


async def send(
    tx: Tx,
    vault: Vault,
    org: OrgId,
    *,
    person: PersonId,
    mail: AccountMail,
    expires_at: datetime | None = None,
) -> MessageId:
    """Queues a mail about a person's account; preferences, windows and quiet hours do not apply.

    Delivery is tried until `expires_at`, by default for a day; the content is then erased.
    """
    message = MessageId(new_id(tx.now))
    key_no, sealed = await vaults.seal_bytes(tx, vault, org, field=mail_field(message), value=mail.to_bytes())
    receiver = Receiver(ChannelName.EMAIL, MessageKind.TRANSACTIONAL, person=person)
    return await messages.add_closed(
        tx, org, receiver, id_=message, count=1, envelope={}, sealed=(sealed, key_no), expires_at=expires_at
    )


async def opened(tx: Tx, vault: Vault, message: NoticeMessage) -> AccountMail:
    """Decrypts the mail of a message. Raises CannotOpen."""
    sealed, key_no = message.sealed or (b"", 0)
    text = await vaults.open_text(
        tx, vault, message.org, field=mail_field(message.id), key_no=key_no, sealed=sealed
    )
    value = json.loads(text)
    return AccountMail(value["to"], value["subject"], tuple(value["paragraphs"]), value["link"])
