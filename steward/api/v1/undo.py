"""The schemas of a run's undo and the body that starts one; the operation is in runs.py."""

from typing import Annotated

import msgspec
from pydantic import Field

from steward.api.http.context import EndpointRules
from steward.api.schema.fields import FromJson, IdempotencyKey, IdText, RequestBody, Unique
from steward.api.schema.responses import Count, Instant, UlidStr
from steward.database.engine.base import Row, Tx
from steward.model.instants import wire_time_or_none
from steward.model.limits import MAX_CHANGES
from steward.model.run import Mode
from steward.runs import undo as undoing
from steward.runs.undo import UndoRules


class UndoRecord(msgspec.Struct):
    """Whether a finished live run can be undone now, and what of it was; `why` it cannot."""

    possible: bool
    why: str | None
    changes: Count
    undoable: Count
    undone: Count
    until: Instant | None
    open_run_id: UlidStr | None
    run_ids: list[UlidStr]


class UndoBody(RequestBody):
    """Undo a run: the named changes, or all that can be undone."""

    idempotency_key: IdempotencyKey
    changes: Annotated[list[IdText], Field(min_length=1, max_length=MAX_CHANGES), Unique] | None = None
    mode: Annotated[Mode, FromJson] = Mode.LIVE


def rules_of(rules: EndpointRules) -> UndoRules:
    """Returns the settings of undo."""
    return UndoRules(rules.undo_for, rules.settle_quiet, rules.max_waiting_hand)


async def record_of(tx: Tx, run_row: Row, rules: EndpointRules) -> UndoRecord | None:
    """Returns the undo part of a run's record; None for test runs and runs that have not ended.

    The row is that of `runs.get_with_steps`.
    """
    facts = await undoing.facts_of_row(tx, run_row, rules_of(rules))
    if facts is None:
        return None
    return UndoRecord(
        possible=facts.obstacle is None,
        why=facts.obstacle,
        changes=facts.counts.changes,
        undoable=facts.counts.undoable,
        undone=facts.counts.undone,
        until=wire_time_or_none(facts.until),
        open_run_id=facts.open_run,
        run_ids=list(facts.runs),
    )
