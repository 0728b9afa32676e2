"""The built web app: its pages, its files, their headers and cache rules.

The build in web/ decides which files there are and lists the addresses of pages in pages.json.
"""

import gzip
import json
import mimetypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from steward.api.http.operation import RawRequest, Reply

_FOLDER = Path(__file__).resolve().parents[2] / "static"
# Vite puts files with a hash in their name here, and no others.
_HASHED = "/assets/"
# Files of the build that are not served.
_NOT_SERVED = frozenset({"index.html", "manifest.json", "pages.json"})
_PARAMETER = r"[A-Za-z0-9._-]{1,80}"
_SMALLEST_WORTH_ZIPPING = 1024

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
    )
)
_DENIED_FEATURES = (
    "accelerometer autoplay camera display-capture encrypted-media fullscreen geolocation gyroscope hid"
    " idle-detection local-fonts magnetometer microphone midi payment picture-in-picture"
    " publickey-credentials-get screen-wake-lock serial usb xr-spatial-tracking"
)
_PAGE_HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "permissions-policy": ", ".join(f"{name}=()" for name in _DENIED_FEATURES.split()),
}
_FOR_GOOD = "public, max-age=31536000, immutable"
_HSTS = "max-age=31536000"


@dataclass(frozen=True)
class _File:
    """A file of the build, plain and gzipped."""

    body: bytes
    kind: str

    @cached_property
    def zipped(self) -> bytes | None:
        """The gzipped file; None if it is too small or not text."""
        if len(self.body) < _SMALLEST_WORTH_ZIPPING or not self.kind.startswith(("text/", "image/svg")):
            return None
        return gzip.compress(self.body, 9, mtime=0)


class BuiltPages:
    """The pages and files of one build, read once.

    For an unknown address, a browser that opens it as a page gets the app with status 404, which shows an
    explanation; any other caller gets None.
    """

    def __init__(self, folder: Path, *, web_origin: str) -> None:
        self._index, self._pages = _pages(folder)
        self._files = _files(folder)
        headers = dict(_PAGE_HEADERS)
        if web_origin.startswith("https:"):
            headers["strict-transport-security"] = _HSTS
        self._headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]

    async def __call__(self, raw_request: RawRequest, /) -> Reply | None:
        """Returns the page or file at this address."""
        file = self._files.get(raw_request.path)
        if file is not None:
            return self._reply(
                raw_request, file, _FOR_GOOD if raw_request.path.startswith(_HASHED) else "no-cache"
            )
        if self._pages.fullmatch(raw_request.path):
            return self._reply(raw_request, self._index, "no-store")
        if "text/html" in (raw_request.header(b"accept") or ""):
            return self._reply(raw_request, self._index, "no-store", status=404)
        return None

    def _reply(self, raw_request: RawRequest, file: _File, cache_control: str, *, status: int = 200) -> Reply:
        headers = [
            *self._headers,
            (b"content-type", file.kind.encode("ascii")),
            (b"cache-control", cache_control.encode("ascii")),
            (b"vary", b"Accept-Encoding"),
        ]
        body = file.body
        if file.zipped is not None and "gzip" in (raw_request.header(b"accept-encoding") or ""):
            body = file.zipped
            headers.append((b"content-encoding", b"gzip"))
        return Reply(status, body, tuple(headers), has_own_headers=True)


def built(folder: Path = _FOLDER, *, web_origin: str) -> BuiltPages | None:
    """Returns the built web app; None if `make web` has not run."""
    if not (folder / "index.html").is_file():
        return None
    return BuiltPages(folder, web_origin=web_origin)


@cache
def _pages(folder: Path) -> tuple[_File, re.Pattern[str]]:
    """Reads the page of a build and the pattern of its addresses; cached as the files are."""
    listed: list[str] = json.loads((folder / "pages.json").read_text("utf-8"))
    return _file(folder / "index.html"), re.compile("|".join(_pattern(address) for address in listed))


@cache
def _files(folder: Path) -> Mapping[str, _File]:
    """Reads the files of a build by their addresses.

    Cached per process, because tests start hundreds of services.
    """
    return {
        f"/{path.relative_to(folder).as_posix()}": _file(path)
        for path in folder.rglob("*")
        if path.is_file() and path.name not in _NOT_SERVED
    }


def _file(path: Path) -> _File:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if kind == "application/javascript":
        kind = "text/javascript"
    if kind.startswith("text/"):
        kind += "; charset=utf-8"
    return _File(path.read_bytes(), kind)


def _pattern(address: str) -> str:
    """Returns the regular expression of an address of the app, such as `/runs/:id`."""
    return "/".join(_PARAMETER if part.startswith(":") else re.escape(part) for part in address.split("/"))
