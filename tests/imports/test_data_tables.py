"""Tests the node dataTable: rows that a workflow stores between runs.

See docs/design/static-data.md#data-tables.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.automation import Automation
from steward.model.finding import FindingLevel
from steward.model.run import Mode, RunStatus
from tests.crash.killing import KINDS, Killer, judge, play
from tests.imports.exports import automated, calling, chain, code, node
from tests.imports.n8n.one_step import errors_of, outputs_in
from tests.imports.test_runs import on_one_engine
from tests.imports.test_static_data import stored
from tests.runs.shop import Shop

ORDERS = {"__rl": True, "mode": "list", "value": "T1", "cachedResultName": "Orders"}
TIME = "2026-11-21T12:00:00.000Z"  # the clock of steps run by outputs_in
SCHEMA = [
    {"id": "sku", "type": "string"},
    {"id": "stock", "type": "number"},
    {"id": "sold", "type": "boolean"},
    {"id": "seen", "type": "dateTime"},
]


def table(name: str, operation: str, **parameters: Any) -> dict[str, Any]:
    """Returns a step that works on the table of orders."""
    return node(
        name, "dataTable", 1.1, {"operation": operation, "dataTableId": ORDERS, "options": {}, **parameters}
    )


def where(column: str, condition: str, value: Any = None) -> dict[str, Any]:
    """Returns one condition as the parameters of a step."""
    row = {"keyName": column, "condition": condition} | ({} if value is None else {"keyValue": value})
    return {"filters": {"conditions": [row]}}


def mapped(**values: Any) -> dict[str, Any]:
    """Returns the columns that a step fills one by one."""
    return {"columns": {"mappingMode": "defineBelow", "value": values, "schema": SCHEMA}}


AUTOMATIC = {"columns": {"mappingMode": "autoMapInputData", "value": {}, "schema": SCHEMA}}
ROWS = [
    {"sku": "a", "stock": 3, "sold": True, "seen": "2026-01-02"},
    {"sku": "b", "stock": 10, "sold": False, "seen": "2026-01-10T08:00:00+02:00"},
    {"sku": "c", "stock": None},
]


def row(number: int, **values: Any) -> dict[str, Any]:
    """Returns a row as a step hands it on."""
    columns = {"sku": None, "stock": None, "sold": None, "seen": None}
    return {"id": number, "createdAt": TIME, "updatedAt": TIME, **columns, **values}


A = row(1, sku="a", stock=3, sold=True, seen="2026-01-02T00:00:00.000Z")
B = row(2, sku="b", stock=10, sold=False, seen="2026-01-10T06:00:00.000Z")
C = row(3, sku="c")


async def behind_rows(step: Mapping[str, Any], *, before: Mapping[str, Any] | None = None) -> Any:
    """Runs a step named Step once, after one that inserts the rows; returns the fields at its outputs."""
    once = node("Once", "limit", 1, {})
    fill = table("Fill", "insert", **AUTOMATIC)
    export = chain(fill, once, *([before, node("One", "limit", 1, {})] if before else []), step)
    export["nodes"][0]["name"] = "Start"
    export["connections"]["Start"] = export["connections"].pop("Begin")
    return await outputs_in(export, ROWS)


@pytest.mark.parametrize(
    ("parameters", "rows"),
    [
        ({}, [A, B, C]),
        (where("sku", "eq", "b"), [B]),
        (where("sku", "neq", "b"), [A, C]),
        (where("stock", "gt", "3"), [B]),
        (where("stock", "gte", 3), [A, B]),
        (where("stock", "lt", 10), [A]),
        (where("stock", "lte", "10"), [A, B]),
        (where("stock", "neq", 3), [B]),
        (where("stock", "isEmpty"), [C]),
        (where("stock", "isNotEmpty"), [A, B]),
        (where("sold", "isTrue"), [A]),
        (where("sold", "isFalse"), [B]),
        (where("sold", "eq", "false"), [B]),
        (where("seen", "eq", "2026-01-10T06:00:00Z"), [B]),
        (where("seen", "lt", "2026-01-05"), [A]),
        (where("id", "gte", "2"), [B, C]),
        (where("createdAt", "lte", TIME), [A, B, C]),
        (where("never", "eq", "x"), []),
        ({"returnAll": False, "limit": 2}, [A, B]),
        ({"orderBy": True, "orderByColumn": "stock", "orderByDirection": "DESC"}, [B, A, C]),
        ({"orderBy": True, "orderByColumn": "stock", "orderByDirection": "ASC"}, [C, A, B]),
        (
            {"orderBy": True, "orderByColumn": "seen", "orderByDirection": "DESC", "limit": 1},
            [B],
        ),
        (
            {
                "matchType": "anyCondition",
                "filters": {"conditions": [*where("sku", "eq", "a")["filters"]["conditions"],
                                           *where("stock", "isEmpty")["filters"]["conditions"]]},
            },
            [A, C],
        ),
        (
            {
                "matchType": "allConditions",
                "filters": {"conditions": [*where("stock", "gt", 1)["filters"]["conditions"],
                                           *where("sold", "isFalse")["filters"]["conditions"]]},
            },
            [B],
        ),
    ],
)  # fmt: skip
async def test_rows_are_read_by_conditions(parameters: dict[str, Any], rows: list[Any]) -> None:
    """Returns the rows that meet the conditions, ordered by the types of their columns."""
    assert await behind_rows(table("Step", "get", **parameters)) == [rows]


@pytest.mark.parametrize(
    ("step", "output_items", "remaining_rows"),
    [
        (
            table("Step", "update", **where("sku", "eq", "b"), **mapped(stock="11")),
            [B | {"stock": 11}],
            [A, B | {"stock": 11}, C],
        ),
        (table("Step", "update", **where("sku", "eq", "z"), **mapped(stock=1)), [], [A, B, C]),
        (
            table("Step", "upsert", **where("sku", "eq", "a"), **mapped(sku="a", sold="true", stock=None)),
            [A | {"stock": None}],
            [A | {"stock": None}, B, C],
        ),
        (
            table("Step", "upsert", **where("sku", "eq", "d"), **mapped(sku="d")),
            [row(4, sku="d")],
            [A, B, C, row(4, sku="d")],
        ),
        (table("Step", "deleteRows", **where("id", "isNotEmpty")), [A, B, C], []),
        (table("Step", "deleteRows", **where("stock", "gt", 5)), [B], [A, C]),
        (table("Step", "rowExists", **where("sku", "eq", "a")), [A], [A, B, C]),
        (table("Step", "rowExists", **where("sku", "eq", "z")), [], [A, B, C]),
        (table("Step", "rowNotExists", **where("sku", "eq", "z")), [A], [A, B, C]),
        (table("Step", "rowNotExists", **where("sku", "eq", "a")), [], [A, B, C]),
        (
            table("Step", "insert", **mapped(sku=5), options={"optimizeBulk": True}),
            [{"success": True, "insertedRows": 1}],
            [A, B, C, row(4, sku="5")],
        ),
    ],
)
async def test_rows_are_changed(
    step: dict[str, Any], output_items: list[Any], remaining_rows: list[Any]
) -> None:
    """Passes on the rows that an operation changed, or the item that met the conditions."""
    assert await behind_rows(step) == [output_items]
    always = {**step, "name": "Change", "alwaysOutputData": True}
    assert await behind_rows(table("Step", "get", returnAll=True), before=always) == [remaining_rows]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (table("Step", "insert", **mapped(stock="many")), "not a number"),
        (table("Step", "insert", **mapped(seen="soon")), "not a date"),
        (table("Step", "insert", **mapped(sold="yes")), "not true or false"),
        (table("Step", "insert", **mapped(sku=["a"])), "list or an object"),
        (table("Step", "get", **where("sku", "eq", "={{ $json.nothing }}")), "is empty"),
        (table("Step", "get", **where("stock", "eq", "many")), "not a number"),
        (table("Step", "get", limit=0), "limit"),
        (table("Step", "get", dataTableId={"mode": "name", "value": "={{ '' }}"}), "name of the data table"),
    ],
)
async def test_a_value_that_a_table_cannot_hold_fails_the_item(step: dict[str, Any], words: str) -> None:
    """Fails on values of another type and on comparisons with nothing; the run stops or goes on with it."""
    message = await behind_rows(step)
    assert isinstance(message, str)
    assert words in message
    tolerated = await behind_rows(step | {"onError": "continueRegularOutput"})
    assert [list(item) for item in tolerated[0]] == [["error"]]


async def test_a_field_without_a_column_fails_the_item() -> None:
    """Maps fields by name, ignores a row's own columns, and fails for a field without a column."""
    rename = node("More", "set", 3.4, {"assignments": {"assignments": [
        {"name": "colour", "value": "red", "type": "string"}]}, "includeOtherFields": True})  # fmt: skip
    message = await behind_rows(table("Step", "insert", **AUTOMATIC), before=rename)
    assert "no column “colour”" in message
    outputs = await behind_rows(table("Step", "insert", **AUTOMATIC))
    assert outputs == [[A | {"id": 4}]]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"resource": "table", "operation": "list"}, "does not run here"),
        ({"dataTableId": {"mode": "list", "value": ""}}, "which data table"),
        ({"operation": "deleteRows"}, "no condition"),
        (where("sku", "like", "%a") | {"operation": "get"}, "like"),
        (where("", "eq", "a") | {"operation": "get"}, "no column"),
        ({"operation": "get", "orderBy": True, "orderByColumn": "id"}, "Direction"),
        ({"operation": "update", **where("sku", "eq", "a"), "options": {"dryRun": True}}, "Dry run"),
        ({"operation": "={{ $json.what }}"}, "Choose an operation"),
        (
            {
                "operation": "get",
                "filters": {"conditions": where("a", "isEmpty")["filters"]["conditions"] * 2},
            },
            "Must Match",
        ),
    ],
)
def test_unsupported_settings_are_errors(parameters: dict[str, Any], words: str) -> None:
    """Reports at import why a step cannot run."""
    errors = errors_of("dataTable", 1.1, {"dataTableId": ORDERS, "columns": {}} | parameters)
    assert any(words in finding.message for finding in errors), errors


BY_NAME = {"dataTableId": {"__rl": True, "mode": "name", "value": "Orders"}}
BY_EXPRESSION = {"dataTableId": {"__rl": True, "mode": "id", "value": "={{ $json.table }}"}}
BY_ID = {"dataTableId": {"__rl": True, "mode": "id", "value": "T1"}}
READ = where("sku", "eq", "a")


@pytest.mark.parametrize(
    ("steps", "errors"),
    [
        ([table("Read", "get", **READ)], ["Read"]),
        ([table("New", "rowNotExists", **READ), table("Add", "insert", **mapped(sku="a"))], []),
        ([table("Add", "insert", **BY_ID, **mapped(sku="a")), table("Read", "get", **READ)], []),
        (
            [table("Add", "insert", **BY_NAME, **mapped(sku="a")), table("Read", "get", **READ)],
            ["Add", "Read"],
        ),
        (
            [
                table("Add", "insert", **mapped(sku="a")),
                table("Read", "get", **READ, dataTableId={"mode": "name", "value": "Others"}),
            ],
            ["Read"],
        ),
        (
            [
                table("Add", "insert", **BY_EXPRESSION, **mapped(sku="a")),
                table("Read", "get", **READ),
            ],
            [],
        ),
    ],
)  # fmt: skip
def test_reading_a_table_that_stays_empty_is_an_error(steps: list[dict[str, Any]], errors: list[str]) -> None:
    """Refuses a workflow whose rows come from elsewhere, and warns once of a table that starts empty."""
    findings = read_value(chain(*steps)).findings
    assert [finding.step for finding in findings if finding.level is FindingLevel.ERROR] == errors
    warnings = [finding for finding in findings if "starts without the rows" in finding.message]
    assert len(warnings) == (0 if errors else 1)


ADD = table("Add", "insert", **mapped(sku="a", stock=1))
COUNT = code("Count", "const s = $getWorkflowStaticData('node'); s.rows = $input.all().length; return [];")
ALL = table("All", "get", returnAll=True)


async def test_rows_are_available_in_the_next_run(shop: Shop) -> None:
    """Stores the rows of successful runs; a test run sees them and stores none of its own."""
    automation = await automated(shop, chain(ADD, ALL, COUNT))
    for mode in (Mode.LIVE, Mode.TEST, Mode.LIVE):
        assert (await shop.run_and_drain(automation, mode)).status is RunStatus.SUCCEEDED
    static_data = await stored(shop, automation)
    assert static_data["node:Count"] == {"rows": 2}
    assert [row_fields["id"] for row_fields in static_data["table:id:T1"]["rows"]] == [1, 2]
    assert static_data["table:id:T1"]["columns"]["stock"] == "number"


@on_one_engine
async def test_a_failed_run_stores_no_rows(shop: Shop) -> None:
    """Leaves the table as it was before the run."""
    automation = await automated(shop, chain(ADD, node("Stop", "stopAndError", 1, {"errorMessage": "No"})))
    assert (await shop.run_and_drain(automation)).status is RunStatus.FAILED
    assert await stored(shop, automation) == {}


@on_one_engine
async def test_a_called_workflow_works_on_its_callers_tables(shop: Shop) -> None:
    """Stores no static data of an embedded workflow, but its rows in the caller's tables."""
    automation = await automated(shop, chain(ADD, calling([ADD]), ALL, COUNT))
    assert (await shop.run_and_drain(automation)).status is RunStatus.SUCCEEDED
    assert (await stored(shop, automation))["node:Count"] == {"rows": 2}  # one of each


@on_one_engine
async def test_a_table_that_gets_too_large_fails_the_step(shop: Shop) -> None:
    """Accepts at most 1 MiB for everything that the automation stores."""
    many = code("Many", "return Array.from({length: 11}, () => ({json: {sku: 'x'.repeat(100_000)}}));")
    automation = await automated(shop, chain(many, table("Add", "insert", **AUTOMATIC)))
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.FAILED
    assert "1 MiB" in str((await shop.steps(run))[-1]["message"])


async def test_a_killed_run_inserts_its_row_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills the run at every fourth failpoint, or every twelfth on PostgreSQL: its row is there once."""
    automations: list[Automation] = []
    change = table("Change", "update", **where("sku", "eq", "a"), **mapped(stock="={{ $json.stock + 1 }}"))

    async def inserting(shop: Shop) -> Any:
        name = f"Inserting {len(automations)}"
        steps = chain(ADD, node("Pass", "noOp", 1, {}), change, name=name)
        automations.append(await automated(shop, steps))
        return automations[-1]

    monkeypatch.setitem(KINDS, "inserting", inserting)
    await play(shop, "inserting", dry := Killer())
    every = 4 if shop.engine.dialect == "sqlite" else 12
    for number in range(1, len(dry.visited), every):
        run = await play(shop, "inserting", killer := Killer([number]))
        assert killer.kills != []
        assert await judge(shop, run, blind=False) == [], killer.kills
        rows = (await stored(shop, automations[-1]))["table:id:T1"]["rows"]
        assert [(row_fields["id"], row_fields["stock"]) for row_fields in rows] == [(1, 2)], killer.kills
