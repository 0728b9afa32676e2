"""Tests inputs and outputs of run-code steps, and paths through lists.

See docs/design/imports-shopify-flow.md#tasks and docs/design/imports-shopify-flow.md#liquid.
"""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.model.json import JsonValue
from steward.steps.shopify_flow.environment import FlowVariables, follow
from steward.steps.shopify_flow.selection import (
    MAX_DEPTH,
    MAX_FIELDS,
    OutputMismatch,
    UnreadableSelection,
    cut,
    fitted,
    read_schema,
    read_selection,
)
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import read_liquid
from steward.steps.workflow.step_types import UnknownInTest
from tests.shared_sandbox import shared_sandbox

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ORDER = {
    "name": "#1",
    "customer": None,
    "lines": [{"title": "A", "tags": ["x"]}, {"title": "B", "tags": ["y", "z"]}, {"tags": []}],
}


def test_a_selection_picks_fields_of_the_environment() -> None:
    """Selects the same fields of each element of a list; missing fields are null.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    text = "query Input {\n order { # mine\n name, lines { title } buyer: customer { id } nope } }"
    variables = FlowVariables({"order": ORDER, "secret": 1})
    lines = [{"title": "A"}, {"title": "B"}, {"title": None}]
    assert cut(variables, read_selection(text)) == {
        "order": {"name": "#1", "lines": lines, "buyer": None, "nope": None}
    }
    assert read_selection(text).paths() == [
        "order.name",
        "order.lines.title",
        "order.customer.id",
        "order.nope",
    ]
    with pytest.raises(UnknownInTest):
        cut(FlowVariables({"order": ORDER}, frozenset(("order.name",))), read_selection(text))


@pytest.mark.parametrize(
    "text",
    [
        "{ a(first: 1) }",
        "{ ...on B { c } }",
        "{ a @skip }",
        "query { a",
        "mutation { a }",
        "a",
        "{ a } }",
        "{ $x }",
    ],
)
def test_an_invalid_selection_is_refused(text: str) -> None:
    """Refuses a selection that cannot be parsed.

    See docs/design/imports-n8n.md#rules.
    """
    with pytest.raises(UnreadableSelection):
        read_selection(text)


@pytest.mark.parametrize(("fields", "levels"), [(MAX_FIELDS, 1), (1, MAX_DEPTH + 1)])
def test_a_selection_has_its_limits(fields: int, levels: int) -> None:
    """Accepts selections up to the limits of fields and levels, and refuses larger ones.

    See docs/design/imports-n8n.md#safety.
    """

    def written(names: int, depth: int) -> str:
        return "{ a " * (depth - 1) + "{ " + " ".join(f"f{n}" for n in range(names)) + " }" * depth

    assert len(read_selection(written(fields, levels)).paths()) == fields
    with pytest.raises(UnreadableSelection):
        read_selection(written(fields + (levels == 1), levels + (levels > 1)))


@given(st.text(alphabet='{}[]:!ab "#\n,query type', max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Parses any text or refuses it with a message.

    See docs/design/imports-n8n.md#rules.
    """
    for read in (read_selection, read_schema):
        assert _read_or_refused(read, text) not in (None, "")


def _read_or_refused(read: Callable[[str], object], text: str) -> object:
    try:
        return read(text)
    except UnreadableSelection as refusal:
        return str(refusal).strip()


SCHEMA = read_schema(
    '"""What it gives"""\ntype Output { n: Int! f: Float ok: Boolean id: ID rows: [Row!]! }'
    "\ntype Row { t: String! }"
)


def test_an_output_is_converted_to_its_schema() -> None:
    """Converts the output of a script to its schema.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    record = {"n": 3.0, "f": 1, "ok": True, "id": 7, "rows": [{"t": "a", "more": 1}], "extra": 1}
    assert fitted(record, SCHEMA) == {"n": 3, "f": 1, "ok": True, "id": "7", "rows": [{"t": "a"}]}


@pytest.mark.parametrize(
    "value",
    [None, [], {"rows": []}, {"n": 1}, {"n": 1.5, "rows": []}, {"n": True, "rows": []},
     {"n": 1, "rows": [None]}, {"n": 1, "rows": {}}, {"n": 1, "rows": [{"t": 1}]},
     {"n": 1, "rows": [], "ok": "yes"}],
)  # fmt: skip
def test_a_script_output_that_does_not_fit_its_schema_fails(value: JsonValue) -> None:
    """Fails for an output that does not fit its schema.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    with pytest.raises(OutputMismatch):
        fitted(value, SCHEMA)


@pytest.mark.parametrize(
    "text", ["", "type A { b: C }", "type A { b }", "enum E { X }", "type A { b: [Int }", "type { a: Int }"]
)
def test_an_invalid_schema_is_refused(text: str) -> None:
    """Refuses a schema that cannot be parsed.

    See docs/design/imports-n8n.md#rules.
    """
    with pytest.raises(UnreadableSelection):
        read_schema(text)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("order.lines.title", ["A", "B"]), ("order.lines.tags", ["x", "y", "z"]), ("order.lines.size", 3),
     ("order.lines.first.title", "A"), ("order.lines.last.tags", []), ("order.customer.id", None),
     ("order.name.size", 2), ("nope.a", None), ("order.lines.tags.size", 3)],
)  # fmt: skip
def test_a_path_through_lists_collects_from_each_element(path: str, expected: JsonValue) -> None:
    """Collects the value of each element along a path through lists.

    See docs/design/imports-shopify-flow.md#liquid.
    """
    assert follow({"order": ORDER}, path) == expected


async def test_paths_give_the_same_values_as_in_liquid() -> None:
    """Follows paths in conditions and lists as Liquid texts do.

    See docs/design/imports-shopify-flow.md#liquid.
    """
    keys = ("lines", "title", "tags", "customer", "name", "size", "first", "last", "none")
    ways = [direction for depth in (1, 2, 3) for direction in itertools.product(keys, repeat=depth)]
    paths = [".".join(("order", *steps)) for steps in ways]
    actual = {path: follow({"order": ORDER}, path) for path in paths}
    displayed: dict[str, str] = {}
    for path, value in actual.items():
        if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
            displayed[f"{{{{ {path} | join: ',' }}}}"] = ",".join(map(str, value))
        elif not isinstance(value, dict | list):
            displayed[f"{{{{ {path} }}}}"] = "" if value is None else str(value)
    evaluator = Evaluator(shared_sandbox(), "org", "run")
    results = await evaluator.render([read_liquid(text) for text in displayed], {"order": ORDER}, NOW)
    assert dict(zip(displayed, results, strict=True)) == displayed
