"""Tests the digest of a sheet: which rows match, what the message says, and what counts as changed.

See docs/design/templates-catalogue.md#spreadsheet-to-teams-digest.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steward.automations.updates.change import update
from steward.automations.updates.update_command import UpdateCommand
from steward.fake_platforms.sheets import FakeTab
from steward.model.change import Outcome
from steward.model.connection import AutomationConnection
from steward.model.ids import IntegrationId
from steward.model.refusals import ValidationFailed
from steward.model.run import Mode, RunStatus
from steward.templates.spreadsheet_to_teams_digest import TEMPLATE
from tests.fake_clock import FakeClock
from tests.templates.stage import SHEET, TEAMS, Sheet, Stage, StageRun, card_lines
from tests.templates.two_platforms import ConnectedService, lines_of, open_both

HEAD = ["Order", "Status", "Left", "Sum"]
ROWS: list[list[Any]] = [
    ["A-1", "Late", 3, "12,50 €"],
    ["A-2", " late\u00a0", "1,234", "USD 10"],
    ["A-3", "", "2026-11-20", "10 kg"],
    ["A-4", "latest", "-2.5"],
    [],
    ["A-5", "done", None],
]


def _stage(rows: list[list[Any]], column: str, op: str, value: str | None = None, **more: Any) -> Stage:
    where = {"column": column, "op": op} | ({} if value is None else {"value": value})
    all_inputs = {"where": where, "columns": ["Order"], "teams": {"integration_id": int(TEAMS)}, **more}
    sheet = Sheet([[*HEAD], *(list(row) for row in rows)])
    return Stage(TEMPLATE, all_inputs, sheet=sheet, reads=(IntegrationId(int(SHEET)),))


def _message_lines(run: StageRun) -> list[str]:
    """Returns the orders that the message names."""
    if not run.proposals:
        return []
    return [line.rpartition(" ")[2] for line in card_lines(run.proposals[0])[1:] if line.startswith("Row ")]


@pytest.mark.parametrize(
    ("column", "op", "value", "more", "expected", "refused"),
    [
        ("Status", "eq", "LATE", {}, ["A-1", "A-2"], 0),
        ("status ", "ne", "late", {}, ["A-3", "A-4", "A-5"], 0),
        ("Status", "contains", "late", {}, ["A-1", "A-2", "A-4"], 0),
        ("Status", "empty", None, {}, ["A-3"], 0),
        ("Left", "lt", "4", {}, ["A-1", "A-4"], 1),
        ("Left", "gt", "2", {"number_format": "point"}, ["A-1", "A-2"], 0),
        ("Left", "gt", "2", {"number_format": "comma"}, ["A-1"], 0),
        ("Left", "gt", "2026-11-19", {}, ["A-3"], 0),
        ("Left", "lt", "2026-11-20", {}, [], 0),
        ("Left", "eq", "3", {}, ["A-1"], 0),
        ("Sum", "gt", "9", {}, ["A-1", "A-2"], 0),
    ],
)
async def test_rows_match_as_people_mean_it(
    column: str, op: str, value: str | None, more: dict[str, Any], expected: list[str], refused: int
) -> None:
    """Compares text without case and outer blanks, and numbers and dates by their value.

    See docs/design/templates-catalogue.md#spreadsheet-to-teams-digest.
    """
    run = await _stage(ROWS, column, op, value, **more).run()
    assert _message_lines(run) == expected
    assert run.result == {"rows": 5, "matched": len(expected), "shown": len(expected), "refused": refused}
    assert bool(run.proposals) is bool(expected)


async def test_changes_are_reported_once_and_the_first_run_only_remembers() -> None:
    """Reports each changed or new row once; the first run only remembers the rows.

    A deleted row is forgotten. See docs/design/templates-catalogue.md#spreadsheet-to-teams-digest.
    """
    stage = _stage([["A-1", "new"], ["A-2", "new"]], "Status", "changed", key_column="Order")
    assert (await stage.run(mode=Mode.TEST)).proposals == []
    assert stage.memory.kept == {}
    assert (await stage.run()).result["matched"] == 0
    stage.sheet.rows[1:] = [["A-2", "sent"], ["A-1", "NEW"], ["A-3", ""], ["A-4", "new"]]
    assert _message_lines(await stage.run(mode=Mode.TEST)) == ["A-2", "A-1", "A-4"]
    assert _message_lines(await stage.run()) == ["A-2", "A-1", "A-4"]
    assert (await stage.run()).proposals == []
    stage.sheet.rows[1:] = [["A-1", "NEW"]]
    assert (await stage.run()).proposals == []
    assert len([key for space, key in stage.memory.kept if space == "values"]) == 1


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNKNOWN])
async def test_a_change_whose_message_was_lost_is_reported_again(outcome: Outcome) -> None:
    """Reports a change again when its message failed or its outcome is unknown.

    See docs/design/templates-catalogue.md#spreadsheet-to-teams-digest.
    """
    stage = _stage([["A-1", "new"]], "Status", "changed", key_column="Order")
    await stage.run()
    stage.sheet.rows[1:] = [["A-1", "sent"]]
    await stage.run(outcome=outcome)
    assert _message_lines(await stage.run()) == ["A-1"]


async def test_indistinguishable_rows_are_refused() -> None:
    """Refuses rows with empty or repeated keys, and keeps what it remembers of them.

    See docs/design/templates-catalogue.md#spreadsheet-to-teams-digest.
    """
    stage = _stage([["A-1", "x"], ["A-2", "x"]], "Status", "changed", key_column="Order")
    await stage.run()
    stage.sheet.rows[1:] = [["A-1", "y"], [" A-1", "z"], ["", "y"], ["A-2", "x"]]
    run = await stage.run()
    assert (run.result["refused"], run.proposals) == (3, [])
    assert run.messages[1] == "Refused: row 2, row 3, row 4."
    stage.sheet.rows[1:] = [["A-1", "x"], ["A-2", "x"]]
    assert (await stage.run()).proposals == []


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([], "sheet_empty"),
        ([["Order", "State"]], "column_missing"),
        ([["Order", "Status", "status"]], "column_repeated"),
    ],
)
async def test_a_sheet_that_is_not_as_named_fails_the_run(rows: list[list[Any]], code: str) -> None:
    """Fails the run on an empty sheet, and on a missing or repeated column.

    See docs/design/templates.md#e4-empty-sheets-and-columns.
    """
    stage = _stage([], "Status", "empty")
    stage.sheet.rows[:] = rows
    run = await stage.run()
    assert (run.failed and run.failed.code, run.proposals) == (code, [])


@pytest.mark.parametrize(("count", "lines"), [(50, 51), (51, 52)])
async def test_fifty_rows_are_shown_and_the_others_counted(count: int, lines: int) -> None:
    """Lists 50 rows and gives the number of the others.

    See docs/design/templates-catalogue.md#spreadsheet-to-teams-digest.
    """
    run = await _stage([[f"A-{n}", "x"] for n in range(count)], "Status", "eq", "x").run()
    actual = card_lines(run.proposals[0])
    assert (run.result["matched"], run.result["shown"], len(actual)) == (count, 50, lines)
    assert ("and 1 more" in actual[1]) is (count == 51)


async def test_cells_that_hold_nothing_are_left_out_of_the_message() -> None:
    """Leaves empty cells out of the message.

    See docs/design/templates-catalogue.md#spreadsheet-to-teams-digest.
    """
    run = await _stage([["A-1", "x"], ["", "x", 3]], "Status", "eq", "x", columns=["Order", "Left"]).run()
    assert card_lines(run.proposals[0])[1:] == ["Row 2: Order: A-1", "Row 3: Left: 3"]


async def test_a_digest_goes_from_sheet_to_channel(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Reads the sheet and posts the changed row as text; a test run posts nothing.

    See docs/design/templates-catalogue.md#spreadsheet-to-teams-digest.
    """
    both: ConnectedService = await open_both(database_url, clock, tmp_path)
    tab = FakeTab(77, "Orders")
    lines = [[*HEAD], ["A-1", "late", "=1+1"], ["A-2", "done", 2]]
    tab.cells = {(index, column): cell for index, row in enumerate(lines) for column, cell in enumerate(row)}
    both.shop.world.state.google.books["sheet-prices"].tabs.append(tab)
    inputs: dict[str, Any] = {
        "place": {"tab": "Orders"},
        "where": {"column": "Status", "op": "changed"},
        "key_column": "Order",
        "columns": ["Order", "Left"],
        "teams": both.teams(),
    }
    automation = await both.set_up("spreadsheet-to-teams-digest", inputs, reads=["spreadsheet"])
    nothing = {"rows": 2, "matched": 0, "shown": 0, "refused": 0}
    assert (await both.run(automation)).result == nothing
    tab.cells[1, 1] = "sent"
    changed = {**nothing, "matched": 1, "shown": 1}
    assert ((await both.run(automation, Mode.TEST)).result, both.written()) == (changed, [])
    run = await both.run(automation)
    assert (run.status, run.result) == (RunStatus.SUCCEEDED, changed)
    assert lines_of(both.posted()[0]) == ["1 row of The spreadsheet", "Row 2: Order: A-1, Left: =1+1"]
    assert ((await both.run(automation)).result, len(both.posted())) == (nothing, 1)
    await both.shop.service.close()


async def test_inputs_beyond_the_schema_are_refused(both: ConnectedService) -> None:
    """Refuses `lt` with a value that is no number or date, and a spreadsheet that the account does not have.

    See docs/design/templates.md#rules.
    """
    inputs: dict[str, Any] = {
        "place": {"spreadsheet_id": "another"},
        "where": {"column": "Left", "op": "lt", "value": "soon"},
        "columns": ["Order"],
        "teams": both.teams(),
    }
    with pytest.raises(ValidationFailed) as refused:
        await both.set_up("spreadsheet-to-teams-digest", inputs, reads=["spreadsheet"])
    assert set(refused.value.errors) == {"inputs.place.spreadsheet_id", "inputs.where.value"}
    fine = {**inputs, "place": {}, "where": {**inputs["where"], "value": "2026-01-31"}}
    assert await both.set_up("spreadsheet-to-teams-digest", fine, reads=["spreadsheet"])


async def test_another_sheet_to_read_is_held_to_the_spreadsheet_that_is_named(both: ConnectedService) -> None:
    """Refuses another connection while the inputs name the spreadsheet of the old one.

    See docs/design/templates.md#rules.
    """
    inputs: dict[str, Any] = {
        "place": {"spreadsheet_id": "sheet-prices"},
        "where": {"column": "Left", "op": "empty"},
        "columns": ["Order"],
        "teams": both.teams(),
    }
    automation = await both.set_up("spreadsheet-to-teams-digest", inputs, reads=["spreadsheet"])
    account = both.shop.world.described()["spreadsheet"]["service_account"]
    log = await both.shop.connect("spreadsheet", {"service_account": account, "spreadsheet_id": "sheet-log"})
    reads = (AutomationConnection(log.integration_id, "spreadsheet"),)
    rules = both.shop.service.worker_context.automation_rules

    async def change(row: dict[str, Any] | None) -> None:
        command = UpdateCommand(automation.id, automation.version, connections=reads, inputs=row)
        await both.shop.write(partial(update, actor=both.shop.owner, command=command, rules=rules))

    with pytest.raises(ValidationFailed) as refused:
        await change(None)
    assert set(refused.value.errors) == {"inputs.place.spreadsheet_id"}
    await change({**inputs, "place": {}})
