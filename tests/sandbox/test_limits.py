"""Tests that foreign code over its limits is stopped, and that the next message works.

See docs/design/sandbox.md#sandbox-for-foreign-code and docs/guides/contributors.md#tests.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest

from steward.sandbox.pool import JAVASCRIPT, WALL_TIME_FACTOR, Owner, SandboxPool
from steward.sandbox.protocol import MESSAGE_BYTES, SandboxStopped
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.paths import UNDEFINED
from steward.steps.workflow.expressions.template import read, read_liquid
from steward.steps.workflow.expressions.views import (
    CodeFailed,
    CodeStopped,
    ExpressionContext,
    ExpressionError,
    ExpressionVariables,
    Outcome,
    Script,
    ScriptMode,
)
from tests.expressions.cases import NOW

SCOPE = ExpressionVariables(now=NOW, timezone="UTC")
ONE_ITEM = ExpressionContext(items=[{"a": 1}], variables=SCOPE)


@pytest.fixture
async def children() -> AsyncIterator[SandboxPool]:
    """Provides a pool of two children."""
    children = SandboxPool(2)
    try:
        yield children
    finally:
        await children.close()


async def _outcome_of(children: SandboxPool, code: str, context: ExpressionContext = ONE_ITEM) -> Outcome:
    """Returns the value of a chunk, or the code that it was stopped with, and runs another message."""
    evaluator = Evaluator(children, "org", "run")
    outcome: Outcome
    try:
        ((outcome,),) = await evaluator.evaluate([read(f"={{{{ {code} }}}}")], context)
    except CodeStopped as end:
        outcome = end.code
    assert await evaluator.evaluate([read("={{ $json.a + 1 }}")], ONE_ITEM) == [[2]]
    return outcome


RUNAWAYS = {
    "(() => { for (;;) { try { null.x } catch {} } })()": "code_timeout",
    "/^(a+)+$/.test('a'.repeat(50) + 'b')": "code_timeout",
    "(() => { class A { toJSON() { while (true); } } return [new A()] })()": "code_timeout",
    "new Proxy({}, { ownKeys() { while (true); } })": "code_timeout",
    "(() => { const a = []; while (true) a.push('x'.repeat(9e5) + a.length); })()": "code_memory",
    "(() => { let s = 'x'; while (s.length < 2 ** 29) s += s; return [s, s + 'y'].join() })()": "code_memory",
    "(() => { const a = []; try { while (true) a.push('x'.repeat(9e5) + 1); } catch { return 1 } })()": "",
    "new Uint8Array(2 ** 28).length": "code_memory",
    "JSON.stringify('x'.repeat(9 * 2 ** 20))": "code_memory",
}


async def test_runaway_scripts_are_stopped_at_their_limits(children: SandboxPool) -> None:
    """Stops chunks over 1 s of CPU or 128 MiB within their limit and a short time, with the right code.

    See docs/design/sandbox.md#sandbox-for-foreign-code and docs/guides/contributors.md#tests.
    """
    for code, expected in RUNAWAYS.items():
        began = time.monotonic()
        outcome = await _outcome_of(children, code)
        assert outcome == (expected or 1), code
        assert time.monotonic() - began < 2 * WALL_TIME_FACTOR + 3, code  # plus a start


REFUSED_BY_THE_ENGINE = [
    "(function f() { return f(); })()",
    "(() => { const g = () => g(); return g(); })()",
    "JSON.parse('['.repeat(100000))",
    "new Array(-1)",
    "'x'.repeat(2 ** 31)",
    "2n ** 100000000n",
    "new RegExp('('.repeat(50000) + ')'.repeat(50000))",
]


async def test_javascript_errors_in_expressions_give_undefined(children: SandboxPool) -> None:
    """Gives undefined for every JavaScript error, also for a stack overflow.

    See docs/design/imports-n8n.md#chunks.
    """
    for code in REFUSED_BY_THE_ENGINE:
        assert await _outcome_of(children, code) is UNDEFINED, code


async def test_too_deep_values_are_expression_errors(children: SandboxPool) -> None:
    """Gives an expression error for a value that is nested too deep to be written.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    deep = "(() => { let o = {}; for (let i = 0; i < 200000; i++) o = { o }; return o })()"
    assert isinstance(await _outcome_of(children, deep), ExpressionError)


async def test_messages_and_responses_have_a_size_limit(children: SandboxPool) -> None:
    """Accepts messages and answers up to 8 MiB and stops larger ones with `code_memory`.

    See docs/design/imports-n8n.md#where-expressions-run.
    """
    room = MESSAGE_BYTES - 2000
    evaluator = Evaluator(children, "org", "run")
    whole = ExpressionContext(items=[{"a": "x" * room}], variables=SCOPE)
    assert await evaluator.evaluate([read("={{ $json.a.length + 1 }}")], whole) == [[room + 1]]
    much = ExpressionContext(items=[{"a": n, "b": "x" * 2**20} for n in range(9)], variables=SCOPE)
    assert await evaluator.evaluate([read("={{ $json.a * 2 }}")], much) == [[n * 2 for n in range(9)]]
    past = ExpressionContext(items=[{"a": "x" * MESSAGE_BYTES}], variables=SCOPE)
    with pytest.raises(CodeStopped) as stopped:
        await evaluator.evaluate([read("={{ $json.a.length + 1 }}")], past)
    assert stopped.value.code == "code_memory"
    wide = ExpressionContext(items=[{"a": "x" * 1000}] * 5, variables=SCOPE)
    with pytest.raises(CodeStopped) as stopped:
        await evaluator.evaluate([read("={{ 'x'.repeat(2 ** 21) }}")], wide)
    assert stopped.value.code == "code_memory"


async def test_scripts_may_take_longer_than_expressions_but_are_limited(children: SandboxPool) -> None:
    """Lets a script run longer than an expression; stops one that waits forever or takes too much memory.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    evaluator = Evaluator(children, "org", "run")
    longer = "let n = 0; for (let i = 0; i < 12e6; i++) n += i % 7; return { n };"
    total = 12_000_000 // 7 * 21 + sum(range(12_000_000 % 7))
    assert (await evaluator.run_code(Script(longer, ScriptMode.ALL), ONE_ITEM)).items[0].json["n"] == total
    with pytest.raises(CodeFailed, match="waits"):
        await evaluator.run_code(Script("await new Promise(() => {}); return []", ScriptMode.ALL), ONE_ITEM)
    hungry = "const a = []; while (true) a.push('x'.repeat(9e5) + a.length);"
    with pytest.raises(CodeStopped) as stopped:
        await evaluator.run_code(Script(hungry, ScriptMode.ALL), ONE_ITEM)
    assert stopped.value.code == "code_memory"
    assert (await evaluator.run_code(Script("return { a: 1 }", ScriptMode.ALL), ONE_ITEM)).items[0].json == {
        "a": 1
    }


async def test_a_message_is_limited_by_cpu_time_and_a_long_one_loses_priority(
    children: SandboxPool,
) -> None:
    """Does not stop a message that gets no CPU for a while, and lowers the priority of an endless one."""
    evaluator, owner = Evaluator(children, "org", "run"), ("org", "run")
    request_body: dict[str, object] = {"op": "match"}
    await children.send(owner, JAVASCRIPT, request_body, b"[]", 2)
    os.kill(_pid(children, owner), signal.SIGSTOP)
    waiting = asyncio.ensure_future(children.send(owner, JAVASCRIPT, request_body, b"[]", 1.0))
    asyncio.get_running_loop().call_later(1.1, os.kill, _pid(children, owner), signal.SIGCONT)
    assert json.loads(await waiting) == [[]]
    os.kill(_pid(children, owner), signal.SIGSTOP)
    with pytest.raises(SandboxStopped) as stopped:
        await children.send(owner, JAVASCRIPT, request_body, b"[]", 0.02)
    assert stopped.value.code == "code_timeout"
    wild = asyncio.ensure_future(evaluator.run_code(Script("while (true);", ScriptMode.ALL), ONE_ITEM))
    while not ((pid := _pid(children, owner)) and os.getpriority(os.PRIO_PROCESS, pid) > 0):
        ended, _ = await asyncio.wait({wild}, timeout=0.05)
        assert not ended
    wild.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wild


def _pid(children: SandboxPool, owner: Owner) -> int:
    return next((child.process.pid for child in children._live if child.owner == owner), 0)


async def test_two_items_past_one_expression_reset_the_clock(children: SandboxPool) -> None:
    """Limits each expression by itself, however many items a step has.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    items = [{"a": n} for n in range(900)]
    slow = "={{ (() => { let n = 0; for (let i = 0; i < 15000; i++) n += i; return $json.a })() }}"
    context = ExpressionContext(items=items, variables=SCOPE)
    (outcomes,) = await Evaluator(children, "org", "run").evaluate([read(slow)], context)
    assert outcomes == [item["a"] for item in items]


LIQUID = {
    "{% for i in (1..100001) %}x{% endfor %}": None,
    "{% for i in (1..400) %}{% for j in (1..400) %}x{% endfor %}{% endfor %}": None,
    "{% assign s = 'xxxxxxxxxx' %}{% for i in (1..40) %}{% assign s = s | append: s %}{% endfor %}": None,
    "{{ (1..10001) | join: ',' }}": None,
    "{% if true %}" * 60 + "{% endif %}" * 60: None,
    "{{ 'x' | append: 'y' }}": "xy",
    "{% for i in (1..10000) %}{{ i | times: 0 }}{% endfor %}": "0" * 10000,
    "{{ (1..10000) | join: '' | size }}": "38894",
}


async def test_liquid_has_its_own_limits(children: SandboxPool) -> None:
    """Allows 100,000 iterations, 1 MiB of output, a depth of 30 and ranges of 10,000, and refuses more.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    evaluator = Evaluator(children, "org", "run")
    for text, expected in LIQUID.items():
        results = await evaluator.render([read_liquid(text), read_liquid("{{ 1 }}")], {}, NOW)
        assert results[0] == expected if expected else isinstance(results[0], ExpressionError), text
        assert results[1] == "1"


async def test_other_runs_continue_while_one_runs_away(children: SandboxPool) -> None:
    """Answers other runs while one of them loops forever."""
    other = Evaluator(children, "other", "run")
    parameter_templates = [read("={{ $json.a + 1 }}")]
    await other.evaluate(parameter_templates, ONE_ITEM)
    running = Evaluator(children, "org", "run").run_code(Script("while (true);", ScriptMode.ALL), ONE_ITEM)
    wild = asyncio.ensure_future(running)
    while not _pid(children, ("org", "run")):
        ended, _ = await asyncio.wait({wild}, timeout=0.01)
        assert not ended
    for _ in range(10):
        assert await other.evaluate(parameter_templates, ONE_ITEM) == [[2]]
    assert not wild.done()
    wild.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wild
