"""The control surface below `/sandbox`: ledger, faults, events, state (contract 9.2)."""

import json
import re
from typing import Any

from steward.fake_platforms import catalogue
from steward.fake_platforms.deliveries import padded, told
from steward.fake_platforms.exchange import Answer, Asked, Row, answer_json
from steward.fake_platforms.faults import BadFault
from steward.fake_platforms.seed import derived
from steward.fake_platforms.slow import Slowness, slowness
from steward.fake_platforms.state import State
from steward.fake_platforms.woocommerce import customers, orders, products, variations, webhooks

_EVENT = {"topic", "resource_id", "resource", "repeat", "same_delivery_id", "bad_signature", "pad_bytes"}


class BadAsk(ValueError):
    """A request the control surface refuses: 400 or 404 with words."""

    def __init__(self, words: str, status: int = 400) -> None:
        super().__init__(words)
        self.status = status


def _body(asked: Asked) -> Any:
    if not asked.body.strip():
        return {}
    try:
        return json.loads(asked.body)
    except ValueError:
        raise BadAsk("the body is not JSON") from None


def _number(asked: Asked, name: str, default: int) -> int:
    text = asked.first(name)
    if text is None:
        return default
    if not text.isdigit():
        raise BadAsk(f"{name} must be a whole number")
    return int(text)


def reset_seed(asked: Asked, current: int) -> int:
    """The seed a reset asks for; the current one when it names none. Raises BadAsk."""
    body = _body(asked)
    seed = body.get("seed", current) if isinstance(body, dict) else None
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadAsk("seed must be a whole number")
    return seed


def state_shown(state: State) -> Row:
    """Everything as it is now, in the forms of the services' own answers."""
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


def _ledger(state: State, asked: Asked) -> Answer:
    after, limit = _number(asked, "after", 0), _number(asked, "limit", 1000)
    rows: list[Row] = []
    reads = asked.first("reads") in ("1", "true")
    for entry in state.ledger.entries(after, service=asked.first("service"), reads=reads):
        if len(rows) >= limit:
            break
        rows.append(entry.as_row())
    totals = {"writes_total": state.ledger.writes_total, "reads_total": state.ledger.reads_total}
    return answer_json(200, {"entries": rows, "last_seq": state.ledger.last_seq, **totals})


def _faults(state: State, asked: Asked) -> Answer:
    match asked.method:
        case "POST":
            try:
                return answer_json(201, {"fault": state.faults.make(_body(asked)).as_row()})
            except BadFault as refusal:
                raise BadAsk(str(refusal)) from None
        case "DELETE":
            state.faults.clear()
            return answer_json(200, {})
    return answer_json(200, {"faults": [fault.as_row() for fault in state.faults.all()]})


def _event_resource(state: State, ask: Row) -> Row:
    topic, given, number = ask["topic"], ask.get("resource"), ask.get("resource_id")
    if given is not None:
        if not isinstance(given, dict):
            raise BadAsk("resource must be an object")
        return given
    if number is None and topic == "order.created":
        row = catalogue.add_order(state.shop, state.event_dice, state.now(), status="processing")
        return orders.show(state.shop, row)
    if isinstance(number, bool) or not isinstance(number, int):
        raise BadAsk("an event needs a resource or a resource_id; only order.created makes one of its own")
    found = told(state.shop, topic, number)
    if found is None:
        raise BadAsk(f"there is no {topic.partition('.')[0]} {number}", 404)
    return found


def _whole(ask: Row, name: str, default: int, most: int) -> int:
    value = ask.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadAsk(f"{name} must be a whole number from 0 to {most}")
    return value


async def _events(state: State, asked: Asked) -> Answer:
    ask = _body(asked)
    if not isinstance(ask, dict) or ask.get("topic") not in webhooks.HOOKS:
        raise BadAsk("an event needs a topic such as order.created")
    unknown = sorted(set(ask) - _EVENT)
    if unknown:
        raise BadAsk(f"an event has no field {unknown[0]!r}")
    for name in ("same_delivery_id", "bad_signature"):
        if not isinstance(ask.get(name, False), bool):
            raise BadAsk(f"{name} must be true or false")
    repeat = _whole(ask, "repeat", 1, 10_000)
    pad = _whole(ask, "pad_bytes", 0, 50_000_000)
    resource = padded(_event_resource(state, ask), pad)
    bodies = []
    for place in range(repeat):
        if place == 0 or not ask.get("same_delivery_id"):
            state.events_made += 1
        bodies.append((resource, derived(state.seed, f"event {state.events_made}", 32)))
    bad = bool(ask.get("bad_signature", False))
    done = await state.deliveries.send_event(ask["topic"], bodies, bad_signature=bad)
    return answer_json(200, {"deliveries": done})


def _slow(state: State, asked: Asked) -> Answer:
    if asked.method == "POST":
        ask = _body(asked)
        if not isinstance(ask, dict) or set(ask) != {"least_seconds", "most_seconds"}:
            raise BadAsk("give least_seconds and most_seconds")
        try:
            state.slow = slowness(ask["least_seconds"], ask["most_seconds"])
        except ValueError as refusal:
            raise BadAsk(str(refusal)) from None
    elif asked.method == "DELETE":
        state.slow = Slowness()
    return answer_json(200, state.slow.as_row())


async def control(state: State, asked: Asked) -> Answer:
    """One call of the control surface, all but the reset, which world.py makes. Raises BadAsk."""
    path = asked.path.rstrip("/")
    if path == "/sandbox/faults" and asked.method in ("GET", "POST", "DELETE"):
        return _faults(state, asked)
    if path == "/sandbox/slow" and asked.method in ("GET", "POST", "DELETE"):
        return _slow(state, asked)
    if path == "/sandbox/events" and asked.method == "POST":
        return await _events(state, asked)
    one = re.fullmatch(r"/sandbox/faults/([^/]+)", path)
    if one and asked.method == "DELETE":
        if not state.faults.remove(one[1]):
            raise BadAsk(f"there is no fault {one[1]}", 404)
        return answer_json(200, {})
    if asked.method == "GET":
        if path == "/sandbox":
            return answer_json(200, state.keys.described())
        if path == "/sandbox/ledger":
            return _ledger(state, asked)
        if path == "/sandbox/state":
            return answer_json(200, state_shown(state))
        named = re.fullmatch(r"/sandbox/teams/([^/]+)", path)
        if named:
            if named[1] not in state.teams.inbox:
                raise BadAsk(f"there is no workflow {named[1]}", 404)
            return answer_json(200, {"messages": state.teams.inbox[named[1]]})
    raise BadAsk(f"there is nothing at {asked.method} {path}", 404)
