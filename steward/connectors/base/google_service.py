"""A base for connectors of Google services that people sign in to with the operator's app."""

from collections.abc import Mapping

from steward.connectors.base.options import Options, SignInClient
from steward.connectors.base.service_connector import text_of
from steward.connectors.base.signed_in_service import SignedInServiceConnector
from steward.outbound.response import Decoded


class GoogleServiceConnector(SignedInServiceConnector):
    """Connects a Google service by signing in; a subclass adds its scopes and the address of its API."""

    provider = "google"

    def client(self, options: Options) -> SignInClient:
        """Returns the operator's app at Google."""
        return options.google

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns Google's reason for a refusal."""
        error = body.get("error")
        return text_of(error, "message") if isinstance(error, dict) else ""
