"""Fetches HTTP responses as files of items."""

import re
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import unquote, urlsplit

from steward.outbound.response import PlatformResponse
from steward.steps.n8n import item_files
from steward.steps.n8n.http_pages import PageRequest
from steward.steps.workflow.external_calls import read_items
from steward.steps.workflow.items import Item
from steward.steps.workflow.responses import StatusFailed, fields_beside_file, is_tolerant, with_error_objects
from steward.steps.workflow.step_types import (
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    paired_with,
)

_FILE_NAME = re.compile(r"filename\*?=(?:UTF-8'[^']*')?(?:\"([^\"]*)\"|([^;\s]+))", re.IGNORECASE)


def fetches_file(params: Params) -> bool:
    """Returns whether the response becomes a file."""
    shape = params.text("options.response.response.responseFormat")
    return shape == "file" or params.text("responseFormat") == "file"


def file_problems(node: NodeDefinition, *, reads: bool) -> Iterable[StepProblem]:
    """Yields the settings under which a response cannot be fetched as a file."""
    if not reads:
        message = "It sends and takes the response as a file, which is not supported. Fetch the file by GET."
        yield StepProblem("error", "binary", message)
    elif node.get("options.pagination.pagination.paginationMode", "off") != "off":
        message = "It fetches files page by page, which is not supported. Switch the pagination off."
        yield StepProblem("error", "binary", message)


async def read_files(
    call: StepCall, send: Callable[[int], Awaitable[tuple[PageRequest, PlatformResponse]]]
) -> NodeResult:
    """Fetches a file for each item with `send`. Items keep their other files."""

    @with_error_objects
    async def fetch(index: int, item: Item) -> list[Item]:
        request, response = await send(index)
        if not response.ok and not is_tolerant(call.params(index)):
            raise StatusFailed(response)
        return [await file_item(call, index, item, response, request)]

    return await read_items(call, fetch)


async def file_item(
    call: StepCall, index: int, item: Item, response: PlatformResponse, request: PageRequest
) -> Item:
    """Returns the item with the response body as an additional file. Raises ItemFailed."""
    params = call.params(index)
    mime_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    file_name = _file_name(response.headers.get("content-disposition", ""), request.url)
    file = await item_files.store(call, response.body, file_name=file_name, mime_type=mime_type or None)
    older = params.text("dataPropertyName") or "data"
    name = params.text("options.response.response.outputPropertyName") or older
    fields = fields_beside_file(response, params)
    return Item(fields, paired_with(index), binary={**item.binary, name: file})


def _file_name(disposition: str, url: str) -> str | None:
    """Returns the file name from the response header, else from the URL; never a path."""
    match = _FILE_NAME.search(disposition)
    name = unquote(match[1] or match[2] or "") if match else unquote(urlsplit(url).path)
    return re.split(r"[/\\]", name)[-1][:200] or None
