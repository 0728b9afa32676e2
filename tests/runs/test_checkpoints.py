"""Tests checkpoints of several runs that are written together: one call on PostgreSQL, one commit."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any

import pytest

from steward.database.engine.base import Row, Tx, ms
from steward.database.runs import steps
from steward.database.runs.steps import NotJson, StepValue, ValueState, packed, unpacked
from steward.database.runs.transitions import Lease
from steward.model.ids import AutomationId
from steward.model.instants import wire_time
from steward.model.plan import PlanStep, StepKind, StepStatus
from steward.model.run import Counts, Run
from steward.runs import checkpoint, claim
from steward.runs.checkpoint import Checkpoint, EndedStep
from steward.runs.lease import LeaseLost
from tests.runs.shop import Shop

LONG = "x" * 121  # a name may have 120 characters


def new_checkpoint(shop: Shop, lease: Lease, *, seq: int = 1, name: str = "look") -> Checkpoint:
    """Builds the checkpoint of an ended step; its message looks like a part of the row's JSON."""
    ended = EndedStep(
        step=PlanStep(name, "Look", StepKind.READ, "test.look"),
        title="Look",
        status=StepStatus.SUCCEEDED,
        started_at=shop.clock.now(),
        connection=None,
        counts=Counts(read=1),
        message='"finished_at":"@" me@shop.example',
    )
    value = StepValue(name, "", seq, ValueState.DONE, {"seen": 1})
    return Checkpoint(lease, AutomationId(lease.run), seq, ended, value, packed({"seen": 1}))


async def claim_runs(shop: Shop, count: int) -> tuple[list[Run], list[Lease]]:
    """Starts and claims `count` runs; returns the runs and their leases."""
    runs = [await shop.run_now(await shop.hiding(threshold=5)) for _ in range(count)]
    hired = await shop.registered_worker()
    leases = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=count, full=[])
    by_run = {lease.run: lease for lease in leases}
    return runs, [by_run[run.id] for run in runs]


async def keep_all(shop: Shop, points: Sequence[Checkpoint]) -> list[object]:
    """Writes all checkpoints at the same time and returns the outcome of each."""
    return list(
        await asyncio.gather(
            *(checkpoint.commit(shop.engine, shop.clock.now(), new_checkpoint) for new_checkpoint in points),
            return_exceptions=True,
        )
    )


async def test_each_run_has_its_own_row_and_its_end_is_the_time_of_the_commit(shop: Shop) -> None:
    """Each run gets its own step row, whose end is the time of the commit.

    See docs/design/runs.md#checkpoints and docs/design/api/runs.md#step.
    """
    runs, leases = await claim_runs(shop, 5)
    assert await keep_all(shop, [new_checkpoint(shop, lease) for lease in leases]) == [None] * 5
    for run in runs:
        [row] = await shop.steps(run)
        assert row["finished_at"] == wire_time(shop.clock.now())
        assert row["message"] == '"finished_at":"@" me@shop.example'
        assert (await shop.run(run)).last_seq == 1


async def test_a_fenced_run_among_them_writes_nothing(shop: Shop) -> None:
    """A checkpoint with an old epoch writes nothing and raises LeaseLost; the others are stored.

    See docs/design/runs.md#checkpoints.
    """
    runs, leases = await claim_runs(shop, 4)
    leases[2] = replace(leases[2], epoch=leases[2].epoch - 1)
    outcomes = await keep_all(shop, [new_checkpoint(shop, lease) for lease in leases])
    assert [isinstance(outcome, LeaseLost) for outcome in outcomes] == [False, False, True, False]
    assert [len(await shop.steps(run)) for run in runs] == [1, 1, 0, 1]


async def test_a_step_is_kept_once(shop: Shop) -> None:
    """A checkpoint is stored only if `last_seq` is the number before it.

    See docs/design/runs.md#checkpoints.
    """
    runs, leases = await claim_runs(shop, 2)
    points = [new_checkpoint(shop, lease) for lease in leases]
    assert await keep_all(shop, points) == [None, None]
    outcomes = await keep_all(shop, [points[0], new_checkpoint(shop, leases[1], seq=2, name="act")])
    assert [isinstance(outcome, LeaseLost) for outcome in outcomes] == [True, False]
    assert [len(await shop.steps(run)) for run in runs] == [1, 2]


async def test_a_row_the_database_refuses_fails_alone(shop: Shop) -> None:
    """A batch with a row that the database refuses is repeated item by item; only that row fails.

    See docs/design/storage.md#group-commit.
    """
    runs, leases = await claim_runs(shop, 4)
    points = [new_checkpoint(shop, lease, name=LONG if n == 1 else "look") for n, lease in enumerate(leases)]
    outcomes = await keep_all(shop, points)
    assert [outcome is None for outcome in outcomes] == [True, False, True, True]
    assert [len(await shop.steps(run)) for run in runs] == [1, 0, 1, 1]


@pytest.mark.parametrize("size", [1023, 1024, 5000])
async def test_an_output_of_any_size_comes_back_as_it_was(shop: Shop, size: int) -> None:
    """Outputs are stored plain below 1 KiB and compressed from there on, and read back unchanged.

    See docs/design/runs.md#checkpoints.
    """
    [run], [lease] = await claim_runs(shop, 1)
    output = "x" * (size - 2)  # with its quotation marks
    each_point = new_checkpoint(shop, lease)
    assert await keep_all(shop, [each_point._replace(output=packed(output))]) == [None]
    found_step_values = await shop.read(partial(steps.values, org=shop.owner.org, run=run.id))
    assert {value.name: value.output for value in found_step_values}["look"] == output


@pytest.mark.parametrize("sizes", [(10, 2000), (2000, 10), (10, 20)])
async def test_of_an_execution_the_last_value_counts(shop: Shop, sizes: tuple[int, int]) -> None:
    """Replay uses the last value of each execution, in the order in which the executions ended.

    See docs/design/runs.md#execution.
    """
    [run], [lease] = await claim_runs(shop, 1)
    outputs = ["x" * size for size in sizes]
    for seq, name, output in ((1, "look", outputs[0]), (2, "act", "between"), (3, "look", outputs[1])):
        item = new_checkpoint(shop, lease, seq=seq, name=name)._replace(output=packed(output))
        assert await keep_all(shop, [item]) == [None]
    found_step_values = await shop.read(partial(steps.values, org=shop.owner.org, run=run.id))
    last = [(value.name, value.seq, value.output) for value in found_step_values if value.seq]
    assert last == [("act", 2, "between"), ("look", 3, outputs[1])]


def _random_point(shop: Shop, lease: Lease, random: Random, seq: int) -> Checkpoint:
    """Builds a checkpoint of random status, iteration, attempt and size, some with unknown paths."""
    output = {"seen": "x" * random.choice([0, 500, 1100, 5000])}
    unknown = ("seen",) if random.random() < 0.3 else ()
    ended = EndedStep(
        step=PlanStep(random.choice(["look", "act", "tell"]), "Look", StepKind.READ, "test.look"),
        title="Look \u201chere\u201d" * random.choice([1, 40]),
        status=random.choice([StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.SKIPPED]),
        started_at=shop.clock.now(),
        connection=random.choice([None, {"integration_id": 1, "kind": "woocommerce"}]),
        counts=Counts(read=random.randint(0, 9)),
        attempt=random.randint(1, 3),
        iteration=random.choice(["", "1.2", "0.11"]),
        code=random.choice([None, "step_failed"]),
        message=random.choice([None, '"finished_at":"@"', "it's late"]),
        changes_total=random.randint(0, 3),
    )
    name, iteration = ended.step.name, ended.iteration
    state = random.choice(list(ValueState))
    value = StepValue(name, iteration, seq, state, output, unknown_paths=unknown)
    return Checkpoint(lease, AutomationId(lease.run), seq, ended, value, packed(output))


def _expected_row(shop: Shop, new_checkpoint: Checkpoint) -> tuple[object, ...]:
    """Returns the columns that the checkpoint must leave, whichever way it is written."""
    ended = new_checkpoint.ended
    assert ended is not None
    wire = {
        "seq": new_checkpoint.seq,
        "name": ended.step.name,
        "title": ended.title[:200],
        "kind": "read",
        "status": str(ended.status),
        "attempt": ended.attempt,
        "iteration": int(ended.iteration.rsplit(".", 1)[-1]) if ended.iteration else None,
        "started_at": wire_time(ended.started_at),
        "finished_at": wire_time(shop.clock.now()),
        "connection": ended.connection,
        "counts": asdict(ended.counts),
        "code": ended.code,
        "message": ended.message,
    }
    names = ended.step.name, ended.iteration, ended.attempt, str(ended.status)
    return new_checkpoint.seq, *names, ms(shop.clock.now()), ended.changes_total, wire


@pytest.mark.parametrize("write_mode", ["alone", "one in a batch", "many in a batch"])
async def test_every_way_of_writing_a_checkpoint_leaves_the_same_rows(shop: Shop, write_mode: str) -> None:
    """Each way of writing leaves the columns that the checkpoint holds, on both engines.

    See docs/design/runs.md#checkpoints.
    """
    random = Random(11)
    runs, leases = await claim_runs(shop, 4)
    written: dict[str, list[Checkpoint]] = {run.id: [] for run in runs}
    for seq in range(1, 7):
        shop.clock.tick(0.25)
        points = [_random_point(shop, lease, random, seq) for lease in leases]
        if write_mode == "many in a batch":
            assert await keep_all(shop, points) == [None] * 4
        for new_checkpoint in points:
            if write_mode == "one in a batch":
                assert await keep_all(shop, [new_checkpoint]) == [None]
            elif write_mode == "alone":
                assert await shop.write(partial(checkpoint.write, new_checkpoint=new_checkpoint)) is None
            written[new_checkpoint.lease.run].append(new_checkpoint)
        for run in runs:
            await _assert_last(shop, run, written[run.id])


async def _assert_last(shop: Shop, run: Run, points: Sequence[Checkpoint]) -> None:
    """Asserts that the last row and the last value of each execution are those of `points`."""

    async def read(tx: Tx) -> list[Row]:
        return await tx.all(
            "SELECT seq, name, iteration, attempt, status, finished_at, changes_total, wire FROM steps"
            " WHERE org_id = :org AND run_id = :run ORDER BY seq DESC LIMIT 1",
            {"org": shop.owner.org, "run": run.id},
        )

    [row] = await shop.read(read)
    stored = tuple(json.loads(row[name]) if name == "wire" else row[name] for name in row.keys())  # noqa: SIM118
    assert stored == _expected_row(shop, points[-1])
    last = {
        (new_checkpoint.value.name, new_checkpoint.value.iteration): new_checkpoint
        for new_checkpoint in points
    }
    values = [
        replace(item.value, stored_bytes=len(item.output))
        for item in sorted(last.values(), key=lambda entry: entry.seq)
    ]
    journal = await shop.read(partial(steps.values, org=shop.owner.org, run=run.id))
    assert [value for value in journal if value.seq] == values


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (float("nan"), "float"),
        ([None, float("inf")], "float"),
        ({"at": {"most": -float("inf")}}, "float"),
        ({"orders": [{"at": NOON}]}, "datetime"),
        ({"at": None, "found": ("a", "b")}, "tuple"),
        ({"kinds": {"a"}}, "set"),
        ({"file": b"x"}, "bytes"),
        ({"step": StepKind.READ, "at": NOON}, "datetime"),
        ({7: "seven"}, "key"),
    ],
)
def test_outputs_that_json_would_change_are_refused(value: Any, named: str) -> None:
    """An output that JSON would change is refused, because a resumed run must read the same value.

    See docs/design/runs.md#execution.
    """
    with pytest.raises(NotJson, match=named):
        packed(value)
    same = [None, 1e16, 2**70, "null", True, -0.5, {"": []}]
    assert unpacked(packed(same)) == same
