"""The node raindrop: bookmarks and collections, as the person who signed in."""

from collections.abc import Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import (
    CallForm,
    elements,
    get,
    get_all,
    numbered_pages,
    one_page,
    parameters_of,
    send,
)
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.workflow.javascript import values as js


def _tags(value: AnyJson) -> Mapping[str, AnyJson]:
    return {"tags": [part.strip() for part in js.text(value).split(",") if part.strip()]}


def _collection(value: AnyJson) -> Mapping[str, AnyJson]:
    return {"collection": {"$id": value}}


_NEW = OptionTable("additionalFields", "important order title", {"tags": _tags})
_OPERATIONS = {
    "bookmark.create": send(
        "POST", "/raindrop", CallForm("link", (_NEW,), {"collectionId": _collection}), needed="link",
        recipient="link", to_items=elements("item"),
    ),
    "bookmark.get": get("/raindrop/{bookmarkId}", items="item"),
    "bookmark.getAll": get_all(
        "/raindrops/{collectionId}", "items", numbered_pages("items", 50, first=0),
        CallForm(fixed={"perpage": 50}),
    ),
    "collection.get": get("/collection/{collectionId}", items="item"),
    "collection.getAll": get_all(
        "", "items", one_page, CallForm("type"),
        choose_path=lambda fields: (
            "/collections/childrens" if fields.text("type", "parent") == "children" else "/collections"
        ),
        makes=lambda fields: {},
    ),
}  # fmt: skip
_DEFAULTS = {"bookmark": "get", "collection": "get"}


class RaindropNode(HttpServiceNode):
    """Creates and reads bookmarks, and reads collections."""

    types = ("raindrop",)
    service = "Raindrop"
    address = "https://api.raindrop.io/rest/v1"
    credential_types = ("raindropOAuth2Api",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "collection"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
