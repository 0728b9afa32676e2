"""The number of periods without a success before an alert, and whether the caller muted it."""

from typing import Annotated

import msgspec
from pydantic import Field

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import Flag, Positive, RequestBody
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.database.notifications import own_preferences, watches
from steward.model.account import Role
from steward.model.ids import AutomationId
from steward.model.instants import wire_time_or_none
from steward.notifications import preferences

_MAX_PERIODS = 50


class AlertsBody(RequestBody):
    """The fields to change; omitted ones stay as they are. Null restores the service's default."""

    quiet_after: Annotated[Positive, Field(le=_MAX_PERIODS)] | None = None
    muted: Flag = False


class AlertsResponse(msgspec.Struct):
    """The alerts of an automation; `muted` is the caller's own choice.

    `quiet_after` is null where `default_quiet_after` holds. `quiet_since` says since when it has been without
    a success.
    """

    quiet_after: int | None
    default_quiet_after: int
    quiet_since: str | None
    muted: bool


async def get(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/automations/{automationId}/alerts`."""
    automation = AutomationId(call.ids["automation_id"])
    await automations.get(tx, call.actor.org, automation)
    return await _response(tx, call, automation)


async def change(tx: Tx, call: ApiCall) -> Response:
    """Handles `PATCH /app/automations/{automationId}/alerts`."""
    body: AlertsBody = call.body
    automation = AutomationId(call.ids["automation_id"])
    await automations.get(tx, call.actor.org, automation)
    if "quiet_after" in body.model_fields_set:
        await watches.save_quiet_after(tx, call.actor.org, automation, body.quiet_after)
    if "muted" in body.model_fields_set:
        await preferences.mute(tx, call.actor, automation, muted=body.muted)
    return await _response(tx, call, automation)


async def _response(tx: Tx, call: ApiCall, automation: AutomationId) -> AlertsResponse:
    watch = await watches.get(tx, call.actor.org, automation)
    preferences = await own_preferences.get(tx, call.actor.org, call.actor.person)
    return AlertsResponse(
        quiet_after=watch.quiet_after,
        default_quiet_after=call.context.rules.quiet_periods,
        quiet_since=wire_time_or_none(watch.quiet_since),
        muted=automation in preferences.muted,
    )


OPERATIONS = (
    Operation(
        name="automations.get_alerts",
        method="GET",
        path="/app/automations/{automation_id}/alerts",
        access=Access.APP,
        role=Role.MEMBER,
        function=get,
        response=AlertsResponse,
        summary="Get the alerts of an automation",
    ),
    Operation(
        name="automations.update_alerts",
        method="PATCH",
        path="/app/automations/{automation_id}/alerts",
        access=Access.APP,
        role=Role.MEMBER,
        function=change,
        body=AlertsBody,
        response=AlertsResponse,
        summary="Change the alerts of an automation",
        writes=True,
    ),
)
