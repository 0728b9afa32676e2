"""Reads of a run of 5,000 changes that was undone: the run, and the list of the dialog of an undo."""

import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from bench.load import get
from bench.postgres import fresh_database
from bench.rounds import Case, Env, Figure, OpenCase
from bench.servers import Server, ready, serving
from bench.service import Bench, open_bench
from steward import periodic_tasks, worker
from steward.database.engine.base import Tx
from steward.database.runs import changes, undos
from steward.model.change import Action, Change, FieldChange, FieldKind, ObjectRef, Outcome, Proposal
from steward.model.ids import ChangeId, OrgId, RunId, new_id
from steward.runs.checkpoint import change_wire

CHANGES = 5_000
_UNDO_OF = "UPDATE runs SET undo_of = :of WHERE org_id = :org AND id = :run"


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database: everything in the server's process."""
    async with _measured(f"sqlite:///{env.folder}/steward.db", env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """PostgreSQL beside the server's process."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _measured(url, env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _measured(url: str, env: Env) -> AsyncIterator[OpenCase]:
    bench = await open_bench(url, env.folder)
    [automation] = await bench.automations(1)
    runs = [await bench.run_now(automation) for _ in range(2)]
    own_worker = await bench.worker()
    await worker.drain(own_worker, periodic_tasks.of_worker(own_worker))
    await bench.write(partial(_fill, org=bench.owner.org, run=runs[0].id, undo_run=runs[1].id, bench=bench))
    headers = {"authorization": f"Bearer {bench.token()}"}
    await bench.service.close()
    path = f"/v1/automations/runs/{runs[0].id}"
    with serving(url, env.folder) as server:
        await ready(server, path, headers)
        yield OpenCase(partial(_round, server, path, headers, env.size(100, 40)))


async def _fill(tx: Tx, *, org: OrgId, run: RunId, undo_run: RunId, bench: Bench) -> None:
    """Stores the changes of a run, and those of its undo, of which each tenth was left."""
    proposed_changes = [_change(run, number, bench, of=None) for number in range(CHANGES)]
    back = [_change(undo_run, number, bench, of=change.id) for number, change in enumerate(proposed_changes)]
    for stored in (proposed_changes, back):
        await changes.insert(tx, org, ((change, change_wire(change)) for change in stored))
    await undos.insert(tx, org, undo_run, of_run=run, chosen=None)
    await tx.execute(_UNDO_OF, {"of": run, "org": org, "run": undo_run})


def _change(run: RunId, number: int, bench: Bench, *, of: ChangeId | None) -> Change:
    before, after = ("12.00", "12.50") if of is None else ("12.50", "12.00")
    proposal = Proposal(
        ObjectRef("variant", f"{number}", f"Green tea {number} g (SKU-{number:05})"),
        Action.UPDATE,
        (FieldChange("price", "Price", before, after, FieldKind.MONEY, "EUR"),),
        (),
        None,
        undo_of=of,
    )
    outcome = Outcome.CONFLICT if of is not None and number % 10 == 0 else Outcome.APPLIED
    change_id = ChangeId(new_id(bench.service.clock.now()))
    return Change(
        change_id, run, 4, "change", "", number, 1, proposal, proposal.item_hash(), outcome, None, None
    )


async def _round(server: Server, path: str, headers: Mapping[str, str], count: int) -> Mapping[str, float]:
    figures = {}
    for name, tail in (("run", ""), ("changes", "/changes?limit=200"), ("left", "/changes?outcome=conflict")):
        times: list[float] = []
        for _ in range(count):
            begun = time.perf_counter()
            await get(server.port, f"{path}{tail}", headers)
            times.append((time.perf_counter() - begun) * 1000)
        figures[f"{name}_p95"] = _p95(times)
        _, cpu = await server.of_one(f"{path}{tail}", headers, count // 2)
        figures[f"{name}_cpu"] = cpu / 1000
    return figures


def _p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


_FIGURES = (
    Figure("run_p95", "ms for the run with its undo", maximum=100),
    Figure("run_cpu", "ms of CPU of the service"),
    Figure("changes_p95", "ms for the first 200 changes", maximum=2_000),
    Figure("changes_cpu", "ms of CPU of the service"),
    Figure("left_p95", "ms for the changes of one outcome"),
    Figure("left_cpu", "ms of CPU of the service"),
)
CASES = (
    Case("undo_sqlite", _FIGURES, on_sqlite),
    Case("undo_postgres", _FIGURES, on_postgres, needs_postgres=True),
)
