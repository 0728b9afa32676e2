"""Every statement of the interface has a test that cites it, and the page saying so is current (issue 4)."""

import pytest

from tests.interface_coverage import PAGE, citations, covered, page
from tests.interface_statements import STATEMENTS


def test_every_statement_has_a_test_that_cites_it() -> None:
    """issue 4, bars: no empty row"""
    empty = [
        f"interface {statement.section} {statement.word}: {statement.says}"
        for statement, tests in covered().items()
        if not tests
    ]
    assert empty == []


def test_the_page_of_the_coverage_is_the_one_made_now() -> None:
    """issue 4, bars: docs/interface-coverage.md is generated; `make docs` makes it anew"""
    assert PAGE.read_text("utf-8") == page()


def test_each_statement_is_cited_by_one_word_of_its_own() -> None:
    """issue 4, bars: a citation means one statement"""
    keys = [(statement.section, statement.word) for statement in STATEMENTS]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("interface 4.2 rule 2", [("4.2", " rule 2")]),
        ("Interface 2.3: version,\n    name; contract 2.2 kind", [("2.3", ": version, name; ")]),
        ("contract 5.4; interface 7 off; interface 9", [("7", " off; "), ("9", "")]),
        ("the interface of connectors", []),
    ],
)
def test_a_docstring_is_read_up_to_its_next_source(docstring: str, found: list[tuple[str, str]]) -> None:
    """issue 4, bars"""
    assert list(citations(docstring)) == found
