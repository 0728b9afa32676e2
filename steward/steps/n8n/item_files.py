"""Reads and stores the files of items for node types that work with files.

See docs/design/files.md#formats.
"""

import base64
import binascii
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.base import FileRefused, RunFiles
from steward.steps.workflow.expressions.views import FileFailed
from steward.steps.workflow.items import BinaryReference, Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    Params,
    StepCall,
    StepProblem,
    WorkflowStepFailed,
)

OCTETS = "application/octet-stream"
MIME_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "csv": "text/csv",
        "html": "text/html",
        "txt": "text/plain",
        "xml": "text/xml",
        "ics": "text/calendar",
        "json": "application/json",
        "pdf": "application/pdf",
        "rtf": "application/rtf",
        "zip": "application/zip",
        "gz": "application/gzip",
        "ods": "application/vnd.oasis.opendocument.spreadsheet",
        "xls": "application/vnd.ms-excel",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "doc": "application/msword",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "png": "image/png",
        "jpg": "image/jpeg",
        "jpeg": "image/jpeg",
        "gif": "image/gif",
        "webp": "image/webp",
        "svg": "image/svg+xml",
        "mp3": "audio/mpeg",
        "mp4": "video/mp4",
    }
)
# By format: the module of the extra `files` that reads or writes it.
_MODULES = {"xls": "python_calamine", "xlsx": "python_calamine", "ods": "python_calamine", "pdf": "pypdf"}
_WRITING = {"xlsx": "xlsxwriter"}


def mime_type_of(file_name: str | None) -> str:
    """Returns the MIME type for a file name's extension."""
    return MIME_TYPES.get((file_name or "").rpartition(".")[2].lower(), OCTETS)


def extra_problems(format_: object, *, writes: bool = False) -> Iterable[StepProblem]:
    """Yields a problem for a format whose library is not installed."""
    module = (_WRITING if writes else _MODULES).get(str(format_))
    if module is not None and importlib.util.find_spec(module) is None:
        message = (
            f"Files of the format {str(format_).upper()} need an extra that is not installed here."
            " Ask the operator to install Steward with its extra “files”."
        )
        yield StepProblem("error", "binary", message)


def _storage_of(call: StepCall) -> RunFiles:
    """Returns the file storage of the run. Raises WorkflowStepFailed without one."""
    files = call.environment.files
    if files is None:
        raise WorkflowStepFailed("This step works with files, which is not possible here.")
    return files


def file_of(item: Item, name: str) -> BinaryReference:
    """Returns a file of the item by its field. Raises ItemFailed."""
    file = item.binary.get(name)
    if file is None:
        message = (
            f"The item has no file “{name}”. Check what comes before this step, and the name of its field."
        )
        raise ItemFailed(message)
    return file


async def content_of(call: StepCall, file: BinaryReference) -> bytes:
    """Returns the content of a file. Raises ItemFailed."""
    return await content_by_hash(call, file.sha256)


async def content_by_hash(call: StepCall, sha256: str) -> bytes:
    """Returns the content of a file of this run. Raises ItemFailed."""
    try:
        return await _storage_of(call).get(sha256)
    except FileRefused as refused:
        raise ItemFailed(refused.message) from refused


async def store(
    call: StepCall, content: bytes, *, file_name: str | None, mime_type: str | None = None
) -> BinaryReference:
    """Stores a file and returns its reference. Raises ItemFailed if it exceeds a limit."""
    try:
        sha256 = await _storage_of(call).put(content)
    except FileRefused as refused:
        raise ItemFailed(refused.message) from refused
    return BinaryReference(sha256, len(content), mime_type or mime_type_of(file_name), file_name or None)


async def read_format(
    call: StepCall, format_: str, content: bytes, options: Mapping[str, AnyJson]
) -> AnyJson:
    """Parses a file of this format. Raises ItemFailed, CodeStopped."""
    try:
        return await call.evaluator.read_file(format_, content, options)
    except FileFailed as failure:
        raise ItemFailed(failure.message) from failure


async def write_format(call: StepCall, format_: str, data: JsonValue, options: JsonObject) -> bytes:
    """Writes a file of this format. Raises ItemFailed, CodeStopped."""
    try:
        return await call.evaluator.write_file(format_, data, options)
    except FileFailed as failure:
        raise ItemFailed(failure.message) from failure


def text_options(params: Params) -> JsonObject:
    """Returns the encoding and byte-order-mark options of a step."""
    return {"encoding": params.text("options.encoding") or "utf8", "bom": params.flag("options.addBOM")}


def flat(fields: JsonObject) -> JsonObject:
    """Returns the fields of an item as columns; a nested field is named by its path, `customer.city`."""
    columns: dict[str, JsonValue] = {}
    for name, value in js.members(fields):
        members = value
        if isinstance(value, list):
            members = {str(index): member for index, member in enumerate(value)}
        if isinstance(members, Mapping):
            columns |= {f"{name}.{inner}": member for inner, member in flat(members).items()}
        else:
            columns[name] = value
    return columns


def table_of(items: Sequence[Item], *, header: bool) -> list[list[JsonValue]]:
    """Returns items as rows; columns are in order of first appearance."""
    rows = [flat(item.json) for item in items]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = [[row.get(name) for name in columns] for row in rows]
    return [list(columns), *table] if header else table


def json_text(value: JsonValue, *, indented: bool) -> str:
    """Returns JSON text as JavaScript writes it, optionally indented by two spaces."""
    return js.json_text(value, indent=2 if indented else 0)


def from_base64(text: str) -> bytes:
    """Decodes Base64 text. Raises ItemFailed."""
    _, is_address, data = text.partition(";base64,")
    try:
        return base64.b64decode("".join((data if is_address else text).split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ItemFailed("The text is not Base64. Choose the field that holds the file's data.") from error
