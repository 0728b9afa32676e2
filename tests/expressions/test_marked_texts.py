"""Tests how texts with expressions use the marker of a removed key.

See docs/design/imports-secrets.md#markers.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steward.model.removed_secrets import marker
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.marked_texts import (
    RemovedKey,
    TextPart,
    VariablePart,
    parts_of,
    variable_reads,
)
from steward.steps.workflow.expressions.template import read
from steward.steps.workflow.expressions.views import ExpressionContext

MARK, OTHER = marker(1), "Another-Key-4711"
KEY, DATA, ENCODED = RemovedKey("1"), VariablePart.DATA, VariablePart.ENCODED
FIELD = RemovedKey("key")


def reads(code: str) -> str | None:
    """Returns the key if code reads the field `key`, which holds one in these tests."""
    return "key" if re.search(r"\bkey\b", code) else None


PARTS: dict[str, tuple[TextPart, ...] | None] = {
    MARK: (KEY,),
    f"Bearer {MARK}": ("Bearer ", KEY),
    f'={{{{ "Bearer {MARK}" }}}}': ("Bearer ", KEY),
    f'=Bearer {MARK}{{{{ "" }}}}': ("Bearer ", KEY, ""),
    f"=Bearer {MARK}{{{{ $json.n }}}}": ("Bearer ", KEY, DATA),
    "={{ $json.key }}": (FIELD,),
    "={{ $json['key'].trim() }}": (FIELD,),
    "={{ 'Bearer ' + $json.key }}": ("Bearer ", FIELD),
    "={{ ('a' + ($json.key)) }}": ("a", FIELD),
    "={{ `a${ $json.key }b${$json.n}` }}": ("a", FIELD, "b", DATA),
    "={{ $json.key || 'x' }}": (FIELD,),
    "={{ $json.key ?? $json.n }}": (FIELD,),
    "={{ {a: $json.key, b: $json.n} }}": ("{", '"a":', '"', FIELD, '"', ",", '"b":', DATA, ",", "}"),
    "={{ JSON.stringify([$json.key]) }}": ("[", '"', FIELD, '"', "]"),
    "={{ btoa('ann:' + $json.key) }}": (ENCODED,),
    "={{ Buffer.from(`ann:${$json.key}`).toString('base64') }}": (ENCODED,),
    "={{ $json.n > 1 ? 'a' : 'b' }}": (DATA,),
    "={{ $json.n }": (DATA,),
    "={{ btoa($json.n + $json.key) }}": None,
    "={{ $json.key === 'a' }}": None,
    "={{ 'a' + $json.key == 'ab' }}": None,
    "={{ $json.key ? 'a' : 'b' }}": None,
    "={{ $json.n ? $json.key : 'b' }}": None,
    "={{ $json.key && 'b' }}": None,
    "={{ $json.n || $json.key }}": None,
    "={{ !$json.key }}": None,
    "={{ +$json.key }}": None,
    "={{ typeof $json.key }}": None,
    "={{ $json.key in $json }}": None,
    "={{ $json.key.length }}": None,
    "={{ $json.key[0] }}": None,
    "={{ $json.key.slice(1) }}": None,
    "={{ $json.key.toUpperCase() }}": None,
    "={{ encodeURIComponent($json.key) }}": None,
    "={{ JSON.stringify($json.key, (k, v) => v.length) }}": None,
    "={{ {[$json.key]: 1} }}": None,
    "={{ [$json.key].length }}": None,
    "={{ (() => $json.key)() }}": None,
    "={{ $json.key.replace(/a/, 'b') }}": None,
    "={{ `a${$json.key }}": None,
    f'={{{{ "{MARK}"[0] }}}}': None,
    f'={{{{ $json.n == "{MARK}" }}}}': None,
}


@pytest.mark.parametrize(("text", "parts"), PARTS.items(), ids=PARTS.keys())
def test_an_expression_passes_a_key_on_unchanged_or_is_refused(
    text: str, parts: tuple[TextPart, ...] | None
) -> None:
    """Tells fixed texts, keys and data apart; None marks expressions that compare or change a key."""
    assert parts_of(text, reads) == parts


def test_uri_encoding_of_a_key_is_accepted_only_in_urls() -> None:
    """Accepts `encodeURIComponent` only in a URL, where the account encodes the key itself."""
    assert parts_of("={{ encodeURIComponent($json.key) }}", reads, in_address=True) == (FIELD,)


@pytest.mark.parametrize("code", ["(" * 5000 + "K" + ")" * 5000, "K" + ".trim()" * 5000, "K+" * 50_000 + "K"])
def test_a_hostile_expression_is_refused_in_bounded_time(code: str) -> None:
    """Reads at most 2,000 tokens of an expression with a key, whatever their nesting."""
    began = time.process_time()
    assert parts_of(f"={{{{ {code.replace('K', '$json.key')} }}}}", reads) is None
    assert time.process_time() - began < 5


def test_an_expression_with_a_key_has_at_most_2000_tokens() -> None:
    """Accepts an expression with a key up to 2,000 tokens and refuses a longer one."""
    within = "$json.key" + "+'a'" * 998  # 4 tokens, and two more for each text: `$json . key` are 3
    assert parts_of(f"={{{{ {within} }}}}", reads) is not None
    assert parts_of(f"={{{{ {within}+'a' }}}}", reads) is None


ATOMS = st.sampled_from(["$json.key", "$json['key']", f"'{MARK}'", "'x'", "$json.n", "$json.a", "1"])
FORMS = [
    "{0} + {1}", "{0} === {1}", "{0} ? {1} : {0}", "({0})", "{0} || {1}", "{0} ?? {1}", "{0} && {1}",
    "!({0})", "({0}).trim()", "({0}).length", "({0})[0]", "({0}).toUpperCase()", "({0}).toString()",
    "`a${{{0}}}b`", "String({0})", "JSON.stringify({0})", "JSON.stringify({{k: {0}, l: {1}}})", "[{0}, {1}]",
    "({{k: {0}}}).k", "typeof {0}", "{0} > {1}", "-({0})", "btoa({0})", "[{0}].join({1})",
]  # fmt: skip
CODES = st.recursive(
    ATOMS,
    lambda inner: st.builds(
        lambda form, first, second: form.format(first, second), st.sampled_from(FORMS), inner, inner
    ),
    max_leaves=5,
)


async def test_an_accepted_expression_gives_the_same_with_another_key(
    evaluator: Evaluator, context_of: Callable[[Sequence[Any]], ExpressionContext]
) -> None:
    """Evaluates random expressions with a marker and with a key: only the key itself differs."""
    codes: set[str] = set()

    @settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(code=CODES)
    def gather(code: str) -> None:
        codes.add(code)

    gather()
    accepted = [code for code in sorted(codes) if _is_accepted(code)]
    assert 20 < len(accepted) < len(codes)
    item = {"n": 3, "a": "text"}
    marked = await evaluator.evaluate(
        [read(f"={{{{ {code} }}}}") for code in accepted], context_of([{**item, "key": MARK}])
    )
    with_key = await evaluator.evaluate(
        [read(f"={{{{ {code.replace(MARK, OTHER)} }}}}") for code in accepted],
        context_of([{**item, "key": OTHER}]),
    )
    for code, [with_marker], [with_other_key] in zip(accepted, marked, with_key, strict=True):
        assert _written(with_other_key) == _written(with_marker).replace(MARK, OTHER), code


def _is_accepted(code: str) -> bool:
    parts = parts_of(f"={{{{ {code} }}}}", reads)
    return (
        parts is not None
        and VariablePart.ENCODED not in parts
        and any(isinstance(p, RemovedKey) for p in parts)
    )


def _written(outcome: Any) -> str:
    return json.dumps(outcome, default=str)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("+".join(["$env.A"] * 500) + "+", 500),  # four tokens each
        ("+".join(["$env.A"] * 500) + "+ 1", 0),
        ("$env.A + \\'", 0),
        ("$env.A + " + "\\'" * 500_000, 0),
        ("$env.A + " + '\\"' * 500_000, 0),
        ("$env.A + `" + "${`" * 300_000, 0),
    ],
)
def test_variables_are_read_within_limits(code: str, count: int) -> None:
    """Reads no variables in code with over 2,000 tokens or an unterminated quote, in bounded time.

    Searching for the end of every quote would take hours for half a million quotes.
    """
    assert len(variable_reads(code)) == count
