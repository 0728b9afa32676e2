"""Expressions, scripts and Liquid nobody would write: nothing crashes or hangs."""

import contextlib
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence

import pytest

from steward.sandbox.pool import SandboxPool
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.paths import UNDEFINED
from steward.steps.workflow.expressions.template import ParameterTemplate, decode_template, read, read_liquid
from steward.steps.workflow.expressions.views import (
    CheckRequest,
    CodeFailed,
    CodeStopped,
    ExpressionContext,
    ExpressionError,
    ExpressionVariables,
    Outcome,
    Script,
    ScriptMode,
    StepView,
)
from tests.expressions.cases import NOW

ROUNDS = int(os.environ.get("FUZZ_EXAMPLES", "8"))
BATCH = 25
SECONDS = 8.0  # a limit of one, the start of a process, and a busy machine

_WORDS = r"""
    $json $json.a $json.l $json.s $json['a\u0020b'] $input.all() $input.first() $('X').item.json.x
    $('Y').first() $node["X"].json $items() $now $today DateTime.now() $itemIndex $runIndex $if( $ifEmpty(
    $jmespath($json,'a') $env $vars $binary $self [1,2,3] {a:1} {a:{b:2}} 'text' "q" `t${1}` /a+/g 0 -1 1e308
    NaN null undefined true 5n ()=>1 x=>x function f(){} class A{} new Date(0) new Map() Symbol('x') this
    globalThis process require Object.prototype .length .constructor .__proto__ .isEmpty() .toDateTime()
    .map(x=>x) .sum() .first() .merge({}) .keys() .sort() .hash('sha1') .toTitleCase() .extractUrl()
    .removeMarkdown() .chunk(0) .pluck() .format() .plus(1,'days') ?.x ?.[0] [0] ['a'] ( ) { } [ ] , ; : ? =>
    ... + - * / % ** == === != < > && || ?? ! ~ ++ -- = += // /* */ \n \\ }} {{ ` ' " await yield return throw
    try{ }catch(e){ } if( for(;0;){ while(0) var const let delete typeof void in of {%if\u0020a%} {%endif%}
    {%for\u0020x\u0020in\u0020a%} {%endfor%} {{a|size}} | split: | join:
"""
PIECES = [*_WORDS.split(), "\n", "é", "😀", "\u2028", "\x00", "\ud800"]
VALUES = [
    None,
    True,
    0,
    -1.5,
    2**53,
    "",
    "text",
    "2025-01-31T10:00:00Z",
    "é😀",
    [],
    [1, None],
    {},
    {"a b": {}},
]
KINDS = (str, int, float, bool, list, dict, type(None), ExpressionError)


def _text(dice: random.Random) -> str:
    joint = dice.choice(["", " ", " "])
    inner = joint.join(dice.choice(PIECES) for _ in range(dice.randint(1, 9)))
    shape = dice.randrange(8)
    if shape == 0:
        return f"=a{inner}b"
    if shape == 1:
        return f"=x {{{{ {inner} }}}} y {{{{ {dice.choice(PIECES)} }}}}"
    return f"={{{{ {inner} }}}}"


def _item(dice: random.Random) -> dict[str, object]:
    return {key: dice.choice(VALUES) for key in ("a", "l", "s", "a b", "length", "keys")}


def _world(dice: random.Random) -> ExpressionContext:
    items = [_item(dice) for _ in range(dice.randint(0, 4))]
    seen = {"X": StepView(runs=[[[{"x": 1}] * len(items)]])}
    zone = dice.choice(["UTC", "Europe/Berlin", "America/St_Johns"])
    scope = ExpressionVariables(now=NOW, timezone=zone, seed=dice.randrange(99))
    return ExpressionContext(
        items, scope, seen, frozenset({"X", "Y"}), lambda name, location: (0, 0, location)
    )


def _batches(dice: random.Random) -> Iterator[list[ParameterTemplate]]:
    for _ in range(ROUNDS):
        yield [read(_text(dice)) for _ in range(BATCH)]


def _sensible(outcomes: Sequence[Outcome], places: int) -> bool:
    return len(outcomes) == places and all(
        outcome is UNDEFINED or isinstance(outcome, KINDS) for outcome in outcomes
    )


@pytest.fixture
async def children() -> AsyncIterator[SandboxPool]:
    """Places for two."""
    children = SandboxPool(2)
    try:
        yield children
    finally:
        await children.close()


@pytest.fixture
def dice() -> random.Random:
    """Random things of a seed that is printed."""
    seed = random.randrange(2**32)
    print("seed", seed)
    return random.Random(seed)


async def _stopped_at(act: Awaitable[None]) -> str | None:
    """The code foreign code was stopped with, if it was."""
    try:
        await act
    except CodeStopped as end:
        return end.code
    return None


async def test_no_expression_crashes_or_hangs_the_evaluator(
    children: SandboxPool, dice: random.Random
) -> None:
    """0 crashes, 0 hangs; the next message works."""

    async def work_out(templates: list[ParameterTemplate], world: ExpressionContext) -> None:
        places = list(range(len(world.items) or 1))
        for outcomes in await Evaluator(children, "org", "run").evaluate(templates, world, places):
            assert _sensible(outcomes, len(places))

    for templates in _batches(dice):
        texts = [template.text for template in templates]
        began = time.monotonic()
        assert await _stopped_at(work_out(templates, _world(dice))) != "code_crashed", texts
        assert time.monotonic() - began < SECONDS, texts
        checked = await Evaluator(children, "org", "run").check(CheckRequest(templates=templates))
        assert len(checked.templates) == len(templates)
        assert [decode_template(template.encoded()) for template in templates] == templates


async def test_no_script_or_liquid_crashes_or_hangs_the_evaluator(
    children: SandboxPool, dice: random.Random
) -> None:
    """The same for scripts of every mode, and for Liquid."""

    async def run(script: Script, world: ExpressionContext) -> None:
        with contextlib.suppress(CodeFailed):
            result = await Evaluator(children, "org", "run").run_code(script, world)
            assert all(isinstance(item.json, dict) for item in result.items)

    for _ in range(ROUNDS):
        text = dice.choice(["return ", "", "return [{json:{}}]; "]) + _text(dice)[1:].strip("{}")
        script = Script(text, dice.choice(list(ScriptMode)[:4]))
        began = time.monotonic()
        assert await _stopped_at(run(script, _world(dice))) != "code_crashed", text
        assert time.monotonic() - began < 10 + SECONDS, text
        texts = [_text(dice)[1:] for _ in range(5)]
        results = await Evaluator(children, "org", "run").render(
            [read_liquid(template_text) for template_text in texts], _item(dice), NOW
        )
        assert all(isinstance(result, str | ExpressionError) for result in results), texts
