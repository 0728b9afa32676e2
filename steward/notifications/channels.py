"""Creates the channels that are configured for a process."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from steward.clock import Clock
from steward.connections.vault import Vault
from steward.database.engine.base import Engine
from steward.model.ids import OrgId, PersonId
from steward.model.notice import ChannelName, NoticeMessage
from steward.notifications import account_mail
from steward.notifications.account_mail import AccountMail
from steward.notifications.broken_routes import record_delivery
from steward.notifications.cards import card_maker
from steward.notifications.channel import Channel
from steward.notifications.chat import ChatChannel
from steward.notifications.context import NotificationContext
from steward.notifications.email_channel import EmailChannel
from steward.notifications.webhook import WebhookChannel
from steward.outbound.mail_message import mailboxes_of
from steward.outbound.mail_server import operators_server
from steward.outbound.transport import HttpTransport
from steward.security.unsubscribe import unsubscribe_token


def channels_of(
    engine: Engine,
    vault: Vault,
    http: HttpTransport,
    *,
    mail_server: tuple[str, str | None, str | None] | None,
    sender: str | None,
    web_origin: str,
    signing_key: Callable[[], bytes],
) -> dict[ChannelName, Channel]:
    """Returns the channels of routes, and e-mail if a mail server is set.

    `mail_server` is its address, user and password; `signing_key` signs the unsubscribe links of digests.
    """
    routes = route_channels(engine, http.clock, vault, web_origin=web_origin)
    if mail_server is None or sender is None:
        return routes

    async def open_account_mail(message: NoticeMessage) -> AccountMail:
        act = partial(account_mail.opened, vault=vault, message=message)
        return await engine.read(http.clock.now(), act, org=message.org)

    def unsubscribe_url(org: OrgId, person: PersonId) -> str:
        return f"{web_origin}/unsubscribe/{unsubscribe_token(signing_key(), org, person)}"

    [mailbox] = mailboxes_of(sender)
    server = operators_server(*mail_server)
    mail = EmailChannel(http.mail, server, mailbox, web_origin, open_account_mail, unsubscribe_url)
    return {ChannelName.EMAIL: mail, **routes}


def with_route_recording(context: NotificationContext) -> NotificationContext:
    """Returns the context with `record_delivery`, which marks routes as broken."""
    return replace(context, record_route=record_delivery)


def route_channels(
    engine: Engine, clock: Clock, vault: Vault, *, web_origin: str
) -> dict[ChannelName, Channel]:
    """Returns the channels of routes: Teams, Slack and signed webhooks."""
    chat = ChatChannel(engine, clock, vault, card_maker(web_origin))
    return {
        ChannelName.TEAMS: chat,
        ChannelName.SLACK: chat,
        ChannelName.WEBHOOK: WebhookChannel(engine, clock, vault, web_origin),
    }
