"""Acts on the due rows of a periodic task; a row that fails is deferred."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from steward.database import due_rows
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable
from steward.runs.run_context import TaskContext


def in_transaction(
    ctx: TaskContext, act: Callable[..., Awaitable[None]]
) -> Callable[[OrgId, Any], Awaitable[None]]:
    """Wraps `act`, so that each row gets its own transaction."""

    async def run_one(org: OrgId, key: Any) -> None:
        await ctx.engine.write(ctx.clock.now(), partial(act, org=org, key=key), org=org)

    return run_one


async def process_rows(
    ctx: TaskContext,
    task: str,
    rows: Sequence[tuple[OrgId, Any]],
    act: Callable[[OrgId, Any], Awaitable[None]],
) -> int:
    """Acts on every row and returns how many there were; a row that raises is deferred and stops no other."""
    done = 0
    for org, key in rows:
        try:
            await act(org, key)
            done += 1
        except Unavailable:
            raise  # a lost or slow database, which no row is at fault for; the next pass tries again
        except Exception as error:  # one faulty row must not keep the others waiting
            message = f"{type(error).__name__}: {error}"
            defer = partial(due_rows.defer, task=task, key=key, message=message)
            failures = await ctx.engine.write(ctx.clock.now(), defer)
            if failures:
                ctx.metrics.count("steward_rows_deferred_total", task=task)
            ctx.log.error("row_deferred", error, task=task, org=org, key=key, failures=failures)
    return done
