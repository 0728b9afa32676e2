"""The repository's documents as the checks read them: headings, links, and citations in the code."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.source import ROOT, kept_files, name_of

_READ_BESIDE = frozenset({"README.md", "CONTRIBUTING.md", "SECURITY.md", "bench/README.md", "web/README.md"})
_CITING_FOLDERS = ("steward/", "tests/", "bench/", "web/src/")
_CITING_SUFFIXES = frozenset({".py", ".sql", ".js", ".ts", ".svelte", ".css"})
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
_CODE = re.compile(r"`[^`\n]*`")
_NAMED_PATH = re.compile(r"`((?:steward|tests|docs|bench|web)/[\w./-]+)`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_CITATION = re.compile(r"(?<![\w./])(docs/[\w./-]+?\.md(?:#[\w-]+)?|CONTRIBUTING\.md#[\w-]+)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.M)
_NOT_IN_A_SLUG = re.compile(r"[^\w\- ]")


@cache
def _built_paths() -> tuple[str, ...]:
    """Returns the paths that git ignores, each with a slash: commands build them, a clone has none."""
    lines = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    return tuple(f"{line.strip('/')}/" for line in lines if line.startswith("/"))


def documents() -> list[Path]:
    """Every document whose links are checked."""
    return [
        path
        for path in kept_files()
        if path.suffix == ".md" and (name_of(path).startswith("docs/") or name_of(path) in _READ_BESIDE)
    ]


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a document's headings, by GitHub's rules; a repeated heading gets `-1`, `-2` …"""
    repeats: Counter[str] = Counter()
    slugs = set()
    for heading in _HEADING.findall(_FENCE.sub("", path.read_text("utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = _NOT_IN_A_SLUG.sub("", text.lower()).replace(" ", "-")
        slugs.add(f"{slug}-{repeats[slug]}" if repeats[slug] else slug)
        repeats[slug] += 1
    return frozenset(slugs)


def links(path: Path) -> Iterator[str]:
    """The targets of a document's links within the repository, code left out."""
    text = _CODE.sub("``", _FENCE.sub("", path.read_text("utf-8")))
    for target in _LINK.findall(text):
        if not re.match(r"[a-z]+:", target):
            yield target


def named_paths(path: Path) -> list[str]:
    """The paths from the root that a document names in code spans."""
    return _NAMED_PATH.findall(_FENCE.sub("", path.read_text("utf-8")))


def citations() -> Iterator[tuple[Path, str]]:
    """Every document that a source file cites by its path from the root, with the file."""
    for path in kept_files():
        if path.suffix in _CITING_SUFFIXES and name_of(path).startswith(_CITING_FOLDERS):
            for target in _CITATION.findall(path.read_text("utf-8")):
                yield path, target


def problem(target: str, folder: Path) -> str | None:
    """Why a target, read from `folder`, leads nowhere; None when it leads somewhere."""
    name, _, anchor = target.partition("#")
    path = (folder / name).resolve()
    relative = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else name
    if f"{relative}/".startswith(_built_paths()):
        return None
    if not path.exists() or not path.is_relative_to(ROOT):
        return f"there is no {relative}"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return f"{relative} has no heading #{anchor}"
    return None
