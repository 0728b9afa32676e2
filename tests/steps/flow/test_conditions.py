"""Tests every operator of a flow's conditions, also with missing values.

See docs/design/imports-shopify-flow.md#conditions.
"""

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.model.json import JsonValue
from steward.steps.shopify_flow.conditions import compared, holds
from steward.steps.shopify_flow.environment import FlowVariables
from steward.steps.workflow.step_types import ItemFailed, UnknownInTest

ZONE = ZoneInfo("America/New_York")
TYPES = (None, "Int", "Date", "DateTime", "Boolean", "String", "Color")
# Each operator with its negation; `>` has none.
OPERATORS = {
    "==": "!=",
    "start_with?": "not_start_with?",
    "end_with?": "not_end_with?",
    "include?": "not_include?",
    "in?": "not_in?",
    "empty_or_nil?": "not_empty_and_not_nil?",
    "nil?": "not_nil?",
    ">": ">",
}
TRUE: list[tuple[JsonValue, str, JsonValue, str | None]] = [
    ("Berlin", "==", "BERLIN", "String"),
    ("Straße", "==", "STRASSE", "String"),
    ("ACTIVE", "==", "active", "ProductStatus"),
    (None, "==", None, None),
    ("", "!=", None, "String"),
    (None, "!=", "x", "String"),
    (True, "==", "true", "Boolean"),
    (False, "!=", "true", "Boolean"),
    ("500.00", "==", "500", "Decimal"),
    ("500.00", "==", "500", None),
    ("007", "!=", "7", None),
    ("1e3", "!=", "1000", None),
    (9, "<", "10", "Int"),
    ("9", ">", "10", "String"),
    ("9.5", "<", "10", None),
    ({"amount": "12.50", "currencyCode": "EUR"}, ">=", "12.5", "Money"),
    (2**60 + 1, ">", str(2**60), "UnsignedInt64"),
    ("2026-03-01T10:00:00Z", "<", "2026-03-01T06:00:00", "DateTime"),
    ("2026-03-01T03:00:00Z", "==", "2026-02-28", "Date"),
    ("2026-03-01T10:00:00Z", "<=", "2026-03-01T10:00:00+00:00", "DateTime"),
    ("2026-03-01T10:00:00Z", ">", "2026-03-01T12:00:00+05:00", None),
    ("2026-03-01T10:00:00Z", "==", "2026-03-01T15:00:00+05:00", None),
    ("2026-03-01", "!=", "2026-03-01 ", None),
    ("Gift card", "start_with?", "gift", "String"),
    ("Gift card", "end_with?", "CARD", "String"),
    ("Gift card", "include?", "t C", "String"),
    ("Gift card", "not_start_with?", "card", "String"),
    ("Gift card", "not_end_with?", "gift", "String"),
    ("Gift card", "not_include?", "x", "String"),
    (None, "not_start_with?", "a", "String"),
    (None, "not_include?", "a", "String"),
    (None, "not_in?", "a,b", "String"),
    (["VIP", "new"], "include?", "vip", "String"),
    (["VIP"], "not_include?", "vi", "String"),
    ("PAID", "in?", "pending, paid", "Status"),
    ("PAID", "in?", ["paid"], "Status"),
    ("PAID", "in?", '["paid", "x"]', "Status"),
    (5, "in?", ["4", "5.0"], "Int"),
    ("x", "not_in?", "", "String"),
    ("", "empty_or_nil?", None, None),
    ([], "empty_or_nil?", None, None),
    (None, "empty_or_nil?", None, None),
    (0, "not_empty_and_not_nil?", None, None),
    (False, "not_empty_and_not_nil?", None, None),
    ("x", "not_empty_and_not_nil?", None, None),
    (None, "nil?", None, None),
    ("", "not_nil?", None, None),
]
FALSE: list[tuple[JsonValue, str, JsonValue, str | None]] = [
    (None, ">", "1", "Int"),
    (None, "<=", "1", "Int"),
    (None, "==", "x", "String"),
    (None, "start_with?", "", "String"),
    (None, "in?", "a", "String"),
    ("a", "==", None, "String"),
    ("a", "nil?", None, None),
    ("", "not_empty_and_not_nil?", None, None),
    ("paid", "in?", "", "Status"),
]
BROKEN: list[tuple[JsonValue, str, JsonValue, str | None]] = [
    ("ten", ">", "1", "Int"),
    (5, ">", "many", "Int"),
    (True, ">", "1", "Int"),
    ("soon", "<", "2026-01-01", "DateTime"),
    (["a"], "==", "a", "String"),
    ({"a": 1}, "==", "a", "String"),
    ("a", "matches?", "a", "String"),
]


@pytest.mark.parametrize(("left", "operator", "right", "type_"), TRUE)
def test_these_comparisons_hold(left: JsonValue, operator: str, right: JsonValue, type_: str | None) -> None:
    """Returns True.

    See docs/design/imports-shopify-flow.md#conditions.
    """
    assert compared(left, operator, right, type_=type_, zone=ZONE) is True


@pytest.mark.parametrize(("left", "operator", "right", "type_"), FALSE)
def test_these_comparisons_do_not_hold(
    left: JsonValue, operator: str, right: JsonValue, type_: str | None
) -> None:
    """Returns False, also for missing values in an order.

    See docs/design/imports-shopify-flow.md#conditions.
    """
    assert compared(left, operator, right, type_=type_, zone=ZONE) is False


@pytest.mark.parametrize(("left", "operator", "right", "type_"), BROKEN)
def test_incomparable_values_fail_the_item(
    left: JsonValue, operator: str, right: JsonValue, type_: str | None
) -> None:
    """Raises ItemFailed for values that cannot be compared, and for an unknown operator.

    See docs/design/imports-n8n.md#rules.
    """
    with pytest.raises(ItemFailed):
        compared(left, operator, right, type_=type_, zone=ZONE)


def _each_line(operator: str, path: str = "order.lines") -> dict[str, Any]:
    below = {"path": "line.quantity", "operator": ">", "value": "2", "type": "Int"}
    return {"each": path, "item": "line", "operator": operator, "holds": below}


@pytest.mark.parametrize(
    ("quantities", "expected"),
    [
        ([1, 3], (True, False, False)),
        ([3, 4], (True, True, False)),
        ([1], (False, False, True)),
        ([], (False, True, True)),
    ],
)
def test_any_all_and_none_of_a_list(quantities: list[int], expected: tuple[bool, bool, bool]) -> None:
    """Evaluates `any`, `all` and `none` over the elements of a list.

    See docs/design/imports-shopify-flow.md#conditions.
    """
    variables = FlowVariables({"order": {"lines": [{"quantity": quantity} for quantity in quantities]}})
    assert tuple(holds(_each_line(item), variables, ZONE) for item in ("any", "all", "none")) == expected


def test_lists_within_lists_and_paths_on_both_sides() -> None:
    """Accepts a list of an item, and the items of enclosing lists on both sides.

    See docs/design/imports-shopify-flow.md#conditions.
    """
    tags = {
        "each": "line.tags",
        "item": "tag",
        "operator": "any",
        "holds": {"path": "tag", "operator": "==", "value_path": "order.wanted"},
    }
    tree = {
        "and": [
            {
                "or": [
                    {"path": "order.none", "operator": "not_nil?"},
                    {"each": "order.lines", "item": "line", "operator": "all", "holds": tags},
                ]
            }
        ]
    }
    lines = [{"tags": ["a", "PRE"]}, {"tags": ["pre"]}]
    assert holds(tree, FlowVariables({"order": {"wanted": "Pre", "lines": lines}}), ZONE)
    assert not holds(tree, FlowVariables({"order": {"wanted": "a", "lines": lines}}), ZONE)


def test_unknown_fields_fail_only_where_they_are_read() -> None:
    """Raises UnknownInTest only if the condition needs the unknown field.

    See docs/design/runs.md#test-runs.
    """
    known_condition = {"path": "order.total", "operator": ">", "value": "5", "type": "Int"}
    not_known = {"path": "made.id", "operator": "not_nil?"}
    variables = FlowVariables({"order": {"total": 1}, "made": {"name": "x"}}, frozenset(("made.id",)))
    assert not holds({"and": [known_condition, not_known]}, variables, ZONE)
    assert holds({"path": "made.name", "operator": "==", "value": "X"}, variables, ZONE)
    for tree in (
        {"or": [known_condition, not_known]},
        {"path": "made.id.below", "operator": "nil?"},
        {"path": "made", "operator": "nil?"},
    ):
        with pytest.raises(UnknownInTest):
            holds(tree, variables, ZONE)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "1e999", "٣", "2026-02-30", "[1", "-"]
    ),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.sampled_from(["amount", "x"]), st.text(max_size=3), max_size=2),
)


@given(_VALUES, st.sampled_from(sorted(OPERATORS)), _VALUES, st.sampled_from(TYPES))
def test_comparisons_of_any_values_give_a_result_or_a_failure(
    left: JsonValue, operator: str, right: JsonValue, type_: str | None
) -> None:
    """Returns a result or raises ItemFailed for any values; a negated operator gives the opposite.

    See docs/design/imports-n8n.md#rules.
    """
    results: list[bool | str] = []
    for name in (operator, OPERATORS[operator]):
        try:
            results.append(compared(left, name, right, type_=type_, zone=ZONE))
        except ItemFailed as failure:
            results.append(failure.message)
    if isinstance(results[0], str) or operator == OPERATORS[operator]:
        assert results[0] == results[1]
    else:
        assert results[0] is not results[1]
