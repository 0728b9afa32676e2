"""Tests whether scripts that may read every field of their items are noticed.

See docs/design/imports-verdict.md#missing-values.
"""

import time

import pytest

from steward.imports.n8n.script_reads import may_read_every_field

WRITES_OUT = "\nreturn [{json: {t: JSON.stringify(items[0].json)}}]"


@pytest.mark.parametrize(
    "script",
    [
        "console.log(`Got (${items.length} items`);" + WRITES_OUT,
        "console.log(`Got (${items.map(i => `[${i.json.id}`)} items`);" + WRITES_OUT + "; f(`)`);",
        "console.log(name.replace(/\\(.*/, ''));" + WRITES_OUT,
        "console.log(name" + WRITES_OUT,
        "console.log((name);" + WRITES_OUT + "; f())",
        "const console = {log: s => s};\nreturn console.log(JSON.stringify(items[0].json))",
        "const console = {log: s => { t = s; }};\nconsole.log(JSON.stringify(items[0].json))",
        "let t; console.log(t = JSON.stringify(items[0].json)); return [{json: {t}}]",
        "const t = []; console.log(t.push(JSON.stringify(items[0].json))); return [{json: {t}}]",
        "return [console.log(JSON.stringify(items[0].json))]",
        "const d = [1]" + ".filter(f)" * 14 + ".concat(items[0].json);\nreturn Object.keys(d)",
        "const d = a ||\n  items[0].json;\nreturn Object.keys(d)",
        "const d = a ? b :\n  items[0].json\nreturn Object.keys(d)",
        "const d =\n\n  items[0].json\nreturn Object.keys(d)",
        "const d = `a (` + items[0].json;\nreturn Object.keys(d)",
    ],
)
def test_a_script_that_may_read_every_field_is_noticed(script: str) -> None:
    """Notices it after calls of the console, and in values of many calls and several lines."""
    assert may_read_every_field(script)


@pytest.mark.parametrize(
    "script",
    [
        "console.log(`Got ( ${JSON.stringify(items[0].json)}`);\nreturn []",
        "for (const item of items) {\n  console.log(JSON.stringify(item.json), /\\(/, `)`)\n}\nreturn []",
        "items.forEach(i => console.log(JSON.stringify(i.json)));\nreturn []",
        "const n = a.b().c()\nconst d = items[0].json\nreturn Object.keys(n)",
        "const n = i++\nconst d = items[0].json\nreturn Object.keys(n)",
        "const t = `items [ ${a} of ${`b ${c} items`}`\nreturn Object.keys(t)",
    ],
)
def test_a_script_that_only_logs_items_or_names_them_in_texts_is_not_noticed(script: str) -> None:
    """Ignores items that are only logged, and names within the text of templates."""
    assert not may_read_every_field(script)


@pytest.mark.parametrize(
    "repeated",
    [
        "a[b[c]",
        "a.get(b(c)",
        "a.a=",
        "f(item.json,",
        "a=\n",
        "console.log(",
        "=/[/",
        "`${",
        "`${{}",
        "a=b(),\n",
    ],
)
def test_a_long_script_is_read_in_time(repeated: str) -> None:
    """Reads 400 kB of repeated pieces of code in a time proportional to their length."""
    began = time.process_time()
    may_read_every_field(repeated * (400_000 // len(repeated)))
    assert time.process_time() - began < 4
