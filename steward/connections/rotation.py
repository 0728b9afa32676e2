"""Rewraps data keys and re-encrypts secrets under new ones, row by row while the service runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from steward.database.accounts import audit, connections
from steward.database.accounts.connections import DataKey, SealedField
from steward.database.automations import static_data
from steward.database.engine.base import Tx
from steward.database.imports import records as imports
from steward.database.imports.records import SealedContent
from steward.database.notifications import links, routes
from steward.model.ids import AutomationId, IntegrationId, MessageId, OrgId, RouteId
from steward.model.notification_route import SealedWebhook
from steward.security.envelope import MasterKey, SealContext, new_data_key, open_sealed, seal, unwrap, wrap

_DONE = "encryption_rotated"


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A sealed secret and the connection it belongs to."""

    integration: IntegrationId
    secret: SealedField


async def rewrap(tx: Tx, org: OrgId, masters: Sequence[MasterKey]) -> int:
    """Wraps the organization's data keys with the first master key. Returns how many had another.

    Raises CannotOpen when no master key opens one of them.
    """
    wrapped = 0
    for key in await connections.data_keys(tx, org):
        if key.kek_id == masters[0].id:
            continue
        data_key = unwrap(key.wrapped, masters, org_id=org, key_no=key.key_no)
        rewrapped_key = wrap(data_key, masters, org_id=org, key_no=key.key_no)
        await connections.put_data_key(tx, org, DataKey(key.key_no, rewrapped_key, masters[0].id))
        wrapped += 1
    if wrapped:
        await audit.record(tx, org, audit.AuditEntry("operator", _DONE, detail={"wrapped": wrapped}))
    return wrapped


async def under_others(tx: Tx, org: OrgId, masters: Sequence[MasterKey]) -> int:
    """Returns how many data keys are not wrapped by the first master key. Raises CannotOpen."""
    data_keys = await connections.data_keys(tx, org)
    for key in data_keys:
        unwrap(key.wrapped, masters, org_id=org, key_no=key.key_no)
    return sum(key.kek_id != masters[0].id for key in data_keys)


async def new_key(tx: Tx, org: OrgId, masters: Sequence[MasterKey]) -> int | None:
    """Creates the data key for new secrets. Returns its number, or None without earlier data keys.

    Earlier keys still open secrets that are sealed by a process that has not seen the new key yet.
    """
    before = await connections.data_keys(tx, org)
    if not before:
        return None
    number = max(key.key_no for key in before) + 1
    wrapped = wrap(new_data_key(), masters, org_id=org, key_no=number)
    await connections.put_data_key(tx, org, DataKey(number, wrapped, masters[0].id))
    await connections.retire_data_keys(tx, org, current=number)
    await audit.record(tx, org, audit.AuditEntry("operator", _DONE, detail={"data_key": number}))
    return number


async def seal_anew(
    tx: Tx, org: OrgId, masters: Sequence[MasterKey], *, sealed_secret: SealedSecret, number: int
) -> int:
    """Seals a secret under data key `number`; returns 0 if it was replaced or erased in the meantime."""
    field = sealed_secret.secret
    context_of = partial(SealContext, org, sealed_secret.integration, field.field, field.version)
    before = await connections.data_key(tx, org, field.key_no)
    after = await connections.data_key(tx, org, number)
    if before is None or after is None:
        return 0
    value = open_sealed(
        field.sealed,
        unwrap(before.wrapped, masters, org_id=org, key_no=field.key_no),
        context_of(field.key_no),
    )
    data_key = unwrap(after.wrapped, masters, org_id=org, key_no=number)
    fresh = SealedField(field.field, field.version, number, seal(value, data_key, context_of(number)))
    return await connections.reseal(tx, org, sealed_secret.integration, before=field, after=fresh)


def context_of_field(org: OrgId, field: str, key_no: int) -> SealContext:
    """Returns the context that binds a sealed value without a connection to its field."""
    return SealContext(org, IntegrationId(0), field, 1, key_no)


def content_field(import_id: str) -> str:
    """Returns the field that the content of an import is sealed for."""
    return f"import:{import_id}"


def static_data_field(automation: AutomationId) -> str:
    """Returns the field that the static data of an automation is sealed for."""
    return f"static_data:{automation}"


def route_field(route: RouteId, field: str) -> str:
    """Returns the field that the address (`url`) or the secrets (`secret`) of a webhook are sealed for."""
    return f"route:{route}:{field}"


def mail_field(message: MessageId) -> str:
    """Returns the field that a waiting account mail is sealed for."""
    return f"message_{message}"


async def seal_mail_anew(
    tx: Tx, org: OrgId, masters: Sequence[MasterKey], *, mail: links.SealedMail, number: int
) -> int:
    """Seals a waiting account mail under data key `number`; returns 0 when it needs no change."""
    sealed = await _resealed(
        tx, org, masters, field=mail_field(mail.id), key_no=mail.key_no, sealed=mail.sealed, number=number
    )
    return 0 if sealed is None else await links.reseal(tx, org, mail, key_no=number, sealed=sealed)


async def seal_route_anew(
    tx: Tx, org: OrgId, masters: Sequence[MasterKey], *, route: RouteId, number: int
) -> int:
    """Seals the address and secrets of a webhook under data key `number`; returns 0 when nothing changes."""
    stored = await routes.lock(tx, org, route)
    if stored is None or stored.webhook is None:
        return 0
    webhook = stored.webhook

    async def reseal(field: str, sealed: bytes) -> bytes | None:
        name = route_field(route, field)
        return await _resealed(
            tx, org, masters, field=name, key_no=webhook.key_no, sealed=sealed, number=number
        )

    url, secret = await reseal("url", webhook.url), await reseal("secret", webhook.secret)
    old = None if webhook.old_secret is None else await reseal("secret", webhook.old_secret)
    if url is None or secret is None:
        return 0
    fresh = SealedWebhook(number, url, secret, old, webhook.old_secret_until)
    await routes.update(tx, org, replace(stored, webhook=fresh))
    return 1


async def seal_import_anew(
    tx: Tx, org: OrgId, masters: Sequence[MasterKey], *, import_id: str, number: int
) -> int:
    """Seals the content of an import under data key `number`; returns 0 if deleted or sealed so already."""
    stored = await imports.sealed_content(tx, org, import_id)
    if stored is None:
        return 0
    key_no, field = stored.key_no, content_field(import_id)
    sealed = await _resealed(
        tx, org, masters, field=field, key_no=key_no, sealed=stored.sealed, number=number
    )
    if sealed is None:
        return 0
    return await imports.reseal(tx, org, import_id, before=key_no, after=SealedContent(number, sealed))


async def seal_static_data_anew(
    tx: Tx, org: OrgId, masters: Sequence[MasterKey], *, automation: AutomationId, number: int
) -> int:
    """Seals the static data of an automation under data key `number`; returns 0 when it needs no change."""
    stored = await static_data.get(tx, org, automation)
    if stored is None:
        return 0
    key_no, content = stored
    field = static_data_field(automation)
    sealed = await _resealed(tx, org, masters, field=field, key_no=key_no, sealed=content, number=number)
    if sealed is None:
        return 0
    return await static_data.reseal(tx, org, automation, before=key_no, key_no=number, content=sealed)


async def _resealed(
    tx: Tx,
    org: OrgId,
    masters: Sequence[MasterKey],
    *,
    field: str,
    key_no: int,
    sealed: bytes,
    number: int,
) -> bytes | None:
    """Returns the content sealed under data key `number`; None when it already is or a key is missing."""
    before = await connections.data_key(tx, org, key_no)
    after = await connections.data_key(tx, org, number)
    if before is None or after is None or key_no == number:
        return None
    opening = unwrap(before.wrapped, masters, org_id=org, key_no=key_no)
    content = open_sealed(sealed, opening, context_of_field(org, field, key_no))
    sealing = unwrap(after.wrapped, masters, org_id=org, key_no=number)
    return seal(content, sealing, context_of_field(org, field, number))
