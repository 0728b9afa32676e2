"""What the trial tries, one row each: reads, changes with their undoing, webhooks.

Ttold as held or not.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from steward.connectors.base.commands import (
    AddNote,
    CancelOrder,
    SetCustomerTags,
    SetOrderStatus,
    SetOrderTags,
    SetPrice,
    SetStatus,
    SetStock,
    SetTags,
    SetVisible,
)
from steward.connectors.base.deliveries import (
    CHANGED,
    IDS,
    ChangedQuery,
    DesiredSubscriptions,
    EventSecrets,
    IdsQuery,
    PingDelivery,
    RawBody,
    SubscriptionOutcome,
    VerifiedDelivery,
)
from steward.connectors.base.queries import (
    CATEGORIES,
    CUSTOMER,
    CUSTOMERS,
    OBJECTS,
    ORDER,
    ORDERS,
    PRODUCT,
    PRODUCTS,
    REFUNDS,
    TAGS,
    VARIANT,
    VARIANTS,
    ById,
    CustomersQuery,
    NoParameters,
    ObjectsQuery,
    OrdersQuery,
    ProductsQuery,
    RefundsQuery,
)
from steward.connectors.base.records import Order, Product
from steward.connectors.base.writing import WriteState
from steward.model.change import Part
from steward.outbound.errors import CallError, RemoteNotFound
from steward.security.signatures import BodyVerifier
from steward.telemetry.redact import Secret
from tests.trial.receiver import Receiver
from tests.trial.shop import Shop, TrialObjects

SECRET = b"steward-trial-secret-0123456789abcdef"
DELIVERY_WAIT_S = 30.0


class BrokenPromise(Exception):
    """What was seen in place of what was promised, in words."""


@dataclass
class Table:
    """The rows as they come; `held` null: not tried, with the reason."""

    rows: list[tuple[str, bool | None, str]] = field(default_factory=list)

    async def row(self, name: str, step: Callable[[], Awaitable[str | None]]) -> None:
        """Runs one step and prints its row."""
        try:
            held, note = True, await step() or ""
        except BrokenPromise as failure:
            held, note = False, str(failure)
        except (CallError, RuntimeError, httpx.HTTPError, LookupError, ValueError, AssertionError) as error:
            held, note = False, f"{type(error).__name__}: {error}"[:300]
        self.add(name, held, note)

    def add(self, name: str, held: bool | None, note: str = "") -> None:
        """One row, printed at once."""
        self.rows.append((name, held, note))
        word = {True: "held", False: "NOT HELD", None: "not tried"}[held]
        print(f"{name:<44} {word:<10} {note}", flush=True)


def held(condition: bool, words: str) -> None:
    """Raises BrokenPromise with what was seen."""
    if not condition:
        raise BrokenPromise(words)


async def reads(shop: Shop, things: TrialObjects, table: Table) -> None:
    """Every read of the connector, over the shop's own objects and those of the trial."""
    made_ids = things.made
    path = f"{made_ids['parent']}/{made_ids['variation S']}"
    skus, long_ago = (f"{things.mark}-1", f"{things.mark}-S"), shop.clock.now().replace(year=2001, day=1)
    asks: list[tuple[str, Any, Any, bool]] = [
        ("products", PRODUCTS, ProductsQuery(), False),
        ("products by id", PRODUCTS, ProductsQuery(ids=(made_ids["product"], made_ids["parent"])), True),
        ("products by SKU, a variation's too", PRODUCTS, ProductsQuery(skus=skus), True),
        ("products changed since", PRODUCTS, ProductsQuery(modified_after=long_ago), True),
        ("products published", PRODUCTS, ProductsQuery(published_only=True), False),
        ("product", PRODUCT, ById(made_ids["parent"]), True),
        ("variants", VARIANTS, ProductsQuery(), True),
        ("variant", VARIANT, ById(path), True),
        ("tags", TAGS, NoParameters(), False),
        ("categories", CATEGORIES, NoParameters(), False),
        ("orders", ORDERS, OrdersQuery(), True),
        ("orders open, of a time", ORDERS, OrdersQuery(open_only=True, created_after=long_ago), True),
        ("order", ORDER, ById(made_ids["order"]), True),
        ("refunds of an order", REFUNDS, RefundsQuery(made_ids["order"]), False),
        ("customers", CUSTOMERS, CustomersQuery(), True),
        ("customer", CUSTOMER, ById(made_ids["customer"]), True),
        ("objects: product", OBJECTS, ObjectsQuery("product", limit=3), True),
        ("objects: order", OBJECTS, ObjectsQuery("order", id=made_ids["order"]), True),
        ("objects: customer", OBJECTS, ObjectsQuery("customer", limit=3), True),
        ("changed: product", CHANGED, ChangedQuery("product", long_ago), True),
        ("changed: order", CHANGED, ChangedQuery("order", long_ago), True),
        ("ids: product", IDS, IdsQuery("product"), True),
        ("ids: order", IDS, IdsQuery("order"), True),
    ]  # fmt: skip
    for name, op, query, some in asks:
        await table.row(
            f"read {name}", lambda op=op, query=query, some=some: _read(shop, op, query, some=some)
        )
    await table.row("read of what is not there", lambda: _missing(shop))


async def _read(shop: Shop, op: Any, query: Any, *, some: bool) -> str:
    items = await shop.all(op, query)
    held(bool(items) or not some, "nothing was found")
    ids = [str(getattr(item, "id", item.get("id") if isinstance(item, dict) else item)) for item in items]
    if op not in (CHANGED, TAGS, CATEGORIES):
        held(len(set(ids)) == len(ids), "an object came twice")
    return f"{len(items)} read"


async def _missing(shop: Shop) -> None:
    for op in (PRODUCT, ORDER, CUSTOMER):
        try:
            await shop.all(op, ById("999999999"))
        except RemoteNotFound:
            continue
        raise BrokenPromise(f"{op.name} was there")


async def changes(shop: Shop, things: TrialObjects, table: Table) -> None:
    """Every change of the connector on the trial's own objects, each undone again."""
    await _product_changes(shop, things, table)
    await _order_changes(shop, things, table)


async def _product(shop: Shop, things: TrialObjects, name: str = "product") -> Product:
    return (await shop.all(PRODUCT, ById(things.made[name])))[0]


async def _product_changes(shop: Shop, things: TrialObjects, table: Table) -> None:
    async def price(compare_at: str | None) -> None:
        for name in ("product", "parent"):
            variants = (await _product(shop, things, name)).variants
            asks = [SetPrice(variant, "7.50", compare_at) for variant in variants]
            await _there_and_back(shop, "variant.set_price", asks)

    async def stock() -> None:
        for name in ("product", "parent"):
            variants = (await _product(shop, things, name)).variants
            await _there_and_back(
                shop, "inventory.set", [SetStock(each_variant, 4) for each_variant in variants]
            )

    async def tags() -> None:
        for _ in ("made with it", "known by then"):
            now = await _product(shop, things)
            known_by_name = {tag.name: tag.id for tag in await shop.all(TAGS, NoParameters())}
            await _there_and_back(
                shop, "product.set_tags", [SetTags(now, (*now.tags, things.mark), known_by_name)]
            )

    async def visible() -> None:
        product = replace(await _product(shop, things), status="publish", visible=True)
        await _there_and_back(shop, "product.set_visible", [SetVisible(product, False)])

    async def status() -> None:
        held_ = await _product(shop, things)
        await _there_and_back(shop, "product.set_status", [SetStatus(held_, "draft")])

    await table.row("change variant.set_price", lambda: price(None))
    await table.row("change variant.set_price with compare-at", lambda: price("9.90"))
    await table.row("change inventory.set, a parent's too", stock)
    await table.row("change product.set_tags, product_tag.create", tags)
    await table.row("change product.set_visible", visible)
    await table.row("change product.set_status", status)
    await table.row("a batch with one item that is not there", lambda: _mixed(shop, things))


async def _order_changes(shop: Shop, things: TrialObjects, table: Table) -> None:
    async def order() -> Order:
        return (await shop.all(ORDER, ById(things.made["order"])))[0]

    async def order_tags() -> None:
        await _there_and_back(shop, "order.set_tags", [SetOrderTags(await order(), ("big", "vip"))])

    async def customer_tags() -> None:
        customer = (await shop.all(CUSTOMER, ById(things.made["customer"])))[0]
        await _there_and_back(shop, "customer.set_tags", [SetCustomerTags(customer, ("gold",))])

    async def order_status() -> None:
        await _there_and_back(shop, "order.set_status", [SetOrderStatus(await order(), "on-hold")])

    async def cancel() -> None:
        await _there_and_back(shop, "order.cancel", [CancelOrder(await order())], back=False)

    await table.row("change order.set_tags", order_tags)
    await table.row("change customer.set_tags", customer_tags)
    await table.row("change order.set_status", order_status)
    await table.row("change order.add_note, found by its marker", lambda: _note(shop, order))
    await table.row("change order.cancel", cancel)


async def _there_and_back(shop: Shop, name: str, asks: list[Any], *, back: bool = True) -> None:
    """Planned, sent, read back as wanted, and put back as it was."""
    planned = shop.plan(name, *asks)
    held(not planned.problems, f"refused to plan: {planned.problems}")
    parts = [part for proposal in planned.proposals for part in proposal.parts]
    held(bool(parts), "nothing was to be changed")
    await _apply(shop, parts)
    if not back:
        return
    undo = [
        replace(part, arguments=_undone(part), before=part.after, after=part.before)
        for part in reversed(parts)
        if part.before is not None
    ]
    await _apply(shop, undo)


def _undone(part: Part) -> Any:
    """The arguments that put a part's value back; product tags name the ids the shop gave them."""
    if part.operation != "product.set_tags":
        return part.before
    return {**part.before, "ids": part.arguments["ids"]}  # type: ignore[dict-item]


async def _apply(shop: Shop, parts: list[Part]) -> None:
    for name in dict.fromkeys(part.operation for part in parts):
        op = shop.connector.writes[name]
        for group in op.group([part for part in parts if part.operation == name]):
            for now in await shop.reader().current(group):
                held(not now.is_gone and op.same(now.part.before, now.value), f"before was {now.value}")
            outcomes, _ = await shop.send(group)
            for part, outcome in zip(group, outcomes, strict=True):
                held(outcome.state is WriteState.APPLIED, f"{name}: {outcome.state} {outcome.reason or ''}")
                seen = await shop.reader().confirm(part)
                held(seen.state is WriteState.APPLIED, f"{name} read back: {seen.state}")


async def _note(shop: Shop, order: Callable[[], Awaitable[Order]]) -> None:
    [proposal] = shop.plan("order.add_note", AddNote(await order(), "Tried by Steward")).proposals
    outcomes, keys = await shop.send(proposal.parts)
    held(outcomes[0].state is WriteState.APPLIED, f"{outcomes[0].state} {outcomes[0].reason or ''}")
    held(await shop.reader().find_marker(proposal.parts[0], keys[0]), "the note was not found again")
    held(not await shop.reader().find_marker(proposal.parts[0], "another"), "a note never made was found")


async def _mixed(shop: Shop, things: TrialObjects) -> None:
    [variant] = (await _product(shop, things)).variants
    [proposal] = shop.plan("variant.set_price", SetPrice(variant, "8.00")).proposals
    [part] = proposal.parts
    gone = replace(part, target="999999999")
    outcomes, _ = await shop.send([part, gone])
    undo = replace(part, arguments=part.before, before=part.after, after=part.before)  # type: ignore[arg-type]
    await shop.send([undo])
    states = [outcome.state for outcome in outcomes]
    held(states == [WriteState.APPLIED, WriteState.CONFLICT], f"the outcomes were {states}")


async def webhooks(shop: Shop, things: TrialObjects, table: Table, receiver: Receiver | None) -> None:
    """Subscriptions made, repaired, removed; deliveries too when the shop can reach this machine."""
    token = hashlib.sha256(things.mark.encode()).hexdigest()[:32]
    base = receiver.url if receiver is not None else "https://steward-trial.example"
    address = f"{base}/v1/store-events/{token}"
    things.webhook_address = address  # by which all of them are found and removed, whatever happens
    native = tuple(sorted({topic for spec in shop.connector.topics.values() for topic in spec.native}))
    known_by_name: dict[str, str] = {}

    async def keep(*expected: str) -> list[Any]:
        events = shop.connector.events
        assert events is not None
        desired = DesiredSubscriptions(address, expected, Secret(SECRET.decode()), dict(known_by_name))
        return await events.subscribe(shop.upkeep(), shop.secrets, desired)

    async def make() -> str:
        for row in await keep(*native):
            held(row.outcome is SubscriptionOutcome.ACTIVE, f"{row.native}: {row.reason}")
            known_by_name[row.native] = row.remote_id
        return f"{len(known_by_name)} topics"

    async def repair() -> None:
        await shop.call("PUT", f"webhooks/{known_by_name['order.updated']}", {"status": "disabled"})
        repaired = [row.native for row in await keep(*native) if row.repaired]
        held(repaired == ["order.updated"], f"repaired {repaired}")

    async def remove() -> None:
        await keep()
        known_by_name.clear()
        remaining = await shop.call("GET", "webhooks", per_page="100")
        held(not any(row["delivery_url"] == address for row in remaining), "some are left")

    await table.row("webhooks made", make)
    if known_by_name:
        await table.row("webhooks switched off are repaired", repair)
        if receiver is None:
            table.add("deliveries", None, "the shop cannot reach this machine")
        else:
            await _delivered(shop, things, table, receiver, known_by_name)
    await table.row("webhooks removed", remove)


async def _delivered(
    shop: Shop, things: TrialObjects, table: Table, receiver: Receiver, known_by_name: dict[str, str]
) -> None:
    """Pings and one signed delivery; without any the shop could not reach us, which is no fault of it."""
    row = {"regular_price": "10.50"}
    await shop.call("PUT", f"products/{things.made['product']}", row)
    waited = 0.0
    while waited < DELIVERY_WAIT_S and not any("x-wc-webhook-topic" in item[0] for item in receiver.arrived):
        await shop.clock.sleep(0.25)
        waited += 0.25
    await shop.call("PUT", f"products/{things.made['product']}", {"regular_price": "10.00"})
    if not receiver.arrived:
        table.add("deliveries", None, "none arrived: the shop cannot reach this machine")
        return
    hooks = {number: native for native, number in known_by_name.items()}
    verdicts = []
    events = shop.connector.events
    assert events is not None
    for headers, body in list(receiver.arrived):
        signed = BodyVerifier([SECRET])
        signed.feed(body)
        raw = RawBody(body, len(body), hashlib.sha256(body).hexdigest(), signed)
        verdicts.append(events.verify_event(headers, raw, EventSecrets(None, hooks)))
    pings = sum(isinstance(verdict, PingDelivery) for verdict in verdicts)
    good = sum(isinstance(each_verdict, VerifiedDelivery) for each_verdict in verdicts)
    others = [
        type(entry).__name__ for entry in verdicts if not isinstance(entry, PingDelivery | VerifiedDelivery)
    ]
    table.add("pings", pings > 0, f"{pings} arrived")
    if good or others:
        table.add("signed deliveries", good > 0 and not others, f"{good} verified, others {others}")
    else:
        table.add(
            "signed deliveries", None, f"none in {DELIVERY_WAIT_S:.0f} s: a shop sends when it is visited"
        )
