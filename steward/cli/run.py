"""Parses the command line, runs one command and prints its result as text or JSON; exits 0, 1 or 2."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn, TextIO

import uvloop

from steward.cli.command import CliArgs, Command, CommandFailed, Facts, WrongUsage, read_settings
from steward.cli.env_file import MissingPath, without_shared
from steward.cli.table import commands, descriptions
from steward.config import SettingsError
from steward.database.engine.migrate import SchemaDiffers
from steward.database.engine.sqlite import AlreadyServed
from steward.model.refusals import Refusal
from steward.version import __version__

DONE, FAILED, USAGE = 0, 1, 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongUsage(f"{message}. Try: {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    return run(sys.argv[1:] if argv is None else argv, os.environ, out=sys.stdout, err=sys.stderr)


def run(argv: Sequence[str], environ: Mapping[str, str], *, out: TextIO, err: TextIO) -> int:
    """Runs the command line with its environment and output streams, and returns the exit code."""
    as_json = "--json" in argv
    try:
        other_arguments, env_file = without_shared(argv)
        command, options = _parse(other_arguments)
        args = CliArgs(
            options,
            lambda: read_settings(environ, env_file),
            lambda facts: _say(facts, as_json, out, command),
            environ,
            env_file,
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            facts = runner.run(_call(command, args))
        if facts is not None:
            _say(facts, as_json, out, command)
        return DONE
    except (WrongUsage, MissingPath) as error:
        return _fail("usage", str(error), USAGE, as_json=as_json, out=out, err=err)
    except SettingsError as error:
        return _fail("settings", " ".join(error.problems), USAGE, as_json=as_json, out=out, err=err)
    except CommandFailed as error:
        facts = error.facts
        if facts is not None and not as_json:
            _say(facts, as_json, out, command)
        return _fail(error.code, error.message, FAILED, as_json=as_json, out=out, err=err, facts=facts)
    except KeyboardInterrupt:
        return FAILED


async def _call(command: Command, args: CliArgs) -> Facts | None:
    try:
        return await command.run(args)
    except Refusal as refusal:
        raise CommandFailed(refusal.code, refusal.message) from refusal
    except SchemaDiffers as error:
        raise CommandFailed("schema_differs", str(error)) from error
    except AlreadyServed as error:
        raise CommandFailed("already_served", str(error)) from error
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise CommandFailed("unavailable", f"{name}{error.strerror or error}.") from error


def _parse(argv: Sequence[str]) -> tuple[Command, argparse.Namespace]:
    parser = _Parser(prog="steward", description="Self-hosted automations for merchants.")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--env-file", metavar="PATH", help="read settings from this file too")
    parser.add_argument(
        "--version", action="version", version=f"steward {__version__}", help="print the version"
    )
    groups = {"": parser.add_subparsers(metavar="COMMAND", required=True)}
    runnable = commands(next((word for word in argv if not word.startswith("-")), None))
    commands_by_name = {command.name: command for command in runnable}
    texts = descriptions()
    for name, text in texts.items():
        *before, last = name.split()
        subparser = _group(groups, before, texts).add_parser(last, help=text, description=text)
        if name in commands_by_name:
            command = commands_by_name[name]
            for argument in command.arguments:
                subparser.add_argument(*argument.names, **argument.options)
            subparser.set_defaults(command=command)
    options = parser.parse_args(argv)
    chosen: Command = options.command
    return chosen, options


def _group(
    groups: "dict[str, argparse._SubParsersAction[_Parser]]", words: Sequence[str], names: Iterable[str]
) -> "argparse._SubParsersAction[_Parser]":
    """Returns the sub-commands of `words`, creating them on first use."""
    path = " ".join(words)
    if path not in groups:
        parent = _group(groups, words[:-1], names)
        last_words = [name.removeprefix(f"{path} ") for name in names if name.startswith(f"{path} ")]
        parser = parent.add_parser(words[-1], help=", ".join(last_words))
        groups[path] = parser.add_subparsers(metavar="COMMAND", required=True)
    return groups[path]


def _say(facts: Facts, as_json: bool, out: TextIO, command: Command) -> None:
    if as_json:
        text = json.dumps(facts, ensure_ascii=False)
    else:
        text = command.in_words(facts) if command.in_words else "\n".join(_words(facts))
    out.write(text + "\n")
    out.flush()


def _words(facts: object, indent: str = "") -> list[str]:
    """Returns the facts as text, one line each, with records indented."""
    if isinstance(facts, Mapping):
        lines = []
        for name, value in facts.items():
            label = str(name).replace("_", " ")
            if isinstance(value, Mapping | list | tuple) and value:
                lines += [f"{indent}{label}:", *_words(value, indent + "  ")]
            else:
                lines.append(f"{indent}{label}: {_plain(value)}")
        return lines
    if isinstance(facts, list | tuple):
        lines = []
        for value in facts:
            inner = _words(value, indent + "  ")
            lines += [f"{indent}- {inner[0].strip()}", *inner[1:]] if inner else []
        return lines
    return [f"{indent}{_plain(facts)}"]


def _plain(value: object) -> str:
    if value is None or value in ([], {}, ()):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _fail(
    code: str,
    message: str,
    status: int,
    *,
    as_json: bool,
    out: TextIO,
    err: TextIO,
    facts: Facts | None = None,
) -> int:
    if as_json:
        error = {**(facts or {}), "error": {"code": code, "message": message}}
        out.write(json.dumps(error, ensure_ascii=False) + "\n")
    else:
        err.write(f"steward: {message}\n")
    return status
