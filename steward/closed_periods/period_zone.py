"""The time zone of a new closed period."""

from zoneinfo import ZoneInfo

from steward.database.accounts import connections, organizations
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.model.account import Actor
from steward.model.automation import Automation
from steward.model.closed_period import (
    ClosedScope,
    ClosedScopeKind,
)
from steward.model.connection import Connection
from steward.scheduling.zones import zone


async def zone_of(
    tx: Tx, actor: Actor, scope: ClosedScope, timezone: str | None, errors: dict[str, list[str]]
) -> tuple[str, ZoneInfo]:
    """Returns the period's zone; adds an error for a scope id that is not the organization's."""
    default = None
    if scope.kind is ClosedScopeKind.STORE:
        store = await _store_of(tx, actor, scope)
        if store is None:
            errors["scope.integration_id"] = ["There is no such store. Use an id from the list of stores."]
        default = None if store is None else store.zone
    elif scope.kind is ClosedScopeKind.AUTOMATION:
        automation = await _automation_of(tx, actor, scope)
        if automation is None:
            message = "There is no such automation. Use an id from the list of automations."
            errors["scope.automation_id"] = [message]
        default = None if automation is None else automation.timezone
    name = timezone or default
    local_zone = None if name is None else zone(name)
    if name is None or local_zone is None:
        organization = await organizations.get(tx, actor.org)
        name = "UTC" if organization is None or zone(organization.zone) is None else organization.zone
    return name, zone(name) or ZoneInfo("UTC")


async def _store_of(tx: Tx, actor: Actor, scope: ClosedScope) -> Connection | None:
    if scope.integration is None:
        return None
    connection = await connections.get(tx, actor.org, scope.integration)
    return connection if connection is not None and connection.is_store else None


async def _automation_of(tx: Tx, actor: Actor, scope: ClosedScope) -> Automation | None:
    if scope.automation is None:
        return None
    return (await automations.among(tx, actor.org, [scope.automation])).get(scope.automation)
