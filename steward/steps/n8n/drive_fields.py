"""Converts parameters of googleDrive to those of Drive's API: ids, folders, searches and metadata."""

import re

from steward.connectors.base.service_calls import CallFile, SendCall
from steward.model.json import AnyJson, JsonObject
from steward.steps.n8n import item_files
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.workflow.items import readable_size
from steward.steps.workflow.step_types import ItemFailed, StepCall

FILES = "/drive/v3/files"
UPLOADS = "/upload/drive/v3/files"
FOLDER = "application/vnd.google-apps.folder"
DOCUMENT = "application/vnd.google-apps.document"
UPLOAD_BYTES = 1536 * 1024  # a request has at most 2 MiB
SHARED = {"supportsAllDrives": "true"}
# Requests all fields of a new file or folder, so that later steps lack none.
WHOLE = {**SHARED, "fields": "*"}
_MY_DRIVE = "My Drive"
_ADDRESS = re.compile(r"(?:/d/|/folders/|[?&]id=)([A-Za-z0-9_-]+)")
_MIME_TYPE = re.compile(r"[A-Za-z0-9][\w.+-]*/[A-Za-z0-9][\w.+-]*", re.ASCII)


def id_of(fields: ServiceFields, path: str) -> str:
    """Returns the id in a locator, which is an id or a Google Drive link. Raises ItemFailed."""
    text = fields.text(path).strip()
    if not text.startswith(("https://", "http://")):
        return text
    match = _ADDRESS.search(text)
    if match is None:
        raise ItemFailed("The address names no file or folder of Google Drive. Copy its link from there.")
    return match[1]


def file_path(fields: ServiceFields, path: str, more: str = "") -> str:
    """Returns the API path of a file or folder. Raises ItemFailed if the step names none."""
    return f"{FILES}/{path_segment(id_of(fields, path), 'file or folder')}{more}"


def parents_of(fields: ServiceFields) -> list[str]:
    """Returns the parent folder of a new file: the step's folder, or the root of its drive."""
    if fields.version < 3:
        older = fields.value("parents") or fields.value("options.parents") or []
        return [str(parent) for parent in (older if isinstance(older, list) else [older]) if parent]
    folder, drive = id_of(fields, "folderId"), id_of(fields, "driveId")
    if folder not in ("", "root"):
        return [folder]
    return [drive if drive not in ("", _MY_DRIVE) else "root"]


def search_of(fields: ServiceFields) -> dict[str, AnyJson]:
    """Returns the query parameters of a search for files and folders."""
    chosen = fields.options("filter")
    names = fields.value("options.fields")
    names = [str(name) for name in names] if isinstance(names, list) and names else ["id", "name"]
    item_fields = "*" if "*" in names else f"nextPageToken, files({', '.join(names)})"
    query = {
        "q": " and ".join(_conditions(fields, chosen)) or None,
        "fields": item_fields,
        "pageSize": "1000" if fields.flag("returnAll") else str(min(_limit_of(fields), 1000)),
        "includeItemsFromAllDrives": "true",
        **SHARED,
    }
    drive = id_of(fields, "filter.driveId")
    if not drive:
        return {**query, "corpora": "allDrives"}
    return query | ({"corpora": "user"} if drive == _MY_DRIVE else {"corpora": "drive", "driveId": drive})


def _limit_of(fields: ServiceFields) -> int:
    """Returns the maximum number of objects to list; n8n's default is 50."""
    text = fields.text("limit", "50")
    return max(1, int(float(text))) if re.fullmatch(r"\d+(?:\.0+)?", text) else 50


def _type_conditions(chosen: JsonObject) -> list[str]:
    kind, types = chosen.get("whatToSearch", "all"), chosen.get("fileTypes")
    if kind == "folders":
        return [f"mimeType = '{FOLDER}'"]
    conditions = [f"mimeType != '{FOLDER}'"] if kind == "files" else []
    names = [str(file_type) for file_type in types] if isinstance(types, list) else []
    if names and "*" not in names:
        conditions.append("(" + " or ".join(f"mimeType = '{quoted(name)}'" for name in names) + ")")
    return conditions


def _conditions(fields: ServiceFields, chosen: JsonObject) -> list[str]:
    text, is_query = fields.text("queryString"), fields.text("searchMethod", "name") == "query"
    conditions = []
    if text.strip():
        conditions.append(f"({text})" if is_query else f"name contains '{quoted(text)}'")
    folder = id_of(fields, "filter.folderId")
    if folder:
        conditions.append(f"'{quoted(folder)}' in parents")
    conditions += _type_conditions(chosen)
    if not chosen.get("includeTrashed") and not (is_query and "trashed" in text):
        conditions.append("trashed = false")
    return conditions


def quoted(text: str) -> str:
    """Escapes a text for use between quotes in a search."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def metadata_of(fields: ServiceFields) -> dict[str, AnyJson]:
    """Returns the properties that the options of a file set."""
    metadata = {}
    for name, rows in (
        ("appProperties", "options.appPropertiesUi.appPropertyValues"),
        ("properties", "options.propertiesUi.propertyValues"),
    ):
        pairs = {row.text("key"): row.text("value") for row in fields.rows(rows) if row.text("key")}
        if pairs:
            metadata[name] = pairs
    return metadata


def flags_of(fields: ServiceFields, *names: str) -> dict[str, str]:
    """Returns the options that are set, as query parameters."""
    chosen = fields.options("options", *names)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in chosen.items()
        if value != ""
    }


def upload(
    fields: ServiceFields, name: str, content: bytes, mime_type: str, metadata: JsonObject
) -> SendCall:
    """Returns the call that uploads a file. Raises ItemFailed if it is too large."""
    flags = flags_of(fields, "keepRevisionForever", "ocrLanguage", "useContentAsIndexableText")
    body = {"name": name, "parents": parents_of(fields), **metadata_of(fields), **metadata}
    return SendCall(
        "POST",
        UPLOADS,
        {name: value for name, value in body.items() if value},
        {"uploadType": "multipart", **WHOLE, **flags},
        recipient=name,
        file=call_file(name, content, mime_type),
    )


def call_file(name: str, content: bytes, mime_type: str) -> CallFile:
    """Returns the file to send with a call. Raises ItemFailed if it is too large."""
    if len(content) > UPLOAD_BYTES:
        raise ItemFailed("The file is larger than 1.5 MiB, the most that a step sends. Send a smaller one.")
    kind = mime_type if _MIME_TYPE.fullmatch(mime_type) else item_files.OCTETS
    return CallFile(kind, content, f"File “{name}” ({readable_size(len(content))})")


async def file_of_run(call: StepCall, index: int, fields: ServiceFields, name: str) -> tuple[str, bytes, str]:
    """Returns the name, content and MIME type of the item's file. Raises ItemFailed."""
    file = item_files.file_of(call.items[index], name or "data")
    if file.size > UPLOAD_BYTES:
        raise ItemFailed("The file is larger than 1.5 MiB, the most that a step sends. Send a smaller one.")
    return file.file_name or "", await item_files.content_of(call, file), file.mime_type
