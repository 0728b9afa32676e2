"""Exported workflows for the browser tests: one with a choice, one that only appends rows."""

from typing import Any

from tests.imports.exports import chain, code, connections_of, drafted, node
from tests.web.site import WebSite

IMPORTS = "/v1/automations/imports"
EACH_MORNING = {"rule": {"interval": [{"field": "days", "triggerAtHour": 8, "triggerAtMinute": 30}]}}


def appended(name: str, tab: str) -> dict[str, Any]:
    """Returns a step that appends its input as a row."""
    request_body = {
        "operation": "append",
        "documentId": {"__rl": True, "mode": "id", "value": "sheet-prices"},
        "sheetName": {"__rl": True, "mode": "name", "value": tab},
        "columns": {"mappingMode": "autoMapInputData", "value": {}, "schema": [], "matchingColumns": []},
        "options": {},
    }
    return node(name, "googleSheets", 4.5, request_body)


def morning(name: str) -> dict[str, Any]:
    """Returns a daily workflow with a choice: one branch to the store, the other to two tabs."""
    start = node("Morning", "scheduleTrigger", 1.2, EACH_MORNING)
    equal = {
        "leftValue": "={{ $json.id }}",
        "rightValue": 1,
        "operator": {"type": "number", "operation": "equals"},
    }
    rules = {"conditions": [equal], "combinator": "and", "options": {"version": 2}}
    http_node = node("Is it the first", "if", 2.2, {"conditions": rules, "options": {}})
    log, copy = appended("Log", "Prices"), appended("Copy", "Prices")
    first = code("Make items", "return [{json: {id: 1}}]")
    nodes = [start, first, http_node, {**drafted(), "position": [0, 0]}, {**log, "position": [0, 200]}, copy]
    joined = {**connections_of([start, first, http_node]), **connections_of([log, copy])}
    to = [[{"node": to, "type": "main", "index": 0}] for to in ("Draft", "Log")]
    joined[http_node["name"]] = {"main": to}
    return {"name": name, "nodes": nodes, "connections": joined, "settings": {}}


async def store_import(web: WebSite, export: Any, name: str) -> dict[str, Any]:
    """Stores the export as a member and returns the import."""
    member = await web.session_of("member")
    body = {"source": "workflow_tool", "name": name, "content": export}
    new_import: dict[str, Any] = (await member.call("POST", IMPORTS, body))["import"]
    return new_import


def logged(name: str) -> dict[str, Any]:
    """Returns a workflow started by hand that appends two rows in two tabs."""
    rows = code("Make items", "return [{json: {SKU: 'of a test'}}]")
    return chain(rows, appended("Log", "Prices"), appended("Copy", "Prices"), name=name)
