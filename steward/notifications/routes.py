"""The notification routes of an organization, managed by its owners; their secrets are sealed."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from steward.connections import vault as vaults
from steward.connections.rotation import route_field
from steward.connections.vault import Vault, open_secrets
from steward.connectors.base.notices import NoticePoster
from steward.database.accounts import audit, connections, organizations
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.database.notifications import routes as rows
from steward.model.account import Actor
from steward.model.connection import ConnectionState
from steward.model.ids import AutomationId, IntegrationId, MessageId, OrgId, RouteId, new_id
from steward.model.notice import ChannelName, MessageState
from steward.model.notification_route import (
    MAX_ROUTES,
    NotificationRoute,
    RouteFilter,
    RouteState,
    SealedWebhook,
)
from steward.model.refusals import NotFound, ValidationFailed, WrongState
from steward.outbound.errors import CallRefused
from steward.outbound.notice import webhook_endpoint
from steward.security.webhooks import REPLACED_SECRET_VALID_FOR, new_webhook_secret

_AGAIN_FOR = timedelta(hours=24)
_CHANNEL_TITLES = {ChannelName.TEAMS: "Microsoft Teams", ChannelName.SLACK: "Slack"}


@dataclass(frozen=True, slots=True)
class RouteContent:
    """An owner's choices for a route; `url` is for a webhook, `integration` and `target` for a chat."""

    name: str
    channel: ChannelName
    filter: RouteFilter
    integration: IntegrationId | None = None
    target: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class SavedRoute:
    """A stored route, its webhook's address, and a new secret, which is shown only once."""

    route: NotificationRoute
    url: str | None
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class OpenedWebhook:
    """The address of a webhook and its current signing secrets, newest first."""

    url: str
    secrets: tuple[str, ...]


async def create(tx: Tx, vault: Vault, actor: Actor, content: RouteContent) -> SavedRoute:
    """Creates a route. Raises ValidationFailed by field, also beyond 20 routes."""
    await organizations.lock(tx, actor.org)
    if len(await rows.every(tx, actor.org)) >= MAX_ROUTES:
        message = f"There are {MAX_ROUTES} routes already. Delete one that you no longer need."
        raise ValidationFailed(message, errors={"name": [message]})
    await _check(tx, vault, actor.org, content)
    route_id = RouteId(new_id(tx.now))
    secret = new_webhook_secret() if content.url is not None else None
    route = NotificationRoute(
        org=actor.org,
        id=route_id,
        name=content.name,
        channel=content.channel,
        filter=content.filter,
        integration=content.integration,
        target=content.target,
        webhook=await _sealed(tx, vault, actor.org, route_id, url=content.url, secret=secret),
        created_at=tx.now,
        created_by=actor.person,
    )
    await rows.insert(tx, actor.org, route)
    await _record(tx, actor, "route_made", route_id)
    return SavedRoute(route, content.url, secret)


async def change(tx: Tx, vault: Vault, actor: Actor, content: RouteContent, *, route: RouteId) -> SavedRoute:
    """Changes a route; a new webhook address gets a new secret and ends the previous one.

    Raises NotFound, ValidationFailed by field.
    """
    before = await _locked(tx, actor.org, route)
    await _check(tx, vault, actor.org, content)
    opened = None if before.webhook is None else await open_webhook(tx, vault, before)
    webhook, secret = before.webhook, None
    if opened is not None and content.url is not None and content.url != opened.url:
        secret = new_webhook_secret()
        webhook = await _sealed(tx, vault, actor.org, route, url=content.url, secret=secret)
    changed = replace(
        before,
        name=content.name,
        filter=content.filter,
        integration=content.integration,
        target=content.target,
        webhook=webhook,
    )
    await rows.update(tx, actor.org, changed)
    await _record(tx, actor, "route_changed", route)
    return SavedRoute(changed, content.url, secret)


async def delete(tx: Tx, actor: Actor, route: RouteId) -> None:
    """Deletes a route; its waiting messages are not sent. Raises NotFound."""
    if await rows.delete(tx, actor.org, route) == 0:
        raise NotFound
    await _record(tx, actor, "route_deleted", route)


async def rotate_secret(tx: Tx, vault: Vault, actor: Actor, route: RouteId) -> SavedRoute:
    """Creates a secret that signs at once; the previous one also signs for 24 hours.

    Raises NotFound, and WrongState for a route without signatures.
    """
    before = await _locked(tx, actor.org, route)
    if before.webhook is None:
        raise WrongState("Only a webhook has a secret.")
    opened, secret = await open_webhook(tx, vault, before), new_webhook_secret()
    webhook = await _sealed(
        tx, vault, actor.org, route, url=opened.url, secret=secret, old_secret=opened.secrets[0]
    )
    changed = replace(before, webhook=webhook)
    await rows.update(tx, actor.org, changed)
    await _record(tx, actor, "route_secret_rotated", route)
    return SavedRoute(changed, opened.url, secret)


async def send_again(tx: Tx, actor: Actor, route: RouteId, message: MessageId) -> None:
    """Makes a delivery due again, with the same id. Raises NotFound, WrongState."""
    stored = await _locked(tx, actor.org, route)
    if stored.state is RouteState.BROKEN:
        raise WrongState("This route is broken. Try it again first.")
    state = await rows.send_again(tx, actor.org, route, message, expires_at=tx.now + _AGAIN_FOR)
    if state is None:
        raise NotFound
    if state not in (MessageState.SENT, MessageState.REFUSED, MessageState.EXPIRED):
        raise WrongState(
            "This delivery has not ended yet, or was dropped because its notices no longer apply."
        )
    await _record(tx, actor, "delivery_sent_again", route)


async def url_of(tx: Tx, vault: Vault, route: NotificationRoute) -> str | None:
    """Returns the address of a webhook, or None for a chat."""
    return None if route.webhook is None else (await open_webhook(tx, vault, route)).url


async def open_webhook(tx: Tx, vault: Vault, route: NotificationRoute) -> OpenedWebhook:
    """Decrypts the address and secrets of a webhook, leaving out an expired secret. Raises CannotOpen."""
    sealed = route.webhook
    if sealed is None:
        raise LookupError("only a webhook has an address")

    async def opened(field: str, value: bytes) -> str:
        encrypted_field = route_field(route.id, field)
        return await vaults.open_text(
            tx, vault, route.org, field=encrypted_field, key_no=sealed.key_no, sealed=value
        )

    secrets = [await opened("secret", sealed.secret)]
    until = sealed.old_secret_until
    if sealed.old_secret is not None and until is not None and until > tx.now:
        secrets.append(await opened("secret", sealed.old_secret))
    return OpenedWebhook(await opened("url", sealed.url), tuple(secrets))


async def _sealed(
    tx: Tx,
    vault: Vault,
    org: OrgId,
    route: RouteId,
    *,
    url: str | None,
    secret: str | None,
    old_secret: str | None = None,
) -> SealedWebhook | None:
    if url is None or secret is None:
        return None

    async def sealed(field: str, text: str) -> tuple[int, bytes]:
        return await vaults.seal_text(tx, vault, org, field=route_field(route, field), text=text)

    key_no, sealed_url = await sealed("url", url)
    _, sealed_secret = await sealed("secret", secret)
    if old_secret is None:
        return SealedWebhook(key_no, sealed_url, sealed_secret)
    _, sealed_old = await sealed("secret", old_secret)
    until: datetime = tx.now + REPLACED_SECRET_VALID_FOR
    return SealedWebhook(key_no, sealed_url, sealed_secret, sealed_old, until)


async def _locked(tx: Tx, org: OrgId, route: RouteId) -> NotificationRoute:
    stored = await rows.lock(tx, org, route)
    if stored is None:
        raise NotFound
    return stored


async def _check(tx: Tx, vault: Vault, org: OrgId, content: RouteContent) -> None:
    """Raises ValidationFailed with all errors of a route."""
    errors: dict[str, list[str]] = {}
    if content.channel is ChannelName.WEBHOOK:
        errors |= _webhook_faults(vault, org, content)
    else:
        errors |= await _chat_faults(tx, vault, org, content)
    errors |= await _filter_faults(tx, org, content.filter)
    if errors:
        raise ValidationFailed(errors=errors)


def _webhook_faults(vault: Vault, org: OrgId, content: RouteContent) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    for field, value in (("integration_id", content.integration), ("target", content.target)):
        if value is not None:
            errors[field] = ["A webhook has only an address. Leave this empty."]
    if content.url is None:
        return errors | {"url": ["Give the https address that receives the notices."]}
    try:
        vault.outbound.notice_client(org, None, webhook_endpoint(org, content.url))
    except (CallRefused, ValueError) as error:
        reason = error.sentence if isinstance(error, CallRefused) else "The address is not a URL."
        errors["url"] = [f"{reason} Give a public https address."]
    return errors


async def _chat_faults(tx: Tx, vault: Vault, org: OrgId, content: RouteContent) -> dict[str, list[str]]:
    title = _CHANNEL_TITLES[content.channel]
    errors = {} if content.url is None else {"url": ["Only a webhook has an address. Leave this empty."]}
    if content.integration is None:
        return errors | {"integration_id": [f"Choose a connection to {title}."]}
    connection = await connections.get(tx, org, content.integration)
    poster = vault.connectors.get(content.channel)
    if connection is None or connection.kind != content.channel or not isinstance(poster, NoticePoster):
        return errors | {"integration_id": [f"This is not a connection to {title}."]}
    if connection.state is not ConnectionState.CONNECTED:
        return errors | {"integration_id": ["This connection is not connected. Reconnect it first."]}
    fault = poster.notice_target_fault(await open_secrets(tx, vault, connection), content.target)
    return errors if fault is None else errors | {"target": [fault]}


async def _filter_faults(tx: Tx, org: OrgId, chosen: RouteFilter) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    wanted_automations: Collection[AutomationId] = chosen.automations or ()
    if len(await automations.among(tx, org, wanted_automations)) != len(wanted_automations):
        errors["automation_ids"] = ["One of these automations does not exist."]
    wanted_connections: Collection[IntegrationId] = chosen.integrations or ()
    if len(await connections.among(tx, org, wanted_connections)) != len(wanted_connections):
        errors["integration_ids"] = ["One of these connections does not exist."]
    return errors


async def _record(tx: Tx, actor: Actor, action: str, route: RouteId) -> None:
    await audit.by_person(tx, actor, action, object_kind="route", object_id=route)
