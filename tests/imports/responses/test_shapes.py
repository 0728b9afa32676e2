"""Tests responses that are lists, empty or text, and responses within loops and called workflows."""

import json
from typing import Any

import httpx
import pytest

from steward.model.run import Run, RunStatus
from tests.imports.exports import automated, calling, chain, code, node
from tests.imports.responses.orders_address import OrdersAddress
from tests.imports.responses.workflows import numbered, output_items, posted, step_row, three
from tests.runs.shop import Shop

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
MODES = pytest.mark.parametrize("send_mode", ["send", "ask"])


async def ended(shop: Shop, export: dict[str, Any], send_mode: str = "send") -> tuple[Run, int]:
    """Runs the export, approving everything; returns the run and the number of approvals."""
    run = await shop.run_and_drain(await automated(shop, export, send_mode=send_mode))
    rounds = 0
    while run.status is RunStatus.WAITING_APPROVAL:
        rounds += 1
        await shop.approve(run)
        run = await shop.until_settled(run)
    return run, rounds


async def test_a_list_becomes_an_item_for_each_element_with_one_origin(
    shop: Shop, orders: OrdersAddress
) -> None:
    """Pairs each element of a list with the item that was sent, as a step that reads does."""
    orders.respond = lambda request, number: httpx.Response(
        200, json=[{"number": number}, {"number": -number}]
    )
    run, _ = await ended(shop, chain(three(), posted(), numbered()))
    assert run.status is RunStatus.SUCCEEDED, run
    pairs = [(item["number"], item["n"]) for item in await output_items(shop, run, "Read")]
    assert pairs == [(1, 1), (-1, 1), (2, 2), (-2, 2), (3, 3), (-3, 3)]


async def test_an_empty_list_ends_the_path_unless_output_is_always_requested(
    shop: Shop, orders: OrdersAddress
) -> None:
    """An empty list ends the path; with `alwaysOutputData` one empty item goes on."""
    orders.respond = lambda request, number: httpx.Response(200, json=[])
    after = node("After", "noOp", 1, {})
    run, _ = await ended(shop, chain(three(), posted(), after))
    assert (run.status, await step_row(shop, run, "After")) == (RunStatus.SUCCEEDED, None)
    orders.forget()
    run, _ = await ended(shop, chain(three(), posted(alwaysOutputData=True), after))
    assert await output_items(shop, run, "After") == [{}]


async def test_a_step_that_runs_once_has_one_response(shop: Shop, orders: OrdersAddress) -> None:
    """With `executeOnce`, sends only the first item and passes on one response or one failure.

    A response that is only an error is a failure.
    """
    failing = posted(executeOnce=True, onError="continueErrorOutput")
    export = chain(three(), failing, numbered())
    export["nodes"].append(node("Failed", "noOp", 1, {}))
    export["connections"]["Post"]["main"].append([{"node": "Failed", "type": "main", "index": 0}])
    run, _ = await ended(shop, export)
    assert await output_items(shop, run, "Read") == [{"number": 1, "n": 1}]
    orders.respond = lambda request, number: httpx.Response(404)
    run, _ = await ended(shop, export)
    [failed] = await output_items(shop, run, "Failed")
    assert failed["n"] == 1
    orders.respond = lambda request, number: httpx.Response(200, json={"error": "sold out"})
    run, _ = await ended(shop, export)
    assert await output_items(shop, run, "Failed") == [{"n": 1, "error": "sold out"}]


@MODES
async def test_each_iteration_of_a_loop_reads_its_own_response(
    shop: Shop, orders: OrdersAddress, send_mode: str
) -> None:
    """Collects the response of each iteration; in `ask` mode each iteration has its own approval."""
    nodes = [three(), node("Loop", "splitInBatches", 3, {"batchSize": 1, "options": {}}), posted()]
    export = chain(*nodes)
    done = code("Done", "return $input.all()")
    export["nodes"].append(done)
    export["connections"]["Loop"] = {
        "main": [
            [{"node": "Done", "type": "main", "index": 0}],
            [{"node": "Post", "type": "main", "index": 0}],
        ]
    }
    export["connections"]["Post"] = {"main": [[{"node": "Loop", "type": "main", "index": 0}]]}
    run, rounds = await ended(shop, export, send_mode)
    assert run.status is RunStatus.SUCCEEDED, run
    assert [item["number"] for item in await output_items(shop, run, "Done")] == [1, 2, 3]
    assert (len(orders.requests), rounds) == (3, 3 if send_mode == "ask" else 0)


@MODES
async def test_a_called_workflow_returns_the_responses_of_its_last_step(
    shop: Shop, orders: OrdersAddress, send_mode: str
) -> None:
    """Passes on the responses of the called workflow, called once for all items or for each."""
    for mode in "once", "each":
        orders.forget()
        after = node("After", "noOp", 1, {})
        run, _ = await ended(shop, chain(three(), calling([posted()], mode=mode), after), send_mode)
        assert run.status is RunStatus.SUCCEEDED, run
        assert [item["number"] for item in await output_items(shop, run, "After")] == [1, 2, 3]
        assert len(orders.requests) == 3


async def test_text_is_a_field_and_what_is_not_json_fails_where_json_is_expected(
    shop: Shop, orders: OrdersAddress
) -> None:
    """Text becomes the field `data`.

    With the format `json`, other text and JSON nested too deep fail the step.
    """
    headers = {"content-type": "t/t"}
    orders.respond = lambda request, number: httpx.Response(200, text="fine", headers=headers)
    after = node("After", "noOp", 1, {})
    run, _ = await ended(shop, chain(three(), posted(), after))
    assert await output_items(shop, run, "After") == [{"data": "fine"}] * 3
    as_json = {"response": {"response": {"responseFormat": "json"}}}
    run, _ = await ended(shop, chain(three(), posted(options=as_json), after))
    assert (run.status, run.message) == (RunStatus.FAILED, "The response of the address is not JSON.")
    orders.respond = lambda request, number: httpx.Response(200, text='{"a":' * 600 + "1" + "}" * 600)
    run, _ = await ended(shop, chain(three(), posted(options=as_json), after))
    assert run.status is RunStatus.FAILED, run
    assert "too deep" in str(run.message)


async def test_a_send_that_fails_without_a_response_has_an_error_object(
    shop: Shop, orders: OrdersAddress
) -> None:
    """Passes on `message` and `name` if the request cannot be made or its response cannot be passed on."""
    responses = {2: "no JSON", 3: '{"a":' * 600 + "1" + "}" * 600}
    orders.respond = lambda request, number: httpx.Response(
        200, text=responses[json.loads(request.content)["n"]]
    )
    body = "={{ $json.n === 1 ? '{' : JSON.stringify($json) }}"
    options = {"response": {"response": {"responseFormat": "json"}}}
    tolerant = posted(body=body, options=options, onError="continueRegularOutput")
    run, _ = await ended(shop, chain(three(), tolerant, node("After", "noOp", 1, {})))
    items = await output_items(shop, run, "After")
    assert items == [
        {"error": {"message": message, "name": "NodeApiError"}}
        for message in (
            "The JSON body of this step cannot be read.",
            "The response of the address is not JSON.",
            "It was sent, but the values in its response are nested too deeply to be passed on.",
        )
    ]
