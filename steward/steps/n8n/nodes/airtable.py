"""The node airtable: reads, creates, updates and deletes the records of a table."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from steward.connectors.base.service_calls import SendCall
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.outbound.errors import CallError
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation, ServicePort, parsed_response
from steward.steps.workflow.external_calls import as_item_failure
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepCall, StepProblem

_PAGE = 100
_MAX_UPDATES = 10  # records that one request updates
_NAMES = (
    "authentication resource operation base table application id columns options filterByFormula returnAll"
    " limit sort additionalOptions addAllFields updateAllFields fields downloadAttachments"
    " downloadFieldNames permissionLevel"
)
_COLLECTIONS = {
    "options": frozenset(
        [
            "bulkSize",
            "ignoreFields",
            "typecast",
            "fields",
            "view",
            "downloadFields",
            "updateAllMatches",
            "permissionLevel",
        ]
    ),
    "additionalOptions": frozenset(("fields", "filterByFormula", "sort", "view")),
}


def _base(fields: ServiceFields) -> str:
    """Returns the id of the base, which may come from its URL."""
    text = fields.text("base") or fields.text("application")
    match = re.search(r"app[A-Za-z0-9]{10,}", text) if "/" in text else None
    return match[0] if match is not None else text


def _table(fields: ServiceFields) -> str:
    """Returns the id or name of the table; the id may come from its URL."""
    text = fields.text("table")
    match = re.search(r"tbl[A-Za-z0-9]{10,}", text) if text.startswith("https://") else None
    return match[0] if match is not None else text


def _ignored(fields: ServiceFields) -> set[str]:
    names = fields.value("options.ignoreFields")
    listed = names if isinstance(names, list) else str(names or "").split(",")
    return {str(name).strip() for name in listed}


def _row(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the fields of a record: the item's or those defined in the step."""
    if fields.version < 2:
        row = dict(fields.item)
        names = fields.value("fields")
        takes_all = fields.flag("addAllFields", True) and fields.flag("updateAllFields", True)
        if not takes_all and isinstance(names, list):
            row = {str(name): row.get(str(name)) for name in names}
    elif fields.text("columns.mappingMode", "defineBelow") == "autoMapInputData":
        row = dict(fields.item)
    else:
        defined = fields.value("columns.value")
        row = dict(defined) if isinstance(defined, Mapping) else {}
    ignored = _ignored(fields)
    return {name: value for name, value in row.items() if name not in ignored and value is not js.UNDEFINED}


def _typecast(fields: ServiceFields) -> dict[str, JsonValue]:
    return {"typecast": True} if fields.flag("options.typecast") else {}


def _matching(fields: ServiceFields) -> list[str]:
    names = fields.value("columns.matchingColumns")
    return [str(name) for name in names] if isinstance(names, list) else []


def _create(fields: ServiceFields) -> dict[str, JsonValue]:
    row = {name: value for name, value in _row(fields).items() if name != "id"}
    body = {"fields": row} if fields.version >= 2 else {"records": [{"fields": row}]}
    return body | _typecast(fields)


def _update(fields: ServiceFields) -> dict[str, JsonValue]:
    row = _row(fields)
    if _matches_columns(fields):
        return {"records": [{"fields": row}], **_typecast(fields)}
    identity = fields.text("id") if fields.version < 2 else js.text(row.get("id") or "")
    if not identity:
        raise ItemFailed("This step does not say which record it updates: its column “id” is empty.")
    row.pop("id", None)
    return {"records": [{"id": identity, "fields": row}], **_typecast(fields)}


def _upsert(fields: ServiceFields) -> dict[str, JsonValue]:
    row, names = _row(fields), [name for name in _matching(fields) if name != "id"]
    identity = row.pop("id", None)
    if "id" in _matching(fields) and identity:
        return {"records": [{"id": identity, "fields": row}], **_typecast(fields)}
    # Without columns to merge on nothing can match: a record is created.
    merged = {"performUpsert": {"fieldsToMergeOn": names}} if names else {}
    return {"records": [{"fields": row}], **merged, **_typecast(fields)}


def _listed_fields(names: JsonValue) -> dict[str, JsonValue]:
    listed = names if isinstance(names, list) else str(names).split(",") if names else []
    return {f"fields[{index}]": name for index, name in enumerate(listed)}


def _order(fields: ServiceFields) -> dict[str, JsonValue]:
    order: dict[str, JsonValue] = {}
    path = "sort.property" if fields.version >= 2 else "additionalOptions.sort.property"
    for index, row in enumerate(fields.rows(path)):
        order[f"sort[{index}][field]"] = row.value("field")
        order[f"sort[{index}][direction]"] = row.text("direction", "asc")
    return order


def _query(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the query that lists records: formula, view, fields and order."""
    options = fields.options("options" if fields.version >= 2 else "additionalOptions")
    formula = fields.value("filterByFormula") if fields.version >= 2 else options.get("filterByFormula")
    query: dict[str, JsonValue] = {
        "pageSize": _PAGE,
        "filterByFormula": formula or None,
        "view": options.get("view"),
    }
    query |= _listed_fields(options.get("fields")) | _order(fields)
    view = query["view"]
    query["view"] = view.get("value") if isinstance(view, Mapping) else view
    return {name: value for name, value in query.items() if value not in (None, "")}


def _next_page(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    offset = response.get("offset") if isinstance(response, Mapping) else None
    return {**query, "offset": str(offset)} if offset else None


def _flat(record: JsonValue) -> dict[str, JsonValue]:
    """Returns a record in the form of version 2: its fields beside its id."""
    plain = dict(record) if isinstance(record, Mapping) else {}
    inner = plain.pop("fields", {})
    return {**plain, **(inner if isinstance(inner, Mapping) else {})}


def _objects(response: JsonValue, name: str) -> list[JsonObject]:
    """Returns the objects in a list of the response."""
    members = response.get(name) if isinstance(response, Mapping) else None
    return [
        member for member in (members if isinstance(members, list) else ()) if isinstance(member, Mapping)
    ]


def _listed(response: JsonValue, fields: ServiceFields) -> list[JsonObject]:
    return [_flat(record) if fields.version >= 2 else record for record in _objects(response, "records")]


def _bases(response: JsonValue, fields: ServiceFields) -> list[JsonObject]:
    """Returns the bases, with the rights that the step asks for if it names any."""
    levels = fields.value("options.permissionLevel")
    names = levels if isinstance(levels, list) else []
    return [base for base in _objects(response, "bases") if not names or base.get("permissionLevel") in names]


def _record_or_raw(response: AnyJson, fields: ServiceFields) -> Sequence[JsonObject]:
    record = response if isinstance(response, Mapping) else {}
    return [_flat(record) if fields.version >= 2 else record]


def _matches_columns(fields: ServiceFields) -> bool:
    """Returns whether an update finds its records by columns, and not by their id."""
    names = _matching(fields)
    return fields.version >= 2 and bool(names) and "id" not in names


def _formula(row: JsonObject, names: Sequence[str]) -> str:
    """Returns the formula of the records whose columns have a row's values. Raises ItemFailed."""
    conditions = []
    for name in names:
        value = row.get(name)
        if js.is_missing(value) or value == "":
            raise ItemFailed(f"The column “{name[:80]}”, which finds the record to update, is empty.")
        if isinstance(value, bool):
            text = "TRUE()" if value else "FALSE()"
        elif isinstance(value, int | float):
            text = js.text(value)
        else:
            text = "'" + re.sub(r"(['\\])", r"\\\1", js.text(value)) + "'"
        column = re.sub(r"([}\\])", r"\\\1", name)
        conditions.append(f"{{{column}}} = {text}")
    return conditions[0] if len(conditions) == 1 else f"AND({', '.join(conditions)})"


async def _found_ids(port: ServicePort, path: str, formula: str) -> list[str]:
    """Returns the ids of the first records that a formula holds for. Raises ItemFailed, CallError."""
    query = {"pageSize": str(_MAX_UPDATES + 1), "filterByFormula": formula}
    try:
        response = await port.read(path, query)
    except CallError as error:
        raise as_item_failure(error) from error
    decoded = parsed_response(response.body.decode("utf-8", "replace"))
    return [str(record.get("id")) for record in _objects(decoded, "records")]


def _file_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("downloadAttachments") or node.get("options.downloadFields"):
        message = "It downloads attachments, which is not supported. Switch that off."
        yield StepProblem("error", "binary", message)


def _path(fields: ServiceFields) -> str:
    return f"/v0/{path_segment(_base(fields), 'base')}/{path_segment(_table(fields), 'table')}"


def _record_path(fields: ServiceFields) -> str:
    return f"{_path(fields)}/{path_segment(fields.text('id'), 'record')}"


def _schema(fields: ServiceFields) -> str:
    return f"/v0/meta/bases/{path_segment(_base(fields), 'base')}/tables"


_WHERE = {"table": "which table it means"}
_WHICH = _WHERE | {"id": "which record it means"}
_LIST = ServiceOperation(
    "GET", "", _query, needed=_WHERE, choose_path=_path, to_items=_listed, next_page=_next_page,
    check=_file_problems, returns_all=True,
)  # fmt: skip
_GET = ServiceOperation(
    "GET", "", needed=_WHICH, choose_path=_record_path, to_items=_record_or_raw, check=_file_problems
)
_UPDATE = ServiceOperation(
    "PATCH", "", _update, "records", recipient=_table, needed=_WHERE, choose_path=_path
)
_DELETE = ServiceOperation("DELETE", "", recipient=_table, needed=_WHICH, choose_path=_record_path)
_OPERATIONS = {
    "record.append": ServiceOperation(
        "POST", "", _create, "records", recipient=_table, needed=_WHERE, choose_path=_path
    ),
    "record.create": ServiceOperation(
        "POST", "", _create, recipient=_table, needed=_WHERE, choose_path=_path
    ),
    "record.list": _LIST,
    "record.search": _LIST,
    "record.read": _GET,
    "record.get": _GET,
    "record.update": _UPDATE,
    "record.upsert": ServiceOperation(
        "PATCH", "", _upsert, "records", recipient=_table, needed=_WHERE, choose_path=_path
    ),
    "record.delete": _DELETE,
    "record.deleteRecord": _DELETE,
    "base.getMany": ServiceOperation("GET", "/v0/meta/bases", to_items=_bases, next_page=_next_page),
    "base.getSchema": ServiceOperation("GET", "", items="tables", choose_path=_schema),
}
_DEFAULTS = {"record": "read", "base": "getMany"}


class AirtableNode(ServiceNode):
    """Supports records in all versions of the node; does not download attachments."""

    types = ("airtable",)
    versions = (1, 2, 2.1)
    connector = "airtable"
    service = "Airtable"
    parameters = frozenset(_NAMES.split(" "))
    collections = _COLLECTIONS
    default_resource = "record"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item; an update by columns finds its records first. Raises ItemFailed."""
        prepared = self.operations[key].call(fields)
        if key != "record.update" or not _matches_columns(fields):
            return prepared
        row = _row(fields)
        ids = await _found_ids(port, prepared.path, _formula(row, _matching(fields)))
        if not ids:
            raise ItemFailed("The table has no record with these values to update.")
        if not fields.flag("options.updateAllMatches"):
            ids = ids[:1]
        if len(ids) > _MAX_UPDATES:
            raise ItemFailed(f"More than {_MAX_UPDATES} records have these values. Match more columns.")
        columns = {name: value for name, value in row.items() if name != "id"}
        records: list[AnyJson] = [{"id": identity, "fields": columns} for identity in ids]
        return replace(prepared, body={**prepared.body, "records": records})
