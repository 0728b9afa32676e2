"""The node sendInBlue: contacts and mail of Brevo, through a bound account."""

import re
from collections.abc import Iterable, Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, offset_pages, parameters_of, send, success
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import Shape, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_NAMED = re.compile(r"\s*(.*?)\s*<([^<>]+)>\s*\Z", re.DOTALL)


def _address(text: str) -> dict[str, AnyJson]:
    """Returns an address in Brevo's form; `Ann <ann@shop.example>` includes a name."""
    match = _NAMED.match(text)
    return {"name": match[1], "email": match[2].strip()} if match and match[1] else {"email": text.strip()}


def _attributes(rows: str) -> Shape:
    def shape(value: AnyJson) -> Mapping[str, AnyJson]:
        pairs = {js.text(row.get("fieldName")): row.get("fieldValue") for row in rows_of(value, rows)}
        return {"attributes": pairs} if pairs else {}

    return shape


def _mail(fields: ServiceFields) -> dict[str, AnyJson]:
    receivers = [part for part in fields.text("receipients").split(",") if part.strip()]
    body: dict[str, AnyJson] = {
        "sender": _address(fields.text("sender")),
        "to": [_address(part) for part in receivers],
        "subject": fields.text("subject"),
    }
    name = "htmlContent" if fields.flag("sendHTML") else "textContent"
    return {**body, name: fields.text(name)}


def _upserted(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    return [response] if isinstance(response, Mapping) and response else [{"success": True}]


def _more_options(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("resource", "email") == "email" and node.get("sendHTML") and not node.get("htmlContent"):
        message = (
            "It does not say the text of the mail, so it would fail. Fill it in in n8n and import it again."
        )
        yield StepProblem("warning", "parameter", message)


_OPERATIONS = {
    "email.send": send(
        "POST", "/smtp/email", CallForm("sendHTML htmlContent textContent"),
        needed="sender receipients subject", recipient="receipients", text="subject", makes=_mail,
        check=_more_options,
    ),
    "contact.create": send(
        "POST", "/contacts",
        CallForm("email", shapes={"createContactAttributes": _attributes("attributesValues")}),
        needed="email", recipient="email",
    ),
    "contact.upsert": send(
        "POST", "/contacts",
        CallForm(
            "email", shapes={"upsertAttributes": _attributes("upsertAttributesValues")},
            fixed={"updateEnabled": True},
        ),
        needed="email", recipient="email", to_items=_upserted,
    ),
    "contact.update": send(
        "PUT", "/contacts/{identifier}",
        CallForm(shapes={"updateAttributes": _attributes("updateAttributesValues")}), to_items=success,
    ),
    "contact.get": get("/contacts/{identifier}"),
    "contact.getAll": get_all(
        "/contacts", "contacts", offset_pages("contacts", 100), CallForm(fixed={"limit": 100})
    ),
    "contact.delete": send("DELETE", "/contacts/{identifier}", to_items=success),
}  # fmt: skip
_DEFAULTS = {"email": "send", "contact": "create"}


class BrevoNode(HttpServiceNode):
    """Supports contacts, and mail without templates and files."""

    types = ("sendInBlue",)
    service = "Brevo"
    address = "https://api.brevo.com/v3"
    credential_types = ("sendInBlueApi",)
    parameters = parameters_of(_OPERATIONS, "requestOptions")
    default_resource = "email"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
