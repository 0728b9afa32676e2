"""Kills runs that send and read responses: nothing is sent twice and no response is lost."""

import os
import random
from collections import Counter
from functools import partial
from typing import Any

import pytest

from steward.model.automation import Automation
from steward.model.run import Run, RunStatus
from tests.crash.killing import KINDS, Killer, play
from tests.imports.exports import automated, chain, node
from tests.imports.responses.orders_address import OrdersAddress
from tests.imports.responses.workflows import output_items, posted, step_row, three
from tests.runs.shop import Shop

# Kills drawn for each engine and send mode; `make soak` draws many more.
KILLS = int(os.environ.get("CRASH_RESPONSES", "3"))
SEED = os.environ.get("CRASH_SEED", "20_260_501")
# A kill at one of these may hide whether the request was made; after any other the run must succeed.
DOUBTFUL = {"after_intent", "after_call"}
BETWEEN = ("after_intent", "after_call", "after_outcome", "before_checkpoint", "after_checkpoint")
MODES = pytest.mark.parametrize("send_mode", ["send", "ask"])


async def create_automation(shop: Shop, orders: OrdersAddress, send_mode: str) -> Automation:
    """Creates an automation of two sends and a step that reads both; the second sends the first response."""
    orders.forget()
    second = posted("Second", '={"of": {{ $json.number }}, "n": {{ $(\'Three\').item.json.n }}}')
    values = [
        {"name": name, "value": value, "type": "number"}
        for name, value in (("first", "={{ $('Post').item.json.number }}"), ("second", "={{ $json.number }}"))
    ]
    read = node("Read", "set", 3.4, {"assignments": {"assignments": values}, "options": {}})
    return await automated(shop, chain(three(), posted(), second, read), send_mode=send_mode)


async def judged(shop: Shop, orders: OrdersAddress, run: Run, kills: list[str]) -> list[str]:
    """Returns the problems of a run that was killed, or an empty list."""
    wrong = [f"sent twice: {request}" for request in orders.sent_twice()]
    wrong += [f"the key {key} was used twice" for key, times in Counter(orders.keys).items() if times > 1]
    if run.status is RunStatus.SUCCEEDED:
        expected = [
            {"first": (first := orders.numbers[f'{{"n": {n}}}']), "second": orders.numbers[_body(first, n)]}
            for n in (1, 2, 3)
        ]
        items: list[Any] = await output_items(shop, run, "Read")
        return wrong + ([] if items == expected else [f"{items} was read, {expected} was in the responses"])
    if (run.status, run.code) != (RunStatus.FAILED, "outcome_unknown"):
        wrong.append(f"it ended {run.status} {run.code}: {run.message}")
    elif not DOUBTFUL & set(kills):
        wrong.append("no response was in doubt")
    if await step_row(shop, run, "Read") is not None:
        wrong.append("a step ran without the response it needs")
    return wrong


def _body(first: int, n: int) -> str:
    return f'{{"n": {n}, "of": {first}}}'


async def visited(shop: Shop, orders: OrdersAddress, monkeypatch: Any, send_mode: str) -> list[str]:
    """Returns the failpoints that an undisturbed run passes."""
    monkeypatch.setitem(KINDS, "answers", partial(create_automation, orders=orders, send_mode=send_mode))
    run = await play(shop, "answers", dry := Killer())
    assert await judged(shop, orders, run, []) == []
    assert run.status is RunStatus.SUCCEEDED, run
    assert len(orders.requests) == 6
    return dry.visited


@MODES
async def test_a_kill_between_a_send_and_its_checkpoint_neither_repeats_nor_loses(
    shop: Shop, orders: OrdersAddress, monkeypatch: pytest.MonkeyPatch, send_mode: str
) -> None:
    """Kills the run at the first and last visit of each failpoint of a send; its responses stay."""
    points = await visited(shop, orders, monkeypatch, send_mode)
    last = {point: number for number, point in enumerate(points)}
    faults = {}
    for number in sorted({*(points.index(point) for point in BETWEEN), *(last[point] for point in BETWEEN)}):
        run = await play(shop, "answers", killer := Killer([number]))
        assert len(killer.kills) == 1
        if wrong := await judged(shop, orders, run, killer.kills):
            faults[(number, *killer.kills)] = wrong
    assert faults == {}


@MODES
async def test_random_kills_neither_repeat_nor_lose(
    shop: Shop, orders: OrdersAddress, monkeypatch: pytest.MonkeyPatch, send_mode: str
) -> None:
    """Kills the run once or twice at random failpoints; `CRASH_RESPONSES` sets how many kills are drawn."""
    count = len(await visited(shop, orders, monkeypatch, send_mode))
    draw = random.Random(f"{SEED} {send_mode} {shop.engine.dialect}")
    faults = {}
    drawn = 0
    while drawn < KILLS:
        points = [draw.randrange(count)] + ([draw.randrange(count // 2)] if draw.random() < 0.5 else [])
        run = await play(shop, "answers", killer := Killer(points))
        drawn += len(killer.kills)
        if wrong := await judged(shop, orders, run, killer.kills):
            faults[(*points, *killer.kills)] = wrong
    assert faults == {}
