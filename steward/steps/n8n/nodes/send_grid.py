"""The node sendGrid: mail, contacts and lists of SendGrid, through a bound account."""

from collections.abc import Iterable

from steward.model.json import JsonObject, JsonValue
from steward.model.write_response import WriteResponse
from steward.steps.n8n.calls.tables import CallForm, get_all, one_page, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import SentItem

_NAMES = (
    "resource operation fromEmail fromName toEmail subject dynamicTemplate templateId dynamicTemplateFields"
    " contentType contentValue additionalFields email name returnAll limit"
)


_OPTIONS = OptionTable("additionalFields", "bccEmail ccEmail categories enableSandbox replyToEmail")


def _addresses(text: str) -> list[dict[str, str]]:
    return [{"email": address.strip()} for address in text.split(",") if address.strip()]


def _person(fields: ServiceFields) -> JsonObject:
    """Returns the recipients of the mail with its subject or the data of its template."""
    chosen = fields.options("additionalFields")
    copies = {name: _addresses(js.text(chosen.get(f"{name}Email", ""))) for name in ("cc", "bcc")}
    person: dict[str, JsonValue] = {"to": _addresses(fields.text("toEmail"))}
    person |= {name: addresses for name, addresses in copies.items() if addresses}
    if fields.flag("dynamicTemplate"):
        rows = rows_of(fields.value("dynamicTemplateFields"), "fields")
        return person | {"dynamic_template_data": {js.text(row.get("key")): row.get("value") for row in rows}}
    return person | {"subject": fields.text("subject")}


def _mail(fields: ServiceFields) -> JsonObject:
    chosen = fields.options("additionalFields")
    sender = {"email": fields.text("fromEmail"), "name": fields.text("fromName")}
    mail: dict[str, JsonValue] = {"personalizations": [_person(fields)], "from": sender}
    if fields.flag("dynamicTemplate"):
        mail["template_id"] = fields.text("templateId")
    else:
        content_type = fields.text("contentType", "text/plain")
        mail["content"] = [{"type": content_type, "value": fields.text("contentValue")}]
    if chosen.get("categories"):
        mail["categories"] = [name.strip() for name in js.text(chosen["categories"]).split(",")]
    if chosen.get("enableSandbox"):
        mail["mail_settings"] = {"sandbox_mode": {"enable": True}}
    if chosen.get("replyToEmail"):
        mail["reply_to_list"] = _addresses(js.text(chosen["replyToEmail"]))
    return mail


_CONTACT = OptionTable(
    "additionalFields",
    "firstName:first_name lastName:last_name city country postalCode:postal_code"
    " stateProvinceRegion:state_province_region",
)


def _contact(fields: ServiceFields) -> JsonObject:
    return {"contacts": [{"email": fields.text("email"), **_CONTACT.read(fields)}]}


_DEFAULTS = {"mail": "send", "contact": "upsert", "list": "create"}
_OPERATIONS = {
    "mail.send": ServiceOperation(
        "POST", "/mail/send", _mail, recipient="toEmail", text="subject",
        needed={"fromEmail": "the sender", "toEmail": "whom it writes to"},
        check=_OPTIONS.check,
    ),
    "contact.upsert": send(
        "PUT", "/marketing/contacts", CallForm("email", (_CONTACT,)), needed="email", recipient="email",
        makes=_contact,
    ),
    "list.create": send("POST", "/marketing/lists", CallForm("name"), needed="name", recipient="name"),
    "list.getAll": get_all(
        "/marketing/lists", "result", one_page, CallForm(fixed={"page_size": 1000}), limit=100
    ),
}  # fmt: skip


class SendGridNode(HttpServiceNode):
    """Supports mail as text, HTML or from a template, contacts and lists, but not attachments."""

    types = ("sendGrid",)
    versions = (1,)
    service = "SendGrid"
    address = "https://api.sendgrid.com/v3"
    credential_types = ("sendGridApi",)
    parameters = frozenset(_NAMES.split())
    default_resource = "list"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns SendGrid's message id for a mail, else the response."""
        if sent.settings["operation"] != "mail.send":
            return super().items_of_response(sent, response)
        return [Item({"messageId": dict(response.headers).get("x-message-id")})]
