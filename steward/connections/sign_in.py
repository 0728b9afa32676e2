"""Signs people in to their accounts by authorization code with PKCE.

The app is the operator's or the person's own. See docs/design/api/connections.md#sign-in.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from urllib.parse import quote_plus, urlencode

from steward.clock import Clock
from steward.connections import account_check
from steward.connections import vault as vaults
from steward.connections.account_check import CheckedSettings
from steward.connections.refresh_tokens import FIELD, with_latest
from steward.connections.vault import Vault
from steward.connectors.base.connector import Connector, SignsInWithOwnApp
from steward.connectors.base.settings import BadSettings, ConnectionSecrets, ConnectionSettings
from steward.database.accounts import connections, sign_ins
from steward.database.engine.base import Engine, Tx
from steward.model.account import Actor
from steward.model.connection import Auth, ConnectionState
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject
from steward.model.refusals import NotConfigured, ValidationFailed, WrongState
from steward.outbound.endpoint import Basic, PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import CallError, Unauthorized, UnusableResponse
from steward.outbound.response import Decoded
from steward.telemetry.redact import Secret

_LASTS = timedelta(minutes=10)
_SCOPES = "openid email"
_NEW = IntegrationId(0)


class SignInFailed(Exception):
    """Raised when a sign-in does not end in a connection; `code` is denied, state or exchange."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class SignInRules:
    """An app that people sign in to, and its addresses.

    `parameters` are added to the authorization request, as the provider requires. With `has_basic_auth` the
    app's id and secret are sent in `Authorization` instead of the form.
    """

    client_id: str
    client_secret: Secret
    authorize_url: str
    token_url: str
    scope: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    has_basic_auth: bool = False


@dataclass(frozen=True, slots=True)
class SignInApps:
    """The operator's apps by provider, and the address that providers redirect to."""

    redirect_uri: str = ""
    providers: Mapping[str, SignInRules] = field(default_factory=dict)

    def rules_of(self, connector: Connector, form: JsonObject | None) -> SignInRules:
        """Returns the app of a sign-in: the operator's, or the person's own from `form`.

        Raises NotConfigured, ValidationFailed.
        """
        provider = connector.facts.sign_in_provider
        if isinstance(connector, SignsInWithOwnApp):
            try:
                app = connector.own_app(form or {})
            except BadSettings as bad_settings:
                errors = {f"settings.{name}": list(words) for name, words in bad_settings.errors.items()}
                raise ValidationFailed(errors=errors) from bad_settings
            return SignInRules(
                app.client_id,
                app.client_secret,
                app.authorize_url,
                app.token_url,
                app.scope,
                has_basic_auth=app.has_basic_auth,
            )
        if form:
            message = "This kind has no settings. Connect it by signing in."
            raise ValidationFailed(errors={"settings": [message]})
        rules = self.providers.get(provider)
        if rules is None:
            raise NotConfigured(f"The operator has not set up the sign-in to {provider.capitalize()}.")
        return replace(rules, scope=f"{_SCOPES} {connector.facts.sign_in_scopes}")


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A finished and checked sign-in, to be stored as a new connection or for an existing one."""

    name: str
    integration: IntegrationId | None
    checked: CheckedSettings


async def start_sign_in(
    tx: Tx,
    actor: Actor,
    *,
    session_hash: str,
    kind: str = "spreadsheet",
    name: str,
    integration: IntegrationId | None,
    apps: SignInApps,
    vault: Vault,
    form: JsonObject | None = None,
) -> str:
    """Returns the address at which the person signs in; the state is theirs, valid once for ten minutes.

    `form` describes the person's own app, for kinds that need one. Raises NotConfigured, ValidationFailed,
    and WrongState for `integration`.
    """
    if integration is not None:
        await _reconnectable(tx, actor, integration, kind)
    rules = apps.rules_of(vault.connectors[kind], form)
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    text = json.dumps({"verifier": verifier, "form": form})
    key_no, sealed = await vaults.seal_text(tx, vault, actor.org, field="sign_in", text=text)
    pending = sign_ins.SignIn(session_hash, actor.org, integration, kind, name, key_no, sealed)
    await sign_ins.insert(tx, actor.org, _hash(state), sign_in=pending, expires_at=tx.now + _LASTS)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest())
    query = {
        "response_type": "code",
        "client_id": rules.client_id,
        "redirect_uri": apps.redirect_uri,
        **({"scope": rules.scope} if rules.scope else {}),
        "state": state,
        "code_challenge": challenge.rstrip(b"=").decode("ascii"),
        "code_challenge_method": "S256",
        **dict(rules.parameters),
    }
    return f"{rules.authorize_url}{'&' if '?' in rules.authorize_url else '?'}{urlencode(query)}"


async def _reconnectable(tx: Tx, actor: Actor, integration: IntegrationId, kind: str) -> None:
    connection = await connections.get(tx, actor.org, integration)
    if connection is None:
        raise ValidationFailed(errors={"integration_id": ["This organization has no such connection."]})
    if connection.kind != kind or connection.auth is not Auth.USER_SIGN_IN:
        raise ValidationFailed(errors={"integration_id": ["This was not connected by sign-in."]})
    if connection.state is ConnectionState.CONNECTED:
        raise WrongState("This connection is connected. Disconnect it first to sign in again.")


@dataclass(frozen=True, slots=True)
class _Begun:
    """A decrypted sign-in that is in progress."""

    row: sign_ins.SignIn
    verifier: str
    form: JsonObject | None


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The tokens issued for a code, and the account's address if the provider sends it."""

    access: Secret
    refresh: Secret | None
    label: str | None


@dataclass(frozen=True, slots=True)
class SignInExchange:
    """The exchange of an authorization code for tokens."""

    engine: Engine
    clock: Clock
    vault: Vault
    apps: SignInApps

    async def finish(self, actor: Actor, session_hash: str, *, state: str, code: str | None) -> SignedIn:
        """Consumes the state, exchanges the code and checks the account; stores nothing.

        Raises SignInFailed.
        """
        take = partial(self._take, actor=actor, state=state)
        begun = await self.engine.write(self.clock.now(), take, org=actor.org)
        if begun is None or not secrets.compare_digest(begun.row.session_hash, session_hash):
            raise SignInFailed("state")
        if code is None:
            raise SignInFailed("denied")
        try:
            rules = self.apps.rules_of(self.vault.connectors[begun.row.kind], begun.form)
            tokens = await self._exchange(actor, begun, rules, code)
        except (CallError, NotConfigured, ValidationFailed) as error:
            raise SignInFailed("exchange") from error
        return SignedIn(begun.row.name, begun.row.integration, await self._checked(actor, begun, tokens))

    async def _take(self, tx: Tx, *, actor: Actor, state: str) -> _Begun | None:
        row = await sign_ins.take(tx, actor.org, _hash(state))
        if row is None:
            return None
        text = await vaults.open_text(
            tx, self.vault, actor.org, field="sign_in", key_no=row.key_no, sealed=row.verifier
        )
        opened = json.loads(text)
        return _Begun(row, opened["verifier"], opened["form"])

    async def _exchange(self, actor: Actor, begun: _Begun, rules: SignInRules, code: str) -> _Tokens:
        """Exchanges the code. Raises CallError."""
        kind = begun.row.kind
        proof = Basic(Secret(quote_plus(rules.client_id)), _quoted(rules.client_secret))
        link = PlatformEndpoint(
            kind,
            rules.token_url,
            proof if rules.has_basic_auth else None,
            Timeouts(),
            RateLimit(),
            f"sign-in {actor.org}",
        )
        http = self.vault.outbound.management_client(actor.org, None, link)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": begun.verifier,
            "redirect_uri": self.apps.redirect_uri,
        }
        if rules.has_basic_auth:
            response = await http.post_form(form)
        else:
            secret = "client_secret", rules.client_secret
            response = await http.post_form({**form, "client_id": rules.client_id}, secret=secret)
        if not response.ok:
            raise Unauthorized
        return self._tokens(begun, response.json())

    def _tokens(self, begun: _Begun, response: Decoded) -> _Tokens:
        """Returns the tokens of a response. Raises UnusableResponse without a lasting token."""
        fields = response if isinstance(response, dict) else {}
        access, refresh = fields.get("access_token"), fields.get("refresh_token")
        lasts = begun.form is not None and "expires_in" not in fields
        has_refresh = isinstance(refresh, str) and bool(refresh)
        if not isinstance(access, str) or not access or not (has_refresh or lasts):
            raise UnusableResponse("the sign-in gave no lasting token")
        self.vault.register.add(access, *([str(refresh)] if has_refresh else []))
        refresh_token = Secret(str(refresh)) if has_refresh else None
        return _Tokens(Secret(access), refresh_token, _address(fields.get("id_token")))

    async def _checked(self, actor: Actor, begun: _Begun, tokens: _Tokens) -> CheckedSettings:
        row, connector = begun.row, self.vault.connectors[begun.row.kind]
        if isinstance(connector, SignsInWithOwnApp):
            settings = connector.signed_in(
                begun.form or {}, access_token=tokens.access, refresh_token=tokens.refresh
            )
        elif tokens.refresh is None:
            raise SignInFailed("exchange")
        else:
            find = partial(_subject, org_actor=actor, begun=row)
            subject = await self.engine.read(self.clock.now(), find, org=actor.org)
            plain = {"sign_in": connector.facts.sign_in_provider}
            plain |= {"account": tokens.label} if tokens.label else {}
            sealed = {FIELD: tokens.refresh}
            settings = ConnectionSettings(plain, sealed, Auth.USER_SIGN_IN, subject=subject)
        opened = ConnectionSecrets(row.integration or _NEW, settings.plain, settings.sealed)
        health, latest = await account_check.check_account(self.vault, actor.org, row.kind, opened)
        if not health.ok:
            raise SignInFailed("exchange")
        return CheckedSettings(row.kind, with_latest(settings, latest), health, self.clock.now())


def _quoted(secret: Secret) -> Secret:
    """Returns a secret encoded for HTTP Basic (RFC 6749, 2.3.1)."""
    return Secret(quote_plus(secret.reveal()))


async def _subject(tx: Tx, *, org_actor: Actor, begun: sign_ins.SignIn) -> str:
    """Returns the identity of a sign-in; reconnecting keeps the connection's identity."""
    if begun.integration is not None:
        connection = await connections.get(tx, org_actor.org, begun.integration)
        if connection is not None:
            return str(connection.facts.get("subject"))
    return f"sign-in {secrets.token_hex(12)}"


def _address(token: object) -> str | None:
    """Returns the e-mail address in an identity token, which the account itself sent over TLS."""
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
