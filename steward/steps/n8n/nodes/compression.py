"""The node compression: packs and unpacks files as zip and gzip."""

import base64
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from steward.model.limits import MAX_FILE_BYTES
from steward.steps.n8n import item_files
from steward.steps.n8n.nodes.lists import names_of
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.items import BinaryReference, Item
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    is_expression,
    paired_with,
)

_MANY_FILES = "The archive would be larger than a step can pack at once. Pack fewer files."


class CompressionNode(StepType):
    """Packs and unpacks archives of at most 20 MiB, packed and unpacked, as for any file."""

    types = ("compression",)
    versions = (1, 1.1)
    choices = MappingProxyType(
        {"operation": frozenset(("compress", "decompress")), "outputFormat": frozenset(("zip", "gzip"))}
    )
    parameters = frozenset(
        (
            "operation",
            "binaryPropertyName",
            "outputFormat",
            "fileName",
            "binaryPropertyOutput",
            "outputPrefix",
        )
    )

    def operation(self, node: NodeDefinition) -> str:
        """Returns compression.compress or compression.decompress."""
        return f"compression.{node.literal('operation', 'decompress')}"

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the names of the files that it packs or unpacks."""
        names = node.file_name("binaryPropertyName")
        return (names,) if is_expression(names) else names_of(names)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields a warning if it packs several files with gzip."""
        names = names_of(node.literal("binaryPropertyName", "data"))
        if node.get("outputFormat") == "gzip" and node.version >= 1.1 and len(names) > 1:
            message = (
                "It packs several files as gzip, each by itself. Check the fields that later steps read."
            )
            yield StepProblem("warning", "parameter", message)

    async def run(self, call: StepCall) -> NodeResult:
        """Packs or unpacks the files of each item."""
        unpacks = call.first.text("operation", "decompress") == "decompress"
        work = _unpacked if unpacks else _packed
        return await convert_each_item(call, lambda index, item: work(call, call.params(index), index, item))


def _files(params: Params, item: Item) -> list[BinaryReference]:
    names = names_of(params.get("binaryPropertyName", "data"))
    return [item_files.file_of(item, name) for name in names]


async def _packed(call: StepCall, params: Params, index: int, item: Item) -> list[Item]:
    files = _files(params, item)
    if sum(file.size for file in files) > MAX_FILE_BYTES:
        raise ItemFailed(_MANY_FILES)
    if params.text("outputFormat", "zip") == "zip":
        entries = [
            [file.file_name or f"file_{number}", await _base64(call, file)]
            for number, file in enumerate(files)
        ]
        content = await item_files.write_format(call, "zip", entries, {})
        packed = await item_files.store(
            call, content, file_name=params.text("fileName") or "data.zip", mime_type="application/zip"
        )
        binary = {params.text("binaryPropertyOutput") or "data": packed}
    else:
        binary = await _gzipped(call, params, files)
    return [Item(item.json, paired_with(index), binary=binary)]


async def _gzipped(
    call: StepCall, params: Params, files: Sequence[BinaryReference]
) -> dict[str, BinaryReference]:
    prefix = params.text("outputPrefix") or params.text("binaryPropertyOutput") or "data"
    compressed: dict[str, BinaryReference] = {}
    for number, file in enumerate(files):
        content = await item_files.write_format(call, "gzip", await _base64(call, file), {})
        name = params.text("fileName") or f"{file.file_name or 'data'}.gz"
        field = prefix if len(files) == 1 and not params.text("outputPrefix") else f"{prefix}{number}"
        compressed[field] = await item_files.store(
            call, content, file_name=name, mime_type="application/gzip"
        )
    return compressed


async def _base64(call: StepCall, file: BinaryReference) -> str:
    return base64.b64encode(await item_files.content_of(call, file)).decode("ascii")


async def _unpacked(call: StepCall, params: Params, index: int, item: Item) -> list[Item]:
    prefix = params.text("outputPrefix") or "file_"
    files: dict[str, BinaryReference] = {}
    for file in _files(params, item):
        content = await item_files.content_of(call, file)
        for name, data in await _entries(call, file, content):
            stored = await item_files.store(call, base64.b64decode(data), file_name=name)
            files[f"{prefix}{len(files)}"] = stored
    return [Item(item.json, paired_with(index), binary=files)]


async def _entries(call: StepCall, file: BinaryReference, content: bytes) -> list[tuple[str, str]]:
    """Returns the names and Base64 contents of a packed file. Raises ItemFailed."""
    if content.startswith(b"\x1f\x8b"):
        name = (file.file_name or "file").removesuffix(".gz").removesuffix(".gzip")
        return [(name, await item_files.read_format(call, "gunzip", content, {}))]
    entries = await item_files.read_format(call, "unzip", content, {})
    return [(str(name).rpartition("/")[2], data) for name, data in entries]
