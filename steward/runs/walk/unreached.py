"""Writes rows of the steps that a workflow's run will not reach any more."""

from collections.abc import Mapping

from steward.model.plan import Plan, PlanStep
from steward.runs.walk.workflow_journal import WorkflowJournal
from steward.steps.workflow.step_types import UNKNOWN_IN_TEST
from steward.steps.workflow.walk import WalkResult

# Codes of executions without output, and the message of the steps that follow them.
_LEFT_OUT: Mapping[str, str] = {
    UNKNOWN_IN_TEST: "A step before it was skipped in this test run, so it is unknown whether it would run.",
    "not_approved": "None of the changes before it was approved, so it did not run.",
    "nothing_applied": "None of the changes before it was made, so it did not run.",
}


async def skip_unreached(journal: WorkflowJournal, walked: WalkResult) -> None:
    """Writes rows of the steps that this run will not reach any more."""
    for code, words in _LEFT_OUT.items():
        for step in _not_reached(journal.walk.plan, journal.walk.step_messages, code):
            await journal.skip(step, code, words)
    for step in walked.starved:
        await journal.skip(step, "input_missing", "One of its inputs never arrived, so it did not run.")


def _not_reached(
    plan: Plan, step_messages: Mapping[str, tuple[str | None, str | None]], code: str
) -> list[PlanStep]:
    """Returns the steps after executions that ended with this code and that did not run."""
    open_ = [key.partition("\x00")[0] for key, (step_code, _) in step_messages.items() if step_code == code]
    executed_steps = {key.partition("\x00")[0] for key in step_messages}
    unreached: set[str] = set()
    while open_:
        name = open_.pop()
        following = {edge.target for edge in plan.edges if edge.source == name} - unreached - executed_steps
        unreached |= following
        open_ += following
    return [step for step in plan.steps if step.name in unreached]
