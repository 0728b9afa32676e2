"""The node googleDrive: searches, fetches and changes files and folders, as the person who signed in."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from steward.connectors.base.queries import PATH, PathQuery
from steward.connectors.base.service_calls import SendCall
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.outbound.errors import CallError
from steward.outbound.response import PlatformResponse
from steward.steps.n8n import item_files
from steward.steps.n8n.drive_fields import (
    DOCUMENT,
    FILES,
    FOLDER,
    SHARED,
    UPLOADS,
    WHOLE,
    call_file,
    file_of_run,
    file_path,
    flags_of,
    id_of,
    metadata_of,
    parents_of,
    search_of,
    upload,
)
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation, ServicePort, parsed_response
from steward.steps.workflow.external_calls import account_of, as_item_failure, read_items
from steward.steps.workflow.items import Item
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    paired_with,
)

_GOOGLE = "application/vnd.google-apps."
_FORMATS = {
    "document": ("docsToFormat", "a Google document"),
    "drawing": ("drawingsToFormat", "a Google drawing"),
    "presentation": ("slidesToFormat", "a Google presentation"),
    "spreadsheet": ("sheetsToFormat", "a Google spreadsheet"),
}
_FILE = {"fileId": "which file it means"}
_FOLDER = {"folderNoRootId": "which folder it means"}
_STORED = "appPropertiesUi propertiesUi keepRevisionForever ocrLanguage useContentAsIndexableText"
_SHARING = "emailMessage moveToNewOwnersRoot sendNotificationEmail transferOwnership useDomainAdminAccess"
_PERMISSION = ("role", "type", "emailAddress", "domain", "allowFileDiscovery")
_COLLECTIONS = {"filter": frozenset(("driveId", "folderId", "whatToSearch", "fileTypes", "includeTrashed"))}


@dataclass(frozen=True, slots=True)
class DriveOperation(ServiceOperation):
    """An operation whose whole call is built from its parameters; `options` are the supported ones."""

    make: Callable[[ServiceFields], SendCall] | None = None
    options: str = ""

    def call(self, fields: ServiceFields) -> SendCall:
        """Builds the call from the parameters of an item. Raises ItemFailed."""
        for path, words in self.needed.items():
            if not fields.text(path):
                raise ItemFailed(f"This step does not say {words}. Fill it in.")
        return self.make(fields) if self.make is not None else ServiceOperation.call(self, fields)


def _text_file(fields: ServiceFields) -> SendCall:
    """Returns the call that creates a file from a text."""
    metadata = {"mimeType": DOCUMENT} if fields.flag("options.convertToGoogleDocument") else {}
    text = fields.text("content" if fields.version >= 3 else "fileContent")
    call = upload(fields, fields.text("name") or "Untitled", text.encode(), "text/plain", metadata)
    return replace(call, text=text)


def _copy(fields: ServiceFields) -> SendCall:
    body = fields.options("options", "copyRequiresWriterPermission", "description")
    name = fields.text("name") or fields.text("options.name")
    stays = fields.flag("sameFolder", True) if fields.version >= 3 else not parents_of(fields)
    body |= ({"name": name} if name else {}) | ({} if stays else {"parents": parents_of(fields)})
    path = file_path(fields, "fileId", "/copy")
    return SendCall("POST", path, body, WHOLE, recipient=name or id_of(fields, "fileId"))


def _update(fields: ServiceFields) -> SendCall:
    name, body = fields.text("newUpdatedFileName"), metadata_of(fields)
    body |= ({"name": name} if name else {}) | fields.options("options", "trashed")
    flags = flags_of(fields, "keepRevisionForever", "ocrLanguage", "useContentAsIndexableText")
    names = fields.value("options.fields")
    if isinstance(names, list) and names:
        flags["fields"] = "*" if "*" in names else ", ".join(map(str, names))
    file_id = id_of(fields, "fileId")
    return SendCall("PATCH", file_path(fields, "fileId"), body, {**WHOLE, **flags}, recipient=file_id)


def _new_folder(fields: ServiceFields) -> SendCall:
    name = fields.text("name") or "Untitled"
    body = {"name": name, "mimeType": FOLDER, "parents": parents_of(fields)}
    body |= fields.options("options", "folderColorRgb")
    body = {name: value for name, value in body.items() if value}
    return SendCall("POST", FILES, body, WHOLE, recipient=name)


def _share(path: str) -> Callable[[ServiceFields], SendCall]:
    def make(fields: ServiceFields) -> SendCall:
        name = path if fields.version >= 3 else "fileId"
        rows = fields.value("permissionsUi.permissionsValues")
        rows = rows if isinstance(rows, list) else [rows]
        if len(rows) != 1 or not isinstance(rows[0], Mapping):
            raise ItemFailed("This step does not say with whom it shares. Fill in one permission.")
        body = {part: rows[0][part] for part in _PERMISSION if rows[0].get(part) not in (None, "")}
        whom = str(body.get("emailAddress") or body.get("domain") or body.get("type", ""))
        if not body.get("role") or not body.get("type"):
            raise ItemFailed("This step does not say with whom it shares, and as what. Fill it in.")
        query = {**SHARED, **flags_of(fields, *_SHARING.split())}
        return SendCall(
            "POST", file_path(fields, name, "/permissions"), body, query, recipient=whom,
            text=str(fields.value("options.emailMessage") or f"Share as {body['role']}"),
        )  # fmt: skip

    return make


def _delete(path: str) -> Callable[[ServiceFields], SendCall]:
    def make(fields: ServiceFields) -> SendCall:
        is_final = fields.version < 3 or fields.flag("options.deletePermanently")
        name = path if fields.version >= 3 else "fileId"
        target, file_id = file_path(fields, name), id_of(fields, name)
        if is_final:
            return SendCall("DELETE", target, {}, SHARED, recipient=file_id, text="Delete permanently")
        return SendCall(
            "PATCH", target, {"trashed": True}, SHARED, recipient=file_id, text="Move to the trash"
        )

    return make


def _deleted(path: str) -> Callable[[AnyJson, ServiceFields], Sequence[Mapping[str, AnyJson]]]:
    def to_items(response: JsonValue, fields: ServiceFields) -> list[JsonObject]:
        file_id = id_of(fields, path if fields.version >= 3 else "fileId")
        return [{"id": file_id, "fileId": file_id, "success": True}]

    return to_items


def _older_list(fields: ServiceFields) -> dict[str, JsonValue]:
    names = fields.value("options.fields")
    names = [str(name) for name in names] if isinstance(names, list) and names else ["id", "name"]
    return {
        "q": (fields.text("queryString") if fields.flag("useQueryString") else "") or None,
        "fields": "*" if "*" in names else f"nextPageToken, files({', '.join(names)})",
        "pageSize": "1000",
        "orderBy": fields.value("options.orderBy"),
        "includeItemsFromAllDrives": "true",
        **SHARED,
    }


def _next_page(response: JsonValue, query: JsonObject) -> Mapping[str, AnyJson] | None:
    token = response.get("nextPageToken") if isinstance(response, Mapping) else None
    return {**query, "pageToken": str(token)} if token else None


def _option_problems(node: NodeDefinition, option_names: str) -> Iterable[StepProblem]:
    options = node.get("options")
    for name in options if isinstance(options, Mapping) else ():
        if name not in option_names.split():
            message = f"Its option “{str(name)[:80]}” is not known here. Remove it."
            yield StepProblem("error", "parameter", message)


def _older_list_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    filters = node.get("queryFilters")
    if not node.get("useQueryString") and isinstance(filters, Mapping) and any(filters.values()):
        message = "Its filters are those of an older version. Write the search as a query string."
        yield StepProblem("error", "parameter", message)


def _newest_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.version < 3:
        message = "It changes a file in the way of an older version. Add the step again in n8n."
        yield StepProblem("error", "parameter", message)


def _sharing_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    rows = node.get("permissionsUi.permissionsValues")
    if isinstance(rows, list) and len(rows) > 1:
        message = "It shares with several at once. Make a step for each of them."
        yield StepProblem("error", "parameter", message)


_OPERATIONS = {
    "fileFolder.search": DriveOperation(
        "GET", FILES, search_of, "files", next_page=_next_page, limit=50, options="fields"
    ),
    "file.list": DriveOperation(
        "GET", FILES, _older_list, "files", next_page=_next_page, limit=50,
        options="fields orderBy", check=_older_list_problems,
    ),
    "file.download": DriveOperation(
        "GET", FILES, needed=_FILE, options="binaryPropertyName fileName googleFileConversion"
    ),
    "file.upload": DriveOperation("POST", UPLOADS, options=f"{_STORED} simplifyOutput parents fields"),
    "file.createFromText": DriveOperation(
        "POST", UPLOADS, make=_text_file, options=f"{_STORED} convertToGoogleDocument simplifyOutput"
    ),
    "file.copy": DriveOperation(
        "POST", FILES, make=_copy, needed=_FILE,
        options="copyRequiresWriterPermission description name parents fields",
    ),
    "file.move": DriveOperation("PATCH", FILES, needed=_FILE, check=_newest_problems),
    "file.update": DriveOperation(
        "PATCH", FILES, make=_update, needed=_FILE, options=f"{_STORED} trashed fields",
        check=_newest_problems,
    ),
    "file.share": DriveOperation(
        "POST", FILES, make=_share("fileId"), needed=_FILE, options=f"{_SHARING} fields",
        check=_sharing_problems,
    ),
    "file.deleteFile": DriveOperation(
        "DELETE", FILES, make=_delete("fileId"), needed=_FILE, to_items=_deleted("fileId"),
        options="deletePermanently",
    ),
    "file.delete": DriveOperation(
        "DELETE", FILES, make=_delete("fileId"), needed=_FILE, to_items=_deleted("fileId")
    ),
    "folder.create": DriveOperation(
        "POST", FILES, make=_new_folder, options="simplifyOutput folderColorRgb parents fields"
    ),
    "folder.share": DriveOperation(
        "POST", FILES, make=_share("folderNoRootId"), options=f"{_SHARING} fields", check=_sharing_problems
    ),
    "folder.deleteFolder": DriveOperation(
        "DELETE", FILES, make=_delete("folderNoRootId"), to_items=_deleted("folderNoRootId"),
        needed=_FOLDER, options="deletePermanently",
    ),
    "folder.delete": DriveOperation(
        "DELETE", FILES, make=_delete("fileId"), needed=_FILE, to_items=_deleted("fileId")
    ),
    "drive.get": DriveOperation(
        "GET", "/drive/v3/drives/{driveId}", {"useDomainAdminAccess": "options.useDomainAdminAccess"},
        options="useDomainAdminAccess",
        choose_path=lambda fields: f"/drive/v3/drives/{path_segment(id_of(fields, 'driveId'), 'drive')}",
    ),
    "drive.list": DriveOperation(
        "GET", "/drive/v3/drives",
        {
            "q": "options.q", "useDomainAdminAccess": "options.useDomainAdminAccess",
            "pageSize": lambda fields: 100,
        },
        "drives", next_page=_next_page, limit=50, options="q useDomainAdminAccess",
    ),
}  # fmt: skip
_DOWNLOAD = {"operation": "download"}
_DEFAULTS = {"file": "upload", "folder": "create", "fileFolder": "search", "drive": "create"}

_SHOWN_FOR = {"filter": ("drive.list", "file.list", "fileFolder.search")}


class GoogleDriveNode(ServiceNode):
    """Supports files, folders and listing drives; does not create or change shared drives."""

    types = ("googleDrive",)
    versions = (1, 2, 3)
    connector = "google_drive"
    service = "Google Drive"
    default_resource = "file"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
    collections = _COLLECTIONS
    shown_for = _SHOWN_FOR
    response_parameters = ("fileId", "folderNoRootId")
    file_parameters = _DOWNLOAD
    parameters = frozenset(
        [
            "authentication", "binaryData", "binaryPropertyName", "changeFileContent", "content", "driveId",
            "fileContent", "fileId", "filter", "folderId", "folderNoRootId", "inputDataFieldName", "limit",
            "name", "newUpdatedFileName", "operation", "options", "parents", "permissionsUi",
            "queryFilters", "queryString", "resolveData", "resource", "returnAll", "sameFolder",
            "searchMethod", "useQueryString",
        ]
    )  # fmt: skip

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported operations and options, and missing parameters."""
        yield from super().check(node)
        operation = self.operations.get(self.operation_key(node))
        if isinstance(operation, DriveOperation):
            yield from _option_problems(node, operation.options)

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that it uploads."""
        key = self.operation_key(node)
        if key == "file.update" and node.get("changeFileContent"):
            return (node.file_name("inputDataFieldName"),)
        if key != "file.upload" or (node.version < 3 and not node.get("binaryData")):
            return ()
        return (node.file_name("binaryPropertyName" if node.version < 3 else "inputDataFieldName"),)

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item, with the file that it sends. Raises ItemFailed."""
        if key == "file.upload":
            return await _uploaded(call, index, fields)
        prepared = await _move(port, fields) if key == "file.move" else self.operations[key].call(fields)
        if key == "file.update" and fields.flag("changeFileContent"):
            name, content, kind = await file_of_run(call, index, fields, fields.text("inputDataFieldName"))
            path = UPLOADS + prepared.path.removeprefix(FILES)
            query = {**prepared.query, "uploadType": "multipart"}
            return replace(prepared, path=path, query=query, file=call_file(name, content, kind))
        return prepared

    async def run(self, call: StepCall) -> NodeResult:
        """Fetches a file for each item, or makes one call or read for each."""
        node = NodeDefinition(call.step.name, call.version, call.first.tree)
        if self.operation_key(node) != "file.download":
            return await super().run(call)

        async def fetch(index: int, item: Item) -> list[Item]:
            fields = ServiceFields(call.params(index), call.version, {}, item.json)
            return [await _downloaded(call, index, item, fields)]

        return await read_items(call, fetch)


async def _uploaded(call: StepCall, index: int, fields: ServiceFields) -> SendCall:
    """Returns the call that uploads one of the item's files; older versions also upload a text."""
    is_older = fields.version < 3
    if is_older and not fields.flag("binaryData"):
        return _text_file(fields)
    field = fields.text("binaryPropertyName" if is_older else "inputDataFieldName")
    own_name, content, kind = await file_of_run(call, index, fields, field)
    return upload(fields, fields.text("name") or own_name or "Untitled", content, kind, {"mimeType": kind})


async def _move(port: ServicePort, fields: ServiceFields) -> SendCall:
    """Reads a file's current folders and returns the call that moves it to another."""
    path = file_path(fields, "fileId")
    response = await port.read(path, {"fields": "name,parents", **SHARED})
    current = parsed_response(response.body.decode("utf-8", "replace"))
    before, after = ",".join(map(str, current.get("parents") or ())), parents_of(fields)[0]
    query = {"addParents": after, **WHOLE} | ({"removeParents": before} if before else {})
    message = f"Move to the folder {after}"
    return SendCall("PATCH", path, {}, query, recipient=str(current.get("name", "")), text=message)


async def _downloaded(call: StepCall, index: int, item: Item, fields: ServiceFields) -> Item:
    """Fetches a file and returns the item with it; exports Google documents. Raises ItemFailed."""
    path = file_path(fields, "fileId")
    about = await _read(call, path, {"fields": "mimeType,name", **SHARED})
    metadata = parsed_response(about.body.decode("utf-8", "replace"))
    name, kind = str(metadata.get("name", "")), str(metadata.get("mimeType", ""))
    if kind.startswith(_GOOGLE):
        kind = _export_format(fields, kind, name)
        response = await _read(call, f"{path}/export", {"mimeType": kind})
    else:
        response = await _read(call, path, {"alt": "media", **SHARED})
    file_name = fields.text("options.fileName") or name
    file = await item_files.store(call, response.body, file_name=file_name, mime_type=kind or None)
    older = fields.text("binaryPropertyName") if fields.version < 3 else ""
    field = fields.text("options.binaryPropertyName") or older or "data"
    return Item(dict(item.json), paired_with(index), binary={**item.binary, field: file})


def _export_format(fields: ServiceFields, kind: str, name: str) -> str:
    """Returns the format to export a Google document to. Raises ItemFailed if the step names none."""
    option, words = _FORMATS.get(kind.removeprefix(_GOOGLE), ("", "of a kind that Google does not export"))
    chosen = fields.text(f"options.googleFileConversion.conversion.{option}") if option else ""
    if not chosen:
        quoted_name = json.dumps(name[:100], ensure_ascii=False)
        todo = "Choose one in its option “Google File Conversion”." if option else "Choose another file."
        raise ItemFailed(
            f"{quoted_name} is {words}, and this step does not say as what it is fetched. {todo}"
        )
    return chosen


async def _read(call: StepCall, path: str, query: Mapping[str, str]) -> PlatformResponse:
    """Returns the response to a GET, which may be a file. Raises ItemFailed, CallError."""
    reader = account_of(call).reader
    try:
        [page] = [page async for page in reader.read(PATH, PathQuery(path, tuple(query.items())))]
    except CallError as error:
        raise as_item_failure(error) from error
    [response] = page.items
    return response
