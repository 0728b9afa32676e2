"""The commands serve, worker, demo and sandbox; serve.py, demo.py and fake_platforms run them."""

from pathlib import Path

from steward.cli import demo, serve
from steward.cli.command import CliArgs, Command, CommandFailed, Facts, option
from steward.cli.demo import DemoOptions
from steward.cli.serve import CannotServe, ServeOptions
from steward.fake_platforms import serve as sandbox
from steward.fake_platforms.application import create
from steward.fake_platforms.slow import span
from steward.security.envelope import CannotOpen

_LOOPBACK = "127.0.0.1"


async def _run_serve(args: CliArgs) -> None:
    """Runs the API, the web app and one worker until a signal."""
    options = args.options
    chosen = ServeOptions(
        options.host, options.port, options.processes, not options.no_worker, options.handle
    )
    try:
        await serve.serve(args.settings, chosen, ready=args.ready)
    except CannotServe as error:
        raise CommandFailed("cannot_serve", str(error)) from error
    except CannotOpen as error:
        raise _wrong_keys() from error


async def _run_worker(args: CliArgs) -> None:
    """Runs a worker without the API until a signal; requires PostgreSQL."""
    try:
        await serve.work(args.settings, concurrency=args.options.concurrency, ready=args.ready)
    except CannotServe as error:
        raise CommandFailed("cannot_serve", str(error)) from error
    except CannotOpen as error:
        raise _wrong_keys() from error


async def _run_demo(args: CliArgs) -> None:
    """Serves the demo with the fake platforms until a signal; its only settings are its arguments."""
    options = args.options
    chosen = DemoOptions(options.host, options.port, Path(options.dir), options.reset)
    try:
        await demo.demo(chosen, ready=args.ready)
    except CannotServe as error:
        raise CommandFailed("cannot_serve", str(error)) from error


async def _run_sandbox(args: CliArgs) -> None:
    """Serves the fake platforms until a signal."""
    options = args.options
    try:
        slow = span(options.slow) if options.slow else None
    except ValueError as error:
        raise CommandFailed("invalid", f"--slow: {error}.") from error
    try:
        sandbox.refuse_production()
        bound = sandbox.listening(options.host, options.port)
    except RuntimeError as error:
        raise CommandFailed("production", str(error)) from error
    except OSError as error:
        message = f"{options.host}:{options.port} cannot be listened on: {error.strerror}."
        raise CommandFailed("cannot_serve", message) from error
    with bound:
        platforms = create(options.seed, sandbox.address(bound), slow=slow)
        stop = serve.stop_on_signals()
        async with sandbox.mail_beside(platforms, bound) as described:
            serving = sandbox.server(platforms, lambda: args.ready(described), own_signals=False)
            await serve.until(serving, bound, stop)


def _wrong_keys() -> CommandFailed:
    message = "The database's keys were wrapped by a master key that STEWARD_MASTER_KEYS does not contain."
    return CommandFailed("wrong_master_keys", message)


def _words_of_demo(facts: Facts) -> str:
    """Returns the output of `demo` without --json."""
    return demo.in_words(facts)


COMMANDS = [
    Command(
        "serve",
        "serve the API and the web app, with one worker",
        _run_serve,
        (
            option("--host", help="where to listen"),
            option("--port", type=int, help="the port; 0 takes a free one"),
            option("--processes", type=int, help="API processes; more than 1 needs PostgreSQL"),
            option("--no-worker", action="store_true", help="serve without a worker (PostgreSQL)"),
            option("--handle", type=int, help="an open listening socket, from a parent process"),
        ),
    ),
    Command(
        "worker",
        "run automations and the scheduler (PostgreSQL)",
        _run_worker,
        (option("--concurrency", type=int, help="how many runs to execute concurrently"),),
    ),
    Command(
        "demo",
        "serve a sample organization with fake platforms",
        _run_demo,
        (
            option("--host", default=_LOOPBACK, help="where to listen"),
            option(
                "--port", type=int, default=8400, help="the port; the fake platforms listen on the next one"
            ),
            option("--dir", default="./steward-demo", help="where the data is kept"),
            option("--reset", action="store_true", help="delete the data first"),
        ),
        _words_of_demo,
    ),
    Command(
        "sandbox",
        "serve fake platforms: shop, spreadsheets, messages, mail, bucket",
        _run_sandbox,
        (
            option("--host", default=_LOOPBACK, help="where to listen"),
            option("--port", type=int, required=True, help="the port; 0 takes a free one"),
            option("--seed", type=int, default=1, help="the same seed gives the same data"),
            option("--slow", help="seconds the fake shop takes for an object and a full page, such as 2-20"),
        ),
    ),
]
