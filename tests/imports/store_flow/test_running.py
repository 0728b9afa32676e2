"""Flows as runs: what they see, ask and send, what waits, sleeps and goes on (imports 8, engine 10)."""

from steward.model.run import RunStatus
from tests.imports.store_flow.flows import (
    began,
    condition,
    flow,
    http,
)
from tests.imports.store_flow.standing import Standing


async def test_an_order_of_an_event_is_read_and_both_ways_of_a_condition_are_gone(anywhere: Standing) -> None:
    """imports 7.3, 8.1, 8.2; engine 10"""
    rich = condition(2, "(order.totalPrice > 500)")
    value = flow(
        began(),
        rich,
        http(3, body="{{ order.name }} of {{ order.customer.firstName }} is rich"),
        http(4, body="{{ order.lineItems.title | join: '+' }} is poor"),
        links=[(1, "output", 2), (2, "true", 3), (2, "false", 4)],
    )
    automation = await anywhere.automation(value, "orders/create")
    [order] = anywhere.store.of("Order")
    run = await anywhere.told(automation, "ORDERS_CREATE", order)
    assert run.status is RunStatus.WAITING_APPROVAL, (run, await anywhere.rows(run))
    assert anywhere.outside.asked == []
    ended = await anywhere.approved(run)
    assert ended.status is RunStatus.SUCCEEDED, (ended.message, await anywhere.rows(run), [one.message for one in await anywhere.shop.changes(run)])
    assert [body for _, _, body in anywhere.outside.asked] == [f"{order['name']} of Ada is rich"]
