"""Tests flows as runs: what they read, ask for and send, and how they wait and continue.

See docs/design/imports-shopify-flow.md#execution and docs/design/runs.md#execution.
"""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest

from steward.model.change import Outcome
from steward.model.run import TERMINAL, Run, RunStatus
from tests.crash.killing import ROUNDS, Killer, ProcessKilled, bury, watching
from tests.imports.shopify_flow.flow_service import FlowShop
from tests.imports.shopify_flow.flows import ADMIN, FLOW, began, code, condition, flow, foreach, http, task

SCRIPT = "export default function main(input) { return { big: input.order.lineItems.length > 2 }; }"


def sent(flow_shop: FlowShop) -> list[str]:
    """Returns the bodies of the POST requests to the outside address, in their order."""
    return [body for method, _, body in flow_shop.outside.requests if method == "POST"]


def in_loop(*more: Any) -> dict[str, Any]:
    """Returns a flow that makes a request for each line of an order, and one more at the end."""
    item = "lineItemsForeachitem"
    steps = [
        began(),
        foreach(2, "order.lineItems"),
        http(3, body=f"{{{{ {item}.title }}}}"),
        http(4, body="end"),
    ]
    return flow(*steps, *more, links=[(1, "output", 2), (2, "loop_body", 3), (2, "after", 4)])


async def test_the_object_of_an_event_is_read_and_one_branch_followed(on_both_engines: FlowShop) -> None:
    """Reads the event's order and follows only the matching branch of the condition.

    See docs/design/imports-shopify-flow.md#conditions and docs/design/imports-shopify-flow.md#environment.
    """
    value = flow(
        began(),
        condition(2, "(order.totalPrice > 500)"),
        http(3, body="{{ order.name }} of {{ order.customer.firstName }} is rich"),
        http(4, body="{{ order.lineItems.title | join: '+' }} is poor"),
        links=[(1, "output", 2), (2, "true", 3), (2, "false", 4)],
    )
    automation = await on_both_engines.automation(value, "orders/create")
    [order] = on_both_engines.store.of("Order")
    run = await on_both_engines.deliver(automation, "ORDERS_CREATE", order)
    assert run.status is RunStatus.WAITING_APPROVAL, await on_both_engines.shop.steps(run)
    assert sent(on_both_engines) == []
    ended = await on_both_engines.approved(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert sent(on_both_engines) == [f"{order['name']} of Ada is rich"]
    on_both_engines.store.touch(order, totalPriceSet=on_both_engines.store.money("12.00"))
    ended = await on_both_engines.approved(await on_both_engines.deliver(automation, "ORDERS_CREATE", order))
    assert sent(on_both_engines)[1:] == ["Mug+Pot+Lid is poor"]


async def test_all_changes_of_a_for_each_share_one_approval(flow_shop: FlowShop) -> None:
    """Shows the changes of all elements in one approval.

    A declined change stops no other element.
    See docs/design/runs.md#execution and docs/design/api/runs.md#step.
    """
    automation = await flow_shop.automation(in_loop(), "orders/create")
    run = await flow_shop.deliver(automation, "ORDERS_CREATE", flow_shop.store.of("Order")[0])
    assert [row for row in await flow_shop.rows(run) if row[2] == "held"] == [
        ("Send HTTP request", 1, "held"),
        ("Send HTTP request", 2, "held"),
        ("Send HTTP request", 3, "held"),
        ("Send HTTP request 2", None, "held"),
    ]
    second = (await flow_shop.shop.changes(run))[1]
    await flow_shop.shop.approve(run, [second])
    ended = await flow_shop.shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert sent(flow_shop) == ["Mug", "Lid", "end"]


async def test_steps_after_a_change_ask_in_a_second_approval(
    flow_shop: FlowShop,
) -> None:
    """Skips a step after a declined change; a step after an approved one asks in a second approval.

    See docs/design/approvals.md#held-changes.
    """
    links = [(1, "output", 2), (2, "output", 3), (1, "output", 4), (4, "output", 5), (5, "output", 6)]
    value = flow(began(), *(http(number, body=f"step {number}") for number in range(2, 7)), links=links)
    automation = await flow_shop.automation(value, "orders/create")
    run = await flow_shop.deliver(automation, "ORDERS_CREATE", flow_shop.store.of("Order")[0])
    first = await flow_shop.shop.changes(run)
    assert len(first) == 2
    await flow_shop.shop.approve(run, [first[1]])
    run = await flow_shop.shop.until_settled(run)
    assert (run.status, sent(flow_shop)) == (RunStatus.WAITING_APPROVAL, ["step 2"])
    ended = await flow_shop.approved(run)
    assert (ended.status, sent(flow_shop)) == (RunStatus.SUCCEEDED, ["step 2", "step 3"]), ended
    remaining = [row["title"] for row in await flow_shop.shop.steps(run) if row["code"] == "not_approved"]
    status = [row["status"] for row in await flow_shop.shop.steps(run) if row["code"] == "not_approved"]
    assert (len(remaining), status) == (3, ["refused", "skipped", "skipped"])


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_invalid_url_from_data_fails_with_a_message(flow_shop: FlowShop, method: str) -> None:
    """Fails the run with a plain message when data make the address invalid.

    See docs/design/imports-n8n.md#http-steps.
    """
    order = flow_shop.store.of("Order")[0]
    automation = await flow_shop.automation(
        flow(began(), http(2, method=method, url="https://hooks.example/{{ order.note }}", body="")),
        "orders/create",
    )
    flow_shop.store.touch(order, note="a\r\nb")
    run = await flow_shop.deliver(automation, "ORDERS_CREATE", order)
    assert (run.status, run.message) == (
        RunStatus.FAILED,
        "The address of this step is not a complete https address.",
    )


@pytest.mark.parametrize(("days", "status"), [(90, RunStatus.RUNNING), (91, RunStatus.FAILED)])
async def test_a_computed_wait_has_at_most_ninety_days(
    flow_shop: FlowShop, days: int, status: RunStatus
) -> None:
    """Waits up to 90 days; a computed wait of 91 days fails the run.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    until = f"{{{{ 'now' | date_plus: '{days} days' }}}}"
    value = flow(began(), task(2, FLOW + "wait", "WAIT", until=until), http(3))
    automation = await flow_shop.automation(value, "orders/create")
    run = await flow_shop.deliver(automation, "ORDERS_CREATE", flow_shop.store.of("Order")[0])
    assert run.status is status, (run, await flow_shop.shop.steps(run))


async def test_an_element_altered_after_its_approval_is_not_sent(
    flow_shop: FlowShop,
) -> None:
    """Refuses with `approval_mismatch` to send an element that was altered after its approval.

    See docs/design/approvals.md#decisions.
    """
    shop = flow_shop.shop
    automation = await flow_shop.automation(in_loop(), "orders/create")
    run = await flow_shop.deliver(automation, "ORDERS_CREATE", flow_shop.store.of("Order")[0])
    second = (await shop.changes(run))[1]
    [part] = second.proposal.parts
    other = replace(part, arguments={**part.arguments, "url": "https://hooks.example/elsewhere"})
    written = {"parts": json.dumps([other.wire()]), "id": second.id}
    written["hash"] = replace(second.proposal, parts=(other,)).item_hash()

    async def written_over() -> None:
        set_ = "UPDATE changes SET parts = :parts, item_hash = :hash WHERE org_id = :org AND id = :id"
        assert await shop.tamper(set_, **written) == 1

    flow_shop.outside.meanwhile = written_over
    ended = await flow_shop.approved(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "approval_mismatch"), ended
    assert sent(flow_shop) == ["Mug"]


async def test_a_killed_for_each_changes_each_thing_once(flow_shop: FlowShop) -> None:
    """Kills the run at every eighth failpoint: it succeeds and makes each change exactly once.

    See docs/design/runs.md#execution and docs/design/writes.md#two-tables.
    """
    item = "{{ lineItemsForeachitem.product.id }}"
    value = flow(
        began(),
        foreach(2, "order.lineItems"),
        task(3, ADMIN + "add_product_tags", product_id=item, tags=["sold"]),
        task(4, ADMIN + "add_order_tags", order_id="order.id", tags=["seen"]),
        links=[(1, "output", 2), (2, "loop_body", 3), (2, "after", 4)],
    )
    automation, shop, store = (
        await flow_shop.automation(value, "orders/create"),
        flow_shop.shop,
        flow_shop.store,
    )

    async def play(killer: Killer) -> Run:
        for row in (*store.of("Product"), *store.of("Order")):
            row["tags"] = []
        await shop.clock.advance(700)  # events soon after a change count as its echo
        run_ids, arrived = {run.id for run in await flow_shop.runs(automation)}, len(store.applied())
        flow_shop.listen()
        assert await store.tell("ORDERS_CREATE", store.of("Order")[0]) == [200]
        with watching(shop, killer):
            for _ in range(ROUNDS):
                with suppress(ProcessKilled):
                    await shop.drain()
                    [run] = [run for run in await flow_shop.runs(automation) if run.id not in run_ids]
                    run = await shop.until_settled(run)
                if killer.is_dead:
                    await bury(shop, killer)
                elif run.status is RunStatus.WAITING_APPROVAL:
                    await shop.approve(run)
                elif run.status in TERMINAL:
                    break
        assert len(store.applied()) - arrived == 4, killer.kills
        return run

    await play(dry := Killer())
    for number in range(1, len(dry.visited), 8):
        run = await play(killer := Killer([number]))
        rows = [row for row in await flow_shop.rows(run) if row[2] != "held"]
        assert killer.kills
        assert (run.status, run.code) == (RunStatus.SUCCEEDED, None), (killer.kills, run)
        assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}, killer.kills
        assert (len(rows), len(set(rows))) == (6, 6), (killer.kills, rows)


async def test_a_test_run_reads_the_newest_order_and_sends_nothing(flow_shop: FlowShop) -> None:
    """Reads the newest order, skips steps that need a response, and sends and changes nothing.

    A live run started by hand fails and says that the store's event has to start it.

    See docs/design/runs.md#test-runs.
    """
    value = flow(
        began(),
        http(2, body="first"),
        http(3, body="{{ sendHttpRequest.body }}"),
        condition(4, "(sendHttpRequest1.body == 'x')"),
        http(5, body="{{ order.name }}"),
        http(6, body="after"),
        links=[(1, "output", 2), (2, "output", 3), (3, "output", 4), (4, "true", 5), (3, "output", 6)],
    )
    automation = await flow_shop.automation(value, "orders/create")
    run = await flow_shop.finished_test_run(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    rows = {row["name"]: (row["status"], row["code"]) for row in await flow_shop.shop.steps(run)}
    assert rows == {
        "Read the order": ("succeeded", None),
        "Send HTTP request": ("refused", None),
        "Send HTTP request 2": ("skipped", "unknown_in_test"),
        "Check if condition is met": ("skipped", "unknown_in_test"),
        "Send HTTP request 4": ("refused", None),
        "Send HTTP request 3": ("skipped", "unknown_in_test"),
    }
    [words] = [
        row["message"] for row in await flow_shop.shop.steps(run) if row["name"] == "Send HTTP request 2"
    ]
    assert "“Send HTTP request”" in words
    assert "“sendHttpRequest.body”" in words
    assert (flow_shop.outside.requests, flow_shop.store.writes()) == ([], [])
    live = await flow_shop.shop.run_and_drain(automation)
    assert live.status is RunStatus.FAILED, live
    assert "Let the store's event start it" in str(live.message)


async def test_a_later_step_reads_the_response_to_a_request(flow_shop: FlowShop) -> None:
    """Reads status and body of the response, also of a server error that the step ignores.

    See docs/design/imports-n8n.md#responses and docs/design/imports-shopify-flow.md#execution.
    """
    read = "{{ sendHttpRequest.statusCode }} {{ sendHttpRequest.body.number }}"
    value = flow(
        began(),
        http(2, body="first", on_client_error="ignore", on_server_error="ignore"),
        http(3, body=read),
        links=[(1, "output", 2), (2, "output", 3)],
    )
    automation = await flow_shop.automation(value, "orders/create")
    [order] = flow_shop.store.of("Order")
    for status in 201, 503:
        flow_shop.outside.requests.clear()
        flow_shop.outside.responses = [
            httpx.Response(status, json={"number": 7}),
            httpx.Response(200, json={"ok": True}),
        ]
        ended = await flow_shop.approved(await flow_shop.deliver(automation, "ORDERS_CREATE", order))
        assert ended.status is RunStatus.SUCCEEDED, ended
        assert sent(flow_shop) == ["first", f"{status} 7"]


async def test_a_wait_reads_again_and_continues_after_a_restart(flow_shop: FlowShop) -> None:
    """Reads the order again after the wait; the outputs of code and requests from before it stay.

    See docs/design/imports-shopify-flow.md#reading-objects.
    """
    value = flow(
        began(),
        code(2, "{ order { lineItems { title } } }", SCRIPT, "type Output { big: Boolean! }"),
        task(3, FLOW + "sum", listpath="order.lineItems.quantity"),
        http(4, method="GET", url="https://hooks.example/{{ sum }}", body=""),
        task(5, FLOW + "wait", "WAIT", duration="2", unit="days"),
        condition(6, "(runCode.big == true) && (order.note != nil)"),
        http(7, body="{{ order.note }} {{ sendHttpRequest.body.ok }} {{ 'now' | date: '%d' }}"),
        links=[(n, "output", n + 1) for n in range(1, 6)] + [(6, "true", 7)],
    )
    automation = await flow_shop.automation(value, "orders/create", send_mode="send")
    [order] = flow_shop.store.of("Order")
    run = await flow_shop.deliver(automation, "ORDERS_CREATE", order)
    assert run.status not in TERMINAL, (run, await flow_shop.shop.steps(run))
    assert [path for _, path, _ in flow_shop.outside.requests] == ["/6"]
    flow_shop.store.touch(order, note="Ring twice")
    await flow_shop.shop.restart()
    await flow_shop.shop.clock.advance(2 * 86_400)
    ended = await flow_shop.shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, (ended, await flow_shop.shop.steps(run))
    assert sent(flow_shop) == [f"Ring twice true {flow_shop.shop.clock.now():%d}"]
    names = [row[0] for row in await flow_shop.rows(run)]
    assert names == ["Read the order", "Run code", "Sum", "Send HTTP request", "Wait", "Read the order again",
                     "Check if condition is met", "Send HTTP request 2"]  # fmt: skip


async def test_scheduled_orders_are_looped_over_up_to_their_maximum(flow_shop: FlowShop) -> None:
    """Reads at most `maximum` matching orders, runs the loop for each, and counts them.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    for cents in range(3):
        flow_shop.store.add_order(flow_shop.store.of("ProductVariant")[:1], tags=["odd"] if cents else [])
    recurrence = ["DTSTART;TZID=Europe/Berlin:20260101T060000\nRRULE:FREQ=DAILY"]
    value = flow(
        began(FLOW + "scheduled_time", recurrence=recurrence),
        task(2, FLOW + "fetch::orders", query="tag:odd", maximum="1"),
        foreach(3, "getOrderData"),
        http(4, body="{{ getOrderDataForeachitem.name }} {{ getOrderDataForeachitem.tags | join }}"),
        task(5, FLOW + "count", listpath="getOrderData"),
        http(6, body="{{ count }} at {{ scheduledAt | date: '%Y' }} in {{ shop.name }}"),
        links=[(1, "output", 2), (2, "output", 3), (3, "loop_body", 4), (3, "after", 5), (5, "output", 6)],
    )
    ended = await flow_shop.approved(await flow_shop.shop.run_now(await flow_shop.automation(value)))
    assert ended.status is RunStatus.SUCCEEDED, (ended, await flow_shop.shop.steps(ended))
    [name] = [record["name"] for record in flow_shop.store.of("Order") if record["tags"]][:1]
    assert sent(flow_shop) == [f"{name} odd", f"1 at {flow_shop.shop.clock.now():%Y} in Teapots"]


@pytest.mark.parametrize(
    ("response", "settings", "expected"),
    [
        (httpx.Response(404), {}, RunStatus.FAILED),
        (httpx.Response(404), {"on_client_error": "ignore"}, RunStatus.SUCCEEDED),
        (httpx.Response(500), {"on_client_error": "ignore", "on_server_error": "retry"}, RunStatus.FAILED),
        (httpx.Response(500), {"on_server_error": "ignore"}, RunStatus.SUCCEEDED),
    ],
)
async def test_an_error_status_fails_the_run_unless_the_step_ignores_it(
    flow_shop: FlowShop, response: httpx.Response, settings: dict[str, str], expected: RunStatus
) -> None:
    """Fails the run on an error status unless the step ignores errors of that kind.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    flow_shop.outside.responses[:] = [response]
    value = flow(began(), http(2, method="GET", body="", **settings))
    run = await flow_shop.deliver(
        await flow_shop.automation(value, "orders/create"), "ORDERS_CREATE", flow_shop.store.of("Order")[0]
    )
    assert run.status is expected, (run, await flow_shop.shop.steps(run))
