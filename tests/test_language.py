"""The code speaks the language of its field: names, docstrings, citations and commit headings, counted."""

import re
import subprocess

import pytest

from tests.language import (
    complex_functions,
    docstrings,
    doubled_classes,
    files_of_folders,
    names_of_one_file,
    unknown_exceptions,
    vague_names,
    vague_web_names,
)
from tests.source import ROOT, imports, name_of, python_files

# Folders whose files are the entries of one list.
LISTS = {"steward/templates", "steward/steps/n8n/nodes"}
# A citation of a document that is not in the repository: its name and a section number, or E and a number.
_FOREIGN_CITATION = re.compile(
    r"\b(engine|contract|interface|safety|imports|templates|connectors|schedule|web|house) \d+(\.\d+)*\b"
    r"|\bE\d+\b"
)
_PRIVATE_PHRASE = re.compile(r"\b(whoever|by and by|stands? in the way|(in|than) the origin(?! of))\b", re.I)
_HEADING = re.compile(r"[\w./-]+( [\w./-]+)?: [a-z]|Merge |Revert ")


@pytest.mark.parametrize("folder", ["steward", "tests", "bench"])
def test_names_say_what_the_value_is(folder: str) -> None:
    """Fewer than 1 % of the names that a folder binds are words like `found`, `one` or `given`."""
    vague, total = vague_names(folder)
    assert len(vague) < total / 100, "\n".join(vague)


def test_names_of_the_web_app_say_what_the_value_is() -> None:
    """Fewer than 1 % of the variables, functions and list elements of web/src have such words as names."""
    vague, total = vague_web_names()
    assert total > 1_000
    assert len(vague) < total / 100, "\n".join(vague)


def test_no_public_class_name_stands_for_two_classes() -> None:
    """A reader who finds a class by its name has found the only one."""
    assert doubled_classes("steward") == {}


def test_names_used_in_one_file_are_private() -> None:
    """A function or constant without a leading `_` is used by the code of another file."""
    assert names_of_one_file("steward") == []


def test_few_functions_have_a_complexity_over_ten() -> None:
    """At most 15 of 1,000 functions of steward/ do."""
    over, total = complex_functions("steward", limit=10)
    assert len(over) * 1000 <= 15 * total, "\n".join(over)


def test_no_folder_holds_more_than_25_files() -> None:
    """Folders whose files are the entries of one list may."""
    counts = files_of_folders("steward")
    assert {name: count for name, count in counts.items() if count > 25 and name not in LISTS} == {}


def test_no_module_imports_more_than_30_others() -> None:
    """Not even the application and the worker, which wire the parts together."""
    over = {}
    for path in python_files("steward"):
        modules = {name for name in imports(path) if _is_module(name)}
        if len(modules) > 30 and path.name != "__init__.py":
            over[name_of(path)] = len(modules)
    assert over == {}


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return name.startswith("steward.") and path.with_suffix(".py").exists()


def test_docstrings_begin_with_one_short_sentence() -> None:
    """The first line is a sentence of at most 100 characters in all but 2 % of them."""
    texts = list(docstrings("steward"))
    faults = [
        f"{location} {text.splitlines()[0]}"
        for location, text in texts
        if len(text.splitlines()[0]) > 100 or not re.search(r"[.:!?`)]$", text.splitlines()[0])
    ]
    assert len(faults) * 50 < len(texts), "\n".join(faults)


def test_docstrings_cite_only_what_is_in_the_repository() -> None:
    """Citations are paths with anchors; tests/test_docs.py resolves them."""
    faults = [
        f"{location} {match.group(0)}"
        for location, text in docstrings("steward", "tests", "bench")
        if (match := _FOREIGN_CITATION.search(text))
    ]
    assert faults == []


def test_docstrings_raise_exceptions_that_exist() -> None:
    """What a docstring says is raised is a class of the repository, of Python, or of the file's imports."""
    assert unknown_exceptions("steward", "tests", "bench") == []


def test_docstrings_use_no_private_phrases() -> None:
    """Those are named here that readers stumbled over."""
    faults = [
        f"{location} {match.group(0)}"
        for location, text in docstrings("steward", "tests", "bench")
        if (match := _PRIVATE_PHRASE.search(text))
    ]
    assert faults == []


def test_commit_headings_name_the_part_and_are_short() -> None:
    """From the commit that added this file on; an archive without history has none to check."""
    added = _git("log", "--diff-filter=A", "--format=%H", "--", "tests/test_language.py").split()
    headings = _git("log", "--no-merges", "--format=%s", f"{added[-1]}..HEAD").splitlines() if added else []
    faults = [heading for heading in headings if len(heading) > 72 or not _HEADING.match(heading)]
    assert faults == []


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
