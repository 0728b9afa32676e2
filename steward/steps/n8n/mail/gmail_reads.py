"""Reads messages, threads and drafts of a Gmail mailbox in the form that n8n outputs.

See docs/design/mail.md#steps.
"""

import base64
import binascii
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo

from steward.connectors.base.queries import PATH, PathQuery
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n import item_files
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.n8n.service_nodes import MAX_PAGES, parsed_response
from steward.steps.workflow.external_calls import account_of, read_all, read_items
from steward.steps.workflow.items import BinaryReference, Item
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeResult, StepCall, paired_with

_ME = "/gmail/v1/users/me"
READS = frozenset(
    ("message.get", "message.getAll", "thread.get", "thread.getAll", "draft.get", "draft.getAll")
)
_PLURAL = {"message": "messages", "thread": "threads", "draft": "drafts"}
_SHOWN_HEADERS = ("From", "To", "Cc", "Bcc", "Subject")
_FROM_MESSAGE = ("id", "threadId", "labelIds", "sizeEstimate")
_NUMBER = re.compile(r"\d{9,13}")


@dataclass(slots=True)
class GmailReads:
    """Performs the reads of one step; fetches the labels only once."""

    call: StepCall
    resource: str
    labels: list[dict[str, JsonValue]] | None = field(default=None)

    async def run(self, *, many: bool) -> NodeResult:
        """Reads one object, or a list with `many`, for each item. Raises ItemFailed."""

        async def read(index: int, item: Item) -> list[Item]:
            fields = ServiceFields(self.call.params(index), self.call.version, {}, item.json)
            if not many:
                return [
                    replace(message_item, paired=paired_with(index))
                    for message_item in await self._object(fields)
                ]
            out = []
            async for message_item in self._listed(fields):
                out.append(replace(message_item, paired=paired_with(index)))
            return out

        return await read_items(self.call, read)

    async def _object(self, fields: ServiceFields) -> list[Item]:
        if self.resource == "thread":
            return await self._thread(fields, fields.text("threadId"))
        return [await self._message(fields, fields.text("messageId"))]

    async def _listed(self, fields: ServiceFields) -> AsyncIterator[Item]:
        """Yields the objects of a list page by page, up to the step's limit."""
        max_rows = None if fields.flag("returnAll") else int(js.number(fields.value("limit") or 50))
        number = 0
        async for row in self._rows(fields, max_rows):
            is_listed = self.resource == "thread" or fields.text("additionalFields.format") == "ids"
            yield Item(row) if is_listed else await self._message(fields, str(row.get("id", "")))
            number += 1
            if max_rows is not None and number >= max_rows:
                return

    async def _rows(self, fields: ServiceFields, max_rows: int | None) -> AsyncIterator[dict[str, JsonValue]]:
        name = _PLURAL[self.resource]
        zone = js_dates.zone_of(self.call.environment.zone) or UTC
        query = {**_search(fields, zone), "maxResults": str(min(max_rows or 500, 500))}
        pairs = [*query.items(), *(("labelIds", label) for label in _label_ids(fields))]
        for _ in range(MAX_PAGES):
            response = await self._read(f"{_ME}/{name}", pairs)
            rows = response.get(name)
            for row in rows if isinstance(rows, list) else ():
                if isinstance(row, Mapping):
                    yield dict(row)
            following = response.get("nextPageToken")
            if not following:
                return
            pairs = [*[pair for pair in pairs if pair[0] != "pageToken"], ("pageToken", str(following))]
        raise ItemFailed(f"The list has more than {MAX_PAGES} pages. Limit it.")

    async def _message(self, fields: ServiceFields, message_id: str) -> Item:
        """Returns a message or draft as the step requests it: simplified, parsed, or as Gmail has it."""
        path = f"{_ME}/{_PLURAL[self.resource]}/{path_segment(message_id, self.resource)}"
        is_short = self.resource == "message" and fields.version >= 2 and fields.flag("simple", True)
        if is_short:
            headers = [("metadataHeaders", name) for name in _SHOWN_HEADERS]
            return Item(await self._short(await self._read(path, [("format", "metadata"), *headers])))
        format_ = _format(fields)
        if format_ != "resolved":
            return Item(dict(await self._read(path, [("format", format_)])))
        response = await self._read(path, [("format", "raw")])
        message = response.get("message") if self.resource == "draft" else response
        item = await self._resolved(fields, message if isinstance(message, Mapping) else {})
        if self.resource != "draft":
            return item
        return replace(item, json={**item.json, "messageId": item.json.get("id"), "id": response.get("id")})

    async def _thread(self, fields: ServiceFields, thread_id: str) -> list[Item]:
        path = f"{_ME}/threads/{path_segment(thread_id, 'thread')}"
        is_short = fields.version >= 2 and fields.flag("simple", True)
        format_ = "metadata" if is_short else fields.text("options.format", "full")
        response = await self._read(path, [("format", format_)])
        rows = [dict(row) for row in response.get("messages") or () if isinstance(row, Mapping)]
        messages = [await self._short(row) for row in rows] if is_short else rows
        if fields.flag("options.returnOnlyMessages"):
            return [Item(message) for message in messages]
        return [Item({**response, "messages": messages})]

    async def _short(self, message: JsonObject) -> dict[str, AnyJson]:
        """Returns a simplified message: labels with their ids and names, headers as fields."""
        short = {name: value for name, value in message.items() if name != "labelIds"}
        ids = message.get("labelIds")
        if isinstance(ids, list):
            names = [label for label in await self._labels() if label.get("id") in ids]
            short["labels"] = [{"id": label.get("id"), "name": label.get("name")} for label in names]
        payload = message.get("payload")
        if isinstance(payload, Mapping):
            short["payload"] = {name: value for name, value in payload.items() if name != "headers"}
            short |= _shown_headers(payload.get("headers"))
        return short

    async def _resolved(self, fields: ServiceFields, message: JsonObject) -> Item:
        """Parses a raw message and returns it as an item, with its attachments if the step downloads them."""
        try:
            raw = base64.urlsafe_b64decode(str(message.get("raw", "")) + "==")
        except (binascii.Error, ValueError):
            raise ItemFailed("The response of Gmail cannot be used: it has no message.") from None
        read = await item_files.read_format(self.call, "mail", raw, {})
        message_fields = {name: message[name] for name in _FROM_MESSAGE if name in message}
        collection = "additionalFields" if fields.version < 2 else "options"
        downloads_files = fields.version < 2 or fields.flag("options.downloadAttachments")
        files = await self._files(fields, collection, read["files"]) if downloads_files else {}
        return Item({**message_fields, **read["fields"]}, binary=files)

    async def _files(
        self, fields: ServiceFields, collection: str, rows: Sequence[Sequence[str]]
    ) -> dict[str, BinaryReference]:
        prefix = fields.text(f"{collection}.dataPropertyAttachmentsPrefixName") or "attachment_"
        files = {}
        for index, (name, kind, content) in enumerate(rows):
            data = base64.b64decode(content)
            files[f"{prefix}{index}"] = await item_files.store(
                self.call, data, file_name=name, mime_type=kind
            )
        return files

    async def _labels(self) -> Sequence[JsonObject]:
        if self.labels is None:
            rows = (await self._read(f"{_ME}/labels", [])).get("labels")
            self.labels = [dict(row) for row in (rows if isinstance(rows, list) else ())]
        return self.labels

    async def _read(self, path: str, pairs: Sequence[tuple[str, str]]) -> dict[str, AnyJson]:
        query = PathQuery(path, tuple(pairs))
        [response] = await read_all(account_of(self.call).reader.read(PATH, query))
        decoded = parsed_response(response.body.decode("utf-8", "replace"))
        return dict(decoded) if isinstance(decoded, Mapping) else {}


def _format(fields: ServiceFields) -> str:
    """Returns the format in which to read a message; `resolved`, n8n's own, is the parsed message."""
    if fields.version < 2:
        return fields.text("additionalFields.format", "resolved")
    return "resolved"


def _label_ids(fields: ServiceFields) -> list[str]:
    for path in ("filters.labelIds", "additionalFields.labelIds"):
        chosen = fields.value(path)
        if chosen:
            return [str(label) for label in chosen] if isinstance(chosen, list) else [str(chosen)]
    return []


def _search(fields: ServiceFields, zone: tzinfo) -> dict[str, str]:
    """Returns the query of a list, in Gmail's search syntax."""
    collection = "additionalFields" if fields.version < 2 else "filters"
    terms = [fields.text(f"{collection}.q")]
    status, sender = fields.text(f"{collection}.readStatus"), fields.text(f"{collection}.sender")
    if status in ("read", "unread"):
        terms.append(f"is:{status}")
    if sender:
        terms.append(f"from:{sender}")
    for name, word in (("receivedAfter", "after"), ("receivedBefore", "before")):
        seconds = _seconds(fields.text(f"{collection}.{name}"), zone)
        if seconds:
            terms.append(f"{word}:{seconds}")
    query = {"q": " ".join(term for term in terms if term)}
    if fields.flag(f"{collection}.includeSpamTrash"):
        query["includeSpamTrash"] = "true"
    return {name: value for name, value in query.items() if value}


def _seconds(text: str, zone: tzinfo) -> int:
    """Returns a date, or a number of seconds or milliseconds since 1970, in seconds; 0 for an empty text.

    Raises ItemFailed for any other text.
    """
    if not text:
        return 0
    if _NUMBER.fullmatch(text):
        return int(text) // 1000 if len(text) > 11 else int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ItemFailed(f"“{text[:40]}” is not a date. Write it as 2026-05-01T00:00:00.") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp())


def _shown_headers(headers: JsonValue) -> JsonObject:
    return {
        str(row["name"]): row.get("value")
        for row in (headers if isinstance(headers, list) else ())
        if isinstance(row, Mapping) and row.get("name") in _SHOWN_HEADERS
    }
