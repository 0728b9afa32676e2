"""The node moveBinaryData: moves a file into fields, or fields into a file."""

import base64
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from steward.model.json import JsonValue
from steward.steps.n8n import item_files
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
)


class MoveBinaryDataNode(StepType):
    """The predecessor of extractFromFile and convertToFile for JSON and text."""

    types = ("moveBinaryData",)
    versions = (1, 1.1)
    options = frozenset(
        (
            "addBOM",
            "dataIsBase64",
            "encoding",
            "fileName",
            "ignoreJsonParseErrors",
            "jsonParse",
            "keepAsBase64",
            "keepSource",
            "mimeType",
            "stripBOM",
            "useRawData",
        )
    )
    choices = MappingProxyType({"mode": frozenset(("binaryToJson", "jsonToBinary"))})
    parameters = frozenset(("mode", "setAllData", "sourceKey", "destinationKey", "convertAllData", "options"))

    def operation(self, node: NodeDefinition) -> str:
        """Returns moveBinaryData.binaryToJson or moveBinaryData.jsonToBinary."""
        return f"moveBinaryData.{node.literal('mode', 'binaryToJson')}"

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that it reads, or none if it creates one."""
        reads = node.literal("mode", "binaryToJson") == "binaryToJson"
        return (node.file_name("sourceKey"),) if reads else ()

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields an option that would hide errors."""
        if node.get("options.ignoreJsonParseErrors"):
            message = "It passes on text that is not JSON as it is; here the item fails. Check what it reads."
            yield StepProblem("warning", "parameter", message)

    async def run(self, call: StepCall) -> NodeResult:
        """Moves the data of each item."""
        to_binary = call.first.text("mode", "binaryToJson") == "jsonToBinary"
        move = _to_file if to_binary else _to_fields
        return await convert_each_item(call, lambda index, item: move(call, call.params(index), index, item))


async def _to_fields(call: StepCall, params: Params, index: int, item: Item) -> list[Item]:
    name = params.text("sourceKey", "data")
    content = await item_files.content_of(call, item_files.file_of(item, name))
    options = {
        "encoding": params.text("options.encoding") or "utf8",
        "strip_bom": params.flag("options.stripBOM", default=True),
    }
    keeps = params.flag("options.keepSource")
    binary = {other: file for other, file in item.binary.items() if keeps or other != name}
    if params.flag("setAllData", default=True):
        value = await item_files.read_format(call, "json", content, options)
        if not js.is_object(value):
            raise ItemFailed("The file holds no object. Switch “Set All Data” off.")
        return [Item(value, paired_with(index), binary=binary)]
    fields = dict(js.deep_copy(item.json))
    if params.flag("options.keepAsBase64"):
        value = base64.b64encode(content).decode("ascii")
    else:
        is_json = params.flag("options.jsonParse")
        value = await item_files.read_format(call, "json" if is_json else "text", content, options)
    js.set_path(fields, params.text("destinationKey", "data"), value)
    return [Item(fields, paired_with(index), binary=binary)]


async def _to_file(call: StepCall, params: Params, index: int, item: Item) -> list[Item]:
    keeps = params.flag("options.keepSource")
    fields: dict[str, JsonValue] = {}
    if params.flag("convertAllData", default=True):
        value: JsonValue = dict(item.json)
        fields = dict(item.json) if keeps else {}
    else:
        source = params.text("sourceKey", "data")
        value = js.get_path(item.json, source)
        if value is js.UNDEFINED:
            return [Item(item.json, paired_with(index), binary=item.binary)]
        fields = dict(js.deep_copy(item.json))
        if not keeps:
            js.delete_path(fields, source)
    file_name = params.text("options.fileName") or None
    mime_type = params.text("options.mimeType") or "application/json"
    if params.flag("options.dataIsBase64"):
        content = item_files.from_base64(js.text(value))
    else:
        is_raw = params.flag("options.useRawData") and isinstance(value, str)
        text = value if is_raw else item_files.json_text(value, indented=False)
        content = await item_files.write_format(call, "text", text, item_files.text_options(params))
    file = await item_files.store(call, content, file_name=file_name, mime_type=mime_type)
    name = params.text("destinationKey", "data") or "data"
    return [Item(fields, paired_with(index), binary={**item.binary, name: file})]
