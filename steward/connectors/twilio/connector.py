"""The Twilio connector: text messages and phone calls of an account."""

from collections.abc import Mapping

from steward.connectors.base.connector import Health
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import Account, ServiceConnector, SettingField, text_of
from steward.connectors.base.settings import ConnectionSecrets
from steward.outbound.client import ManagementClient
from steward.outbound.endpoint import Basic, Credentials
from steward.outbound.response import Decoded
from steward.telemetry.redact import Secret


class TwilioConnector(ServiceConnector):
    """Connects accounts of Twilio by their SID and token."""

    id = "twilio"
    title = "Twilio"
    key_field = "auth_token"
    base_url = "https://api.twilio.com"
    fields = (
        SettingField(
            "account_sid",
            "Account SID",
            "Give the account SID, which begins with AC.",
            r"AC[0-9a-fA-F]{32}",
            secret=False,
        ),
        SettingField("auth_token", "Auth token", "Give the auth token.", r"[0-9a-zA-Z]{16,100}"),
    )
    operation = SendCallOperation("twilio.call")

    def credentials(self, secrets: ConnectionSecrets) -> Credentials:
        """Returns the SID and the token."""
        return Basic(Secret(secrets.plain["account_sid"]), secrets.sealed["auth_token"])

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns Twilio's reason for a refusal."""
        return text_of(body, "message")

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Reads the account."""
        path = f"/2010-04-01/Accounts/{secrets.plain['account_sid']}.json"
        return await self.check_at(http, secrets, path)

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the account."""
        return Account(text_of(body, "friendly_name"), secrets.plain["account_sid"])


CONNECTOR = TwilioConnector
