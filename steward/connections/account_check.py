"""Checks an account by the settings that a person entered, or by stored ones."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from steward.connections.refresh_tokens import FIELD, TriedToken, with_latest
from steward.connections.vault import Vault
from steward.connectors.base.connector import Connector, Health
from steward.connectors.base.settings import BadSettings, ConnectionSecrets, ConnectionSettings
from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonObject
from steward.model.refusals import NotConnected, ValidationFailed
from steward.outbound.endpoint import UserSignIn
from steward.outbound.errors import (
    BadCertificate,
    CallError,
    CallRefused,
    PlatformUnavailable,
    UnknownHost,
    WrongAddress,
)

_CHECK_SECONDS = 20.0
_NOBODY_YET = IntegrationId(0)
_SILENT = (PlatformUnavailable,)


@dataclass(frozen=True, slots=True)
class CheckedSettings:
    """Settings that were checked against the account and can be stored."""

    kind: str
    settings: ConnectionSettings
    health: Health
    checked_at: datetime


async def check_settings(
    vault: Vault, org: OrgId, kind: str, *, submitted: JsonObject, now: datetime
) -> CheckedSettings:
    """Checks settings against the account itself; stores nothing.

    Raises ValidationFailed (`kind`, `settings.<field>`) when the settings are wrong or the account refuses
    them, and NotConnected when it does not respond.
    """
    connector = vault.connectors.get(kind)
    if connector is None:
        kinds = ", ".join(sorted(vault.connectors))
        raise ValidationFailed(errors={"kind": [f"There is no such kind. Kinds are {kinds}."]})
    try:
        settings = connector.settings(submitted)
    except BadSettings as error:
        raise bad_settings(error.errors) from error
    secrets = ConnectionSecrets(_NOBODY_YET, settings.plain, settings.sealed)
    health, latest = await check_account(vault, org, kind, secrets)
    if health.error is not None and not health.ok:
        raise _refused(health, settings)
    return CheckedSettings(kind, with_latest(settings, latest), health, now)


async def check_account(
    vault: Vault, org: OrgId, kind: str, secrets: ConnectionSecrets
) -> tuple[Health, TriedToken | None]:
    """Checks an account with settings that are not stored yet; also returns its latest refresh token."""
    token = secrets.sealed.get(FIELD)
    tried = None if token is None else TriedToken(token)
    return await check_opened_account(
        vault, org, vault.connectors[kind], secrets, integration=None, tried=tried
    ), tried


async def check_opened_account(
    vault: Vault,
    org: OrgId,
    connector: Connector,
    secrets: ConnectionSecrets,
    *,
    integration: IntegrationId | None,
    tried: TriedToken | None = None,
) -> Health:
    vault.register.add(*secrets.sealed.values())
    try:
        endpoint = connector.endpoint(secrets)
        if tried is not None and isinstance(endpoint.credentials, UserSignIn):
            endpoint = replace(endpoint, credentials=replace(endpoint.credentials, lease=tried.leased))
        http = vault.outbound.management_client(org, integration, endpoint)
        async with asyncio.timeout(_CHECK_SECONDS):
            return await connector.check(http, secrets)
    except (CallRefused, BadSettings) as error:
        return Health(ok=False, error=WrongAddress(str(error)))
    except TimeoutError:
        return Health(ok=False, error=PlatformUnavailable(f"No response within {_CHECK_SECONDS:.0f} s."))


def bad_settings(errors: Mapping[str, Sequence[str]]) -> ValidationFailed:
    named = {f"settings.{name}" if name else "settings": list(words) for name, words in errors.items()}
    return ValidationFailed(errors=named)


def _refused(health: Health, settings: ConnectionSettings) -> Exception:
    error = health.error or CallError("The check failed.")
    if isinstance(error, _SILENT):
        silent = "" if isinstance(error, BadCertificate | UnknownHost) else "The account did not answer. "
        return NotConnected(f"{silent}{error.message}", errors={})
    field = health.error_field or next(iter(settings.sealed or settings.plain))
    return bad_settings({field: [error.message]})
