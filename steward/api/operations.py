"""Collects the operations of every resource; the request handler, OpenAPI and tests read them."""

from steward.api.app import (
    alerts,
    approval_notices,
    automation_history,
    automation_plan,
    closed_periods,
    connections,
    inbox,
    notification_preferences,
    notification_routes,
    options,
    organization,
    password,
    people,
    session,
    sign_in,
    unsubscribe,
)
from steward.api.http.operation import Operation, RawOperation
from steward.api.v1 import (
    approvals,
    automations,
    calendar,
    catalogue,
    destinations,
    imports,
    login,
    runs,
    schedule,
    status,
    store_events,
)

OPERATIONS: list[Operation] = [
    *status.OPERATIONS,
    *automations.OPERATIONS,
    *automation_history.OPERATIONS,
    *automation_plan.OPERATIONS,
    *calendar.OPERATIONS,
    *closed_periods.OPERATIONS,
    *schedule.OPERATIONS,
    *runs.OPERATIONS,
    *approvals.OPERATIONS,
    *catalogue.OPERATIONS,
    *connections.OPERATIONS,
    *sign_in.OPERATIONS,
    *notification_routes.OPERATIONS,
    *imports.OPERATIONS,
    *options.OPERATIONS,
    *inbox.OPERATIONS,
    *notification_preferences.OPERATIONS,
    *alerts.OPERATIONS,
    *approval_notices.OPERATIONS,
    *session.OPERATIONS,
    *destinations.OPERATIONS,
    *people.OPERATIONS,
    *password.OPERATIONS,
    *organization.OPERATIONS,
]

RAW_OPERATIONS: list[RawOperation] = [
    *login.RAW_OPERATIONS,
    *store_events.RAW_OPERATIONS,
    *status.RAW_OPERATIONS,
    *unsubscribe.RAW_OPERATIONS,
]
