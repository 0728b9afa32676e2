"""Periodic maintenance of the database: retention, partitions, disk space, and checks of audit logs."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

from steward.accounts import audit_check
from steward.database import due_rows
from steward.database.accounts import audit_heads
from steward.database.engine.base import LONG_SECONDS
from steward.database.engine.disk_space import DiskSpace
from steward.database.engine.wrapper import LongLimitEngine
from steward.database.org_span import EVERY_ORG, ORGANIZATIONS, next_orgs
from steward.model.ids import OrgId
from steward.runs.run_context import TaskContext
from steward.runs.tasks import retention
from steward.runs.tasks.retention import RetentionRules
from steward.runs.tasks.rows import process_rows

_CHECKED_LOGS = 20


async def apply_retention(
    ctx: TaskContext, rules: RetentionRules, *, after: int = 0, max_orgs: int = ORGANIZATIONS
) -> tuple[bool, int]:
    """Deletes expired rows of the next `max_orgs` organizations behind the number `after`.

    Returns whether a table had as many as are deleted at once, and the `after` of the next pass.
    """
    full: set[str] = set()
    now = ctx.clock.now()
    orgs = await ctx.engine.read(now, partial(next_orgs, after=after, limit=max_orgs))
    if orgs is None:  # none is left: from the first one again
        orgs = await ctx.engine.read(now, partial(next_orgs, after=0, limit=max_orgs)) or EVERY_ORG
    rules = replace(rules, orgs=orgs)
    engine = LongLimitEngine(ctx.engine, LONG_SECONDS)

    async def sweep(org: OrgId, table: str) -> None:
        removed = await retention.SWEEPS[table](engine, ctx.clock.now(), rules)
        if removed:
            ctx.metrics.count("steward_rows_removed_total", removed, table=table)
        if removed >= retention.MAX_PER_PASS.get(table, retention.ROWS):
            full.add(table)

    late = await ctx.engine.read(ctx.clock.now(), partial(due_rows.deferred_keys, task="retention"))
    due = [(OrgId(0), table) for table in retention.SWEEPS if table not in late]
    await process_rows(ctx, "retention", due, sweep)
    await retention.release_space(ctx.engine, ctx.clock.now(), rules)
    return bool(full), after if full else orgs.last


async def rotate_partitions(ctx: TaskContext) -> bool:
    """Creates and drops monthly partitions of the tables that grow with every run."""
    engine = LongLimitEngine(ctx.engine, LONG_SECONDS)
    created, dropped = await retention.rotate_partitions(engine, ctx.clock.now())
    if created or dropped:
        ctx.log.info("partitions_rotated", created=created, dropped=dropped)
    return False


async def watch_space(ctx: TaskContext, space: DiskSpace) -> bool:
    """Measures the disk, and while it is full tests whether there is room again."""
    space.measure()
    ctx.metrics.set("steward_database_bytes", space.database_bytes)
    ctx.metrics.set("steward_disk_free_ratio", space.free_share)
    if not space.is_full:
        space.make_reserve()
    elif await space.recheck(ctx.engine, ctx.clock.now()):
        ctx.log.warning("disk_recovered", free=round(space.free_share, 3))
        ctx.wake("ready")
        ctx.wake("due")
    else:
        ctx.log.error("disk_full", free=round(space.free_share, 3))
    ctx.metrics.set("steward_disk_full", float(space.is_full))
    return False


async def check_audit_logs(ctx: TaskContext, anchor_every: timedelta) -> bool:
    """Checks the chains of audit entries that are due; returns True when more are.

    See docs/design/audit.md#checks.
    """
    now = ctx.clock.now()
    orgs = await ctx.engine.read(now, partial(audit_heads.due, limit=_CHECKED_LOGS))
    check = partial(audit_check.check_next, anchor_every=anchor_every)
    engine = LongLimitEngine(ctx.engine, LONG_SECONDS)
    for org in orgs:
        step = await engine.write(now, partial(check, org=org), org=org)
        if step.fault is not None:
            ctx.metrics.count("steward_audit_broken_total")
            ctx.log.error("audit_broken", org=org, seq=step.fault.seq, reason=step.fault.how)
        if step.anchor is not None:
            ctx.log.info("audit_head", org=org, seq=step.anchor.seq, hash=step.anchor.hash)
    return len(orgs) == _CHECKED_LOGS
