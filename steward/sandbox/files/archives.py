"""Zip and gzip within limits: unpacked data is counted, and declared sizes are not trusted."""

import base64
import gzip
import io
import zipfile
import zlib
from typing import Any, Final

from steward.sandbox.files.problems import MIB, UNPACKED_BYTES, FileProblem

MAX_ENTRIES: Final = 1000
_BLOCK: Final = MIB


def unzip(content: bytes, options: dict[str, Any]) -> object:
    """Returns the files of an archive as [name, base64], without folders.

    Together they have at most `max_bytes`.
    """
    archive = _opened(content)
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(entries) > MAX_ENTRIES:
        raise FileProblem(f"The archive has more than {MAX_ENTRIES} files. Use smaller archives.")
    max_bytes = int(options["max_bytes"])
    room = max_bytes
    files = []
    for entry in entries:
        if entry.flag_bits & 1:
            raise FileProblem("The archive has a password. Pack it without one.")
        data = _unpacked(archive, entry, room, max_bytes)
        room -= len(data)
        files.append([entry.filename, base64.b64encode(data).decode("ascii")])
    return files


def _opened(content: bytes) -> zipfile.ZipFile:
    """Opens an archive. Raises FileProblem for any other content."""
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise FileProblem("The file is not a zip archive, or it is damaged.") from error


def check_size(content: bytes) -> None:
    """Raises FileProblem for a compressed document that unpacks to more than 128 MiB."""
    archive = _opened(content)
    room = UNPACKED_BYTES
    for entry in archive.infolist():
        room -= entry.file_size
        if room < 0:
            raise FileProblem("The file unpacks to more than 128 MiB. Use a smaller one.")


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, room: int, max_bytes: int) -> bytes:
    data = bytearray()
    try:
        with archive.open(entry) as stream:
            while block := stream.read(_BLOCK):
                data += block
                if len(data) > room:
                    raise _too_large(max_bytes)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError) as error:
        raise FileProblem(f"“{entry.filename[:80]}” in the archive is damaged.") from error
    return bytes(data)


def _too_large(max_bytes: int) -> FileProblem:
    size = f"{max_bytes // MIB} MiB"
    message = f"The archive unpacks to more than {size}. Unpack it outside, and use its files one by one."
    return FileProblem(message)


def gunzip(content: bytes, options: dict[str, Any]) -> object:
    """Returns the file in a gzip archive as base64, at most `max_bytes`."""
    max_bytes, data = int(options["max_bytes"]), bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            while block := stream.read(_BLOCK):
                data += block
                if len(data) > max_bytes:
                    raise _too_large(max_bytes)
    except (OSError, zlib.error, EOFError) as error:
        raise FileProblem("The file is not a gzip file, or it is damaged.") from error
    return base64.b64encode(data).decode("ascii")


def zip_files(files: Any, options: dict[str, Any]) -> bytes:
    """Packs files given as [name, base64]; of files with the same name the last one counts."""
    by_name = {str(name): base64.b64decode(data) for name, data in files}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in by_name.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def gzip_file(data: Any, options: dict[str, Any]) -> bytes:
    """Packs one file given in base64 without a timestamp, so that equal files give equal archives."""
    return gzip.compress(base64.b64decode(data), mtime=0)
