"""Checks what prevents an automation from running now: the switch, its template, its connections."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from steward.automations import workflows
from steward.automations.rules import Templates as Templates
from steward.database.accounts import connections, organizations
from steward.database.engine.base import Tx
from steward.database.runs import workers
from steward.model.automation import Automation, AutomationKind
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.json import JsonObject
from steward.model.refusals import NotConnected, NotReady
from steward.templates.base import Template
from steward.version import __version__


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The code and message with which a run is refused when it is created."""

    code: str
    message: str


async def obstacle(tx: Tx, automation: Automation, *, templates: Templates) -> Obstacle | None:
    """Returns the refusal that a run of the automation would get now; None if it may run."""
    by_automation = await obstacles(tx, automation.org, [automation], templates=templates)
    return by_automation.get(automation.id)


async def obstacles(
    tx: Tx, org: OrgId, requested: Sequence[Automation], *, templates: Templates
) -> dict[AutomationId, Obstacle]:
    """Returns the obstacles of several automations; those without one are absent.

    An unknown template is no obstacle while a worker of another release, which may know it, is alive.
    """
    organization = await organizations.get(tx, org)
    is_on = organization is not None and organization.automations_on
    named = {integration for automation in requested for integration in connections_of(automation, templates)}
    connections_by_id = await connections.among(tx, org, named) if named else {}
    withdrawn = {automation.id for automation in requested if is_withdrawn(automation, templates)}
    if withdrawn and await workers.is_other_release_alive(tx, __version__):
        withdrawn.clear()
    by_automation: dict[AutomationId, Obstacle] = {}
    for automation in requested:
        is_offered = automation.id not in withdrawn
        obstacle = _obstacle(automation, templates, connections_by_id, is_on=is_on, is_offered=is_offered)
        if obstacle is None and automation.kind is AutomationKind.WORKFLOW:
            obstacle = await _unready(tx, automation)
        if obstacle is not None:
            by_automation[automation.id] = obstacle
    return by_automation


async def _unready(tx: Tx, automation: Automation) -> Obstacle | None:
    """Returns the obstacle of a workflow that has no plan or whose steps lack usable connections."""
    state = await workflows.state_of(tx, automation)
    if state is None:
        return Obstacle("not_ready", "The steps of this automation no longer exist. Import it again.")
    return None if state.is_ready else Obstacle("not_ready", workflows.why_not_ready(state))


def _obstacle(
    automation: Automation,
    templates: Templates,
    connections_by_id: Mapping[IntegrationId, Connection],
    *,
    is_on: bool,
    is_offered: bool,
) -> Obstacle | None:
    if not is_on:
        return Obstacle("switched_off", "Automations are switched off for this organization.")
    if not is_offered:
        return Obstacle("not_ready", "The template of this automation is no longer offered.")
    for integration in connections_of(automation, templates):
        words = why_unusable(connections_by_id.get(integration))
        if words is not None:
            return Obstacle("not_connected", words)
    return None


async def check(tx: Tx, automation: Automation, *, templates: Templates) -> None:
    """Raises unless the automation may run; authentication checks the organization's switch.

    Raises NotConnected, NotReady.
    """
    blocking = await obstacle(tx, automation, templates=templates)
    if blocking is not None and blocking.code == "not_connected":
        raise NotConnected(blocking.message, errors={})
    if blocking is not None and blocking.code == "not_ready":
        raise NotReady(blocking.message, errors={})


def is_clear(automation: Automation, templates: Templates, connected: Collection[IntegrationId]) -> bool:
    """Returns whether the template is offered and all connections it needs are in `connected`."""
    if automation.kind is not AutomationKind.TEMPLATE or is_withdrawn(automation, templates):
        return False
    return all(integration in connected for integration in connections_of(automation, templates))


def why_unusable(connection: Connection | None) -> str | None:
    """Returns why a connection cannot be used now, as a sentence that names it; None if it can."""
    if connection is None:
        return "A connection of this automation no longer exists. Choose another one."
    if connection.state is ConnectionState.CONNECTED:
        return None
    return f"{connection.name} is not connected. Reconnect it in the web app."


def is_withdrawn(automation: Automation, templates: Templates) -> bool:
    """Returns whether the automation's template is no longer among those of the service."""
    return automation.kind is AutomationKind.TEMPLATE and automation.template_id not in templates


def connections_of(automation: Automation, templates: Templates) -> tuple[IntegrationId, ...]:
    """Returns the connections that a run needs, each once.

    They are the automation's own, those it reads, and those in its inputs and bindings, in this order.
    """
    return needed(
        templates.get(automation.template_id),
        integration=automation.integration_id,
        reads=[bound.integration_id for bound in automation.connections],
        inputs=automation.inputs,
        bindings=automation.bindings,
    )


def needed(
    template: Template | None,
    *,
    integration: IntegrationId | None,
    reads: Sequence[IntegrationId],
    inputs: JsonObject,
    bindings: JsonObject,
) -> tuple[IntegrationId, ...]:
    """Like `connections_of`, from the parts of an automation that name connections."""
    integrations = list(reads) if integration is None else [integration, *reads]
    if template is not None and inputs:
        integrations += [named.integration_id for named in template.connections_of(inputs)]
    integrations += _bound(bindings)
    return tuple(dict.fromkeys(integrations))


def _bound(bindings: JsonObject) -> Iterable[IntegrationId]:
    for binding in bindings.values():
        if isinstance(binding, Mapping) and isinstance(binding.get("integration_id"), int):
            yield IntegrationId(int(str(binding["integration_id"])))
