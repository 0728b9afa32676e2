"""Sign-in of a person's account by authorization code with PKCE."""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from urllib.parse import urlencode

from steward.clock import Clock
from steward.connections import connect as connecting
from steward.connections import vault as vaults
from steward.connections.connect import CheckedSettings
from steward.connections.vault import Vault
from steward.connectors.base.settings import ConnectionSecrets, ConnectionSettings
from steward.database.accounts import connections, sign_ins
from steward.database.engine.base import Engine, Tx
from steward.model.account import Actor
from steward.model.connection import Auth, ConnectionState
from steward.model.ids import IntegrationId
from steward.model.refusals import NotConfigured, ValidationFailed, WrongState
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import CallError, Unauthorized, UnusableResponse
from steward.telemetry.redact import Secret

_LASTS = timedelta(minutes=10)
_SCOPES = "openid email"
_NEW = IntegrationId(0)


class SignInFailed(Exception):
    """Why a sign-in did not end in a connection: denied, state or exchange."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class SignInRules:
    """The app people sign in to, and where; `redirect_uri` is the service's own way back.

    `parameters` are further ones of the authorization request, as who signs people in wants them.
    """

    client_id: str
    client_secret: Secret
    authorize_url: str
    token_url: str
    redirect_uri: str
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A finished sign-in, checked, ready to be kept: as a new connection, or for one there is."""

    name: str
    integration: IntegrationId | None
    tried: CheckedSettings


async def start_sign_in(
    tx: Tx,
    actor: Actor,
    *,
    session_hash: str,
    kind: str = "spreadsheet",
    name: str,
    integration: IntegrationId | None,
    providers: Mapping[str, SignInRules],
    vault: Vault,
) -> str:
    """The address a person signs in at; its state is theirs, valid ten minutes, once.

    `providers` has the operator's apps by who signs people in. Raises NotConfigured, and for `integration`
    ValidationFailed, WrongState.
    """
    if integration is not None:
        await _reconnectable(tx, actor, integration, kind)
    facts = vault.connectors[kind].facts
    rules = providers.get(facts.sign_in_provider)
    if rules is None:
        raise NotConfigured(
            f"The operator has not set up the sign-in to {facts.sign_in_provider.capitalize()}."
        )
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    key_no, sealed = await vaults.seal_text(tx, vault, actor.org, field="sign_in", text=verifier)
    pending = sign_ins.SignIn(session_hash, actor.org, integration, kind, name, key_no, sealed)
    await sign_ins.insert(tx, actor.org, _hash(state), sign_in=pending, expires_at=tx.now + _LASTS)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest())
    query = {
        "response_type": "code",
        "client_id": rules.client_id,
        "redirect_uri": rules.redirect_uri,
        "scope": f"{_SCOPES} {facts.sign_in_scopes}",
        "state": state,
        "code_challenge": challenge.rstrip(b"=").decode("ascii"),
        "code_challenge_method": "S256",
        **dict(rules.parameters),
    }
    return f"{rules.authorize_url}?{urlencode(query)}"


async def _reconnectable(tx: Tx, actor: Actor, integration: IntegrationId, kind: str) -> None:
    connection = await connections.get(tx, actor.org, integration)
    if connection is None:
        raise ValidationFailed(errors={"integration_id": ["This organisation has no such connection."]})
    if connection.kind != kind or connection.auth is not Auth.USER_SIGN_IN:
        raise ValidationFailed(errors={"integration_id": ["This was not connected by sign-in."]})
    if connection.state is ConnectionState.CONNECTED:
        raise WrongState("This connection is connected. Disconnect it first to sign in anew.")


@dataclass(frozen=True, slots=True)
class SignInExchange:
    """The exchange of an authorization code for tokens."""

    engine: Engine
    clock: Clock
    vault: Vault
    providers: Mapping[str, SignInRules]

    async def finish(self, actor: Actor, session_hash: str, *, state: str, code: str | None) -> SignedIn:
        """Consumes the state, exchanges the code and checks the account; stores nothing.

        Raises Failed.
        """
        take = partial(self._take, actor=actor, state=state)
        pending = await self.engine.write(self.clock.now(), take, org=actor.org)
        if pending is None or not secrets.compare_digest(pending[0].session_hash, session_hash):
            raise SignInFailed("state")
        if code is None:
            raise SignInFailed("denied")
        begun, verifier = pending
        try:
            refresh, label = await self._exchange(actor, begun.kind, code, verifier)
        except CallError as error:
            raise SignInFailed("exchange") from error
        return SignedIn(begun.name, begun.integration, await self._tried(actor, begun, refresh, label))

    async def _take(self, tx: Tx, *, actor: Actor, state: str) -> tuple[sign_ins.SignIn, str] | None:
        begun = await sign_ins.take(tx, actor.org, _hash(state))
        if begun is None:
            return None
        verifier = await vaults.open_text(
            tx, self.vault, actor.org, field="sign_in", key_no=begun.key_no, sealed=begun.verifier
        )
        return begun, verifier

    def _provider(self, kind: str) -> str:
        return self.vault.connectors[kind].facts.sign_in_provider

    def _rules(self, kind: str) -> SignInRules:
        """Returns the app that the sign-in is at. Raises SignInFailed when it is out of use."""
        rules = self.providers.get(self._provider(kind))
        if rules is None:
            raise SignInFailed("exchange")
        return rules

    async def _exchange(self, actor: Actor, kind: str, code: str, verifier: str) -> tuple[Secret, str | None]:
        """The refresh token, and the account's address when it is told."""
        rules = self._rules(kind)
        link = PlatformEndpoint(kind, rules.token_url, None, Timeouts(), RateLimit(), f"sign-in {actor.org}")
        http = self.vault.outbound.management_client(actor.org, None, link)
        answer = await http.post_form(
            {
                "grant_type": "authorization_code",
                "code": code,
                "code_verifier": verifier,
                "client_id": rules.client_id,
                "redirect_uri": rules.redirect_uri,
            },
            secret=("client_secret", rules.client_secret),
        )
        if not answer.ok:
            raise Unauthorized
        token_response = answer.json()
        refresh = token_response.get("refresh_token") if isinstance(token_response, dict) else None
        if not isinstance(token_response, dict) or not isinstance(refresh, str) or not refresh:
            raise UnusableResponse("the sign-in gave no lasting token")
        self.vault.register.add(refresh, str(token_response.get("access_token", "")))
        return Secret(refresh), _address(token_response.get("id_token"))

    async def _tried(
        self, actor: Actor, begun: sign_ins.SignIn, refresh: Secret, label: str | None
    ) -> CheckedSettings:
        look = partial(_subject, org_actor=actor, begun=begun)
        subject = await self.engine.read(self.clock.now(), look, org=actor.org)
        plain = {"sign_in": self._provider(begun.kind)} | ({"account": label} if label else {})
        settings = ConnectionSettings(plain, {"refresh_token": refresh}, Auth.USER_SIGN_IN, subject=subject)
        opened = ConnectionSecrets(begun.integration or _NEW, settings.plain, settings.sealed)
        health = await connecting.look(self.vault, actor.org, begun.kind, opened)
        if not health.ok:
            raise SignInFailed("exchange")
        return CheckedSettings(begun.kind, settings, health, self.clock.now())


async def _subject(tx: Tx, *, org_actor: Actor, begun: sign_ins.SignIn) -> str:
    """One sign-in is one account: reconnecting keeps what it stood for."""
    if begun.integration is not None:
        connection = await connections.get(tx, org_actor.org, begun.integration)
        if connection is not None:
            return str(connection.facts.get("subject"))
    return f"sign-in {secrets.token_hex(12)}"


def _address(token: object) -> str | None:
    """The e-mail address in an identity token that came straight from the account over TLS."""
    if not isinstance(token, str) or token.count(".") != 2:
        return None
    part = token.split(".")[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return None
    address = claims.get("email") if isinstance(claims, dict) else None
    return address[:200] if isinstance(address, str) and address.isprintable() else None


def _hash(state: str) -> str:
    return hashlib.sha256(state.encode("utf-8")).hexdigest()
