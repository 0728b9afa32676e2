"""Every statement of the interface has a test that cites it, and the page that lists them is current."""

import ast

from tests.interface_coverage import PAGE, citations, covered, page
from tests.interface_statements import STATEMENTS
from tests.source import functions, python_files


def test_every_statement_has_a_test_that_cites_it() -> None:
    """The page has no empty row."""
    empty = [
        f"interface {statement.section} {statement.word}: {statement.says}"
        for statement, tests in covered().items()
        if not tests
    ]
    assert empty == []


def test_the_page_of_the_coverage_is_the_one_made_now() -> None:
    """docs/interface-coverage.md is generated; `make docs` makes it again."""
    assert PAGE.read_text("utf-8") == page()


def test_each_statement_is_cited_by_one_word_of_its_own() -> None:
    """A citation means one statement."""
    keys = [(statement.section, statement.word) for statement in STATEMENTS]
    assert len(set(keys)) == len(keys)


def test_a_docstring_cites_statements_in_its_last_lines() -> None:
    """Sections are separated by semicolons, words of one section by commas."""
    docstring = "A sentence.\n\nInterface statements: 2.3 version,\nname; 7 absent."
    assert list(citations(docstring)) == [("2.3", "version"), ("2.3", "name"), ("7", "absent")]
    assert list(citations("The interface of connectors.")) == []


def test_a_citation_of_no_statement_is_a_fault() -> None:
    """A misspelt word would cover nothing."""
    known_items = {(statement.section, statement.word) for statement in STATEMENTS}
    cited = {
        citation
        for path in python_files("tests")
        for node in functions(path)
        if node.name.startswith("test_")
        for citation in citations(ast.get_docstring(node) or "")
    }
    assert cited - known_items == set()
