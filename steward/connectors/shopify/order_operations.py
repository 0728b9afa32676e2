"""Plans changes of a Shopify store's orders and customers, its metafields and redirects; pure."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from steward.connectors.base.commands import (
    CancelOrder,
    CapturePayment,
    CloseOrder,
    CreateRedirect,
    CreateRefund,
    HoldFulfilment,
    SetCustomerTags,
    SetDraftOrderTags,
    SetMetafield,
    SetNote,
    SetOrderTags,
)
from steward.connectors.base.connector import Guard, ItemProblem
from steward.connectors.base.inverses import NO_CANCELLATION_BACK, value_restored
from steward.connectors.base.records import Customer, DraftOrder, Fulfilment, Order, Payment, Product, Variant
from steward.connectors.shopify.operations import (
    ShopifyOperation,
    TagsOperation,
    is_amount,
    same_money,
    variant_ref,
)
from steward.model.change import Action, FieldChange, FieldKind, ObjectRef, Part, Proposal, Recovery
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Inverse, Irreversible, NeedsLookUp

_MAX_NOTE_LENGTH = 5_000
_MAX_METAFIELDS = 25
# An order returns this many refunds; with more, a new one could not be recognized.
_MAX_REFUNDS_SHOWN = 5
_CANCEL_REASONS = ("customer", "declined", "fraud", "inventory", "other", "staff")
_HOLD_REASONS = (
    *("awaiting_payment", "awaiting_return_items", "high_risk_of_fraud", "incorrect_address"),
    *("inventory_out_of_stock", "unknown_delivery_date", "other"),
)
_NAMESPACE = re.compile(r"[A-Za-z0-9_$:-]{2,255}")
_KEY = re.compile(r"[A-Za-z0-9_-]{2,64}")
_TYPE = re.compile(r"[a-z_]+(\.[a-z_]+)?")
_UNPAID = (Payment.PENDING, Payment.AUTHORIZED, Payment.VOIDED)


class _NoteOperation(ShopifyOperation[SetNote]):
    """`order.set_note`, `customer.set_note`: the whole text; an empty one removes the note."""

    __slots__ = ()

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the former note."""
        return value_restored(part)

    def _plan_one(self, command: SetNote, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        subject = command.subject
        if isinstance(subject, Order) != (self.name == "order.set_note"):
            raise TypeError(f"{self.name} is not asked about a {type(subject).__name__}")
        if len(command.note) > _MAX_NOTE_LENGTH:
            return ItemProblem(
                subject.id, "too_long", f"A note has at most {_MAX_NOTE_LENGTH} characters.", "note"
            )
        if command.note == subject.note:
            return subject.id
        before, after = {"note": subject.note}, {"note": command.note}
        part = Part(self.name, integration_id, subject.id, after, before, after)
        field = FieldChange("note", "Note", subject.note, command.note, FieldKind.TEXT)
        ref = order_ref(subject) if isinstance(subject, Order) else customer_ref(subject)
        return Proposal(ref, self.action, (field,), (part,), integration_id, command.message)


class _CancelOperation(ShopifyOperation[CancelOrder]):
    """`order.cancel`: runs as a job of the store, done when the order is cancelled; refunds nothing."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"cancelled": True}

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: a cancellation cannot be undone."""
        return NO_CANCELLATION_BACK

    def _plan_one(self, command: CancelOrder, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        order, reason = command.order, (command.reason or "other").lower()
        if reason not in _CANCEL_REASONS:
            message = f"The reason is one of {', '.join(_CANCEL_REASONS)}."
            return ItemProblem(order.id, "not_a_reason", message, "reason")
        if order.cancelled_at is not None:
            return order.id
        if order.payment not in _UNPAID:
            message = "It is paid, at least in part. Refund it in Shopify, where it can be cancelled with it."
            return ItemProblem(order.id, "paid", message, "status")
        if order.fulfilment in (Fulfilment.FULFILLED, Fulfilment.PARTIAL):
            return ItemProblem(order.id, "fulfilled", "It is sent, at least in part.", "status")
        arguments: JsonObject = {"reason": reason, "restock": command.restock, "notify": command.notify}
        # The read before the write checks that the order is still unpaid.
        before: JsonObject = {"cancelled": False, "payment": order.payment.value}
        part = Part(self.name, integration_id, order.id, arguments, before, {"cancelled": True})
        # A line whose variant was deleted has no stock to restock.
        back = [line for line in order.lines if line.variant_id is not None] if command.restock else []
        lines: list[JsonValue] = [f"{line.quantity} × {line.title}" for line in back]
        fields = (
            FieldChange("status", "Status", order.status, "cancelled", FieldKind.TEXT),
            FieldChange("restocked", "Restocked lines", [], lines, FieldKind.LIST),
        )
        return Proposal(order_ref(order), self.action, fields, (part,), integration_id, command.message)


class _CloseOperation(ShopifyOperation[CloseOrder]):
    """`order.close`: archives an order, or takes it out of the archive."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"closed": arguments["closed"]}

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that reopens or archives the order again."""
        return value_restored(part)

    def _plan_one(self, command: CloseOrder, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        order, closes = command.order, not command.reopen
        is_closed = order.closed_at is not None
        if is_closed is closes:
            return order.id
        part = Part(
            self.name, integration_id, order.id, {"closed": closes}, {"closed": is_closed}, {"closed": closes}
        )
        words = ("open", "archived")
        field = FieldChange("status", "Status", words[is_closed], words[closes], FieldKind.TEXT)
        action = Action.UPDATE if command.reopen else self.action
        return Proposal(order_ref(order), action, (field,), (part,), integration_id, command.message)


class _HoldOperation(ShopifyOperation[HoldFulfilment]):
    """`fulfillment.hold`: holds one fulfilment order that is open or scheduled."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"status": "on_hold"}

    def inverse(self, part: Part) -> Inverse:
        """Returns `NeedsLookUp`: our hold has to be found before it can be released."""
        return NeedsLookUp()

    def _plan_one(
        self, command: HoldFulfilment, integration_id: IntegrationId
    ) -> Proposal | ItemProblem | str:
        order, sending, reason = command.order, command.fulfilment, (command.reason or "other").lower()
        if reason not in _HOLD_REASONS:
            message = f"The reason is one of {', '.join(_HOLD_REASONS)}."
            return ItemProblem(order.id, "not_a_reason", message, "reason")
        if sending.status == "on_hold":
            return order.id
        if sending.status not in ("open", "scheduled"):
            return ItemProblem(order.id, "not_open", "There is nothing left of it to be sent.", "fulfilment")
        arguments: JsonObject = {"reason": reason, "notes": command.notes[:500]}
        before, after = {"status": sending.status}, {"status": "on_hold"}
        part = Part(self.name, integration_id, sending.id, arguments, before, after)
        field = FieldChange("fulfilment", "Fulfilment", sending.status, "on_hold", FieldKind.TEXT)
        return Proposal(order_ref(order), self.action, (field,), (part,), integration_id, command.message)


class _CaptureOperation(ShopifyOperation[CapturePayment]):
    """`order.capture`: captures the order's one authorization; leaves an order with several to people."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"capturable": False, "paid": True}

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: a captured payment cannot be undone."""
        return Irreversible("A payment that was taken cannot be undone. Refund it.")

    def _plan_one(
        self, command: CapturePayment, integration_id: IntegrationId
    ) -> Proposal | ItemProblem | str:
        order = command.order
        if order.payment in (Payment.PAID, Payment.REFUNDED, Payment.PARTLY_REFUNDED):
            return order.id
        if len(order.authorizations) != 1:
            message = "It has no payment, or more than one, that is reserved and not taken yet."
            return ItemProblem(order.id, "nothing_reserved", message, "payment")
        [authorization] = order.authorizations
        arguments: JsonObject = {
            "transaction": authorization.id, "amount": authorization.amount, "currency": order.currency
        }  # fmt: skip
        before, after = {"capturable": True, "paid": False}, {"capturable": False, "paid": True}
        part = Part(self.name, integration_id, order.id, arguments, before, after)
        fields = (
            FieldChange("payment", "Payment", "authorized", "paid", FieldKind.TEXT),
            FieldChange("captured", "Captured", None, authorization.amount, FieldKind.MONEY, order.currency),
        )
        return Proposal(order_ref(order), self.action, fields, (part,), integration_id, command.message)


class _RefundOperation(ShopifyOperation[CreateRefund]):
    """`refund.create`: sent with our idempotency key; compared by number and sum of refunds."""

    __slots__ = ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares the number of refunds, and money by decimal value."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        return expected.get("refunds") == actual.get("refunds") and same_money(
            expected.get("refunded"), actual.get("refunded")
        )

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        previous = before if isinstance(before, dict) else {}
        number, refunded = previous.get("refunds"), Decimal(str(previous.get("refunded") or "0"))
        amount = Decimal(str(arguments.get("amount") or "0"))
        return {"refunds": (number if isinstance(number, int) else 0) + 1, "refunded": str(refunded + amount)}

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: a refund cannot be undone."""
        return Irreversible("A refund cannot be taken back.")

    def _plan_one(self, command: CreateRefund, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        order = command.order
        problem = _refund_problem(command)
        if problem is not None:
            return problem
        before: JsonObject = {"refunds": len(order.refunds), "refunded": order.refunded}
        lines: list[JsonValue] = [{"id": line, "quantity": quantity} for line, quantity in command.lines]
        arguments: JsonObject = {
            "lines": lines,
            "amount": command.amount,
            "transaction": command.transaction,
            "gateway": command.gateway,
            "location": command.location,
            "notify": command.notify,
            "note": command.note,
        }
        after = self._after(before, arguments)
        part = Part(self.name, integration_id, order.id, arguments, before, after)
        sums = (order.refunded, str(Decimal(order.refunded) + Decimal(command.amount or "0")))
        field = FieldChange("refunded", "Refunded", *sums, FieldKind.MONEY, order.currency)
        return Proposal(order_ref(order), self.action, (field,), (part,), integration_id, command.message)


class _MetafieldOperation(ShopifyOperation[SetMetafield]):
    """`metafield.set`: compare-and-swap by digest; a request is applied as a whole or not at all."""

    __slots__ = ()

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Groups at most 25 parts, none of which share a field."""
        groups: list[list[Part]] = [[]]
        for part in parts:
            used = {grouped_part.target for grouped_part in groups[-1]}
            if len(groups[-1]) >= _MAX_METAFIELDS or part.target in used:
                groups.append([])
            groups[-1].append(part)
        return [tuple(group) for group in groups if group]

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"value": arguments["value"]}

    def inverse(self, part: Part) -> Inverse:
        """Returns `NeedsLookUp`: the digest of the current value has to be read first."""
        return NeedsLookUp()

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by the metafield, whichever operation sets it."""
        return {f"metafield|{part.target}": value}

    def _plan_one(self, command: SetMetafield, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        owner, ref = command.owner, _owner_ref(command.owner)
        names = f"{command.namespace}.{command.key}"
        if not _NAMESPACE.fullmatch(command.namespace) or not _KEY.fullmatch(command.key):
            message = (
                "A metafield is named by a namespace and a key of letters, digits, dashes and underscores."
            )
            return ItemProblem(owner.id, "not_a_metafield", message, names)
        if not _TYPE.fullmatch(command.type):
            return ItemProblem(owner.id, "not_a_type", "This is not a type of metafield.", names)
        if not 1 <= len(command.value.encode("utf-8")) <= 65_536:
            return ItemProblem(owner.id, "too_long", "A metafield holds from 1 byte to 64 KiB.", names)
        if command.value == command.before:
            return owner.id
        arguments: JsonObject = {
            "owner": f"gid://shopify/{_OWNERS[type(owner)]}/{owner.id}",
            "namespace": command.namespace,
            "key": command.key,
            "type": command.type,
            "value": command.value,
            "digest": command.digest,
        }
        target = f"{arguments['owner']}#{names}"
        part = Part(
            self.name, integration_id, target, arguments, {"value": command.before}, {"value": command.value}
        )
        field = FieldChange(names, names, command.before, command.value, FieldKind.TEXT)
        return Proposal(ref, self.action, (field,), (part,), integration_id, command.message)


class _RedirectOperation(ShopifyOperation[CreateRedirect]):
    """`redirect.create`: redirects a path that has no redirect; the store allows one per path."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"target": arguments["target"]}

    def inverse(self, part: Part) -> Inverse:
        """Returns `NeedsLookUp`: the redirect has to be found before it can be removed."""
        return NeedsLookUp()

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by the path, whichever operation sets it."""
        return {f"redirect|{part.target}": value}

    def _plan_one(
        self, command: CreateRedirect, integration_id: IntegrationId
    ) -> Proposal | ItemProblem | str:
        path, target = command.path.strip(), command.target.strip()
        if not path.startswith("/") or not 2 <= len(path) <= 1024 or not path.isprintable() or " " in path:
            return ItemProblem(path, "not_a_path", "A redirect begins at a path such as /old-page.", "path")
        if not is_redirect_target(target):
            return ItemProblem(path, "not_a_target", "A redirect leads to a path or a web address.", "target")
        if command.present is not None:
            if command.present == target:
                return path
            return ItemProblem(path, "path_taken", "This path leads elsewhere already.", "path")
        arguments: JsonObject = {"target": target}
        part = Part(self.name, integration_id, path, arguments, {"target": None}, {"target": target})
        field = FieldChange("target", "Leads to", None, target, FieldKind.TEXT)
        ref = ObjectRef("redirect", None, path)
        return Proposal(ref, self.action, (field,), (part,), integration_id, command.message)


def is_redirect_target(target: str) -> bool:
    """Returns whether a redirect may lead to a target: a path of the shop, or a web address."""
    leads = target.startswith(("/", "https://", "http://"))
    return leads and len(target) <= 1024 and target.isprintable() and " " not in target


def order_ref(order: Order) -> ObjectRef:
    """Returns an order's reference with its label and URL."""
    return ObjectRef("order", order.id, order.label, order.url)


def draft_ref(draft: DraftOrder) -> ObjectRef:
    """Returns a draft order's reference with its label and URL."""
    return ObjectRef("draft_order", draft.id, draft.number, draft.url)


def customer_ref(customer: Customer) -> ObjectRef:
    """Returns a customer's reference with its label and URL."""
    return ObjectRef("customer", customer.id, customer.label, customer.url)


_OWNERS = {Product: "Product", Variant: "ProductVariant", Order: "Order", Customer: "Customer"}


def _owner_ref(owner: Product | Variant | Order | Customer) -> ObjectRef:
    if isinstance(owner, Order):
        return order_ref(owner)
    if isinstance(owner, Customer):
        return customer_ref(owner)
    if isinstance(owner, Variant):
        return variant_ref(owner)
    return ObjectRef("product", owner.id, owner.label, owner.url)


def _refund_problem(command: CreateRefund) -> ItemProblem | None:
    order, quantities = command.order, {line.id: line.quantity for line in command.order.lines}
    if not command.lines and command.amount is None:
        return ItemProblem(
            order.id, "nothing_refunded", "Neither goods nor money are given back.", "refunded"
        )
    if len(order.refunds) >= _MAX_REFUNDS_SHOWN:
        message = "It was refunded so often that another refund is left to people."
        return ItemProblem(order.id, "refunded_often", message, "refunded")
    for line, quantity in command.lines:
        if line not in quantities or not 1 <= quantity <= quantities[line]:
            message = "It has no such line, or not so many of it."
            return ItemProblem(order.id, "not_a_line", message, "refunded")
    return None if command.amount is None else _refund_amount_problem(command, command.amount)


def _refund_amount_problem(command: CreateRefund, amount: str) -> ItemProblem | None:
    order = command.order
    if not is_amount(amount) or Decimal(amount) == 0:
        return ItemProblem(order.id, "not_a_number", "The amount is a number above 0.", "refunded")
    if Decimal(amount) + Decimal(order.refunded) > Decimal(order.total):
        return ItemProblem(order.id, "too_much", "More would be given back than was paid.", "refunded")
    if command.transaction is None or not command.gateway:
        return ItemProblem(order.id, "no_payment", "Name the payment that is given back.", "refunded")
    return None


SET_ORDER_TAGS: TagsOperation[SetOrderTags] = TagsOperation(
    "order.set_tags", tagged=lambda command: (order_ref(command.order), command.order)
)
SET_CUSTOMER_TAGS: TagsOperation[SetCustomerTags] = TagsOperation(
    "customer.set_tags", tagged=lambda command: (customer_ref(command.customer), command.customer)
)
SET_DRAFT_TAGS: TagsOperation[SetDraftOrderTags] = TagsOperation(
    "draft_order.set_tags", tagged=lambda command: (draft_ref(command.draft), command.draft)
)
SET_ORDER_NOTE = _NoteOperation("order.set_note")
SET_CUSTOMER_NOTE = _NoteOperation("customer.set_note")
CANCEL_ORDER = _CancelOperation("order.cancel", action=Action.CANCEL)
CLOSE_ORDER = _CloseOperation("order.close", action=Action.ARCHIVE)
HOLD = _HoldOperation("fulfillment.hold", action=Action.HOLD)
CAPTURE = _CaptureOperation("order.capture")
REFUND = _RefundOperation("refund.create", action=Action.CREATE, recovery=Recovery.IDEMPOTENT)
SET_METAFIELD = _MetafieldOperation("metafield.set", guard=Guard.COMPARE_AND_SWAP)
CREATE_REDIRECT = _RedirectOperation("redirect.create", action=Action.CREATE)
