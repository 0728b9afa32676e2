"""Tests what a run that stopped early says, for every template: only what it knows."""

import re
from typing import Any

import pytest

from steward.database.runs.steps import StepValue, ValueState
from steward.model.change import Outcome
from steward.model.plan import StepKind
from steward.model.run import Counts, Mode, RunStatus
from steward.run_queue.summaries import RunTotals
from steward.templates import ALL
from steward.templates.base import Template
from tests.fake_clock import FakeClock
from tests.templates.full_store import BY_ID, INPUTS, PLATFORMS, FullStore
from tests.templates.stage import StageRun

STOPS = (RunStatus.CANCELLED, RunStatus.FAILED, RunStatus.EXPIRED, RunStatus.REFUSED)
# Words that say that all was compared and nothing had to be done.
ALL_IS_WELL = ("differs from", "had to be put back", "Nothing to tell", "holds this list already")


def stopped(
    template: Template,
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    *,
    outcomes: dict[str, list[Outcome]] | None = None,
    mode: Mode = Mode.LIVE,
) -> RunTotals:
    """Returns the record of a run in which only the steps with an output have ended."""
    done = {name: StepValue(name, "", 1, ValueState.DONE, output) for name, output in outputs.items()}
    return RunTotals(mode, template, inputs, done, done, Counts(), outcomes or {}, ())


def texts(record: RunTotals) -> list[str]:
    """Returns the summary of the run for each way to stop."""
    summary_texts = [str(record.summary(status, "by_person", "Because.")["text"]) for status in STOPS]
    assert summary_texts[1].startswith("Because. ")
    return summary_texts


@pytest.mark.parametrize("template", ALL, ids=lambda item: item.template_id)
def test_a_run_that_did_not_decide_claims_nothing(template: Template) -> None:
    """Names the step that was reading, without numbers. Says that nothing was compared, changed or sent."""
    names = [step.name for step in template.plan.steps]
    judging = [step for step in template.plan.steps if step.kind in (StepKind.READ, StepKind.DECIDE)]
    kinds = {step.kind for step in template.plan.steps}
    for ended in range(len(judging)):
        for mode in Mode:
            outputs: dict[str, Any] = {name: {"read": 7} for name in names[:ended]}
            for text in texts(stopped(template, {}, outputs, mode=mode)):
                where = template.plan.steps[ended].title.removeprefix("Read ")
                assert where in text
                assert re.search(r"\d", text) is None, text
                assert ("nothing was compared" in text) == (StepKind.CHANGE in kinds)
                assert ("nothing was changed" in text) == (StepKind.CHANGE in kinds)
                assert ("nothing was sent" in text) == (StepKind.SEND in kinds)
    [first, *_] = texts(stopped(template, {}, {}))
    assert first.startswith(("Cancelled while reading ", "Cancelled at the step “"))


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_decided_run_shows_its_findings_and_what_was_written(platform: str, clock: FakeClock) -> None:
    """Says nothing of success before the changes, and afterwards counts the cancelled ones."""
    store = FullStore(platform, clock, 20)
    await store.fill()
    for name in INPUTS:
        template = BY_ID[name]
        if template.facts.platforms and platform not in template.facts.platforms:
            continue
        await clock.advance(60)
        stage = store.stage(name)
        run = await clock.through(stage.run(outcome=Outcome.CANCELLED))
        inputs: dict[str, Any] = dict(template.check_inputs(stage.inputs).inputs)
        _assert_told(template, inputs, run)
    await store.close()


def _assert_told(template: Template, inputs: dict[str, Any], run: StageRun) -> None:
    steps = template.plan.steps
    acting = next(step for step in steps if step.kind in (StepKind.CHANGE, StepKind.SEND))
    before = {each_step.name: run.outputs[each_step.name] for each_step in steps[: steps.index(acting)]}
    for text in texts(stopped(template, inputs, before)):
        assert not any(words in text for words in ALL_IS_WELL), text
    proposed = len(run.proposals)
    if acting.kind is StepKind.SEND or not proposed:
        return
    after = {**before, acting.name: run.outputs[acting.name]}
    for applied in (0, proposed // 2, proposed):
        outcomes = [Outcome.APPLIED] * applied + [Outcome.CANCELLED] * (proposed - applied)
        record = stopped(template, inputs, after, outcomes={acting.name: outcomes})
        counts = record.counts
        assert (counts.applied, counts.proposed) == (applied, proposed)
        for text in texts(record):
            findall = re.findall(r", (\d+) cancelled\b", text)
            assert sum(map(int, findall)) == proposed - applied, text
