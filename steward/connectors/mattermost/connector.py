"""The Mattermost connector: calls of the API of the merchant's own server."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import Account, ServiceConnector, SettingField, text_of
from steward.connectors.base.settings import BadSettings, ConnectionSecrets, ConnectionSettings
from steward.model.json import JsonObject
from steward.outbound.address import origin_of
from steward.outbound.errors import CallRefused
from steward.outbound.response import Decoded

_ADDRESS = "Give the https address of the server, such as https://chat.example.com."


class MattermostConnector(ServiceConnector):
    """Connects people and bots of Mattermost by their access token."""

    id = "mattermost"
    title = "Mattermost"
    key_field = "access_token"
    check_path = "/api/v4/users/me"
    fields = (
        SettingField("base_url", "Address of the server", _ADDRESS, r"https?://[^\s?#]{1,300}", secret=False),
        SettingField("access_token", "Access token", "Give the token.", r"[A-Za-z0-9_-]{10,200}"),
    )
    operation = SendCallOperation("mattermost.call")

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates the form. Raises BadSettings."""
        address = self.texts(form)["base_url"].rstrip("/").removesuffix("/api/v4")
        self._check_address(address)
        return super().settings({**form, "base_url": address})

    def address(self, secrets: ConnectionSecrets) -> str:
        """Returns the server's address. Raises BadSettings when it may no longer be called."""
        self._check_address(secrets.plain["base_url"])
        return secrets.plain["base_url"]

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns the server's reason for a refusal."""
        return text_of(body, "message")

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the person whose token it is."""
        host = urlsplit(secrets.plain["base_url"]).netloc
        return Account(f"{text_of(body, 'username')} on {host}", f"{host} {text_of(body, 'id')}")

    def _check_address(self, address: str) -> None:
        parts = urlsplit(address)
        try:
            origin_of(address, self.private_hosts)
        except CallRefused as refusal:
            raise BadSettings({"base_url": [f"{_ADDRESS} {refusal.sentence}"]}) from None
        if parts.username or parts.password or any(part in (".", "..") for part in parts.path.split("/")):
            raise BadSettings({"base_url": [_ADDRESS]})


CONNECTOR = MattermostConnector
