"""A call of a run that the account refused for its key brings the connection's own check forward.

Whether the key is good is that check's to find out, and only after a second no (connectors 4).
"""

from collections.abc import Iterable
from functools import partial

from steward.database.accounts import connections
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.errors import ErrorKind
from steward.runs.worker_context import WorkerContext

_OF_KEYS = frozenset({ErrorKind.UNAUTHORIZED, ErrorKind.WRONG_ADDRESS})


async def look_soon(
    ctx: WorkerContext,
    org: OrgId,
    integrations: Iterable[IntegrationId],
    *,
    kinds: Iterable[ErrorKind | None],
) -> None:
    """Has the connections looked at when one of `kinds`, of errors, says that a key no longer opens."""
    asked = set(integrations)
    if asked and not _OF_KEYS.isdisjoint(kinds):
        soon = partial(connections.check_soon, org=org, integrations=asked)
        await ctx.engine.write(ctx.clock.now(), soon, org=org)
