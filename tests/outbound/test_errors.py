"""A call's error carries its class and its waiting time as attributes, and so does the outcome of a write."""

import ast

import pytest

from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.outbound.errors import (
    CallError,
    ErrorKind,
    Invalid,
    NotSent,
    OutcomeUnknown,
    PlatformUnavailable,
    RemoteNotFound,
    Throttled,
    Unauthorized,
)
from tests.source import name_of, python_files, tree_of


def test_every_class_has_a_kind_and_every_kind_a_class() -> None:
    """Subclasses of a class are told apart by type alone."""
    kinds = [item.kind for item in CallError.__subclasses__()]
    assert sorted(kinds) == sorted(ErrorKind)


def test_every_error_names_its_wait_or_null() -> None:
    assert Throttled(7.0).wait_s == 7.0
    assert PlatformUnavailable(wait_s=600.0).wait_s == 600.0
    assert PlatformUnavailable().wait_s is None
    assert RemoteNotFound().wait_s is None
    assert Invalid(["price"]).wait_s is None


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [(Throttled(7.0), 7.0), (PlatformUnavailable(wait_s=600.0), 600.0), (Unauthorized(), None)],
)
def test_an_unsent_error_keeps_its_class_and_wait(error: CallError, wait_s: float | None) -> None:
    outcome = WriteOutcome.of_failure(NotSent(error))
    assert (outcome.state, outcome.error, outcome.wait_s) == (WriteState.NOT_SENT, error.kind, wait_s)


def test_an_unknown_outcome_names_no_wait() -> None:
    """Looks at once for what may have been done, whatever pause the response names."""
    outcome = WriteOutcome.of_failure(OutcomeUnknown(PlatformUnavailable(wait_s=600.0)))
    assert (outcome.state, outcome.error, outcome.wait_s) == (WriteState.UNKNOWN, "unavailable", None)


def test_a_refused_value_names_its_field() -> None:
    outcome = WriteOutcome.of_error(WriteState.REFUSED, Invalid({"price": "too low"}))
    assert (outcome.field, outcome.error) == ("price", ErrorKind.INVALID)


def test_nobody_asks_an_error_for_an_attribute_by_name_or_searches_its_message() -> None:
    """Both hide from the type checker that a class of errors lost what was looked for."""
    wrong = []
    for path in python_files("steward"):
        text = path.read_text("utf-8")
        if "wait_s" not in text and ".message" not in text and ".reason" not in text:
            continue
        for node in ast.walk(tree_of(path)):
            searches = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn)
            if _asks_by_name(node) or (searches and _is_message(node.comparators[0])):
                wrong.append(f"{name_of(path)}:{getattr(node, 'lineno', 0)}")
    assert wrong == []


def _asks_by_name(node: ast.AST) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"
    return called and ast.unparse(node).partition(", ")[2].startswith("'wait_s'")


def _is_message(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("message", "reason")
