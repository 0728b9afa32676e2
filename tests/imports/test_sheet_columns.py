"""Tests columns that spreadsheet steps add for fields without one, as n8n's documentation says."""

from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.automation import Automation
from steward.model.change import Outcome
from steward.model.run import Mode, Run, RunStatus
from tests.imports.exports import automated, chain, code
from tests.imports.test_sheets import approved, rows_of, sheet
from tests.runs.shop import Shop

AUTO = {"mappingMode": "autoMapInputData"}
TWO = "return [{json: {Code: 'A3', Colour: 'red'}}, {json: {Price: 4, Size: 'M', Colour: 'blue'}}]"
STARTED = [["Code", "Price"], ["A1", 1], ["A2", 2]]
EACH_ENGINE_ONCE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def holds(shop: Shop, rows: list[list[Any]]) -> None:
    """Puts these rows, and nothing else, into the tab."""
    [tab] = shop.world.state.google.books["sheet-prices"].tabs
    tab.cells = {(y, x): cell for y, row in enumerate(rows) for x, cell in enumerate(row)}


async def set_up(shop: Shop, items: str, step: dict[str, Any]) -> Automation:
    """Creates an automation that hands these items to the step."""
    binding = {"integration_id": shop.connections["spreadsheet"].integration_id, "kind": "spreadsheet"}
    bindings = {"Sheet": binding | {"target": None}}
    return await automated(shop, chain(code("Items", items), step), bindings=bindings)


def choice(name: str) -> dict[str, Any]:
    """Returns the option for fields without a column."""
    return {"options": {"handlingExtraData": name}}


@pytest.mark.parametrize("options", [{}, choice("insertInNewColumn")], ids=["default", "chosen"])
async def test_a_field_without_a_column_adds_one(shop: Shop, options: dict[str, Any]) -> None:
    """Adds a column for each new field, by default and with “Insert in New Column(s)”."""
    holds(shop, STARTED)
    await approved(shop, TWO, sheet("append", columns=AUTO, **options))
    assert rows_of(shop) == [
        ["Code", "Price", "Colour", "Size"],
        ["A1", 1],
        ["A2", 2],
        ["A3", "", "red"],
        ["", 4, "blue", "M"],
    ]


async def test_an_approval_shows_the_columns_and_adding_them_is_one_change(shop: Shop) -> None:
    """Shows the new columns in the approval and adds them with the rows; a second run adds none.

    See docs/design/api/runs.md#change.
    """
    holds(shop, STARTED)
    automation = await set_up(shop, TWO, sheet("append", columns=AUTO))
    for _ in range(2):
        run = await shop.waiting(automation)
        [change] = await shop.changes(run)
        displayed = {field.field: field.after for field in change.proposal.fields}
        assert displayed.get("columns") == (["Colour", "Size"] if len(rows_of(shop)) == 3 else None)
        assert displayed["rows"] == 2
        await shop.approve(run)
        assert (await shop.until_settled(run)).status is RunStatus.SUCCEEDED
    assert rows_of(shop)[0] == ["Code", "Price", "Colour", "Size"]
    assert rows_of(shop)[3:5] == rows_of(shop)[5:7]


@EACH_ENGINE_ONCE
async def test_fields_that_are_indexes_add_their_columns_first(shop: Shop) -> None:
    """Adds columns in the order of an object's names in JavaScript, where indexes come first."""
    holds(shop, [])
    columns = {"mappingMode": "defineBelow", "value": {"b": 1, "10": 2, "9": 3}}
    await approved(shop, "return [{json: {}}]", sheet("append", columns=columns))
    assert rows_of(shop) == [["9", "10", "b"], [3, 2, 1]]


@EACH_ENGINE_ONCE
async def test_fields_without_a_column_are_ignored_when_the_step_says_so(shop: Shop) -> None:
    """Leaves the extra fields out with the option “Ignore Them”."""
    holds(shop, STARTED)
    await approved(shop, TWO, sheet("append", columns=AUTO, **choice("ignoreIt")))
    assert rows_of(shop) == [*STARTED, ["A3"], ["", 4]]


@EACH_ENGINE_ONCE
async def test_fields_without_a_column_stop_the_step_when_it_says_so(shop: Shop) -> None:
    """Fails the run with the option “Error” when a field has no column; items that fit are appended."""
    holds(shop, STARTED)
    step = sheet("append", columns=AUTO, **choice("error"))
    run = await shop.run_and_drain(await set_up(shop, TWO, step), Mode.LIVE)
    assert run.status is RunStatus.FAILED
    assert "“Colour”" in (run.message or "")
    assert rows_of(shop) == STARTED
    await approved(shop, "return [{json: {Code: 'A3', Price: 3}}]", step)
    assert rows_of(shop) == [*STARTED, ["A3", 3]]


@pytest.mark.parametrize("operation", ["append", "appendOrUpdate"])
@pytest.mark.parametrize(
    "options", [{}, choice("ignoreIt"), choice("error")], ids=["default", "ignore", "error"]
)
@EACH_ENGINE_ONCE
async def test_an_empty_tab_gets_a_header_row(shop: Shop, operation: str, options: dict[str, Any]) -> None:
    """Writes the field names as the header row of an empty tab, whatever the option."""
    holds(shop, [])
    columns = {**AUTO, "matchingColumns": ["Code"]}
    await approved(shop, TWO, sheet(operation, columns=columns, **options))
    assert rows_of(shop) == [["Code", "Colour", "Price", "Size"], ["A3", "red"], ["", "blue", 4, "M"]]


@EACH_ENGINE_ONCE
async def test_an_empty_tab_gets_the_columns_that_are_mapped_by_hand(shop: Shop) -> None:
    """Writes the columns that are mapped by hand as the header row of an empty tab."""
    holds(shop, [])
    columns = {"mappingMode": "defineBelow", "value": {"Code": "={{ $json.Code }}", "Price": 5}}
    await approved(shop, "return [{json: {Code: 'A1', Colour: 'red'}}]", sheet("append", columns=columns))
    assert rows_of(shop) == [["Code", "Price"], ["A1", 5]]


async def test_rows_found_and_rows_added_fill_the_new_columns(shop: Shop) -> None:
    """Fills the new columns of both updated and appended rows."""
    holds(shop, STARTED)
    items = "return [{json: {Code: 'A2', Price: 7, Colour: 'red'}}, {json: {Code: 'A9', Size: 'M'}}]"
    columns = {**AUTO, "matchingColumns": ["Code"]}
    await approved_changes(shop, items, sheet("appendOrUpdate", columns=columns))
    assert rows_of(shop) == [
        ["Code", "Price", "Colour", "Size"],
        ["A1", 1],
        ["A2", 7, "red"],
        ["A9", "", "", "M"],
    ]


async def approved_changes(shop: Shop, items: str, step: dict[str, Any]) -> Run:
    """Runs the step live, approves it and returns the settled run."""
    run = await shop.waiting(await set_up(shop, items, step))
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    return ended


@EACH_ENGINE_ONCE
async def test_updating_leaves_extra_fields_out_unless_the_step_says_otherwise(shop: Shop) -> None:
    """Leaves extra fields out of an update by default; with “Insert in New Column(s)” it adds a column."""
    items = "return [{json: {Code: 'A2', Price: 7, Colour: 'red'}}]"
    columns = {**AUTO, "matchingColumns": ["Code"]}
    holds(shop, STARTED)
    await approved_changes(shop, items, sheet("update", columns=columns))
    assert rows_of(shop) == [*STARTED[:2], ["A2", 7]]
    await approved_changes(shop, items, sheet("update", columns=columns, **choice("insertInNewColumn")))
    assert rows_of(shop) == [["Code", "Price", "Colour"], ["A1", 1], ["A2", 7, "red"]]


@EACH_ENGINE_ONCE
async def test_a_column_added_after_the_approval_is_a_conflict(shop: Shop) -> None:
    """Reports a conflict when a person added a column after the approval was shown, and writes no row.

    See docs/design/writes.md#two-tables.
    """
    holds(shop, STARTED)
    run = await shop.waiting(await set_up(shop, TWO, sheet("append", columns=AUTO)))
    holds(shop, [["Code", "Price", "Note"], *STARTED[1:]])
    await shop.approve(run)
    await shop.until_settled(run)
    [change] = await shop.changes(run)
    assert change.outcome is Outcome.CONFLICT
    assert rows_of(shop) == [["Code", "Price", "Note"], *STARTED[1:]]


@EACH_ENGINE_ONCE
async def test_columns_are_added_beside_cells_without_a_header(shop: Shop) -> None:
    """Adds a column beside cells that have no header, without writing over them."""
    holds(shop, [["Code", "Price"], ["A1", 1, "", "a note"]])
    await approved(
        shop, "return [{json: {Code: 'A2', Colour: 'red', row_number: 5}}]", sheet("append", columns=AUTO)
    )
    assert rows_of(shop) == [
        ["Code", "Price", "", "", "Colour"],
        ["A1", 1, "", "a note"],
        ["A2", "", "", "", "red"],
    ]


@EACH_ENGINE_ONCE
async def test_a_tab_without_a_free_column_is_refused_with_a_reason(shop: Shop) -> None:
    """Writes nothing and says to add empty columns when the tab has no free one.

    See docs/design/connectors.md#google-sheets.
    """
    holds(shop, STARTED)
    [tab] = shop.world.state.google.books["sheet-prices"].tabs
    tab.columns = 2
    run = await shop.waiting(await set_up(shop, TWO, sheet("append", columns=AUTO)))
    await shop.approve(run)
    await shop.until_settled(run)
    [change] = await shop.changes(run)
    assert change.outcome is Outcome.FAILED
    assert "Add empty columns" in (change.message or "")
    assert rows_of(shop) == STARTED


@pytest.mark.parametrize(
    ("operation", "options", "expected"),
    [
        ("append", {}, [("note", "adds one")]),
        ("append", choice("insertInNewColumn"), [("note", "adds one")]),
        ("append", choice("ignoreIt"), []),
        ("append", choice("error"), []),
        ("append", choice("somethingElse"), [("error", "not known")]),
        ("append", choice("={{ $json.way }}"), []),
        ("update", {}, [("warning", "left out")]),
        ("update", choice("ignoreIt"), []),
    ],
)
def test_an_import_reports_how_extra_fields_are_handled(
    operation: str, options: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Notes that columns are added, warns that fields are left out, and reports unknown options as errors.

    See docs/design/imports-n8n.md#rules.
    """
    findings = read_value(chain(sheet(operation, columns=AUTO, **options))).findings
    mine = [finding for finding in findings if finding.step == "Sheet" and "column" in finding.message]
    assert [str(finding.level) for finding in mine] == [level for level, _ in expected]
    assert all(words in item.message for item, (_, words) in zip(mine, expected, strict=True))
