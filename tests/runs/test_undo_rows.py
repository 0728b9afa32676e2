"""Tests the undo of appended rows that the same run changed: two undos remove them all."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steward import templates
from steward.connectors.base.commands import AppendRows, WriteCells
from steward.model.change import Action, Outcome
from steward.model.plan import StepKind
from steward.model.run import RunStatus
from steward.model.schedule import MANUAL
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult
from steward.templates.base import Category, ChangeRow, RunSummary, StepFacts, Template, TemplateFacts
from steward.templates.parts.inputs import inputs_schema, shared
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop
from tests.runs.undoing import add_tab, cells, undone

TAB = "Orders"


@pytest.fixture
async def lone(sqlite_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Provides a shop on SQLite; what is looked up does not depend on the engine."""
    opened = await open_shop(sqlite_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()


def _planned(ctx: StepContext, command: AppendRows | WriteCells) -> StepResult:
    [sheet] = [access for access in ctx.accounts.values() if access.connection.kind == "spreadsheet"]
    operation = "sheet.append_rows" if isinstance(command, AppendRows) else "sheet.write_cells"
    number = sheet.connection.integration_id
    return StepResult({}, proposals=sheet.changes[operation].plan([command], integration_id=number).proposals)


async def _append(ctx: StepContext) -> StepResult:
    return _planned(ctx, AppendRows(TAB, (("K-1", "new"), ("K-2", "new")), key_column=0))


async def _mark(ctx: StepContext) -> StepResult:
    return _planned(ctx, WriteCells(TAB, "B2", rows=(("seen",),), before=(("new",),)))


def _template() -> Template:
    """Returns a template that appends two rows and marks the second."""
    facts = TemplateFacts(
        template_id="append-and-mark",
        template_version=1,
        name="Append and mark",
        description="Appends rows and marks one.",
        category=Category.ORDERS,
        platforms=("woocommerce",),
        connections=(),
        inputs_schema=inputs_schema([], {"sheet": shared("sheet", "The sheet changed")}),
        result_schema={"type": "object"},
        steps=(StepFacts("append", "Append", StepKind.SEND), StepFacts("mark", "Mark", StepKind.SEND)),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=MANUAL,
        changes=tuple(ChangeRow(step, "spreadsheet_row", Action.SEND, ()) for step in ("append", "mark")),
        example_result={},
    )
    return Template(facts, {"append": _append, "mark": _mark}, lambda _: RunSummary("Done.", {}))


async def test_a_row_that_its_run_changed_is_removed_by_a_second_undo(
    lone: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first undo restores the cell and deletes the unchanged row; the second deletes the other."""
    monkeypatch.setattr(templates, "ALL", [*templates.ALL, _template()])
    await lone.restart()
    add_tab(lone, TAB)
    sheet = {"integration_id": lone.connections["spreadsheet"].integration_id, "tab": TAB}
    run = await lone.run_and_drain(await lone.set_up("append-and-mark", {"sheet": sheet}))
    assert (run.status, cells(lone, TAB)) == (RunStatus.SUCCEEDED, [["K-1", "new"], ["K-2", "seen"]])
    first = await undone(lone, run)
    assert (first.status, cells(lone, TAB)) == (RunStatus.SUCCEEDED, [["K-2", "new"]])
    second = await undone(lone, run)
    [_, appended] = await lone.changes(second)  # the cell of the first one is another row's now
    assert appended.outcome is Outcome.APPLIED
    assert cells(lone, TAB) == []
