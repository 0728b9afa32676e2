"""The commands serve, worker and demo; serve.py and demo.py run them."""

from argparse import SUPPRESS
from pathlib import Path

from steward.cli import demo, serve
from steward.cli.command import CliArgs, Command, CommandFailed, Facts, option, whole
from steward.cli.demo import DemoOptions
from steward.cli.serve import CannotServe, ServeOptions
from steward.security.envelope import CannotOpen

_LOOPBACK = "127.0.0.1"


async def _run_serve(args: CliArgs) -> None:
    """Runs the API, the web app and one worker until a signal."""
    options = args.options
    chosen = ServeOptions(
        options.host, options.port, options.processes, not options.no_worker, options.handle, args.env_file
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


def _wrong_keys() -> CommandFailed:
    message = "The database's keys were wrapped by a master key that STEWARD_MASTER_KEYS does not contain."
    return CommandFailed("wrong_master_keys", message)


def _words_of_demo(facts: Facts) -> str:
    """Returns the output of `demo` without --json."""
    return demo.in_words(facts)


COMMANDS = [
    Command(
        "serve",
        _run_serve,
        (
            option("--host", help="where to listen"),
            option("--port", type=whole(0, 65_535), help="the port; 0 takes a free one"),
            option("--processes", type=whole(1, 64), help="API processes; more than 1 needs PostgreSQL"),
            option("--no-worker", action="store_true", help="serve without a worker (PostgreSQL)"),
            option("--handle", type=int, help=SUPPRESS),
        ),
    ),
    Command(
        "worker",
        _run_worker,
        (option("--concurrency", type=whole(1, 1000), help="how many runs to execute concurrently"),),
    ),
    Command(
        "demo",
        _run_demo,
        (
            option("--host", default=_LOOPBACK, help="where to listen"),
            option(
                "--port",
                type=whole(1, 65_534),
                default=8400,
                help="the port; the fake platforms listen on the next one",
            ),
            option("--dir", default="./steward-demo", help="where the data is kept"),
            option("--reset", action="store_true", help="delete the data first"),
        ),
        _words_of_demo,
    ),
]
