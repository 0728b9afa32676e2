"""HTTP steps of imported workflows: page after page, what is told by reading, headers and sign-ins."""

from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.run import Mode, Run, RunStatus
from tests.imports.exports import automated, chain, node
from tests.runs.shop import HOST, Shop

ADDRESS = "https://elsewhere.example/wp-json/pages"
# Where the database has no part in what is tested.
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def pages(shop: Shop, *bodies: Any, status: int = 200) -> None:
    """What the address answers, one after the other."""
    for body in bodies:
        shop.fault("status", "GET", "/wp-json/pages", status=status, body=body)


def asking(**pagination: Any) -> dict[str, Any]:
    """A step that asks for page after page."""
    options = {"pagination": {"pagination": pagination}}
    return node("Ask", "httpRequest", 4.2, {"url": ADDRESS, "options": options})


def parameter(value: str) -> dict[str, Any]:
    """A parameter of the query that leads on."""
    return {"parameters": {"parameters": [{"name": "at", "value": value}]}}


async def ran(shop: Shop, step: dict[str, Any]) -> tuple[Run, list[str], int]:
    """The run, the queries the address was asked with, and how many items came of it."""
    before = shop.world.state.ledger.last_seq
    run = await shop.run_and_drain(await automated(shop, chain(step)))
    entries = shop.world.state.ledger.entries(before, reads=True)
    rows = await shop.steps(run)
    return (
        run,
        ["&".join(f"{name}={value}" for name, value in entry.request.query) for entry in entries],
        rows[-1]["counts"]["read"],
    )


@on_one_engine
async def test_pages_are_asked_for_as_each_answer_leads_to_the_next(shop: Shop) -> None:
    """By what the last answer says, by counting, and by the address it gives.

    See docs/design/imports-n8n.md#http-steps.
    """
    ends = {"paginationCompleteWhen": "other", "completeExpression": "={{ !$response.body.next }}"}
    pages(shop, {"next": "b"}, {"next": "c d"}, {"next": None})
    led = asking(**parameter("={{ $response.body.next }}"), **ends)
    run, queries, items = await ran(shop, led)
    assert (run.status, queries, items) == (RunStatus.SUCCEEDED, ["", "at=b", "at=c d"], 3), run
    pages(shop, [{"n": 1}, {"n": 2}], [{"n": 3}], [])
    run, queries, items = await ran(shop, asking(**parameter("={{ $pageCount + 1 }}")))
    assert (queries, items) == (["at=1", "at=2", "at=3"], 3), run
    following = {"paginationMode": "responseContainsNextURL", "nextURL": "={{ $response.body.next }}"}
    pages(shop, {"next": "?p=2"}, {"next": ADDRESS + "?p=3"}, {"n": 0})
    run, queries, items = await ran(shop, asking(**following))
    assert (queries, items) == (["", "p=2", "p=3"], 3), run


@on_one_engine
async def test_pages_end_where_they_must(shop: Shop) -> None:
    """At a status, at the step's own limit, at five of a kind, and never on another host.

    See docs/design/imports-n8n.md#http-steps.
    """
    counted = parameter("={{ $pageCount + 1 }}")
    gone = {"paginationCompleteWhen": "receiveSpecificStatusCodes", "statusCodesWhenComplete": "404, 410"}
    pages(shop, {"n": 1})
    pages(shop, {"error": "gone"}, status=410)
    run, queries, items = await ran(shop, asking(**counted, **gone))
    assert (run.status, len(queries), items) == (RunStatus.SUCCEEDED, 2, 1), run
    pages(shop, *({"n": number} for number in range(3)))
    run, queries, items = await ran(shop, asking(**counted, limitPagesFetched=True, maxRequests=2))
    assert (len(queries), items) == (2, 2), run
    shop.world.state.faults.clear()
    pages(shop, *[{"n": 1}] * 9)
    run, queries, _ = await ran(shop, asking(**counted))
    assert (run.status, len(queries)) == (RunStatus.FAILED, 5), run
    shop.world.state.faults.clear()
    pages(shop, {"next": "https://third.example/wp-json/pages"}, {})
    following = {"paginationMode": "responseContainsNextURL", "nextURL": "={{ $response.body.next }}"}
    run, queries, _ = await ran(shop, asking(**following))
    assert (run.status, len(queries)) == (RunStatus.FAILED, 1), run


@on_one_engine
async def test_a_hundred_pages_are_asked_for_and_no_more(shop: Shop) -> None:
    """See docs/design/imports-n8n.md#http-steps."""
    ends = {"paginationCompleteWhen": "other", "completeExpression": "={{ $pageCount >= 100 }}"}
    pages(shop, *({"n": number} for number in range(201)))
    run, queries, items = await ran(shop, asking(**parameter("={{ $pageCount }}"), **ends))
    assert (run.status, len(queries), items) == (RunStatus.SUCCEEDED, 100, 100), run
    ends["completeExpression"] = "={{ $pageCount >= 101 }}"
    run, queries, _ = await ran(shop, asking(**parameter("={{ $pageCount }}"), **ends))
    assert (run.status, len(queries)) == (RunStatus.FAILED, 100), run


@on_one_engine
async def test_an_answer_that_cannot_be_kept_as_data_is_kept_as_text(shop: Shop) -> None:
    """Whatever an address answers, the run goes on or fails in words.

    See docs/design/imports-n8n.md#http-steps.
    """
    pages(shop, {"a": float("nan")})
    run, _, items = await ran(shop, node("Ask", "httpRequest", 4.2, {"url": ADDRESS}))
    assert (run.status, items) == (RunStatus.SUCCEEDED, 1), run


@on_one_engine
async def test_an_answer_is_read_as_an_older_step_says_and_errors_of_graphql_fail(shop: Shop) -> None:
    """A list as text is one item; an answer that tells errors is none.

    See docs/design/imports-n8n.md#http-steps.
    """
    older = {"url": ADDRESS, "responseFormat": "string", "dataPropertyName": "page"}
    pages(shop, [{"n": 1}, {"n": 2}])
    run, _, items = await ran(shop, node("Ask", "httpRequest", 1, older))
    assert (run.status, items) == (RunStatus.SUCCEEDED, 1), run
    pages(shop, [{"n": 1}, {"n": 2}])
    run, _, items = await ran(shop, node("Ask", "httpRequest", 2, {"url": ADDRESS}))
    assert (run.status, items) == (RunStatus.SUCCEEDED, 2), run
    request_body = {"endpoint": ADDRESS, "query": "{ a }"}
    for body, status in (
        ({"data": {"a": 1}}, RunStatus.SUCCEEDED),
        ({"data": None, "errors": [{"message": "gone"}]}, RunStatus.FAILED),
    ):
        shop.fault("status", "POST", "/wp-json/pages", status=200, body=body)
        run = await shop.run_and_drain(await automated(shop, chain(node("Ask", "graphql", 1, request_body))))
        assert run.status == status, run


@on_one_engine
async def test_data_cannot_make_a_query_of_graphql_change_anything(shop: Shop) -> None:
    """A document that begins as a query and is none when it runs is not sent.

    See docs/design/imports-n8n.md#http-steps.
    """
    for words, status in (
        ("b", RunStatus.SUCCEEDED),
        ("b } } mutation m { c { d", RunStatus.FAILED),
        ("b } } } mutation m { c { d", RunStatus.FAILED),
    ):
        shop.world.state.faults.clear()
        shop.fault("status", "POST", "/wp-json/pages", status=200, body={"data": {"a": 1}})
        query = "={ a { {{ '" + words + "' }} } }"
        run, requests, _ = await ran(shop, node("Ask", "graphql", 1, {"endpoint": ADDRESS, "query": query}))
        assert (run.status, len(requests)) == (status, int(status is RunStatus.SUCCEEDED)), run


def findings(step: dict[str, Any]) -> list[tuple[str, str]]:
    """Level and code of what reading finds at a step."""
    read = read_value(chain(step))
    return [(str(finding.level), finding.code) for finding in read.findings if finding.step == step["name"]]


@pytest.mark.parametrize(
    "pagination",
    [
        {"paginationMode": "byMagic"},
        {"paginationCompleteWhen": "theMoonIsFull"},
        {"paginationMode": "responseContainsNextURL", "nextURL": ADDRESS},
        {"parameters": {"parameters": [{"type": "body", "name": "at", "value": "=1"}]}},
    ],
)
def test_pages_that_cannot_be_are_refused_at_import(pagination: dict[str, Any]) -> None:
    """See docs/design/imports-n8n.md#rules."""
    assert ("error", "parameter") in findings(asking(**pagination))


def test_a_read_that_tells_the_address_values_of_the_run_is_said() -> None:
    """It is a read, so a test run makes it too.

    See docs/design/imports-n8n.md#http-steps and docs/design/imports-n8n.md#plan.
    """
    for more in (
        {"url": "=https://a.example/unsubscribe?id={{ $json.id }}"},
        {"url": ADDRESS, "sendQuery": True}
        | {"queryParameters": {"parameters": [{"name": "id", "value": "={{ $json.id }}"}]}},
    ):
        assert findings(node("Ask", "httpRequest", 4.2, more | {"options": {}})) == [("warning", "parameter")]
    assert findings(node("Ask", "httpRequest", 4.2, {"url": ADDRESS, "options": {}})) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"redirect": {}}, []),
        ({"redirect": {"redirect": {"followRedirects": False}}}, [("warning", "parameter")]),
        ({"lowercaseHeaders": False}, [("warning", "parameter")]),
        ({"queryParameterArrays": "repeat"}, []),
        ({"queryParameterArrays": "brackets"}, []),
        ({"queryParameterArrays": "csv"}, [("error", "parameter")]),
    ],
)
def test_an_option_that_would_do_otherwise_is_said(
    options: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """See docs/design/imports-n8n.md#rules."""
    assert findings(node("Ask", "httpRequest", 4.2, {"url": ADDRESS, "options": options})) == expected


@on_one_engine
async def test_a_question_in_graphql_sends_no_header_that_cannot_be(shop: Shop) -> None:
    """Headers are held to the same as those of any request.

    See docs/design/security.md#imported-workflows.
    """
    rows = {"parameter": [{"name": "X-Kind", "value": "={{ 'a\\r\\nhost: b' }}"}]}
    request_body = {"endpoint": ADDRESS, "query": "{ shop { name } }", "headerParametersUi": rows}
    run = await shop.run_and_drain(await automated(shop, chain(node("Ask", "graphql", 1, request_body))))
    assert run.status is RunStatus.FAILED
    assert "X-Kind" in str((await shop.steps(run))[-1]["message"])


def signed_in(path: str, **more: Any) -> dict[str, Any]:
    """A request that signs in to the shop with a credential of the tool."""
    request_body = {
        "url": f"https://{HOST}{path}",
        "authentication": "predefinedCredentialType",
        "options": {},
    }
    return node("Ask", "httpRequest", 4.2, request_body | {"nodeCredentialType": "wooCommerceApi"} | more)


@on_one_engine
async def test_a_request_signed_in_to_the_shop_reads_it_with_its_connection(shop: Shop) -> None:
    """If host and method fit; and nothing there that tells keys.

    See docs/design/imports-n8n.md#http-steps.
    """
    query = {"sendQuery": True, "queryParameters": {"parameters": [{"name": "per_page", "value": "4"}]}}
    own_values = {"integration_id": shop.connections["woocommerce"].integration_id}
    signed_in_step = signed_in("/wp-json/wc/v3/products", **query)
    run = await shop.run_and_drain(await automated(shop, chain(signed_in_step), **own_values))
    assert run.status is RunStatus.SUCCEEDED, run
    rows = await shop.steps(run)
    assert rows[-1]["counts"]["read"] == 4
    assert rows[-1]["connection"]["kind"] == "woocommerce"
    for path in (
        "/wp-json/wc/v3/payment_gateways",
        "/wp-json/wc/v3/products/../settings",
        "/wp-json/wp/v2/users",
    ):
        run = await shop.run_and_drain(await automated(shop, chain(signed_in(path)), **own_values))
        assert run.status is RunStatus.FAILED, path
    elsewhere = signed_in("", url="https://third.example/wp-json/wc/v3/products")
    assert (
        await shop.run_and_drain(await automated(shop, chain(elsewhere), **own_values))
    ).status is RunStatus.FAILED


@on_one_engine
async def test_what_a_signed_in_read_is_asked_by_makes_it_nothing_else(shop: Shop) -> None:
    """A query may tell WordPress another method or path; test runs read too.

    See docs/design/imports-n8n.md#http-steps and docs/design/security.md#promises.
    """
    own_values = {"integration_id": shop.connections["woocommerce"].integration_id}
    for name in ("_method", " _method", "[method", "rest_route", "rest.route", "x"):
        actual = [{"name": name, "value": "DELETE"}, {"name": "force", "value": "true"}]
        query = {"sendQuery": True, "queryParameters": {"parameters": actual}}
        automation = await automated(shop, chain(signed_in("/wp-json/wc/v3/products", **query)), **own_values)
        before = shop.world.state.ledger.last_seq
        run = await shop.run_and_drain(automation, Mode.TEST)
        assert run.status is RunStatus.FAILED, name
        assert name in str((await shop.steps(run))[-1]["message"])
        assert list(shop.world.state.ledger.entries(before, reads=True)) == []


def test_a_request_signed_in_to_a_store_never_changes_it() -> None:
    """A write is an error, “use a store step”; so are writes to Shopify.

    See docs/design/imports-n8n.md#http-steps.
    """
    assert ("error", "parameter") in findings(signed_in("/wp-json/wc/v3/products", method="POST"))
    shopify = signed_in("/admin/products.json", nodeCredentialType="shopifyAccessTokenApi", method="POST")
    assert ("error", "credential") in findings(shopify)
    assert findings(signed_in("/wp-json/wc/v3/products")) == [("warning", "credential")]
