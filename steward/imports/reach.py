"""Computes which steps a run of an import reaches from its start and which never run."""

from collections.abc import Sequence
from dataclasses import dataclass

from steward.model.finding import Finding, FindingLevel
from steward.model.json import JsonObject
from steward.model.plan import DataMode, Plan, PlanTrigger, StepSource

_NAMED = 3  # names per sentence


@dataclass(frozen=True, slots=True)
class TriggerReach:
    """The number of steps that a run executes, of how many, and the trigger that they follow."""

    runs: int
    steps: int
    start: str | None

    def wire(self) -> JsonObject:
        """Returns the reach in its stored and API form."""
        return {"runs": self.runs, "steps": self.steps, "start": self.start}


def reach_of(plan: Plan) -> TriggerReach:
    """Counts the enabled, supported steps that follow the start."""
    runs = sum(step.origin is not None and step.origin.supported for step in plan.running())
    entry = plan.entry()
    return TriggerReach(runs, len(plan.steps), None if entry is None else entry.name)


def reach_findings(plan: Plan) -> list[Finding]:
    """Returns an error if no step runs, or a warning that names the steps the start does not reach."""
    entry = plan.entry()
    if entry is None:
        return []
    if not plan.running():
        return [Finding(None, FindingLevel.ERROR, "nothing_runs", _why_nothing_runs(plan, entry))]
    unreached = [step.name for step in plan.steps if step.origin is not None and _never_runs(step.origin)]
    if not unreached:
        return []
    is_one = len(unreached) == 1
    message = (
        f"{named(unreached)} {'does' if is_one else 'do'} not run: a run begins at “{entry.name}”, which "
        f"does not lead there. If you need {'this step' if is_one else 'these steps'}, connect "
        f"{'it' if is_one else 'them'} in {_tool(plan)}, or move {'it' if is_one else 'them'} to "
        "another workflow."
    )
    return [Finding(None, FindingLevel.WARNING, "parameter", message)]


def _never_runs(source: StepSource) -> bool:
    return not source.reachable and not source.disabled


def _why_nothing_runs(plan: Plan, entry: PlanTrigger) -> str:
    tool = _tool(plan)
    if entry.replaced is not None and entry.replaced.endswith("mcpTrigger"):
        return (
            "Its steps are tools that an AI agent calls, which cannot run here. "
            f"Put them behind a schedule or a form in {tool} and import it again."
        )
    if any(step.origin is not None and step.origin.reachable for step in plan.steps):
        return (
            f"Every step behind “{entry.name}” is switched off, so a run would do nothing. "
            f"Switch one on in {tool} and import it again."
        )
    return (
        f"Nothing follows the start of this workflow, so a run would do nothing. "
        f"Connect a step to “{entry.name}” in {tool} and import it again."
    )


def _tool(plan: Plan) -> str:
    return "Shopify Flow" if plan.mode is DataMode.ENVIRONMENT else "n8n"


def named(names: Sequence[str]) -> str:
    """Lists steps by name, abbreviated if there are many."""
    quoted = [f"“{name[:60]}”" for name in names]
    if len(quoted) <= _NAMED + 1:
        return " and ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
    return f"{', '.join(quoted[:_NAMED])} and {len(quoted) - _NAMED} more steps"
