"""The node extractFromFile: extracts items or a field from a file."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from steward.model.json import JsonObject, JsonValue
from steward.steps.n8n import file_tables, item_files
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.items import BinaryReference, Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
)

_TABLES = ("csv", "html", "ods", "rtf", "xls", "xlsx")
_FIELDS = ("binaryToPropery", "fromJson", "text", "xml", "pdf")


class ExtractFromFileNode(StepType):
    """Turns tables into an item per row, and other files into a field."""

    types = ("extractFromFile",)
    versions = (1, 1.1)
    options = file_tables.READ_OPTIONS | frozenset(
        ("joinPages", "keepSource", "maxPages", "password", "stripBOM")
    )
    choices = MappingProxyType({"options.keepSource": frozenset(("json", "binary", "both"))})
    parameters = frozenset(("operation", "binaryPropertyName", "destinationKey", "options"))

    def operation(self, node: NodeDefinition) -> str:
        """Returns `extractFromFile.csv`, for example."""
        return f"extractFromFile.{node.literal('operation', 'csv')}"

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that it reads."""
        return (node.file_name("binaryPropertyName"),)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported formats."""
        operation = node.get("operation", "csv")
        if operation == "fromIcs":
            message = "It reads a calendar file, which is not supported. Extract its text and read that."
            yield StepProblem("error", "binary", message)
        elif operation not in (*_TABLES, *_FIELDS):
            yield StepProblem("error", "parameter", "Its operation is not known. Choose another one.")
        if operation == "pdf":
            message = "The text of a PDF file may be laid out differently than in n8n. Check what reads it."
            yield StepProblem("warning", "parameter", message)
        yield from item_files.extra_problems(operation)

    async def run(self, call: StepCall) -> NodeResult:
        """Reads the file of each item."""
        return await convert_each_item(call, lambda index, item: _extracted(call, index, item))


async def _extracted(call: StepCall, index: int, item: Item) -> list[Item]:
    params = call.params(index)
    operation = params.text("operation", "csv")
    name = params.text("binaryPropertyName") or "data"
    content = await item_files.content_of(call, item_files.file_of(item, name))
    if operation in _TABLES:
        rows = await table_rows(call, params, operation, content)
        return [Item(fields, paired_with(index)) for fields in rows]
    if operation == "pdf":
        return [await _pdf_item(call, params, content, index, item)]
    if operation == "binaryToPropery":
        value: JsonValue = base64.b64encode(content).decode("ascii")
    elif operation == "fromJson":
        value = await item_files.read_format(call, "json", content, _text_options(params))
    else:
        value = await item_files.read_format(call, "text", content, _text_options(params))
    source = params.get("options.keepSource", None)
    fields = dict(js.deep_copy(item.json)) if source in ("json", "both") else {}
    js.set_path(fields, params.text("destinationKey") or "data", value)
    return [Item(fields, paired_with(index), binary=_rest(item, name, source))]


def _text_options(params: Params) -> JsonObject:
    return {
        "encoding": params.text("options.encoding") or "utf8",
        "strip_bom": params.flag("options.stripBOM", default=True),
    }


def _rest(item: Item, name: str, source: JsonValue) -> Mapping[str, BinaryReference]:
    """Returns the item's files, without the extracted one unless the step keeps it."""
    if source in ("binary", "both"):
        return item.binary
    return {other: file for other, file in item.binary.items() if other != name}


async def table_rows(
    call: StepCall, params: Params, format_: str, content: bytes
) -> list[dict[str, JsonValue]]:
    """Returns the fields of each row of a file. Raises ItemFailed."""
    if format_ == "csv":
        rows = await item_files.read_format(call, "csv", content, file_tables.csv_options(params))
        return file_tables.csv_items(rows, params)
    options = {
        "sheet": params.text("options.sheetName") or None,
        "encoding": params.text("options.encoding") or "utf8",
        "as_text": params.flag("options.rawData") or params.flag("options.readAsString"),
    }
    reader = format_ if format_ in ("html", "rtf") else "sheet"
    rows = await item_files.read_format(call, reader, content, options)
    return file_tables.sheet_items(rows, params)


async def _pdf_item(call: StepCall, params: Params, content: bytes, index: int, item: Item) -> Item:
    """Returns the item with the text and metadata of a PDF file. Raises ItemFailed."""
    options = {
        "join": params.flag("options.joinPages", default=True),
        "pages": js.number(params.get("options.maxPages", 0)) or 0,
        "password": params.text("options.password") or params.text("password"),
    }
    facts = await item_files.read_format(call, "pdf", content, options)
    source = params.get("options.keepSource", None)
    kept_fields = dict(item.json) if source in ("json", "both") else {}
    binary = item.binary if source in ("binary", "both") else {}
    return Item({**kept_fields, **facts}, paired_with(index), binary=binary)


class ReadPdfNode(StepType):
    """The node readPDF: reads a PDF file and keeps the item's files."""

    types = ("readPDF",)
    versions = (1,)
    parameters = frozenset(("binaryPropertyName", "encrypted", "password"))

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that it reads."""
        return (node.file_name("binaryPropertyName"),)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a missing library, and a note that layouts differ."""
        return ExtractFromFileNode().check(NodeDefinition(node.name, 1, {"operation": "pdf"}))

    def keeps_files(self, call: StepCall) -> bool:
        """Returns True: the files are kept."""
        return True

    async def run(self, call: StepCall) -> NodeResult:
        """Reads the file of each item."""

        async def read(index: int, item: Item) -> list[Item]:
            params = call.params(index)
            file = item_files.file_of(item, params.text("binaryPropertyName") or "data")
            return [await _pdf_item(call, params, await item_files.content_of(call, file), index, item)]

        return await convert_each_item(call, read)
