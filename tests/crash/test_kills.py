"""Tests the crash matrix: every visit of every failpoint, pairs of kills, kills with lost requests.

See docs/guides/contributors.md#tests.
"""

import os
import random
from typing import Any

import pytest

from tests.crash.killing import KINDS, Killer, judge, play
from tests.runs.shop import Shop

# A pair or a fault is drawn by this seed; a failing draw is printed with its case.
SEED = os.environ.get("CRASH_SEED", "20_260_501")
# One in so many visits, beside the first of each point on PostgreSQL and the last on SQLite. Each engine
# takes the faults that the other one leaves, lost requests and lost responses. `make soak` takes all on both.
EVERY = int(os.environ.get("CRASH_EVERY", "80"))
IS_WHOLE = EVERY == 1
PAIRS = int(os.environ.get("CRASH_PAIRS", "1"))
FAULTY_KILLS = int(os.environ.get("CRASH_FAULTY_KILLS", "1"))
POINTS = {
    "before_intent",
    "after_intent",
    "after_call",
    "after_outcome",
    "before_checkpoint",
    "after_checkpoint",
    "after_claim",
    "after_start",
    "before_finish",
    "after_finish",
}
OF_CHANGES = {"before_ask", "after_ask"}
FAULTS: dict[str, list[dict[str, Any]]] = {
    "hide": [
        {"kind": "drop_after", "method": "PUT", "path": "**"},
        {"kind": "drop_before", "method": "PUT", "path": "**", "skip": 1},
        {"kind": "drop_after", "method": "POST", "path": "**/tags"},
    ],
    "price": [
        {"kind": "drop_after", "method": "POST", "path": "**/batch", "count": -1},
        {"kind": "drop_before", "method": "POST", "path": "**/batch", "skip": 1, "count": 2},
        {"kind": "status_after", "method": "POST", "path": "**/batch", "status": 503},
    ],
    "teams": [
        {"kind": "drop_after", "method": "POST", "path": "/teams/**"},
        {"kind": "drop_before", "method": "POST", "path": "/teams/**"},
    ],
}


# By engine and kind of run: an undisturbed run passes the same failpoints each time.
_VISITS: dict[tuple[str, str], list[str]] = {}


async def visits(shop: Shop, kind: str) -> list[str]:
    """Returns the failpoints that an undisturbed run of the kind passes."""
    case = (shop.engine.dialect, kind)
    if case not in _VISITS:
        killer = Killer()
        run = await play(shop, kind, killer)
        assert await judge(shop, run, blind=kind == "teams") == []
        _VISITS[case] = killer.visited
    return _VISITS[case]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_passes_every_named_point(shop: Shop, kind: str) -> None:
    """The runs of the matrix together pass every failpoint. See docs/guides/contributors.md#tests."""
    passed = set(await visits(shop, kind))
    assert passed >= (POINTS | {"after_prepare"} if kind == "teams" else POINTS | OF_CHANGES)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kill_anywhere_loses_and_doubles_nothing(shop: Shop, kind: str) -> None:
    """A kill at sampled failpoint visits loses, doubles or blocks nothing.

    See docs/guides/contributors.md#tests.
    """
    passed = await visits(shop, kind)
    last = {point: number for number, point in enumerate(passed)}
    first = {point: passed.index(point) for point in last}
    edges = last if shop.engine.dialect == "sqlite" else first
    faults = {}
    for number in sorted({*edges.values(), *range(0, len(passed), EVERY)}):
        killer = Killer([number])
        run = await play(shop, kind, killer)
        if wrong := await judge(shop, run, blind=kind == "teams"):
            faults[(number, *killer.kills)] = wrong
        assert len(killer.kills) == 1
    assert faults == {}


@pytest.mark.parametrize("kind", KINDS)
async def test_two_kills_lose_and_double_nothing(shop: Shop, kind: str) -> None:
    """Sampled pairs of kills lose and double nothing. See docs/guides/contributors.md#tests."""
    count = len(await visits(shop, kind))
    draw = random.Random(f"{SEED} {kind} {shop.engine.dialect}")
    faults = {}
    for _ in range(PAIRS):
        points = (draw.randrange(count), draw.randrange(max(count // 2, 1)))
        killer = Killer(points)
        run = await play(shop, kind, killer)
        if wrong := await judge(shop, run, blind=kind == "teams"):
            faults[(*points, *killer.kills)] = wrong
    assert faults == {}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kill_beside_a_lost_request_or_response_loses_and_doubles_nothing(
    shop: Shop, kind: str
) -> None:
    """A kill together with a lost request or answer loses and doubles nothing.

    See docs/guides/contributors.md#tests.
    """
    count = len(await visits(shop, kind))
    draw = random.Random(f"{SEED} {kind} {shop.engine.dialect} faults")
    failures = {}
    # A list begins with a lost response, then a lost request: by turns, each engine gets both.
    turn = (shop.engine.dialect == "postgresql") + list(KINDS).index(kind)
    own_faults = FAULTS[kind][turn % 2 :: 2]
    for fault in FAULTS[kind] if IS_WHOLE else own_faults:
        for number in [None, *draw.sample(range(count // 2, count), FAULTY_KILLS)]:
            killer = Killer([] if number is None else [number])
            run = await play(shop, kind, killer, [fault])
            if wrong := await judge(shop, run, blind=kind == "teams"):
                failures[(str(fault), number, *killer.kills)] = wrong
    assert failures == {}
