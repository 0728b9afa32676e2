"""Plans plain fields, single tags, changed redirects and released holds; pure."""

import re
from collections.abc import Callable, Mapping

from steward.connectors.base.commands import ChangeTags, ReleaseFulfilment, SetObjectFields, SetRedirect
from steward.connectors.base.connector import ItemProblem
from steward.connectors.base.inverses import mirrored, value_restored
from steward.connectors.base.records import Customer, DraftOrder, Order, Product
from steward.connectors.shopify.current import FIELDS, FLAGS
from steward.connectors.shopify.operations import (
    NOT_A_TAG,
    ShopifyOperation,
    is_tag,
    product_ref,
    tags_inverse,
)
from steward.connectors.shopify.order_operations import customer_ref, draft_ref, is_redirect_target, order_ref
from steward.model.change import Action, FieldChange, FieldKind, ObjectRef, Part, Proposal
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Inverse, Irreversible, PutBack

_HANDLE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_EMAIL = re.compile(r"[^\s@,;<>\"]{1,64}@[^\s@,;<>\"]+\.[^\s@,;<>\"]+")
_PHONE = re.compile(r"\+[1-9][0-9]{5,14}")
_LOCALE = re.compile(r"[a-z]{2,3}(-[A-Z]{2})?")
_LABELS = {
    "title": "Title",
    "vendor": "Vendor",
    "productType": "Product type",
    "handle": "Handle",
    "templateSuffix": "Theme template",
    "email": "Email",
    "phone": "Phone",
    "poNumber": "PO number",
    "firstName": "First name",
    "lastName": "Last name",
    "locale": "Language",
    "taxExempt": "Exempt from tax",
}


def _is_plain_line(value: str) -> bool:
    return len(value) <= 255 and value.isprintable() and value == value.strip()


# The rule and message of each field; all others are single-line texts.
_RULES: Mapping[str, tuple[Callable[[str], object], str]] = {
    "title": (lambda value: value and _is_plain_line(value), "A title has 1 to 255 characters."),
    "handle": (_HANDLE.fullmatch, "A handle has small letters, digits and single dashes."),
    "email": (lambda value: not value or _EMAIL.fullmatch(value), "This is not an e-mail address."),
    "phone": (
        lambda value: not value or _PHONE.fullmatch(value),
        "A phone number is written as +49301234567.",
    ),
    "locale": (_LOCALE.fullmatch, "A language is written as en or pt-BR."),
}


class _FieldsOperation(ShopifyOperation[SetObjectFields]):
    """`product.set_fields`, `order.set_fields`, `customer.set_fields`: only fields that differ are sent."""

    __slots__ = ()

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Compares every expected field: texts exactly, an email address without regard to case."""
        if not isinstance(expected, dict) or not isinstance(actual, dict):
            return expected == actual
        return all(name in actual and _equal(name, value, actual[name]) for name, value in expected.items())

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that restores the earlier fields."""
        return value_restored(part)

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Splits the value into the fields that the part sets."""
        fields = value if isinstance(value, dict) else {}
        return {f"{self.name}|{part.target}|{name}": {name: fields.get(name)} for name in part.arguments}

    def _plan_one(
        self, command: SetObjectFields, integration_id: IntegrationId
    ) -> Proposal | ItemProblem | str:
        subject, allowed = command.subject, FIELDS[command.subject.kind]
        if self.name != f"{subject.kind.lower()}.set_fields":
            raise TypeError(f"{self.name} is not asked about a {subject.kind}")
        before: dict[str, JsonValue] = {}
        after: dict[str, JsonValue] = {}
        for name, value in command.values.items():
            if name not in allowed or name not in subject.values:
                message = f"The field “{name[:60]}” cannot be changed here."
                return ItemProblem(subject.id, "not_a_field", message, name[:60])
            new_value = _unset_as_empty(name, value)
            problem = _value_problem(name, new_value)
            if problem is not None:
                return ItemProblem(subject.id, "not_a_value", problem, name)
            if not _equal(name, new_value, subject.values[name]):
                before[name], after[name] = subject.values[name], new_value
        if not after:
            return subject.id
        part = Part(self.name, integration_id, subject.id, after, before, after)
        fields = tuple(_field_change(name, before[name], after[name]) for name in after)
        ref = ObjectRef(subject.kind.lower(), subject.id, subject.label, subject.url)
        return Proposal(ref, self.action, fields, (part,), integration_id, command.message)


class _ChangeTagsOperation(ShopifyOperation[ChangeTags]):
    """`order.change_tags` and similar: one part per tag, compared by whether the object has that tag.

    Several such changes of one object do not conflict with each other.
    """

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"has": "add" in arguments}

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that removes an added tag, or adds a removed one."""
        return tags_inverse(part)

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by object and tag."""
        [tags] = part.arguments.values()
        assert isinstance(tags, list | tuple)
        return {f"{self.name}|{part.target}|{str(tags[0]).casefold()}": value}

    def _plan_one(self, command: ChangeTags, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        subject, ref = command.subject, _ref(command.subject)
        if self.name != f"{ref.type}.change_tags":
            raise TypeError(f"{self.name} is not asked about a {ref.type}")
        if not all(is_tag(tag) for tag in (*command.add, *command.remove)):
            return ItemProblem(subject.id, "not_a_tag", NOT_A_TAG, "tags")
        added, removed = _added_and_removed(command)
        if not added and not removed:
            return subject.id
        parts = tuple(
            Part(
                self.name,
                integration_id,
                subject.id,
                {verb: [tag]},
                {"has": verb == "remove"},
                {"has": verb == "add"},
            )
            for verb, tags in (("add", added), ("remove", removed))
            for tag in tags
        )
        field = FieldChange("tags", _tags_label(added, removed), removed, added, FieldKind.TAGS)
        return Proposal(ref, self.action, (field,), parts, integration_id, command.message)


def _added_and_removed(command: ChangeTags) -> tuple[list[str], list[str]]:
    """Returns the missing tags to add, and the tags to remove as the object spells them."""
    current_tags = {tag.casefold(): tag for tag in command.subject.tags}
    add = {tag.casefold(): tag for tag in command.add}
    remove = dict.fromkeys(tag.casefold() for tag in command.remove)
    added = [tag for name, tag in add.items() if name not in current_tags]
    removed = [current_tags[name] for name in remove if name in current_tags and name not in add]
    return added, removed


def _tags_label(added: list[str], removed: list[str]) -> str:
    if added and removed:
        return "Tags"
    return "Tags put on" if added else "Tags taken off"


def _ref(subject: Order | Product | Customer | DraftOrder) -> ObjectRef:
    if isinstance(subject, Order):
        return order_ref(subject)
    if isinstance(subject, Customer):
        return customer_ref(subject)
    return product_ref(subject) if isinstance(subject, Product) else draft_ref(subject)


class _ReleaseOperation(ShopifyOperation[ReleaseFulfilment]):
    """`fulfillment.release`: ends the holds of one fulfilment order; a hold placed since is a conflict."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"holds": []}

    def inverse(self, part: Part) -> Inverse:
        """Returns the reason why there is no inverse: released goods may be on their way."""
        return Irreversible("It may be on its way already.")

    def _plan_one(
        self, command: ReleaseFulfilment, integration_id: IntegrationId
    ) -> Proposal | ItemProblem | str:
        order, sending = command.order, command.fulfilment
        if sending.status != "on_hold" or not command.holds:
            return order.id
        holds: JsonObject = {"holds": sorted(command.holds)}
        part = Part(self.name, integration_id, sending.id, holds, holds, {"holds": []})
        field = FieldChange("fulfilment", "Fulfilment", "on_hold", "open", FieldKind.TEXT)
        return Proposal(order_ref(order), self.action, (field,), (part,), integration_id, command.message)


class _SetRedirectOperation(ShopifyOperation[SetRedirect]):
    """`redirect.set`: points an existing redirect to another target."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"target": arguments["target"]}

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that points the redirect to its earlier target."""
        assert isinstance(part.before, dict)
        return PutBack(mirrored(part, {"id": part.arguments["id"], "target": part.before["target"]}))

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by the path, whichever operation sets it."""
        return {f"redirect|{part.target}": value}

    def _plan_one(self, command: SetRedirect, integration_id: IntegrationId) -> Proposal | ItemProblem | str:
        present, target = command.present, command.target.strip()
        if not is_redirect_target(target):
            message = "A redirect leads to a path or a web address."
            return ItemProblem(present.path, "not_a_target", message, "target")
        if present.target == target:
            return present.path
        arguments: JsonObject = {"id": present.id, "target": target}
        before, after = {"target": present.target}, {"target": target}
        part = Part(self.name, integration_id, present.path, arguments, before, after)
        field = FieldChange("target", "Leads to", present.target, target, FieldKind.TEXT)
        ref = ObjectRef("redirect", present.id, present.path)
        return Proposal(ref, self.action, (field,), (part,), integration_id, command.message)


def _unset_as_empty(name: str, value: JsonValue) -> JsonValue:
    if value is not None:
        return value
    return False if name in FLAGS else ""


def _field_change(name: str, before: JsonValue, after: JsonValue) -> FieldChange:
    kind = FieldKind.BOOLEAN if name in FLAGS else FieldKind.TEXT
    return FieldChange(name, _LABELS[name], before, after, kind)


def _equal(name: str, value: JsonValue, other: JsonValue) -> bool:
    if name == "email" and isinstance(value, str) and isinstance(other, str):
        return value.casefold() == other.casefold()
    return value == other


def _value_problem(name: str, value: JsonValue) -> str | None:
    """Returns the fault of a field's value in words; None when it has none."""
    if name in FLAGS:
        return None if isinstance(value, bool) else f"{_LABELS[name]} is yes or no."
    if not isinstance(value, str):
        return f"{_LABELS[name]} is a text."
    fits, words = _RULES.get(
        name, (_is_plain_line, f"{_LABELS[name]} has at most 255 characters on one line.")
    )
    return None if fits(value) and len(value) <= 255 else words


SET_PRODUCT_FIELDS = _FieldsOperation("product.set_fields")
SET_ORDER_FIELDS = _FieldsOperation("order.set_fields")
SET_CUSTOMER_FIELDS = _FieldsOperation("customer.set_fields")
CHANGE_TAGS = tuple(
    _ChangeTagsOperation(f"{kind}.change_tags") for kind in ("order", "product", "customer", "draft_order")
)
RELEASE = _ReleaseOperation("fulfillment.release", action=Action.UPDATE)
SET_REDIRECT = _SetRedirectOperation("redirect.set")
