"""A base for connectors of services that people sign in to with the operator's app."""

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

from steward.connectors.base.connector import Capabilities
from steward.connectors.base.options import Options, SignInClient
from steward.connectors.base.service_connector import ServiceConnector, SettingField
from steward.connectors.base.settings import BadSettings, ConnectionSecrets, ConnectionSettings
from steward.model.connection import Auth
from steward.model.json import JsonObject
from steward.outbound.endpoint import Credentials, RateLimit, UserSignIn
from steward.telemetry.redact import Secret


class SignedInServiceConnector(ServiceConnector):
    """Connects a service by signing in; a subclass names the provider, its scopes and its API.

    `provider` is the sign-in provider, named as in the operator's settings.
    """

    provider: ClassVar[str]
    scopes: ClassVar[str]
    fields: ClassVar[tuple[SettingField, ...]] = ()
    key_field = ""
    rate_limit = RateLimit(max_concurrency=2)
    capabilities = Capabilities(reads=True, writes=True, sign_in=True)

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._client = self.client(options)
        self._url = self.api_url(options).rstrip("/")
        self.facts = replace(
            self.facts,
            auth=(Auth.USER_SIGN_IN,),
            sign_in_scopes=self.scopes,
            sign_in_provider=self.provider,
        )

    @abstractmethod
    def client(self, options: Options) -> SignInClient:
        """Returns the operator's app at the sign-in provider."""

    @abstractmethod
    def api_url(self, options: Options) -> str:
        """Returns the address of the API from the operator's settings."""

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Raises BadSettings: there is no form, because a person connects the account by signing in."""
        message = f"Connect {self.title} by signing in to {self.provider.capitalize()}."
        raise BadSettings({name: [message] for name in form} or {"": [message]})

    def address(self, secrets: ConnectionSecrets) -> str:
        """Returns the address of the API."""
        return self._url

    def credentials(self, secrets: ConnectionSecrets) -> Credentials:
        """Returns the credentials of the person's sign-in. Raises BadSettings without the operator's app."""
        refresh, client = secrets.sealed.get("refresh_token"), self._client
        if client.id is None or client.secret is None or refresh is None:
            message = f"The operator has taken the sign-in to {self.provider.capitalize()} out of use."
            raise BadSettings({"": [message]})
        return UserSignIn(client.id, Secret(client.secret), refresh, client.token_url)
