"""Makes docs/interface-coverage.md: each statement of the interface with the tests that cite it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.interface_statements import STATEMENTS, Statement
from tests.source import ROOT, functions, name_of, python_files

PAGE = ROOT / "docs/interface-coverage.md"
_CITED = re.compile(r"Interface statements: (.*)\.$")
_SECTION = re.compile(r"([0-9](?:\.[0-9])?) (.*)")


def citations(docstring: str) -> Iterator[tuple[str, str]]:
    """Yields the section and word of each statement that a docstring's last lines cite."""
    plain = " ".join(docstring.split())
    if cited := _CITED.search(plain):
        for part in cited[1].split("; "):
            if section := _SECTION.fullmatch(part):
                yield from ((section[1], word) for word in section[2].split(", "))


def covered() -> dict[Statement, list[str]]:
    """Returns for every statement the tests that cite it, as `file::test`."""
    tests: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in python_files("tests"):
        for node in functions(path):
            if node.name.startswith("test_"):
                for citation in citations(ast.get_docstring(node) or ""):
                    tests[citation].add(f"{name_of(path)}::{node.name}")
    return {statement: sorted(tests[statement.section, statement.word]) for statement in STATEMENTS}


def page() -> str:
    """The page as it should stand."""
    lines = [
        "# The interface and its tests",
        "",
        "Made by `make docs` from `tests/interface_statements.py` and the docstrings of the tests, which",
        "cite a statement by section and word. A row without a test fails the build.",
    ]
    section = ""
    for statement, tests in sorted(covered().items(), key=lambda item: _sort_key(item[0])):
        if statement.section != section:
            section = statement.section
            lines += ["", f"## Interface {section}", "", "| Word | Statement | Tests |", "| - | - | - |"]
        named = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests)
        lines.append(f"| {statement.word} | {statement.says} | {named} |")
    return "\n".join(lines) + "\n"


def _sort_key(statement: Statement) -> tuple[float, int]:
    return float(statement.section), STATEMENTS.index(statement)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
