"""Automations as rows: created, read and changed by version; lists.py lists them."""

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

import msgspec

from steward.database.engine.base import Json, Row, Tx, from_ms, from_ms_or_none
from steward.model.account import CreatedVia, Creator
from steward.model.automation import Automation, AutomationKind, AutomationState, PausedBy
from steward.model.connection import AutomationConnection
from steward.model.ids import AutomationId, IntegrationId, OrgId, PersonId
from steward.model.json import JsonObject, JsonValue
from steward.model.refusals import NotFound
from steward.model.schedule import Schedule
from steward.model.trigger import EventTrigger, Listening, Trigger, trigger_from_json

_OWN_COLUMNS = """
    a.org_id, a.id, a.version, a.kind, a.import_id, a.template_id, a.template_version, a.source, a.platform,
    a.integration_id, a.store_label, a.name, a.state, a.paused_by, a.paused_reason, a.inputs, a.schedule,
    a.timezone, a.spread_minutes, a.trigger_json, a.connections, a.bindings, a.send_mode, a.plan_version,
    a.created_at, a.updated_at, a.created_by, a.created_via, a.api_client_id
"""
# The reason why an active automation does not receive its store's events: that of its worst topic, where the
# first character ranks the severity; null if there is none.
_DELIVERY_STATE = """
CASE WHEN a.state = 'active' AND a.trigger_json LIKE '{"kind":"event"%' THEN (
    SELECT max(CASE WHEN c.state <> 'connected'
                    THEN '3' || c.name || ' is not connected. Reconnect it in the web app.'
                    WHEN h.state = 'failed' THEN '2' || coalesce(h.reason, '')
                    WHEN h.state = 'active' THEN '0' ELSE '1' END)
    FROM automation_topics AS t
    JOIN connections AS c ON c.org_id = t.org_id AND c.integration_id = t.integration_id
    LEFT JOIN topic_deliveries AS h
        ON h.org_id = t.org_id AND h.integration_id = t.integration_id AND h.topic = t.topic
    WHERE t.org_id = a.org_id AND t.automation_id = a.id) END AS delivery
"""
# Columns of automations as `a` and their schedules as `s`.
COLUMNS = f"""{_OWN_COLUMNS}, s.next_run_at, s.last_run_at, s.consecutive_failures, s.events_dropped,
    s.events_dropped_at, {_DELIVERY_STATE}"""
_JOINED = f"""
SELECT {COLUMNS}
FROM automations AS a
JOIN schedules AS s ON s.org_id = a.org_id AND s.automation_id = a.id
"""


# Waits for a concurrent rename and follows it, because the name that the automation was read with may be
# outdated. Without a store, the label is the names of its connections.
_LABEL = (
    "coalesce((SELECT c.name FROM connections AS c"
    " WHERE c.org_id = :org AND c.integration_id = :integration {for_update}), :label)"
)


async def insert(tx: Tx, org: OrgId, automation: Automation) -> None:
    """Inserts an automation without its row in `schedules`."""
    await tx.execute(
        "INSERT INTO automations (org_id, id, version, kind, import_id, template_id, template_version,"
        " source, platform, integration_id, store_label, name, name_folded, state, paused_by, paused_reason,"
        " inputs, schedule, timezone, spread_minutes, trigger_json, connections, bindings, send_mode,"
        " plan_version, created_at, updated_at, created_by, created_via, api_client_id)"
        " VALUES (:org, :id, :version, :kind, :import, :template, :template_version, :source, :platform,"
        f" :integration, {_LABEL}, :name, :folded, :state, :paused_by, :reason, :inputs, :schedule,"
        " :timezone, :spread, :trigger, :connections, :bindings, :send_mode, :plan, :created, :updated,"
        " :person, :via, :client)",
        _changeable(automation)
        | {
            "org": org,
            "id": automation.id,
            "version": automation.version,
            "kind": automation.kind,
            "import": automation.import_id,
            "template": automation.template_id,
            "source": automation.source,
            "platform": automation.platform,
            "spread": automation.spread_minutes,
            "created": automation.created_at,
            "updated": automation.updated_at,
            "person": automation.maker.created_by,
            "via": automation.maker.created_via,
            "client": automation.maker.api_client_id,
        },
    )


async def save(tx: Tx, org: OrgId, automation: Automation, *, expected_version: int) -> int:
    """Stores all changeable fields if the version still is `expected_version`. Returns the rows written."""
    return await tx.execute(
        "UPDATE automations SET version = :version, template_version = :template_version,"
        " integration_id = :integration, store_label = CASE WHEN integration_id = :integration"
        f" THEN store_label ELSE {_LABEL} END, name = :name, name_folded = :folded,"
        " state = :state, paused_by = :paused_by, paused_reason = :reason, inputs = :inputs,"
        " schedule = :schedule, timezone = :timezone, trigger_json = :trigger, connections = :connections,"
        " bindings = :bindings, send_mode = :send_mode, plan_version = :plan, updated_at = :updated"
        " WHERE org_id = :org AND id = :id AND version = :expected",
        _changeable(automation)
        | {
            "org": org,
            "id": automation.id,
            "version": automation.version,
            "updated": automation.updated_at,
            "expected": expected_version,
        },
    )


async def pause_unread(tx: Tx, org: OrgId, automation: AutomationId, *, reason: str) -> int | None:
    """Pauses an active automation without reading its row. Returns its new version; None if not active."""
    row = await tx.first(
        "UPDATE automations SET state = 'paused', paused_by = 'system', paused_reason = :reason,"
        " version = version + 1, updated_at = :now"
        " WHERE org_id = :org AND id = :automation AND state = 'active' RETURNING version",
        {"org": org, "automation": automation, "reason": reason},
    )
    return None if row is None else int(row["version"])


def _changeable(automation: Automation) -> dict[str, object]:
    """Returns the columns that a change of an automation may write."""
    connections: list[JsonValue] = [
        {"integration_id": bound.integration_id, "kind": bound.kind} for bound in automation.connections
    ]
    return {
        "template_version": automation.template_version,
        "integration": automation.integration_id,
        "label": automation.store_label,
        "name": automation.name,
        "folded": automation.name.casefold(),
        "state": automation.state,
        "paused_by": automation.paused_by,
        "reason": automation.paused_reason,
        "inputs": Json(automation.inputs),
        "schedule": Json(automation.schedule.to_wire()),
        "timezone": automation.timezone,
        "trigger": Json(automation.trigger.to_json()),
        "connections": Json(connections),
        "bindings": Json(automation.bindings),
        "send_mode": automation.send_mode,
        "plan": automation.plan_version,
    }


async def get(tx: Tx, org: OrgId, automation: AutomationId) -> Automation:
    """Returns the automation. Raises NotFound, also for one of another organization."""
    row = await tx.first(
        f"{_JOINED} WHERE a.org_id = :org AND a.id = :automation", {"org": org, "automation": automation}
    )
    if row is None:
        raise NotFound
    return record(row)


async def among(tx: Tx, org: OrgId, automations: Collection[AutomationId]) -> dict[AutomationId, Automation]:
    """Returns the automations with these ids that the organization has, by id."""
    rows = await tx.all(
        f"{_JOINED} WHERE a.org_id = :org AND a.id IN (:automations)",
        {"org": org, "automations": list(automations)},
    )
    return {AutomationId(row["id"]): record(row) for row in rows}


async def active_after(tx: Tx, org: OrgId, *, after: AutomationId | None, limit: int) -> list[AutomationId]:
    """Returns the ids of active automations after `after`, in ascending order."""
    rows = await tx.all(
        "SELECT id FROM automations WHERE org_id = :org AND state = 'active' AND id > :after"
        " ORDER BY id LIMIT :limit",
        {"org": org, "after": after or "", "limit": limit},
    )
    return [AutomationId(row["id"]) for row in rows]


async def own_rows(
    tx: Tx, org: OrgId, automations: Collection[AutomationId]
) -> dict[AutomationId, Automation]:
    """Returns the existing automations by id, from their own rows only.

    Fields that change with every run are empty: the dispatch task has them from the schedules it locked.
    """
    rows = await tx.all(
        f"SELECT {_OWN_COLUMNS}, NULL AS next_run_at, NULL AS last_run_at, 0 AS consecutive_failures,"
        " 0 AS events_dropped, NULL AS events_dropped_at, NULL AS delivery"
        " FROM automations AS a WHERE a.org_id = :org AND a.id IN (:automations)",
        {"org": org, "automations": list(automations)},
    )
    return {AutomationId(row["id"]): record(row) for row in rows}


async def active_naming(tx: Tx, org: OrgId, integration: IntegrationId) -> list[Automation]:
    """Returns active automations that run on a connection, read it, or may name it in inputs or bindings.

    Only templates can read inputs, so some of these may just contain the same number.
    """
    rows = await tx.all(
        f"{_JOINED} WHERE a.org_id = :org AND a.state = 'active' AND (a.integration_id = :integration"
        " OR a.connections LIKE :named OR a.inputs LIKE :named OR a.bindings LIKE :named) ORDER BY a.id",
        {"org": org, "integration": integration, "named": f"%:{integration}%"},
    )
    return [record(row) for row in rows]


async def relabel(tx: Tx, org: OrgId, integration: IntegrationId, label: str) -> None:
    """Renames a store or account in the automations that run on it."""
    await tx.execute(
        "UPDATE automations SET store_label = :label WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration, "label": label},
    )


def record(row: Row) -> Automation:
    """Returns the automation in a joined row."""
    return Automation(
        org=OrgId(row["org_id"]),
        id=AutomationId(row["id"]),
        version=row["version"],
        kind=AutomationKind(row["kind"]),
        import_id=row["import_id"],
        template_id=row["template_id"],
        template_version=row["template_version"],
        source=row["source"],
        platform=row["platform"],
        integration_id=None if row["integration_id"] is None else IntegrationId(row["integration_id"]),
        store_label=row["store_label"],
        name=row["name"],
        state=AutomationState(row["state"]),
        paused_by=PausedBy(row["paused_by"]) if row["paused_by"] else None,
        paused_reason=row["paused_reason"],
        inputs=_object(row["inputs"]),
        schedule=_schedule(row["schedule"]),
        timezone=row["timezone"],
        spread_minutes=row["spread_minutes"],
        trigger=_trigger(row),
        connections=tuple(
            AutomationConnection(IntegrationId(stored["integration_id"]), stored["kind"])
            for stored in msgspec.json.decode(row["connections"])
        ),
        bindings=_object(row["bindings"]),
        send_mode=row["send_mode"],
        plan_version=row["plan_version"],
        next_run_at=from_ms_or_none(row["next_run_at"]),
        last_run_at=from_ms_or_none(row["last_run_at"]),
        consecutive_failures=row["consecutive_failures"],
        created_at=from_ms(row["created_at"]),
        updated_at=from_ms(row["updated_at"]),
        maker=Creator(
            None if row["created_by"] is None else PersonId(row["created_by"]),
            CreatedVia(row["created_via"]) if row["created_via"] else None,
            row["api_client_id"],
        ),
    )


def _trigger(row: Row) -> Trigger:
    trigger = _trigger_of(row["trigger_json"])
    if not isinstance(trigger, EventTrigger):
        return trigger
    delivery: str = row["delivery"] or _NO_DELIVERY
    return replace(
        trigger,
        listening=_LISTENING_BY_LETTER[delivery[0]],
        reason=delivery[1:] or None,
        events_dropped=row["events_dropped"] or 0,
        events_dropped_at=from_ms_or_none(row["events_dropped_at"]),
    )


_NO_DELIVERY = "-"
_LISTENING_BY_LETTER = {
    _NO_DELIVERY: Listening.OFF,
    "0": Listening.YES,
    "1": Listening.NOT_YET,
    "2": Listening.FAILED,
    "3": Listening.FAILED,
}


# Many automations share a schedule and a trigger; decoding them is half the cost of a due automation.
@lru_cache(maxsize=4096)
def _schedule(text: str) -> Schedule:
    return Schedule.from_wire(_object(text))


@lru_cache(maxsize=1024)
def _trigger_of(text: str) -> Trigger:
    return trigger_from_json(_object(text))


def _object(text: str) -> JsonObject:
    decoded: JsonObject = msgspec.json.decode(text)
    return decoded
