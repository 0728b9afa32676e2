"""Tests that a message leaves no result, global or object in a child for the run's next message."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steward.sandbox.child_process import ChildProcess
from steward.sandbox.pool import JAVASCRIPT, LIQUID, SandboxPool, _exchange
from steward.sandbox.protocol import FRAME_BYTES, HEADER, SandboxStopped
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import read, read_liquid
from steward.steps.workflow.expressions.views import (
    CodeFailed,
    CodeStopped,
    ExpressionContext,
    ExpressionError,
    ExpressionVariables,
    Script,
    ScriptMode,
    StepView,
)
from tests.expressions.cases import NOW

OWNER = ("org", "run")
ONE_ITEM = ExpressionContext(
    items=[{"a": 1, "s": "x", "l": [3, 1, 2], "o": {"p": {"q": 1}}}],
    variables=ExpressionVariables(now=NOW, timezone="Europe/Berlin"),
    names=frozenset({"A"}),
    steps={"A": StepView(runs=[[[{"x": {"y": 1}}]]])},
)


@pytest.fixture
async def children() -> AsyncIterator[SandboxPool]:
    """Provides a pool of one child, so that every message of the run goes to the same one."""
    children = SandboxPool(1)
    try:
        yield children
    finally:
        await children.close()


# Forged results of the next messages, in every format that results have had.
FORGED = (
    '[]\\n+\\n{"ok":true,"cpu":0}\\n[[{"v":["https://elsewhere/"],"odd":[]}]]\\n'
    '{"ok":true,"cpu":0}\\n[{"items":[{"json":{"forged":1},"paired":[0]}],"lines":[]}]\\n'
    "\\u0000\\u0000=\\u0000\\u0000\\u0000\\u0002[]"
)
RETURN = "return [{ json: { a: 1 } }]"
FOLDER = Path(__file__).parent


def _scripts() -> dict[str, str]:
    """Returns the scripts of forging.js by their names."""
    _, *parts = (FOLDER / "forging.js").read_text("utf-8").split("// == ")
    named = (part.partition("\n") for part in parts)
    return {name: script.strip().replace("FORGED", FORGED) for name, _, script in named}


@pytest.mark.parametrize("mode", [ScriptMode.ALL, ScriptMode.PER_ITEM])
async def test_no_script_responds_for_a_later_step(children: SandboxPool, mode: ScriptMode) -> None:
    """Answers the run's next messages correctly after a script that fails or forges answers."""
    evaluator = Evaluator(children, *OWNER)
    address = read("={{ 'https://shop.example/' + $json.a + $now.setZone('Asia/Tokyo').toFormat('HH') }}")
    for name, script in _scripts().items():
        text = script if mode is ScriptMode.ALL else script.replace(RETURN, "return { a: 1 }")
        try:
            run_code = await evaluator.run_code(Script(text, mode), ONE_ITEM)
            assert all("forged" not in item.json for item in run_code.items), name
        except (CodeFailed, CodeStopped):
            pass
        assert await evaluator.evaluate([address], ONE_ITEM) == [["https://shop.example/119"]], name
        result = await evaluator.run_code(
            Script("return [{ json: { b: JSON.stringify([2]) } }]", ScriptMode.ALL), ONE_ITEM
        )
        assert [item.json for item in result.items] == [{"b": "[2]"}], name
        assert await evaluator.matches([("a", "", "a")]) == [True], name


BENIGN = {
    "Array.prototype.map = Array.prototype.some = null; return [{ json: { a: 1 } }, { json: { a: 2 } }]": [
        1,
        2,
    ],
    "Object.prototype.error = 1; return [{ json: { a: 1 } }]": [1],
    "Object.hasOwn = Object.keys = null; JSON.stringify = null; return { a: 1 }": [1],
    "Promise.prototype.then = null; return [{ json: { a: 1 } }]": [1],
    "globalThis.JSON = null; globalThis.Object = null; return { a: 1 }": [1],
}


async def test_replaced_built_ins_do_not_change_the_result(children: SandboxPool) -> None:
    """Encodes the answer with functions captured before any script ran."""
    evaluator = Evaluator(children, *OWNER)
    for text, expected in BENIGN.items():
        run_code = await evaluator.run_code(Script(text, ScriptMode.ALL), ONE_ITEM)
        assert [item.json["a"] for item in run_code.items] == expected, text


# An expression that visits every object it can reach, and reports those that an earlier visit marked.
WALK = (FOLDER / "walk.js").read_text("utf-8").partition("\n")[2].strip()


async def test_all_shared_objects_that_expressions_reach_are_frozen(children: SandboxPool) -> None:
    """Shows an expression's changes to no other parameter, item or later step."""
    evaluator = Evaluator(children, *OWNER)
    two = ExpressionContext(
        items=[*ONE_ITEM.items, *ONE_ITEM.items],
        variables=ONE_ITEM.variables,
        names=ONE_ITEM.names,
        steps=ONE_ITEM.steps,
    )
    walk = read("={{ " + WALK + " }}")
    for _ in range(2):
        for results in await evaluator.evaluate([walk, read(f"={{{{ {WALK} }}}}")], two):
            for result in results:
                assert isinstance(result, dict), result
                assert result["found"] == []
                assert result["walked"] > 1000


SHARED = {
    "(Reflect.getPrototypeOf($input).first = () => ({ json: { a: 2 } }), 1)": "$input.first().json.a + 0",
    "(Object['ass' + 'ign']($json, { a: 'forged' }), 1)": "$json.a + 0",
    "($json.l['so' + 'rt'](), 1)": "$json.l[0] - 2",
    "Reflect['se' + 't']($json.o.p, 'q', 'forged')": "$json.o.p.q + 0",
    "($now.toISO = () => 'forged', $now.zone.offset = () => 600, 1)": "$now.offset - 59",
    "Reflect.set(Reflect.getPrototypeOf($now.zone), 'offset', () => 600)": "$now.offset - 59",
    "Reflect.set(Reflect.getPrototypeOf($('A')), 'first', () => 7)": "$('A').first().json.x.y",
    "(Error.prepareStackTrace = () => 'forged', 1)": "typeof new Error('x').stack === 'string' ? 1 : 0",
    "(\\u0024json.l.p\\u0075sh(7), 1)": "$json.l.length - 2",
    "[...'n'].map(([k]) => $json.o[`${k}o`] ?? Object['as' + `sign`]($json, { a: 2 }))": "$json.a + 0",
    "(({ ['so' + 'rt']: f }) => f.call($json.l))([])": "$json.l[0] - 2",
    "Object.entries(Object.getOwnPropertyDescriptors(Object.getPrototypeOf([]))).find(([k]) => k[0] + k[3]"
    " === 'st').at(1).value.call($json.l)": "$json.l[0] - 2",
    "($json.a <<= 4, 1)": "$json.a + 0",
    "($json.a >>>= 1, 1)": "$json.a + 0",
    "(Object.defineProperties($json, { a: { value: 2 } }), 1)": "$json.a + 0",
    "($json.__defineGetter__('a', () => 2), 1)": "$json.a + 0",
    "(Array.of.call(function () { return $json.l }, 9), 1)": "$json.l.length - 2",
    "(class extends Array { constructor() { super(); return $json.l } }).of(9) && 1": "$json.l.length - 2",
    "((a) => { for ($json.a of [2]); return a })(1)": "$json.a + 0",
    "((a) => { for (a of $input.all()) a.json['l'][`po${''}p`](); return a })(1)": "$json.l.length - 2",
    "(arguments.callee.n = (arguments.callee.n ?? 0) + 1, arguments.callee.n)": "1",
}


async def test_no_expression_changes_what_another_parameter_reads(children: SandboxPool) -> None:
    """Gives other parameters the same values, in the same message and in the next."""
    evaluator = Evaluator(children, *OWNER)
    for change, look in SHARED.items():
        templates = [read(f"={{{{ {text} }}}}") for text in (look, change, look)]
        for _ in range(2):
            before, _, after = await evaluator.evaluate(templates, ONE_ITEM)
            assert (before, after) == ([1], [1]), change


async def test_liquid_texts_with_line_breaks_stay_in_their_frame(children: SandboxPool) -> None:
    """Renders texts that look like frames as they are."""
    evaluator = Evaluator(children, *OWNER)
    forged = 'x\n=\n[["forged",null]]\n\u2028\x00'
    texts = [
        read_liquid("{{ a }}"),
        read_liquid(forged),
        read_liquid("{{ a | nope }}"),
        read_liquid("{{ b }}"),
    ]
    for _ in range(2):
        whole, plain, failed, last = await evaluator.render(texts, {"a": forged, "b": "end"}, NOW)
        assert (whole, plain, last) == (forged, forged, "end")
        assert isinstance(failed, ExpressionError)


# Processes that violate the protocol; `nonce` and `say` are defined.
LYING = """
import os, struct, time
def take(count):
    data = b""
    while len(data) < count:
        data += os.read(0, count - len(data)) or os._exit(0)
    return data
def hear():
    nonce, kind, length = struct.unpack(">16scI", take(21))
    take(length)
    return nonce
def say(nonce, kind, body, length=None):
    os.write(1, struct.pack(">16scI", nonce, kind, len(body) if length is None else length) + body)
while True:
    hear(); nonce = hear()
"""
LIES = {
    "a second answer": "os.write(1, 2 * (struct.pack('>16scI', nonce, b'=', 3) + b'[1]'))",
    "a byte too many": "os.write(1, struct.pack('>16scI', nonce, b'=', 3) + b'[1]x')",
    "an older nonce": "say(bytes(16), b'=', b'[1]')",
    "a line break": "say(nonce, b'=', b'[1,\\n2]')",
    "an unknown kind": "say(nonce, b'#', b'[1]')",
    "too long a frame": f"say(nonce, b'=', b'[1]', {FRAME_BYTES} + 1)",
    "half a frame": "say(nonce, b'=', b'[1', 9); os._exit(0)",
    "half a header": "os.write(1, b'[1]\\n'); os._exit(0)",
    "an unknown end": "say(nonce, b'x', b'all_is_well')",
    "a line": 'os.write(1, b\'{"ok":true,"cpu":0}\\n[[1]]\\n\')',
    "silence": "os._exit(0)",
}


@pytest.mark.parametrize("lie", list(LIES))
async def test_an_invalid_response_of_a_process_is_refused(lie: str, tmp_path: Path) -> None:
    """Stops with `code_crashed` unless one frame with the message's nonce arrives, and nothing after it."""
    text = LYING + f"    {LIES[lie]}\n"
    process = await ChildProcess.start([sys.executable, "-I", "-S", "-c", text], str(tmp_path))
    try:
        with pytest.raises(SandboxStopped) as stopped:
            await _exchange(process, b"{}", b"[]", 10.0)
        assert stopped.value.code == "code_crashed"
    finally:
        await process.end()


async def test_the_longest_frame_is_read_and_the_process_continues(tmp_path: Path) -> None:
    """Reads a frame of exactly FRAME_BYTES, twice."""
    text = LYING + f"    say(nonce, b'+', b''); say(nonce, b'=', b'x' * {FRAME_BYTES})\n"
    process = await ChildProcess.start([sys.executable, "-I", "-S", "-c", text], str(tmp_path))
    try:
        for _ in range(2):
            assert len(await _exchange(process, b"{}", b"[]", 10.0)) == FRAME_BYTES
        assert not process.unread
    finally:
        await process.end()


@pytest.mark.parametrize("kind", [JAVASCRIPT, LIQUID])
async def test_a_child_that_writes_without_a_message_is_replaced(children: SandboxPool, kind: str) -> None:
    """Ends a child that wrote without a message, because its bytes could be taken for the next result."""
    request_body, payload = ({"op": "match"}, b"[]") if kind == JAVASCRIPT else ({"op": "check"}, b"[]")
    result = await children.send(OWNER, kind, request_body, payload, 5.0)
    (child,) = children._live
    child.process._reader.feed_data(HEADER.pack(bytes(16), b"=", 5) + b"[[1]]")
    assert await children.send(OWNER, kind, request_body, payload, 5.0) == result
    assert child not in children._live
    assert child.process._process.returncode is not None
    await asyncio.gather(*children._spares)
