"""The status of the service, its liveness and readiness, and its public keys."""

from collections.abc import Mapping
from datetime import timedelta
from itertools import accumulate

import msgspec

from steward.api.http.context import ServiceContext
from steward.api.http.envelope import CONTRACT_VERSION, ENCODER
from steward.api.http.operation import ApiCall, Operation, RawOperation, RawRequest, Reply
from steward.api.schema.responses import Count, Instant, PositiveInt, SchedulerStateStr
from steward.database.closed_periods import records as closed_periods
from steward.database.engine.base import Tx, ms
from steward.database.engine.disk_space import DiskSpace
from steward.database.engine.migrate import migrations
from steward.database.imports import records as imports
from steward.database.operator import status as stats
from steward.database.operator.status import DELAY_STEPS, SchedulerStats
from steward.model.account import Scope
from steward.model.instants import wire_time
from steward.model.refusals import Unavailable
from steward.scheduling.zones import tzdata_version

_DUE_FOR = timedelta(seconds=60)
_SILENT_FOR = timedelta(seconds=60)
_SHARE = 0.95
_OK = "ok"


class OrganizationCounts(msgspec.Struct):
    """The organization's counts, each to 10,000."""

    active: Count
    paused: Count
    waiting_approvals: Count
    queued_runs: Count


class Limits(msgspec.Struct):
    """The limits of the organization, and how much of each is used."""

    imports_kept: Count
    imports_allowed: Count
    calls_per_person: Count
    calls_per_organisation: Count


class StatusResponse(msgspec.Struct):
    """Versions, counts, limits and the delay of the scheduler."""

    service_version: str
    contract_version: PositiveInt
    time: Instant
    tzdata_version: str
    automations_enabled: bool
    frozen: bool
    counts: OrganizationCounts
    limits: Limits
    schedule_delay_seconds: float | None
    scheduler: SchedulerStateStr


async def get(tx: Tx, call: ApiCall) -> StatusResponse:
    """Responds to `GET /v1/automations/status` with versions, counts, limits and the scheduler's state."""
    rules = call.context.rules
    counts = await stats.counts(tx, call.actor.org)
    scheduler = await stats.scheduler(tx)
    return StatusResponse(
        service_version=rules.service_version,
        contract_version=CONTRACT_VERSION,
        time=wire_time(tx.now),
        tzdata_version=tzdata_version(),
        automations_enabled=True,  # callers of other organizations have been refused before
        frozen=await closed_periods.is_frozen(tx, call.actor.org),
        counts=OrganizationCounts(counts.active, counts.paused, counts.waiting_approvals, counts.queued_runs),
        limits=Limits(
            imports_kept=await imports.count(tx, call.actor.org),
            imports_allowed=rules.imports_kept,
            calls_per_person=rules.limit_person,
            calls_per_organisation=rules.limit_organization,
        ),
        schedule_delay_seconds=_delay(scheduler, ms(tx.now) // 60_000),
        scheduler="delayed" if _is_delayed(scheduler, tx) or _is_low(call.context.space) else "ok",
    )


async def healthz(raw_request: RawRequest, context: ServiceContext) -> Reply:
    """Responds with 200 while the process runs."""
    return Reply(200, b'{"status": "ok"}')


async def readiness(context: ServiceContext) -> dict[str, str]:
    """Checks database, migrations and keys; returns `ok` or the problem for each."""
    checks = dict.fromkeys(("database", "migrations", "keys"), _OK)
    try:
        applied = await context.engine.read(context.clock.now(), stats.applied_migrations, small=True)
        carried = {migration.version: migration.sha256 for migration in migrations(context.engine.dialect)}
        if not carried.items() <= applied.items():  # a newer release may have migrated it further
            checks["migrations"] = "The database is of another release. Run: steward migrate."
    except Unavailable:
        checks["database"] = "The database cannot be reached."
        checks["migrations"] = "Not known: the database cannot be reached."
    if not context.keys.is_usable:
        checks["keys"] = "The service's own keys are missing or cannot be opened."
    return checks


def is_ready(checks: Mapping[str, str]) -> bool:
    """Returns whether every check of `readiness` passes."""
    return all(words == _OK for words in checks.values())


async def readyz(raw_request: RawRequest, context: ServiceContext) -> Reply:
    """Responds with 200 when database, migrations and keys are ready, else 503 with the failing check."""
    checks = await readiness(context)
    if is_ready(checks):
        return Reply(200, ENCODER.encode({"status": "ready", "checks": checks}))
    return Reply(503, ENCODER.encode({"status": "not_ready", "checks": checks}), ((b"retry-after", b"5"),))


async def jwks(raw_request: RawRequest, context: ServiceContext) -> Reply:
    """Responds with the public keys that verify tokens."""
    return Reply(200, ENCODER.encode(context.keys.jwks))


def _delay(scheduler: SchedulerStats | None, minute: int) -> float | None:
    """Returns the 95th percentile of the last hour's delays in seconds: the upper bound of its bucket."""
    if scheduler is None:
        return None
    totals = [0] * (len(DELAY_STEPS) + 1)
    for at_minute, counted in scheduler.minutes:
        if minute - 60 < at_minute <= minute:
            totals = [total + count for total, count in zip(totals, counted, strict=False)]
    target = _SHARE * sum(totals)
    if not target:
        return None
    step = next(step for step, passed in enumerate(accumulate(totals)) if passed >= target)
    return float(DELAY_STEPS[min(step, len(DELAY_STEPS) - 1)])


def _is_low(space: DiskSpace | None) -> bool:
    """Returns whether the disk is nearly full."""
    return space is not None and space.is_low


def _is_delayed(scheduler: SchedulerStats | None, tx: Tx) -> bool:
    if scheduler is None:
        return False
    silent = tx.now - scheduler.written_at > _SILENT_FOR
    due = scheduler.oldest_due_at
    return silent or (due is not None and tx.now - due > _DUE_FOR)


OPERATIONS = (
    Operation(
        name="status.get",
        method="GET",
        path="/v1/automations/status",
        scope=Scope.READ,
        function=get,
        response=StatusResponse,
        summary="Status",
        small=True,
    ),
)


RAW_OPERATIONS = (
    RawOperation("GET", "/.well-known/jwks.json", jwks, "Public keys of tokens"),
    RawOperation("GET", "/healthz", healthz, "Whether the process answers"),
    RawOperation("GET", "/readyz", readyz, "Whether the service is ready"),
)
