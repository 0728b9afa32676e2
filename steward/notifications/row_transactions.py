"""Processes rows of one organization in one transaction; a row that fails does not stop others."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from steward.database import due_rows
from steward.database.engine.base import Tx
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable
from steward.notifications.context import NotificationContext

K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class RowsAct(Protocol[K_contra, T_co]):
    """A transaction over several rows of an organization; returns its results."""

    def __call__(self, tx: Tx, *, org: OrgId, keys: Sequence[K_contra]) -> Awaitable[Sequence[T_co]]: ...


async def in_one_transaction(
    ctx: NotificationContext,
    org: OrgId,
    keys: Sequence[K],
    act: RowsAct[K, T],
    defer: Callable[[OrgId, K, Exception], Awaitable[None]],
) -> list[T]:
    """Runs `act` for all rows in one transaction or, if that fails, for each row in its own.

    Returns the results of `act`; passes a row that fails on its own to `defer`. Raises errors of the process
    and of the database itself.
    """
    write = ctx.engine.write(ctx.clock.now(), partial(act, org=org, keys=keys), org=org)
    results = await due_rows.attempt(write)
    if not isinstance(results, Exception):
        return list(results)
    if len(keys) == 1:
        await defer(org, keys[0], results)
        return []
    return [result for key in keys for result in await in_one_transaction(ctx, org, [key], act, defer)]


def row_error(error: BaseException) -> Exception:
    """Returns an error caused by a row; raises one of the process or of the database itself."""
    if isinstance(error, Unavailable) or not isinstance(error, Exception):
        raise error
    return error


async def defer_row(ctx: NotificationContext, task: str, org: OrgId, key: str, error: Exception) -> None:
    """Defers a row that failed because of a defect, so that it does not stop others."""
    message = f"{type(error).__name__}: {error}"
    failures = await ctx.engine.write(
        ctx.clock.now(), partial(due_rows.defer, task=task, key=key, message=message)
    )
    ctx.log.error("row_deferred", error, task=task, org=org, key=key, failures=failures)
