"""Tests that paths evaluated in this process give the same values as in the sandbox, for any data.

See docs/design/imports-n8n.md#where-expressions-run.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steward.sandbox.pool import SandboxPool
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.native import evaluate_paths
from steward.steps.workflow.expressions.paths import UNDEFINED
from steward.steps.workflow.expressions.template import Chunk, Lang, ParameterTemplate, read
from steward.steps.workflow.expressions.views import (
    ExpressionContext,
    ExpressionVariables,
    ItemPosition,
    StepView,
    Unpaired,
)
from tests.expressions.cases import NOW, equal

NAMES = ["a", "b", "length", "keys", "toString", "é", "0", "__proto__", "class", "valueOf", "x y"]
SIGNS = st.sampled_from(["a", "Z", "0", "é", "€", "😀", "\n", '"', "\u2028"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(SIGNS, max_size=4).map("".join),
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*NAMES[:7], "class", "x y"]), inner, max_size=3),
    ),
    max_leaves=8,
)
ITEMS = st.lists(st.dictionaries(st.sampled_from(NAMES[:6]), DATA, max_size=4), min_size=1, max_size=3)
ROOTS = st.sampled_from(
    ["$json", "$input.item.json", "$input.first().json", "$input.last().json", "$('X').item.json",
     '$("X").first().json', "$('X').last().json", "$node['X'].json", "$node.X.json", "$('Gone').item.json",
     "$('Y').first().json", "$itemIndex", "$runIndex"]
)  # fmt: skip


def _key(key: str, form: int) -> str:
    if key.isdigit():
        return [f"[{key}]", f"?.[{key}]", f"['{key}']"][form]
    if " " in key:
        return f"['{key}']"
    return [f".{key}", f"?.{key}", f'["{key}"]'][form]


KEYS = st.lists(st.builds(_key, st.sampled_from([*NAMES, "1", "7"]), st.integers(0, 2)), max_size=3).map(
    "".join
)
PATHS = st.lists(st.builds(lambda root, keys: root + keys, ROOTS, KEYS), min_size=4, max_size=8)


def _by_the_child(text: str) -> ParameterTemplate:
    """Returns the same template, marked as JavaScript so that the sandbox evaluates it."""
    template = read(text)
    parts = tuple(part if isinstance(part, str) else Chunk(part.code) for part in template.parts)
    return ParameterTemplate(text, Lang.JS, parts, template.steps, template.paired)


def _pairing(name: str, index: int) -> ItemPosition | Unpaired | None:
    return [(0, 0, index), None, Unpaired("It cannot be told.")][index % 3]


EXAMPLES = int(os.environ.get("PATH_EXAMPLES", "60"))


async def test_paths_give_the_same_values_as_javascript(evaluator: Evaluator) -> None:
    """Gives exactly the value that the sandbox gives, for random paths and data.

    See docs/design/imports-n8n.md#where-expressions-run.
    """
    requests: list[tuple[list[str], ExpressionContext]] = []

    @settings(max_examples=EXAMPLES, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(paths=PATHS, items=ITEMS)
    def gather(paths: list[str], items: list[Any]) -> None:
        views = {"X": StepView(runs=[[items]])}
        scope = ExpressionVariables(now=NOW, timezone="UTC")
        texts = [f"={{{{ {path} }}}}" for path in paths] + [f"=<{{{{{path}}}}}>" for path in paths]
        context = ExpressionContext(
            items=items, variables=scope, steps=views, names=frozenset({"X", "Y"}), pairing=_pairing
        )
        requests.append((texts, context))

    gather()
    compared = 0
    for texts, context in requests:
        places = list(range(len(context.items)))
        sandbox_outcomes = await evaluator.evaluate([_by_the_child(text) for text in texts], context)
        for text, expected in zip(texts, sandbox_outcomes, strict=True):
            current = evaluate_paths(read(text), context, places)
            if current is not None:
                compared += 1
                assert all(map(equal, current, expected)), (text, context.items, current, expected)
    assert compared > EXAMPLES * 4


async def test_paths_are_evaluated_without_the_sandbox(
    context_of: Callable[[Sequence[Any]], ExpressionContext],
) -> None:
    """Evaluates paths without starting a sandbox process; about 78 of 100 chunks are paths.

    See docs/design/imports-n8n.md#where-expressions-run.
    """
    children = SandboxPool(1)
    items = [{"a": {"b": ["x"]}, "n": 2.5}, {"a": "y", "n": None}]
    texts = ["={{ $json.a.b[0] }}", "={{ $json.a.b }}-{{ $json.n }}|{{ $itemIndex }}", "plain"]
    evaluator = Evaluator(children, "org", "run")
    outcomes = await evaluator.evaluate([read(text) for text in texts[::2]], context_of(items))
    assert outcomes == [["x", UNDEFINED], ["plain", "plain"]]
    assert await evaluator.evaluate([read(texts[1])], context_of(items[1:])) == [["-|0"]]
    assert await evaluator.evaluate([read("={{ $json.n }}€")], context_of(items)) == [["2.5€", "€"]]
    assert children.live == 0
    assert await evaluator.evaluate([read(texts[1])], context_of(items[:1])) == [["x-2.5|0"]]
    assert children.live == 1  # JavaScript turns the list into text
    await children.close()


NUMBERS = [
    0.1,
    -2.5,
    1e15,
    123456.789,
    -0.0,
    5.0,
    1e-4,
    2.0**53,
    1e16,
    1e21,
    1e-7,
    5e-324,
    1.7e308,
    0.1 + 0.2,
]


async def test_numbers_become_text_as_in_javascript(
    evaluator: Evaluator, context_of: Callable[[Sequence[Any]], ExpressionContext]
) -> None:
    """Converts numbers to text as JavaScript does.

    See docs/design/imports-n8n.md#chunks.
    """
    items = [{"n": number} for number in NUMBERS]
    (sandbox_values,) = await evaluator.evaluate([_by_the_child("=<{{ $json.n }}>")], context_of(items))
    for item, expected in zip(items, sandbox_values, strict=True):
        (current,) = await evaluator.evaluate([read("=<{{ $json.n }}>")], context_of([item]))
        assert current == [expected]
