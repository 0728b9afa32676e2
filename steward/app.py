"""Wiring: settings become engine, keys, connectors, API and worker; nothing is decided here."""

import base64
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from steward import connectors, templates
from steward.accounts import keys
from steward.accounts.passwords import Hashing
from steward.api import application
from steward.api.http import static_files as pages
from steward.api.http.handler import RequestHandler
from steward.api.http.operation import AppContext, Rules
from steward.automations.rules import AutomationRules
from steward.clock import Clock
from steward.config import Environment, Settings
from steward.connections.opening import RunAccess, keep_refresh_tokens
from steward.connections.sign_in import SignInApps, SignInRules
from steward.connections.vault import Vault
from steward.connectors.base.connector import Connector
from steward.database.engine.base import Engine
from steward.database.engine.disk_space import Space, SpaceGuard
from steward.database.engine.migrate import is_sqlite, names_several_servers, sqlite_path
from steward.database.engine.wakeups import Wakeups
from steward.events.context import EventRules
from steward.events.receive import Intake
from steward.notifications.context import NotificationContext, NotificationRules
from steward.notifications.wiring import channels_of, with_dead_channels
from steward.outbound.client import Outbound
from steward.outbound.transport import HttpTransport
from steward.platforms import connector_options
from steward.runs.retention import RetentionRules
from steward.runs.run_context import FileFolder, RunRules
from steward.sandbox.pool import SandboxPool
from steward.scheduling import zones
from steward.security.envelope import MasterKey
from steward.security.passwords import PRODUCTION, SMALL
from steward.startup import master_keys, observe_database, open_engine, open_traces
from steward.telemetry.log import Log, LogLevel, LogOrigin, Process
from steward.telemetry.metrics import Metrics
from steward.telemetry.redact import Register, Secret
from steward.version import __version__
from steward.worker import Hints, WorkerContext, WorkerRules


@dataclass(frozen=True, slots=True)
class Wired:
    """One process of the service, wired."""

    settings: Settings
    clock: Clock
    engine: Engine
    log: Log
    metrics: Metrics
    outbound: Outbound
    context: AppContext
    worker_context: WorkerContext
    notifications: NotificationContext
    hints: Hints
    gate: RequestHandler
    wakeups: Wakeups | None = None

    def share_hints(self, *, listens: bool) -> None:
        """Sends hints to other processes and, with `listens`, receives theirs."""
        if self.wakeups is not None:
            self.hints.notify_others = self.wakeups.tell
            if listens:
                self.wakeups.listen()

    async def close(self) -> None:
        """Closes sockets, threads and connections."""
        if self.wakeups is not None:
            await self.wakeups.close()
        await self.outbound.aclose()
        await self.worker_context.sandbox_pool.close()
        self.context.hashing.close()
        await self.engine.close()


async def build(
    settings: Settings,
    *,
    clock: Clock,
    serve: bool = True,
    transport: Any = None,
    write_log: Callable[[str], object] = sys.stderr.write,
    log: Log | None = None,
    sandbox_pool: SandboxPool | None = None,
) -> Wired:
    """Wires a process. With `serve`, takes an SQLite file's lock: raises AlreadyServed.

    For tests in process, `transport` and `sandbox_pool` replace what works outside of it.
    """
    zones.use_packaged_zones()
    log = log or make_log(settings, clock, write_log)
    metrics = _metrics()
    http = _transport(settings, clock, log, metrics, transport)
    engine = await _engine(settings, clock, metrics, log, http, serve=serve)
    space = _space(settings) if serve else None
    edge = engine if space is None else SpaceGuard(engine, space, finishes=False)
    masters = master_keys(settings)
    outbound = Outbound(http)
    connectors_by_kind = connectors.build(connector_options(settings))
    vault = Vault(masters, connectors_by_kind, outbound, log.register)
    keep_refresh_tokens(engine, clock, vault, log)
    hints, sandbox_pool = Hints(), sandbox_pool or _sandbox_pool(settings)
    ring = await _ring(settings, engine, clock, masters)
    context = AppContext(
        engine=edge,
        space=space,
        clock=clock,
        rules=_rules(settings),
        keys=ring,
        hashing=Hashing(PRODUCTION if settings.env is Environment.PRODUCTION else SMALL),
        log=log,
        automation_rules=_automation_rules(settings, connectors_by_kind),
        vault=vault,
        channels=channels_of(
            engine,
            vault,
            http,
            mail_server=settings.smtp_url,
            sender=settings.mail_from,
            web_origin=settings.web_origin,
            signing_key=lambda: ring.cursor,
        ),
        sandbox_pool=sandbox_pool,
        intake=Intake(edge, clock, vault, log, metrics),
        wake=hints.announce,
        traces=http.traces,
    )
    ctx = _worker_context(settings, engine, context, metrics, wake=hints.wake)
    gate = application.create(context, pages=pages.built(web_origin=settings.web_origin))
    metrics.add_counter("steward_requests_total", gate.answered, status=0, operation=1)
    shared = None if space is not None else Wakeups(settings.database_url, hints.wake, clock=clock)
    notifications = _notifications(settings, ctx, context, wake=hints.wake)
    return Wired(
        settings, clock, engine, log, metrics, outbound, context, ctx, notifications, hints, gate, shared
    )


def _worker_context(
    settings: Settings,
    engine: Engine,
    context: AppContext,
    metrics: Metrics,
    *,
    wake: Callable[[str], None],
) -> WorkerContext:
    """Returns what runs need, with the parts of the API that they share."""
    return WorkerContext(
        engine=engine if context.space is None else SpaceGuard(engine, context.space, finishes=True),
        space=context.space,
        clock=context.clock,
        log=context.log,
        metrics=metrics,
        rules=_run_rules(settings),
        worker_rules=_worker_rules(settings),
        event_rules=_event_rules(settings),
        automation_rules=context.automation_rules,
        access=RunAccess(engine, context.clock, context.vault),
        vault=context.vault,
        retention=_keeping(settings),
        files=_files(settings, context.space),
        sandbox_pool=context.sandbox_pool,
        wake=wake,
        traces=context.traces,
    )


def _notifications(
    settings: Settings, ctx: WorkerContext, context: AppContext, *, wake: Callable[[str], None]
) -> NotificationContext:
    """Returns what tells people, with the channels that are set up."""
    rules = NotificationRules(
        window=timedelta(minutes=settings.notify_window_minutes),
        quiet_periods=settings.quiet_periods,
        mail_per_day=settings.mail_per_day,
    )
    base = NotificationContext(
        ctx.engine, ctx.clock, ctx.log, ctx.metrics, context.channels, rules, wake=wake
    )
    return with_dead_channels(base)


def _sandbox_pool(settings: Settings) -> SandboxPool:
    must_confine = settings.env is Environment.PRODUCTION and not settings.unconfined_scripts
    return SandboxPool(settings.confined_processes, must_confine=must_confine)


def _transport(settings: Settings, clock: Clock, log: Log, metrics: Metrics, transport: Any) -> HttpTransport:
    """Returns what makes every outbound call, with where the spans of this process go."""
    return HttpTransport(
        clock,
        log.register,
        log,
        private_hosts=frozenset(settings.allow_private_hosts),
        transport=transport,
        traces=open_traces(settings, lambda count: metrics.count("steward_spans_dropped_total", count)),
    )


async def _ring(settings: Settings, engine: Engine, clock: Clock, masters: list[MasterKey]) -> keys.KeyRing:
    return await keys.open_ring(
        engine, clock.now(), masters, issuer=settings.auth_url, audience=settings.base_url
    )


def _space(settings: Settings) -> Space | None:
    """Returns the disk of an SQLite file, with its reserve."""
    if not is_sqlite(settings.database_url):
        return None
    space = Space(sqlite_path(settings.database_url))
    space.make_reserve()
    space.measure()
    return space


def make_log(
    settings: Settings,
    clock: Clock,
    write: Callable[[str], object] = sys.stderr.write,
    *,
    process: Process = "cli",
) -> Log:
    """Returns the log of a process; it knows the secrets among the settings."""
    register = Register()
    register.add(*_secrets(settings))
    level = LogLevel[settings.log_level.upper()]
    origin = LogOrigin(process, is_traced=settings.traces_url is not None)
    if settings.log_format == "text":
        return Log(write, clock, register, level=level, form="text", origin=origin)
    return Log(write, clock, register, level=level, origin=origin)


def _secrets(settings: Settings) -> list[str]:
    """Returns passwords and keys among the settings, in the form they were given."""
    password = urlsplit(settings.database_url).password
    keys_given = [base64.b64encode(key).decode("ascii") for _, key in settings.master_keys]
    if settings.smtp_url is not None and settings.smtp_url.password:
        keys_given.append(settings.smtp_url.password)
    return [
        secret
        for secret in (
            unquote(password or ""),
            password,
            settings.google_client_secret,
            settings.microsoft_client_secret,
            *(value for _, value in settings.traces_headers),
            *keys_given,
        )
        if secret
    ]


def _metrics() -> Metrics:
    """Returns a process's metrics, with the release that it is of."""
    metrics = Metrics()
    metrics.set("steward_release", 1, release=__version__)
    return metrics


async def _engine(
    settings: Settings, clock: Clock, metrics: Metrics, log: Log, http: HttpTransport, *, serve: bool
) -> Engine:
    observer = observe_database(metrics, log, clock)
    return await open_engine(settings, clock, serve=serve, observer=observer, traces=http.traces)


def _rules(settings: Settings) -> Rules:
    return Rules(
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
        # Runs are removed with their month, and an undo may wait 30 days for its approval.
        undo_for=timedelta(days=min(settings.undo_days, settings.run_history_days - 35)),
        settle_quiet=timedelta(seconds=settings.settle_quiet_seconds),
        imports_kept=settings.imports_kept,
        sign_in=_sign_in(settings),
        mail=settings.smtp_url is not None,
    )


def _sign_in(settings: Settings) -> SignInApps:
    """Returns the apps with which people sign in to accounts, those that have both id and secret."""
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


def _automation_rules(settings: Settings, connectors_by_kind: Mapping[str, Connector]) -> AutomationRules:
    offered = {template.template_id: template for template in templates.ALL}
    late_limit = timedelta(minutes=settings.late_limit_minutes)
    return AutomationRules(offered, connectors_by_kind, late_limit=late_limit, spread_max=settings.spread_max)


def _run_rules(settings: Settings) -> RunRules:
    longest_write = 60.0
    if settings.env is Environment.TEST:
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


def _worker_rules(settings: Settings) -> WorkerRules:
    return WorkerRules(
        lease=timedelta(seconds=settings.lease_seconds),
        queue_limit=timedelta(hours=settings.queue_limit_hours),
        concurrency=settings.worker_concurrency,
        organization_concurrency=settings.organization_concurrency,
        audit_anchor=timedelta(hours=settings.audit_anchor_hours),
        expects_standbys=names_several_servers(settings.database_url),
    )


def _event_rules(settings: Settings) -> EventRules:
    return EventRules(
        max_waiting=settings.max_waiting_events,
        catch_up=timedelta(minutes=settings.catch_up_minutes),
        base_url=settings.base_url,
    )


def _files(settings: Settings, space: Space | None) -> FileFolder | None:
    """Returns where the files of runs are kept: None where their rows hold them."""
    if not is_sqlite(settings.database_url):
        return None
    return FileFolder.beside(sqlite_path(settings.database_url), space)


def _keeping(settings: Settings) -> RetentionRules:
    is_file = is_sqlite(settings.database_url)
    return RetentionRules(
        history=timedelta(days=settings.run_history_days),
        session_idle=timedelta(minutes=settings.session_idle_minutes),
        session_life=timedelta(hours=settings.session_hours),
        file=sqlite_path(settings.database_url) if is_file else None,
    )
