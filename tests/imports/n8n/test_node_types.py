"""Tests parameters of single node types, beside the recorded cases.

See docs/design/imports-n8n.md#conditions and docs/design/imports-n8n.md#node-types.
"""

import json
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.steps.n8n.date_formats import luxon_pattern
from tests.imports.n8n.one_step import errors_of, outputs_in, outputs_of, workflow_of

PAGE = (
    "<h1>T</h1><p>a_b <b>c</b></p><ul><li>x<ul><li>y</li></ul></li></ul>"
    '<a href="http://x/(y)" title="t">z</a>'
)
MARKS = '# T\n\na\\_b **c**\n\n* x  \n   * y\n[z](http://x/%28y%29 "t")'


def _xml(text: str, **options: Any) -> tuple[str, float, dict[str, Any], dict[str, Any]]:
    return "xml", 1, {"options": options}, {"data": text}


def _from(fields: dict[str, Any], **options: Any) -> tuple[str, float, dict[str, Any], dict[str, Any]]:
    return "xml", 1, {"mode": "jsonToxml", "options": {"headless": True, **options}}, fields


def _hmac(**parameters: Any) -> tuple[str, float, dict[str, Any], dict[str, Any]]:
    text = "The quick brown fox jumps over the lazy dog"
    return (
        "crypto",
        1,
        {"action": "hmac", "value": text, "secret": "={{ $json.k }}", **parameters},
        {"k": "key"},
    )


def _html(version: float, **row: Any) -> tuple[str, float, dict[str, Any], dict[str, Any]]:
    values = {"operation": "extractHtmlContent", "extractionValues": {"values": [{"key": "k", **row}]}}
    return "html", version, values, {"data": '<p class>a</p><i id="n"></i>'}


@pytest.mark.parametrize(
    ("step", "json"),
    [
        (_xml("<a><b> </b></a>"), {"a": {"b": " "}}),
        (_xml("<a><![CDATA[]]><b/></a>"), {"a": {"b": ""}}),
        (_xml("<a x='1'><x>2</x></a>"), {"a": {"x": ["1", "2"]}}),
        (_xml("<a> m\n  n </a>", normalize=True), {"a": "m n"}),
        (
            _xml('<a b="x\n y"  c="&eacute;">&#9786;\r\n</a> after'),
            {"a": {"_": "☺\r\n", "b": "x\n y", "c": "é"}},
        ),
        (
            _xml("<!DOCTYPE a [<!ENTITY x 'y'>]><a><!-- n --><?p i?><b><![CDATA[<&]]></b></a>"),
            {"a": {"b": "<&"}},
        ),
        (
            _from({"a": [[{"b": 1}], [], 2], "c": 1}),
            {"data": "<root>\n  <a>\n    <b>1</b>\n  </a>\n  <a/>\n  <a>2</a>\n  <c>1</c>\n</root>"},
        ),
        (_from({"a": {"_": "t", "b": 1}}), {"data": "<a>\n  t\n  <b>1</b>\n</a>"}),
        (_from({"a": "x < y"}, cdata=True), {"data": "<a><![CDATA[x < y]]></a>"}),
        (_from({"a": {"$": {"q": '<&>"\n'}}}), {"data": '<a q="&lt;&amp;>&quot;&#xA;"/>'}),
        (_from({"l": [{"a": 1}, {"b": 2}]}), {"data": "<l>\n  <a>1</a>\n  <b>2</b>\n</l>"}),
        (_html(1.2, cssSelector="u", returnValue="attribute", attribute="id"), {}),
        (_html(1.2, cssSelector="i", returnValue="attribute", attribute="id"), {"k": "n"}),
        (_html(1.2, cssSelector="p", returnValue="attribute", attribute="class"), {"k": ""}),
        (("markdown", 1, {"html": PAGE, "options": {}}, {}), {"data": MARKS}),
        (
            ("markdown", 1, {"html": PAGE, "options": {"bulletMarker": "-", "strongDelimiter": "__"}}, {}),
            {"data": MARKS.replace("* x", "- x").replace("* y", "- y").replace("**", "__")},
        ),
        (
            ("markdown", 1, {"html": "<table><tr><th>a</th></tr><tr><td>1|2</td></tr></table>"}, {}),
            {"data": "| a    |\n| ---- |\n| 1\\|2 |"},
        ),
        (("dateTime", 1, {"value": "2024-01-31T00:00:00Z", "toFormat": "wo"}, {}), {"data": "5th"}),
        (("crypto", 1, {"value": "=a", "type": "MD5"}, {}), {"data": "0cc175b9c0f1b6a831c399e269772661"}),
        (_hmac(), {"k": "key", "data": "80070713463e7749b90c2dc24911e275"}),
        (
            _hmac(type="SHA256", encoding="base64"),
            {"k": "key", "data": "97yD9DBThCSxMpjmqm+xQ+9NWaFJRhdZl0edvC0aPNg="},
        ),
        (
            _hmac(type="SHA3-256"),
            {"k": "key", "data": "8c6e0683409427f8931711b10ca92a506eb1fafa48fadd66d76126f47ac2c333"},
        ),
    ],
)
async def test_conversions_equal_those_of_n8ns_libraries(
    step: tuple[str, float, Any, Any], json: dict[str, Any]
) -> None:
    """Gives the same result as the libraries that n8n uses for XML, HTML, Markdown and hashes.

    See docs/design/imports-n8n.md#node-types.
    """
    kind, version, parameters, item = step
    assert await outputs_of(kind, version, parameters, [item]) == [[json]]


@pytest.mark.parametrize(
    ("version", "parameters"),
    [
        (1, {"action": "hmac", "secret": "a"}),
        (1, {"action": "hmac"}),
        (2, {"action": "hmac", "secret": "={{ $json.k }}"}),
        (1, {"action": "hmac", "secret": "={{ $json.k }}", "type": "CRC"}),
        (1, {"action": "sign", "privateKey": "={{ $json.k }}", "algorithm": "RSA-SHA256"}),
    ],
)
def test_signing_with_a_key_that_is_not_run_data_is_an_error(
    version: float, parameters: dict[str, Any]
) -> None:
    """Signs with no key of a file or a credential, and by no unknown hash."""
    assert errors_of("crypto", version, {"value": "t", **parameters})


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "outputs"),
    [
        ("splitInBatches", 2, {}, [[{"n": number} for number in range(10)], []]),
        ("splitInBatches", 3, {}, [[], [{"n": 0}]]),
        # In n8n an expression may read a loop's state before the loop first runs.
        ("splitInBatches", 3, {"options": {"reset": "={{ $('Step').context.done }}"}}, [[], [{"n": 0}]]),
        ("splitInBatches", 3, {"options": {"reset": "={{ $node['Step'].context.done }}"}}, [[], [{"n": 0}]]),
        ("limit", 1, {}, [[{"n": 0}]]),
        ("set", 3.4, {"mode": "raw"}, [[{"my_field_1": "value", "my_field_2": 1}] * 12]),
        (
            "set",
            3,
            {"include": "none", "fields": {"values": [{"name": "a"}, {"name": "b", "type": "booleanValue"}]}},
            [[{"a": "", "b": True}] * 12],
        ),
    ],
)
async def test_omitted_parameters_take_the_default_of_their_version(
    kind: str, version: float, parameters: Any, outputs: Any
) -> None:
    """Uses the default of the node's version for a parameter that the file leaves out.

    See docs/design/imports-n8n.md#nodes.
    """
    items = [{"n": number} for number in range(12)]
    assert await outputs_of(kind, version, parameters, items) == outputs


async def test_markdown_becomes_html_by_the_library_with_its_options() -> None:
    """Converts lists, escapes, tables and line breaks, with options that differ for each item.

    See docs/design/imports-n8n.md#node-types.
    """
    texts = ["- a\n    - b\n\n\\*no\\*", "a | b\n--|--\n1 | 2", "line\nbreak"]
    options = {"tables": True, "simpleLineBreaks": "={{ $json.s }}"}
    parameters = {"mode": "markdownToHtml", "markdown": "={{ $json.t }}", "options": options}
    items = [{"t": text, "s": text.startswith("line")} for text in texts]
    step_outputs = await outputs_of("markdown", 1, parameters, items)
    assert isinstance(step_outputs, list)
    assert step_outputs[0][0]["data"] == "<ul>\n<li>a<ul>\n<li>b</li></ul></li>\n</ul>\n<p>*no*</p>"
    assert step_outputs[0][1]["data"].startswith("<table>\n<thead>\n<tr>\n<th>a</th>")
    assert step_outputs[0][2]["data"] == "<p>line<br />\nbreak</p>"


async def test_a_comparison_that_decides_is_the_last_one_made() -> None:
    """Does not evaluate the comparisons after the one that decides, so their types do not matter.

    See docs/design/imports-n8n.md#conditions.
    """
    rows = [
        {"leftValue": "={{ $json.n }}", "rightValue": 1, "operator": {"type": "number", "operation": "gt"}},
        {"leftValue": "={{ $json.s }}", "rightValue": 1, "operator": {"type": "number", "operation": "gt"}},
    ]
    conditions = {
        "options": {"typeValidation": "strict", "version": 2},
        "combinator": "and",
        "conditions": rows,
    }
    items = [{"n": 0, "s": "no number"}]
    assert await outputs_of("if", 2.2, {"conditions": conditions}, items) == [[], items]
    failed = await outputs_of("if", 2.2, {"conditions": conditions}, [{"n": 2, "s": "no number"}])
    assert isinstance(failed, str)


async def test_patterns_match_every_white_space_of_javascript() -> None:
    """Matches `\\s` in a pattern with every white space of JavaScript, such as a no-break space.

    See docs/design/imports-n8n.md#conditions.
    """
    row = {
        "leftValue": "={{ $json.s }}",
        "rightValue": "^a\\sb$",
        "operator": {"type": "string", "operation": "regex"},
    }
    conditions = {"options": {"version": 2}, "combinator": "and", "conditions": [row]}
    items = [{"s": "a b"}, {"s": "a\u00a0b"}, {"s": "a_b"}]
    assert await outputs_of("filter", 2.2, {"conditions": conditions}, items) == [items[:2], items[2:]]


@pytest.mark.parametrize(
    ("comparing", "order"),
    [
        ("return a.json.n > b.json.n", [3, 1, 2]),
        ("return a.json.n - b.json.n", [1, 2, 3]),
        ("return a.json.n < b.json.n ? 1 : -1", [3, 2, 1]),
    ],
)
async def test_an_inconsistent_comparison_script_sorts_as_in_n8n(comparing: str, order: list[int]) -> None:
    """Sorts as n8n does when the comparing script returns a boolean or never a negative number.

    See docs/design/imports-n8n.md#node-types.
    """
    items = [{"n": 3}, {"n": 1}, {"n": 2}]
    step_outputs = await outputs_of("sort", 1, {"type": "code", "code": comparing}, items)
    assert step_outputs == [[{"n": number} for number in order]]


@pytest.mark.parametrize(
    ("version", "parameters", "written"),
    [
        (2, {"operation": "formatDate", "date": "={{ $json.d }}", "format": "yyyy-MM-dd"}, "2024-12-31"),
        (1, {"value": "={{ $json.d }}", "toFormat": "D MMM YYYY"}, "31 Dec 2024"),
        (
            1,
            {"value": "={{ $json.d }}", "toFormat": "H:mm", "options": {"toTimezone": "Asia/Tokyo"}},
            "22:05",
        ),
        (1, {"value": "={{ $json.d }}", "action": "calculate", "duration": 1}, "2025-01-01T13:05:00.000Z"),
    ],
)
async def test_dates_are_read_by_the_format_that_the_step_names(
    version: int, parameters: dict[str, Any], written: str
) -> None:
    """Reads a date by luxon's tokens in version 2, by moment's in version 1; another form fails its item."""
    pattern = "dd.MM.yyyy HH:mm" if version == 2 else "DD.MM.YYYY HH:mm"
    options = {**parameters.get("options", {}), "fromFormat": pattern}
    name = "formattedDate" if version == 2 else "data"
    [[item]] = await outputs_of(
        "dateTime", version, {**parameters, "options": options}, [{"d": "31.12.2024 13:05"}]
    )
    assert item[name] == written
    failure = await outputs_of(
        "dateTime", version, {**parameters, "options": options}, [{"d": "2024-12-31 13:05"}]
    )
    assert "“2024-12-31 13:05” does not have the format" in str(failure)


@pytest.mark.parametrize(
    ("pattern", "luxon"),
    [
        ("D [de] MMMM", "d 'de' MMMM"),
        ("YYYY [at noon]", "yyyy 'at noon'"),
        ("X", ""),
        ("D [o'clock]", None),
        ("Do", None),
    ],
)
def test_moment_patterns_are_translated_for_luxon(pattern: str, luxon: str | None) -> None:
    """Quotes literal text whole, so that none of its letters is read as a token."""
    assert luxon_pattern(pattern) == luxon


@pytest.mark.parametrize(
    ("kind", "version", "parameters"),
    [
        ("aggregate", 1, {"options": {"newOption": True}}),
        ("merge", 3, {"mode": "combine", "joinMode": "keepSome"}),
        (
            "merge",
            3,
            {"mode": "combine", "options": {"clashHandling": {"values": {"resolveClash": "newest"}}}},
        ),
        ("set", 3.4, {"assignments": {"assignments": [{"name": "a", "type": "date", "value": "x"}]}}),
        ("set", 3, {"fields": {"values": [{"name": "a", "type": "dateValue"}]}}),
        ("splitOut", 1, {"fieldToSplitOut": "a", "include": "someFields"}),
        ("if", 1, {"conditions": {"string": [{"value1": "a", "operation": "like", "value2": "b"}]}}),
        ("switch", 2, {"rules": {"rules": [{"operation": "like", "value2": "b"}]}}),
        ("dateTime", 2, {"operation": "formatDate", "format": "custom", "customFormat": "ZZZZZ"}),
        ("dateTime", 1, {"options": {"fromFormat": "Do MMMM YYYY"}}),
        ("markdown", 1, {"options": {"textReplace": {"values": []}}}),
        ("wait", 1.1, {"unit": "months"}),
        ("googleSheets", 2, {"operation": "append", "range": "Data!A1:H2"}),
        ("googleSheets", 4.5, {"options": {"dataLocationOnSheet": {"values": {"headerRow": 3}}}}),
        ("xml", 1, {"options": {"explicitCharkey": True}}),
        ("switch", 3.2, {"mode": "rules"}),
        ("function", 1, {"functionCode": " "}),
        ("compareDatasets", 1, {"mergeByFields": {"values": [{"field1": "a", "field2": "a"}]}}),
    ],
)
def test_unknown_parameters_are_errors_at_import(kind: str, version: float, parameters: Any) -> None:
    """Reports an unknown parameter or value as a `parameter` error instead of ignoring it.

    See docs/design/imports-n8n.md#rules.
    """
    assert [finding.code for finding in errors_of(kind, version, parameters)] == ["parameter"]


@pytest.mark.parametrize(
    ("version", "parameter", "picks"),
    [
        (1, {}, None),
        (1.1, {"inputSource": "passthrough"}, None),
        (1.1, {"workflowInputs": {"values": [{"name": "a"}]}}, ("a",)),
        (1.1, {"inputSource": "jsonExample", "jsonExample": '{"b": 1, "c": {}}'}, ("b", "c")),
        (1.1, {"inputSource": "jsonExample", "jsonExample": "no JSON"}, ()),
    ],
)
def test_a_called_workflow_gets_the_fields_that_its_trigger_names(
    version: float, parameter: Any, picks: tuple[str, ...] | None
) -> None:
    """Picks the fields that the trigger of the called workflow names, or all if it passes items through.

    See docs/design/imports-called.md.
    """
    within = workflow_of("noOp", 1, {})
    kind = "n8n-nodes-base.executeWorkflowTrigger"
    within["nodes"][0] |= {"type": kind, "typeVersion": version, "parameters": parameter}
    parameters = {"source": "parameter", "workflowJson": json.dumps(within)}
    plan = read_value(workflow_of("executeWorkflow", 1.2, parameters)).plan
    entry = next(iter(plan.inner.values())).entry()
    assert entry is not None
    assert entry.picks == picks


async def test_the_depth_of_a_pattern_counts_lists_and_types_are_those_of_typeof() -> None:
    """Renames within the elements of a list at depth 2, and compares null with objects and lists."""
    replacement = {"searchRegex": "a", "replaceRegex": "z", "options": {"depth": 2}}
    pattern = {"additionalOptions": {"regexReplacement": {"replacements": [replacement]}}}
    nested = [{"a": [{"a": 1, "c": [{"a": 1}]}]}]
    assert await outputs_of("renameKeys", 1, pattern, nested) == [[{"z": [{"z": 1, "c": [{"a": 1}]}]}]]
    mixed: list[dict[str, Any]] = [{"o": {"a": 1}}, {"o": None}, {"o": [1]}, {"o": {"a": 1}}]
    selected = {"compare": "selectedFields", "fieldsToCompare": "o"}
    assert await outputs_of("removeDuplicates", 2, selected, mixed) == [mixed[:3]]


async def test_lists_are_not_joined_by_a_field_that_is_in_no_item() -> None:
    """Version 2 of merge fails when no item has the field; later versions do not check for it.

    See docs/design/imports-n8n.md#node-types.
    """
    by = {"mode": "combine", "mergeByFields": {"values": [{"field1": "id", "field2": "id"}]}}
    by["joinMode"] = "keepEverything"
    assert "id" in str(await outputs_of("merge", 2, by, [{"a": 1}]))
    assert await outputs_of("merge", 2, by, [{"id": 1}, {"a": 2}]) == [[{"id": 1}, {"a": 2}]]
    for version in (2.1, 3):  # versions 2.1 and 3 do not check for the field
        assert await outputs_of("merge", version, by, [{"a": 1}]) == [[{"a": 1}]]


@pytest.mark.parametrize(
    ("keep", "kept_numbers"), [("firstItems", [1]), ("lastItems", [2]), ("someItems", None)]
)
async def test_a_choice_made_by_an_expression_is_checked_at_run_time(
    keep: str, kept_numbers: list[int] | None
) -> None:
    """Checks a choice that an expression makes at run time: an unknown value fails the step.

    See docs/design/imports-n8n.md#rules.
    """
    items = [{"n": 1, "k": keep}, {"n": 2, "k": keep}]
    step_outputs = await outputs_of("limit", 1, {"keep": "={{ $json.k }}"}, items)
    assert (
        "someItems" in step_outputs
        if kept_numbers is None
        else step_outputs == [[{"n": number, "k": keep} for number in kept_numbers]]
    )


def test_a_supported_wait_makes_no_error() -> None:
    """Reports no error for a long wait in seconds of version 1.1, but one for version 1 in hours.

    See docs/design/imports-n8n.md#findings.
    """
    assert errors_of("wait", 1.1, {"amount": 3000}) == []
    assert errors_of("wait", 1, {"amount": 3000}) != []
    assert errors_of("googleSheets", 4.5, {"options": {"cellFormat": "RAW"}}) == []


SEEN = {"operation": "removeItemsSeenInPreviousExecutions", "dedupeValue": "={{ $json.id }}"}


def _twice(parameters: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Returns a workflow in which the step gets the same items twice."""
    workflow = workflow_of("removeDuplicates", 2, parameters, **settings)
    second_step = {**workflow["nodes"][0], "name": "Again", "type": "n8n-nodes-base.noOp", "position": [0, 9]}
    workflow["nodes"].append(second_step)
    to_step = {"node": "Step", "type": "main", "index": 0}
    workflow["connections"]["Start"]["main"][0].append({**to_step, "node": "Again"})
    workflow["connections"]["Again"] = {"main": [[to_step]]}
    return workflow


async def test_items_seen_before_go_to_the_second_output() -> None:
    """Passes on new items at the first output and items seen before at the second.

    Two items with the same new value are both new.
    """
    items = [{"id": 1}, {"id": 2}, {"id": 1}]
    assert await outputs_in(_twice(SEEN), items) == [items, []]
    assert await outputs_in(_twice(SEEN), items, run=1) == [[], items]


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        (SEEN, None),
        (
            SEEN
            | {"logic": "removeItemsUpToStoredIncrementalKey", "incrementalDedupeValue": "={{ $json.id }}"},
            "no number",
        ),
        (SEEN | {"logic": "removeItemsUpToStoredDate", "dateDedupeValue": "={{ $json.id }}"}, "no date"),
    ],
)
async def test_a_value_that_cannot_be_compared_fails_the_step(parameters: dict[str, Any], value: Any) -> None:
    """Fails the step, or puts the error at the third output with `continueErrorOutput`."""
    assert "compared" in str(await outputs_of("removeDuplicates", 2, parameters, [{"id": value}]))
    outputs = await outputs_of(
        "removeDuplicates", 2, parameters, [{"id": value}], onError="continueErrorOutput"
    )
    assert not isinstance(outputs, str)
    assert outputs[:2] == [[], []]
    assert "compared" in outputs[2][0]["error"]


def test_a_comparison_with_earlier_runs_is_checked() -> None:
    """Reports an unknown value, logic, scope or operation as one error."""
    assert errors_of("removeDuplicates", 2, SEEN) == []
    for bad in ({"dedupeValue": "id"}, {"logic": "newest"}, {"options": {"scope": "instance"}}):
        assert len(errors_of("removeDuplicates", 2, SEEN | bad)) == 1
    assert len(errors_of("removeDuplicates", 2, {"operation": "other"})) == 1


@pytest.mark.parametrize(
    ("kind", "version", "parameters"),
    [
        ("slack", 2.2, {"resource": "userGroup", "operation": "create", "name": "n", "additional": {"a": 1}}),
        ("microsoftTeams", 2, {"resource": "task", "operation": "create", "planId": "p", "title": "t"}),
        ("googleSheets", 4.5, {"resource": "spreadsheet", "operation": "create", "sheetsUi": {"a": 1}}),
        ("wooCommerce", 1, {"resource": "product", "operation": "create", "name": "n", "imagesUi": {"a": 1}}),
        ("googleDrive", 3, {"resource": "drive", "operation": "create", "name": "x", "driveUi": {"a": 1}}),
        # n8n leaves out the operation that is the default, which makes an object
        ("wooCommerce", 1, {"name": "n", "additionalFields": {"regularPrice": "30"}}),
        ("shopify", 1, {"resource": "product", "title": "t"}),
    ],
)
def test_an_unsupported_operation_is_one_finding(
    kind: str, version: float, parameters: dict[str, Any]
) -> None:
    """Reports only the operation, and none of the settings that belong to it."""
    findings = [finding.message for finding in errors_of(kind, version, parameters)]
    assert len([message for message in findings if "does not run here. Remove the setting" in message]) == 0
    assert len(findings) == 1, findings
