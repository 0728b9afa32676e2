"""The list of connections with the automations that use each."""

from collections import Counter

import msgspec

from steward.api.http.operation import ApiCall, Response
from steward.api.v1.catalogue import ConnectionRecord, ConnectionsQuery, connection_record
from steward.automations import readiness
from steward.database.accounts import connections
from steward.database.automations import lists
from steward.database.automations.lists import AutomationFilter, Sort
from steward.database.engine.base import Tx
from steward.model.automation import AutomationState
from steward.model.connection import ConnectionState
from steward.model.ids import IntegrationId

# Of more automations the newest are counted.
_MAX_AUTOMATIONS = 1_000


class UsedConnectionRecord(ConnectionRecord):
    """A connection and how many automations that are not archived need it.

    `used_by_more`: there are more automations than are counted, so that more of them may need it.
    """

    used_by: int = 0
    used_by_more: bool = False


class UsedConnectionsResponse(msgspec.Struct):
    """A page of connections."""

    connections: list[UsedConnectionRecord]
    next_cursor: str | None


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/connections` with the API's list and the number of automations that use each."""
    query: ConnectionsQuery = call.query
    key = call.page_start()
    rows = await connections.find(
        tx,
        call.actor.org,
        kind=query.kind,
        states=query.state or tuple(ConnectionState),
        after=IntegrationId(int(str(key[0]))) if key else None,
        limit=query.limit + 1,
    )
    page = rows[: query.limit]
    used, is_part = await _used(tx, call) if page else (Counter(), False)
    records = []
    for connection in page:
        record = connection_record(connection)
        fields = {name: getattr(record, name) for name in record.__struct_fields__}
        count = used.get(connection.integration_id, 0)
        records.append(UsedConnectionRecord(**fields, used_by=count, used_by_more=is_part))
    more = len(rows) > query.limit
    cursor = call.next_cursor([page[-1].integration_id]) if more else None
    return UsedConnectionsResponse(records, cursor)


async def _used(tx: Tx, call: ApiCall) -> tuple[Counter[IntegrationId], bool]:
    """Returns how many of the newest unarchived automations need each connection; whether there are more."""
    not_archived = AutomationFilter(states=[state for state in AutomationState if state != "archived"])
    newest = await lists.find(tx, call.actor.org, not_archived, sort=Sort.NEWEST, limit=_MAX_AUTOMATIONS)
    templates = call.context.automation_rules.templates
    used = Counter(
        integration
        for automation in newest.automations
        for integration in readiness.connections_of(automation, templates)
    )
    return used, newest.next_key is not None
