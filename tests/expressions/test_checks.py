"""Tests the problems that compiling finds at import, before anything runs.

See docs/design/imports-n8n.md#code-steps and docs/design/imports-n8n.md#findings.
"""

import time

import pytest

from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import read, read_liquid
from steward.steps.workflow.expressions.views import (
    CheckRequest,
    CodeFailed,
    ExpressionContext,
    ExpressionVariables,
    Script,
    ScriptMode,
)
from tests.expressions.cases import NOW

TEMPLATES = {
    "={{ $json.a }}": [],
    "={{ $json.a + 1 }}": [],
    "=ab {{ 1 + }}": [("expression_feature", "error", True, 7)],
    "={{ }}": [("expression_feature", "error", True, 4)],
    "={{ '}}' }}": [("expression_feature", "error", True, 4)],
    "={{ 1) + (2 }}": [("expression_feature", "error", True, 4)],
    "={{ $json.x.constructor }}": [("expression_feature", "error", False, 4)],
    "=a{{ 1 }}b{{ $fromAI('x') }}": [("expression_feature", "error", False, 14)],
    "={{ $vars.x + 1 }}": [("variable", "error", False, 5)],
    "={{ $vars[$json.x] }}": [("expression_feature", "error", False, 5)],
    "={{ JSON.stringify($vars) }}": [("expression_feature", "error", False, 20)],
    "={{ Object.keys($env) }}": [("expression_feature", "error", False, 17)],
    "={{ $env[`A`] + $env['a' + 1] }}": [("expression_feature", "error", False, 5)],
    "=Bearer {{ $secrets.vault.key }}": [("expression_feature", "error", False, 12)],
    "=Token {{ $credentials.token }}": [("expression_feature", "error", False, 11)],
    "={{ $vars.shop || 'x' }}": [("variable", "warning", False, 5)],
    "={{ $vars?.['my shop']?.name ?? 'x' }}": [("variable", "warning", False, 5)],
    "={{ $json.a || $vars.shop }}": [("variable", "error", False, 16)],
    "={{ $json.$vars + '$vars' }}": [],
    "={{ new Intl.RelativeTimeFormat('en') }}": [("expression_feature", "error", False, 14)],
    "={{ $env.HOME }}": [("variable", "error", False, 5)],
    "={{ new Intl.DisplayNames('en').of('DE') }}": [("expression_feature", "error", False, 14)],
    "={{ $evaluateExpression('1 + 1') }}": [("expression_feature", "error", False, 5)],
    "={{ $execution.resumeUrl }}": [("expression_feature", "error", False, 16)],
    "={{ $execution['resumeFormUrl'] + $json.resumeUrl }}": [("expression_feature", "error", False, 16)],
    "={{ $resumeWebhookUrl }}": [("expression_feature", "error", False, 5)],
    "={{ $now.setLocale('pl').toFormat('LLLL') }}": [("locale_fallback", "warning", False, 20)],
    "={{ $now.setLocale('en-AU').toFormat('D') }}": [("locale_fallback", "warning", False, 20)],
    "={{ $now.setLocale('de').toRelative() }}": [("locale_fallback", "warning", False, 20)],
    "={{ $json.price.toLocaleString('id-ID') }}": [("locale_fallback", "warning", False, 32)],
    "={{ btoa($json.a) + $json.btoa(1) + $json.escape('ä') }}": [("expression_feature", "warning", False, 5)],
    "={{ new URL($json.a).host }}": [("expression_feature", "warning", False, 9)],
    "={{ ({ double(x) { return Number(x) }, *all(f) { yield f(1) } }).double(2) }}": [],
    "={{ (function twice(f, [g]) { const { h } = $json; return f(g(h(2))) + Number(twice) })(x => x) }}": [],
    "={{ $now.setLocale('de').toFormat('LLLL') + (5).toLocaleString('en-GB') }}": [],
    "={{ x => x / 2 / 3 }}": [],
    "={{ $json.a.match(/[}/]+/g) }}": [],
    "={{ `a${`b${1}`}` }}": [],
    "={{ $binary.photo.data }}": [("expression_feature", "error", False, 5)],
    "={{ $('X').first().binary['photo']?.data.length }}": [("expression_feature", "error", False, 20)],
    "={{ $binary.data.fileName + $json.binary.photo.data }}": [],
    "={{ $json.body.binary.image.data + $json.list[0].binary.image.data }}": [],
    "={{ $input.item.json['list'][0].binary.a.data + JSON.parse($json.t).binary.a.data }}": [],
    "={{ $input.item.binary.photo.data }}": [("expression_feature", "error", False, 17)],
    "={{ $input.all().map(i => i.binary.photo.data) }}": [("expression_feature", "error", False, 29)],
    "={{ $json.rows.map(i => i.binary.x.data) + $('X').item.json.rows.find(i => i.binary.x.data) }}": [],
}

SCRIPTS = {
    "return items;": [],
    "return await x;": [],
    "return {": ["error"],
    "const fs = require('fs'); return [];": ["error"],
    "import fs from 'fs'; return [];": ["error"],
    "const r = await fetch('https://x.example'); return [];": ["error"],
    "const r = await this.helpers.httpRequest({}); return [];": ["error"],
    "setTimeout(() => 1, 1); return [{ json: process.env }];": ["error", "error"],
    "const s = $getWorkflowStaticData('global'); return [];": [],
    "const s = getWorkflowStaticData('global'); return [];": ["error"],
    "// require('fs')\nreturn [{ json: { require: 1, fetch: 'fetch' } }];": [],
    "return [{ json: { v: $vars.x } }];": ["error"],
    "const shop = $vars.shop ?? 'x'; return [];": ["warning"],
    "return [{ json: { key: $credentials.shopApi.key } }];": ["error"],
    "const s = this.getWorkflowStaticData('global'); s.n = 1; return items;": ["error"],
    "return [{ json: { b: this.$json.b, c: $binary.a } }];": ["error"],
    "const read = (o) => o ? $json : this.$json; return read($json);": ["error", "warning"],
    "const $now = 1; function getMode() {} return [this.$now, this.getMode(), this.$x];": ["error", "error"],
    "class A { $now = 1; static $today = {}; m(x = {}) { return [this.$now, this.$today]; } } return [];": [],
    "class A { constructor() { this.$now = 1; } get() { return this.$now; } } return [];": [],
    "class A { constructor() { this.getMode = () => 1; } m() { this.getMode(); } } return [];": [],
    "const o = { $now: 1, m() { return this.$now; } }; o.getNode = m; o.n = () => this.getNode();": [],
    "if (this.$now == 1 || this.getMode === x) return [{ json: { class: 'a' } }]; return [];": [
        "error",
        "error",
    ],
    "return [{ json: { key: this.getCredentials('x').key, a: this.$json.a } }];": ["error", "error"],
    "class A { getNode() {} go() { this.getNode(); } } return [{ json: { a: new A() } }];": [],
    "return { a: $json.a, b: $('X').item.json.b };": ["warning"],
    "function process(x) { return x; } const fetch = (x) => x; return process(items);": [],
    "return [{ json: { host: new URL($input.first().json.url).host } }];": [],
    "const { createHash } = require('node:crypto'); const luxon = require(\"luxon\"); return [];": [],
    "const { URL, parse: read } = require('url'); return [read($json.url)];": ["error", "warning"],
    "const util = require('util'); return { a: util.inspect({}), b: util.format('%s', 1) };": ["error"],
    "return [{ json: { a: require('querystring').parse($json.a), b: require('buffer').Blob } }];": [
        "error",
        "warning",
    ],
    "const url = require('url'); return items.map(url => url.parse);": [],
    "const url = require('url'); return items.map((url) => url.parse);": [],
    "const url = require('url'); return url.parse($json.url);": ["error", "warning"],
    "return new Function('a', 'return a')(1);": ["error"],
    "return [x instanceof Function, $json.Function(1)];": ["warning"],
    "const cheerio = require('cheerio'); const x = require(name); return [];": ["error", "error"],
    "return { t: atob(items[0].binary[items[0].json.n[0]].data) };": ["error"],
    "items[0].binary.photo.data = 'dGVh'; return items[0].binary.data == 1;": [],
    "item.binary.a.data ??= ''; item.binary.b.data ||= ''; delete item.binary.c.data; return item;": [],
    "const r = items[0].json; return { t: r.binary.photo.data };": [],
    "return { t: item.binary.photo.data == 1 };": ["error"],
    "const rows = $json.rows; return { t: rows[0].binary.x.data };": ["warning"],
    "for (const item of $input.first().json.rows) total += item.binary.x.data; return total;": [],
    "const rows = await call($input.all()); return rows.map((i) => i.binary.x.data);": [],
    "const items = $input.all().map(i => i.json); return items[0].binary.x.data;": [],
    "const { item } = $json; return { t: item.binary.a.data };": ["warning"],
    "const { items } = $input.first().json; return { t: items[0].binary.a.data };": [],
    "const [item] = $input.first().json.rows; return { t: item.binary.a.data };": [],
    "for (const [key, item] of Object.entries(rows)) total += item.binary.a.data; return total;": [],
    "items[0] = items[1]; return { t: items[0].binary.a.data };": ["error"],
    "const data = 'size'; return { t: items[0].binary.photo[data] };": [],
    "return { t: items[0].binary.photo['data'] + items[0].binary.photo[`data`] };": ["error"],
    f"const l = $input.all().filter((i) => {'i + ' * 600} 1).map((i) => i.json); l[0].binary.a.data;": [],
    "const rows = $input.all(); return rows.map((i) => ({ json: { t: i.binary.x.data } }));": ["error"],
    "for (let n = 0; n < items.length; n++) { const it = items[n]; use(it.binary.x.data); }": ["error"],
    "let rows = items; rows = rows.filter(r => r.json.a); return rows[0].binary.x.data;": ["error"],
    "items.forEach(function (entry) { use(entry.binary.x.data); }); return items;": ["error"],
    "const crypto = require('crypto'); return { v: crypto.scryptSync('a', 'b', 32) };": ["error"],
    "const scrypt = (text) => text; return { v: scrypt(crypto.randomUUID()) };": [],
    "return { u: $execution.resumeUrl, f: $execution?.resumeFormUrl, i: $execution.id };": ["error", "error"],
    "$execution.customData.set('a', 'b'); return { customData: $json.customData };": ["error", "warning"],
    "return $input.all().map(i => ({ a: i.json.price.toLocaleString('ja-JP') }));": ["warning"],
}


async def test_problems_of_templates_have_a_column(evaluator: Evaluator) -> None:
    """Reports `expression_feature` once per expression, with its column.

    See docs/design/api/imports.md#findings and docs/design/imports-n8n.md#findings.
    """
    checked = await evaluator.check(CheckRequest(templates=[read(text) for text in TEMPLATES]))
    for (text, expected), problems in zip(TEMPLATES.items(), checked.templates, strict=True):
        assert [
            (problem.code, problem.level, problem.syntax, problem.column) for problem in problems
        ] == expected, text
        assert all(problem.message and problem.what_to_do.endswith(".") for problem in problems)


async def test_scripts_are_compiled_and_never_run(evaluator: Evaluator) -> None:
    """Finds problems by parsing alone; a script with an endless loop is checked at once.

    See docs/design/imports-n8n.md#code-steps and docs/design/imports-n8n.md#safety.
    """
    scripts = [Script(text, ScriptMode.ALL) for text in SCRIPTS]
    checked = await evaluator.check(
        CheckRequest(scripts=[*scripts, Script("while (true) {}", ScriptMode.ALL)])
    )
    for (text, expected), problems in zip(SCRIPTS.items(), checked.scripts, strict=False):
        assert [problem.level for problem in problems] == expected, text
    assert checked.scripts[-1] == ()


FALLBACKS = {
    "$vars.shop || 'x'": True,
    "$vars['shop'] ?? 'x'": True,
    "$vars.shop?.name ?? 'x'": True,
    "$vars?.['shop']?.['name'] || 'x'": True,
    "$vars.shop?.name.first || 'x'": True,
    "$secrets?.vault || 'x'": True,
    "$secrets?.vault.key ?? 'x'": True,
    "null ?? $vars.shop ?? 'x'": True,
    "(a => a = $vars.shop || 'x')()": True,
    "$secrets.vault || 'x'": False,
    "$secrets.vault?.key || 'x'": False,
    "$vars.shop.name ?? 'x'": False,
    "$vars['shop']['name'] ?? 'x'": False,
    "$vars || 'x'": False,
    "'Bearer ' + $vars.key || 'x'": False,
    "typeof $vars.key || 'x'": False,
    "'1' >= $vars.key || 'y'": False,
    "1 | $vars.key || 'x'": False,
}


@pytest.mark.parametrize("is_script", [False, True])
async def test_a_fallback_counts_where_it_takes_effect(evaluator: Evaluator, is_script: bool) -> None:
    """Warns of an empty name of n8n whose fallback gives the value, and refuses one without."""
    variables = ExpressionVariables(now=NOW, timezone="UTC", seed=3)
    context = ExpressionContext(items=[{}], variables=variables)
    for text, takes_effect in FALLBACKS.items():
        template, script = read(f"={{{{ {text} }}}}"), Script(f"return {{ a: {text} }}", ScriptMode.ALL)
        checked = await evaluator.check(CheckRequest(templates=[template], scripts=[script]))
        problems = checked.scripts[0] if is_script else checked.templates[0]
        assert [problem.level for problem in problems] == ["warning" if takes_effect else "error"], text
        try:
            if is_script:
                value = (await evaluator.run_code(script, context)).items[0].json["a"]
            else:
                [[value]] = await evaluator.evaluate([template], context)
        except CodeFailed:
            value = None
        assert (value == "x") == takes_effect, text


@pytest.mark.parametrize(
    ("mode", "member", "todo"),
    [
        ("all", "$json", "Write “$json” instead of “this.$json”."),
        (
            "each",
            "getWorkflowStaticData",
            "Write “$getWorkflowStaticData” instead of “this.getWorkflowStaticData”.",
        ),
        (
            "function",
            "getWorkflowStaticData",
            "Write “getWorkflowStaticData” instead of “this.getWorkflowStaticData”.",
        ),
        ("all", "$vars", "Write “$vars” instead of “this.$vars”."),
        ("all", "getInputData", "Read an item or another step instead."),
    ],
)
async def test_missing_members_of_this_name_a_replacement(
    evaluator: Evaluator, mode: str, member: str, todo: str
) -> None:
    """Names what scripts of the mode have in place of a member of `this`."""
    script = Script(f"return this.{member};", ScriptMode(mode))
    checked = await evaluator.check(CheckRequest(scripts=[script]))
    assert [problem.what_to_do for problem in checked.scripts[0]] == [todo]


async def test_members_of_many_modules_are_found_in_time(evaluator: Evaluator) -> None:
    """Checks the members of all loaded modules in one pass over the script."""
    text = "".join(f"const u{number} = require('util'); u{number}.format();" for number in range(3000))
    checked = await evaluator.check(CheckRequest(scripts=[Script(f"{text} u7.inspect()", ScriptMode.ALL)]))
    assert [problem.level for problem in checked.scripts[0]] == ["error"]


async def test_nested_calls_are_followed_in_time(evaluator: Evaluator) -> None:
    """Resolves the names of deeply nested calls faster than it reads the script."""
    text = ("x=f(" * 100 + ")" * 100 + ";") * 200
    seconds = []
    for script in (text, f"{text} return [{{ json: {{ t: x.binary.a.data }} }}];"):
        began = time.perf_counter()
        checked = await evaluator.check(CheckRequest(scripts=[Script(script, ScriptMode.ALL)]))
        seconds.append(time.perf_counter() - began)
        assert checked.scripts == ((),)
    assert seconds[1] < 3 * seconds[0] + 3  # squared: ten times as long


async def test_unavailable_names_are_found_in_time(evaluator: Evaluator) -> None:
    """Searches for the declaration of a name once, however often the script uses the name."""
    seconds = []
    for name in ("this.nothing", "fetch", "this.$json"):
        began = time.perf_counter()
        await evaluator.check(CheckRequest(scripts=[Script(f"{name};" * 12_000, ScriptMode.ALL)]))
        seconds.append(time.perf_counter() - began)
    assert max(seconds[1:]) < 3 * seconds[0] + 3  # squared: ten times as long


async def test_a_field_called_binary_is_not_a_file(evaluator: Evaluator) -> None:
    """Accepts a field called `binary` in modes whose scripts get no items with files, or get only fields."""
    scripts = [
        Script("return { t: item.binary.photo.data };", ScriptMode.FUNCTION_ITEM),
        Script(
            "export default function main(input) { return input.list[0].binary.a.data; }", ScriptMode.FLOW
        ),
    ]
    checked = await evaluator.check(CheckRequest(scripts=scripts))
    assert list(checked.scripts) == [(), ()]


async def test_unknown_liquid_filters_and_tags_are_errors(evaluator: Evaluator) -> None:
    """Reports an unknown filter or tag, and access to a list by index, as an error.

    See docs/design/imports-shopify-flow.md#liquid.
    """
    texts = {
        "{{ order.name | upcase }}": 0,
        "{{ order.lineItems.id | size }}": 0,
        "{{ 'now' | date_plus: '1 day' | date: '%Y' }}": 0,
        "{{ order.name | shout }}": 1,
        "{% nope %}": 1,
        "{% if order %}": 1,
        "{{ order.lineItems[0].id }}": 1,
    }
    checked = await evaluator.check(CheckRequest(liquid=[read_liquid(text) for text in texts]))
    assert [len(problems) for problems in checked.liquid] == list(texts.values())


async def test_flow_scripts_are_compiled(evaluator: Evaluator) -> None:
    """Compiles `export default function main(input)` of Shopify Flow.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    good = "export default function main(input) { return { n: input.a + 1 }; }"
    checked = await evaluator.check(
        CheckRequest(scripts=[Script(good, ScriptMode.FLOW), Script("export default (", ScriptMode.FLOW)])
    )
    assert [len(problems) for problems in checked.scripts] == [0, 1]
