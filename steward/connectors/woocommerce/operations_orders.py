"""The changes of orders, customers and a product's status in a WooCommerce shop."""

from dataclasses import dataclass

from steward.connectors.base.commands import (
    AddNote,
    CancelOrder,
    SetCustomerTags,
    SetOrderStatus,
    SetOrderTags,
    SetStatus,
)
from steward.connectors.base.connector import ItemProblem
from steward.connectors.base.inverses import NO_CANCELLATION_BACK, value_restored
from steward.connectors.base.records import Customer, Order
from steward.connectors.base.store_operation import StoreOperation
from steward.connectors.woocommerce.operations import A, WooCommerceBatchOperation, tag_problem, tag_set
from steward.model.change import Action, FieldChange, FieldKind, ObjectRef, Part, Proposal, Recovery
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Inverse, Irreversible

_PRODUCT_STATES = ("draft", "pending", "private", "publish")
# Without `refunded`, which makes the shop refund money by itself, and `cancelled`, for which there is
# order.cancel.
_ORDER_STATES = ("pending", "processing", "on-hold", "completed", "failed")
CANCELLED = "cancelled"
_NOTE_CHARACTERS = 2_000
_STATUS_NOTE = "Mails the shop sent stay sent, and stock may move again."


@dataclass(frozen=True, slots=True)
class _WooCommerceStatusOperation(WooCommerceBatchOperation[SetStatus]):
    """`product.set_status`: sets draft, pending, private or publish."""

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier status."""
        return value_restored(part)

    def _plan_one(self, command: SetStatus, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        product = command.product
        if command.status not in _PRODUCT_STATES:
            message = f"A product is one of {', '.join(_PRODUCT_STATES)}."
            return ItemProblem(product.id, "not_a_status", message, "status")
        if product.status not in _PRODUCT_STATES:
            message = f"It is {product.status} and has to be taken out of that in the shop first."
            return ItemProblem(product.id, "not_changeable", message, "status")
        if command.status == product.status:
            return product.id
        before, after = {"status": product.status}, {"status": command.status}
        part = Part(self.name, integration_id, product.id, after, before, after)
        field = FieldChange("status", "Status", product.status, command.status, FieldKind.TEXT)
        return Proposal(
            ObjectRef("product", product.id, product.label, product.url), self.action, (field,), (part,),
            integration_id, command.message,
        )  # fmt: skip


class _WooCommerceTagsOperation(WooCommerceBatchOperation[A]):
    """Sets the whole list of an object's tags, stored in metadata."""

    __slots__ = ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares tags as case-insensitive sets."""
        return tag_set(expected) == tag_set(actual)

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the list of tags after the change."""
        return {"tags": arguments["tags"]}, ()

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier tags."""
        return value_restored(part)

    def _plan_tags(
        self,
        ref: ObjectRef,
        command: SetOrderTags | SetCustomerTags,
        current_tags: tuple[str, ...],
        integration_id: IntegrationId,
    ) -> Proposal | ItemProblem | str:
        """Returns the change, the problem of a tag, or the id of an object that does not change."""
        object_id = str(ref.id)
        tags_by_key: dict[str, str] = {}
        for tag in command.tags:
            problem = tag_problem(object_id, tag)
            if problem is not None:
                return problem
            tags_by_key.setdefault(tag.casefold(), tag)
        before = {"tags": list(current_tags)}
        after = {"tags": sorted(tags_by_key.values())}
        if self.same(after, before):
            return object_id
        part = Part(self.name, integration_id, object_id, after, before, after)
        field = FieldChange("tags", "Tags", before["tags"], after["tags"], FieldKind.TAGS)
        return Proposal(ref, self.action, (field,), (part,), integration_id, command.message)


@dataclass(frozen=True, slots=True)
class _WooCommerceOrderTagsOperation(_WooCommerceTagsOperation[SetOrderTags]):
    """`order.set_tags`."""

    def _plan_one(self, command: SetOrderTags, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        order = command.order
        return self._plan_tags(_order_ref(order), command, order.tags, integration_id)


@dataclass(frozen=True, slots=True)
class _WooCommerceCustomerTagsOperation(_WooCommerceTagsOperation[SetCustomerTags]):
    """`customer.set_tags`."""

    def _plan_one(
        self, command: SetCustomerTags, integration_id: IntegrationId
    ) -> Proposal | ItemProblem | str:
        customer = command.customer
        return self._plan_tags(_customer_ref(customer), command, customer.tags, integration_id)


@dataclass(frozen=True, slots=True)
class _WooCommerceOrderStatusOperation(WooCommerceBatchOperation[SetOrderStatus]):
    """`order.set_status`: sets any status but cancelled and refunded."""

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier status, unless that would cancel or refund the order."""
        assert isinstance(part.before, dict)
        status = part.before["status"]
        if status not in _ORDER_STATES:
            return Irreversible(
                f"An order is not set to {status} again: that would do more than change its status."
            )
        return value_restored(part, _STATUS_NOTE)

    def _plan_one(
        self, command: SetOrderStatus, integration_id: IntegrationId
    ) -> Proposal | ItemProblem | str:
        order = command.order
        if command.status not in _ORDER_STATES:
            message = f"An order is set to one of {', '.join(_ORDER_STATES)}."
            return ItemProblem(order.id, "not_a_status", message, "status")
        if command.status == order.status:
            return order.id
        before, after = {"status": order.status}, {"status": command.status}
        part = Part(self.name, integration_id, order.id, after, before, after)
        field = FieldChange("status", "Status", order.status, command.status, FieldKind.TEXT)
        return Proposal(_order_ref(order), self.action, (field,), (part,), integration_id, command.message)


@dataclass(frozen=True, slots=True)
class _WooCommerceCancelOperation(StoreOperation[CancelOrder]):
    """`order.cancel`: cancels once; the shop itself restores the stock and sends its mails."""

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares only the fields of `expected`.

        An order that was paid meanwhile differs from its state before; a cancelled order counts as
        cancelled whether paid or not.
        """
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        return all(actual.get(name) == value for name, value in expected.items())

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: a cancelled order stays cancelled."""
        return NO_CANCELLATION_BACK

    def _plan_one(self, command: CancelOrder, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        order = command.order
        if order.status == CANCELLED:
            return order.id
        if order.status in ("refunded", "completed"):
            message = f"It is {order.status}, so it is not cancelled."
            return ItemProblem(order.id, "not_cancellable", message, "status")
        before: JsonObject = {"status": order.status, "paid": order.paid}
        after = {"status": CANCELLED}
        part = Part(self.name, integration_id, order.id, after, before, after)
        field = FieldChange("status", "Status", order.status, CANCELLED, FieldKind.TEXT)
        return Proposal(_order_ref(order), self.action, (field,), (part,), integration_id, command.message)


@dataclass(frozen=True, slots=True)
class _WooCommerceNoteOperation(StoreOperation[AddNote]):
    """`order.add_note`: adds a note that ends with the write key, so that it can be found again."""

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares the values; a note does not exist before it is added, and its marker identifies it."""
        return expected == actual

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: a note stays."""
        return Irreversible("A note cannot be taken back.")

    def _plan_one(self, command: AddNote, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        order, text = command.order, command.text.strip()
        if not 1 <= len(text) <= _NOTE_CHARACTERS:
            message = f"A note has 1 to {_NOTE_CHARACTERS} characters."
            return ItemProblem(order.id, "not_a_note", message, "note")
        arguments: JsonObject = {"note": text, "customer_note": command.for_customer}
        part = Part(self.name, integration_id, order.id, arguments, None, {"note": text})
        label = "Note to the customer" if command.for_customer else "Note"
        field = FieldChange("note", label, None, text, FieldKind.TEXT)
        return Proposal(_order_ref(order), self.action, (field,), (part,), integration_id, command.message)


def _order_ref(order: Order) -> ObjectRef:
    """Returns the reference of an order, with the number that people know."""
    return ObjectRef("order", order.id, f"#{order.label.lstrip('#')}", order.url)


def _customer_ref(customer: Customer) -> ObjectRef:
    return ObjectRef("customer", customer.id, customer.label, customer.url)


SET_STATUS = _WooCommerceStatusOperation("product.set_status")
SET_ORDER_TAGS = _WooCommerceOrderTagsOperation("order.set_tags")
SET_CUSTOMER_TAGS = _WooCommerceCustomerTagsOperation("customer.set_tags")
SET_ORDER_STATUS = _WooCommerceOrderStatusOperation("order.set_status")
CANCEL = _WooCommerceCancelOperation("order.cancel", action=Action.CANCEL)
ADD_NOTE = _WooCommerceNoteOperation("order.add_note", recovery=Recovery.MARKED)
