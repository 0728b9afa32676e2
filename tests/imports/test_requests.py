"""Tests HTTP steps: pagination, reads that send data, GraphQL, headers and sign-ins with a store."""

from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.run import Mode, Run, RunStatus
from tests.imports.exports import automated, chain, node
from tests.runs.shop import HOST, Shop

ADDRESS = "https://elsewhere.example/wp-json/pages"
# For tests in which the database has no part.
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def pages(shop: Shop, *bodies: Any, status: int = 200) -> None:
    """Makes the address respond with these bodies, one after the other."""
    for body in bodies:
        shop.fault("status", "GET", "/wp-json/pages", status=status, body=body)


def asking(**pagination: Any) -> dict[str, Any]:
    """Returns a step that reads page after page."""
    options = {"pagination": {"pagination": pagination}}
    return node("Ask", "httpRequest", 4.2, {"url": ADDRESS, "options": options})


def parameter(value: str) -> dict[str, Any]:
    """Returns the query parameter that selects the next page."""
    return {"parameters": {"parameters": [{"name": "at", "value": value}]}}


def limited(pages: int) -> dict[str, Any]:
    """Returns the setting that bounds the number of pages."""
    return {"limitPagesFetched": True, "maxRequests": pages}


async def finished_run(shop: Shop, step: dict[str, Any]) -> tuple[Run, list[str], int]:
    """Runs a step; returns the run, the queries that the address got, and the number of items."""
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
async def test_each_response_leads_to_the_next_page(shop: Shop) -> None:
    """Reads pages by a value of the last response, by counting, or by the URL in the response.

    See docs/design/imports-n8n.md#http-steps.
    """
    ends = {"paginationCompleteWhen": "other", "completeExpression": "={{ !$response.body.next }}"}
    pages(shop, {"next": "b"}, {"next": "c d"}, {"next": None})
    led = asking(**parameter("={{ $response.body.next }}"), **ends)
    run, queries, items = await finished_run(shop, led)
    assert (run.status, queries, items) == (RunStatus.SUCCEEDED, ["", "at=b", "at=c d"], 3), run
    pages(shop, [{"n": 1}, {"n": 2}], [{"n": 3}], [])
    run, queries, items = await finished_run(shop, asking(**parameter("={{ $pageCount + 1 }}")))
    assert (queries, items) == (["at=1", "at=2", "at=3"], 3), run
    following = {"paginationMode": "responseContainsNextURL", "nextURL": "={{ $response.body.next }}"}
    pages(shop, {"next": "?p=2"}, {"next": ADDRESS + "?p=3"}, {"n": 0})
    run, queries, items = await finished_run(shop, asking(**following))
    assert (queries, items) == (["", "p=2", "p=3"], 3), run
    # The expression also decides the first page, and the step's own query stays.
    pages(shop, {"n": 1}, {"n": 2})
    counted = ADDRESS + "?p={{ $pageCount + ($response.body?.n ?? 8) }}"
    step = asking(paginationMode="responseContainsNextURL", nextURL=f"={counted}", **limited(2))
    query = {"sendQuery": True, "queryParameters": {"parameters": [{"name": "q", "value": "x"}]}}
    step["parameters"] |= query
    run, queries, items = await finished_run(shop, step)
    assert (queries, items) == (["p=8&q=x", "p=2&q=x"], 2), run


@on_one_engine
async def test_pagination_ends_at_its_limits(shop: Shop) -> None:
    """Ends at a status and at the step's own limit.

    Fails after five equal pages, or when the next page is on another host.
    See docs/design/imports-n8n.md#http-steps.
    """
    counted = parameter("={{ $pageCount + 1 }}")
    until_status = {
        "paginationCompleteWhen": "receiveSpecificStatusCodes",
        "statusCodesWhenComplete": "404, 410",
    }
    pages(shop, {"n": 1})
    pages(shop, {"error": "gone"}, status=410)
    run, queries, items = await finished_run(shop, asking(**counted, **until_status))
    assert (run.status, len(queries), items) == (RunStatus.SUCCEEDED, 2, 1), run
    pages(shop, *({"n": number} for number in range(3)))
    run, queries, items = await finished_run(shop, asking(**counted, limitPagesFetched=True, maxRequests=2))
    assert (len(queries), items) == (2, 2), run
    shop.world.state.faults.clear()
    pages(shop, *[{"n": 1}] * 9)
    run, queries, _ = await finished_run(shop, asking(**counted))
    assert (run.status, len(queries)) == (RunStatus.FAILED, 5), run
    shop.world.state.faults.clear()
    pages(shop, {"next": "https://third.example/wp-json/pages"}, {})
    following = {"paginationMode": "responseContainsNextURL", "nextURL": "={{ $response.body.next }}"}
    run, queries, _ = await finished_run(shop, asking(**following))
    assert (run.status, len(queries)) == (RunStatus.FAILED, 1), run


@on_one_engine
async def test_at_most_a_hundred_pages_are_read(shop: Shop) -> None:
    """Reads 100 pages and fails the run on one more. See docs/design/imports-n8n.md#http-steps."""
    ends = {"paginationCompleteWhen": "other", "completeExpression": "={{ $pageCount >= 100 }}"}
    pages(shop, *({"n": number} for number in range(201)))
    run, queries, items = await finished_run(shop, asking(**parameter("={{ $pageCount }}"), **ends))
    assert (run.status, len(queries), items) == (RunStatus.SUCCEEDED, 100, 100), run
    ends["completeExpression"] = "={{ $pageCount >= 101 }}"
    run, queries, _ = await finished_run(shop, asking(**parameter("={{ $pageCount }}"), **ends))
    assert (run.status, len(queries)) == (RunStatus.FAILED, 100), run


@on_one_engine
async def test_a_response_with_invalid_json_fails(shop: Shop) -> None:
    """Fails on a response whose JSON contains NaN.

    See docs/design/imports-n8n.md#http-steps.
    """
    pages(shop, {"a": float("nan")})
    run, _, items = await finished_run(shop, node("Ask", "httpRequest", 4.2, {"url": ADDRESS}))
    assert (run.status, items) == (RunStatus.FAILED, 0), run


@on_one_engine
async def test_older_response_settings_apply_and_graphql_errors_fail(shop: Shop) -> None:
    """Reads a list as one item where an older step requests text.

    A GraphQL response with errors fails the run.

    See docs/design/imports-n8n.md#http-steps.
    """
    older = {"url": ADDRESS, "responseFormat": "string", "dataPropertyName": "page"}
    pages(shop, [{"n": 1}, {"n": 2}])
    run, _, items = await finished_run(shop, node("Ask", "httpRequest", 1, older))
    assert (run.status, items) == (RunStatus.SUCCEEDED, 1), run
    pages(shop, [{"n": 1}, {"n": 2}])
    run, _, items = await finished_run(shop, node("Ask", "httpRequest", 2, {"url": ADDRESS}))
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
async def test_data_cannot_turn_a_graphql_query_into_a_mutation(shop: Shop) -> None:
    """Does not send a query that data have turned into a mutation.

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
        run, requests, _ = await finished_run(
            shop, node("Ask", "graphql", 1, {"endpoint": ADDRESS, "query": query})
        )
        assert (run.status, len(requests)) == (status, int(status is RunStatus.SUCCEEDED)), run


def findings(step: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns level and code of the findings at a step."""
    read = read_value(chain(step))
    return [(str(finding.level), finding.code) for finding in read.findings if finding.step == step["name"]]


@pytest.mark.parametrize(
    "pagination",
    [
        {"paginationMode": "byMagic"},
        parameter("={{ $request.qs.page }}"),
        {"paginationCompleteWhen": "theMoonIsFull"},
        {"paginationMode": "responseContainsNextURL", "nextURL": ADDRESS},
        {"parameters": {"parameters": [{"type": "body", "name": "at", "value": "=1"}]}},
    ],
)
def test_invalid_pagination_is_an_error_at_import(pagination: dict[str, Any]) -> None:
    """Reports a pagination that cannot work as a `parameter` error. See docs/design/imports-n8n.md#rules."""
    assert ("error", "parameter") in findings(asking(**pagination))


def test_a_read_that_sends_run_data_in_its_address_makes_a_finding() -> None:
    """Warns that a read sends values of the run, because a test run makes it too.

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
        ({"redirect": {"redirect": {"followRedirects": False}}}, [("error", "parameter")]),
        ({"redirect": {"redirect": {"followRedirects": True}}}, [("warning", "parameter")]),
        ({"lowercaseHeaders": False}, [("warning", "parameter")]),
        ({"queryParameterArrays": "repeat"}, []),
        ({"queryParameterArrays": "brackets"}, []),
        ({"queryParameterArrays": "csv"}, [("error", "parameter")]),
    ],
)
def test_an_option_that_would_act_differently_makes_a_finding(
    options: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Reports an option that would work differently here as a warning or an error.

    See docs/design/imports-n8n.md#rules.
    """
    assert findings(node("Ask", "httpRequest", 4.2, {"url": ADDRESS, "options": options})) == expected


@pytest.mark.parametrize(
    ("version", "options", "is_error"),
    [
        (2, {"followRedirect": False}, True),
        (2, {"followRedirect": True}, False),
        (3, {"redirect": {"redirect": {}}}, True),
        (4, {"redirect": {"redirect": {}}}, False),
    ],
)
def test_a_read_that_passes_redirects_on_is_an_error(
    version: float, options: dict[str, Any], is_error: bool
) -> None:
    """Reports a read that does not follow redirects; a send may be set so, since none follows them."""
    asking = {"url": ADDRESS, "options": options}
    assert (("error", "parameter") in findings(node("Ask", "httpRequest", version, asking))) is is_error
    sending = {**asking, ("requestMethod" if version < 3 else "method"): "POST"}
    assert ("error", "parameter") not in findings(node("Ask", "httpRequest", version, sending))


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        (2, {"followRedirect": True}, [("warning", "parameter")]),
        (1, {"followAllRedirects": True}, [("warning", "parameter")]),
        (4.2, {"redirect": {"redirect": {"followRedirects": True}}}, [("warning", "parameter")]),
        (4.2, {"redirect": {"redirect": {"followRedirects": False}}}, []),
        (4.2, {"redirect": {"redirect": {"followRedirects": "={{ $json.a }}"}}}, [("error", "parameter")]),
        (4.2, {}, []),
    ],
)
def test_a_send_that_would_follow_redirects_makes_a_finding(
    version: float, options: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Warns that a send follows no redirect, and refuses an expression that decides it."""
    name = "requestMethod" if version < 3 else "method"
    sending = {"url": ADDRESS, "options": options, name: "POST"}
    if version < 3:
        sending["responseFormat"] = "string"
    assert findings(node("Ask", "httpRequest", version, sending)) == expected


@on_one_engine
async def test_a_graphql_query_with_an_invalid_header_fails(shop: Shop) -> None:
    """Fails a GraphQL read whose header value contains a line break.

    See docs/design/security.md#imported-workflows.
    """
    rows = {"parameter": [{"name": "X-Kind", "value": "={{ 'a\\r\\nhost: b' }}"}]}
    request_body = {"endpoint": ADDRESS, "query": "{ shop { name } }", "headerParametersUi": rows}
    run = await shop.run_and_drain(await automated(shop, chain(node("Ask", "graphql", 1, request_body))))
    assert run.status is RunStatus.FAILED
    assert "X-Kind" in str((await shop.steps(run))[-1]["message"])


def signed_in(path: str, **more: Any) -> dict[str, Any]:
    """Returns a request that signs in to the shop with a predefined credential."""
    request_body = {
        "url": f"https://{HOST}{path}",
        "authentication": "predefinedCredentialType",
        "options": {},
    }
    return node("Ask", "httpRequest", 4.2, request_body | {"nodeCredentialType": "wooCommerceApi"} | more)


@on_one_engine
async def test_a_request_signed_in_to_the_shop_reads_it_with_its_connection(shop: Shop) -> None:
    """Reads the shop with its connection.

    Refuses other hosts and paths that reveal keys or users. See docs/design/imports-n8n.md#http-steps.
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
async def test_query_parameters_cannot_turn_a_signed_in_read_into_a_write(shop: Shop) -> None:
    """Refuses query parameters that could change the method or path in WordPress, before any request.

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
    """Reports writes to a store as errors, for WooCommerce and Shopify.

    See docs/design/imports-n8n.md#http-steps.
    """
    assert ("error", "parameter") in findings(signed_in("/wp-json/wc/v3/products", method="POST"))
    shopify = signed_in("/admin/products.json", nodeCredentialType="shopifyAccessTokenApi", method="POST")
    assert ("error", "credential") in findings(shopify)
    public = "https://shop.example.com/wp-json/wc/v3/products"
    assert findings(signed_in("", url=public)) == [("warning", "credential")]
