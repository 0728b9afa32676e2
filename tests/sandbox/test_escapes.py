"""Tests published ways out of expression languages, written again: each is refused or harmless.

See docs/guides/contributors.md#tests.
"""

from collections.abc import AsyncIterator

import pytest

from steward.sandbox.pool import SandboxPool
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.paths import UNDEFINED
from steward.steps.workflow.expressions.template import read, read_liquid
from steward.steps.workflow.expressions.views import (
    ExpressionContext,
    ExpressionError,
    ExpressionVariables,
    Script,
    ScriptMode,
)
from tests.expressions.cases import NOW

ONE_ITEM = ExpressionContext(
    items=[{"a": 1, "s": "x", "l": [3, 1, 2]}], variables=ExpressionVariables(now=NOW, timezone="UTC")
)


@pytest.fixture
async def evaluator() -> AsyncIterator[Evaluator]:
    """Provides one run's evaluator and ends its children after the test."""
    children = SandboxPool(1)
    try:
        yield Evaluator(children, "org", "run")
    finally:
        await children.close()


# Chunks that reach for the function constructor, the machine or the engine's internals. None may give more
# than undefined, an error, or a plain value that reveals nothing.
REACHING = [
    "(() => {}).constructor('return 7')()",
    "''['constructor']['constructor']('return 7')()",
    "''['con' + 'structor']['con' + 'structor']('return 7')()",
    "[]['flat']['constru' + 'ctor']('return 7')()",
    "Reflect.get(() => {}, 'constructor')('return 7')()",
    "Object.getPrototypeOf(async () => {})['const' + 'ructor']('return 7')()",
    "Object.getPrototypeOf(function* () {})['const' + 'ructor']('return 7')().next()",
    "Reflect.construct(Object.getPrototypeOf(() => {})['const' + 'ructor'], ['return 7'])()",
    "$ext$.first['const' + 'ructor']('return 7')()",
    "(function () { return arguments.callee.caller['const' + 'ructor']('return 7')() })()",
    "new Error().stack['const' + 'ructor']['const' + 'ructor']('return 7')()",
    "[...'7'].map(eval)[0].x.y",
    "globalThis['ev' + 'al']('7')",
    "globalThis['Func' + 'tion']('return 7')()",
    "import('os').x",
    "process.mainModule.require('child_process').execSync('id')",
    "require('fs').readFileSync('/etc/passwd')",
    "globalThis.process.env.HOME",
    "this.process.binding('fs').x",
    "globalThis.std.getenv('HOME')",
    "globalThis.os.exec(['id'])",
    "Error.prepareStackTrace = (e, s) => s, new Error().stack[0].getThis().x",
    "globalThis.$own$.begin('{}')",
    "Symbol.for('x')['const' + 'ructor']['const' + 'ructor']('return 7')()",
    "JSON.parse('{\"__pro\" + \"to__\": 1}')['const' + 'ructor']('return 7')()",
    "$jmespath($json, 'constructor')('return 7')()",
    "DateTime['const' + 'ructor']('return 7')()",
    "$now['const' + 'ructor']['const' + 'ructor']('return 7')()",
    "(class extends null { static { this.x = super['const' + 'ructor']('return 7')() } }).x",
    "new (class { static t(o) { return o } })['const' + 'ructor']['const' + 'ructor']('return 7')()",
]


async def test_published_sandbox_escapes_fail(evaluator: Evaluator) -> None:
    """Gives undefined, an error or an empty value for every published payload.

    See docs/guides/contributors.md#tests.
    """
    results = await evaluator.evaluate([read(f"={{{{ {chunk} }}}}") for chunk in REACHING], ONE_ITEM)
    for chunk, (outcome,) in zip(REACHING, results, strict=True):
        assert outcome is UNDEFINED or isinstance(outcome, ExpressionError) or outcome in ({}, None), (
            chunk,
            outcome,
        )


# What an expression tries to leave for the next one.
POLLUTING = [
    "(Object.prototype.a9 = 7)",
    "(Array.prototype.map = () => 7)",
    "(String.prototype.toUpperCase = () => 'no')",
    "(globalThis.left = 7)",
    "(() => { left2 = 7; return 7 })()",
    "(JSON.stringify = () => '7')",
    "(Math.round = () => 7)",
    "(Math.random = () => 7)",
    "Object.defineProperty(Object.prototype, 'b9', { get: () => 7 })",
    "Object.setPrototypeOf(Array.prototype, { x: 7 })",
    "(DateTime.prototype.toISO = () => 'no')",
    "(DateTime.now = () => 7)",
    "$json.l.sort()",
    "($json.a = 99)",
    "delete $json.s",
    "$input.all().splice(0, 9)",
    "Object.assign($json, { a: 99 })",
    "$json.l.push(9)",
    "(Symbol.prototype[Symbol.toPrimitive] = () => 'no')",
    "Reflect.set(Reflect, 'get', 7)",
    "(RegExp.prototype.exec = () => null)",
    "(Promise.prototype.then = () => 7)",
    "Array.prototype.push.call(Array.prototype, 7)",
]
LOOKING = {
    "({}).a9": UNDEFINED,
    "({}).b9": UNDEFINED,
    "[1].map(x => x + 1)": [2],
    "'q'.toUpperCase()": "Q",
    "typeof left": "undefined",
    "typeof left2": "undefined",
    "JSON.stringify({ a: 1 })": '{"a":1}',
    "Math.round(2.6)": 3,
    "[].x": UNDEFINED,
    "$now.toISO()": "2026-01-15T10:00:00.000Z",
    "$json.l": [3, 1, 2],
    "$json.a": 1,
    "$json.s": "x",
    "$input.all().length": 1,
    "/b/.exec('abc').index": 1,
    "[].length": 0,
}


async def test_no_expression_leaves_anything_for_another(evaluator: Evaluator) -> None:
    """Leaves globals and prototypes unchanged for expressions of the same message and of the next.

    See docs/design/sandbox.md#sandbox-for-foreign-code and
    docs/design/imports-n8n.md#where-expressions-run.
    """
    looks = [read(f"={{{{ {chunk} }}}}") for chunk in LOOKING]
    for texts in ([*POLLUTING], [POLLUTING[0]]):
        templates = [read(f"={{{{ {chunk} }}}}") for chunk in texts]
        results = await evaluator.evaluate([*templates, *looks], ONE_ITEM)
        assert [result[0] for result in results[len(templates) :]] == list(LOOKING.values())
    assert [result[0] for result in await evaluator.evaluate(looks, ONE_ITEM)] == list(LOOKING.values())


async def test_a_script_leaves_nothing_for_another(evaluator: Evaluator) -> None:
    """Runs each script in a new engine, so that no global or prototype reaches the next one.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    wild = (
        "Object.prototype.z9 = 7; globalThis.z8 = 7; Array.prototype.map = null; $json.a = 5; return { z: 7 }"
    )
    look = "return { z9: typeof ({}).z9, z8: typeof z8, map: [1].map((x) => x), a: $input.item.json.a }"
    run_code = await evaluator.run_code(Script(wild, ScriptMode.PER_ITEM), ONE_ITEM)
    assert run_code.items[0].json == {"z": 7}
    clean = await evaluator.run_code(Script(look, ScriptMode.PER_ITEM), ONE_ITEM)
    assert clean.items[0].json == {"z9": "undefined", "z8": "undefined", "map": [1], "a": 1}
    assert await evaluator.evaluate([read("={{ ({}).z9 }}"), read("={{ $json.a + 0 }}")], ONE_ITEM) == [
        [UNDEFINED],
        [1],
    ]


REACHING_SCRIPTS = [
    "return { v: require('fs') }",
    "return { v: process.env }",
    "return { v: (() => {}).constructor('return 7')() }",
    "return { v: globalThis.eval('7') }",
    "return { v: await import('os') }",
    "return { v: new (Object.getPrototypeOf(async () => {}).constructor)('return 7')() }",
    "return { v: Buffer.constructor('return 7')() }",
    "return { v: crypto.createHash('md5').update.constructor('return 7')() }",
]


@pytest.mark.parametrize("text", REACHING_SCRIPTS)
async def test_scripts_cannot_reach_files_or_the_environment(evaluator: Evaluator, text: str) -> None:
    """Fails a script that reaches for files, the environment, imports or the function constructor.

    See docs/design/security.md#imported-workflows.
    """
    result = await evaluator.run_code(Script(text, ScriptMode.PER_ITEM), ONE_ITEM)
    assert [item.error is not None for item in result.items] == [True]


LIQUID = [
    "{{ ''.__class__ }}",
    "{{ a.__class__.__mro__ }}",
    "{{ a | map: '__class__' | first }}",
    "{{ l.first.__init__.__globals__ }}",
    "{% assign x = a['__class__'] %}{{ x }}",
    "{{ self }}{{ context }}{{ template.env.filters }}",
    "{{ l | sort: '__class__' | join }}",
]


async def test_liquid_cannot_reach_python_objects(evaluator: Evaluator) -> None:
    """Shows templates nothing of Python's objects, and refuses to include other templates.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    results = await evaluator.render([read_liquid(text) for text in LIQUID], ONE_ITEM.items[0], NOW)
    for text, result in zip(LIQUID, results, strict=True):
        displayed = "" if isinstance(result, ExpressionError) else result
        assert "class" not in displayed, text
        assert "function" not in displayed, text
    for template in ("{% include 'x' %}", "{% render 'x' %}"):
        (result,) = await evaluator.render([read_liquid(template)], {}, NOW)
        assert isinstance(result, ExpressionError)
