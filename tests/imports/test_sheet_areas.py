"""Tests spreadsheet steps that work on a part of a tab, or on cells without columns."""

import json
from datetime import date
from typing import Any

import pytest

from steward.fake_platforms.sheets import FormattedNumber
from steward.imports.n8n.read import read_value
from steward.model.run import RunStatus
from tests.imports.exports import automated, chain, code, node
from tests.imports.test_sheet_columns import holds
from tests.imports.test_sheets import approved, rows_of, sheet
from tests.runs.shop import Shop

on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
A1 = {"rangeDefinition": "specifyRangeA1"}
TABLE = [["List of May"], ["", "Code", "Price"], ["x", "A1", 1], [], ["y", "A2", 2], ["", "", "", "aside"]]


def placed(**values: Any) -> dict[str, Any]:
    """Returns the option that says where the data of a read are."""
    return {"options": {"dataLocationOnSheet": {"values": values}}}


def older(version: float = 1, **parameters: Any) -> dict[str, Any]:
    """Returns a step of an older version, which names its tab in the range."""
    return node("Sheet", "googleSheets", version, parameters)


async def items_read(shop: Shop, step: dict[str, Any]) -> str:
    """Runs the reading step and returns its output as JSON."""
    bound = {"integration_id": shop.connections["spreadsheet"].integration_id}
    bindings = {"Sheet": bound | {"kind": "spreadsheet", "target": None}}
    actual = code("Tell", "throw new Error('<' + JSON.stringify($input.all().map(item => item.json)) + '>')")
    start = code("Items", "return [{json: {code: 'A2'}}]")
    run = await shop.run_and_drain(await automated(shop, chain(start, step, actual), bindings=bindings))
    assert run.status is RunStatus.FAILED, run
    return str(run.message).partition("<")[2].rpartition(">")[0]


FIRST, SECOND = {"Code": "A1", "Price": 1}, {"Code": "A2", "Price": 2}
EMPTY = {"Code": "", "Price": ""}
LOOKUP = {"range": "Prices!B2:C", "operation": "lookup", "lookupColumn": "Code"}


@on_one_engine
@pytest.mark.parametrize(
    ("step", "items"),
    [
        (
            sheet("read", **placed(**A1, range="b2:C")),
            [{"row_number": 3, **FIRST}, {"row_number": 5, **SECOND}],
        ),
        (
            sheet("read", **placed(**A1, range="B2:C5", readRowsUntil="firstEmptyRow")),
            [{"row_number": 3, **FIRST}],
        ),
        (
            sheet("read", **placed(rangeDefinition="specifyRange", headerRow=2, firstDataRow=5)),
            [{"row_number": 5, **SECOND}, {"row_number": 6, **EMPTY}],
        ),
        (older(range="Prices!B2:C3"), [FIRST]),
        (older(range="Prices!B1:C5", keyRow=1, dataStartRow=4), [SECOND]),
        (older(2, **LOOKUP, lookupValue="={{ $json.code }}"), [SECOND]),
        (older(2, **LOOKUP, lookupValue="A9"), [{}]),
        (older(range="Prices!B2:C3", rawData=True), [{"data": [["Code", "Price"], ["A1", 1]]}]),
        (
            older(range="={{ 'B2:B3' }}", rawData=True, dataPropertyName="cells"),
            [{"cells": [["Code"], ["A1"]]}],
        ),
    ],
)
async def test_a_range_of_a_tab_is_read(shop: Shop, step: dict[str, Any], items: list[Any]) -> None:
    """Reads the range, header row and first data row that the step names, or raw data, as n8n does."""
    holds(shop, TABLE)
    assert json.loads(await items_read(shop, step)) == items


def looked_up(version: float, **options: Any) -> dict[str, Any]:
    """Returns a step that looks up the rows of a code."""
    filters = {"values": [{"lookupColumn": "Code", "lookupValue": "A2"}]}
    return sheet("read", filtersUI=filters, options=options) | {"typeVersion": version}


def both(version: float, **parameters: Any) -> dict[str, Any]:
    """Returns a step with two filters, each of which another row matches."""
    rows = [{"lookupColumn": "Code", "lookupValue": "A1"}, {"lookupColumn": "Price", "lookupValue": "2"}]
    options = {"returnAllMatches": "returnAllMatches"} if version < 4.5 else {}
    step = sheet("read", filtersUI={"values": rows}, options=options, **parameters)
    return step | {"typeVersion": version}


@on_one_engine
@pytest.mark.parametrize(
    ("step", "rows"),
    [(both(4.2), [2, 3, 4]), (both(4.2, combineFilters="AND"), [4]), (both(4.3), [4]), (both(4.6), [4])],
)
async def test_filters_combine_as_the_version_does(shop: Shop, step: dict[str, Any], rows: list[int]) -> None:
    """Combines filters by OR before version 4.3 unless the step says otherwise, with a note."""
    holds(shop, [["Code", "Price"], ["A1", 1], ["A2", 2], ["A1", 2]])
    assert [item["row_number"] for item in json.loads(await items_read(shop, step))] == rows
    notes = [finding for finding in read_value(chain(step)).findings if "filters" in finding.message]
    assert len(notes) == (len(rows) > 1)


@on_one_engine
@pytest.mark.parametrize(
    ("step", "days"),
    [
        (looked_up(4.5), ["29/11/2026", "30/11/2026"]),
        (looked_up(4.7, returnFirstMatch=True), ["29/11/2026"]),
        (looked_up(4.4), ["29/11/2026"]),
        (looked_up(4.4, returnAllMatches="returnFirstMatch"), ["29/11/2026"]),
        (looked_up(4, returnAllMatches="returnAllMatches"), ["29/11/2026", "30/11/2026"]),
        (looked_up(4.5, outputFormatting={"values": {"date": "SERIAL_NUMBER"}}), [46355, 46356]),
        (older(2, **LOOKUP, lookupValue="A2", options={"returnAllMatches": True}), [46355, 46356]),
    ],
)
async def test_matches_and_dates_are_read_as_the_version_does(
    shop: Shop, step: dict[str, Any], days: list[Any]
) -> None:
    """Reads one match or all, and dates as the sheet shows them or as numbers, as n8n documents it."""
    days_off = (date(2026, 11, 29), date(2026, 11, 30))
    holds(shop, [["", "Code", "Day"], *(["", "A2", day] for day in days_off)])
    if step["typeVersion"] < 3:
        holds(shop, [[], ["", "Code", "Day"], *(["", "A2", day] for day in days_off)])
    assert [item["Day"] for item in json.loads(await items_read(shop, step))] == days


@on_one_engine
async def test_rows_are_matched_below_the_header_row_that_the_step_names(shop: Shop) -> None:
    """Matches rows below the named header row, and adds a column in that row."""
    holds(shop, [["List"], ["Code", "Price"], ["A1", 1], ["A2", 2]])
    location = {"options": {"locationDefine": {"values": {"headerRow": 2, "firstDataRow": 3}}}}
    columns = {"mappingMode": "autoMapInputData", "matchingColumns": ["Code"]}
    items = "return [{json: {Code: 'A2', Price: 7}}, {json: {Code: 'A3', Colour: 'red'}}]"
    await approved(shop, items, sheet("appendOrUpdate", columns=columns, **location))
    assert rows_of(shop) == [["List"], ["Code", "Price", "Colour"], ["A1", 1], ["A2", 7], ["A3", "", "red"]]


@on_one_engine
@pytest.mark.parametrize("operation", ["update", "appendOrUpdate"])
async def test_a_row_is_matched_by_what_the_tab_shows(shop: Shop, operation: str) -> None:
    """Matches dates and formatted numbers as displayed, and exact values before displayed ones.

    See docs/decisions/0296-imported-steps-read-dates-as-shown-and-write-texts.md.
    """
    days = date(2026, 11, 29), date(2026, 11, 30)
    halves = FormattedNumber(0.496, "50%"), FormattedNumber(0.5, "50%")
    rows = [["Day", "Share", "Price"], *([day, share, 1] for day, share in zip(days, halves, strict=True))]
    for column, key, priced in (
        (["Day"], "Day: '30/11/2026'", 2),
        (["Day"], "Day: 46356", 2),
        (["Share"], "Share: '50%'", 1),
        (["Share"], "Share: 0.5", 2),
        (["Day", "Share"], "Day: 46356, Share: '50%'", 2),
    ):
        holds(shop, rows)
        columns = {"mappingMode": "defineBelow", "matchingColumns": column, "value": {"Price": 9}}
        await approved(shop, f"return [{{json: {{{key}}}}}]", sheet(operation, columns=columns))
        prices = [row[2] for row in rows_of(shop)[1:]]
        assert prices == [9 if position == priced else 1 for position in (1, 2)], key


@on_one_engine
async def test_raw_data_is_written_from_the_first_cell_of_the_range(shop: Shop) -> None:
    """Writes raw data from the first cell of the range; cells without a value stay as they are."""
    holds(shop, [["Code", "Price"], ["A1", 1], ["A2", 2]])
    items = "return [{json: {data: [['B1', null, 'x'], ['B2']]}}]"
    await approved(shop, items, older(operation="update", rawData=True, range="Prices!A2:C3"))
    assert rows_of(shop) == [["Code", "Price"], ["B1", 1, "x"], ["B2", 2]]


@on_one_engine
@pytest.mark.parametrize("value", ["[]", "'text'", "[[1], 2]", "[[]]"])
async def test_raw_data_that_is_not_a_list_of_rows_fails_its_item(shop: Shop, value: str) -> None:
    """Fails the run on raw data that is not a list of rows."""
    bound = {"integration_id": shop.connections["spreadsheet"].integration_id}
    step = older(operation="update", rawData=True, range="A1:B2")
    steps = chain(code("Items", f"return [{{json: {{data: {value}}}}}]"), step)
    bindings = {"Sheet": bound | {"kind": "spreadsheet", "target": None}}
    run = await shop.run_and_drain(await automated(shop, steps, bindings=bindings))
    assert run.status is RunStatus.FAILED
    assert "“data” is not a list of rows" in str(run.message)


@pytest.mark.parametrize(
    ("step", "level"),
    [
        (sheet("read", **placed(**A1, range="one to five")), "error"),
        (sheet("read", **placed(rangeDefinition="byName")), "error"),
        (sheet("read", **placed(**A1, range="D1:E")), None),
        (sheet("read", **placed(**A1, range="D2:E")), "warning"),
        (sheet("append", options={"locationDefine": {"values": {"range": "A2:B"}}}), "error"),
        (older(operation="append", range="A2:B"), "error"),
        (older(operation="append", range="A:B", rawData=True), "error"),
        (older(operation="update", range="A2:B", rawData=True), None),
        (older(3, operation="update", rawData=True), "error"),
        (older(range="all"), "error"),
    ],
)
def test_an_unknown_range_is_an_error_at_import(step: dict[str, Any], level: str | None) -> None:
    """Reports an unknown range as an error; a read below the first row warns of other row numbers.

    See docs/design/imports-n8n.md#rules.
    """
    findings = [finding for finding in read_value(chain(step)).findings if finding.step == "Sheet"]
    levels = [
        str(finding.level)
        for finding in findings
        if finding.level == "error" or "row_number" in finding.message
    ]
    assert levels == ([level] if level else []), findings
