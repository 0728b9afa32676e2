"""Stores attachments and whole Outlook messages as files of items."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from steward.connectors.base.queries import PATH, PathQuery
from steward.model.json import JsonObject
from steward.model.plan import OnError
from steward.outbound.errors import CallError
from steward.steps.n8n import item_files
from steward.steps.n8n.mail.outlook_fields import ATTACHMENT, MESSAGES
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.n8n.service_nodes import parsed_response
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.external_calls import account_of, as_item_failure
from steward.steps.workflow.items import BinaryReference, Item, Items
from steward.steps.workflow.step_types import ItemFailed, NodeResult, StepCall, paired_with


async def _read(call: StepCall, path: str, query: Mapping[str, str]) -> bytes:
    """Returns the raw content at a path. Raises ItemFailed, CallError."""
    reader = account_of(call).reader
    try:
        [page] = [page async for page in reader.read(PATH, PathQuery(path, tuple(query.items())))]
    except CallError as error:
        raise as_item_failure(error) from error
    return bytes(page.items[0].body)


async def read_json(call: StepCall, path: str, query: Mapping[str, str]) -> JsonObject:
    """Returns the JSON object at a path, or an empty object. Raises ItemFailed, CallError."""
    response = parsed_response((await _read(call, path, query)).decode("utf-8", "replace"))
    return response if isinstance(response, Mapping) else {}


async def downloaded(
    call: StepCall, path_of: Callable[[ServiceFields], str], *, is_message: bool
) -> NodeResult:
    """Fetches an attachment, or with `is_message` the whole message, for each item."""

    async def fetch(index: int, item: Item) -> list[Item]:
        fields = ServiceFields(call.params(index), call.version, {}, item.json)
        path, name = path_of(fields), fields.text("binaryPropertyName") or "data"
        if is_message:
            file = await _mime_file(call, path, "")
        else:
            file = await _attachment(call, path, await read_json(call, path, {"$select": ATTACHMENT}))
        return [Item(dict(item.json), paired_with(index), binary={**item.binary, name: file})]

    return await convert_each_item(call, fetch)


async def _attachment(call: StepCall, path: str, about: JsonObject) -> BinaryReference:
    content = await _read(call, f"{path}/$value", {})
    kind = str(about.get("contentType") or "") or None
    return await item_files.store(call, content, file_name=str(about.get("name") or ""), mime_type=kind)


async def _mime_file(call: StepCall, path: str, name: str) -> BinaryReference:
    content = await _read(call, f"{path}/$value", {})
    return await item_files.store(call, content, file_name=name or "message.eml", mime_type="message/rfc822")


async def with_files(
    call: StepCall, result: NodeResult, collection: str, *, attachments: bool, mime: bool
) -> NodeResult:
    """Returns the messages with their attachments and their own MIME file, as requested."""
    out: Items = []
    failed: Items = list(result.outputs[1]) if len(result.outputs) > 1 else []
    for item in result.outputs[0]:
        try:
            files = (
                {} if item.error is not None else await _files_of(call, item, collection, attachments, mime)
            )
        except ItemFailed as failure:
            if call.on_error is OnError.STOP:
                raise
            problem = Item({**item.json, "error": failure.message}, item.paired, failure.message)
            (failed if call.on_error is OnError.ERROR_OUTPUT else out).append(problem)
            continue
        out.append(replace(item, binary=files) if files else item)
    return replace(result, outputs=[out, failed] if len(result.outputs) > 1 else [out])


async def _files_of(
    call: StepCall, item: Item, collection: str, attachments: bool, mime: bool
) -> dict[str, BinaryReference]:
    source = item.paired[0] if item.paired else 0
    index = source[0] if isinstance(source, tuple) else 0
    fields = ServiceFields(call.params(index), call.version, {})
    path = f"{MESSAGES}/{path_segment(str(item.json.get('id') or ''), 'message')}"
    files = {}
    if attachments and item.json.get("hasAttachments") is True:
        files = await _attachments(call, path, _prefix(fields, collection))
    if mime:
        name = fields.text("options.getMimeContent.values.binaryPropertyName") or "data"
        chosen = fields.text("options.getMimeContent.values.outputFileName")
        files[name] = await _mime_file(call, path, chosen)
    return files


def _prefix(fields: ServiceFields, collection: str) -> str:
    name = "dataPropertyAttachmentsPrefixName" if fields.version < 2 else "attachmentsPrefix"
    return fields.text(f"{collection}.{name}") or "attachment_"


async def _attachments(call: StepCall, path: str, prefix: str) -> dict[str, BinaryReference]:
    listed = await read_json(call, f"{path}/attachments", {"$select": ATTACHMENT})
    rows = listed.get("value")
    files = {}
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        if isinstance(row, Mapping) and row.get("id"):
            attachment_path = f"{path}/attachments/{path_segment(str(row['id']), 'attachment')}"
            files[f"{prefix}{index}"] = await _attachment(call, attachment_path, row)
    return files
