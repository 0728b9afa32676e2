"""The command sandbox, which serves the fake platforms and loads nothing of the service."""

import asyncio
import socket

import uvicorn

from steward.cli.command import CliArgs, Command, CommandFailed, option, whole
from steward.cli.supervision import stop_on_signals
from steward.fake_platforms import serve
from steward.fake_platforms.application import create
from steward.fake_platforms.slow import span


async def _run_sandbox(args: CliArgs) -> None:
    """Serves the fake platforms until a signal."""
    options = args.options
    try:
        slow = span(options.slow) if options.slow else None
    except ValueError as error:
        raise CommandFailed("invalid", f"--slow: {error}.") from error
    try:
        serve.refuse_production()
        listening = serve.listening(options.host, options.port)
    except RuntimeError as error:
        raise CommandFailed("production", str(error)) from error
    except OSError as error:
        message = f"{options.host}:{options.port} cannot be listened on: {error.strerror}."
        raise CommandFailed("cannot_serve", message) from error
    with listening:
        platforms = create(options.seed, serve.address(listening), slow=slow)
        stop = stop_on_signals()
        async with serve.mail_beside(platforms, listening) as facts:
            serving = serve.server(platforms, lambda: args.ready(facts), own_signals=False)
            await _until(serving, listening, stop)


async def _until(server: uvicorn.Server, listening: socket.socket, stop: asyncio.Event) -> None:
    """Serves the fake platforms until `stop`."""
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    server.should_exit = True
    await serving


COMMANDS = [
    Command(
        "sandbox",
        _run_sandbox,
        (
            option("--host", default="127.0.0.1", help="where to listen"),
            option("--port", type=whole(0, 65_535), required=True, help="the port; 0 takes a free one"),
            option("--seed", type=int, default=1, help="the same seed gives the same data"),
            option("--slow", help="seconds the fake shop takes for an object and a full page, such as 2-20"),
        ),
    ),
]
