"""A workflow's run: walks its steps with the run's rows as the journal."""

from steward.database.runs.steps import TooMuchData
from steward.model.plan import DataMode
from steward.outbound.errors import CallError
from steward.runs.checkpoint import EndedStep
from steward.runs.walk.state import Walk
from steward.runs.walk.unreached import skip_unreached
from steward.runs.walk.workflow_environment import walk_context
from steward.runs.walk.workflow_journal import WorkflowJournal
from steward.runs.walk.workflow_trigger import flow_data, start_items
from steward.steps.shopify_flow.walk import walk_flow
from steward.steps.workflow.memory_budget import MemoryBudgetExceeded
from steward.steps.workflow.plan_order import Execution
from steward.steps.workflow.repeats import repeating_steps
from steward.steps.workflow.walk import WalkResult, walk


async def advance(walk_: Walk) -> EndedStep | None:
    """Takes every step that can be taken now; returns the failed one that stopped it, or None."""
    plan = walk_.plan
    entry = plan.entry()
    if entry is None:
        return None
    context = walk_context(walk_)
    journal = WorkflowJournal(walk_, repeating_steps(plan))
    is_flow = plan.mode is DataMode.ENVIRONMENT
    items = [] if is_flow else await start_items(walk_, entry)
    try:
        if is_flow:
            data = flow_data(walk_, entry)
            walked = await walk_flow(plan, entry.name, data, context=context, journal=journal)
        else:
            walked = await walk(plan, entry.name, items, context=context, journal=journal)
    except CallError as error:
        return await journal.call_failed(error)
    except MemoryBudgetExceeded:
        await journal.fail_too_much_data()
        raise TooMuchData from None
    finally:
        walk_.ctx.progress.pop(walk_.run.id, None)
    if walked.failed is not None:
        return await _failed_execution(journal, walked, walked.failed)
    if not walked.held:
        await skip_unreached(journal, walked)
    return None


async def _failed_execution(journal: WorkflowJournal, walked: WalkResult, failed: Execution) -> EndedStep:
    """Returns the row of the execution that ended the walk."""
    if walked.limit_exceeded:
        words = "The workflow ran more than 10,000 steps and was stopped. Check how its loops end."
        return await journal.fail(failed, "step_failed", words)
    failure = walked.failure
    words = (failure.error if failure is not None else None) or "This step failed."
    code = (failure.code if failure is not None else None) or "step_failed"
    return journal.failed_row(failed, code, words)
