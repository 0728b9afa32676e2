"""The node whatsApp: text, media by URL, and templates, sent from the bound phone number."""

import re
from collections.abc import Iterable

from steward.model.json import JsonObject, JsonValue
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem

_MEDIA = frozenset(("image", "video", "audio", "document", "sticker"))
_MESSAGES = "/{phoneNumberId:phone_number_id}/messages"
_NEEDED = {"recipientPhoneNumber": "which phone number it writes to"}
_NAMES = (
    "authentication resource operation phoneNumberId recipientPhoneNumber messageType textBody mediaPath"
    " mediaLink mediaId mediaPropertyName mediaCaption mediaFilename additionalFields template components"
    " contacts contactsUi name longitude latitude nameAddress addressUi"
)
_COLLECTIONS = {
    "additionalFields": frozenset(
        ("previewUrl", "mediaCaption", "mediaFilename", "nameAddress", "emails", "organization", "birthday")
    )
}


def _number(fields: ServiceFields) -> str:
    return re.sub(r"[^0-9]", "", fields.text("recipientPhoneNumber"))


def _text(fields: ServiceFields) -> dict[str, JsonValue]:
    body = {"body": fields.text("textBody")}
    preview = fields.value("additionalFields.previewUrl")
    return {"type": "text", "text": body if preview is None else body | {"preview_url": preview}}


def _media(fields: ServiceFields, kind: str) -> dict[str, JsonValue]:
    if fields.text("mediaPath", "useMediaLink") == "useMediaId":
        media = {"id": fields.text("mediaId")}
    else:
        media = {"link": fields.text("mediaLink")}
    if caption := fields.text("additionalFields.mediaCaption"):
        media["caption"] = caption
    if name := fields.text("additionalFields.mediaFilename"):
        media["filename"] = name
    return {"type": kind, kind: media}


def _location(fields: ServiceFields) -> dict[str, JsonValue]:
    location = {"longitude": fields.value("longitude"), "latitude": fields.value("latitude")}
    names = fields.options("additionalFields.nameAddress.values", "name", "address")
    return {"type": "location", "location": location | names}


def _message(fields: ServiceFields) -> dict[str, JsonValue]:
    kind = fields.text("messageType", "text")
    if kind == "text":
        content = _text(fields)
    elif kind == "location":
        content = _location(fields)
    elif kind in _MEDIA:
        content = _media(fields, kind)
    else:
        raise ItemFailed(f"A message of the type “{kind[:40]}” is not supported. Choose another type.")
    return {"messaging_product": "whatsapp", "to": _number(fields), **content}


def _parameters(fields: ServiceFields, path: str) -> list[dict[str, JsonValue]]:
    """Returns the parameters of a template component, with WhatsApp's names for their types."""
    parameters = []
    for row in fields.rows(path):
        kind = row.text("type", "text")
        if kind == "currency":
            amount = {"code": row.text("code"), "amount_1000": row.value("amount_1000")}
            value: JsonValue = amount | {"fallback_value": row.text("fallback_value")}
        elif kind == "date_time":
            value = {"fallback_value": row.text("date_time")}
        elif kind == "image":
            value = {"link": row.text("imageLink")}
        else:
            value = row.text(kind if kind == "payload" else "text")
        parameters.append({"type": kind, kind: value})
    return parameters


def _component(fields: ServiceFields) -> JsonObject:
    kind = fields.text("type", "body")
    if kind == "button":
        button = {"type": kind, "sub_type": fields.text("sub_type"), "index": fields.text("index", "0")}
        return button | {"parameters": _parameters(fields, "buttonParameters.parameter")}
    return {"type": kind, "parameters": _parameters(fields, f"{kind}Parameters.parameter")}


def _template(fields: ServiceFields) -> dict[str, JsonValue]:
    name, _, language = fields.text("template").partition("|")
    template: dict[str, JsonValue] = {"name": name, "language": {"code": language or "en_US"}}
    components = [_component(row) for row in fields.rows("components.component")]
    if components:
        template["components"] = components
    return {
        "messaging_product": "whatsapp", "to": _number(fields), "type": "template", "template": template,
    }  # fmt: skip


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    kind = str(node.get("messageType", "text"))
    if kind in _MEDIA and node.get("mediaPath") == "useMedian8n":
        message = "It sends a file of the run, which is not supported. Give the address of the file."
        yield StepProblem("error", "binary", message)
    if kind == "contacts":
        message = "It sends contacts, which is not supported. Write them as a text."
        yield StepProblem("error", "parameter", message)


_OPERATIONS = {
    "message.send": ServiceOperation(
        "POST", _MESSAGES, _message, recipient="recipientPhoneNumber", text="textBody",
        needed=_NEEDED, check=_problems,
    ),
    "message.sendTemplate": ServiceOperation(
        "POST", _MESSAGES, _template, recipient="recipientPhoneNumber", text="template",
        needed=_NEEDED | {"template": "which template it sends"},
    ),
    "media.mediaUrlGet": ServiceOperation("GET", "/{mediaGetId}"),
    "media.mediaDelete": ServiceOperation("DELETE", "/{mediaDeleteId}"),
}  # fmt: skip
_DEFAULTS = {"message": "send", "media": "mediaUpload"}


class WhatsAppNode(ServiceNode):
    """Sends messages through the Cloud API; does not send files of the run or contacts."""

    types = ("whatsApp",)
    versions = (1, 1.1)
    connector = "whatsapp"
    service = "WhatsApp"
    parameters = frozenset((*_NAMES.split(" "), "mediaGetId", "mediaDeleteId"))
    collections = _COLLECTIONS
    default_resource = "message"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
