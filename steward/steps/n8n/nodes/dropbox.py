"""The node dropbox: files and folders, through a bound account."""

import json
from collections.abc import Mapping, Sequence

from steward.connectors.base.service_calls import SendCall
from steward.model.json import AnyJson
from steward.steps.n8n.calls.files import fetch_files, with_content
from steward.steps.n8n.calls.tables import CallForm, get, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation, ServicePort
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
)

_CONTENT = "https://content.dropboxapi.com/2/files"
_LISTED = 2000
_MEMBERS = {
    "id": "id", "name": "name", "client_modified": "lastModifiedClient",
    "server_modified": "lastModifiedServer", "rev": "rev", "size": "contentSize", ".tag": "type",
    "content_hash": "contentHash", "path_lower": "pathLower", "path_display": "pathDisplay",
    "has_explicit_shared_members": "hasExplicitSharedMembers", "is_downloadable": "isDownloadable",
}  # fmt: skip


def _path(text: str) -> str:
    """Returns a path in Dropbox's form, in which the root is empty."""
    return "" if text == "/" else text


def _argument(**more: AnyJson) -> AnyJson:
    """Returns the query that carries the arguments of a call whose body is the file."""

    def query(fields: ServiceFields) -> dict[str, str]:
        return {"arg": json.dumps({"path": _path(fields.text("path")), **more})}

    return query


def _entries(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    rows = js.get_path(response, "entries")
    return [
        {renamed: row[name] for name, renamed in _MEMBERS.items() if name in row}
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, Mapping)
    ]


def _refuse_more(response: AnyJson, body: Mapping[str, AnyJson]) -> None:
    if js.truthy(js.get_path(response, "has_more")):
        raise ItemFailed(f"The folder has more than {_LISTED} entries. Read one of its folders.")


def _list(fields: ServiceFields) -> dict[str, AnyJson]:
    return {"path": _path(fields.text("path")), "limit": _LISTED}


_MOVE = CallForm("path:from_path toPath:to_path")
_OPERATIONS = {
    "file.upload": send(
        "POST", f"{_CONTENT}/upload", CallForm("binaryData fileContent binaryPropertyName"), needed="path",
        recipient="path", query=_argument(mode="overwrite"), makes=lambda fields: {},
    ),
    "file.download": get(f"{_CONTENT}/download", CallForm("path"), needed="path", makes=_argument()),
    "file.copy": send("POST", "/copy_v2", _MOVE, needed="path toPath", recipient="path"),
    "file.move": send("POST", "/move_v2", _MOVE, needed="path toPath", recipient="path"),
    "file.delete": send("POST", "/delete_v2", CallForm("path"), needed="path", recipient="path"),
    "folder.create": send("POST", "/create_folder_v2", CallForm("path"), needed="path", recipient="path"),
    "folder.copy": send("POST", "/copy_v2", _MOVE, needed="path toPath", recipient="path"),
    "folder.move": send("POST", "/move_v2", _MOVE, needed="path toPath", recipient="path"),
    "folder.delete": send("POST", "/delete_v2", CallForm("path"), needed="path", recipient="path"),
    "folder.list": ServiceOperation(
        "POST", "/list_folder", _list, to_items=_entries, is_query=True, next_page=_refuse_more,
        check=send("POST", "", CallForm("path")).check,
    ),
}  # fmt: skip
_DEFAULTS = {"file": "upload", "folder": "create", "search": "query"}

_DOWNLOAD = {"operation": "download"}


class DropboxNode(HttpServiceNode):
    """Supports files and folders, but not search."""

    types = ("dropbox",)
    service = "Dropbox"
    address = "https://api.dropboxapi.com/2/files"
    credential_types = ("dropboxApi", "dropboxOAuth2Api")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "file"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
    sends_files = ("file.upload",)
    file_parameters = _DOWNLOAD

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item with the file that it sends. Raises ItemFailed."""
        prepared = self.operations[key].call(fields)
        return await with_content(call, index, fields, prepared) if key == "file.upload" else prepared

    async def run(self, call: StepCall) -> NodeResult:
        """Fetches a file for each item, or makes one call or read for each."""
        node = NodeDefinition(call.step.name, call.version, call.first.tree)
        if self.operation_key(node) != "file.download":
            return await super().run(call)
        operation = self.operations["file.download"]
        return await fetch_files(
            call, self.port(call), operation, lambda fields: fields.text("path").rpartition("/")[2]
        )
