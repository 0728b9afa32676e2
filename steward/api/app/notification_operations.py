"""Collects the operations of notifications: inbox, preferences, alerts, notices of approvals."""

from steward.api.app import alerts, approval_notices, inbox, notification_preferences

OPERATIONS = (
    *inbox.OPERATIONS,
    *notification_preferences.OPERATIONS,
    *alerts.OPERATIONS,
    *approval_notices.OPERATIONS,
)
