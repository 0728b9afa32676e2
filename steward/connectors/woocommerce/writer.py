"""Applies approved changes to a WooCommerce shop: one request per batch; compares the response by part."""

from collections.abc import Mapping, Sequence

from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.woocommerce.orders import TAGS_KEY
from steward.connectors.woocommerce.pages import PREFIX
from steward.connectors.woocommerce.reader import note_mark, value_of
from steward.connectors.woocommerce.reads import raw_object
from steward.connectors.woocommerce.responses import (
    Row,
    error_code,
    error_of,
    id_of,
    instant_of,
    is_gone,
    names_of,
    row_of,
    text_of,
)
from steward.connectors.woocommerce.tag_names import sent_name
from steward.model.change import Batch, Part
from steward.model.json import JsonObject, JsonValue
from steward.model.write_response import WriteResponse
from steward.outbound.client import WriteClient
from steward.outbound.errors import CallError, Invalid, NotSent, RemoteNotFound, UnusableResponse, WriteFailed
from steward.outbound.response import PlatformResponse

# Always sent as a batch, because variations have no address except below their product.
_VARIANTS = frozenset({"variant.set_price", "inventory.set"})
_ECHO = {
    "product.set_visible": "id,catalog_visibility,date_modified_gmt",
    "product.set_status": "id,status,date_modified_gmt",
    "product.set_tags": "id,tags,date_modified_gmt",
    "order.set_status": "id,status,date_modified_gmt",
    "order.cancel": "id,status,date_paid_gmt,date_modified_gmt",
    "order.set_tags": "id,meta_data,date_modified_gmt",
    "customer.set_tags": "id,meta_data,date_modified_gmt",
}


class WooCommerceWriter:
    """Writes to one shop."""

    def __init__(self, http: WriteClient, changes: Mapping[str, AnyWriteOperation]) -> None:
        self._http = http
        self._changes = changes

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Sends the one request of `batch` and returns an outcome per part. Never raises a call's error."""
        operation = batch.parts[0].operation
        try:
            response = await self._send(operation, batch)
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)] * len(batch.parts)
        if _is_batch(batch):
            return self._of_batch(batch, response)
        if operation == "product_tag.create":
            return [self._of_tag(batch.parts[0], response)]
        if operation == "order.add_note":
            return [_of_note(_note(batch), response)]
        return [self._of_one(batch.parts[0], response)]

    async def _send(self, operation: str, batch: Batch) -> PlatformResponse:
        part = batch.parts[0]
        params: Mapping[str, str] | None = None
        if _is_batch(batch):
            method, path = "POST", _batch_path(part)
            body: JsonValue = {"update": [self._item(batch_part) for batch_part in batch.parts]}
        elif operation == "product_tag.create":
            name = sent_name(str(part.arguments["name"]))
            method, path, body = "POST", "/products/tags", {"name": name}
        elif operation == "order.add_note":
            method, path = "POST", f"/orders/{part.target}/notes"
            body = {**part.arguments, "note": _note(batch)}
        else:
            method, path = "PUT", f"/{operation.partition('.')[0]}s/{part.target}"
            body = self._body(part)
            params = {"_fields": _ECHO[operation]}
        return await self._http.send(
            method,
            PREFIX + path,
            body,
            params=params,
            write_keys=batch.write_keys,
            key=batch.key,
            operation=operation,
        )

    def _item(self, part: Part) -> JsonObject:
        return {"id": int(part.target.rpartition("/")[2]), **self._body(part)}

    def _body(self, part: Part) -> JsonObject:
        if part.operation == "product.set_tags":
            return self._tags(part)
        if part.operation in ("order.set_tags", "customer.set_tags"):
            # An entry with the same key and no id is replaced; null removes it.
            return {"meta_data": [{"key": TAGS_KEY, "value": _joined(part.arguments["tags"])}]}
        return part.arguments

    def _tags(self, part: Part) -> JsonObject:
        tags, ids = part.arguments["tags"], part.arguments["ids"]
        if not isinstance(tags, Sequence) or isinstance(tags, str) or not isinstance(ids, Mapping):
            raise NotSent(Invalid(["tags"]))
        return {"tags": [_term(str(tag), ids.get(str(tag))) for tag in tags]}

    def _of_batch(self, batch: Batch, response: PlatformResponse) -> list[WriteOutcome]:
        if not response.ok:
            return [_refused(response)] * len(batch.parts)
        try:
            rows = row_of(response).get("update")
            if not isinstance(rows, list) or len(rows) != len(batch.parts):
                raise UnusableResponse("the echo has another number of items")
            return [self._of_item(part, row) for part, row in zip(batch.parts, rows, strict=True)]
        except CallError as error:
            return [WriteOutcome.of_error(WriteState.UNKNOWN, error)] * len(batch.parts)

    def _of_item(self, part: Part, row: object) -> WriteOutcome:
        if not isinstance(row, dict) or id_of(row) != part.target.rpartition("/")[2]:
            raise UnusableResponse("the echo has the items in another order")
        error = row.get("error")
        return self._echo(part, row) if error is None else _item_error(error)

    def _of_one(self, part: Part, response: PlatformResponse) -> WriteOutcome:
        if not response.ok:
            return _refused(response)
        try:
            row = row_of(response)
            if id_of(row) != part.target:
                raise UnusableResponse("the echo is of another object")
            return self._echo(part, row)
        except CallError as error:
            return WriteOutcome.of_error(WriteState.UNKNOWN, error)

    def _of_tag(self, part: Part, response: PlatformResponse) -> WriteOutcome:
        """Returns the outcome of a new tag: it may have existed, or the shop may store another name."""
        code, data = error_code(response)
        if response.status == 400 and code == "term_exists" and isinstance(data.get("resource_id"), int):
            return WriteOutcome(WriteState.APPLIED, seen=part.after)
        if not response.ok:
            return _refused(response)
        try:
            [(name, number)] = names_of({"tags": [row_of(response)]}, "tags")
        except CallError as error:
            return WriteOutcome.of_error(WriteState.UNKNOWN, error)
        value_now: JsonValue = {"name": name, "id": number}
        if self._changes[part.operation].same(part.after, value_now):
            return WriteOutcome(WriteState.APPLIED, seen=value_now)
        message = f"The shop stored the tag “{part.target[:80]}” as “{name[:80]}”. Choose another tag."
        return WriteOutcome(WriteState.REFUSED, seen=value_now, reason=message, error=Invalid.kind)

    def _echo(self, part: Part, row: Row) -> WriteOutcome:
        """Returns applied only when the shop's response has the expected value.

        See `docs/design/writes.md#reading-the-response`.
        """
        value_now = value_of(part.operation, row)
        if self._changes[part.operation].same(part.after, value_now):
            return WriteOutcome(
                WriteState.APPLIED,
                seen=value_now,
                modified_at=instant_of(row),
                response_maker=lambda: WriteResponse.of_value(raw_object(row)),
            )
        message = "The shop answered with another value than the one sent."
        return WriteOutcome(WriteState.UNKNOWN, seen=value_now, reason=message, modified_at=instant_of(row))


def _term(tag: str, number: JsonValue) -> JsonValue:
    """Returns a tag of a product: by id, or by name when it was created after planning."""
    return {"name": sent_name(tag)} if number is None else {"id": int(str(number))}


def _joined(tags: JsonValue) -> JsonValue:
    if not isinstance(tags, Sequence) or isinstance(tags, str):
        raise NotSent(Invalid(["tags"]))
    return ",".join(str(tag) for tag in tags) or None


def _note(batch: Batch) -> str:
    """Returns the text as sent, which ends with the write key, so that the note can be identified."""
    return f"{batch.parts[0].arguments['note']} {note_mark(batch.write_keys[0])}"


def _of_note(sent: str, response: PlatformResponse) -> WriteOutcome:
    if not response.ok:
        return _refused(response)
    try:
        row = row_of(response)
        id_of(row)
        if text_of(row, "note") == sent:
            return WriteOutcome(WriteState.APPLIED)
    except CallError as error:
        return WriteOutcome.of_error(WriteState.UNKNOWN, error)
    return WriteOutcome(WriteState.UNKNOWN, reason="The shop answered with another note than the one sent.")


def _item_error(error: object) -> WriteOutcome:
    fields = error if isinstance(error, dict) else {}
    code, data = fields.get("code"), fields.get("data")
    status = data.get("status") if isinstance(data, dict) else None
    if isinstance(status, int) and status >= 500:
        return WriteOutcome(WriteState.UNKNOWN, reason="The shop failed while it made the change.")
    if not isinstance(code, str):
        return WriteOutcome(WriteState.UNKNOWN, reason="The shop gave an error without a reason.")
    if is_gone(code):
        return WriteOutcome.of_error(WriteState.CONFLICT, RemoteNotFound())
    if code.startswith("woocommerce_rest_cannot"):
        return WriteOutcome(WriteState.UNKNOWN, reason="The shop gave an error without a reason.")
    return WriteOutcome(WriteState.REFUSED, reason=f"The shop refused it ({code[:80]}).", error=Invalid.kind)


def _is_batch(batch: Batch) -> bool:
    """Returns whether the parts go to the batch address; a single object has its own address."""
    return len(batch.parts) > 1 or batch.parts[0].operation in _VARIANTS


def _batch_path(part: Part) -> str:
    parent = part.target.rpartition("/")[0]
    if parent:
        return f"/products/{parent}/variations/batch"
    resource = "product" if part.operation in _VARIANTS else part.operation.partition(".")[0]
    return f"/{resource}s/batch"


def _refused(response: PlatformResponse) -> WriteOutcome:
    """Returns the outcome of a response other than 2xx.

    A 3xx is a refusal, and so is a 4xx with the shop's own wording. A 5xx leaves the outcome unknown, and
    so does a 4xx from a proxy in front of the shop: the shop may have written before.
    """
    error = error_of(response, write=True)
    is_shops_own = response.status < 400 or error_code(response)[0] is not None
    if not is_shops_own or (response.status >= 500 and response.status != 501):
        return WriteOutcome.of_error(WriteState.UNKNOWN, error)
    if isinstance(error, RemoteNotFound):
        return WriteOutcome.of_error(WriteState.CONFLICT, error)
    return WriteOutcome.of_error(WriteState.REFUSED, error)
