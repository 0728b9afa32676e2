"""The node mailjet: sends mail, through a bound account."""

from collections.abc import Iterable, Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, elements, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_OPTIONS = OptionTable("additionalFields", "bccEmail ccAddresses replyTo")


def _addresses(text: str) -> Sequence[Mapping[str, AnyJson]]:
    return [{"Email": part.strip()} for part in text.split(",") if part.strip()]


def _mail(fields: ServiceFields) -> dict[str, AnyJson]:
    options = _OPTIONS.read(fields)
    message: dict[str, AnyJson] = {
        "From": {"Email": fields.text("fromEmail")},
        "Subject": fields.text("subject"),
        "To": _addresses(fields.text("toEmail")),
    }
    for parameter, name in (("text", "TextPart"), ("html", "HTMLPart")):
        message |= {name: fields.text(parameter)} if fields.text(parameter) else {}
    for parameter, name in (("bccEmail", "Bcc"), ("ccAddresses", "Cc")):
        message |= {name: _addresses(str(options[parameter]))} if options.get(parameter) else {}
    if options.get("replyTo"):
        message["ReplyTo"] = {"Email": options["replyTo"]}
    return {"Messages": [message]}


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("variablesUi") or node.get("variablesJson"):
        message = "It fills in variables of a template, which is not supported. Write them into the text."
        yield StepProblem("error", "parameter", message)


_OPERATIONS = {
    "email.send": send(
        "POST", "/v3.1/send", CallForm("text html", (_OPTIONS,)), needed="fromEmail toEmail subject",
        recipient="toEmail", text="subject", makes=_mail, to_items=elements("Messages"), check=_problems,
    ),
}  # fmt: skip
_DEFAULTS = {"email": "send"}


class MailjetNode(HttpServiceNode):
    """Sends mail without templates, variables and files."""

    types = ("mailjet",)
    service = "Mailjet"
    address = "https://api.mailjet.com"
    credential_types = ("mailjetEmailApi",)
    parameters = parameters_of(_OPERATIONS, "jsonParameters variablesUi variablesJson")
    default_resource = "email"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
