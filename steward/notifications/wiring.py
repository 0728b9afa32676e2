"""Makes the channels of a process: what is not set up has none."""

from functools import partial

from steward.clock import Clock
from steward.connections.vault import Vault
from steward.database.engine.base import Engine
from steward.model.notice import ChannelName, NoticeMessage
from steward.notifications import account_mail
from steward.notifications.account_mail import AccountMail
from steward.notifications.cards import card_maker
from steward.notifications.channel import Channel
from steward.notifications.chat import ChatChannel
from steward.notifications.email_channel import EmailChannel
from steward.notifications.webhook import WebhookChannel
from steward.outbound.mail import MailTransport
from steward.outbound.mail_message import mailboxes_of
from steward.outbound.mail_server import MailServer


def mail_channel(
    engine: Engine,
    clock: Clock,
    vault: Vault,
    transport: MailTransport,
    *,
    server: MailServer | None,
    sender: str | None,
    web_origin: str,
) -> dict[ChannelName, Channel]:
    """Returns the channel of the operator's mail server; none without server and sender."""
    if server is None or sender is None:
        return {}

    async def open_account_mail(message: NoticeMessage) -> AccountMail:
        act = partial(account_mail.opened, vault=vault, message=message)
        return await engine.read(clock.now(), act, org=message.org)

    [mailbox] = mailboxes_of(sender)
    return {ChannelName.EMAIL: EmailChannel(transport, server, mailbox, web_origin, open_account_mail)}


def route_channels(
    engine: Engine, clock: Clock, vault: Vault, *, web_origin: str
) -> dict[ChannelName, Channel]:
    """Returns Teams, Slack and signed webhooks."""
    chat = ChatChannel(engine, clock, vault, card_maker(web_origin))
    return {
        ChannelName.TEAMS: chat,
        ChannelName.SLACK: chat,
        ChannelName.WEBHOOK: WebhookChannel(engine, clock, vault, web_origin),
    }
