"""Brings a connection's own check forward after a run's call was refused because of its key."""

from collections.abc import Iterable
from functools import partial

from steward.clock import Clock
from steward.database.accounts import connections
from steward.database.engine.base import Engine
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.errors import ErrorKind

_KEY_ERRORS = frozenset({ErrorKind.UNAUTHORIZED, ErrorKind.WRONG_ADDRESS})


async def schedule_check(
    engine: Engine,
    clock: Clock,
    org: OrgId,
    integrations: Iterable[IntegrationId],
    *,
    kinds: Iterable[ErrorKind | None],
) -> None:
    """Schedules a check of the connections when one of the error `kinds` concerns their key."""
    connection_ids = set(integrations)
    if connection_ids and not _KEY_ERRORS.isdisjoint(kinds):
        soon = partial(connections.check_soon, org=org, integrations=connection_ids)
        await engine.write(clock.now(), soon, org=org)
