"""A base for connectors of Google's services that a person signs in to with the operator's app."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from steward.connectors.base.connector import Capabilities
from steward.connectors.base.options import Options
from steward.connectors.base.service_connector import ServiceConnector, SettingField, text_of
from steward.connectors.base.settings import BadSettings, ConnectionSecrets, ConnectionSettings
from steward.model.connection import Auth
from steward.model.json import JsonObject
from steward.outbound.endpoint import Credentials, RateLimit, UserSignIn
from steward.outbound.response import Decoded
from steward.telemetry.redact import Secret


class GoogleServiceConnector(ServiceConnector):
    """Connects a service of Google by signing in; a subclass adds its scopes and the address of its API."""

    scopes: ClassVar[str]
    fields: ClassVar[tuple[SettingField, ...]] = ()
    key_field = ""
    rate_limit = RateLimit(max_concurrency=2)
    capabilities = Capabilities(reads=True, writes=True, sign_in=True)

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.facts = replace(self.facts, auth=(Auth.USER_SIGN_IN,), sign_in_scopes=self.scopes)
        self._url = self.api_url(options).rstrip("/")
        self._token_url = options.token_url
        self._client_id = options.google_client_id
        self._client_secret = options.google_client_secret

    @abstractmethod
    def api_url(self, options: Options) -> str:
        """Returns the address of the API as the operator's settings have it."""

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Raises BadSettings: there is no form, the account is connected by signing in."""
        words = f"Connect {self.title} by signing in to Google."
        raise BadSettings({name: [words] for name in form} or {"": [words]})

    def address(self, secrets: ConnectionSecrets) -> str:
        """Returns the address of the API."""
        return self._url

    def credentials(self, secrets: ConnectionSecrets) -> Credentials:
        """Returns the person's sign-in. Raises BadSettings without the operator's app."""
        refresh = secrets.sealed.get("refresh_token")
        if self._client_id is None or self._client_secret is None or refresh is None:
            raise BadSettings({"": ["The operator has taken the sign-in to Google out of use."]})
        return UserSignIn(self._client_id, Secret(self._client_secret), refresh, self._token_url)

    def reason(self, answer: Mapping[str, Decoded]) -> str:
        """Returns Google's own words."""
        error = answer.get("error")
        return text_of(error, "message") if isinstance(error, dict) else ""
