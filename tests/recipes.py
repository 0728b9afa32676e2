"""Reads the recipes of CONTRIBUTING.md and carries them out in a copy of the repository.

A recipe is a `###` heading under `## Recipes`. The line that opens a code block says what it is:
`python file=PATH` is a new file, `python file=PATH after="TEXT"` goes after the one line of the file that
holds the text, and `sh` is run.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.source import ROOT, kept_files, name_of

_RECIPES = re.compile(r"^## Recipes\n(.*?)(?=^## |\Z)", re.M | re.S)
_HEADING = re.compile(r"^### (.+)$", re.M)
_PYTEST = "python -m pytest -q "
_COMPONENT = re.compile(r"""(?:from |import\()["'](\.[^"']+\.svelte)["']""")
_BLOCK = re.compile(r"^```(?P<opening>\S[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)
# What set-up makes and the repository does not hold: linked, not copied.
_CREATED_FILES = (
    "steward/static",
    "steward/sandbox/built",
    "steward/connectors/shopify/built",
    "web/node_modules",
    "web/openapi.json",
    "web/src/api/schema.d.ts",
    ".cache",
)
_NEEDED_BY_WEB = ("web/node_modules", "web/src/api/schema.d.ts")
# What `make web-check` keeps of its last check: the next one checks the components that differ.
_CHECKED_TYPES = "web/.svelte-check"


@dataclass(frozen=True, slots=True)
class Block:
    """One code block: a file to make, text to add to one, or commands to run."""

    language: str
    file: str | None
    after: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """A heading of the recipes and its blocks, in order."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def files(self) -> set[str]:
        """The files that the recipe touches."""
        return {block.file for block in self.blocks if block.file is not None}


def recipes() -> Iterator[Recipe]:
    """Yields the recipes of CONTRIBUTING.md."""
    section = _RECIPES.search((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    parts = _HEADING.split(section[1] if section else "")[1:]
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        yield Recipe(title, tuple(_block(match) for match in _BLOCK.finditer(text)))


def _block(match: re.Match[str]) -> Block:
    language, *options = shlex.split(match["opening"])
    named = dict(option.split("=", 1) for option in options)
    return Block(language, named.get("file"), named.get("after"), match["text"])


def copy_repository(folder: Path) -> None:
    """Copies every kept file to `folder`, with what Python compiled of it, and links what set-up made."""
    for path in kept_files():
        compiled = path.parent.glob(f"__pycache__/{path.stem}.*.pyc") if path.suffix == ".py" else ()
        for source in (path, *compiled):
            target = folder / name_of(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)  # with its time, by which Python knows that it is the same
    for name in _NEEDED_BY_WEB:
        assert (ROOT / name).exists(), f"{name} is missing, which the web app's check needs: run `make types`"
    for name in _CREATED_FILES:
        if (ROOT / name).is_dir():
            (folder / name).symlink_to(ROOT / name)
        elif (ROOT / name).exists():  # TypeScript would follow a link out of the copy
            shutil.copyfile(ROOT / name, folder / name)
    if (ROOT / _CHECKED_TYPES).is_dir():  # the copy's own check writes there
        shutil.copytree(ROOT / _CHECKED_TYPES, folder / _CHECKED_TYPES)


def carry_out(carried: Sequence[Recipe], folder: Path) -> None:
    """Applies all `carried` recipes to a copy of the repository, lints their files and runs their commands.

    The suites that recipes name run in one pytest process. A command that fails fails the test.
    """
    blocks = [block for recipe in carried for block in recipe.blocks]
    for block in blocks:
        if block.file is not None:
            _write(block, folder / block.file)
            _check_components(block.text, folder / block.file)
    python = shlex.join(sorted({block.file for block in blocks if block.file and block.language == "python"}))
    _run(f"ruff check {python}\nruff format --diff {python}", folder)
    scripts = [block.text for block in blocks if block.file is None and block.language == "sh"]
    suites = [script.removeprefix(_PYTEST).strip() for script in scripts if script.startswith(_PYTEST)]
    for script in scripts:
        if not script.startswith(_PYTEST):
            _run(script, folder)
    _run(_PYTEST + " ".join(dict.fromkeys(" ".join(suites).split())), folder)


def _write(block: Block, path: Path) -> None:
    if block.after is None:
        assert not path.exists(), f"{block.file} is there already: name a line to insert after"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, "utf-8")
        return
    lines = path.read_text("utf-8").splitlines(keepends=True)
    matching = [number for number, line in enumerate(lines) if block.after in line]
    assert len(matching) == 1, f"{block.file}: {len(matching)} lines hold {block.after!r}"
    lines.insert(matching[0] + 1, block.text)
    path.write_text("".join(lines), "utf-8")


def _check_components(text: str, path: Path) -> None:
    """Asserts that the components that a recipe imports exist, which svelte-check leaves to the build."""
    missing = [name for name in _COMPONENT.findall(text) if not (path.parent / name).is_file()]
    assert missing == [], f"{path.name} imports components that do not exist"


def _run(script: str, folder: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    finished = subprocess.run(
        ["sh", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, f"{script}\n{finished.stdout[-4000:]}\n{finished.stderr[-4000:]}"
