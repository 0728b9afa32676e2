"""Connects a shop with keys that it issues on a page of its own, so that nobody has to copy any.

The shop delivers the keys without a signature: they count only after a check at the address that the person
entered. See docs/design/api/connections.md#keys-issued-by-the-shop.
"""

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from steward.clock import Clock
from steward.connections import account_check
from steward.connections import connect as connecting
from steward.connections import vault as vaults
from steward.connections.account_check import CheckedSettings
from steward.connections.vault import Vault
from steward.connectors.base.connector import IssuesKeys
from steward.connectors.base.settings import BadSettings
from steward.database.accounts import connections, members, sign_ins
from steward.database.engine.base import Engine, Tx
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, MemberState, Role
from steward.model.connection import ConnectionState
from steward.model.ids import IntegrationId, OrgId, PersonId
from steward.model.json import JsonObject
from steward.model.refusals import NotFound, ValidationFailed, WrongState

CALLBACK = "/app/connections/woocommerce/callback"
_KIND = "woocommerce"
_LASTS = timedelta(minutes=10)
_STATE = re.compile(r"([1-9][0-9]{0,15})-[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class ShopChoice:
    """The shop to connect: its address as entered, the connection's name, or the connection to repair."""

    url: str
    name: str
    integration: IntegrationId | None


@dataclass(frozen=True, slots=True)
class _KeyRequest:
    """A decrypted request for keys that is in progress."""

    org: OrgId
    person: PersonId
    url: str
    name: str
    integration: IntegrationId | None


def connector_of(vault: Vault) -> IssuesKeys:
    """Returns the connector whose shops issue keys."""
    connector = vault.connectors[_KIND]
    if not isinstance(connector, IssuesKeys):
        raise TypeError(f"{_KIND} issues no keys")
    return connector


async def begin(
    tx: Tx, actor: Actor, shop: ShopChoice, *, session_hash: str, web_origin: str, vault: Vault
) -> str:
    """Returns the address of the shop's page; its state is valid once, for ten minutes.

    Raises ValidationFailed, and WrongState for a connection to repair.
    """
    if shop.integration is not None:
        await _check_repairable(tx, actor.org, shop.integration)
    connector = connector_of(vault)
    reason = connector.no_keys_reason(web_origin)
    if reason is not None:
        raise ValidationFailed(errors={"url": [reason]})
    state = f"{actor.org}-{secrets.token_urlsafe(32)}"
    try:
        address = connector.key_page(
            {"url": shop.url},
            state=state,
            return_url=f"{web_origin}/connections?from=shop",
            callback_url=f"{web_origin}{CALLBACK}/{state}",
        )
    except BadSettings as bad_settings:
        raise ValidationFailed(
            errors={name: list(words) for name, words in bad_settings.errors.items()}
        ) from bad_settings
    text = json.dumps({"url": shop.url, "person": actor.person})
    key_no, sealed = await vaults.seal_text(tx, vault, actor.org, field="sign_in", text=text)
    pending = sign_ins.SignIn(session_hash, actor.org, shop.integration, _KIND, shop.name, key_no, sealed)
    await sign_ins.insert(tx, actor.org, _hash(state), sign_in=pending, expires_at=tx.now + _LASTS)
    return address


async def _check_repairable(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    connection = await connections.get(tx, org, integration)
    if connection is None or connection.kind != _KIND:
        raise ValidationFailed(errors={"integration_id": ["This organization has no such shop."]})
    if connection.state is ConnectionState.CONNECTED:
        raise WrongState("This connection is connected. Disconnect it first to give it other keys.")


@dataclass(frozen=True, slots=True)
class KeyDelivery:
    """Receives the keys that a shop delivers for a state."""

    engine: Engine
    clock: Clock
    vault: Vault

    async def take(self, state: str, delivery: JsonObject) -> None:
        """Checks the delivered keys at the shop that was asked for them, and connects it.

        Raises NotFound for a state that is unknown, used or expired, or whose person is no longer an owner;
        ValidationFailed and NotConnected when the shop does not accept its keys.
        """
        match = _STATE.fullmatch(state)
        if match is None or delivery.get("user_id") != state:
            raise NotFound
        org = OrgId(int(match[1]))
        open_state = partial(self._open, org=org, state=state)
        begun = await self.engine.write(self.clock.now(), open_state, org=org)
        if begun is None:
            raise NotFound
        try:
            form = connector_of(self.vault).issued_settings({"url": begun.url}, delivery)
        except BadSettings as bad_settings:
            errors = {f"settings.{name}": list(words) for name, words in bad_settings.errors.items()}
            raise ValidationFailed(errors=errors) from bad_settings
        now = self.clock.now()
        checked = await account_check.check_settings(self.vault, org, _KIND, submitted=form, now=now)
        keep = partial(self._keep, begun=begun, checked=checked)
        await self.engine.write(self.clock.now(), keep, org=org)

    async def _open(self, tx: Tx, *, org: OrgId, state: str) -> _KeyRequest | None:
        row = await sign_ins.take(tx, org, _hash(state))
        if row is None or row.kind != _KIND:
            return None
        text = await vaults.open_text(
            tx, self.vault, org, field="sign_in", key_no=row.key_no, sealed=row.verifier
        )
        opened = json.loads(text)
        return _KeyRequest(org, PersonId(opened["person"]), opened["url"], row.name, row.integration)

    async def _keep(self, tx: Tx, *, begun: _KeyRequest, checked: CheckedSettings) -> None:
        person = await members.get(tx, begun.org, begun.person)
        if person is None or person.state is not MemberState.ACTIVE or person.role is not Role.OWNER:
            raise NotFound
        actor = Actor(begun.org, begun.person, ROLE_SCOPES[Role.OWNER], CreatedVia.UI, role=Role.OWNER)
        if begun.integration is None:
            await connecting.connect(tx, actor, begun.name, checked=checked, vault=self.vault)
        else:
            await connecting.reconnect(tx, actor, begun.integration, checked=checked, vault=self.vault)


def _hash(state: str) -> str:
    return hashlib.sha256(state.encode("utf-8")).hexdigest()
