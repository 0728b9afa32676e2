"""Tests that responses to sends become the items of their step, in both send modes and by `onError`."""

import json
from typing import Any

import httpx
import pytest

from steward.model.approval import FollowingSteps
from steward.model.change import Outcome
from steward.model.run import Mode, RunStatus
from steward.model.write_response import RESPONSE_BYTES
from tests.imports.exports import automated, chain, code, drafted, listed, node
from tests.imports.responses.orders_address import OrdersAddress, with_number
from tests.imports.responses.workflows import numbered, output_items, posted, step_row, three
from tests.runs.shop import Shop

on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


async def ended(shop: Shop, export: dict[str, Any], send_mode: str = "send") -> Any:
    """Runs the export, approves everything it proposes, and returns the settled run."""
    run = await shop.run_and_drain(await automated(shop, export, send_mode=send_mode))
    while run.status is RunStatus.WAITING_APPROVAL:
        await shop.approve(run)
        run = await shop.until_settled(run)
    return run


@pytest.mark.parametrize("send_mode", ["send", "ask"])
async def test_the_next_step_reads_the_response_of_each_item(
    shop: Shop, orders: OrdersAddress, send_mode: str
) -> None:
    """Passes on the response to item i as output item i, paired with the item that was sent."""
    run = await ended(shop, chain(three(), posted(), numbered()), send_mode)
    assert run.status is RunStatus.SUCCEEDED, run
    assert await output_items(shop, run, "Read") == [{"number": n, "n": n} for n in (1, 2, 3)]
    assert len(orders.requests) == 3


async def test_a_later_send_asks_again_and_waits(shop: Shop, orders: OrdersAddress) -> None:
    """Shows values of the first response in the second approval, and sends nothing before that approval."""
    second = posted("Second", '={"of": {{ $json.number }}}')
    automation = await automated(shop, chain(three(), posted(), second, node("After", "noOp", 1, {})))
    run = await shop.waiting(automation)
    assert orders.requests == []
    await shop.approve(run)
    await shop.restart()
    run = await shop.until_settled(run)
    assert run.status is RunStatus.WAITING_APPROVAL
    assert len(orders.requests) == 3
    assert (await shop.approval(run)).round == 2
    await shop.approve(run)
    run = await shop.until_settled(run)
    assert run.status is RunStatus.SUCCEEDED, run
    assert [body for _, _, body in orders.requests[3:]] == [{"of": 1}, {"of": 2}, {"of": 3}]
    assert [item["number"] for item in await output_items(shop, run, "After")] == [4, 5, 6]


async def test_a_declined_item_has_no_response(shop: Shop, orders: OrdersAddress) -> None:
    """Drops the declined item; the other items keep their own responses."""
    run = await shop.waiting(await automated(shop, chain(three(), posted(), numbered())))
    changes = await shop.changes(run)
    await shop.approve(run, [changes[1]])
    run = await shop.until_settled(run)
    assert run.status is RunStatus.SUCCEEDED, run
    assert await output_items(shop, run, "Read") == [{"number": 1, "n": 1}, {"number": 2, "n": 3}]


def refusing_the_second(request: httpx.Request, number: int) -> httpx.Response:
    """Refuses the order of the second item with status 422."""
    if json.loads(request.content).get("n") == 2:
        return httpx.Response(422, json={"message": "No such thing."})
    return with_number(request, number)


@pytest.mark.parametrize("send_mode", ["send", "ask"])
async def test_a_refused_item_goes_by_on_error(shop: Shop, orders: OrdersAddress, send_mode: str) -> None:
    """Stops the run, passes on an error item, or sends it to the error output, depending on `onError`."""
    orders.respond = refusing_the_second
    error_fields = {"name": "AxiosError", "code": "ERR_BAD_REQUEST", "status": 422}
    run = await ended(shop, chain(three(), posted(), numbered()), send_mode)
    assert (run.status, await step_row(shop, run, "Read")) == (RunStatus.FAILED, None)

    orders.forget()
    tolerant = posted(onError="continueRegularOutput")
    run = await ended(shop, chain(three(), tolerant, node("After", "noOp", 1, {})), send_mode)
    first, second, third = await output_items(shop, run, "After")
    message = second["error"].pop("message")
    assert (first["number"], second, third["number"]) == (1, {"error": error_fields}, 3)
    assert message.startswith('422 - "')

    orders.forget()
    export = chain(three(), posted(onError="continueErrorOutput"), numbered())
    export["nodes"].append(node("Failed", "noOp", 1, {}))
    export["connections"]["Post"]["main"].append([{"node": "Failed", "type": "main", "index": 0}])
    run = await ended(shop, export, send_mode)
    assert await output_items(shop, run, "Read") == [{"number": 1, "n": 1}, {"number": 3, "n": 3}]
    assert await output_items(shop, run, "Failed") == [
        {"n": 2, "error": {**error_fields, "message": message}}
    ]


async def test_an_error_status_is_passed_on_if_the_step_asks_for_it(
    shop: Shop, orders: OrdersAddress
) -> None:
    """Passes on status, headers and body of any response when `neverError` and `fullResponse` are set."""
    orders.respond = lambda request, number: httpx.Response(503, json={"busy": True}, headers={"x-a": "b"})
    options = {"response": {"response": {"neverError": True, "fullResponse": True}}}
    run = await ended(shop, chain(three(), posted(options=options), node("After", "noOp", 1, {})))
    assert run.status is RunStatus.SUCCEEDED, run
    [first, *_] = await output_items(shop, run, "After")
    assert (first["statusCode"], first["body"], first["headers"]["x-a"]) == (503, {"busy": True}, "b")


async def test_an_unknown_outcome_is_a_failed_item_where_failures_are_tolerated(
    shop: Shop, orders: OrdersAddress
) -> None:
    """A 500 ends the run with `outcome_unknown`.

    The next step runs only where the send tolerates failures.
    """
    orders.respond = lambda request, number: httpx.Response(500, json={})
    run = await ended(shop, chain(three(), posted(), numbered()))
    assert (run.status, run.code) == (RunStatus.FAILED, "outcome_unknown")
    assert await step_row(shop, run, "Read") is None
    run = await ended(shop, chain(three(), posted(onError="continueRegularOutput"), numbered()))
    assert (run.status, run.code) == (RunStatus.FAILED, "outcome_unknown")
    assert await step_row(shop, run, "Read") is not None


async def test_a_lost_response_ends_the_step_as_unknown(shop: Shop, orders: OrdersAddress) -> None:
    """Ends the run with `outcome_unknown` even where the step tolerates failures.

    Nothing is sent twice and the next step does not run.
    """

    def lost(request: httpx.Request, number: int) -> httpx.Response:
        raise httpx.ReadError("gone", request=request)

    orders.respond = lost
    for settings in {}, {"onError": "continueRegularOutput"}:
        orders.forget()
        run = await ended(shop, chain(three(), posted(**settings), numbered()))
        assert (run.status, run.code) == (RunStatus.FAILED, "outcome_unknown"), run
        row = await step_row(shop, run, "Post")
        assert row is not None
        assert row["code"] == "outcome_unknown"
        assert await step_row(shop, run, "Read") is None
        assert len(orders.requests) == 3
        assert {change.outcome for change in await shop.changes(run)} == {Outcome.UNKNOWN}


@pytest.mark.parametrize(("size", "fits"), [(RESPONSE_BYTES, True), (RESPONSE_BYTES + 1, False)])
async def test_a_response_of_at_most_one_mebibyte_is_passed_on(
    shop: Shop, orders: OrdersAddress, size: int, fits: bool
) -> None:
    """Fails the item with a plain message when its response is one byte larger.

    The request still counts as applied.
    """
    orders.respond = lambda request, number: httpx.Response(200, text="x" * size)
    record = code("Three", "return [{json: {n: 1}}]")
    run = await ended(shop, chain(record, posted(), node("After", "noOp", 1, {})))
    assert [change.outcome for change in await shop.changes(run)] == [Outcome.APPLIED]
    if fits:
        assert run.status is RunStatus.SUCCEEDED, run
        assert [len(item["data"]) for item in await output_items(shop, run, "After")] == [size]
    else:
        assert run.status is RunStatus.FAILED, run
        assert "larger than a step may pass on" in str(run.message)
        assert await step_row(shop, run, "After") is None


@on_one_engine
async def test_items_past_the_total_size_of_responses_fail(shop: Shop, orders: OrdersAddress) -> None:
    """Passes on seven responses of nearly 1 MiB; the eighth exceeds 7 MiB and becomes an error item."""
    size = RESPONSE_BYTES - 1024
    orders.respond = lambda request, number: httpx.Response(200, json={"text": "x" * size})
    many = code("Three", "return Array.from({length: 8}, (_, n) => ({json: {n}}))")
    after = node("After", "noOp", 1, {})
    run = await ended(shop, chain(many, posted(onError="continueRegularOutput"), after))
    assert run.status is RunStatus.SUCCEEDED, run
    items = await output_items(shop, run, "After")
    assert [len(item.get("text", "")) for item in items] == [size] * 7 + [0]
    assert "larger than a step may pass on" in items[7]["error"]["message"]


async def test_a_response_is_stored_encrypted(shop: Shop, orders: OrdersAddress) -> None:
    """Stores neither the body nor the headers in clear text in the write ledger."""
    run = await ended(shop, chain(three(), posted(), numbered()))
    rows = await shop.read(
        lambda tx: tx.all(
            "SELECT answer FROM write_ledger WHERE org_id = :org AND run_id = :run",
            {"org": shop.owner.org, "run": run.id},
        )
    )
    sealed = [bytes(row["answer"]) for row in rows]
    assert len(sealed) == 3
    assert all(b"number" not in response and b"x-shard" not in response for response in sealed)


async def test_a_test_run_sends_nothing_and_skips_readers_of_responses(
    shop: Shop, orders: OrdersAddress
) -> None:
    """Makes no request in a test run, and marks the step that reads the response `unknown_in_test`."""
    run = await shop.run_and_drain(await automated(shop, chain(three(), posted(), numbered())), Mode.TEST)
    assert run.status is RunStatus.SUCCEEDED, run
    assert orders.requests == []
    row = await step_row(shop, run, "Read")
    assert row is not None
    assert row["code"] == "unknown_in_test"


async def test_an_approval_shows_what_follows_it(shop: Shop, orders: OrdersAddress) -> None:
    """Shows how many steps may run after the approval, and whether one of them may ask again."""
    second = posted("Second", '={"of": {{ $json.number }}}')
    off = node("Off", "noOp", 1, {}, disabled=True)
    export = chain(three(), posted(), numbered(), second, off, node("After", "noOp", 1, {}))
    run = await shop.waiting(await automated(shop, export))
    assert (await shop.approval(run)).follows == FollowingSteps(3, may_ask_again=True)
    await shop.approve(run)
    run = await shop.until_settled(run)
    assert (await shop.approval(run)).follows == FollowingSteps(1, may_ask_again=False)
    await shop.approve(run)
    assert (await shop.until_settled(run)).status is RunStatus.SUCCEEDED


async def test_a_changed_object_is_passed_on_as_the_store_returned_it(shop: Shop) -> None:
    """Passes on all fields of the changed products as WooCommerce returned them."""
    after = node("After", "noOp", 1, {})
    automation = await automated(
        shop,
        chain(listed(2), drafted(), after),
        integration_id=shop.connections["woocommerce"].integration_id,
    )
    run = await shop.waiting(automation)
    await shop.approve(run)
    run = await shop.until_settled(run)
    assert run.status is RunStatus.SUCCEEDED, run
    items = await output_items(shop, run, "After")
    assert [item["status"] for item in items] == ["draft", "draft"]
    assert all(item["date_modified_gmt"] and item["permalink"] for item in items)
    assert {item["id"] for item in items} == {
        int(change.proposal.object.id or 0) for change in await shop.changes(run)
    }
