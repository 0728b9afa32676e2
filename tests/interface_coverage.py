"""Makes docs/interface-coverage.md: each statement of the interface with the tests that cite it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.interface_statements import STATEMENTS, Statement
from tests.source import ROOT, functions, name_of, python_files

PAGE = ROOT / "docs/interface-coverage.md"
_CITED = re.compile(r"\binterface ([0-9](?:\.[0-9])?)\b", re.IGNORECASE)
# Where what is said of one section ends: at the next source.
_NEXT = re.compile(
    r"\b(interface [0-9]|contract [0-9]|safety [0-9]|engine [0-9]|schedule\.md|issue [0-9])", re.I
)


def citations(docstring: str) -> Iterator[tuple[str, str]]:
    """The sections a docstring cites, each with the words said of it."""
    plain = " ".join(docstring.split())
    for found in _CITED.finditer(plain):
        rest = plain[found.end() :]
        end = _NEXT.search(rest)
        yield found[1], rest[: end.start()] if end else rest


def covered() -> dict[Statement, list[str]]:
    """For every statement the tests that cite it, as `file::test`."""
    said: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in python_files("tests"):
        for node in functions(path):
            if node.name.startswith("test_"):
                for section, words in citations(ast.get_docstring(node) or ""):
                    said[section].append((words, f"{name_of(path)}::{node.name}"))
    return {statement: sorted(set(_citing(statement, said))) for statement in STATEMENTS}


def _citing(statement: Statement, said: dict[str, list[tuple[str, str]]]) -> Iterator[str]:
    """A word counts where it stands alone: `run` is not cited by `run_at`."""
    word = re.compile(rf"(?<![\w-]){re.escape(statement.word)}(?![\w-])")
    for words, test in said[statement.section]:
        if word.search(words):
            yield test


def page() -> str:
    """The page as it should stand."""
    lines = [
        "# The interface and its tests",
        "",
        "Made by `make docs` from `tests/interface_statements.py` and the docstrings of the tests, which",
        "cite a statement by section and word. A row without a test fails the build.",
    ]
    section = ""
    for statement, tests in sorted(covered().items(), key=lambda item: _place(item[0])):
        if statement.section != section:
            section = statement.section
            lines += ["", f"## Interface {section}", "", "| Word | Statement | Tests |", "| - | - | - |"]
        named = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests)
        lines.append(f"| {statement.word} | {statement.says} | {named} |")
    return "\n".join(lines) + "\n"


def _place(statement: Statement) -> tuple[float, int]:
    return float(statement.section), STATEMENTS.index(statement)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
