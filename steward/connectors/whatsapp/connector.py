"""The WhatsApp connector: messages of the Cloud API from one phone number."""

from collections.abc import Mapping

from steward.connectors.base.connector import Health
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import Account, ServiceConnector, SettingField, text_of
from steward.connectors.base.settings import ConnectionSecrets
from steward.outbound.client import ManagementClient
from steward.outbound.response import Decoded

_NUMBER = "phone_number_id"


class WhatsappConnector(ServiceConnector):
    """Connects phone numbers of WhatsApp's Cloud API."""

    id = "whatsapp"
    title = "WhatsApp"
    key_field = "access_token"
    base_url = "https://graph.facebook.com/v23.0"
    fields = (
        SettingField(
            "access_token", "Access token", "Give the token of the app's system user.", r"[\w|-]{20,1000}"
        ),
        SettingField(
            _NUMBER,
            "Id of the phone number",
            "Give the id that the app shows next to the phone number, a long number.",
            r"[0-9]{5,25}",
            secret=False,
        ),
    )
    operation = SendCallOperation("whatsapp.call")

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns WhatsApp's reason for a refusal."""
        error = body.get("error")
        return text_of(error, "message") if isinstance(error, dict) else ""

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Reads the phone number."""
        return await self.check_at(http, secrets, f"/{secrets.plain[_NUMBER]}")

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the phone number with its name."""
        name, number = text_of(body, "verified_name"), text_of(body, "display_phone_number")
        return Account(f"{name} ({number})" if number else name, secrets.plain[_NUMBER])


CONNECTOR = WhatsappConnector
