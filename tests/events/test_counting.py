"""Tests thousands of deliveries, many repeated or too large: runs and counters are exact."""

import asyncio
import os
import random
from collections import Counter
from typing import Any

from tests.events.world import ListeningService, order

DELIVERIES = int(os.environ.get("EVENT_DELIVERIES", "160"))
LARGE = b"x" * (256 * 1024)
WAITING = 200 if DELIVERIES >= 1000 else 40
AT_ONCE = WAITING


def random_deliveries(
    dice: random.Random, count: int, first: int
) -> list[tuple[str, bytes | dict[str, Any]]]:
    """Returns deliveries with their ids: 30 % repeated, 5 % too large."""
    created_items: list[tuple[str, bytes | dict[str, Any]]] = []
    for number in range(first, first + count):
        if created_items and dice.random() < 0.30:
            created_items.append(dice.choice(created_items))
        elif dice.random() < 0.05:
            created_items.append((f"large-{number}", b'{"id": %d, "note": "%s"}' % (number, LARGE)))
        else:
            created_items.append((f"small-{number}", order(number)))
    return created_items


async def test_thirty_in_a_hundred_twice_and_five_too_large_are_counted_exactly(
    listener: ListeningService,
) -> None:
    """No event is lost or run twice, and every dropped one is counted.

    See docs/design/api/automations.md#trigger and docs/design/api/conventions.md#limits.
    """
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    dice = random.Random(seed)
    await listener.waits_at_most(WAITING)
    first_automation, other = (
        await listener.automation("orders/create"),
        await listener.automation("orders/create"),
    )

    async def send(deliveries: list[tuple[str, bytes | dict[str, Any]]], *, drained: bool) -> None:
        for start in range(0, len(deliveries), AT_ONCE):
            listener.shop.clock.tick(20)  # below the limits of a flood
            batch = deliveries[start : start + AT_ONCE]
            responses = await asyncio.gather(
                *(listener.deliver("order.created", body, delivery=name) for name, body in batch)
            )
            assert Counter(response.status for response in responses) == {200: len(batch)}
            if drained:
                await listener.shop.drain()
            else:
                await listener.tick("match")

    first = random_deliveries(dice, DELIVERIES // 2, 1)
    second = random_deliveries(dice, DELIVERIES - DELIVERIES // 2 + 2 * WAITING, DELIVERIES)
    await send(first, drained=True)
    await send([*first[:50], *second], drained=False)
    run_at_once = {name for name, _ in first}
    lagging = {name for name, _ in second}
    large = sum(name.startswith("large") for name in run_at_once | lagging)
    small = len(lagging) - sum(name.startswith("large") for name in lagging)
    listener.token = await listener.populated.service.token("member")
    for automation in (first_automation, other):
        runs = await listener.runs(automation)
        assert Counter((run["status"], run["code"]) for run in runs) == {
            ("succeeded", None): sum(name.startswith("small") for name in run_at_once),
            ("refused", "event_too_large"): large,
            ("queued", None): WAITING,
            ("refused", "too_many_waiting"): small - WAITING,
        }
        assert (await listener.trigger(automation))["events_dropped"] == large + small - WAITING
        assert len({run["event"]["id"] for run in runs}) == len(runs) == len(run_at_once | lagging)
