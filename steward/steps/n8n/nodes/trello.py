"""The node trello: cards, lists, boards and comments, through a bound account."""

from collections.abc import Iterable, Mapping, Sequence

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.calls.tables import CallForm, get_all, one_page, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, joined
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_NAMES = (
    "resource operation id listId name description desc cardId boardId idBoard text additionalFields"
    " updateFields returnAll limit url checklistId color"
)
_ID = {"id": "which one it means"}
_LISTED: Mapping[str, AnyJson] = {"idMembers": joined("idMembers"), "idLabels": joined("idLabels")}
_NEW_CARD = OptionTable(
    "additionalFields", "due dueComplete pos:pos position:pos urlSource idCardSource keepFromSource", _LISTED
)
_CARD_CHANGES = OptionTable(
    "updateFields",
    "closed description:desc due dueComplete idAttachmentCover idBoard idList name pos subscribed",
    _LISTED,
)
_FIELDS = OptionTable("additionalFields", "fields")
_LIST_CHANGES = OptionTable("updateFields", "name closed idBoard pos subscribed")


def _new_card(fields: ServiceFields) -> JsonObject:
    return {
        "idList": fields.text("listId"),
        "name": fields.text("name"),
        "desc": fields.text("description"),
        **_NEW_CARD.read(fields),
    }


def _limited(response: JsonValue, fields: ServiceFields) -> Sequence[JsonObject]:
    """Returns the list up to the step's limit."""
    elements = (
        [element for element in response if isinstance(element, Mapping)]
        if isinstance(response, list)
        else []
    )
    count = len(elements) if fields.flag("returnAll") else int(float(fields.text("limit", "100")))
    return [dict(element) for element in elements[:count]]


def _list_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from _FIELDS.check(node)
    if node.get("limit") is None and not node.get("returnAll"):
        message = "It does not say how many it reads. Let it return all in n8n, or set another limit there."
        yield StepProblem("error", "parameter", message)


def _list(path: str) -> ServiceOperation:
    return ServiceOperation("GET", path, _FIELDS.read, to_items=_limited, needed=_ID, check=_list_problems)


def _get(path: str) -> ServiceOperation:
    return ServiceOperation("GET", path, _FIELDS.read, needed=_ID, check=_FIELDS.check)


_OPERATIONS = {
    "card.create": ServiceOperation(
        "POST", "/cards", _new_card, recipient="listId", text="name",
        needed={"listId": "the list of the card"}, check=_NEW_CARD.check,
    ),
    "card.update": ServiceOperation(
        "PUT", "/cards/{id}", _CARD_CHANGES.read, recipient="id", text="updateFields.name", needed=_ID,
        check=_CARD_CHANGES.check,
    ),
    "card.get": _get("/cards/{id}"),
    "card.delete": ServiceOperation("DELETE", "/cards/{id}", recipient="id", needed=_ID),
    "cardComment.create": ServiceOperation(
        "POST", "/cards/{cardId}/actions/comments", {"text": "text"}, recipient="cardId", text="text",
        needed={"cardId": "which card it means", "text": "the text of the comment"},
    ),
    "board.get": _get("/boards/{id}"),
    "list.create": ServiceOperation(
        "POST", "/lists",
        lambda fields: {
            "idBoard": fields.text("idBoard"),
            "name": fields.text("name"),
            **OptionTable("additionalFields", "idListSource pos").read(fields),
        },
        recipient="idBoard", text="name", needed={"idBoard": "the board", "name": "the name of the list"},
        check=OptionTable("additionalFields", "idListSource pos").check,
    ),
    "list.get": _get("/lists/{id}"),
    "list.getAll": _list("/boards/{id}/lists"),
    "list.getCards": _list("/lists/{id}/cards"),
    "list.update": ServiceOperation(
        "PUT", "/lists/{id}", _LIST_CHANGES.read, recipient="id", text="updateFields.name", needed=_ID,
        check=_LIST_CHANGES.check,
    ),
    "board.create": send(
        "POST", "/boards", CallForm("name description:desc"), needed="name", recipient="name", text="name"
    ),
    "attachment.create": send(
        "POST", "/cards/{cardId}/attachments",
        CallForm("url", (OptionTable("additionalFields", "mimeType name"),)), needed="url", text="url",
    ),
    "attachment.getAll": get_all(
        "/cards/{cardId}/attachments", "", one_page, CallForm(tables=(_FIELDS,)), returns_all=True
    ),
    "checklist.create": send(
        "POST", "/checklists",
        CallForm("cardId:idCard name", (OptionTable("additionalFields", "idChecklistSource pos"),)),
        needed="cardId name", recipient="cardId", text="name",
    ),
    "checklist.createItem": send(
        "POST", "/checklists/{checklistId}/checkItems",
        CallForm("name", (OptionTable("additionalFields", "checked pos"),)), needed="name", text="name",
    ),
    "checklist.getAll": get_all(
        "/cards/{cardId}/checklists", "", one_page, CallForm(tables=(_FIELDS,)), returns_all=True
    ),
    "label.create": send(
        "POST", "/labels", CallForm("boardId:idBoard name color"), needed="boardId name", recipient="boardId",
        text="name",
    ),
    "label.getAll": get_all(
        "/boards/{boardId}/labels", "", one_page, CallForm(tables=(_FIELDS,)), returns_all=True
    ),
    "label.addLabel": send(
        "POST", "/cards/{cardId}/idLabels", CallForm("id:value"), needed="id", text="id"
    ),
    "label.removeLabel": send("DELETE", "/cards/{cardId}/idLabels/{id}", recipient="cardId", text="id"),
}  # fmt: skip
_DEFAULTS: Mapping[str, str] = {
    "board": "create",
    "card": "create",
    "cardComment": "create",
    "list": "create",
    "attachment": "getAll",
    "checklist": "getAll",
    "label": "getAll",
}


class TrelloNode(HttpServiceNode):
    """Supports cards with comments, linked URLs, checklists and labels, as well as lists and boards."""

    types = ("trello",)
    versions = (1,)
    service = "Trello"
    address = "https://api.trello.com/1"
    credential_types = ("trelloApi",)
    parameters = frozenset(_NAMES.split())
    default_resource = "card"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
