"""serve and worker: the API and the worker in one process, or, on PostgreSQL, in several."""

import asyncio
import contextlib
import gc
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import uvicorn

from steward import app, periodic_tasks, startup, worker
from steward.api.v1 import status
from steward.api_process import announced
from steward.cli.connection_limits import ConnectionLimits, protocol
from steward.cli.descriptors import LONGEST_QUEUE, MAX_CONNECTIONS, Descriptors, raise_limit, share
from steward.cli.doctor.sandbox_warning import log_missing_isolation
from steward.cli.supervision import SOCKET, FurtherProcess, stop_on_signals, supervised
from steward.clock import Clock, SystemClock
from steward.config import Settings
from steward.database.engine.migrate import is_sqlite, migrate
from steward.runs import restored
from steward.startup import restrict_files
from steward.telemetry.log import Log, Process, capture_all_output

_GRACE_SECONDS = 10
_KEEP_ALIVE_SECONDS = 15
_SECOND = timedelta(seconds=1)
_PLENTY = Descriptors(MAX_CONNECTIONS, LONGEST_QUEUE)
Ready = Callable[[Mapping[str, object]], None]


class CannotServe(Exception):
    """Raised if the process cannot start; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The address, and whether to run a worker; `handle` is the listening socket of a parent process.

    Further API processes read their settings from `env_file` as well.
    """

    host: str | None = None
    port: int | None = None
    processes: int | None = None
    with_worker: bool = True
    handle: int | None = None
    env_file: str | None = None


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, since signals are handled once for API and worker."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings: Settings, options: ServeOptions, *, ready: Ready) -> None:
    """Serves until a signal. Raises CannotServe, AlreadyServed."""
    if is_sqlite(settings.database_url) and not options.with_worker:
        raise CannotServe("On SQLite one process serves the file: leave --no-worker out.")
    descriptors = share(raise_limit())
    log = open_log(settings, "api")
    if descriptors.few:
        log.warning("low_descriptor_limit", connections=descriptors.connections)
    await _refuse_pending(settings)
    listening = _listen(settings, options, descriptors)
    service = await app.build(settings, clock=SystemClock(), log=log)
    await _refuse_restored(service)
    if options.handle is None:
        await log_missing_isolation(settings, service.worker_context.sandbox_pool, log)
    stop = stop_on_signals()
    host, port = listening.getsockname()[:2]
    with _more_processes(service, options, listening, stop):
        try:
            facts = {
                "base_url": settings.base_url,
                "auth_url": settings.auth_url,
                "web_url": settings.web_origin,
                "listen": f"{host}:{port}",
                "pid": os.getpid(),
            }

            def started() -> None:
                ready(facts)
                supervisor.ready()

            beside = (
                contextlib.nullcontext() if options.with_worker else announced(service.engine, service.clock)
            )
            async with supervised(os.environ, stop) as supervisor, beside:
                await run_service(
                    service,
                    listening,
                    stop,
                    with_worker=options.with_worker,
                    started=started,
                    descriptors=descriptors,
                )
        finally:
            await service.close()


async def run_service(
    service: app.WiredProcess,
    listening: socket.socket,
    stop: asyncio.Event,
    *,
    with_worker: bool,
    started: Callable[[], None],
    beside: Callable[[], Awaitable[None]] | None = None,
    descriptors: Descriptors = _PLENTY,
) -> None:
    """Runs API, metrics and worker of one process until `stop`; calls `started` when it takes requests.

    The worker is registered first, so that waiting connections do not take the descriptors it needs.
    """
    limits = ConnectionLimits(
        max_connections=descriptors.connections,
        proxies=service.settings.trusted_proxies,
        metrics=service.metrics,
    )
    server = bounded(service.request_handler, limits, queue=descriptors.queue)
    service.share_hints(listens=with_worker)
    own_worker = await _registered(service) if with_worker else None
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    working = asyncio.create_task(_work(service, own_worker, stop)) if own_worker is not None else None
    while not server.started and not serving.done():
        await service.clock.sleep(0.01)
    if beside is not None:
        await beside()
    freeze_loaded_objects()
    async with _metrics_server_running(service, queue=descriptors.queue):
        started()
        ended = [serving, *([working] if working else [])]
        waiting = asyncio.create_task(stop.wait())
        await asyncio.wait([waiting, *ended], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        server.should_exit = True
        results = await asyncio.gather(*ended, return_exceptions=True)
        waiting.cancel()
    _raise_first_error(results)


def _raise_first_error(results: Sequence[object]) -> None:
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result


async def _registered(service: app.WiredProcess) -> worker.Worker:
    poll = _SECOND if service.engine.dialect == "sqlite" else _SECOND / 4
    return await worker.register(
        service.worker_context, service.hints, poll=poll, notifications=service.notifications
    )


async def _work(service: app.WiredProcess, own_worker: worker.Worker, stop: asyncio.Event) -> None:
    tick = timedelta(seconds=service.settings.tick_seconds)
    await worker.run(own_worker, periodic_tasks.of_worker(own_worker, dispatch_every=tick), stop)


async def work(settings: Settings, *, concurrency: int | None, ready: Ready) -> None:
    """Runs a worker without the API; requires PostgreSQL. Raises CannotServe."""
    if is_sqlite(settings.database_url):
        raise CannotServe(
            "On SQLite the worker is part of `steward serve`; a separate worker needs PostgreSQL."
        )
    raise_limit()
    log = open_log(settings, "worker")
    await _refuse_pending(settings)
    settings = replace(settings, worker_concurrency=concurrency or settings.worker_concurrency)
    service = await app.build(settings, clock=SystemClock(), serve=False, log=log)
    await _refuse_restored(service)
    await log_missing_isolation(settings, service.worker_context.sandbox_pool, log)
    stop = stop_on_signals()
    service.share_hints(listens=True)
    own_worker = await worker.register(
        service.worker_context, service.hints, poll=_SECOND / 4, notifications=service.notifications
    )
    freeze_loaded_objects()
    ready({"worker_id": own_worker.id, "concurrency": settings.worker_concurrency, "pid": os.getpid()})
    context = service.worker_context

    def holds_lease() -> bool:
        return context.clock.monotonic() < context.lease_confirmation.until

    try:
        tick = timedelta(seconds=settings.tick_seconds)
        async with (
            _metrics_server_running(service),
            supervised(os.environ, stop, is_well=holds_lease) as manager,
        ):
            manager.ready()
            await worker.run(own_worker, periodic_tasks.of_worker(own_worker, dispatch_every=tick), stop)
    finally:
        await service.close()


def open_log(settings: Settings, process: Process) -> Log:
    """Opens this process's log, which also receives library messages and uncaught errors.

    It restricts the installation's files to their owner, and reports those that others can still read.
    """
    log = startup.make_log(settings, SystemClock(), process=process)
    capture_all_output(log)
    for path in restrict_files(settings):
        log.warning("file_open_to_others", path=path)
    return log


async def _refuse_restored(service: app.WiredProcess) -> None:
    """Closes the service and raises CannotServe if its restored database has not been prepared."""
    why = await restored.serving_obstacle(service.engine, service.clock.now())
    if why is not None:
        await service.close()
        raise CannotServe(why)


async def _refuse_pending(settings: Settings) -> None:
    """Raises CannotServe while migrations are pending."""
    state = await migrate(settings.database_url, SystemClock().now(), dry_run=True)
    if state.pending:
        names = ", ".join(state.pending)
        raise CannotServe(f"Migrations are pending ({names}). Run `steward migrate` first.")


def _listen(settings: Settings, options: ServeOptions, descriptors: Descriptors) -> socket.socket:
    if options.handle is not None:
        return socket.socket(fileno=options.handle)
    host = options.host or settings.listen.host
    port = settings.listen.port if options.port is None else options.port
    return listen(host, port, queue=descriptors.queue)


def listen(host: str, port: int, *, queue: int = LONGEST_QUEUE) -> socket.socket:
    """Returns a listening socket with a backlog of `queue`. Raises CannotServe if the address is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is given, since asyncio otherwise delays small responses by 40 ms (no TCP_NODELAY).
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise CannotServe(f"{host}:{port} cannot be listened on: {error.strerror}.") from error
    listening.listen(queue)
    listening.setblocking(False)
    return listening


def freeze_loaded_objects() -> None:
    """Freezes all objects loaded so far, so that garbage collection during requests skips them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def bounded(application: Any, limits: ConnectionLimits, *, queue: int = LONGEST_QUEUE) -> uvicorn.Server:
    """Returns a server for an application, limited by `limits`."""
    config = uvicorn.Config(
        application,
        loop="uvloop",
        http=protocol(limits),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        backlog=queue,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return _Server(config)


def _metrics_server(service: app.WiredProcess, queue: int) -> uvicorn.Server:
    """Returns the server of /metrics; every request checks whether the service is ready."""

    async def respond(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        is_metrics = scope["type"] == "http" and scope["path"] == "/metrics"
        body = b""
        if is_metrics:
            is_ready = status.is_ready(await status.readiness(service.context))
            service.metrics.set("steward_ready", float(is_ready))
            body = service.metrics.text().encode()
        headers = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200 if is_metrics else 404, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return bounded(respond, ConnectionLimits(max_connections=queue), queue=queue)


@contextlib.asynccontextmanager
async def _metrics_server_running(
    service: app.WiredProcess, *, queue: int = LONGEST_QUEUE
) -> AsyncIterator[None]:
    """Serves /metrics while the context is open, if an address is set.

    A failure is only logged, because requests and runs matter more.
    """
    address = service.settings.metrics_listen
    if address is None:
        yield
        return
    try:
        bound = listen(address.host, address.port, queue=queue)
    except CannotServe as error:
        service.worker_context.log.warning("metrics_not_served", reason=str(error))
        yield
        return
    async with server_running(_metrics_server(service, queue), bound, service.worker_context.log):
        yield


@contextlib.asynccontextmanager
async def server_running(server: uvicorn.Server, bound: socket.socket, log: Log) -> AsyncIterator[None]:
    """Runs the metrics server while the context is open; only logs its failure."""

    def log_failure(serving: asyncio.Task[None]) -> None:
        if not serving.cancelled() and (error := serving.exception()) is not None:
            log.warning("metrics_not_served", reason=repr(error))

    serving = asyncio.create_task(server.serve(sockets=[bound]))
    serving.add_done_callback(log_failure)
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait([serving])


@contextlib.contextmanager
def _more_processes(
    service: app.WiredProcess, options: ServeOptions, listening: socket.socket, stop: asyncio.Event
) -> Iterator[None]:
    """Keeps further API processes on the same socket, which end with this one."""
    settings = service.settings
    process_count = options.processes or settings.processes
    if process_count > 1 and is_sqlite(settings.database_url):
        raise CannotServe("More than one process needs PostgreSQL.")
    handle = listening.fileno()
    command = [sys.executable, "-m", "steward", "serve", "--no-worker", "--handle", str(handle)]
    if options.env_file is not None:
        command += ["--env-file", options.env_file]
    # The service manager supervises only this process and would take a child's notices for its own.
    variables = {name: text for name, text in os.environ.items() if name != SOCKET}
    begin = partial(
        subprocess.Popen,
        command,
        pass_fds=[handle],
        stdout=subprocess.DEVNULL,
        env={**variables, "STEWARD_METRICS_LISTEN": "off", "STEWARD_PROCESSES": "1"},
    )
    processes = [FurtherProcess(begin, service.worker_context.log) for _ in range(process_count - 1)]
    for process in processes:
        process.keep(service.clock.monotonic())
    keeping = asyncio.create_task(_keep(processes, service.clock, stop))
    try:
        yield
    finally:
        keeping.cancel()
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


async def _keep(processes: Sequence[FurtherProcess], clock: Clock, stop: asyncio.Event) -> None:
    """Restarts each process that ended by itself, such as one that the kernel killed for lack of memory."""
    while processes:
        await clock.sleep(1)
        # A service manager stops all processes at once, and this one may see another's end first.
        if stop.is_set():
            return
        for process in processes:
            process.keep(clock.monotonic())
