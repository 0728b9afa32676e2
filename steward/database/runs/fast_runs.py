"""The fast path of starting, beginning and finishing runs: many in one call, only on PostgreSQL.

A run qualifies when only its own rows matter; every other run takes the slow path (`runs/start.py`,
`runs/claim.py`, `runs/finish.py`). Each statement calls a function that sets the tenant context itself.
`tests/runs/test_fast_path.py` compares every row that both paths write.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from steward.database.automations import records as automations
from steward.database.automations import streaks
from steward.database.engine.base import Tx, from_ms
from steward.database.runs import records as runs
from steward.database.runs import steps, transitions
from steward.database.runs.checkpoints import StepCheckpoint, checkpoint_columns, columns
from steward.database.runs.steps import StepValue
from steward.database.runs.transitions import Lease, RunState
from steward.model.account import Creator
from steward.model.automation import Automation
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId
from steward.model.run import Mode, Run, RunStatus, StartedBy

_PRECHECK = (
    "SELECT n, present, automation, needs_slow_path, connected"
    " FROM steward_start_precheck(:orgs, :automations, :keys, :most, :test_now)"
)
_START = (
    "SELECT n, queued_at FROM steward_start_runs(:orgs, :runs, :automations, :modes, :keys, :shas,"
    " :most, :names,"
    " :versions, :templates, :template_versions, :plans, :stores, :persons, :vias, :clients, :test_now)"
)
_LEASED = "SELECT n, run, automation, is_on, connected FROM steward_claimed_runs(:orgs, :runs, :test_now)"
_BEGIN_RUNS = (
    "SELECT n, present FROM steward_begin_runs(:orgs, :runs, :epochs, :automations, :live, :outputs,"
    " :test_now)"
)
_FINISH = (
    "SELECT n, is_ended, cancel_code FROM steward_finish_runs(:orgs, :runs, :epochs, :automations, :live,"
    " :messages, :summaries, :results, :seqs, :names, :iterations, :attempts, :statuses, :changes, :wires,"
    " :mark, :outputs, :unknowns, :states, :test_now)"
)
_Columns = Mapping[str, Callable[[Any], object]]
_START_COLUMNS: _Columns = {
    "orgs": attrgetter("automation.org"),
    "runs": attrgetter("run"),
    "automations": attrgetter("automation.id"),
    "modes": attrgetter("mode"),
    "keys": attrgetter("key"),
    "shas": attrgetter("request_sha256"),
    "names": attrgetter("automation.name"),
    "versions": attrgetter("automation.version"),
    "templates": attrgetter("automation.template_id"),
    "template_versions": attrgetter("automation.template_version"),
    "plans": attrgetter("automation.plan_version"),
    "stores": attrgetter("automation.integration_id"),
    "persons": attrgetter("maker.created_by"),
    "vias": attrgetter("maker.created_via"),
    "clients": attrgetter("maker.api_client_id"),
}
_BEGIN_COLUMNS: _Columns = {
    "orgs": attrgetter("lease.org"),
    "runs": attrgetter("lease.run"),
    "epochs": attrgetter("lease.epoch"),
    "automations": attrgetter("automation"),
    "live": attrgetter("is_live"),
}
_FINISH_COLUMNS: _Columns = {
    "orgs": attrgetter("lease.org"),
    "runs": attrgetter("lease.run"),
    "epochs": attrgetter("lease.epoch"),
    "automations": attrgetter("automation"),
    "live": attrgetter("is_live"),
    "messages": attrgetter("message"),
    "summaries": attrgetter("summary"),
    "results": attrgetter("result"),
}
_decoded = msgspec.json.Decoder().decode
_UNSET = dict.fromkeys(name.strip().partition(".")[2] for name in runs.COLUMNS.split(","))


@dataclass(frozen=True, slots=True)
class RunPrecheck:
    """The facts that decide whether a manual run may start; `present` is the database's clock."""

    automation: Automation
    connected: Collection[IntegrationId]
    present: datetime


@dataclass(frozen=True, slots=True)
class RunToStart:
    """A manual run to create."""

    automation: Automation
    run: RunId
    mode: Mode
    key: str
    request_sha256: str
    maker: Creator


@dataclass(frozen=True, slots=True)
class LeasedRun:
    """A leased run with its automation, and the facts that decide whether it may begin."""

    lease: Lease
    run: Run
    state: RunState
    automation: Automation
    is_on: bool
    connected: Collection[IntegrationId]


@dataclass(frozen=True, slots=True)
class RunToBegin:
    """A checked run that is about to begin, and the first row of its journal.

    With `is_live` it counts as a run of its automation.
    """

    lease: Lease
    automation: AutomationId
    is_live: bool
    start_value: StepValue


@dataclass(frozen=True, slots=True)
class RunToFinish:
    """A run that reached the end of its plan; `checkpoint` is its last step, if not stored yet."""

    lease: Lease
    automation: AutomationId
    is_live: bool
    message: str | None
    summary: str | None
    result: str | None
    checkpoint: StepCheckpoint | None


class FinishResult(NamedTuple):
    """Whether the run was still owned, whether it has ended, and the code of a cancel request."""

    is_owner: bool
    ended: bool
    cancel: str | None


async def precheck(
    tx: Tx, keys: Sequence[tuple[OrgId, AutomationId, str]], *, max_waiting: int
) -> list[RunPrecheck | None]:
    """Returns the facts that decide whether manual runs of these automations may start, in order.

    Returns None for a run that needs the slow path: the automation was not found, the key was used, many runs
    wait, or a closed period may apply.
    """
    rows = await tx.all(
        _PRECHECK,
        {
            "orgs": [org for org, _, _ in keys],
            "automations": [automation for _, automation, _ in keys],
            "keys": [key for _, _, key in keys],
            "most": max_waiting,
            "test_now": tx.test_now,
        },
    )
    connected: dict[OrgId, Collection[IntegrationId]] = {}
    prechecks: list[RunPrecheck | None] = [None] * len(keys)
    for row in sorted(rows, key=lambda row: int(row["n"])):
        org = keys[row["n"] - 1][0]
        if row["connected"] is not None:
            connected[org] = frozenset(row["connected"])
        if row["automation"] is not None and not row["needs_slow_path"]:
            automation = automations.record(_decoded(row["automation"]))
            prechecks[row["n"] - 1] = RunPrecheck(automation, connected[org], from_ms(row["present"]))
    return prechecks


async def start_runs(tx: Tx, to_start: Sequence[RunToStart], *, max_waiting: int) -> list[Run]:
    """Creates manual runs under their queues' locks, all or none.

    Raises when a key was used or too many runs wait.
    """
    rows = await tx.all(
        _START,
        {
            **columns(_START_COLUMNS, to_start),
            "most": max_waiting,
            "test_now": tx.test_now,
        },
    )
    queued = {row["n"]: row["queued_at"] for row in rows}
    return [_created_run(run, queued[number]) for number, run in enumerate(to_start, 1)]


def _created_run(run: RunToStart, queued_at: int) -> Run:
    """Returns the run as just stored."""
    automation = run.automation
    return runs.record(
        _UNSET
        | {
            "org_id": automation.org,
            "id": run.run,
            "automation_id": automation.id,
            "mode": run.mode.value,
            "status": RunStatus.QUEUED.value,
            "last_seq": 0,
            "plan_version": automation.plan_version,
            "queued_at": queued_at,
            "automation_name": automation.name,
            "automation_version": automation.version,
            "template_id": automation.template_id,
            "template_version": automation.template_version,
            "started_by": StartedBy.HAND.value,
            "idempotency_key": run.key,
            "created_by": run.maker.created_by,
            "created_via": run.maker.created_via,
            "api_client_id": run.maker.api_client_id,
        }
    )


async def read_leased(tx: Tx, leases: Sequence[Lease]) -> list[LeasedRun | None]:
    """Returns the leased runs with their automations, in order; None for a run that was not found."""
    rows = await tx.all(
        _LEASED,
        {
            "orgs": [lease.org for lease in leases],
            "runs": [lease.run for lease in leases],
            "test_now": tx.test_now,
        },
    )
    connected: dict[OrgId, Collection[IntegrationId]] = {}
    leased_runs: list[LeasedRun | None] = [None] * len(leases)
    for row in sorted(rows, key=lambda row: int(row["n"])):
        lease = leases[row["n"] - 1]
        if row["connected"] is not None:
            connected[lease.org] = frozenset(row["connected"])
        run = _decoded(row["run"])
        leased_runs[row["n"] - 1] = LeasedRun(
            lease,
            runs.record(run),
            transitions.state_of_row(run),
            automations.record(_decoded(row["automation"])),
            row["is_on"],
            connected[lease.org],
        )
    return leased_runs


async def begin_runs(tx: Tx, to_begin: Sequence[RunToBegin]) -> dict[RunId, datetime]:
    """Begins the runs and writes the first rows of their journals.

    Returns the start of each run that is still owned and queued; writes nothing for the others.
    """
    if not to_begin:
        return {}
    outputs = [steps.packed(run.start_value.output) for run in to_begin]
    if tx.dialect == "sqlite":
        begun = [await _begin(tx, run, output) for run, output in zip(to_begin, outputs, strict=True)]
        return {run.lease.run: tx.now for run, is_begun in zip(to_begin, begun, strict=True) if is_begun}
    arguments = {**columns(_BEGIN_COLUMNS, to_begin), "outputs": outputs, "test_now": tx.test_now}
    rows = await tx.all(_BEGIN_RUNS, arguments)
    return {to_begin[row["n"] - 1].lease.run: from_ms(row["present"]) for row in rows}


async def _begin(tx: Tx, run: RunToBegin, output: bytes) -> bool:
    """Begins one run (SQLite); returns False if it was cancelled or lost in the meantime."""
    lease = run.lease
    if not await transitions.start(tx, lease):
        return False
    if run.is_live:
        await streaks.record_run_began(tx, lease.org, run.automation)
    await steps.save_value(tx, lease.org, lease.run, value=run.start_value, output=output)
    return True


async def finish_runs(tx: Tx, to_finish: Sequence[RunToFinish]) -> list[FinishResult]:
    """Ends the runs successfully, each with its last step if any, and updates queue and streak.

    For a run to be cancelled, stores only its step; for a lost run, writes nothing.
    """
    rows = await tx.all(
        _FINISH,
        {
            **columns(_FINISH_COLUMNS, to_finish),
            **checkpoint_columns([run.checkpoint for run in to_finish], tx),
            "test_now": tx.test_now,
        },
    )
    results = {int(row["n"]): FinishResult(True, row["is_ended"], row["cancel_code"]) for row in rows}
    return [results.get(n, FinishResult(False, False, None)) for n in range(1, len(to_finish) + 1)]
