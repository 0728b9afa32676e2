"""The node microsoftOneDrive: files and folders, as the person who signed in."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from steward.connectors.base.service_calls import SendCall
from steward.model.json import AnyJson
from steward.steps.n8n.calls.files import with_content
from steward.steps.n8n.calls.tables import CallForm, get, parameters_of, send, success
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.n8n.service_nodes import ServicePort, ToItems
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, StepCall

_PARENT = OptionTable("options", "parentFolderId")


def _of_kind(kind: str) -> ToItems:
    """Returns a reader of the page's files or folders. Raises ItemFailed if there are further pages."""

    def to_items(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
        if isinstance(response, Mapping) and response.get("@odata.nextLink"):
            raise ItemFailed("There are more than 200 objects. Search for less.")
        rows = js.get_path(response, "value")
        objects = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
        return [row for row in objects if not kind or kind in row]

    return to_items


def _search_path(fields: ServiceFields) -> str:
    text = fields.text("query").replace("'", "''")
    return f"/drive/root/search(q='{quote(text, safe='')}')"


def _upload_path(fields: ServiceFields) -> str:
    parent = path_segment(fields.text("parentId"), "parent folder")
    return f"/drive/items/{parent}:/{path_segment(fields.text('fileName'), 'file name')}:/content"


def _new_folder_path(fields: ServiceFields) -> str:
    parent = fields.text("options.parentFolderId")
    return f"/drive/items/{path_segment(parent, 'folder')}/children" if parent else "/drive/root/children"


def _new_folder(fields: ServiceFields) -> dict[str, AnyJson]:
    return {"name": fields.text("name"), "folder": {}}


_PAGE = CallForm(fixed={"$top": 200})
_RENAME = CallForm("newName:name")
_SHARE = CallForm("type scope")
_OPERATIONS = {
    "file.upload": send(
        "PUT", "", CallForm("binaryData fileContent binaryPropertyName"), needed="parentId fileName",
        recipient="fileName", choose_path=_upload_path, makes=lambda fields: {},
    ),
    "file.get": get("/drive/items/{fileId}"),
    "file.search": get("", _PAGE, needed="query", choose_path=_search_path, to_items=_of_kind("file")),
    "file.rename": send("PATCH", "/drive/items/{itemId}", _RENAME, needed="newName", text="newName"),
    "file.share": send("POST", "/drive/items/{fileId}/createLink", _SHARE, text="type"),
    "file.delete": send("DELETE", "/drive/items/{fileId}", to_items=success),
    "folder.create": send(
        "POST", "", CallForm("name", (_PARENT,)), needed="name", recipient="name",
        choose_path=_new_folder_path, makes=_new_folder,
    ),
    "folder.getChildren": get("/drive/items/{folderId}/children", _PAGE, to_items=_of_kind("")),
    "folder.search": get("", _PAGE, needed="query", choose_path=_search_path, to_items=_of_kind("folder")),
    "folder.rename": send("PATCH", "/drive/items/{itemId}", _RENAME, needed="newName", text="newName"),
    "folder.share": send("POST", "/drive/items/{folderId}/createLink", _SHARE, text="type"),
    "folder.delete": send("DELETE", "/drive/items/{folderId}", to_items=success),
}  # fmt: skip
_DEFAULTS = {"file": "upload", "folder": "create"}


class MicrosoftOneDriveNode(HttpServiceNode):
    """Uploads, searches and renames files, and creates and reads folders; does not fetch or copy files."""

    types = ("microsoftOneDrive",)
    versions = (1, 1.1)
    service = "OneDrive"
    address = "https://graph.microsoft.com/v1.0/me"
    credential_types = ("microsoftOneDriveOAuth2Api",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "file"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
    sends_files = ("file.upload",)

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item with the file that it sends. Raises ItemFailed."""
        prepared = self.operations[key].call(fields)
        return await with_content(call, index, fields, prepared) if key == "file.upload" else prepared
