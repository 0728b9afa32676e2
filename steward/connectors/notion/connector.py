"""The Notion connector: pages and databases that were shared with an integration."""

from collections.abc import Mapping
from types import MappingProxyType

from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import Account, ServiceConnector, SettingField, text_of
from steward.connectors.base.settings import ConnectionSecrets
from steward.outbound.endpoint import RateLimit
from steward.outbound.response import Decoded


class NotionConnector(ServiceConnector):
    """Connects internal integrations of Notion, which allows three calls a second."""

    id = "notion"
    title = "Notion"
    key_field = "access_token"
    base_url = "https://api.notion.com/v1"
    check_path = "/users/me"
    query_path = r"/databases/[^/]+/query|/search"
    headers = MappingProxyType({"notion-version": "2022-06-28"})
    rate_limit = RateLimit(max_concurrency=2, min_interval_s=0.35)
    fields = (
        SettingField(
            "access_token",
            "Secret of the integration",
            "Give the secret, which begins with ntn_ or secret_.",
            r"(?:ntn_|secret_)[A-Za-z0-9_]{20,200}",
        ),
    )
    operation = SendCallOperation("notion.call", "page")

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns Notion's reason for a refusal."""
        return text_of(body, "message")

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the integration with its workspace."""
        bot = body.get("bot")
        workspace = text_of(bot, "workspace_name") if isinstance(bot, dict) else ""
        name = text_of(body, "name")
        return Account(f"{name} ({workspace})" if workspace else name, text_of(body, "id"))


CONNECTOR = NotionConnector
