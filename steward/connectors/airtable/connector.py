"""The Airtable connector: records of the bases that a personal access token can read."""

from collections.abc import Mapping

from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import Account, ServiceConnector, SettingField, text_of
from steward.connectors.base.settings import ConnectionSecrets
from steward.outbound.endpoint import RateLimit
from steward.outbound.response import Decoded


class AirtableConnector(ServiceConnector):
    """Connects people's access tokens of Airtable, which allows five calls a second for each base."""

    id = "airtable"
    title = "Airtable"
    key_field = "access_token"
    base_url = "https://api.airtable.com"
    check_path = "/v0/meta/whoami"
    rate_limit = RateLimit(max_concurrency=2, min_interval_s=0.25)
    fields = (
        SettingField(
            "access_token",
            "Personal access token",
            "Give the token, which begins with pat.",
            r"(?:pat|key)[\w.-]{10,200}",
        ),
    )
    operation = SendCallOperation("airtable.call", "record")

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns Airtable's reason for a refusal, or its code."""
        error = body.get("error")
        return text_of(error, "message") if isinstance(error, dict) else text_of(body, "error")

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the person to whom the token belongs."""
        return Account(text_of(body, "email") or text_of(body, "id"), text_of(body, "id"))


CONNECTOR = AirtableConnector
