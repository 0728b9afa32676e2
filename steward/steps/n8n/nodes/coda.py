"""The node coda: rows of tables, through a bound account."""

from collections.abc import Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, parameters_of, send, success, token_pages
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js

_TABLE = "/docs/{docId}/tables/{tableId}"
_LIST = OptionTable("options", "query rawData useColumnNames valueFormat sortBy visibleOnly")
_ROW = OptionTable("options", "rawData useColumnNames valueFormat")
_NEW = OptionTable("options", "disableParsing keyColumns")


def _row(row: AnyJson, fields: ServiceFields) -> Mapping[str, AnyJson]:
    """Returns a row as n8n does: its columns beside its id, or the raw data if the step asks for it."""
    if not isinstance(row, Mapping) or fields.flag("options.rawData"):
        return row if isinstance(row, Mapping) else {}
    values = row.get("values")
    return {"id": row.get("id"), **(values if isinstance(values, Mapping) else {})}


def _rows(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    rows = js.get_path(response, "items")
    return [_row(row, fields) for row in rows] if isinstance(rows, list) else []


def _query(fields: ServiceFields) -> dict[str, AnyJson]:
    options = _LIST.read(fields)
    options.pop("rawData", None)
    texts = {
        name: js.text(value) for name, value in options.items() if not js.is_missing(value) and value != ""
    }
    return {"limit": "100", **texts}


def _one_query(fields: ServiceFields) -> dict[str, AnyJson]:
    return {name: value for name, value in _ROW.read(fields).items() if name != "rawData" and value != ""}


def _new_row(fields: ServiceFields) -> dict[str, AnyJson]:
    cells = [{"column": name, "value": value} for name, value in fields.item.items()]
    keys = [part.strip() for part in fields.text("options.keyColumns").split(",") if part.strip()]
    return {"rows": [{"cells": cells}], **({"keyColumns": keys} if keys else {})}


_PAGES = token_pages("nextPageToken", "pageToken")
_OPERATIONS = {
    "table.getAllRows": get_all(
        f"{_TABLE}/rows", "items", _PAGES, CallForm(tables=(_LIST,)), limit=50, makes=_query, to_items=_rows
    ),
    "table.getRow": get(
        f"{_TABLE}/rows/{{rowId}}", CallForm(tables=(_ROW,)), makes=_one_query,
        to_items=lambda response, fields: [_row(response, fields)],
    ),
    "table.createRow": send(
        "POST", f"{_TABLE}/rows", CallForm(tables=(_NEW,)), makes=_new_row,
        query=lambda fields: (
            {"disableParsing": "true"} if fields.flag("options.disableParsing") else {}
        ),
    ),
    "table.deleteRow": send("DELETE", f"{_TABLE}/rows/{{rowId}}", to_items=success),
}  # fmt: skip
_DEFAULTS = {"table": "createRow"}


class CodaNode(HttpServiceNode):
    """Supports rows of tables, but not formulas, controls and views."""

    types = ("coda",)
    versions = (1, 1.1)
    service = "Coda"
    address = "https://coda.io/apis/v1"
    credential_types = ("codaApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "table"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
