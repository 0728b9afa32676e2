"""The history of an automation: who changed what, and when, in the web app."""

from typing import Any

import msgspec

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import PageQuery
from steward.database.automations import history
from steward.database.automations import records as automations
from steward.database.automations.history import HistoryEntry
from steward.database.engine.base import Tx
from steward.model.account import Role
from steward.model.ids import AutomationId
from steward.model.instants import wire_time


class HistoryPerson(msgspec.Struct):
    """The person who made the change."""

    id: int
    first_name: str
    last_name: str


class HistoryField(msgspec.Struct):
    """The values of a field before and after the change."""

    field: str
    before: Any
    after: Any


class HistoryRecord(msgspec.Struct):
    """An entry of the history."""

    at: str
    action: str
    version: int
    person: HistoryPerson | None
    via: str
    api_client_id: str | None
    reason: str | None
    fields: list[HistoryField]


class HistoryResponse(msgspec.Struct):
    """A page of the history, newest first."""

    entries: list[HistoryRecord]
    next_cursor: str | None


async def find(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/automations/{automationId}/history`."""
    query: PageQuery = call.query
    automation = AutomationId(call.ids["automation_id"])
    await automations.get(tx, call.actor.org, automation)
    key = call.page_start()
    entries = await history.find(
        tx,
        call.actor.org,
        automation,
        limit=query.limit + 1,
        before=None if key is None else str(key[0]),
    )
    page = entries[: query.limit]
    cursor = call.next_cursor([page[-1].id]) if len(entries) > query.limit else None
    return HistoryResponse([_record(entry) for entry in page], cursor)


def _record(entry: HistoryEntry) -> HistoryRecord:
    person = None
    if entry.person is not None:
        person = HistoryPerson(entry.person, entry.first_name or "", entry.last_name or "")
    return HistoryRecord(
        at=wire_time(entry.at),
        action=entry.action,
        version=entry.version,
        person=person,
        via=entry.via,
        api_client_id=entry.api_client_id,
        reason=entry.reason,
        fields=[HistoryField(edit.field, edit.before, edit.after) for edit in entry.fields],
    )


OPERATIONS = (
    Operation(
        name="automations.list_history",
        method="GET",
        path="/app/automations/{automation_id}/history",
        access=Access.APP,
        role=Role.MEMBER,
        function=find,
        query=PageQuery,
        response=HistoryResponse,
        summary="List the history of an automation",
    ),
)
