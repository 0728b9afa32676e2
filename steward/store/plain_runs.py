"""Runs made by hand, taken up and ended in few round trips, together with others, on PostgreSQL alone.

A run is of the usual kind when nothing but its own rows has to be looked at; every other one is dealt with by
itself, by the verbs that know all cases (runs/claim.py, runs/finish.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from steward.model.account import Maker
from steward.model.automation import Automation
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.run import Mode, Run
from steward.store import automations, run_queue, runs
from steward.store.engine import Tx
from steward.store.run_queue import Hot, Lease

_RUNS = (
    f"SELECT {runs.COLUMNS}, runs.queue, runs.attempt, runs.cancel_code, runs.leased_ms"
    " FROM unnest(CAST(:orgs AS bigint[]), CAST(:runs AS text[])) AS k (org_id, run_id)"
    " JOIN runs ON runs.org_id = k.org_id AND runs.id = k.run_id"
    " JOIN run_facts AS f ON f.org_id = runs.org_id AND f.run_id = runs.id"
)
_AUTOMATIONS = (
    f"{automations.JOINED} JOIN unnest(CAST(:orgs AS bigint[]), CAST(:automations AS text[]))"
    " AS k (org_id, automation_id) ON k.org_id = a.org_id AND k.automation_id = a.id"
)
_BEGIN = "SELECT n FROM steward_runs_begin(:orgs, :runs, :epochs, :automations, :live, :outputs)"
_SUCCEED = (
    "SELECT n FROM steward_runs_succeed(:orgs, :runs, :epochs, :automations, :live, :messages, :summaries,"
    " :results)"
)


_RUN_NOW = (
    "SELECT steward_run_now(:org, :run, :automation, :mode, :key, :sha, :most, :name, :version, :template,"
    " :template_version, :plan, :person, :via, :client) AS outcome"
)
MadeNow = Literal["made", "kept", "full"]


@dataclass(frozen=True, slots=True)
class Leased:
    """A leased run with its automation, as read in one go with others."""

    lease: Lease
    run: Run
    hot: Hot
    automation: Automation


@dataclass(frozen=True, slots=True)
class Beginning:
    """A judged run about to become running, and the first row of its journal."""

    leased: Leased
    is_live: bool
    output: bytes


@dataclass(frozen=True, slots=True)
class Success:
    """A run that walked to its end, and its last words; `summary` and `result` as JSON text."""

    lease: Lease
    automation: AutomationId
    is_live: bool
    message: str | None
    summary: str | None
    result: str | None


async def run_now(
    tx: Tx,
    automation: Automation,
    *,
    run: RunId,
    mode: Mode,
    key: str,
    request_sha256: str,
    max_waiting: int,
    maker: Maker,
) -> MadeNow:
    """Makes a run by hand under its lane's lock, unless its key was used before or too many wait."""
    row = await tx.one(
        _RUN_NOW,
        {
            "org": automation.org,
            "run": run,
            "automation": automation.id,
            "mode": mode,
            "key": key,
            "sha": request_sha256,
            "most": max_waiting,
            "name": automation.name,
            "version": automation.version,
            "template": automation.template_id,
            "template_version": automation.template_version,
            "plan": automation.plan_version,
            "person": maker.created_by,
            "via": maker.created_via,
            "client": maker.api_client_id,
        },
    )
    assert row is not None
    made: MadeNow = row["outcome"]
    return made


async def read(tx: Tx, leases: Sequence[Lease]) -> list[Leased | None]:
    """The leased runs with their automations, in order; None for one that is not there."""
    orgs, ids = [lease.org for lease in leases], [lease.run for lease in leases]
    rows = await tx.all(_RUNS, {"orgs": orgs, "runs": ids})
    found = {row["id"]: (runs.record(row), run_queue.hot_of(row)) for row in rows}
    wanted = sorted({(run.org, run.automation_id) for run, _ in found.values()})
    named = await tx.all(
        _AUTOMATIONS, {"orgs": [org for org, _ in wanted], "automations": [key for _, key in wanted]}
    )
    known = {(OrgId(row["org_id"]), row["id"]): automations.record(row) for row in named}
    leased: list[Leased | None] = []
    for lease in leases:
        pair = found.get(lease.run)
        automation = None if pair is None else known.get((lease.org, pair[0].automation_id))
        leased.append(None if pair is None or automation is None else Leased(lease, *pair, automation))
    return leased


async def begin(tx: Tx, beginning: Sequence[Beginning]) -> set[str]:
    """Makes the runs running, with their journal's first row; those that were still held and queued."""
    if not beginning:
        return set()
    rows = await tx.all(
        _BEGIN,
        {
            "orgs": [one.leased.lease.org for one in beginning],
            "runs": [one.leased.lease.run for one in beginning],
            "epochs": [one.leased.lease.epoch for one in beginning],
            "automations": [one.leased.automation.id for one in beginning],
            "live": [one.is_live for one in beginning],
            "outputs": [one.output for one in beginning],
        },
    )
    return {beginning[row["n"] - 1].leased.lease.run for row in rows}


async def succeed(tx: Tx, ended: Sequence[Success]) -> list[bool]:
    """Ends the runs well, with lane, promotion and failures in a row; False for one that is lost: nothing was
    written of it."""
    rows = await tx.all(
        _SUCCEED,
        {
            "orgs": [one.lease.org for one in ended],
            "runs": [one.lease.run for one in ended],
            "epochs": [one.lease.epoch for one in ended],
            "automations": [one.automation for one in ended],
            "live": [one.is_live for one in ended],
            "messages": [one.message for one in ended],
            "summaries": [one.summary for one in ended],
            "results": [one.result for one in ended],
        },
    )
    done = {row["n"] for row in rows}
    return [number in done for number in range(1, len(ended) + 1)]
