"""The Google Drive connector: reads and changes files on behalf of a person who has signed in."""

import base64
import hashlib
from collections.abc import Mapping

import msgspec

from steward.connectors.base.google_service import GoogleServiceConnector
from steward.connectors.base.options import Options
from steward.connectors.base.queries import PathQuery
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import (
    Account,
    ServiceWriter,
    text_of,
)
from steward.connectors.base.settings import ConnectionSecrets
from steward.model.json import JsonObject
from steward.model.limits import MAX_FILE_BYTES
from steward.outbound.client import WriteClient
from steward.outbound.errors import CallError, Throttled, UnusableResponse
from steward.outbound.response import Decoded, PlatformResponse

_SCOPES = "https://www.googleapis.com/auth/drive"
_WAIT_S = 2.0


class GoogleDriveConnector(GoogleServiceConnector):
    """Connects a drive by signing in to Google; files are changed on behalf of the person who signed in."""

    id = "google_drive"
    title = "Google Drive"
    scopes = _SCOPES
    check_path = "/drive/v3/about?fields=user"
    operation = SendCallOperation("google_drive.call", subject="file")

    def api_url(self, options: Options) -> str:
        """Returns the address of the API from the operator's settings."""
        return options.drive_url

    def file_bytes(self, query: PathQuery) -> int:
        """Returns the size limit of the response when the path is a file's; 0 for any other path."""
        is_file = ("alt", "media") in query.query or query.path.endswith("/export")
        return MAX_FILE_BYTES if is_file else 0

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> "GoogleDriveWriter":
        """Returns a writer that makes one call, with a file if the call has one."""
        return GoogleDriveWriter(self, http, secrets)

    def failure(self, response: PlatformResponse) -> CallError | None:
        """Returns why Google refused a call; a 403 that only asks to wait counts as throttled."""
        failure = super().failure(response)
        if response.status == 403 and failure is not None and b"ateLimitExceeded" in response.body:
            return Throttled(_WAIT_S, platform_text=failure.platform_text)
        return failure

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the person's address. Raises UnusableResponse."""
        user = body.get("user")
        address = text_of(user, "emailAddress") if isinstance(user, dict) else ""
        if not address:
            raise UnusableResponse("it names no person")
        return Account(address, address.lower())


class GoogleDriveWriter(ServiceWriter):
    """Writes to a drive with one call; sends a file with its metadata (multipart/related, RFC 2387)."""

    def encoded(self, arguments: JsonObject) -> tuple[bytes, Mapping[str, str]]:
        """Returns the body of a call and its headers."""
        file = arguments.get("file")
        if not isinstance(file, Mapping):
            return super().encoded(arguments)
        content = base64.b64decode(str(file["content"]))
        metadata = msgspec.json.encode(arguments["body"])
        boundary = f"steward-{hashlib.sha256(metadata + content).hexdigest()[:32]}"
        body = b"".join(
            [
                f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode(),
                metadata,
                f"\r\n--{boundary}\r\nContent-Type: {file['mime_type']}\r\n\r\n".encode(),
                content,
                f"\r\n--{boundary}--\r\n".encode(),
            ]
        )
        return body, {"content-type": f"multipart/related; boundary={boundary}"}


CONNECTOR = GoogleDriveConnector
