"""Tests steps that make pages, respond to callers or show forms, and steps that cannot run.

See docs/design/imports-n8n.md#node-types.
"""

from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.finding import FindingLevel
from tests.imports.exports import chain, node
from tests.imports.n8n.one_step import errors_of, outputs_of, workflow_of

ITEMS = [{"a": 1, "o": {"p": 1}}, {"a": None}]


def _warnings(kind: str, version: float, parameters: Any) -> list[str]:
    findings = read_value(workflow_of(kind, version, parameters)).findings
    return [finding.message for finding in findings if finding.level is FindingLevel.WARNING]


async def test_a_page_is_made_of_its_template() -> None:
    """Renders the template for each item and writes missing values as JavaScript does."""
    page = "<b>{{ $json.a }}</b>{{ $json.x }} {{ $json.o }}"
    pages = [{"html": "<b>1</b>undefined [object Object]"}, {"html": "<b>null</b>undefined undefined"}]
    assert await outputs_of("html", 1.2, {"html": page}, ITEMS) == [pages]
    assert await outputs_of("html", 1, {"html": "{{ $json.a }}"}, [{"a": 1}]) == [[{"html": "1"}]]
    assert await outputs_of("html", 1, {"html": "<p>=</p>"}, [{}]) == [[{"html": "<p>=</p>"}]]


@pytest.mark.parametrize(
    ("kind", "version", "parameters"),
    [
        (
            "respondToWebhook",
            1.5,
            {"respondWith": "json", "responseBody": "={{ $json }}", "options": {"responseCode": 200}},
        ),
        ("respondToWebhook", 1, {"respondWith": "redirect", "redirectURL": "https://a.example"}),
        ("respondToWebhook", 1.1, {"respondWith": "json", "responseCode": "={{ $json.a }}"}),
        ("form", 1, {"operation": "completion", "completionTitle": "Thanks", "options": {"formTitle": "x"}}),
        ("debugHelper", 1, {"category": "doNothing"}),
        ("aiTransform", 1, {"instructions": "Keep", "jsCode": "return $input.all();"}),
        ("if", 2.2, {"conditions": {"conditions": []}}),
    ],
)
async def test_items_pass_with_all_settings_known(kind: str, version: float, parameters: Any) -> None:
    """Passes the items on without an error; a step that would respond or show a form has a warning."""
    assert errors_of(kind, version, parameters) == []
    assert (await outputs_of(kind, version, parameters, ITEMS))[0] == ITEMS
    if kind in ("respondToWebhook", "form"):
        [words] = _warnings(kind, version, parameters)
        assert "nobody" in words


@pytest.mark.parametrize(
    ("kind", "parameters", "words"),
    [
        ("respondToWebhook", {"options": {"enableResponseOutput": True}}, "“Response”"),
        ("respondToWebhook", {"respondWith": "fax"}, "Respond With"),
        ("form", {"formFields": {}}, "first page"),
        ("html", {"operation": "convertToHtmlTable"}, "table"),
        ("html", {}, "not in the file"),
        ("aiTransform", {"instructions": "Sort"}, "No code"),
        ("debugHelper", {"category": "randomData"}, "random data"),
        ("rssFeedRead", {"url": "https://a.example:99999/feed"}, "usual port"),
        ("rssFeedRead", {}, "names no feed"),
        ("executeCommand", {"command": "ls"}, "runs a command"),
        ("ssh", {}, "runs a command"),
    ],
)
def test_an_unsupported_step_makes_one_error_with_its_reason(kind: str, parameters: Any, words: str) -> None:
    """Reports one error that names what the step would need."""
    [error] = errors_of(kind, 1, parameters)
    assert words in error.message


def _answering(version: float, output: int, parameters: Any, **settings: Any) -> dict[str, Any]:
    """Returns a workflow with a step connected to one output of a node that responds to a webhook."""
    response = node("Answer", "respondToWebhook", version, parameters, **settings)
    workflow = chain(response, node("Next", "noOp", 1, {}))
    connections = [{"node": "Next", "type": "main", "index": 0}]
    workflow["connections"]["Answer"] = {"main": [*[[] for _ in range(output)], connections]}
    return workflow


@pytest.mark.parametrize(
    ("version", "output", "parameters", "settings", "port"),
    [
        (1.5, 0, {"enableResponseOutput": True}, {}, "out:0"),
        (1.3, 0, {}, {}, "out:0"),
        (1.4, 2, {"enableResponseOutput": True}, {"onError": "continueErrorOutput"}, "error"),
        (1.3, 2, {}, {"onError": "continueErrorOutput"}, "error"),
        (1.4, 1, {}, {"onError": "continueErrorOutput"}, "error"),
        (1.5, 1, {"enableResponseOutput": True}, {}, None),
        (1.4, 1, {"options": {"enableResponseOutput": True}}, {}, None),
        (1.3, 1, {}, {}, None),
    ],
)
def test_steps_may_follow_respond_to_webhook_but_not_its_response_output(
    version: float, output: int, parameters: Any, settings: Any, port: str | None
) -> None:
    """Accepts an output “Response” that leads nowhere; None marks that it is used, which is an error."""
    read = read_value(_answering(version, output, parameters, **settings))
    errors = [finding.message for finding in read.findings if finding.level == "error"]
    assert ["“Response”" in message for message in errors] == ([] if port else [True])
    assert read.plan.step("Answer").origin.supported is (port is not None)
    [edge] = [edge for edge in read.plan.edges if edge.target == "Next"]
    assert port is None or edge.port == port


async def test_items_pass_a_step_whose_response_output_leads_nowhere() -> None:
    """Passes the items on at the first output."""
    parameters = {"respondWith": "noData", "enableResponseOutput": True}
    assert (await outputs_of("respondToWebhook", 1.5, parameters, ITEMS))[0] == ITEMS


async def test_a_failing_debug_step_fails_the_run() -> None:
    """Fails the run with the message of the step."""
    parameters = {"category": "throwError", "throwErrorMessage": "on purpose"}
    assert await outputs_of("debugHelper", 1, parameters, ITEMS) == "on purpose"


async def test_a_comparison_that_n8n_does_not_have_never_holds() -> None:
    """Runs a comparison with an unknown operation as false, with a warning."""
    row = {"leftValue": "a", "rightValue": "a", "operator": {"type": "string", "operation": "equal"}}
    parameters = {"conditions": {"combinator": "and", "conditions": [row]}}
    assert errors_of("if", 2.2, parameters) == []
    assert "never holds" in _warnings("if", 2.2, parameters)[0]
    assert await outputs_of("if", 2.2, parameters, [{}]) == [[], [{}]]


@pytest.mark.parametrize(
    ("version", "text"), [(1.1, "Tea at us or up, mail"), (1.2, "Tea at us [/x?y=1&z] or up, mail [a@b.c]")]
)
async def test_the_text_of_a_link_has_its_address_since_version_1_2(version: float, text: str) -> None:
    """From version 1.2 on, adds the address of each link to its text, except for links within the page."""
    links = '<a href="/x?y=1&amp;z">us</a> or <a href="#top">up</a>, <a href="mailto:a@b.c">mail</a>'
    values = {"values": [{"key": "k", "cssSelector": "p"}]}
    parameters = {"operation": "extractHtmlContent", "extractionValues": values}
    assert await outputs_of("html", version, parameters, [{"data": f"<p>Tea at {links}</p>"}]) == [
        [{"k": text}]
    ]


PAGE = (
    "<h2>Our&nbsp;shop</h2><p>Tea <b>now</b><br>and later</p>"
    '<ul><li>one</li><li>two<ol start="9"><li>x</li></ol></li></ul>'
    '<img src="a.png" alt="cup"><blockquote>said</blockquote><script>no()</script>'
)


@pytest.mark.parametrize(
    ("version", "options", "text"),
    [
        (
            1.2,
            {},
            "OUR\xa0SHOP\n\nTea now\nand later\n\n * one\n * two\n   9. x\n\ncup [a.png]\n\n> said",
        ),
        (1.2, {"cleanUpText": True}, "OUR\xa0SHOP Tea now and later * one * two 9. x cup [a.png] > said"),
        (1.1, {}, "Our\xa0shopTea nowand lateronetwoxsaidno()"),
    ],
)
async def test_the_text_of_a_page_has_lines_since_version_1_2(
    version: float, options: dict[str, Any], text: str
) -> None:
    """Writes paragraphs, lists and headings in lines; options that the file does not have do nothing."""
    values = {"values": [{"key": "k", "cssSelector": "body"}]}
    parameters = {"operation": "extractHtmlContent", "extractionValues": values, "options": options}
    assert await outputs_of("html", version, parameters, [{"data": PAGE}]) == [[{"k": text}]]


@pytest.mark.parametrize("page", ["<div>" * 2_000, "<b></i>" * 2_000, "<p>a</p>" * 60_000])
async def test_a_page_that_takes_too_long_fails_its_item(page: str) -> None:
    """Fails for elements that are nested too deep, and for too many of them."""
    values = {"values": [{"key": "k", "cssSelector": "body"}]}
    parameters = {"operation": "extractHtmlContent", "extractionValues": values}
    assert "too many elements" in await outputs_of("html", 1.2, parameters, [{"data": page}])
    to_markdown = {"mode": "htmlToMarkdown", "html": page, "destinationKey": "text"}
    assert "too many elements" in await outputs_of("markdown", 1, to_markdown, [{}])
