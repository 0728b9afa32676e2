"""The nodes readWriteFile, writeBinaryFile, readBinaryFile and readBinaryFiles, on the run's storage.

Files that n8n writes to its disk are stored with the run and readable by later steps of the same run. See
docs/design/files.md#files-of-the-machine.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType

import re2

from steward.steps.n8n import item_files
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.items import BinaryReference, Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    KnownFields,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
)

_READ_FIELDS = ("mimeType", "fileType", "fileName", "fileExtension", "fileSize")


class _LocalFileNode(StepType):
    stateful = True  # its files exist only in memory during the run; a resumed run writes them again


class ReadWriteFileNode(_LocalFileNode):
    """Writes a file per item, or outputs an item per file that a selector matches."""

    types = ("readWriteFile",)
    versions = (1, 1.1)
    options = frozenset(("append", "fileExtension", "fileName", "mimeType", "dataPropertyName"))
    choices = MappingProxyType({"operation": frozenset(("read", "write"))})
    parameters = frozenset(("operation", "fileSelector", "fileName", "dataPropertyName", "options", "info"))

    def operation(self, node: NodeDefinition) -> str:
        """Returns readWriteFile.read or readWriteFile.write."""
        return f"readWriteFile.{node.literal('operation', 'read')}"

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that it writes, or none if it reads."""
        return (node.file_name("dataPropertyName"),) if node.get("operation", "read") == "write" else ()

    def known_fields(self, node: NodeDefinition) -> KnownFields | None:
        """Returns the fields that describe a file it reads, or None if it writes."""
        return None if self.file_names(node) else dict.fromkeys(_READ_FIELDS)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a warning about where the file is stored."""
        if self.file_names(node):
            yield _storage_warning()

    def keeps_files(self, call: StepCall) -> bool:
        """Returns whether its items keep their files, which is the case only when it writes."""
        return call.first.text("operation", "read") == "write"

    async def run(self, call: StepCall) -> NodeResult:
        """Writes or reads for each item."""
        writes = call.first.text("operation", "read") == "write"
        if writes:
            return await convert_each_item(call, lambda index, item: _written(call, index, item))
        return await convert_each_item(call, lambda index, item: _read(call, index))


class WriteBinaryFileNode(_LocalFileNode):
    """Writes a file per item, as readWriteFile does in newer versions of n8n."""

    types = ("writeBinaryFile",)
    field_use = FieldUse.EXTENDS_ITEMS
    options = frozenset(("append",))
    parameters = frozenset(("fileName", "dataPropertyName", "options"))

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that it writes."""
        return (node.file_name("dataPropertyName"),)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a warning about where the file is stored."""
        yield _storage_warning()

    async def run(self, call: StepCall) -> NodeResult:
        """Writes a file of each item."""
        return await convert_each_item(call, lambda index, item: _written(call, index, item))


class ReadBinaryFileNode(_LocalFileNode):
    """Adds a file, named by its path, to each item."""

    types = ("readBinaryFile",)
    field_use = FieldUse.PASSES_ITEMS
    parameters = frozenset(("filePath", "dataPropertyName"))

    async def run(self, call: StepCall) -> NodeResult:
        """Adds the file to each item."""

        async def convert(index: int, item: Item) -> list[Item]:
            params = call.params(index)
            [file, *_] = _selected(call, params.text("filePath"))
            name = params.text("dataPropertyName") or "data"
            return [Item(item.json, paired_with(index), binary={**item.binary, name: file})]

        return await convert_each_item(call, convert)


class ReadBinaryFilesNode(_LocalFileNode):
    """Outputs an item per file that a selector matches, once for all input items."""

    types = ("readBinaryFiles",)
    field_use = FieldUse.REPLACES_ITEMS
    per_item = False
    parameters = frozenset(("fileSelector", "dataPropertyName"))

    async def run(self, call: StepCall) -> NodeResult:
        """Outputs an item per matching file."""
        name = call.first.text("dataPropertyName") or "data"
        files = _selected(call, call.first.text("fileSelector"))
        return NodeResult([[Item({}, paired_with(0), binary={name: file}) for file in files]])


def selected(selector: str, paths: Iterable[str]) -> list[str]:
    """Returns the paths that a selector matches; it is a path or has `*`, `**` or `?`."""
    regex_by_wildcard = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", selector)
    regex = "".join(regex_by_wildcard.get(part, re2.escape(part)) for part in parts)
    try:
        pattern = re2.compile(f"(?s){regex}")
    except re2.error:
        return [path for path in paths if path == selector]
    return [path for path in paths if path == selector or pattern.fullmatch(path) is not None]


def _storage_warning() -> StepProblem:
    message = (
        "In n8n it writes to the disk of its machine. Here the file is kept with the run, where the steps"
        " behind it can read it. Send it on, by mail or to Google Drive for example, if people need it."
    )
    return StepProblem("warning", "binary", message)


async def _written(call: StepCall, index: int, item: Item) -> list[Item]:
    params = call.params(index)
    path = params.text("fileName")
    if not path.strip():
        raise ItemFailed("This step does not say under which name it writes the file. Fill it in.")
    file = item_files.file_of(item, params.text("dataPropertyName") or "data")
    written = call.environment.written_files
    before = written.get(path)
    if params.flag("options.append") and before is not None:
        content = await item_files.content_of(call, before) + await item_files.content_of(call, file)
        file = await item_files.store(call, content, file_name=path, mime_type=before.mime_type)
    mime_type = item_files.mime_type_of(path)
    kind = file.mime_type if mime_type == item_files.OCTETS else mime_type
    written[path] = replace(file, file_name=path.replace("\\", "/").rpartition("/")[2], mime_type=kind)
    fields = js.deep_copy(item.json) | {"fileName": path}
    return [Item(fields, paired_with(index), binary=item.binary)]


async def _read(call: StepCall, index: int) -> list[Item]:
    params = call.params(index)
    files = [_with_options(file, params) for file in _selected(call, params.text("fileSelector"))]
    name = params.text("options.dataPropertyName") or "data"
    return [Item(_fields_of(file), paired_with(index), binary={name: file}) for file in files]


def _with_options(file: BinaryReference, params: Params) -> BinaryReference:
    """Returns the file with the name and type set in the options."""
    name = params.text("options.fileName") or file.file_name or ""
    extension = params.text("options.fileExtension").lstrip(".")
    if extension:
        name = f"{name.rpartition('.')[0] or name}.{extension}"
    return replace(file, file_name=name, mime_type=params.text("options.mimeType") or file.mime_type)


def _fields_of(file: BinaryReference) -> dict[str, str]:
    """Returns the fields that describe a file in an item."""
    view = file.view()
    return {name: str(view[name]) for name in _READ_FIELDS if name in view}


def _selected(call: StepCall, selector: str) -> list[BinaryReference]:
    """Returns this run's files that a selector matches, ordered by path. Raises ItemFailed."""
    written = call.environment.written_files
    files = [written[path] for path in selected(selector, sorted(written))]
    if not files:
        message = f"No step of this run has written the file “{selector[:200]}”, and no other files are here."
        raise ItemFailed(message)
    return files
