"""Imported workflows: how long a preview takes, and what endless scripts of one organization cost others."""

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from bench.rounds import Case, Env, Figure, OpenCase
from bench.service import Bench, open_bench
from steward import periodic_tasks, worker
from steward.clock import SystemClock
from steward.imports import storage
from steward.imports.n8n.read import read_value
from steward.imports.preview import PreviewQuery, preview
from steward.model import plan_json
from steward.model.automation import Automation
from steward.model.json import JsonObject
from steward.model.plan import Plan
from steward.model.run import Mode
from steward.sandbox.pool import JAVASCRIPT, SandboxPool
from steward.sandbox.protocol import SandboxStopped
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.items import trigger_items
from steward.steps.workflow.step_types import RunEnvironment
from steward.steps.workflow.walk import InMemoryJournal, WalkContext, walk
from steward.worker import Worker

NODES = 100
PREVIEWS = 10
STEPS = 10
ITEMS = 1_000
AUTOMATIONS = 50
RUNS = 300
SETTLING_S = 1.0
MANUAL_TRIGGER: dict[str, Any] = {
    "name": "Begin",
    "type": "n8n-nodes-base.manualTrigger",
    "typeVersion": 1,
    "parameters": {},
}


def _set(number: int) -> tuple[str, float, dict[str, Any]]:
    rows = [
        {"name": "total", "type": "number", "value": "={{ $json.price * $json.quantity }}"},
        {"name": "label", "type": "string", "value": f"=Row {{{{ $itemIndex }}}} of {number}"},
    ]
    return "set", 3.4, {"assignments": {"assignments": rows}, "includeOtherFields": True, "options": {}}


def _if(number: int) -> tuple[str, float, dict[str, Any]]:
    operator = {"type": "number", "operation": "gt"}
    compared = [{"leftValue": "={{ $json.total }}", "rightValue": number, "operator": operator}]
    options = {"caseSensitive": True, "typeValidation": "strict", "version": 2}
    return "if", 2.2, {"conditions": {"options": options, "combinator": "and", "conditions": compared}}


def _code(number: int) -> tuple[str, float, dict[str, Any]]:
    text = (
        f"return $input.all().filter(item => item.json.total > {number}).map(item => ({{json: item.json}}))"
    )
    return "code", 2, {"jsCode": text}


def _ask(number: int) -> tuple[str, float, dict[str, Any]]:
    return "httpRequest", 4.2, {"url": f"https://rates.example/{number}", "options": {}}


def _change(number: int) -> tuple[str, float, dict[str, Any]]:
    fields = {"status": "={{ $json.total > 0 ? 'publish' : 'draft' }}"}
    message = {"resource": "product", "operation": "update", "productId": "={{ $json.id }}"}
    return "wooCommerce", 1, message | {"updateFields": fields}


def export() -> dict[str, Any]:
    """A chain of a hundred nodes of five types, each with other expressions."""
    makers = (_set, _if, _code, _ask, _change)
    nodes: list[dict[str, Any]] = [MANUAL_TRIGGER | {"position": [0, 0]}]
    for number in range(1, NODES):
        kind, version, parameters = makers[number % len(makers)](number)
        node = {"name": f"Step {number}", "type": f"n8n-nodes-base.{kind}", "typeVersion": version}
        nodes.append(node | {"parameters": parameters, "position": [number * 200, 0]})
    return _connected(nodes)


def _connected(nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """An export of these nodes, each leading to the next."""
    names = [str(node["name"]) for node in nodes]
    connections = {
        name: {"main": [[{"node": after, "type": "main", "index": 0}]]}
        for name, after in itertools.pairwise(names)
    }
    return {"name": "Measured", "nodes": nodes, "connections": connections, "settings": {}}


@contextlib.asynccontextmanager
async def previewed(env: Env) -> AsyncIterator[OpenCase]:
    """The service's own work of a preview: reading, compiling in a child, the plan as it is answered."""
    bench = await open_bench(f"sqlite:///{env.folder}/steward.db", env.folder)
    evaluator = Evaluator(bench.ctx.sandbox_pool, str(bench.owner.org), "preview")
    try:
        await _preview(bench, evaluator)  # starts the child
        yield OpenCase(partial(_previews, bench, evaluator))
    finally:
        await bench.service.close()


async def _preview(bench: Bench, evaluator: Evaluator) -> None:
    content = json.loads(json.dumps(export()))
    prepared = await storage.prepare("workflow_tool", content, None, evaluator)
    reading = prepared.reading
    plan, issues = plan_json.to_json(reading.plan), [finding.wire() for finding in reading.report.findings]
    load = partial(preview, actor=bench.owner, plan=plan, issues=issues, query=PreviewQuery())
    json.dumps(await bench.read(load))


async def _previews(bench: Bench, evaluator: Evaluator) -> Mapping[str, float]:
    took, used = [], time.process_time()
    for _ in range(PREVIEWS):
        began = time.perf_counter()
        await _preview(bench, evaluator)
        took.append(time.perf_counter() - began)
    cpu = (time.process_time() - used) / PREVIEWS
    return {"preview": sorted(took)[len(took) // 2] * 1e3, "slowest": max(took) * 1e3, "cpu": cpu * 1e3}


@contextlib.asynccontextmanager
async def walked(env: Env) -> AsyncIterator[OpenCase]:
    """A thousand items through ten steps of two expressions each, as a real run walks them, without rows."""
    rows = [
        {"name": "total", "type": "number", "value": "={{ $json.total * 2 }}"},
        {"name": "label", "type": "string", "value": "={{ $json.name.toUpperCase() + $itemIndex }}"},
    ]
    parameters = {"assignments": {"assignments": rows}, "includeOtherFields": True, "options": {}}
    nodes = [MANUAL_TRIGGER | {"position": [0, 0]}]
    for number in range(STEPS):
        node = {"name": f"Step {number}", "type": "n8n-nodes-base.set", "typeVersion": 3.4}
        nodes.append(node | {"parameters": parameters, "position": [number * 200, 0]})
    plan = read_value(_connected(nodes)).plan
    items = [{"total": number, "name": "Elodie", "address": {"city": "Berlin"}} for number in range(ITEMS)]
    children = SandboxPool(1)
    try:
        await _walk(plan, items, children)
        yield OpenCase(partial(_timed_walk, plan, items, children))
    finally:
        await children.close()


async def _timed_walk(plan: Plan, items: list[JsonObject], children: SandboxPool) -> Mapping[str, float]:
    began, used = time.perf_counter(), time.process_time()
    await _walk(plan, items, children)
    return {"walk": (time.perf_counter() - began) * 1e3, "cpu": (time.process_time() - used) * 1e3}


async def _walk(plan: Plan, items: list[JsonObject], children: SandboxPool) -> None:
    clock = SystemClock()
    means = WalkContext(
        evaluator=Evaluator(children, "organization", "run"),
        environment=RunEnvironment(zone="Europe/Berlin", now=clock.now(), seed="run", mode=Mode.LIVE),
        types=BY_TYPE,
        sleep=clock.sleep,
        clock=clock.now,
    )
    done = await walk(plan, "Begin", trigger_items(items), context=means, journal=InMemoryJournal())
    assert done.failed is None


@contextlib.asynccontextmanager
async def beside_endless_scripts(env: Env) -> AsyncIterator[OpenCase]:
    """Runs of five steps while scripts of another organization keep every child busy, and without them."""
    bench = await open_bench(f"sqlite:///{env.folder}/steward.db", env.folder)
    automations = await bench.automations(AUTOMATIONS)
    own_worker = await bench.worker()
    count = env.size(RUNS, RUNS // 3)
    try:
        yield OpenCase(
            partial(_beside, bench, own_worker, automations, count),
            partial(_alone, bench, own_worker, automations, count),
        )
    finally:
        await bench.service.close()


async def _alone(
    bench: Bench, own_worker: Worker, automations: list[Automation], count: int
) -> Mapping[str, float]:
    return {"runs alone": await _runs(bench, own_worker, automations, count)}


async def _beside(
    bench: Bench, own_worker: Worker, automations: list[Automation], count: int
) -> Mapping[str, float]:
    children = bench.ctx.sandbox_pool
    places = bench.service.settings.confined_processes
    loops = [asyncio.create_task(_endless(children, str(number))) for number in range(places)]
    while children.live < places:
        await bench.service.clock.sleep(0.05)
    await bench.service.clock.sleep(SETTLING_S)  # past their start: it is the scripts that last
    try:
        return {"runs": await _runs(bench, own_worker, automations, count)}
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


async def _endless(children: SandboxPool, run: str) -> None:
    """One endless script after the other."""
    payload = json.dumps({"items": [], "names": [], "seen": {}, "now": 0, "zone": "UTC", "seed": 0}).encode()
    message: dict[str, object] = {"op": "script", "mode": "all", "text": "while (true) {}"}
    while True:
        with contextlib.suppress(SandboxStopped):
            await children.send(("another", run), JAVASCRIPT, message, payload, 15.0)


async def _runs(bench: Bench, own_worker: Worker, automations: list[Automation], count: int) -> float:
    """Runs a second: made by hand, then taken to their end."""
    began = time.perf_counter()
    for number in range(count):
        await bench.run_now(automations[number % len(automations)])
    await worker.drain(own_worker, periodic_tasks.of_worker(own_worker))
    return count / (time.perf_counter() - began)


_PREVIEW = (
    Figure("preview", "ms", maximum=100),
    Figure("slowest", "ms"),
    Figure("cpu", "ms of CPU of the service's own process"),
)
CASES = [
    Case("import_preview", _PREVIEW, previewed),
    Case("workflow_walk", (Figure("walk", "ms", maximum=1000), Figure("cpu", "ms of CPU")), walked),
    Case("confined_beside", (Figure("runs", "runs/s", "runs alone", ratio=0.8),), beside_endless_scripts),
]
