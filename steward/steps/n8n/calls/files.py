"""Fetches and sends files of services through an HTTP API account."""

from collections.abc import Callable
from dataclasses import replace

from steward.connectors.base.service_calls import SendCall
from steward.steps.n8n import item_files
from steward.steps.n8n.drive_fields import call_file, file_of_run
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation, ServicePort
from steward.steps.workflow.external_calls import read_items
from steward.steps.workflow.items import Item
from steward.steps.workflow.step_types import NodeResult, StepCall, paired_with


async def fetch_files(
    call: StepCall,
    port: ServicePort,
    operation: ServiceOperation,
    name_of: Callable[[ServiceFields], str],
    field: str = "binaryPropertyName",
) -> NodeResult:
    """Fetches a file for each item and adds it to the item's files.

    `name_of` returns the file's name; `field` is the parameter that names the field for the file.
    """

    async def fetch(index: int, item: Item) -> list[Item]:
        fields = ServiceFields(call.params(index), call.version, port.settings, item.json)
        request = operation.call(fields)
        response = await port.read(request.path, request.query)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        file = await item_files.store(
            call, response.body, file_name=name_of(fields) or None, mime_type=kind or None
        )
        name = fields.text(field) or "data"
        return [Item(dict(item.json), paired_with(index), binary={**item.binary, name: file})]

    return await read_items(call, fetch)


async def with_content(call: StepCall, index: int, fields: ServiceFields, prepared: SendCall) -> SendCall:
    """Returns the call with the item's file that the step names, or with its text. Raises ItemFailed."""
    if not fields.flag("binaryData"):
        text = fields.text("fileContent")
        file = call_file(prepared.recipient, text.encode(), "text/plain")
        return replace(prepared, file=file, text=text)
    own_name, content, kind = await file_of_run(call, index, fields, fields.text("binaryPropertyName"))
    return replace(prepared, file=call_file(own_name or prepared.recipient, content, kind))
