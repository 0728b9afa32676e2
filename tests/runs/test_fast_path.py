"""The fast path and the slow path of a run's transitions write the same rows.

SQLite writes due slots and checkpoints in batches, and every other transition one by one on both sides.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, cast

import pytest

from steward.automations import lifecycle, pauses
from steward.automations.fast_path import FastStarts
from steward.automations.pauses import StateCommand
from steward.database import due_rows
from steward.database.closed_periods.records import StoredPeriod
from steward.database.engine.base import Batchable, Engine, Tx
from steward.database.operator import erasure
from steward.database.runs import records as runs
from steward.database.runs.steps import StepValue, ValueState, packed
from steward.database.runs.transitions import Lease
from steward.model.automation import Automation
from steward.model.closed_period import ClosedKind, ClosedScope, ClosedScopeKind, Stops
from steward.model.connection import ConnectionState
from steward.model.json import JsonObject
from steward.model.plan import PlanStep, StepKind, StepStatus
from steward.model.refusals import Refusal
from steward.model.run import Counts, Mode, Run, RunStatus
from steward.occurrences import closings
from steward.runs import checkpoint, claim, dispatch, finish
from steward.runs.checkpoint import Checkpoint, EndedStep
from steward.runs.claimed_run import ClaimedRun
from steward.runs.finish import FinishRequest, RunEnd
from steward.runs.lease import LeaseLost
from steward.runs.start import StartedRun
from tests.closed_periods.edit_periods import WHOLE, PeriodEditor
from tests.runs.shop import Shop, neighbour

TABLES = (
    "runs",
    "steps",
    "step_values",
    "schedules",
    "occurrences",
    "automations",
    "idempotency_keys",
    "notices",
    "fairness_orgs",
)
FAILURES = ("step_failed", "some_changes_failed", "all_conflicted", "outcome_unknown")
# Runs that start together take consecutive stamps in no given order: which stamps they are is compared.
STAMP = "vt"
HOURLY = {"cadence": "hourly"}
STEP = PlanStep("look", "Look", StepKind.READ, "test.look")
ACTS = 40
Act = Callable[["OrganizationOnPath"], Awaitable[object]]


@dataclass
class UnbatchedEngine:
    """An engine that never batches: every write takes its slow path."""

    engine: Engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def write(self, now: Any, act: Any, **more: Any) -> Any:
        """Runs a batched write in a transaction of its own."""
        if isinstance(act, Batchable):
            act = partial(_alone, shared=act)
        return await self.engine.write(now, act, **more)


async def _alone(tx: Tx, shared: Batchable[Any, Any]) -> Any:
    return await shared.run_one(tx, shared.item)


async def _no_fast_path(*_: object) -> FastStarts:
    return FastStarts([], [])


@dataclass
class OrganizationOnPath:
    """One organization whose writes take one of the two paths, and the names of its objects."""

    shop: Shop
    automations: list[Automation] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    periods: list[StoredPeriod] = field(default_factory=list)
    claimed: dict[int, ClaimedRun] = field(default_factory=dict)
    last_seq: Counter[int] = field(default_factory=Counter)

    async def start(self, number: int, mode: Mode, key: str, *, max_waiting: int) -> StartedRun | str:
        """Starts a run by hand; returns the run or the name of the refusal."""
        try:
            return await self.shop.started(self.automations[number], mode, key=key, max_waiting=max_waiting)
        except Refusal as refusal:
            return type(refusal).__name__

    def _point(
        self, number: int, *, bytes_: int = 0, unknown: Sequence[str] = ()
    ) -> tuple[Checkpoint, EndedStep]:
        """Builds the next checkpoint of a claimed run, with `bytes_` more bytes of output."""
        claimed, now, seq = self.claimed[number], self.shop.clock.now(), self.last_seq[number] + 1
        ended = EndedStep(STEP, "Look", StepStatus.SUCCEEDED, now, None, Counts(read=2))
        output: JsonObject = {"seen": 1, "text": "x" * bytes_}
        value = StepValue("look", "", seq, ValueState.DONE, output, unknown_paths=tuple(unknown))
        new_checkpoint = Checkpoint(
            claimed.lease, claimed.run.automation_id, seq, ended, value, packed(output)
        )
        return new_checkpoint, ended

    async def checkpoint(self, number: int, *, bytes_: int, unknown: Sequence[str]) -> str | None:
        """Ends a step of a claimed run; returns the code of a cancel request or the name of the refusal."""
        new_checkpoint, _ = self._point(number, bytes_=bytes_, unknown=unknown)
        engine = self.shop.service.worker_context.engine
        try:
            code = await checkpoint.commit(engine, self.shop.clock.now(), new_checkpoint)
        except (Refusal, LeaseLost) as refusal:
            return type(refusal).__name__
        self.last_seq[number] += 1
        return code

    async def finish(
        self, number: int, *, with_step: bool, message: str | None, failure: str | None = None
    ) -> str:
        """Ends a claimed run as failed or succeeded, with or without its last step in the same commit."""
        claimed, (new_checkpoint, ended) = self.claimed[number], self._point(number)
        del self.claimed[number]
        ctx, now = self.shop.service.worker_context, self.shop.clock.now()
        end = RunEnd(RunStatus.SUCCEEDED, message=message, summary={"text": "Done."}, result={"seen": 1})
        if failure is not None:
            end, with_step = RunEnd(RunStatus.FAILED, failure, "It failed."), False
        run, lease = claimed.run, claimed.lease
        request = FinishRequest(lease, end, run.automation_id, run.mode, ctx.automation_rules)
        try:
            if not with_step:
                await finish.end_run(ctx.engine, now, request)
                return "ended"
            last = checkpoint.step_checkpoint(new_checkpoint, ended)
            return str(await finish.end_with_step(ctx.engine, now, request, last))
        except (Refusal, LeaseLost) as refusal:
            return type(refusal).__name__


@dataclass
class PathComparison:
    """The same organization twice: one is written by the fast path, the other by the slow one."""

    fast: OrganizationOnPath
    slow: OrganizationOnPath
    patch: pytest.MonkeyPatch

    async def apply(self, acts: Sequence[Act]) -> tuple[list[Any], list[Any]]:
        """Applies acts one by one on the slow side and all at the same time on the fast side."""
        slow = [await act(self.slow) for act in acts]
        return await _at_once(self.fast.shop, [partial(act, self.fast) for act in acts]), slow

    async def start(self, requests: Sequence[tuple[int, Mode, str]]) -> None:
        """Starts runs by hand on both sides."""
        limit = 3 if len(requests) == 1 else 1000
        fast, slow = await self.apply(
            [
                partial(OrganizationOnPath.start, number=n, mode=mode, key=key, max_waiting=limit)
                for n, mode, key in requests
            ]
        )
        for item, other in zip(fast, slow, strict=True):
            if isinstance(item, str) or isinstance(other, str):
                assert item == other
                continue
            assert item.replayed == other.replayed
            if not item.replayed:
                self.fast.runs.append(item.run)
                self.slow.runs.append(other.run)

    async def same(self, act: Act) -> None:
        """Applies an act on both sides and compares the results."""
        fast, slow = await self.apply([act])
        assert fast == slow

    async def claim(self) -> None:
        """Claims every ready run of both sides and starts the same ones."""
        shop = self.fast.shop
        hired = await shop.registered_worker()
        leases = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=50, full=())
        by_run: dict[str, Lease] = {lease.run: lease for lease in leases}
        numbers = [
            [n for n, run in enumerate(side.runs) if run.id in by_run] for side in (self.fast, self.slow)
        ]
        assert numbers[0] == numbers[1]

        async def start(side: OrganizationOnPath, number: int) -> str:
            try:
                claimed = await side.shop.begun(by_run[side.runs[number].id])
            except (Refusal, LeaseLost) as refusal:
                return type(refusal).__name__
            if claimed is None:
                return "refused"
            side.claimed[number], side.last_seq[number] = claimed, claimed.state.last_seq
            return "started"

        fast, slow = await self.apply([partial(start, number=number) for number in numbers[0]])
        assert fast == slow

    async def dispatch(self) -> None:
        """Starts the due slots of both sides: first the slow side's, without the fast path."""
        shop = self.fast.shop
        ctx = shop.service.worker_context
        for side, other in ((self.slow, self.fast), (self.fast, self.slow)):
            await _hide_due(other, hidden=True)
            if side is self.slow:
                self.patch.setattr(dispatch, "_fast_path", _no_fast_path)
            while await dispatch.dispatch_due(
                ctx.engine, shop.clock.now(), rules=ctx.automation_rules, log=ctx.log
            ):
                pass
            self.patch.undo()
            await _hide_due(other, hidden=False)
        for side in (self.fast, self.slow):
            run_ids = {run.id for run in side.runs}
            fresh = [row for row in (await _rows(side, ["runs"]))["runs"] if row["id"] not in run_ids]
            for row in sorted(fresh, key=partial(_order, side)):
                get = partial(runs.get, org=side.shop.owner.org, run=row["id"])
                side.runs.append(await side.shop.read(get))

    async def checkpoint(self, random: Random) -> None:
        """Ends a step of some of the claimed runs."""
        acts = [
            partial(
                OrganizationOnPath.checkpoint,
                number=number,
                bytes_=random.choice([0, 2000]),
                unknown=random.choice([(), (), ("seen",)]),
            )
            for number in _some(sorted(self.fast.claimed), random)
        ]
        fast, slow = await self.apply(acts)
        assert fast == slow

    async def finish(self, random: Random) -> None:
        """Ends some of the claimed runs."""
        acts = [
            partial(
                OrganizationOnPath.finish,
                number=number,
                with_step=random.random() < 0.5,
                message=random.choice([None, "Done."]),
                failure=random.choice(FAILURES) if random.random() < 0.3 else None,
            )
            for number in _some(sorted(self.fast.claimed), random)
        ]
        fast, slow = await self.apply(acts)
        assert fast == slow

    async def compare(self) -> None:
        """Asserts that every table the paths write has the same rows on both sides."""
        rows = [await _named_rows(side) for side in (self.fast, self.slow)]
        for table in rows[0]:
            fast, slow = [sorted(of_side[table], key=repr) for of_side in rows]
            for record, other in zip(fast, slow, strict=True):
                assert record == other, (
                    table,
                    {key: (record[key], other[key]) for key in record if record[key] != other[key]},
                )


def _order(side: OrganizationOnPath, row: dict[str, Any]) -> tuple[int, int]:
    numbers = {automation.id: n for n, automation in enumerate(side.automations)}
    return row["slot_at"] or 0, numbers[row["automation_id"]]


async def _hide_due(side: OrganizationOnPath, *, hidden: bool) -> None:
    """Moves the due slots of a side out of the dispatcher's reach, or back."""
    shift = 10**15 if hidden else -(10**15)
    await side.shop.tamper(f"UPDATE schedules SET due_at = due_at + ({shift}) WHERE org_id = :org")


async def _rows(side: OrganizationOnPath, tables: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    async def read(tx: Tx) -> dict[str, list[dict[str, Any]]]:
        org = {"org": side.shop.owner.org}
        return {
            table: [dict(row) for row in await tx.all(f"SELECT * FROM {table} WHERE org_id = :org", org)]
            for table in tables
        }

    return await side.shop.read(read)


async def _rows_elsewhere(side: OrganizationOnPath) -> Counter[str]:
    """Counts the organization's rows in the tables that neither path writes."""
    tables = (erasure.TABLES.keys() | {"audit_log"}) - set(TABLES)
    counts = " UNION ALL ".join(
        f"SELECT '{table}' AS name, count(*) AS n FROM {table} WHERE org_id = :org" for table in tables
    )
    rows = await side.shop.read(lambda tx: tx.all(counts, {"org": side.shop.owner.org}))
    return Counter({row["name"]: row["n"] for row in rows})


async def _deferred(side: OrganizationOnPath, names: dict[object, str]) -> list[dict[str, Any]]:
    """Reads the deferred rows of the side's automations: the table is common to all organizations."""
    rows = await side.shop.read(lambda tx: tx.all("SELECT * FROM deferred_rows"))
    return [dict(row) for row in rows if row["key"] in names]


async def _named_rows(side: OrganizationOnPath) -> dict[str, list[dict[str, Any]]]:
    """Reads the rows of each table, with names in place of ids, and the stamps of the runs in their order."""
    shop = side.shop
    names: dict[object, str] = {run.id: f"run {number}" for number, run in enumerate(side.runs)}
    names |= {automation.id: f"automation {number}" for number, automation in enumerate(side.automations)}
    texts = {str(connection.integration_id): kind for kind, connection in shop.connections.items()}
    rows = await _rows(side, TABLES)
    stamps = sorted(row[STAMP] for row in rows["runs"] if row[STAMP] is not None)
    rows |= {"stamps": [{"queued": stamps}], "deferred_rows": await _deferred(side, names)}
    return {
        table: [
            {column: _named(column, value, names, texts) for column, value in row.items() if column != STAMP}
            for row in of_table
        ]
        for table, of_table in rows.items()
    }


def _named(column: str, value: object, names: dict[object, str], texts: dict[str, str]) -> object:
    if column in ("org_id", "created_by", "updated_by"):
        return value is not None  # one organization and one person a side
    if isinstance(value, str) and value in names:
        return names[value]
    if column == "id":
        return "an id"
    if column == "dedupe":
        for id_, name in names.items():
            value = str(value).replace(str(id_), name)
    if column == "integration_id":
        return texts.get(str(value), value)
    if isinstance(value, bytes | str):
        text = value if isinstance(value, str) else value.decode("latin-1")
        if column in ("request_sha256",):
            return "digest of an id"
        for number, kind in texts.items():
            text = text.replace(f'"integration_id":{number}', f'"integration_id":"{kind}"')
            text = text.replace(f"[[{number},", f'[["{kind}",').replace(f'"integration_id": {number}', kind)
        return text
    return value


def _some(numbers: Sequence[int], random: Random) -> list[int]:
    return random.sample(numbers, random.randint(0, len(numbers)))


async def _at_once(shop: Shop, acts: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Applies acts at the same time; holds SQLite's writing thread until all wait, so that they batch."""
    all_wait = threading.Event()

    async def hold(tx: Tx) -> None:
        all_wait.wait(60)

    held = [asyncio.ensure_future(shop.write(hold))] if shop.engine.dialect == "sqlite" else []
    outcomes = [asyncio.ensure_future(act()) for act in acts]
    asyncio.get_running_loop().call_soon(all_wait.set)
    await asyncio.gather(*held)
    return list(await asyncio.gather(*outcomes))


@pytest.fixture
async def both(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> PathComparison:
    """Provides two organizations with the same five automations."""
    other = await neighbour(shop)
    context = replace(shop.service.worker_context, engine=cast("Engine", UnbatchedEngine(shop.engine)))
    other.service = replace(other.service, engine=context.engine, worker_context=context)
    sides = PathComparison(OrganizationOnPath(shop), OrganizationOnPath(other), monkeypatch)
    for side in (sides.fast, sides.slow):
        for number in range(5):
            schedule = HOURLY if number < 3 else {"cadence": "manual"}
            side.automations.append(await side.shop.set_up("hide-out-of-stock-products", {}, schedule))
    return sides


async def _cancel(side: OrganizationOnPath, number: int) -> str:
    try:
        return str((await side.shop.cancel(side.runs[number])).status)
    except Refusal as refusal:
        return type(refusal).__name__


async def _set_state(side: OrganizationOnPath, number: int, verb: Any) -> str:
    rules = side.shop.service.worker_context.automation_rules
    act = partial(verb, actor=side.shop.owner, command=StateCommand(side.automations[number].id), rules=rules)
    try:
        await side.shop.write(act)
    except Refusal as refusal:
        return type(refusal).__name__
    return "changed"


async def _defer(side: OrganizationOnPath, number: int) -> int:
    """Defers the slots of an automation, as a dispatcher does that failed with it."""
    key = str(side.automations[number].id)
    return await side.shop.write(partial(due_rows.defer, task="dispatch", key=key, message="It failed."))


async def _connection_is(side: OrganizationOnPath, state: ConnectionState) -> None:
    await side.shop.set_connection_state("woocommerce", state)


async def _close(
    side: OrganizationOnPath, kind: ClosedKind, fields: JsonObject, stops: Stops, scope: int
) -> None:
    """Closes times of the organization, of its store, or of its first automation."""
    automation = side.automations[0]
    scopes = (
        WHOLE,
        ClosedScope(ClosedScopeKind.STORE, automation.integration_id),
        ClosedScope(ClosedScopeKind.AUTOMATION, automation=automation.id),
    )
    side.periods.append(await _closer(side).make(kind, fields, f"P{len(side.periods)}", stops, scopes[scope]))


async def _open(side: OrganizationOnPath, number: int) -> None:
    await _closer(side).end(side.periods.pop(number))


async def _follow(side: OrganizationOnPath) -> bool:
    return await side.shop.write(partial(closings.follow_changes, org=side.shop.owner.org))


def _closer(side: OrganizationOnPath) -> PeriodEditor:
    return PeriodEditor(side.shop.engine, side.shop.clock, side.shop.owner)


def _when(now: datetime, random: Random) -> tuple[ClosedKind, JsonObject]:
    """Some hours from about now, once or each week."""
    start, end = (now + timedelta(minutes=random.randrange(*span)) for span in ((-60, 60), (61, 400)))
    if random.random() < 0.5:
        return ClosedKind.ONCE, {"start": f"{start:%Y-%m-%dT%H:%M}", "end": f"{end:%Y-%m-%dT%H:%M}"}
    return ClosedKind.WEEKLY, {"days": [5, 6], "from": f"{start:%H:%M}", "to": f"{end:%H:%M}"}


async def _change_periods(both: PathComparison, random: Random) -> None:
    """Closes times on both sides, or ends a period; the next runs follow now or later."""
    now = both.fast.shop.clock.now()
    if both.fast.periods and random.random() < 0.4:
        await both.same(partial(_open, number=random.randrange(len(both.fast.periods))))
    else:
        kind, fields = _when(now, random)
        stops = random.choice([Stops.RUNS, Stops.RUNS, Stops.CHANGES])
        scope = random.randrange(3)
        await both.same(partial(_close, kind=kind, fields=fields, stops=stops, scope=scope))
    if random.random() < 0.8:
        await both.same(_follow)


def _requests(random: Random) -> list[tuple[int, Mode, str]]:
    """Draws runs to start at the same time, one per automation; few keys, so that some are replays.

    No key is sent twice at once: which of two requests comes first is not decided.
    """
    numbers = random.sample(range(5), random.randint(1, 5))
    keys = random.sample(range(60), len(numbers))
    return [
        (number, random.choice([Mode.LIVE, Mode.LIVE, Mode.TEST]), f"key {key}")
        for number, key in zip(numbers, keys, strict=True)
    ]


async def _act(both: PathComparison, random: Random) -> None:
    """Applies one random act on both sides."""
    shop = both.fast.shop
    kind = random.choices(
        [
            "start",
            "claim",
            "checkpoint",
            "finish",
            "dispatch",
            "cancel",
            "state",
            "connection",
            "periods",
            "defer",
        ],
        weights=[6, 6, 6, 6, 6, 2, 1, 1, 2, 2],
    )[0]
    if kind == "start":
        await both.start(_requests(random))
    elif kind == "claim":
        await both.claim()
    elif kind == "checkpoint":
        await both.checkpoint(random)
    elif kind == "finish":
        await both.finish(random)
    elif kind == "dispatch":
        await shop.clock.advance(1800)
        await both.dispatch()
    elif kind == "cancel" and both.fast.runs:
        await both.same(partial(_cancel, number=random.randrange(len(both.fast.runs))))
    elif kind == "state":
        verb = random.choice([pauses.pause, lifecycle.resume, lifecycle.resume, lifecycle.archive])
        await both.same(partial(_set_state, number=random.randrange(5), verb=verb))
    elif kind == "connection":
        state = random.choice(
            [ConnectionState.CONNECTED, ConnectionState.CONNECTED, ConnectionState.NEEDS_RECONNECTING]
        )
        await both.same(partial(_connection_is, state=state))
    elif kind == "periods":
        await _change_periods(both, random)
    elif kind == "defer":
        await both.same(partial(_defer, number=random.randrange(3)))


@pytest.mark.parametrize("closed", [False, True])
async def test_both_paths_clear_the_failures_of_slots_they_decide(both: PathComparison, closed: bool) -> None:
    """A deferred slot that starts, or that a closed period leaves out, is deferred no longer."""
    shop = both.fast.shop
    if closed:
        fields: JsonObject = {"start": "2026-01-01T00:00", "end": "2027-01-01T00:00"}
        await both.same(partial(_close, kind=ClosedKind.ONCE, fields=fields, stops=Stops.RUNS, scope=0))
    for number in range(3):
        await both.same(partial(_defer, number=number))
    await both.compare()
    assert len((await _named_rows(both.fast))["deferred_rows"]) == 3
    await shop.clock.advance(3600)
    await both.dispatch()
    await both.compare()
    rows = await _named_rows(both.fast)
    states = {"skipped"} if closed else {"queued"}
    assert {row["state"] for row in rows["occurrences"]} == states
    assert rows["deferred_rows"] == []


@pytest.mark.parametrize("seed", range(6))
async def test_both_paths_write_the_same_rows(both: PathComparison, seed: int) -> None:
    """Random acts leave equal rows in every table, whichever path writes them."""
    random = Random(seed)
    sides = (both.fast, both.slow)
    before = [await _rows_elsewhere(side) for side in sides]
    for _ in range(ACTS):
        await _act(both, random)
        await both.compare()
        both.fast.shop.clock.tick(0.001)
    after = [await _rows_elsewhere(side) for side in sides]
    assert after[0] - before[0] == after[1] - before[1]
    assert both.fast.runs
