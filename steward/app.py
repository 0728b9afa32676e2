"""Wiring: builds the engine, keys, connectors, API and worker from the settings."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steward import connectors, settings_rules
from steward.accounts import keys
from steward.accounts.passwords import PasswordHasher
from steward.api import application
from steward.api.http import static_files
from steward.api.http.context import AppContext
from steward.api.http.handler import RequestHandler
from steward.clock import Clock
from steward.config import Settings
from steward.connections.opening import RunAccess, keep_refresh_tokens
from steward.connections.vault import Vault
from steward.database.engine.base import Engine
from steward.database.engine.disk_space import DiskSpace, SpaceGuard
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.wakeups import Wakeups
from steward.events.receive import DeliveryIntake
from steward.notifications.channels import channels_of, with_route_recording
from steward.notifications.context import NotificationContext
from steward.outbound.client import Outbound
from steward.outbound.transport import HttpTransport
from steward.platforms import connector_options
from steward.runs.run_context import FileFolder
from steward.sandbox.pool import SandboxPool
from steward.scheduling import zones
from steward.startup import make_log, master_keys, observe_database, open_engine, open_traces
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.version import __version__
from steward.worker import Hints, WorkerContext


@dataclass(frozen=True, slots=True)
class WiredProcess:
    """A process of the service with all its dependencies."""

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
    request_handler: RequestHandler
    wakeups: Wakeups | None = None

    def share_hints(self, *, listens: bool) -> None:
        """Sends hints to other processes and, with `listens`, receives theirs."""
        if self.wakeups is not None:
            self.hints.notify_others = self.wakeups.notify
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
) -> WiredProcess:
    """Builds a process from its settings. With `serve`, it locks an SQLite file; raises AlreadyServed.

    Tests replace the network with `transport`, and share a `sandbox_pool` to save time.
    """
    zones.use_packaged_zones()
    log, metrics = log or make_log(settings, clock, write_log), _metrics()
    http = _transport(settings, clock, log, metrics, transport)
    engine = await _engine(settings, clock, metrics, log, http, serve=serve)
    space = _disk_space(settings) if serve else None
    api_engine = engine if space is None else SpaceGuard(engine, space, uses_reserve=False)
    masters, outbound, hints = master_keys(settings), Outbound(http), Hints()
    connectors_by_kind = connectors.build(connector_options(settings))
    vault = Vault(masters, connectors_by_kind, outbound, log.register)
    keep_refresh_tokens(engine, clock, vault, log)
    ring = await keys.open_ring(
        engine, clock.now(), masters, issuer=settings.auth_url, audience=settings.base_url
    )
    context = AppContext(
        engine=api_engine,
        space=space,
        files=_files(settings, space),
        clock=clock,
        rules=settings_rules.api_rules(settings),
        keys=ring,
        hashing=PasswordHasher(settings_rules.password_cost(settings)),
        log=log,
        automation_rules=settings_rules.automation_rules(settings, connectors_by_kind),
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
        sandbox_pool=sandbox_pool or _sandbox_pool(settings),
        intake=DeliveryIntake(api_engine, clock, vault, log, metrics),
        wake=hints.announce,
        traces=http.traces,
    )
    ctx = _worker_context(settings, engine, context, metrics, wake=hints.wake)
    handler = application.create(context, pages=static_files.built(web_origin=settings.web_origin))
    metrics.add_counter("steward_requests_total", handler.response_counts, status=0, operation=1)
    wakeups = None if space is not None else Wakeups(settings.database_url, hints.wake, clock=clock)
    notifications = _notifications(settings, ctx, context, wake=hints.wake)
    return WiredProcess(
        settings, clock, engine, log, metrics, outbound, context, ctx, notifications, hints, handler, wakeups
    )


def _worker_context(
    settings: Settings,
    engine: Engine,
    context: AppContext,
    metrics: Metrics,
    *,
    wake: Callable[[str], None],
) -> WorkerContext:
    """Returns the dependencies of runs, some of them shared with the API."""
    return WorkerContext(
        engine=engine if context.space is None else SpaceGuard(engine, context.space, uses_reserve=True),
        space=context.space,
        clock=context.clock,
        log=context.log,
        metrics=metrics,
        rules=settings_rules.run_rules(settings),
        worker_rules=settings_rules.worker_rules(settings),
        event_rules=settings_rules.event_rules(settings),
        automation_rules=context.automation_rules,
        access=RunAccess(engine, context.clock, context.vault),
        vault=context.vault,
        retention=settings_rules.retention_rules(settings),
        files=context.files,
        sandbox_pool=context.sandbox_pool,
        wake=wake,
        traces=context.traces,
    )


def _notifications(
    settings: Settings, ctx: WorkerContext, context: AppContext, *, wake: Callable[[str], None]
) -> NotificationContext:
    """Returns the context of notifications with the configured channels."""
    base = NotificationContext(
        ctx.engine,
        ctx.clock,
        ctx.log,
        ctx.metrics,
        context.channels,
        settings_rules.notification_rules(settings),
        wake=wake,
    )
    return with_route_recording(base)


def _sandbox_pool(settings: Settings) -> SandboxPool:
    """Returns the pool of sandboxed processes; production refuses to run them unconfined by default."""
    must_confine = settings.is_production and not settings.unconfined_scripts
    return SandboxPool(settings.confined_processes, must_confine=must_confine)


def _transport(settings: Settings, clock: Clock, log: Log, metrics: Metrics, transport: Any) -> HttpTransport:
    """Returns the transport of all outbound calls, which also sends this process's spans."""
    return HttpTransport(
        clock,
        log.register,
        log,
        private_hosts=frozenset(settings.allow_private_hosts),
        transport=transport,
        traces=open_traces(settings, lambda count: metrics.count("steward_spans_dropped_total", count)),
    )


def _disk_space(settings: Settings) -> DiskSpace | None:
    """Returns the disk space of an SQLite file with its reserve; None for PostgreSQL."""
    if not is_sqlite(settings.database_url):
        return None
    space = DiskSpace(sqlite_path(settings.database_url))
    space.make_reserve()
    space.measure()
    return space


def _metrics() -> Metrics:
    """Returns the metrics of a process, labelled with its release."""
    metrics = Metrics()
    metrics.set("steward_release", 1, release=__version__)
    return metrics


async def _engine(
    settings: Settings, clock: Clock, metrics: Metrics, log: Log, http: HttpTransport, *, serve: bool
) -> Engine:
    observer = observe_database(metrics, log, clock)
    return await open_engine(settings, clock, serve=serve, observer=observer, traces=http.traces)


def _files(settings: Settings, space: DiskSpace | None) -> FileFolder | None:
    """Returns the folder for the files of runs, or None if they are stored in rows."""
    if not is_sqlite(settings.database_url):
        return None
    return FileFolder.beside(sqlite_path(settings.database_url), space)
