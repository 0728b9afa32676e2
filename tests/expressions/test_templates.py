"""Tests how a parameter is split into chunks, and which steps it refers to.

See docs/design/imports-n8n.md#chunks.
"""

import pytest

from steward.steps.workflow.expressions.message import current_item_fields
from steward.steps.workflow.expressions.template import Chunk, Lang, decode_template, read, read_liquid


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("plain {{ 1 }}", ["plain {{ 1 }}"]),
        ("=", [""]),
        ("=plain", ["plain"]),
        ("={{ 1 }}", [" 1 "]),
        ("={{1", ["1"]),
        ("=1 }}", ["1 }}"]),
        ("=\\{{ 1 }}", ["\\{{ 1 }}"]),
        ("=a{{ 1 }}b{{ 2 }}", ["a", " 1 ", "b", " 2 "]),
        ("={{ '}}' }}", [" '", "' }}"]),
        ("={{ {{ 1 }} }}", [" {{ 1 ", " }}"]),
        ("={{}}", [""]),
        (" ={{ 1 }}", [" ={{ 1 }}"]),
    ],
)
def test_a_chunk_ends_at_the_first_closing_braces(text: str, parts: list[str]) -> None:
    """Ends a chunk at the first `}}`, even inside quotes or an object; a value without `=` is text.

    See docs/design/imports-n8n.md#chunks.
    """
    template = read(text)
    assert [part.code if isinstance(part, Chunk) else part for part in template.parts] == parts
    assert decode_template(template.encoded()) == template


@pytest.mark.parametrize(
    ("text", "lang", "steps", "paired"),
    [
        ("={{ $json.a }}", Lang.PATH, set(), set()),
        ("={{ $json.a + 1 }}", Lang.JS, set(), set()),
        ("={{ $('A b').item.json.x }}", Lang.PATH, {"A b"}, {"A b"}),
        ('={{ $( "A" ).first().json.x + $node["B"].json.y }}', Lang.JS, {"A", "B"}, set()),
        ("={{ $('A')?.itemMatching(0) }} {{ $node.C.json }}", Lang.JS, {"A", "C"}, {"A"}),
        ("={{ $items('D')[0] }} {{ $('E').isExecuted }}", Lang.JS, {"D", "E"}, set()),
        ("={{ $items().length }}", Lang.JS, set(), set()),
        ("={{ $($json.name).first() }}", Lang.JS, None, None),
        ("={{ (() => { const s = $('A'); return s.item.json.x })() }}", Lang.JS, {"A"}, {"A"}),
        ("={{ $node[$json.name].json }}", Lang.JS, None, None),
        ("={{ $('it\\'s').first() }}", Lang.JS, None, None),
        ("=text", Lang.LITERAL, set(), set()),
    ],
)
def test_a_template_names_the_steps_it_refers_to(
    text: str, lang: Lang, steps: set[str] | None, paired: set[str] | None
) -> None:
    """Names the steps whose output the template needs; None stands for any step.

    See docs/design/imports-n8n.md#where-expressions-run.
    """
    template = read(text)
    assert (template.lang, template.steps, template.paired) == (lang, steps, paired)


def test_liquid_is_recognized_by_its_braces() -> None:
    """Tells plain text, Liquid and JSON apart by their braces.

    See docs/design/imports-shopify-flow.md#file.
    """
    assert read_liquid("Hello").lang is Lang.LITERAL
    assert read_liquid("Hello {{ order.id }}").lang is Lang.LIQUID
    assert decode_template(read_liquid("{% if a %}x{% endif %}").encoded()).lang is Lang.LIQUID


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("={{ $json.a + $json?.b.c }}", {"a", "b"}),
        ("={{ `${$json.a}` }} {{ $('X').item.json.z + 1 }}", {"a"}),
        ("={{ 1 + 1 }}", set()),
        ("={{ $json.a.map((x) => x + 1) }}", {"a"}),
        ("={{ $json.keys() }}", None),
        ("={{ $json.a?.b + $json.isEmpty ( ) }}", None),
        ("={{ $json.hasField?.('a') }}", None),
        ("={{ {...$json} }}", None),
        ("={{ $json['a'] + 1 }}", None),
        ("={{ Object.keys($json).length }}", None),
        ("={{ $json.a + $input.all().length }}", None),
        ("={{ $json.a + $item(0).$json.b }}", None),
        ("={{ (function () { return arguments[0].a })($json.a) }}", None),
        ("={{ $json.é + 1 }}", None),
        ("={{ $data.a + 1 }}", None),
        ("={{ $jsonish.a + 1 }}", set()),
    ],
)
def test_only_named_fields_are_sent_to_the_sandbox(text: str, fields: set[str] | None) -> None:
    """Names the fields that an expression reads; None stands for all, if it is uncertain.

    See docs/design/imports-n8n.md#where-expressions-run.
    """
    assert current_item_fields([read(text)]) == fields
