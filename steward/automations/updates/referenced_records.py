"""Checks the records that an update names: connections, the store, other automations."""

from collections.abc import Mapping
from dataclasses import replace

from steward.automations import checks
from steward.automations.checks import RequestErrors
from steward.automations.rules import AutomationRules
from steward.automations.updates.update_command import UpdateCommand
from steward.database.accounts import connections
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.model.automation import Automation
from steward.model.connection import Connection
from steward.model.ids import IntegrationId
from steward.templates.base import SetupContext, Template


async def check_records(
    tx: Tx, command: UpdateCommand, before: Automation, changed: Automation, *, rules: AutomationRules
) -> Automation:
    """Checks the given fields against the organization's records. Raises ValidationFailed, NotConnected."""
    errors = RequestErrors()
    template = rules.templates.get(before.template_id)
    if (changed.schedule, changed.timezone) != (before.schedule, before.timezone):
        # docs/design/schedule.md#slot-rules, R11
        checks.check_day(errors, changed.schedule, changed.timezone, tx.now)
    if template is None:
        errors.refuse()
        return changed
    connections_by_id = await _connections_of(tx, changed, template)
    store = checks.store_of(changed.integration_id, connections_by_id)
    needed: dict[str, list[IntegrationId]] = {}
    if command.has_integration and changed.integration_id is not None:
        checks.check_store(errors, _platforms_of(before, template), store, is_named=True)
        needed["integration_id"] = [changed.integration_id]
    # A store that was refused is left out, so that its channels and topics raise no further errors.
    accepted_store = None if errors.touches("integration_id") else store
    if command.connections is not None:
        checks.check_reads(errors, template, command.connections, connections_by_id)
        needed["connections"] = [connection.integration_id for connection in command.connections]
    needed |= await _check_named(tx, errors, command, changed, template, accepted_store, connections_by_id)
    if command.changes_events:
        checks.check_topics(errors, template, changed.trigger, accepted_store, rules=rules)
    errors.refuse()
    checks.refuse_unconnected(_changed(needed, before, changed), connections_by_id)
    if (changed.integration_id, changed.connections) != (before.integration_id, before.connections):
        label = checks.label_of(store, changed.connections, connections_by_id)
        changed = replace(changed, store_label=label)
    return changed


def _platforms_of(automation: Automation, template: Template) -> tuple[str, ...]:
    return template.facts.platforms if automation.platform is None else (automation.platform,)


async def _check_named(
    tx: Tx,
    errors: RequestErrors,
    command: UpdateCommand,
    changed: Automation,
    template: Template,
    store: Connection | None,
    connections_by_id: Mapping[IntegrationId, Connection],
) -> dict[str, list[IntegrationId]]:
    """Checks the records that the inputs name; returns the connections that given inputs name, by path."""
    if command.inputs is None and not command.changes_home and command.template_version is None:
        return {}
    automation_ids = template.automations_of(changed.inputs)
    others = await automations.among(tx, changed.org, automation_ids) if automation_ids else {}
    context = SetupContext(store, connections_by_id, others)
    named = checks.check_named(errors, template, changed.inputs, context)
    return {} if command.inputs is None else {path: [integration] for path, integration in named.items()}


def _changed(
    needed: Mapping[str, list[IntegrationId]], before: Automation, changed: Automation
) -> dict[str, list[IntegrationId]]:
    """Returns the connections named by those fields whose values differ from before.

    A body that changes nothing answers 200, also while a store is not connected.
    """
    same = {
        "integration_id": changed.integration_id == before.integration_id,
        "connections": changed.connections == before.connections,
        "inputs": changed.inputs == before.inputs,
    }
    return {path: ids for path, ids in needed.items() if not same[path.partition(".")[0]]}


async def _connections_of(
    tx: Tx, changed: Automation, template: Template
) -> Mapping[IntegrationId, Connection]:
    ids = {connection.integration_id for connection in changed.connections}
    ids |= {named.integration_id for named in template.connections_of(changed.inputs)}
    ids |= set() if changed.integration_id is None else {changed.integration_id}
    return await connections.among(tx, changed.org, ids) if ids else {}
