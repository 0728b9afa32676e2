"""The control surface below `/sandbox`: ledger, faults, events, state."""

import json
from collections.abc import Callable
from typing import Any

from steward.fake_platforms import catalogue
from steward.fake_platforms.deliveries import delivery_body, padded
from steward.fake_platforms.exchange import FakeRequest, FakeResponse, Row, json_response
from steward.fake_platforms.faults import BadFault
from steward.fake_platforms.seed import derived
from steward.fake_platforms.slow import Slowness, slowness
from steward.fake_platforms.state import PlatformState
from steward.fake_platforms.woocommerce import customers, orders, products, variations, webhooks

_EVENT = {"topic", "resource_id", "resource", "repeat", "same_delivery_id", "bad_signature", "pad_bytes"}


class BadControlRequest(ValueError):
    """Raised for a request that the control surface refuses: 400 or 404 with a message."""

    def __init__(self, words: str, status: int = 400) -> None:
        super().__init__(words)
        self.status = status


def _body(request: FakeRequest) -> Any:
    if not request.body.strip():
        return {}
    try:
        return json.loads(request.body)
    except ValueError:
        raise BadControlRequest("the body is not JSON") from None


def _number(request: FakeRequest, name: str, default: int) -> int:
    text = request.first(name)
    if text is None:
        return default
    if not text.isdigit():
        raise BadControlRequest(f"{name} must be a whole number")
    return int(text)


def reset_seed(request: FakeRequest, current: int) -> int:
    """Returns the seed in a reset request, else the current one. Raises BadControlRequest."""
    body = _body(request)
    seed = body.get("seed", current) if isinstance(body, dict) else None
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadControlRequest("seed must be a whole number")
    return seed


def _state_snapshot(state: PlatformState) -> Row:
    """Returns all current data in the form of the services' own responses."""
    shop = state.shop
    return {
        "products": [products.show(shop, row) for row in shop.products.values()],
        "variations": [variations.show(shop, row) for row in shop.variations.values()],
        "orders": [orders.show(shop, row) for row in shop.orders.values()],
        "customers": [customers.show(shop, row) for row in shop.customers.values()],
        "webhooks": [webhooks.show(shop, row) for row in shop.webhooks.values()],
        "sheets": {
            book.id: {tab.title: tab.values() for tab in book.tabs} for book in state.google.books.values()
        },
    }


def _ledger(state: PlatformState, request: FakeRequest) -> FakeResponse:
    after, limit = _number(request, "after", 0), _number(request, "limit", 1000)
    rows: list[Row] = []
    reads = request.first("reads") in ("1", "true")
    for entry in state.ledger.entries(after, service=request.first("service"), reads=reads):
        if len(rows) >= limit:
            break
        rows.append(entry.as_row())
    totals = {"writes_total": state.ledger.writes_total, "reads_total": state.ledger.reads_total}
    return json_response(200, {"entries": rows, "last_seq": state.ledger.last_seq, **totals})


def _faults(state: PlatformState, request: FakeRequest) -> FakeResponse:
    match request.method:
        case "POST":
            try:
                return json_response(201, {"fault": state.faults.make(_body(request)).as_row()})
            except BadFault as refusal:
                raise BadControlRequest(str(refusal)) from None
        case "DELETE":
            state.faults.clear()
            return json_response(200, {})
    return json_response(200, {"faults": [fault.as_row() for fault in state.faults.all()]})


def _event_resource(state: PlatformState, event: Row) -> Row:
    topic, resource, number = event["topic"], event.get("resource"), event.get("resource_id")
    if resource is not None:
        if not isinstance(resource, dict):
            raise BadControlRequest("resource must be an object")
        return resource
    if number is None and topic == "order.created":
        row = catalogue.add_order(state.shop, state.event_dice, state.now(), status="processing")
        return orders.show(state.shop, row)
    if isinstance(number, bool) or not isinstance(number, int):
        raise BadControlRequest(
            "an event needs a resource or a resource_id; only order.created makes one of its own"
        )
    body = delivery_body(state.shop, topic, number)
    if body is None:
        raise BadControlRequest(f"there is no {topic.partition('.')[0]} {number}", 404)
    return body


def _whole(event: Row, name: str, default: int, maximum: int) -> int:
    value = event.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= maximum:
        raise BadControlRequest(f"{name} must be a whole number from 0 to {maximum}")
    return value


async def _events(state: PlatformState, request: FakeRequest) -> FakeResponse:
    event = _body(request)
    if not isinstance(event, dict) or event.get("topic") not in webhooks.HOOKS:
        raise BadControlRequest("an event needs a topic such as order.created")
    unknown = sorted(set(event) - _EVENT)
    if unknown:
        raise BadControlRequest(f"an event has no field {unknown[0]!r}")
    for name in ("same_delivery_id", "bad_signature"):
        if not isinstance(event.get(name, False), bool):
            raise BadControlRequest(f"{name} must be true or false")
    repeat = _whole(event, "repeat", 1, 10_000)
    pad = _whole(event, "pad_bytes", 0, 50_000_000)
    resource = padded(_event_resource(state, event), pad)
    bodies = []
    for index in range(repeat):
        if index == 0 or not event.get("same_delivery_id"):
            state.events_made += 1
        bodies.append((resource, derived(state.seed, f"event {state.events_made}", 32)))
    has_bad_signature = bool(event.get("bad_signature", False))
    done = await state.deliveries.send_event(event["topic"], bodies, bad_signature=has_bad_signature)
    return json_response(200, {"deliveries": done})


def _slow(state: PlatformState, request: FakeRequest) -> FakeResponse:
    if request.method == "POST":
        event = _body(request)
        if not isinstance(event, dict) or set(event) != {"least_seconds", "most_seconds"}:
            raise BadControlRequest("give least_seconds and most_seconds")
        try:
            state.slow = slowness(event["least_seconds"], event["most_seconds"])
        except ValueError as refusal:
            raise BadControlRequest(str(refusal)) from None
    elif request.method == "DELETE":
        state.slow = Slowness()
    return json_response(200, state.slow.as_row())


async def control(state: PlatformState, request: FakeRequest) -> FakeResponse:
    """Serves one call of the control surface except the reset. Raises BadControlRequest."""
    path = request.path.rstrip("/")
    if path == "/sandbox/events" and request.method == "POST":
        return await _events(state, request)
    handler = _HANDLERS.get((request.method, path))
    if handler is not None:
        return handler(state, request)
    if path.startswith("/sandbox/faults/") and request.method == "DELETE":
        return _remove_fault(state, path.removeprefix("/sandbox/faults/"))
    if path.startswith("/sandbox/teams/") and request.method == "GET":
        return _messages(state, path.removeprefix("/sandbox/teams/"))
    raise BadControlRequest(f"there is nothing at {request.method} {path}", 404)


def _remove_fault(state: PlatformState, fault_id: str) -> FakeResponse:
    if not state.faults.remove(fault_id):
        raise BadControlRequest(f"there is no fault {fault_id}", 404)
    return json_response(200, {})


def _messages(state: PlatformState, workflow: str) -> FakeResponse:
    if workflow not in state.teams.inbox:
        raise BadControlRequest(f"there is no workflow {workflow}", 404)
    return json_response(200, {"messages": state.teams.inbox[workflow]})


_HANDLERS: dict[tuple[str, str], Callable[[PlatformState, FakeRequest], FakeResponse]] = {
    ("GET", "/sandbox"): lambda state, request: json_response(200, state.keys.described()),
    ("GET", "/sandbox/ledger"): _ledger,
    ("GET", "/sandbox/state"): lambda state, request: json_response(200, _state_snapshot(state)),
    ("GET", "/sandbox/slack"): lambda state, request: json_response(200, {"messages": state.slack.inbox}),
    ("GET", "/sandbox/hooks"): lambda state, request: json_response(
        200, {"deliveries": state.receiver.deliveries}
    ),
    ("GET", "/sandbox/mail"): lambda state, request: json_response(200, {"messages": state.mailbox.messages}),
    ("GET", "/sandbox/faults"): _faults,
    ("POST", "/sandbox/faults"): _faults,
    ("DELETE", "/sandbox/faults"): _faults,
    ("GET", "/sandbox/slow"): _slow,
    ("POST", "/sandbox/slow"): _slow,
    ("DELETE", "/sandbox/slow"): _slow,
}
