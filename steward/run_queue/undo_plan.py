"""The built-in plan of an undo run, used in place of the automation's template or workflow."""

from collections import Counter

from steward.model.change import Outcome
from steward.model.json import JsonObject
from steward.model.run import Mode
from steward.model.schedule import Cadence, Schedule
from steward.steps import put_back
from steward.steps.put_back import PUT_BACK, READ, ReadValues
from steward.templates import base
from steward.templates.base import Category, EndedRun, RunSummary, Template

_ANY: JsonObject = {"type": "object"}
_NOT_PUT_BACK = (
    (Outcome.UNCHANGED, "already at their earlier value"),
    (Outcome.CONFLICT, "edited since and left unchanged"),
    (Outcome.DECLINED, "left out"),
    (Outcome.FAILED, "failed"),
    (Outcome.UNKNOWN, "unknown"),
    (Outcome.EXPIRED, "not approved in time"),
    (Outcome.CANCELLED, "cancelled"),
)


def _finish(ended: EndedRun) -> RunSummary:
    """Reports how much was or would be put back, and why the rest was not."""
    outcomes = ended.outcomes.get(PUT_BACK, ())
    cannot = ended.output(READ, ReadValues).cannot
    tally = Counter(outcomes)
    result: JsonObject = {
        "put_back": tally[Outcome.APPLIED],
        "unchanged": tally[Outcome.UNCHANGED],
        "left": tally[Outcome.CONFLICT],
        "failed": tally[Outcome.FAILED] + tally[Outcome.UNKNOWN],
        "cannot_be_undone": cannot,
    }
    if not ended.has_ended(PUT_BACK):
        return RunSummary("Nothing was put back.", result)
    not_undone = [f"{tally[outcome]} {words}" for outcome, words in _NOT_PUT_BACK if tally[outcome]]
    not_undone += [f"{cannot} cannot be undone"] if cannot else []
    reasons = f": {', '.join(not_undone)}" if not_undone else ""
    return RunSummary(f"{_lead(ended, tally, len(outcomes) + cannot)}{reasons}.", result)


def _lead(ended: EndedRun, tally: Counter[Outcome], total: int) -> str:
    planned = tally[Outcome.PROPOSED] + tally[Outcome.APPROVED] + tally[Outcome.REFUSED_TEST]
    if planned and (ended.mode is Mode.TEST or tally[Outcome.PROPOSED]):
        return f"{planned} of {base.counted(total, 'change')} would be put back"
    if set(tally) <= {Outcome.UNCHANGED, Outcome.CONFLICT} and not tally[Outcome.APPLIED]:
        return "Nothing was left to put back"
    return f"Put back {tally[Outcome.APPLIED]} of {base.counted(total, 'change')}"


UNDO: Template = base.define(
    "undo",
    "Undo",
    "Puts back what a run changed.",
    category=Category.PRODUCTS,
    inputs=_ANY,
    result=_ANY,
    steps=(
        base.read_step(READ, "Read the current values", put_back.read),
        base.change_step(PUT_BACK, "Put back", put_back.put_back),
    ),
    schedule=Schedule(Cadence.MANUAL),
    example={},
    finish=_finish,
)
