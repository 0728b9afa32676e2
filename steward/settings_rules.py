"""Derives the rules of each part from the settings: limits, time limits and addresses."""

from collections.abc import Mapping
from datetime import timedelta

from steward import templates
from steward.api.http.context import EndpointRules
from steward.automations.rules import AutomationRules
from steward.config import Settings
from steward.connections.sign_in import SignInApps, SignInRules
from steward.connectors.base.connector import Connector
from steward.database.engine.migrate import is_sqlite, names_several_servers, sqlite_path
from steward.events.context import EventRules
from steward.notifications.context import NotificationRules
from steward.runs.run_context import RunRules
from steward.runs.tasks.retention import RetentionRules
from steward.security.passwords import PRODUCTION, SMALL, Cost
from steward.telemetry.redact import Secret
from steward.version import __version__
from steward.worker import WorkerRules


def api_rules(settings: Settings) -> EndpointRules:
    """Returns the rules of the API."""
    return EndpointRules(
        quiet_periods=settings.quiet_periods,
        base_url=settings.base_url,
        auth_url=settings.auth_url,
        web_origin=settings.web_origin,
        service_version=__version__,
        api_access=settings.api_access,
        limit_person=settings.limit_person,
        limit_organization=settings.limit_organization,
        limit_web=settings.limit_web,
        limit_login=settings.limit_login,
        trusted_proxies=settings.trusted_proxies,
        session_idle_minutes=settings.session_idle_minutes,
        session_hours=settings.session_hours,
        approver_not_starter=settings.approver_not_starter,
        max_waiting_hand=settings.max_waiting_hand,
        # Runs are deleted by month, and an undo may wait 30 days for its approval.
        undo_for=timedelta(days=min(settings.undo_days, settings.run_history_days - 35)),
        settle_quiet=timedelta(seconds=settings.settle_quiet_seconds),
        imports_kept=settings.imports_kept,
        sign_in=_sign_in(settings),
        mail=settings.smtp_url is not None,
    )


def _sign_in(settings: Settings) -> SignInApps:
    """Returns the OAuth apps for signing in to accounts that have both an id and a secret."""
    redirect_uri = f"{settings.web_origin}/app/connections/sign-in/callback"
    apps = {
        "google": (
            settings.google_client_id,
            settings.google_client_secret,
            settings.google_authorize_url,
            settings.google_token_url,
            (("access_type", "offline"), ("prompt", "consent")),
        ),
        "microsoft": (
            settings.microsoft_client_id,
            settings.microsoft_client_secret,
            settings.microsoft_authorize_url,
            settings.microsoft_token_url,
            (("prompt", "select_account"),),
        ),
    }
    providers = {
        provider: SignInRules(client_id, Secret(secret), authorize_url, token_url, parameters=parameters)
        for provider, (client_id, secret, authorize_url, token_url, parameters) in apps.items()
        if client_id is not None and secret is not None
    }
    return SignInApps(redirect_uri, providers)


def automation_rules(settings: Settings, connectors_by_kind: Mapping[str, Connector]) -> AutomationRules:
    """Returns the templates and connectors on offer, and the rules of slots."""
    offered = {template.template_id: template for template in templates.ALL}
    late_limit = timedelta(minutes=settings.late_limit_minutes)
    return AutomationRules(offered, connectors_by_kind, late_limit=late_limit, spread_max=settings.spread_max)


def run_rules(settings: Settings) -> RunRules:
    """Returns the time limits of runs."""
    longest_write = 60.0
    if settings.is_test:
        longest_write = min(longest_write, float(settings.outbound_timeout_seconds))
    approval = timedelta(hours=settings.approval_hours)
    if settings.approval_seconds is not None:
        approval = timedelta(seconds=settings.approval_seconds)
    return RunRules(
        approval=approval,
        time_limit=timedelta(seconds=settings.run_time_limit_seconds),
        settle_quiet=timedelta(seconds=settings.settle_quiet_seconds),
        write_timeout=timedelta(seconds=longest_write),
    )


def worker_rules(settings: Settings) -> WorkerRules:
    """Returns the rules of a worker process."""
    return WorkerRules(
        lease=timedelta(seconds=settings.lease_seconds),
        queue_limit=timedelta(hours=settings.queue_limit_hours),
        concurrency=settings.worker_concurrency,
        organization_concurrency=settings.organization_concurrency,
        audit_anchor=timedelta(hours=settings.audit_anchor_hours),
        expects_standbys=names_several_servers(settings.database_url),
    )


def event_rules(settings: Settings) -> EventRules:
    """Returns the rules of store events."""
    return EventRules(
        max_waiting=settings.max_waiting_events,
        catch_up=timedelta(minutes=settings.catch_up_minutes),
        base_url=settings.base_url,
    )


def retention_rules(settings: Settings) -> RetentionRules:
    """Returns how long runs and sessions are kept."""
    is_file = is_sqlite(settings.database_url)
    return RetentionRules(
        history=timedelta(days=settings.run_history_days),
        session_idle=timedelta(minutes=settings.session_idle_minutes),
        session_life=timedelta(hours=settings.session_hours),
        file=sqlite_path(settings.database_url) if is_file else None,
    )


def notification_rules(settings: Settings) -> NotificationRules:
    """Returns when and how often notifications are sent."""
    return NotificationRules(
        window=timedelta(minutes=settings.notify_window_minutes),
        quiet_periods=settings.quiet_periods,
        mail_per_day=settings.mail_per_day,
    )


def password_cost(settings: Settings) -> Cost:
    """Returns the cost of password hashing, which is lower for tests and demos."""
    return PRODUCTION if settings.is_production else SMALL
