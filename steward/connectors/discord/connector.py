"""The Discord connector: calls of a bot's API, or messages posted to a webhook."""

import re
from collections.abc import Mapping

from steward.connectors.base.connector import Health
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import Account, ServiceConnector, SettingField, text_of
from steward.connectors.base.settings import BadSettings, ConnectionSecrets, ConnectionSettings
from steward.model.json import JsonObject
from steward.outbound.client import ManagementClient
from steward.outbound.endpoint import Credentials, HeaderSecret
from steward.outbound.response import Decoded
from steward.telemetry.redact import Secret

_BOT, _WEBHOOK = "bot_token", "webhook_url"
_ADDRESS = re.compile(
    r"https://(?:(?:ptb|canary)\.)?discord(?:app)?\.com(/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{5,25}/[\w-]{20,200})/?"
)


class DiscordConnector(ServiceConnector):
    """Connects Discord by either a bot's token or the address of a channel's webhook."""

    id = "discord"
    title = "Discord"
    key_field = _BOT
    alternatives = (_BOT, _WEBHOOK)
    check_path = "/users/@me"
    fields = (
        SettingField(_BOT, "Token of the bot", "Give the bot's token.", r"[\w.-]{30,200}", needed=False),
        SettingField(
            _WEBHOOK,
            "Address of the webhook",
            "Give the address that Discord shows for the channel's webhook.",
            needed=False,
        ),
    )
    operation = SendCallOperation("discord.call")

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates the form. Raises BadSettings."""
        webhook = self.texts(form).get(_WEBHOOK)
        if webhook is not None and not _ADDRESS.fullmatch(webhook):
            raise BadSettings({_WEBHOOK: ["This is not the address of a Discord webhook. Copy it whole."]})
        return super().settings(form)

    def address(self, secrets: ConnectionSecrets) -> str:
        """Returns the webhook, or the address of the API."""
        webhook = secrets.sealed.get(_WEBHOOK)
        match = _ADDRESS.fullmatch(webhook.reveal()) if webhook is not None else None
        return f"https://discord.com{match[1]}" if match is not None else "https://discord.com/api/v10"

    def credentials(self, secrets: ConnectionSecrets) -> Credentials:
        """Returns the bot's header; a webhook is its own secret."""
        bot = secrets.sealed.get(_BOT)
        return HeaderSecret("authorization", Secret(f"Bot {bot.reveal()}")) if bot is not None else None

    def refusal(self, path: str, secrets: ConnectionSecrets) -> str | None:
        """Returns why a webhook cannot make a bot's call, or a bot a webhook's."""
        if (path == "") is (_WEBHOOK in secrets.sealed):
            return None
        has, lacks = ("a bot's token", "a webhook") if path == "" else ("a webhook", "a bot's token")
        return f"This Discord connection is made with {has}, and this step needs one made with {lacks}."

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns Discord's reason for a refusal."""
        return text_of(body, "message")

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Asks Discord which bot or webhook the credentials belong to."""
        return await self.check_at(http, secrets, "" if _WEBHOOK in secrets.sealed else self.check_path)

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the bot, or the webhook with its channel."""
        name = text_of(body, "username") or text_of(body, "name")
        return Account(name, text_of(body, "id"))


CONNECTOR = DiscordConnector
