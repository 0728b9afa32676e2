"""Sends a person a test mail, and returns since when the organization's mail has been failing."""

from datetime import datetime, timedelta
from typing import Final

from steward.accounts import organizations
from steward.database.engine.base import Tx
from steward.database.notifications import messages, own_mail
from steward.database.notifications.messages import Receiver
from steward.database.notifications.own_mail import MailTest
from steward.model.account import Actor
from steward.model.ids import OrgId
from steward.model.notice import ChannelName, MessageKind
from steward.model.refusals import RateLimited
from steward.notifications.status import MAIL_SILENCE

_MAIL_TESTS_PER_HOUR: Final = 10
_HOUR: Final = timedelta(hours=1)


async def send_test(tx: Tx, actor: Actor) -> None:
    """Queues a test mail to the caller, which is delivered like any other mail.

    Raises RateLimited after ten in an hour.
    """
    receiver = _receiver(actor)
    if await own_mail.count_tests(tx, actor.org, receiver, tx.now - _HOUR) >= _MAIL_TESTS_PER_HOUR:
        message = f"{_MAIL_TESTS_PER_HOUR} test mails were sent to you within the last hour. Try again later."
        raise RateLimited(message, retry_after=int(_HOUR.total_seconds()))
    organization = await organizations.get(tx, actor.org)
    envelope = {"organization": organization.name}
    await messages.add_closed(tx, actor.org, receiver, count=0, envelope=envelope)


async def last_test(tx: Tx, actor: Actor) -> MailTest | None:
    """Returns the caller's latest test mail, if any."""
    return await own_mail.last_test(tx, actor.org, _receiver(actor))


async def down_since(tx: Tx, org: OrgId) -> datetime | None:
    """Returns since when the organization's mail has waited without any being accepted, else None."""
    mail = await own_mail.waiting(tx, org)
    if mail.oldest_due_at is None:
        return None
    since = max(mail.oldest_due_at, mail.last_sent_at or mail.oldest_due_at)
    return since if tx.now - since >= MAIL_SILENCE else None


def _receiver(actor: Actor) -> Receiver:
    return Receiver(ChannelName.EMAIL, MessageKind.TEST, person=actor.person)
