"""Tests results that depend on JavaScript's order of names and texts, or on n8n's HTML parser.

See docs/design/imports-n8n.md#node-types.
"""

from typing import Any

import pytest

from steward.steps.n8n import item_files
from steward.steps.n8n.nodes import merge
from steward.steps.workflow.items import trigger_items
from steward.steps.workflow.javascript import values as js
from tests.imports.n8n.one_step import outputs_in, outputs_of, workflow_of

BY_ID = {"b": 1, "10": 2, "9": 3, "01": 4, "-1": 5, "a": 6}


async def test_names_that_are_indexes_come_first() -> None:
    """Splits, writes and lists the members of an object with indexes first, by number."""
    split = await outputs_of("splitOut", 1, {"fieldToSplitOut": "o"}, [{"o": BY_ID}])
    assert split == [[{"o": value} for value in (3, 2, 1, 4, 5, 6)]]
    assert js.json_text(BY_ID) == '{"9":3,"10":2,"b":1,"01":4,"-1":5,"a":6}'
    table = item_files.table_of(trigger_items([BY_ID]), header=True)
    assert table[0] == ["9", "10", "b", "01", "-1", "a"]
    text = {"assignments": {"assignments": [{"name": "t", "type": "string", "value": "={{ $json.o }}"}]}}
    assert await outputs_of("set", 3.4, text, [{"o": {"b": 1, "2": 1}}]) == [[{"t": '{"2":1,"b":1}'}]]


def test_json_files_have_numbers_as_in_javascript() -> None:
    """Writes 5.0 as 5, with and without an indent."""
    value = [{"n": 5.0, "e": 1e-7, "l": [], "o": {}}, 1e21]
    assert item_files.json_text(value, indented=False) == '[{"n":5,"e":1e-7,"l":[],"o":{}},1e+21]'
    lines = [
        "[",
        "  {",
        '    "n": 5,',
        '    "e": 1e-7,',
        '    "l": [],',
        '    "o": {}',
        "  },",
        "  1e+21",
        "]",
    ]
    assert item_files.json_text(value, indented=True) == "\n".join(lines)


async def test_texts_are_ordered_by_their_utf_16_units() -> None:
    """Sorts an emoji before a full-width sign, as JavaScript does, and takes the greatest text so."""
    items = [{"t": "\uff01"}, {"t": "😀"}, {"t": "a"}]
    by_text = {"sortFieldsUi": {"sortField": [{"fieldName": "t"}]}}
    assert await outputs_of("sort", 1, by_text, items) == [[{"t": "a"}, {"t": "😀"}, {"t": "\uff01"}]]
    fields = {"fieldsToSummarize": {"values": [{"aggregation": "max", "field": "t"}]}}
    assert await outputs_of("summarize", 1.1, fields, items) == [[{"max_t": "\uff01"}]]


@pytest.mark.parametrize(
    ("path", "value", "fields"),
    [
        ("a.01", 1, {"a": {"01": 1}}),
        ("a.1", 1, {"a": [None, 1]}),
        ("a[0].b", 1, {"a": [{"b": 1}]}),
    ],
)
def test_only_plain_numbers_of_a_path_make_lists(path: str, value: Any, fields: dict[str, Any]) -> None:
    """Takes a number with a leading zero for a name."""
    target: dict[str, Any] = {}
    js.set_path(target, path, value)
    assert target == fields


@pytest.mark.parametrize(
    ("count", "numbers"), [(1.5, [2, 3]), (2, [2, 3]), (-1, []), (0, []), ("-1 / 0", [])]
)
async def test_the_last_items_are_counted_as_slice_does(count: float | str, numbers: list[int]) -> None:
    """Keeps the items after a limit that is rounded only after it is subtracted."""
    parameters = {"maxItems": f"={{{{ {count} }}}}", "keep": "lastItems"}
    items = [{"n": n} for n in (1, 2, 3)]
    assert await outputs_of("limit", 1, parameters, items) == [[{"n": n} for n in numbers]]
    first = {"maxItems": "={{ -1 / 0 }}", "keep": "firstItems"}
    assert await outputs_of("limit", 1, first, items) == [[]]


PAGE = """<head><noscript><img src="/pixel.png"></noscript><title>T</title></head><body>
<img src="/a.png"><noscript>No <b>script</b></noscript><input type="checkbox" checked>
<select><option>One</option></select><button value="b">B</button></body>"""


async def _extracted(version: float, **rows: dict[str, Any]) -> Any:
    values = [{"key": key, **row} for key, row in rows.items()]
    parameters = {"operation": "extractHtmlContent", "dataPropertyName": "page"}
    parameters |= {"extractionValues": {"values": values}, "options": {}}
    return await outputs_of("html", version, parameters, [{"page": PAGE}])


async def test_the_content_of_noscript_is_text() -> None:
    """Finds no elements within noscript, hands its markup on as text, and reads it where lines are made."""
    images = {"cssSelector": "img", "returnValue": "attribute", "attribute": "src", "returnArray": True}
    scripts = {"cssSelector": "noscript", "returnArray": True}
    html = {"cssSelector": "body > noscript", "returnValue": "html"}
    [[older]] = await _extracted(1, images=images, scripts=scripts, html=html)
    assert older == {
        "images": ["/a.png"],
        "scripts": ['<img src="/pixel.png">', "No <b>script</b>"],
        "html": "No <b>script</b>",
    }
    [[newer]] = await _extracted(1.2, text={"cssSelector": "body > noscript"})
    assert newer == {"text": "No script"}


async def test_attributes_and_values_are_those_of_the_parser() -> None:
    """Names attributes that are only set, and has values only of form elements."""
    checked = {"cssSelector": "input", "returnValue": "attribute", "attribute": "checked"}
    box, option, button = (
        {"cssSelector": name, "returnValue": "value"} for name in ("input", "option", "button")
    )
    [[fields]] = await _extracted(1.2, checked=checked, box=box, option=option, button=button)
    assert fields == {"checked": "checked", "box": "on", "option": "One"}


async def test_values_are_trimmed_as_javascript_does() -> None:
    """Cuts a byte order mark and no-break spaces from the ends of a value."""
    parameters = {"operation": "extractHtmlContent", "dataPropertyName": "h", "options": {"trimValues": True}}
    parameters["extractionValues"] = {"values": [{"key": "t", "cssSelector": "b"}]}
    page = "<b>\ufeff\xa0x\x1c</b>"
    assert await outputs_of("html", 1, parameters, [{"h": page}]) == [[{"t": "x\x1c"}]]


BY_NAME = {"mergeByFields": {"values": [{"field1": "k", "field2": "k"}]}}
EQUALS = {"fieldsToMatchString": "k", "mode": "combine"}
ALL_PAIRS = {**BY_NAME, "resolve": "includeBoth", "options": {"multipleMatches": "all"}}
TOO_MANY = "too many items"


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "counts"),
    [
        ("merge", 3, EQUALS, {4: TOO_MANY, 3: [9]}),
        ("merge", 3, EQUALS | {"options": {"multipleMatches": "first"}}, {10: TOO_MANY, 9: [9]}),
        ("merge", 3, EQUALS | {"joinMode": "keepNonMatches"}, {8000: [0]}),
        ("merge", 3, EQUALS | {"outputDataFrom": "input2"}, {8000: [8000]}),
        ("compareDatasets", 2.3, ALL_PAIRS, {4: TOO_MANY, 3: [0, 9, 0, 0]}),
    ],
)
async def test_a_join_of_too_many_equal_items_fails(
    monkeypatch: pytest.MonkeyPatch, kind: str, version: float, parameters: Any, counts: dict[int, Any]
) -> None:
    """Fails a join that would make too many pairs; without pairs there is no limit."""
    monkeypatch.setattr(merge, "_MAX_PAIRS", 9)
    workflow = workflow_of(kind, version, parameters)
    workflow["connections"]["Start"]["main"][0].append({"node": "Step", "type": "main", "index": 1})
    for count, expected in counts.items():
        outputs = await outputs_in(workflow, [{"k": 1}] * count)
        if isinstance(outputs, str):
            assert TOO_MANY in outputs
            assert expected == TOO_MANY
        else:
            assert [len(output) for output in outputs] == expected


async def test_markup_is_measured_by_utf_16_units() -> None:
    """Pads cells and wraps lines by JavaScript's length; a fragment of a page keeps its leading blanks."""
    table = "<table><tr><th>a</th></tr><tr><td>😀 x</td></tr></table>"
    to_markdown = {"html": "={{ $json.h }}", "destinationKey": "m"}
    outputs = await outputs_of("markdown", 1, to_markdown, [{"h": table}, {"h": " a <b>b</b>"}])
    assert [item["m"] for item in outputs[0]] == ["| a    |\n| ---- |\n| 😀 x |", " a **b**"]
    word = "😀" * 13
    values = {"values": [{"key": "t", "cssSelector": "p"}, {"key": "pre", "cssSelector": "div"}]}
    extracted = {"operation": "extractHtmlContent", "dataPropertyName": "h", "extractionValues": values}
    page = f"<p>{' '.join([word] * 4)}</p><div><h1>a<pre>b</pre></h1></div>"
    [[fields]] = await outputs_of("html", 1.2, extracted, [{"h": page}])
    assert fields["t"] == f"{word} {word} {word}\n{word}"
    assert fields["pre"].split() == ["A", "b"]


NOSCRIPT_TEXT = '<p><img alt="a noscript b"><i title="noframes"></i><noscript>S<b>1</b></noscript></p>'


@pytest.mark.parametrize(
    ("page", "selector", "expected"),
    [
        (f"{NOSCRIPT_TEXT} noframes", "noscript", ["S<b>1</b>"]),
        (f"{NOSCRIPT_TEXT} noframes", "b", []),
        (NOSCRIPT_TEXT, 'img[alt="a noscript b"] ~ NOSCRIPT', ["S<b>1</b>"]),
        (NOSCRIPT_TEXT, "[title=noframes]", [""]),
        (f"<script>'<NoScript>'</script>{NOSCRIPT_TEXT}", "script", ["'<NoScript>'"]),
        ("<p>1</p><noframes>F</noframes>", "noframes", ["F"]),
        ("<p>1</p><noframes>F</noframes>", "p", ["1"]),
        ("<head></head><body><noscript>S</noscript>", "body > noscript", ["S"]),
        (f"{NOSCRIPT_TEXT}<noframes>F</noframes>", "p", "both noscript and noframes"),
        (f"{NOSCRIPT_TEXT}&lt;noframes&gt;", "p", "both noscript and noframes"),
        (NOSCRIPT_TEXT, "noframes", "both noscript and noframes"),
        ("<p>1</p><noframes>F</noframes>", "p, noscript", "both noscript and noframes"),
        ("<head></head><!-- a --><noscript>S</noscript><body>", "body", "between </head> and <body>"),
        ("</head ><script>a</SCRIPT>\n<noscript>S</noscript><p>", "p", "between </head> and <body>"),
    ],
)
async def test_noscript_is_not_confused_with_noframes(page: str, selector: str, expected: Any) -> None:
    """Extracts from pages that mention noframes, and fails an item where the two would be mixed."""
    values = [{"key": "t", "cssSelector": selector, "returnArray": True}]
    parameters = {"operation": "extractHtmlContent", "dataPropertyName": "h"}
    parameters |= {"extractionValues": {"values": values}}
    outputs = await outputs_of("html", 1, parameters, [{"h": page}])
    if isinstance(expected, str):
        assert expected in outputs
    else:
        assert outputs == [[{"t": expected}]]


async def test_only_the_beginning_makes_a_page_a_document() -> None:
    """Keeps the first blanks of a part of a page that has a link or a title somewhere."""
    to_markdown = {"html": "={{ $json.h }}", "destinationKey": "m"}
    pages = [" a <link>b", " <!-- c --><!doctype html> a"]
    outputs = await outputs_of("markdown", 1, to_markdown, [{"h": page} for page in pages])
    assert [item["m"] for item in outputs[0]] == [" a b", "a"]
