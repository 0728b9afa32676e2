"""The node convertToFile: creates a file from items or from a field."""

from collections.abc import Iterable
from types import MappingProxyType

from steward.model.json import JsonValue
from steward.steps.n8n import item_files
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.items import BinaryReference, Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
    paired_with_all,
)

TABLES = ("csv", "html", "ods", "xlsx")
_NOT_WRITTEN = ("iCal", "rtf", "xls")


class ConvertToFileNode(StepType):
    """Writes a table of all items to a file, JSON to one or one per item, a field to one per item."""

    types = ("convertToFile",)
    versions = (1, 1.1)
    field_use = FieldUse.READS
    options = frozenset(
        (
            "addBOM",
            "compression",
            "dataIsBase64",
            "delimiter",
            "encoding",
            "fileName",
            "format",
            "headerRow",
            "mimeType",
            "sheetName",
        )
    )
    choices = MappingProxyType({"mode": frozenset(("once", "each"))})
    parameters = frozenset(("operation", "binaryPropertyName", "mode", "options", "sourceProperty", "notice"))

    def operation(self, node: NodeDefinition) -> str:
        """Returns `convertToFile.csv`, for example."""
        return f"convertToFile.{node.literal('operation', 'csv')}"

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported formats."""
        operation = node.get("operation", "csv")
        yield from format_problems(operation, (*TABLES, "toJson", "toText", "toBinary"))

    async def run(self, call: StepCall) -> NodeResult:
        """Creates the files."""
        operation = call.first.text("operation", "csv")
        if operation in TABLES:
            file = await table_file(call, operation, default_name=f"File.{operation}")
            return one_item(call, file)
        if operation == "toJson" and call.first.text("mode", "once") == "once":
            fields: list[JsonValue] = [dict(item.json) for item in call.items]
            return one_item(call, await _json_file(call, call.first, fields))
        return await convert_each_item(call, lambda index, item: _converted(call, index, item))


def format_problems(operation: object, operations: tuple[str, ...]) -> Iterable[StepProblem]:
    """Yields formats that are unsupported or whose library is missing."""
    if operation in _NOT_WRITTEN:
        message = f"It writes a file of the format {operation}, which is not supported. Choose XLSX or CSV."
        yield StepProblem("error", "binary", message)
    elif operation not in operations:
        yield StepProblem("error", "parameter", "Its operation is not known. Choose another one.")
    yield from item_files.extra_problems(operation, writes=True)


async def table_file(call: StepCall, format_: str, *, default_name: str) -> BinaryReference:
    """Returns a file with a row for each item. Raises ItemFailed."""
    params = call.first
    header = params.flag("options.headerRow", default=True)
    options = {
        **item_files.text_options(params),
        "delimiter": params.text("options.delimiter") or ",",
        "sheet": params.text("options.sheetName") or "Sheet",
    }
    rows: JsonValue = item_files.table_of(call.items, header=header)
    content = await item_files.write_format(call, format_, rows, options)
    name = params.text("options.fileName") or default_name
    return await item_files.store(call, content, file_name=name, mime_type=item_files.MIME_TYPES[format_])


def one_item(call: StepCall, file: BinaryReference) -> NodeResult:
    """Returns one item with the file, paired with all input items."""
    name = call.first.text("binaryPropertyName") or "data"
    return NodeResult([[Item({}, paired_with_all([call.items]), binary={name: file})]])


async def _json_file(call: StepCall, params: Params, value: JsonValue) -> BinaryReference:
    text = item_files.json_text(value, indented=params.flag("options.format"))
    content = await item_files.write_format(call, "text", text, item_files.text_options(params))
    name = params.text("options.fileName") or "file.json"
    return await item_files.store(call, content, file_name=name, mime_type="application/json")


async def _converted(call: StepCall, index: int, item: Item) -> list[Item]:
    params = call.params(index)
    operation = params.text("operation", "csv")
    if operation == "toJson":
        file = await _json_file(call, params, dict(item.json))
    else:
        source = params.text("sourceProperty")
        value = js.get_path(item.json, source)
        if value is js.UNDEFINED:
            raise ItemFailed(f"The item has no field “{source}”. Name the field that the file is made of.")
        make = _text_file if operation == "toText" else _binary_file
        file = await make(call, params, value)
    return [Item({}, paired_with(index), binary={params.text("binaryPropertyName") or "data": file})]


async def _text_file(call: StepCall, params: Params, value: JsonValue) -> BinaryReference:
    text = js.json_text(value) if js.is_object(value) or js.is_list(value) else js.text(value)
    content = await item_files.write_format(call, "text", text, item_files.text_options(params))
    name = params.text("options.fileName") or "file.txt"
    return await item_files.store(call, content, file_name=name, mime_type="text/plain")


async def _binary_file(call: StepCall, params: Params, value: JsonValue) -> BinaryReference:
    if params.flag("options.dataIsBase64", default=True):
        content = item_files.from_base64(js.text(value))
    else:
        content = await item_files.write_format(call, "text", js.text(value), item_files.text_options(params))
    name = params.text("options.fileName") or None
    return await item_files.store(
        call, content, file_name=name, mime_type=params.text("options.mimeType") or None
    )
