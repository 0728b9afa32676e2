"""Reads and writes file formats; runs only in a child process. See docs/design/files.md#formats."""

import base64
import binascii
import codecs
import importlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from steward.sandbox.files import archives, mails, tables, texts
from steward.sandbox.files.problems import FileProblem

Operation = Callable[[dict[str, Any], str], Iterator[object]]

# Modules to load before system calls are filtered; no file can be opened afterwards.
_LATER_MODULES = (
    "selectolax.lexbor",
    "encodings.idna",
    "encodings.cp437",
    "html.entities",
    "zipfile",
    "stringprep",
    "email.parser",
    "email.iterators",
    "encodings.raw_unicode_escape",
    "quopri",
)
_OPTIONAL = ("python_calamine", "xlsxwriter", "pypdf", "pypdf.filters", "pypdf._crypt_providers")


class FileFormats:
    """The file operations of a child process.

    `read` takes a file in base64 and yields a value; `write` takes JSON and yields a file in base64. Each
    yields one object: `value`, or `failed` with a message if the file cannot be read or written.
    """

    def __init__(self) -> None:
        warnings.simplefilter("ignore")  # showing a warning would open a source file
        logging.disable()
        for name in _LATER_MODULES:
            importlib.import_module(name)
        for name in _OPTIONAL:
            try:
                importlib.import_module(name)
            except ImportError:
                continue  # the extra `files` is not installed, which the import reports
        for name in texts.ENCODINGS.values():
            codecs.lookup(name)
        self.operations: dict[str, Operation] = {"read": self._read, "write": self._write}

    def _read(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        reader = _READERS[request["format"]]
        yield _outcome(lambda: reader(base64.b64decode(payload, validate=True), request["options"]))

    def _write(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        writer = _WRITERS[request["format"]]

        def write() -> str:
            content = writer(json.loads(payload), request["options"])
            return base64.b64encode(content).decode("ascii")

        yield _outcome(write)


def _outcome(work: Callable[[], object]) -> dict[str, object]:
    try:
        return {"value": work()}
    except FileProblem as problem:
        return {"failed": str(problem)}
    except binascii.Error:
        return {"failed": "The text is not valid Base64."}
    except RecursionError:
        return {"failed": "The file's parts are nested too deeply."}


_READERS: dict[str, Callable[[bytes, dict[str, Any]], object]] = {
    "csv": tables.read_csv,
    "html": tables.read_html,
    "sheet": tables.read_sheet,
    "pdf": texts.read_pdf,
    "rtf": texts.read_rtf,
    "text": texts.read_text,
    "json": texts.read_json,
    "unzip": archives.unzip,
    "gunzip": archives.gunzip,
    "mail": mails.read_mail,
}
_WRITERS: dict[str, Callable[[Any, dict[str, Any]], bytes]] = {
    "csv": tables.write_csv,
    "html": tables.write_html,
    "xlsx": tables.write_xlsx,
    "ods": tables.write_ods,
    "text": texts.write_text,
    "zip": archives.zip_files,
    "gzip": archives.gzip_file,
}
