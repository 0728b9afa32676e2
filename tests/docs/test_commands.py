"""Commands shown in the README and the guides name targets, files, commands and options that there are."""

import re
import shlex
import tomllib
from collections.abc import Iterator

import pytest
import yaml

from steward.cli.table import commands
from tests.source import ROOT, kept_files, name_of

PAGES = [path for path in kept_files() if re.fullmatch(r"README\.md|docs/guides/.*\.md", name_of(path))]
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
_SETTING = re.compile(r"[A-Z_]+=\S+")
# Programs of the machine: what they are given that belongs to Steward is checked.
OF_THE_MACHINE = {"cd", "cp", "systemctl", "apt-get", "openssl", "chmod", "mkdir"}


def lines() -> Iterator[tuple[str, str]]:
    """Each line of each `sh` block: where it stands, and the command without its comment."""
    for path in PAGES:
        for block in _BLOCK.findall(path.read_text("utf-8")):
            for line in block.splitlines():
                if words := shlex.split(line, comments=True):
                    yield name_of(path), shlex.join(words)


def check_steward(words: list[str]) -> None:
    """Fails unless the words begin a command of Steward and its options are that command's."""
    given = [word for word in words if not word.startswith("-")]
    known = [
        command
        for command in commands(given[0])
        if given[: len(command.name.split())] == command.name.split()
    ]
    assert len(known) == 1, words
    names = {name for argument in known[0].arguments for name in argument.names}
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert options <= {*names, "--env-file", "--json"}, words


def check_compose(words: list[str]) -> None:
    """Fails unless the file is there and what is run is a service of it with a command of Steward."""
    services = yaml.safe_load((ROOT / words[words.index("-f") + 1]).read_text("utf-8"))["services"]
    if "run" in words:
        service, *command = [word for word in words[words.index("run") + 1 :] if word != "--rm"]
        assert service in services
        check_steward(command)


def check(words: list[str]) -> None:
    """Fails for a command that names what is not there."""
    program, *rest = words
    if program == "make":
        targets = re.findall(r"^([a-z0-9_-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.M)
        assert {word for word in rest if "=" not in word} <= set(targets)
    elif program in ("uvx", "pipx", "steward"):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        name = rest[0] if program == "uvx" else program
        assert program == "pipx" or name in project["scripts"]
        check_steward(rest[1:] if program == "uvx" else rest)
    elif program == "podman" and rest[0] == "compose":
        check_compose(rest)
    elif program.endswith("python"):
        assert rest[:2] == ["-m", "pytest"]
        assert all((ROOT / word).exists() for word in rest if word.startswith("tests/"))
    else:
        assert program in OF_THE_MACHINE, words
        sources = [word for word in rest if word.startswith("deploy/")]
        assert all(list(ROOT.glob(source)) for source in sources), words


@pytest.mark.parametrize(("page", "line"), sorted(set(lines())))
def test_a_command_that_is_shown_exists(page: str, line: str) -> None:
    """Its program, target or subcommand, its options, and the files of the repository that it names."""
    words = shlex.split(line)
    while _SETTING.fullmatch(words[0]):
        words.pop(0)
    check(words)
