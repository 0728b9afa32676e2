"""The node spreadsheetFile: the predecessor of extractFromFile and convertToFile for tables."""

from collections.abc import Iterable, Sequence
from types import MappingProxyType

from steward.steps.n8n import file_tables, item_files
from steward.steps.n8n.nodes import convert_to_file, extract_from_file
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.items import BinaryReference, Item
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
)

_GUESSED = (
    "Version 1 of this step makes numbers and dates of the texts of a CSV file, which is not supported."
    " Switch its option “RAW Data” on, or use an Extract from File step."
)
_GUESSED_IF_CSV = f"If the file is CSV, it fails here. {_GUESSED}"


class SpreadsheetFileNode(StepType):
    """Reads a table from each item's file, or writes all items to one file."""

    types = ("spreadsheetFile",)
    versions = (1, 2)
    options = file_tables.READ_OPTIONS | file_tables.WRITE_OPTIONS
    choices = MappingProxyType({"operation": frozenset(("fromFile", "toFile"))})
    parameters = frozenset(("operation", "binaryPropertyName", "fileFormat", "options"))

    def operation(self, node: NodeDefinition) -> str:
        """Returns spreadsheetFile.fromFile or spreadsheetFile.toFile."""
        return f"spreadsheetFile.{node.literal('operation', 'fromFile')}"

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that it reads, or none if it writes one."""
        reads = node.literal("operation", "fromFile") == "fromFile"
        return (node.file_name("binaryPropertyName"),) if reads else ()

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields formats that it can neither read nor write."""
        if node.get("operation", "fromFile") == "toFile":
            yield from convert_to_file.format_problems(node.get("fileFormat", "csv"), convert_to_file.TABLES)
            return
        format_ = node.get("fileFormat", "autodetect")
        if _guesses_types(node.version, node.get("options.rawData")):
            if format_ == "csv":
                yield StepProblem("error", "parameter", _GUESSED)
            elif format_ == "autodetect":
                yield StepProblem("warning", "parameter", _GUESSED_IF_CSV)
        yield from item_files.extra_problems("xlsx" if format_ == "autodetect" else format_)

    async def run(self, call: StepCall) -> NodeResult:
        """Reads or writes the files."""
        if call.first.text("operation", "fromFile") == "toFile":
            format_ = call.first.text("fileFormat", "csv")
            file = await convert_to_file.table_file(call, format_, default_name=f"spreadsheet.{format_}")
            return convert_to_file.one_item(call, file)
        return await convert_each_item(call, lambda index, item: _read(call, index, item))


def _guesses_types(version: float, keeps_texts: object) -> bool:
    """Returns whether n8n converts texts of a CSV file to numbers, dates and booleans."""
    return version < 2 and keeps_texts is not True


async def _read(call: StepCall, index: int, item: Item) -> list[Item]:
    params = call.params(index)
    file = item_files.file_of(item, params.text("binaryPropertyName") or "data")
    format_ = params.text("fileFormat", "autodetect")
    content = await item_files.content_of(call, file)
    if format_ == "autodetect":
        format_ = _format_of(file, content)
    if format_ == "csv" and _guesses_types(call.version, params.flag("options.rawData")):
        raise ItemFailed(_GUESSED)
    rows = await extract_from_file.table_rows(call, params, format_, content)
    return [Item(fields, paired_with(index)) for fields in rows]


def _format_of(file: BinaryReference, content: bytes) -> str:
    """Returns the file's format, judged by MIME type, name or content."""
    extension = file.extension.lower()
    if file.mime_type == "text/csv" or extension == "csv":
        return "csv"
    if file.mime_type == "text/html" or extension in ("html", "htm"):
        return "html"
    return "rtf" if content.startswith(b"{\\rtf") else "xlsx"
