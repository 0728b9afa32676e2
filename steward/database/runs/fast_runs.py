"""Runs made by hand, taken up and ended in few round trips, together with others, on PostgreSQL alone.

A run is of the usual kind when nothing but its own rows has to be looked at; every other one is dealt with by
itself, by the verbs that know all cases (runs/start.py, runs/claim.py, runs/finish.py). Each statement is a
function that opens the wall itself to the organisations it is given.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from steward.database.automations import records as automations
from steward.database.engine.base import Tx, from_ms
from steward.database.runs import records as runs
from steward.database.runs import transitions as run_queue
from steward.database.runs.checkpoints import MEMBER, Point, unknown_paths
from steward.database.runs.transitions import Lease, RunState
from steward.model.account import Maker
from steward.model.automation import Automation
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId
from steward.model.run import Mode, Run, RunStatus, StartedBy

_STANDING = (
    "SELECT n, present, automation, is_apart, connected"
    " FROM steward_start_precheck(:orgs, :automations, :keys, :most, :test_now)"
)
_START = (
    "SELECT n, queued_at FROM steward_start_runs(:orgs, :runs, :automations, :modes, :keys, :shas,"
    " :most, :names,"
    " :versions, :templates, :template_versions, :plans, :persons, :vias, :clients, :test_now)"
)
_LEASED = "SELECT n, run, automation, is_on, connected FROM steward_claimed_runs(:orgs, :runs, :test_now)"
_BEGIN = (
    "SELECT n, present FROM steward_begin_runs(:orgs, :runs, :epochs, :automations, :live, :outputs,"
    " :test_now)"
)
_CLOSE = (
    "SELECT n, is_ended, cancel_code FROM steward_finish_runs(:orgs, :runs, :epochs, :automations, :live,"
    " :messages, :summaries, :results, :seqs, :names, :iterations, :attempts, :statuses, :changes, :wires,"
    " :mark, :outputs, :unknowns, :states, :test_now)"
)
_decoded = msgspec.json.Decoder().decode
_UNSET = dict.fromkeys(name.strip().partition(".")[2] for name in runs.COLUMNS.split(","))


@dataclass(frozen=True, slots=True)
class Standing:
    """What a run by hand of the usual kind is judged by; `present` is the database's clock."""

    automation: Automation
    connected: Collection[IntegrationId]
    present: datetime


@dataclass(frozen=True, slots=True)
class Making:
    """A run by hand to be made."""

    automation: Automation
    run: RunId
    mode: Mode
    key: str
    request_sha256: str
    maker: Maker


@dataclass(frozen=True, slots=True)
class Leased:
    """A leased run with its automation, as read in one go with others, and what it is judged by."""

    lease: Lease
    run: Run
    hot: RunState
    automation: Automation
    is_on: bool
    connected: Collection[IntegrationId]


@dataclass(frozen=True, slots=True)
class Beginning:
    """A judged run about to become running, and the first row of its journal."""

    leased: Leased
    is_live: bool
    output: bytes


@dataclass(frozen=True, slots=True)
class Success:
    """A run that walked to its end, and its last words; `summary` and `result` as JSON text. `point` is its
    last step, where that is not kept yet."""

    lease: Lease
    automation: AutomationId
    is_live: bool
    message: str | None
    summary: str | None
    result: str | None
    point: Point | None


class Closed(NamedTuple):
    """Whether the run was still held, whether it has ended, and the code of a wish to cancel it."""

    ours: bool
    ended: bool
    cancel: str | None


async def standing(
    tx: Tx, wanted: Sequence[tuple[OrgId, AutomationId, str]], *, max_waiting: int
) -> list[Standing | None]:
    """What runs by hand of these automations under these keys are judged by, in order; None for one that is
    not of the usual kind: not there, its key was used, or many wait."""
    rows = await tx.all(
        _STANDING,
        {
            "orgs": [org for org, _, _ in wanted],
            "automations": [automation for _, automation, _ in wanted],
            "keys": [key for _, _, key in wanted],
            "most": max_waiting,
            "test_now": tx.test_now,
        },
    )
    connected: dict[OrgId, Collection[IntegrationId]] = {}
    found: list[Standing | None] = [None] * len(wanted)
    for row in sorted(rows, key=lambda row: int(row["n"])):
        org = wanted[row["n"] - 1][0]
        if row["connected"] is not None:
            connected[org] = frozenset(row["connected"])
        if row["automation"] is not None and not row["is_apart"]:
            automation = automations.record(_decoded(row["automation"]))
            found[row["n"] - 1] = Standing(automation, connected[org], from_ms(row["present"]))
    return found


async def start(tx: Tx, making: Sequence[Making], *, max_waiting: int) -> list[Run]:
    """Makes runs by hand under their lanes' locks, all or none: raises when a key was used meanwhile or too
    many wait."""
    rows = await tx.all(
        _START,
        {
            "orgs": [one.automation.org for one in making],
            "runs": [one.run for one in making],
            "automations": [one.automation.id for one in making],
            "modes": [one.mode for one in making],
            "keys": [one.key for one in making],
            "shas": [one.request_sha256 for one in making],
            "most": max_waiting,
            "names": [one.automation.name for one in making],
            "versions": [one.automation.version for one in making],
            "templates": [one.automation.template_id for one in making],
            "template_versions": [one.automation.template_version for one in making],
            "plans": [one.automation.plan_version for one in making],
            "persons": [one.maker.created_by for one in making],
            "vias": [one.maker.created_via for one in making],
            "clients": [one.maker.api_client_id for one in making],
            "test_now": tx.test_now,
        },
    )
    queued = {row["n"]: row["queued_at"] for row in rows}
    return [_made(one, queued[number]) for number, one in enumerate(making, 1)]


def _made(one: Making, queued_at: int) -> Run:
    """The run as it was stored just now."""
    automation = one.automation
    return runs.record(
        _UNSET
        | {
            "org_id": automation.org,
            "id": one.run,
            "automation_id": automation.id,
            "mode": one.mode.value,
            "status": RunStatus.QUEUED.value,
            "last_seq": 0,
            "plan_version": automation.plan_version,
            "queued_at": queued_at,
            "automation_name": automation.name,
            "automation_version": automation.version,
            "template_id": automation.template_id,
            "template_version": automation.template_version,
            "started_by": StartedBy.HAND.value,
            "idempotency_key": one.key,
            "created_by": one.maker.created_by,
            "created_via": one.maker.created_via,
            "api_client_id": one.maker.api_client_id,
        }
    )


async def leased(tx: Tx, leases: Sequence[Lease]) -> list[Leased | None]:
    """The leased runs with their automations, in order; None for one that is not there."""
    rows = await tx.all(
        _LEASED,
        {
            "orgs": [lease.org for lease in leases],
            "runs": [lease.run for lease in leases],
            "test_now": tx.test_now,
        },
    )
    connected: dict[OrgId, Collection[IntegrationId]] = {}
    found: list[Leased | None] = [None] * len(leases)
    for row in sorted(rows, key=lambda row: int(row["n"])):
        lease = leases[row["n"] - 1]
        if row["connected"] is not None:
            connected[lease.org] = frozenset(row["connected"])
        run = _decoded(row["run"])
        found[row["n"] - 1] = Leased(
            lease,
            runs.record(run),
            run_queue.state_of_row(run),
            automations.record(_decoded(row["automation"])),
            row["is_on"],
            connected[lease.org],
        )
    return found


async def begin(tx: Tx, beginning: Sequence[Beginning]) -> dict[RunId, datetime]:
    """Makes the runs running, with their journal's first row; when, of those still held and queued."""
    if not beginning:
        return {}
    rows = await tx.all(
        _BEGIN,
        {
            "orgs": [one.leased.lease.org for one in beginning],
            "runs": [one.leased.lease.run for one in beginning],
            "epochs": [one.leased.lease.epoch for one in beginning],
            "automations": [one.leased.automation.id for one in beginning],
            "live": [one.is_live for one in beginning],
            "outputs": [one.output for one in beginning],
            "test_now": tx.test_now,
        },
    )
    return {beginning[row["n"] - 1].leased.lease.run: from_ms(row["present"]) for row in rows}


async def close(tx: Tx, ended: Sequence[Success]) -> list[Closed]:
    """Ends the runs well, each with its last step where it has one, with lane, promotion and failures in a
    row. One that is to be cancelled takes its step alone; of one that is lost nothing is written."""
    points = [one.point for one in ended]
    rows = await tx.all(
        _CLOSE,
        {
            "orgs": [one.lease.org for one in ended],
            "runs": [one.lease.run for one in ended],
            "epochs": [one.lease.epoch for one in ended],
            "automations": [one.automation for one in ended],
            "live": [one.is_live for one in ended],
            "messages": [one.message for one in ended],
            "summaries": [one.summary for one in ended],
            "results": [one.result for one in ended],
            "seqs": [point and point.row.seq for point in points],
            "names": [point and point.row.name for point in points],
            "iterations": [point and point.row.iteration for point in points],
            "attempts": [point and point.row.attempt for point in points],
            "statuses": [point and point.row.status for point in points],
            "changes": [point and point.row.changes_total for point in points],
            "wires": [point and point.row.wire for point in points],
            "mark": MEMBER,
            "outputs": [point and point.output for point in points],
            "unknowns": [point and unknown_paths(point.value, tx) for point in points],
            "states": [point and point.value.state for point in points],
            "test_now": tx.test_now,
        },
    )
    found = {int(row["n"]): Closed(True, row["is_ended"], row["cancel_code"]) for row in rows}
    return [found.get(n, Closed(False, False, None)) for n in range(1, len(ended) + 1)]
