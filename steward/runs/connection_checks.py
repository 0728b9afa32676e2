"""Brings a connection's own check forward after a run's call was refused because of its key."""

from collections.abc import Iterable
from functools import partial

from steward.database.accounts import connections
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.errors import ErrorKind
from steward.runs.worker_context import WorkerContext

_KEY_ERRORS = frozenset({ErrorKind.UNAUTHORIZED, ErrorKind.WRONG_ADDRESS})


async def schedule_check(
    ctx: WorkerContext,
    org: OrgId,
    integrations: Iterable[IntegrationId],
    *,
    kinds: Iterable[ErrorKind | None],
) -> None:
    """Schedules a check of the connections when one of the error `kinds` concerns their key."""
    connection_ids = set(integrations)
    if connection_ids and not _KEY_ERRORS.isdisjoint(kinds):
        soon = partial(connections.check_soon, org=org, integrations=connection_ids)
        await ctx.engine.write(ctx.clock.now(), soon, org=org)
