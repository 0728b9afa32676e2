"""Builds a run's summary: numbers from its steps and changes, text from its template."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from steward import templates
from steward.database.engine.base import Tx
from steward.database.runs import changes, steps
from steward.database.runs import records as runs
from steward.database.runs.steps import StepValue, ValueState, execution_key
from steward.model.change import Outcome
from steward.model.ids import OrgId, RunId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import PlanStep, StepKind
from steward.model.run import Counts, Mode, Run, RunStatus
from steward.run_queue.undo_plan import UNDO
from steward.templates.base import OTHER_OUTCOMES, EndedRun, RunSummary, Template, sentences

START = "@start"
# Codes of runs that completed their plan but failed because of their changes' outcomes.
_VERDICTS = frozenset({"outcome_unknown", "some_changes_failed", "all_conflicted"})
# The round of messages sent during their step; no approval contains them.
NO_APPROVAL_ROUND = 0
_SETTLED = (ValueState.DONE, ValueState.SKIPPED)


@dataclass(frozen=True)
class RunTotals:
    """The recorded results of a run: its steps' counts and outputs, and the outcome of each change.

    Steps and changes are keyed by execution (`execution_key`). Workflows, and templates no longer offered,
    have a generic text.
    """

    mode: Mode
    template: Template | None
    inputs: JsonObject
    journal: Mapping[str, StepValue]
    executions: Collection[str]
    counted: Counts  # of the steps themselves, without their changes
    outcomes: Mapping[str, Sequence[Outcome]]
    sends: Collection[str]  # executions whose changes are messages

    @cached_property
    def counts(self) -> Counts:
        """The run's numbers."""
        total = self.counted
        for execution, outcomes in self.outcomes.items():
            tally = Counter(outcomes)
            total = total.plus(change_counts(tally, sends=execution in self.sends))
            total = total.plus(Counts(proposed=len(outcomes)))
        return total

    @cached_property
    def run_summary(self) -> RunSummary:
        """The text and result of a run that waits or has completed its plan."""
        if self.template is None:
            return self._generic_summary()
        ended = EndedRun(
            mode=self.mode,
            inputs=self.inputs,
            outputs=outputs(self.journal),
            counts=self.counts,
            outcomes=self.outcomes,
        )
        return self.template.finish(ended)

    def summary(self, status: RunStatus, code: str | None, message: str | None) -> JsonObject:
        """Returns the summary of a run that waits or ends with this status."""
        return {"text": self._text(status, code, message), "counts": self.counts.wire()}

    def _text(self, status: RunStatus, code: str | None, message: str | None) -> str:
        lead = message if status is RunStatus.FAILED and code not in _VERDICTS else None
        if self._has_decided():
            return sentences(lead, self.run_summary.text)
        verb = "Cancelled" if status is RunStatus.CANCELLED else "Stopped"
        return sentences(lead, f"{verb} {self._position()}; {self._nothing_done_phrase()}.")

    def _has_decided(self) -> bool:
        """Returns whether the template's reading and deciding steps, which its text needs, have run."""
        if self.template is None:
            return True
        needed_kinds = (StepKind.READ, StepKind.DECIDE)
        return all(self._has_ended(step) for step in self.template.plan.steps if step.kind in needed_kinds)

    def _has_ended(self, step: PlanStep) -> bool:
        value = self.journal.get(step.name)
        return value is not None and value.state in _SETTLED

    def _position(self) -> str:
        """Returns how far the run got in its plan, such as `while reading the products`."""
        assert self.template is not None
        step = next(planned for planned in self.template.plan.steps if not self._has_ended(planned))
        verb, _, action_object = step.title.partition(" ")
        return (
            f"while reading {action_object}"
            if verb == "Read" and action_object
            else f"at the step “{step.title}”"
        )

    def _nothing_done_phrase(self) -> str:
        assert self.template is not None
        kinds = {step.kind for step in self.template.plan.steps}
        verbs = ["compared" if StepKind.CHANGE in kinds else "worked out"]
        verbs += ["changed"] if StepKind.CHANGE in kinds else []
        verbs += ["sent"] if StepKind.SEND in kinds else []
        first, *more = [f"nothing was {verb}" for verb in verbs]
        return " and ".join([", ".join([first, *more[:-1]]), *more[-1:]])

    def _generic_summary(self) -> RunSummary:
        """Returns a generic summary: one sentence about the run and which steps ran."""
        phrases = self._counts_phrase()
        step_count = len(self.executions)
        text = f"{step_count} {'step' if step_count == 1 else 'steps'} ran" + (
            f": {phrases}." if phrases else "."
        )
        names = sorted({execution.partition("\x00")[0] for execution in self.executions})
        return RunSummary(text, {"steps_run": step_count, "steps": names[:200]})

    def _counts_phrase(self) -> str:
        """Returns the run's results in numbers, such as `12 read, 3 changed`."""
        counts = self.counts
        tally = Counter(outcome for outcomes in self.outcomes.values() for outcome in outcomes)
        waiting = tally[Outcome.PROPOSED] + tally[Outcome.APPROVED]
        numbers = [
            (counts.read, "read"),
            (counts.applied, "changed"),
            (counts.sent, "sent"),
            (counts.unchanged, "already up to date"),
            (tally[Outcome.REFUSED_TEST], "would change"),
            (waiting, "proposed"),
        ]
        other_outcomes = {
            kind: words for kind, words in OTHER_OUTCOMES.items() if kind is not Outcome.UNCHANGED
        }
        numbers += [(tally[kind], words) for kind, words in other_outcomes.items()]
        return ", ".join(f"{number} {words}" for number, words in numbers if number)


def outputs(journal: Mapping[str, StepValue]) -> dict[str, JsonValue]:
    """Returns the outputs of steps so far, by execution; for held steps, the expected outputs."""
    return {
        name: value.visible_output
        for name, value in journal.items()
        if not name.startswith("@") and not (value.state is ValueState.FAILED and value.output is None)
    }


def change_counts(tally: Mapping[Outcome, int], *, sends: bool) -> Counts:
    """Returns the outcomes of a step's changes as counts; with `sends`, applied ones count as sent."""
    done = tally.get(Outcome.APPLIED, 0)
    return Counts(
        applied=0 if sends else done,
        sent=done if sends else 0,
        unchanged=tally.get(Outcome.UNCHANGED, 0),
        declined=tally.get(Outcome.DECLINED, 0),
        conflicts=tally.get(Outcome.CONFLICT, 0),
        failed=tally.get(Outcome.FAILED, 0),
        unknown=tally.get(Outcome.UNKNOWN, 0),
    )


def step_counts(row: Counts, *, status: str, has_changes: bool) -> Counts:
    """Returns the counts in a step's row, without those of its changes, which have their own records."""
    has_outcomes = has_changes and status not in ("held", "refused")
    return Counts(read=row.read, matched=row.matched, unchanged=0 if has_outcomes else row.unchanged)


async def of_run(tx: Tx, org: OrgId, run_id: RunId, *, without_template: bool = False) -> RunTotals:
    """Reads the totals of a started run; `without_template` gives a generic text."""
    run = await runs.get(tx, org, run_id)
    values = [] if without_template else await steps.values(tx, org, run_id)
    journal = {execution_key(value.name, value.iteration): value for value in values}
    outcomes, sends = await outcomes_of(tx, org, run_id)
    counted = Counts()
    executions = {name for name in journal if not name.startswith("@")}
    for iteration, wire in await steps.rows_of(tx, org, run_id):
        row = msgspec.json.decode(wire)
        execution = execution_key(row["name"], iteration)
        executions.add(execution)
        counts = step_counts(Counts(**row["counts"]), status=row["status"], has_changes=execution in outcomes)
        counted = counted.plus(counts)
        if row["kind"] == StepKind.SEND:
            sends.add(execution)
    start = journal.get(START)
    return RunTotals(
        mode=run.mode,
        template=None if without_template else _template_of(run),
        inputs=start.output["inputs"] if start is not None and isinstance(start.output, dict) else {},
        journal=journal,
        executions=executions,
        counted=counted,
        outcomes=outcomes,
        sends=sends,
    )


def _template_of(run: Run) -> Template | None:
    return templates.find(run.template_id) if run.undo_of is None else UNDO


async def outcomes_of(tx: Tx, org: OrgId, run: RunId) -> tuple[dict[str, list[Outcome]], set[str]]:
    """Returns the outcomes of a run's changes by execution, and the executions without an approval.

    The latter are those whose changes all went without one.
    """
    outcomes: dict[str, list[Outcome]] = {}
    sends: set[str] = set()
    steps_with_approval: set[str] = set()
    for change in await changes.outcomes(tx, org, run):
        execution = execution_key(change.name, change.iteration)
        outcomes.setdefault(execution, []).append(change.outcome)
        (sends if change.round == NO_APPROVAL_ROUND else steps_with_approval).add(execution)
    return outcomes, sends - steps_with_approval
