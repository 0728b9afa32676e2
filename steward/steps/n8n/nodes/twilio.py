"""The node twilio: text messages and spoken calls from the bound account."""

from html import escape

from steward.model.json import JsonObject
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation

_NEEDED = {"from": "which number it sends from", "to": "which number it sends to"}
_ACCOUNT = "/2010-04-01/Accounts/{:account_sid}"
_NAMES = "resource operation from to toWhatsapp message twiml options"
_COLLECTIONS = {"options": frozenset(("statusCallback",))}
_DEFAULTS = {"sms": "send", "call": "make"}


def _message(fields: ServiceFields) -> JsonObject:
    sender, recipient = fields.text("from"), fields.text("to")
    if fields.flag("toWhatsapp"):
        sender, recipient = f"whatsapp:{sender}", f"whatsapp:{recipient}"
    body = {"From": sender, "To": recipient, "Body": fields.text("message")}
    return body | {"StatusCallback": fields.value("options.statusCallback")}


def _call(fields: ServiceFields) -> JsonObject:
    spoken = fields.text("message")
    if not fields.flag("twiml"):
        spoken = f"<Response><Say>{escape(spoken, quote=False)}</Say></Response>"
    body = {"From": fields.text("from"), "To": fields.text("to"), "Twiml": spoken}
    return body | {"StatusCallback": fields.value("options.statusCallback")}


_OPERATIONS = {
    "sms.send": ServiceOperation(
        "POST", f"{_ACCOUNT}/Messages.json", _message, recipient="to", text="message", needed=_NEEDED,
        is_form=True,
    ),
    "call.make": ServiceOperation(
        "POST", f"{_ACCOUNT}/Calls.json", _call, recipient="to", text="message", needed=_NEEDED, is_form=True
    ),
}  # fmt: skip


class TwilioNode(ServiceNode):
    """Sends text messages, also to WhatsApp, and makes calls."""

    types = ("twilio",)
    connector = "twilio"
    service = "Twilio"
    parameters = frozenset(_NAMES.split(" "))
    collections = _COLLECTIONS
    default_resource = "sms"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
