"""Sends approved changes to a Shopify store: one request per batch, compared part by part."""

from collections.abc import Callable, Mapping, Sequence

from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.shopify.current import (
    OBJECTS,
    Value,
    channel_value,
    channels_of_part,
    price_of,
    refund_value,
    tag_value,
    value_of,
)
from steward.connectors.shopify.requests import Request, request_of
from steward.connectors.shopify.responses import (
    CONCURRENT_REQUEST,
    KEY_DEFECTS,
    Row,
    UserError,
    data_of,
    errors_by_item,
    instant_of,
    list_of,
    number_of,
    row_of,
    sub,
    text,
    user_errors,
    whole,
)
from steward.model.change import Batch, Part
from steward.outbound.client import WriteClient
from steward.outbound.errors import (
    CallError,
    ErrorKind,
    MissingRight,
    PlatformUnavailable,
    RemoteNotFound,
    Stale,
    Throttled,
    Unauthorized,
    UnusableResponse,
    WriteFailed,
    WrongAddress,
)
from steward.outbound.response import PlatformResponse

_OTHER_VALUE = "The store answered with another value than the one sent."
_ACCEPTED = "The store accepted the change and will finish it shortly."
_KEY_DEFECT = "The store knows this change's key from another request. Nothing more was sent."


class ShopifyWriter:
    """A writer of one store; `path` is where its documents are sent."""

    def __init__(self, http: WriteClient, changes: Mapping[str, AnyWriteOperation], *, path: str) -> None:
        self._http = http
        self._changes = changes
        self._path = path

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Sends the one request of `batch` and returns one outcome per part. Never raises a call's error."""
        request = request_of(batch)
        try:
            response = await self._http.send(
                "POST",
                self._path,
                {"query": request.document.text, "variables": request.variables},
                write_keys=batch.write_keys,
                key=batch.key,
                operation=batch.parts[0].operation,
                max_cost=request.document.max_cost,
            )
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)] * len(batch.parts)
        try:
            return self._outcomes_of(batch, request, response)
        except CallError as error:
            return [WriteOutcome.of_error(WriteState.UNKNOWN, error)] * len(batch.parts)

    def _outcomes_of(self, batch: Batch, request: Request, response: PlatformResponse) -> list[WriteOutcome]:
        """Returns the outcomes. Raises CallError for a response that does not say what was done."""
        try:
            payload = sub(data_of(response), request.root)
        except Throttled as error:
            return [WriteOutcome.of_error(WriteState.NOT_SENT, error)] * len(batch.parts)
        except (Unauthorized, MissingRight, WrongAddress) as error:
            return [WriteOutcome.of_error(WriteState.REFUSED, error)] * len(batch.parts)
        if not payload:
            raise UnusableResponse("it does not say what was done")
        errors = user_errors(payload, request.errors)
        if any(error.code == CONCURRENT_REQUEST for error in errors):
            # An earlier request with this key is still running: the same batch is sent again.
            busy = PlatformUnavailable("The store is still working on this change.", wait_s=2.0)
            return [WriteOutcome.of_error(WriteState.NOT_SENT, busy)] * len(batch.parts)
        if any(error.code in KEY_DEFECTS for error in errors):
            defect = WriteOutcome(WriteState.UNKNOWN, reason=_KEY_DEFECT, error=ErrorKind.BROKEN)
            return [defect] * len(batch.parts)
        echo = _ECHOES.get(batch.parts[0].operation, _Echo.single)
        return echo(_Echo(batch, errors, self._changes), payload)


class _Echo:
    """Determines the outcome of each part of a request from the response."""

    def __init__(
        self, batch: Batch, errors: Sequence[UserError], changes: Mapping[str, AnyWriteOperation]
    ) -> None:
        self._batch = batch
        self._errors = errors
        self._changes = changes

    def single(self, payload: Row) -> list[WriteOutcome]:
        """Returns the outcome of a request for one object, which the payload returns."""
        [part] = self._batch.parts
        if self._errors:
            return [_refused(self._errors[0])]
        row = _object(payload)
        return [self._outcome(part, _value(part, row), row)]

    def prices(self, payload: Row) -> list[WriteOutcome]:
        """Returns the outcome of each variant: refused ones fail, the others are compared."""
        refused = errors_by_item(self._errors)
        rows = payload.get("productVariants")
        echoed = {
            number_of(row_of(row).get("id")): row_of(row) for row in (rows if isinstance(rows, list) else ())
        }
        outcomes = []
        for index, part in enumerate(self._batch.parts):
            if index in refused:
                outcomes.append(_refused(refused[index]))
            elif part.target in echoed:
                outcomes.append(self._outcome(part, price_of(echoed[part.target]), echoed[part.target]))
            elif None in refused:
                outcomes.append(_refused(refused[None]))
            else:
                outcomes.append(WriteOutcome(WriteState.UNKNOWN, reason=_OTHER_VALUE))
        return outcomes

    def stocks(self, payload: Row) -> list[WriteOutcome]:
        """Returns the outcomes of stock quantities, applied as a whole: one stale quantity stops all."""
        group = payload.get("inventoryAdjustmentGroup")
        if self._errors:
            return self._refused_parts(done=group is not None)
        # Without a group nothing changed: the quantities were already equal.
        rows = [row_of(change) for change in list_of(row_of(group), "changes")] if group is not None else []
        rows_by_target = {
            f"{number_of(sub(row, 'item').get('id'))}@{number_of(sub(row, 'location').get('id'))}": row
            for row in rows
        }
        return [
            self._stock(part, rows_by_target.get(f"{part.arguments['item']}@{part.arguments['location']}"))
            for part in self._batch.parts
        ]

    def _stock(self, part: Part, row: Row | None) -> WriteOutcome:
        if row is None:
            return WriteOutcome(WriteState.UNKNOWN, reason=_OTHER_VALUE)
        quantity, delta, was = whole(row, "quantityAfterChange"), whole(row, "delta"), part.arguments["was"]
        if quantity is None and delta is not None and isinstance(was, int):
            quantity = was + delta
        return self._outcome(part, {"quantity": quantity}, row)

    def metafields(self, payload: Row) -> list[WriteOutcome]:
        """Returns the outcomes of metafields, which are applied as a whole or not at all."""
        rows = payload.get("metafields")
        echoed = [row_of(entry) for entry in rows] if isinstance(rows, list) else []
        if self._errors:
            return self._refused_parts(done=bool(echoed))
        rows_by_name = {(text(row, "namespace"), text(row, "key")): row for row in echoed}
        if len(echoed) == len(self._batch.parts):
            pairs = list(zip(self._batch.parts, echoed, strict=True))
        else:
            pairs = [
                (part, rows_by_name.get((str(part.arguments["namespace"]), str(part.arguments["key"])), {}))
                for part in self._batch.parts
            ]
        return [
            self._outcome(part, {"value": text(row, "value") if row else None}, row) for part, row in pairs
        ]

    def job(self, payload: Row) -> list[WriteOutcome]:
        """Returns the outcome of a job of the store: unknown until the value is read back."""
        if self._errors:
            return [_refused(self._errors[0])]
        return [WriteOutcome(WriteState.UNKNOWN, reason=_ACCEPTED)]

    def channels(self, payload: Row) -> list[WriteOutcome]:
        """Compares the channels a product is published on afterwards."""
        [part] = self._batch.parts
        if self._errors:
            return [_refused(self._errors[0])]
        row = sub(payload, "publishable")
        if not row:
            raise UnusableResponse("it does not name what was published")
        return [self._outcome(part, channel_value(row, channels_of_part(part)), row)]

    def tag(self, payload: Row) -> list[WriteOutcome]:
        """Compares whether the object has the one tag afterwards."""
        [part] = self._batch.parts
        if self._errors:
            return [_refused(self._errors[0])]
        row = _object(payload)
        if number_of(row.get("id")) != part.target:
            raise UnusableResponse("the echo is of another object")
        return [self._outcome(part, tag_value(row, part), row)]

    def hold(self, payload: Row) -> list[WriteOutcome]:
        """Returns the outcome of a hold; if our hold exists already, it has to be read back."""
        if any(error.code == "DUPLICATE_FULFILLMENT_HOLD_HANDLE" for error in self._errors):
            return [WriteOutcome(WriteState.UNKNOWN, reason=_ACCEPTED)]
        return self.single(payload)

    def redirect(self, payload: Row) -> list[WriteOutcome]:
        """Returns the outcome of a redirect.

        If the path has a redirect already, the write is not refused but has to be read back: it may have
        the same target.
        """
        [part] = self._batch.parts
        if any(error.path[-1:] == ("path",) for error in self._errors):
            return [WriteOutcome(WriteState.UNKNOWN, reason=_OTHER_VALUE)]
        if self._errors:
            return [_refused(self._errors[0])]
        redirect_row = sub(payload, "urlRedirect")
        return [
            self._outcome(
                part, {"target": text(redirect_row, "target") if redirect_row else None}, redirect_row
            )
        ]

    def deleted(self, payload: Row) -> list[WriteOutcome]:
        """Returns the outcomes of removals: an object that the response does not name did not exist."""
        [part] = self._batch.parts
        if self._errors:
            return [_refused(self._errors[0])]
        named = payload.get("deletedMetafields")
        is_named = isinstance(named, list) and any(named)
        if is_named or payload.get("deletedUrlRedirectId") is not None:
            return [WriteOutcome(WriteState.APPLIED, seen=part.after)]
        return [WriteOutcome(WriteState.UNKNOWN, reason=_OTHER_VALUE)]

    def refund(self, payload: Row) -> list[WriteOutcome]:
        """Compares the order's sum of refunds afterwards."""
        [part] = self._batch.parts
        if self._errors:
            return [_refused(self._errors[0])]
        row = row_of(payload.get("order"))
        return [self._outcome(part, refund_value(row), row)]

    def capture(self, payload: Row) -> list[WriteOutcome]:
        """Returns the outcome of a capture by the payment's status; a pending one is read back."""
        [part] = self._batch.parts
        if self._errors:
            return [_refused(self._errors[0])]
        transaction = row_of(payload.get("transaction"))
        if text(transaction, "status") != "SUCCESS":
            return [WriteOutcome(WriteState.UNKNOWN, reason=_ACCEPTED)]
        row = row_of(transaction.get("order"))
        return [self._outcome(part, value_of(part.operation, row), row)]

    def _refused_parts(self, *, done: bool) -> list[WriteOutcome]:
        """Refuses the parts that the errors name.

        The other parts were not written either and can be sent again without the refused ones; with `done`
        their values are read back.
        """
        refused = errors_by_item(self._errors)
        outcomes = []
        for index in range(len(self._batch.parts)):
            error = refused.get(index, refused.get(None))
            if error is not None:
                outcomes.append(_refused(error))
            elif done:
                outcomes.append(WriteOutcome(WriteState.UNKNOWN, reason=_OTHER_VALUE))
            else:
                outcomes.append(
                    WriteOutcome(
                        WriteState.NOT_SENT, reason="Others of the same call were refused.", wait_s=0.0
                    )
                )
        return outcomes

    def _outcome(self, part: Part, seen: Value, row: Row) -> WriteOutcome:
        """Returns applied only when the store's own response has the value."""
        modified = instant_of(row)
        if self._changes[part.operation].same(part.after, seen):
            return WriteOutcome(WriteState.APPLIED, seen=seen, modified_at=modified)
        return WriteOutcome(WriteState.UNKNOWN, seen=seen, reason=_OTHER_VALUE, modified_at=modified)


_ECHOES: Mapping[str, Callable[[_Echo, Row], list[WriteOutcome]]] = {
    "variant.set_price": _Echo.prices,
    "inventory.set": _Echo.stocks,
    "metafield.set": _Echo.metafields,
    "order.cancel": _Echo.job,
    "product.set_published": _Echo.channels,
    "fulfillment.hold": _Echo.hold,
    **dict.fromkeys((name for name in OBJECTS if name.endswith(".change_tags")), _Echo.tag),
    "redirect.create": _Echo.redirect,
    "redirect.set": _Echo.redirect,
    "redirect.delete": _Echo.deleted,
    "metafield.delete": _Echo.deleted,
    "refund.create": _Echo.refund,
    "order.capture": _Echo.capture,
}
_OBJECTS = ("node", "product", "order", "customer", "fulfillmentOrder")


def _object(payload: Row) -> Row:
    """Returns the object of a payload. Raises UnusableResponse."""
    for name in _OBJECTS:
        if payload.get(name) is not None:
            return row_of(payload[name])
    raise UnusableResponse("it does not name what was changed")


def _value(part: Part, row: Row) -> Value:
    if number_of(row.get("id")) != part.target:
        raise UnusableResponse("the echo is of another object")
    return value_of(part.operation, row)


def _refused(error: UserError) -> WriteOutcome:
    """Returns the outcome of one refused part: a missing or changed object is a conflict."""
    cause = error.as_error()
    if isinstance(cause, Stale | RemoteNotFound):
        return WriteOutcome.of_error(WriteState.CONFLICT, cause)
    return WriteOutcome.of_error(WriteState.REFUSED, cause)
