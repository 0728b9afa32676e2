"""Expressions of imported workflows: paths in this process, the rest in batches in a confined child."""

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from functools import partial

from bench.rounds import Case, Env, Figure, OpenCase
from steward.sandbox.pool import SandboxPool
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import ParameterTemplate, read
from steward.steps.workflow.expressions.views import ExpressionContext, ExpressionVariables

ITEMS = 1_000
PATHS = ("={{ $json.address.geo.lat }}", "={{ $json.lines[0].code }}", "={{ $input.item.json['order no'] }}")
OTHERS = (
    "={{ $json.total * 2 }}",
    "={{ $json.customer.toUpperCase() + '-' + $itemIndex }}",
    "={{ $json.lines.map(l => l.qty * l.amount).sum() }}",
    "={{ $json.paid ? 'paid' : 'open' }}",
    "={{ DateTime.fromISO($json.placed_at).toISODate() }}",
)
STEPS = 10


def _item(number: int) -> dict[str, object]:
    return {
        "order no": f"OR-{number}",
        "customer": "Elodie Marchand",
        "total": number / 4,
        "paid": number % 2 == 0,
        "placed_at": "2026-04-22T14:46:14.250Z",
        "address": {"city": "Berlin", "geo": {"lat": 52.5, "lon": 13.4}},
        "lines": [{"code": f"SKU{line}", "qty": line + 1, "amount": 12.5} for line in range(3)],
    }


@contextlib.asynccontextmanager
async def in_batches(env: Env) -> AsyncIterator[OpenCase]:
    """One run's evaluator, its child started and its functions compiled by a first message."""
    children = SandboxPool(1)
    evaluator = Evaluator(children, "organization", "run")
    world = ExpressionContext(
        items=[_item(number) for number in range(env.size(ITEMS, ITEMS // 4))],
        variables=ExpressionVariables(now=datetime(2026, 1, 15, tzinfo=UTC), timezone="Europe/Berlin"),
    )
    paths, others = [read(text) for text in PATHS], [read(text) for text in OTHERS]
    try:
        await evaluator.evaluate([*paths, *others], world)
        yield OpenCase(partial(_round, children, world, paths, others))
    finally:
        await children.close()


async def _round(
    children: SandboxPool,
    world: ExpressionContext,
    paths: list[ParameterTemplate],
    others: list[ParameterTemplate],
) -> Mapping[str, float]:
    # A run has 120 s in all: each round is a run of its own, on the child of the first.
    evaluator = Evaluator(children, "organization", "run")
    count = len(world.items)
    native = await _seconds(evaluator, world, paths, 20) / (20 * len(paths) * count)
    elsewhere = await _seconds(evaluator, world, others, 2) / (2 * len(others) * count)
    walked = await _seconds(evaluator, world, others[:2], STEPS)
    return {"path": native * 1e6, "other": elsewhere * 1e6, "ten_steps": walked * 1e3}


async def _seconds(
    evaluator: Evaluator, world: ExpressionContext, templates: list[ParameterTemplate], times: int
) -> float:
    began = time.perf_counter()
    for _ in range(times):
        await evaluator.evaluate(templates, world)
    return time.perf_counter() - began


FIGURES = (
    Figure("path", "µs", maximum=5),
    Figure("other", "µs", maximum=50),
    Figure("ten_steps", "ms", maximum=1000),
)
CASES = [Case("expressions", FIGURES, in_batches)]
