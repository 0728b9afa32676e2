"""Tests the names that scripts can use and which results become items, beyond the recorded ones.

See docs/design/imports-n8n.md#code-steps.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.views import (
    CodeFailed,
    ExpressionContext,
    ExpressionVariables,
    Script,
    ScriptItem,
    ScriptMode,
    StepView,
    Unpaired,
)
from tests.expressions.cases import NOW

ContextFactory = Callable[[Sequence[Any]], ExpressionContext]
TWO = [{"n": 1}, {"n": 2}]


async def _all(
    evaluator: Evaluator, text: str, context: ExpressionContext, mode: ScriptMode = ScriptMode.ALL
) -> tuple[ScriptItem, ...]:
    return (await evaluator.run_code(Script(text, mode), context)).items


@pytest.mark.parametrize(
    "text",
    [
        "return { u: $execution.resumeUrl }",
        "return { u: $execution?.['resumeUrl'] }",
        "return { u: $execution[`resumeFormUrl`] }",
        "const { resumeUrl } = $execution; return { resumeUrl }",
        "const e = $execution; e.customData.set('a', 1); return []",
    ],
)
async def test_unavailable_members_of_execution_fail(
    evaluator: Evaluator, context_of: ContextFactory, text: str
) -> None:
    """Fails on unavailable members of `$execution`, in any spelling, instead of giving undefined."""
    with pytest.raises(CodeFailed, match="is not available"):
        await _all(evaluator, text, context_of(TWO))


_FIXED_NAMES = "“$env”: Variables of n8n are read by fixed names"
_NO_VALUE = "“$env.PLACE” has no value here"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "return { a: $env.SHOP, b: 'SHOP' in $env, c: $env.PLACE ?? 'x' }",
            {"a": "Tea", "b": True, "c": "x"},
        ),
        (
            "const e = $env; return { a: e.SHOP, b: e[Symbol.toStringTag] === undefined }",
            {"a": "Tea", "b": True},
        ),
        ("const e = $env; return { a: e.PLACE }", _NO_VALUE),
        ("const { SHOP, PLACE } = $env; return { SHOP, PLACE }", _NO_VALUE),
        ("const e = $env; return { a: 'PLACE' in e }", _NO_VALUE),
        ("const e = $env; return { a: Object.hasOwn(e, 'PLACE') }", _NO_VALUE),
        (
            "const f = $env => $env.q ?? $env.PLACE; return { a: f({ q: 1 }), b: $env.SHOP + $env.KEY }",
            "$env.KEY",
        ),
        ("const e = $env; return { ...e }", _FIXED_NAMES),
        ("const e = $env; return { a: JSON.stringify(e) }", _FIXED_NAMES),
    ],
)
async def test_a_variable_without_a_value_fails(evaluator: Evaluator, text: str, expected: Any) -> None:
    """Reads variables with a value or a fallback; fails for others, in any spelling.

    See docs/design/imports-variables.md#values.
    """
    scope = ExpressionVariables(
        now=NOW, timezone="UTC", seed=3, of_n8n={"$env.SHOP": "Tea", "$vars.PLACE": "x"}
    )
    values = ExpressionContext(items=[{}], variables=scope)
    if isinstance(expected, str):
        with pytest.raises(CodeFailed, match=re.escape(expected)):
            await _all(evaluator, text, values)
    else:
        assert (await _all(evaluator, text, values))[0].json == expected


async def test_execution_is_encoded_without_unavailable_members(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Copies and encodes `$execution` with its available members."""
    text = "return { names: Object.keys({ ...$execution }), text: JSON.stringify($execution) }"
    (item,) = await _all(evaluator, text, context_of(TWO))
    assert "resumeUrl" not in str(item)
    assert "customData" not in str(item)


async def test_results_are_read_as_items(evaluator: Evaluator, context_of: ContextFactory) -> None:
    """Accepts a list of {json}, a list of objects, or one object; pairs them as the script says.

    See docs/design/imports-n8n.md#code-steps.
    """
    pairs_by_script = {
        "return [{ json: { a: 1 }, pairedItem: 1 }, { json: { a: 2 }, pairedItem: [0, { item: 1 }] }]": [
            (1,),
            (0, 1),
        ],
        "return [{ a: 1 }, { b: 2 }]": [None, None],
        "return { a: 1 }": [None],
        "return $input.all().filter((item) => item.json.n > 1)": [(1,)],
        "return items.map((item) => ({ json: item.json }))": [None, None],
        "return []": [],
        # Names that scripts declare although n8n provides them, as half of all scripts do.
        "const items = $input.all(); return items.map((item) => ({ json: item.json }))": [None, None],
        "return [$json, $input.item.json, { n: $itemIndex }]": [None, None, None],
        "let crypto = 1; const DateTime = 2; return { a: crypto + DateTime }": [None],
    }
    for text, pairs in pairs_by_script.items():
        assert [item.paired for item in await _all(evaluator, text, context_of(TWO))] == pairs, text


@pytest.mark.parametrize(
    ("text", "thrown"),
    [
        ("return 5", False),
        ("return 'x'", False),
        ("return [1]", False),
        ("return [[{}]]", False),
        ("return null", False),
        ("", False),
        ("return [{ json: 7 }]", False),
        ("return [{ json: {}, total: 7 }]", False),
        ("return [{ json: {} }, { total: 7 }]", False),
        ("return DateTime.now()", False),
        ("return [{ json: new Date() }]", False),
        ("throw new Error('no stock')", True),
        ("return item.json", True),
        ("return nowhere.x", True),
        ("throw 'plain'", True),
        ("return $('Gone').first().json", True),
    ],
)
async def test_a_failure_says_whether_the_script_threw(
    evaluator: Evaluator, context_of: ContextFactory, text: str, thrown: bool
) -> None:
    """Distinguishes an error that the script threw from a result of the wrong shape.

    See docs/design/imports-n8n.md#node-settings.
    """
    with pytest.raises(CodeFailed) as failed:
        await _all(evaluator, text, context_of(TWO))
    assert failed.value.thrown is thrown
    assert failed.value.message


async def test_each_failed_item_has_its_own_error_with_the_line(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Gives each failed item its own error with the line number.

    See docs/design/imports-n8n.md#node-settings.
    """
    text = "const a = 1;\nif ($json.n === 2) throw new Error('two');\nreturn { a, at: $itemIndex };"
    first, second = await _all(evaluator, text, context_of(TWO), ScriptMode.PER_ITEM)
    assert first == ScriptItem({"a": 1, "at": 0}, (0,))
    assert second == ScriptItem({}, (1,), "two [line 2]")
    item = "const item = $input.item;\nif ($json.n === 2) item.gone.x;\nif ($json.n === 1) return item;"
    first, second = await _all(evaluator, item, context_of(TWO), ScriptMode.PER_ITEM)
    assert first == ScriptItem({"n": 1}, (0,))
    assert second == ScriptItem({}, (1,), "Cannot read properties of undefined (reading 'x') [line 2]")
    (nothing, _) = await _all(evaluator, "const n = 1;", context_of(TWO), ScriptMode.PER_ITEM)
    assert nothing.error is not None
    assert "[line" not in nothing.error


async def test_scripts_have_buffers_hashes_and_top_level_await(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Provides Buffer, hashes, top-level await and a console that keeps 200 lines.

    See docs/design/imports-n8n.md#code-steps.
    """
    text = """
        const text = Buffer.from('héllo').toString('base64');
        const back = Buffer.from(text, 'base64').toString('utf-8');
        const hash = crypto.createHash('sha256').update('a').update('b').digest('hex');
        const mac = crypto.createHmac('sha1', 'key').update('x').digest('base64');
        for (let i = 0; i < 300; i += 1) console.log('line', i, { i });
        const waited = await new Promise((resolve) => resolve(atob(btoa('z'))));
        const all = await Promise.all([1, Promise.resolve(2)]);
        return { text, back, hash, mac, waited, all, id: crypto.randomUUID().length };
    """
    result = await evaluator.run_code(Script(text, ScriptMode.ALL), context_of(TWO))
    assert result.items[0].json == {
        "text": "aMOpbGxv",
        "back": "héllo",
        "hash": hashlib.sha256(b"ab").hexdigest(),
        "mac": base64.b64encode(hmac.digest(b"key", b"x", "sha1")).decode(),
        "waited": "z",
        "all": [1, 2],
        "id": 36,
    }
    assert len(result.lines) == 200
    assert result.lines[7] == 'line 7 {"i":7}'


async def test_scripts_can_load_modules_that_only_compute(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Loads modules for URLs, query strings, bytes, dates and formats that answer as Node.js 20 does."""
    text = """
        const { URL: Address } = require('url');
        const url = new URL('../b ?q=ä#f', 'HTTPS://u:p%40@EXAMPLE.com:443/a/c/d');
        url.searchParams.append('x y', '1&2');
        const luxon = require('luxon');
        const bytes = Buffer.concat([Buffer.from('ff00', 'hex'), Buffer.from('é', 'latin1')]);
        const clone = structuredClone($input.first().json);
        clone.n = 9;
        let missing = '';
        try { require('fs') } catch (error) { missing = error.message }
        return {
          href: url.href, same: Address === URL, origin: url.origin, user: url.password,
          invalid: URL.canParse('x y'), pairs: [...new URLSearchParams('a=1&b=%20+&a=2')],
          query: require('querystring').stringify({ a: [1, 'x y'], b: null }),
          parsed: require('node:querystring').parse('a=1&a=2&b=%C3%A4'),
          hash: require('crypto').createHash('md5').update('a').digest('hex'),
          day: luxon.DateTime.fromISO('2024-02-03T10:00:00Z', { zone: 'utc' }).toISODate(),
          hex: bytes.toString('hex'), base: bytes.toString('base64'), part: bytes.slice(1, 2).length,
          text: require('util').format('%s is %d%%', 'it', '7'), length: Buffer.byteLength('é'),
          encoded: [...new TextEncoder().encode('é')],
          decoded: new TextDecoder().decode(new Uint8Array([195, 169])),
          places: ['é', 'o', 'x', 108].map((part) => Buffer.from('héllo').indexOf(part)),
          has: Buffer.from('héllo').includes('ll'),
          binary: btoa(atob('/+8=')), first: $input.first().json.n, missing,
        };
    """
    result = await evaluator.run_code(Script(text, ScriptMode.ALL), context_of(TWO))
    assert result.items[0].json == {
        "href": "https://u:p%40@example.com/a/b%20?q=%C3%A4&x+y=1%262#f",
        "same": True,
        "origin": "https://example.com",
        "user": "p%40",
        "invalid": False,
        "pairs": [["a", "1"], ["b", "  "], ["a", "2"]],
        "places": [1, 5, -1, 3],
        "has": True,
        "query": "a=1&a=x%20y&b=",
        "parsed": {"a": ["1", "2"], "b": "ä"},
        "hash": hashlib.md5(b"a").hexdigest(),
        "day": "2024-02-03",
        "hex": "ff00e9",
        "base": "/wDp",
        "part": 1,
        "text": "it is 7%",
        "length": 2,
        "encoded": [195, 169],
        "decoded": "é",
        "binary": "/+8=",
        "first": 1,
        "missing": "Cannot find module 'fs'",
    }


# The message of Node.js 22 for the error that each piece of code throws, with `o` as in the test below.
ERROR_TEXTS = {
    "o.gone.x": "Cannot read properties of undefined (reading 'x')",
    "o.none.x = 1": "Cannot set properties of null (setting 'x')",
    "o.a.map(x => x * 2)": "o.a.map is not a function",
    "/* größer 日本 😀 */ o.a.größe(1)": "o.a.größe is not a function",
    "o.list[0]['name'](1)": "o.list[0].name is not a function",
    "o.get(1).rows.join(', ')": "o.get(...).rows.join is not a function",
    "for (const x of o.gone) {}": "o.gone is not iterable",
    "for (const x of o.get(1).rows) {}": "o.get.rows is not iterable",
    "[...o.a]": "o.a is not iterable",
    "gone.x": "gone is not defined",
    "let a = b1; let b1": "Cannot access 'b1' before initialization",
    "const c = 1; c = 2": "Assignment to constant variable.",
    "[].reduce((a, b) => a)": "Reduce of empty array with no initial value",
    "new Date('x').toISOString()": "Invalid time value",
    "decodeURIComponent('%')": "URI malformed",
    "(1).toFixed(101)": "toFixed() digits argument must be between 0 and 100",
    "new URL('https://1.2.3.256')": "Invalid URL",
    "atob('%')": "Invalid character",
    "const [a] = o.none": "object null is not iterable (cannot read property Symbol(Symbol.iterator))",
    "o.gone[Symbol.iterator]": ("undefined is not iterable (cannot read property Symbol(Symbol.iterator))"),
    "o?.a()": "o?.a is not a function",
    "'x'.repeat(-1)": "Invalid count value: -1",
    "throw new TypeError('not a function')": "not a function",
    "const Kind = TypeError; throw Kind(\"'price' is read-only\")": "'price' is read-only",
    "throw new RangeError('empty array')": "empty array",
    "throw new ReferenceError('cart is not initialized')": "cart is not initialized",
    "throw new URIError('bad')": "bad",
    "throw Object.freeze(new Error('frozen'))": "frozen",
    "JSON.parse('')": "Unexpected end of JSON input",
    "JSON.parse(o.gone)": '"undefined" is not valid JSON',
    "JSON.parse('Here it is: {}')": "Unexpected token 'H', \"Here it is: {}\" is not valid JSON",
    "JSON.parse('<!DOCTYPE html><html></html>')": (
        "Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON"
    ),
    'JSON.parse(\'{\\n"a": "x\\ny"}\')': (
        "Bad control character in string literal in JSON at position 9 (line 2 column 8)"
    ),
    "JSON.parse('{\"a\":1,}')": (
        "Expected double-quoted property name in JSON at position 7 (line 1 column 8)"
    ),
    'JSON.parse(\'["a\\\\n\\\\u00e9", 12.5e3 , -0, {"b" : x}]\')': (
        'Unexpected token \'x\', ..."0, {"b" : x}]" is not valid JSON'
    ),
    "JSON.parse('[1, 2')": (
        "Expected ',' or ']' after array element in JSON at position 5 (line 1 column 6)"
    ),
    "JSON.parse('{} x')": "Unexpected non-whitespace character after JSON at position 3 (line 1 column 4)",
}


async def test_caught_errors_have_the_messages_of_node(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Gives caught errors the messages of Node.js, since scripts put them into fields."""
    pieces = "\n".join(
        f"try {{ {code} }} catch (error) {{ texts.push(error.message) }}" for code in ERROR_TEXTS
    )
    start = (
        "const o = { a: 5, none: null, list: [{ name: 'x' }], get: () => ({ rows: 7 }) }; const texts = [];"
    )
    result = await evaluator.run_code(
        Script(f"{start}\n{pieces}\nreturn {{ texts }};", ScriptMode.ALL), context_of(TWO)
    )
    texts = result.items[0].json["texts"]
    assert dict(zip(ERROR_TEXTS, texts, strict=True)) == ERROR_TEXTS


# QuickJS's message where it is uncertain which code failed.
UNCERTAIN_ERRORS = {
    "$json.n.a($json.n.toFixed(1))": "not a function",
    "$json.toString($json.n?.())": "not a function",
    "(function () { 'use strict'; frozen.x = 2 })()": "'x' is read-only",
    "Object.assign(frozen, { x: 2 })": "'x' is read-only",
}


async def test_an_error_of_uncertain_origin_names_no_code(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Names no code if any of several calls may have failed."""
    pieces = "\n".join(
        f"try {{ {code} }} catch ({{ message }}) {{ texts.push(message) }}" for code in UNCERTAIN_ERRORS
    )
    text = f"const texts = [], frozen = Object.freeze({{ x: 1 }});\n{pieces}\nreturn {{ texts }};"
    result = await evaluator.run_code(Script(text, ScriptMode.ALL), context_of(TWO))
    assert result.items[0].json == {"texts": list(UNCERTAIN_ERRORS.values())}


async def test_a_catch_clause_may_destructure_errors(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Gives errors caught by a destructuring pattern the messages of Node.js; line numbers stay."""
    text = "try { null.x } catch ({\n message, name = '',\n}) {\n throw new Error(`${name}: ${message}`) }"
    with pytest.raises(CodeFailed, match=r"^TypeError: Cannot read .* \(reading 'x'\) \[line 4\]$"):
        await evaluator.run_code(Script(text, ScriptMode.ALL), context_of(TWO))


async def test_error_classes_behave_as_in_plain_javascript(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Keeps names, prototypes and stacks of errors; an error that cannot be modified stays unchanged."""
    text = """
        const methods = { catch() { return 1 }, other: { catch({ a }, b) { return a + b } } };
        class Late extends TypeError {
            constructor(text) { super(text); Error.captureStackTrace(this, Late); }
        }
        const late = new Late('empty array'), made = RangeError('x', { cause: 1 });
        const firstLine = (error) => error.stack.split('\\n')[0].replace(/\\d+\\)/, ')');
        let kept;
        try {
            try { null.x } catch (error) { Object.freeze(error); throw error }
        } catch (error) { kept = error.message }
        return {
            kinds: [Late, TypeError, Error].map((kind) => late instanceof kind),
            others: [made instanceof RangeError, made instanceof TypeError],
            names: [late.name, RangeError.name, made.cause, Object.keys(made).length],
            same: [TypeError.prototype.constructor === TypeError, Object.getPrototypeOf(TypeError) === Error],
            lines: [late, made].map(firstLine),
            kept,
            methods: [methods.catch(), methods.other.catch({ a: 1 }, 2), typeof globalThis.let],
        };
    """
    result = await evaluator.run_code(Script(text, ScriptMode.ALL), context_of(TWO))
    assert result.items[0].json == {
        "kinds": [True, True, True],
        "others": [True, False],
        "names": ["TypeError", "RangeError", 1, 0],
        "same": [True, True],
        "lines": ["    at <anonymous> (<input>:8:)"] * 2,
        "kept": "Cannot read properties of null (reading 'x')",
        "methods": [1, 3, "undefined"],
    }


async def test_buffers_are_restored_from_json(evaluator: Evaluator, context_of: ContextFactory) -> None:
    """Reads Buffers from their JSON, and host names that are numbers as IPv4; other values fail."""
    text = """
        const made = Buffer.from(JSON.parse(JSON.stringify(Buffer.from('hé')))).toString();
        const nameOf = (value) => { try { Buffer.from(value) } catch (error) { return error.name } };
        const host = new URL('http://0x7f.1/').host, old = unescape(escape('ä '));
        const odd = JSON.parse('[1]', (key, value) => value);
        const { buffer } = Uint8Array.from([104, 101, 108]);
        const parts = [Buffer.from(buffer, 1, 2), Buffer.from(buffer, 2), Buffer.from(buffer)].map(String);
        const plain = ['YQ==', 'YWI=', 'YWJj'].map(atob);
        return { made, failed: [5, {}, null].map(nameOf), host, old, odd, parts, plain };
    """
    result = await evaluator.run_code(Script(text, ScriptMode.ALL), context_of(TWO))
    assert result.items[0].json == {
        "made": "hé",
        "failed": ["TypeError"] * 3,
        "host": "127.0.0.1",
        "old": "ä ",
        "odd": [1],
        "parts": ["el", "l", "hel"],
        "plain": ["a", "ab", "abc"],
    }


async def test_clock_and_random_numbers_are_the_same_in_a_resumed_run(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Gives the clock of the step's start and random numbers from the run's seed.

    See docs/design/imports-n8n.md#names and docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    text = "return { now: Date.now(), at: new Date().toISOString(), lux: $now.toISO(), dice: Math.random() }"
    first = await _all(evaluator, text, context_of(TWO))
    assert first == await _all(evaluator, text, context_of(TWO))
    assert first[0].json["now"] == NOW.timestamp() * 1000
    assert first[0].json["lux"] == "2026-01-15T11:00:00.000+01:00"


async def test_scripts_see_other_steps_through_pairing(evaluator: Evaluator) -> None:
    """Gives a script the paired item that the caller resolved.

    See docs/design/imports-n8n.md#pairing.
    """

    def pairing(name: str, index: int) -> tuple[int, int, int] | Unpaired | None:
        return (0, 0, 1 - index) if index < 2 else Unpaired("It cannot be told which.")

    views = {"A": StepView(runs=[[[{"x": "p"}, {"x": "q"}]]])}
    scope = ExpressionVariables(now=NOW, timezone="UTC")
    context = ExpressionContext(
        items=[*TWO, {"n": 3}], variables=scope, steps=views, names=frozenset({"A"}), pairing=pairing
    )
    created_items = await _all(
        evaluator, "return { x: $('A').item.json.x, n: $('A').all().length }", context, ScriptMode.PER_ITEM
    )
    assert [item.json for item in created_items[:2]] == [{"x": "q", "n": 2}, {"x": "p", "n": 2}]
    assert "cannot be told" in (created_items[2].error or "")


async def test_flow_scripts_run_main_with_their_input(evaluator: Evaluator) -> None:
    """Calls `main` of a Shopify Flow script with its input and returns its result.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    text = (
        "const twice = (n) => n * 2;\nexport default function main(input) { return { n: twice(input.a.n) }; }"
    )
    assert await evaluator.run_flow_code(text, {"a": {"n": 4}}, NOW) == {"n": 8}
    with pytest.raises(CodeFailed):
        await evaluator.run_flow_code("export default function main() { throw new Error('x'); }", {}, NOW)


async def test_patterns_with_look_around_are_matched_in_the_sandbox(evaluator: Evaluator) -> None:
    """Evaluates patterns with look-around or back-references in the sandbox, never in the service.

    See docs/design/imports-n8n.md#conditions.
    """
    pairs = [("(?<=a)b", "", "ab"), ("(a)\\1", "", "ab"), ("(", "", "x"), ("É", "i", "é")]
    assert await evaluator.matches(pairs) == [True, False, None, True]
