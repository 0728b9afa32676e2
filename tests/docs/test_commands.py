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
# The lines that a test executes as they are printed, and the test.
EXECUTED = {
    "steward init": "tests/docs/test_examples.py",
    "steward serve --env-file steward-data/steward.env": "tests/docs/test_examples.py",
}
# The lines that no test of a commit executes: why not, and where what they start is tested.
NOT_EXECUTED = {
    "uvx steward-automations demo": "needs the package in an index; tests/deploy/test_wheel.py installs it",
    "cd steward": "says where the next line is run",
    "make test": "is what runs these tests",
    "make demo": "builds into the checkout; tests/docs/test_examples.py starts the same demo",
    "STEWARD_DATABASE_URL=sqlite:////var/lib/steward/steward.db steward init --data-dir /etc/steward": (
        "writes into the machine; tests/cli/test_init.py runs it in a folder of its own"
    ),
    "cp deploy/systemd/steward.service 'deploy/systemd/steward-backup.*' /etc/systemd/system/": (
        "writes into the machine; tests/deploy/test_units.py checks the units"
    ),
    "systemctl enable --now steward.service steward-backup.timer": (
        "needs systemd; tests/deploy/test_units.py checks the units"
    ),
    "podman compose -f deploy/compose/compose.sqlite.yaml run --rm steward init": (
        "needs an image; tests/deploy/test_image.py runs the service by hand"
    ),
    "podman compose -f deploy/compose/compose.sqlite.yaml up --detach": (
        "needs an image; tests/deploy/test_image.py runs the service by hand"
    ),
}
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
    positional_words = [word for word in words if not word.startswith("-")]
    known_items = [
        command
        for command in commands(positional_words[0])
        if positional_words[: len(command.name.split())] == command.name.split()
    ]
    assert len(known_items) == 1, words
    names = {name for argument in known_items[0].arguments for name in argument.names}
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


def test_a_line_is_executed_or_says_why_not() -> None:
    """Each line is in one of both tables, and the tests that these name exist."""
    shown_lines = {line for _, line in lines()}
    assert not EXECUTED.keys() & NOT_EXECUTED.keys()
    assert shown_lines == EXECUTED.keys() | NOT_EXECUTED.keys()
    named = {*EXECUTED.values(), *re.findall(r"tests/\S+\.py", " ".join(NOT_EXECUTED.values()))}
    assert [path for path in named if not (ROOT / path).exists()] == []
