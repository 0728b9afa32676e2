"""Texts in files: encodings, JSON, PDF and RTF."""

import codecs
import io
import json
import re
from typing import Any, Final

from steward.sandbox.files.problems import FileProblem

# Encodings by n8n's names, in lower case without dashes, underscores and spaces.
ENCODINGS: Final = {
    "utf8": "utf-8",
    "utf16": "utf-16",
    "utf16le": "utf-16-le",
    "ucs2": "utf-16-le",
    "utf16be": "utf-16-be",
    "utf32": "utf-32",
    "ascii": "ascii",
    "latin1": "latin-1",
    "binary": "latin-1",
    **{f"iso8859{number}": f"iso8859-{number}" for number in (*range(1, 12), 13, 14, 15, 16)},
    **{f"windows{number}": f"cp{number}" for number in range(1250, 1259)},
    **{f"cp{number}": f"cp{number}" for number in (437, 850, 852, 866, *range(1250, 1259))},
    **{f"win{number}": f"cp{number}" for number in range(1250, 1259)},
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "macroman": "mac-roman",
    "macintosh": "mac-roman",
    "shiftjis": "shift_jis",
    "sjis": "shift_jis",
    "eucjp": "euc_jp",
    "euckr": "euc_kr",
    "gbk": "gbk",
    "gb2312": "gbk",
    "gb18030": "gb18030",
    "big5": "big5",
}
_BOMS = {"utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
BOM: Final = "\ufeff"


def _codec_of(options: dict[str, Any]) -> str:
    """Returns the codec for the option `encoding`, by default UTF-8. Raises FileProblem."""
    name = str(options.get("encoding") or "utf8")
    codec = ENCODINGS.get(re.sub(r"[-_ ]", "", name.lower()))
    if codec is None:
        raise FileProblem(f"The encoding “{name[:40]}” is not known. Choose UTF-8 or another one.")
    return codec


def decoded(content: bytes, options: dict[str, Any]) -> str:
    """Decodes a file. Raises FileProblem if it is not valid in its encoding."""
    codec = _codec_of(options)
    try:
        return content.decode(codec)
    except UnicodeDecodeError as error:
        message = (
            f"The file is not text in the encoding {codec.upper()}: byte {error.start + 1} does not fit."
        )
        raise FileProblem(f"{message} Choose the file's own encoding.") from error


def read_text(content: bytes, options: dict[str, Any]) -> object:
    """Returns the text, with `strip_bom` without its byte-order mark."""
    text = decoded(content, options)
    return text.removeprefix(BOM) if options.get("strip_bom") else text


def read_json(content: bytes, options: dict[str, Any]) -> object:
    """Parses a JSON file. Raises FileProblem."""
    text = decoded(content, options).removeprefix(BOM)
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise FileProblem(f"The file is not JSON: {str(error)[:200]}.") from error


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def write_text(text: Any, options: dict[str, Any]) -> bytes:
    """Encodes a text, with `bom` after a byte-order mark."""
    codec = _codec_of(options)
    try:
        encoded = str(text).encode(codec)
    except UnicodeEncodeError as error:
        sign = str(text)[error.start]
        message = f"“{sign}” cannot be written in the encoding {codec.upper()}. Choose UTF-8."
        raise FileProblem(message) from error
    return _BOMS.get(codec, b"") + encoded if options.get("bom") else encoded


def read_pdf(content: bytes, options: dict[str, Any]) -> object:
    """Returns the text and metadata of a PDF file; `text` is a list of pages unless `join` is on."""
    import pypdf
    from pypdf.errors import PyPdfError

    try:
        reader = pypdf.PdfReader(io.BytesIO(content), password=options.get("password") or None)
        if reader.is_encrypted and reader.decrypt(options.get("password") or "") == 0:
            raise FileProblem("The PDF file has a password. Give it in the step's options.")
        max_pages = int(options.get("pages") or 0)
        chosen = reader.pages[:max_pages] if max_pages > 0 else reader.pages
        pages = [page.extract_text() for page in chosen]
        info = {name.removeprefix("/"): str(value) for name, value in (reader.metadata or {}).items()}
        count = len(reader.pages)
        version = reader.pdf_header.removeprefix("%PDF-")
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise FileProblem("The file is not a PDF file, or it is damaged.") from error
    text: object = "\n\n".join(pages) if options.get("join", True) else pages
    return {
        "numpages": count,
        "numrender": len(pages),
        "info": {"PDFFormatVersion": version, **info},
        "text": text,
    }


_RTF_TOKEN = re.compile(r"\\([a-z]+)(-?\d+)? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|\r?\n|([^\\{}\r\n]+)", re.I)
_RTF_HIDDEN = frozenset(
    ("fonttbl", "colortbl", "stylesheet", "info", "pict", "header", "footer", "generator")
)
_RTF_SIGNS = {"par": "\n", "line": "\n", "row": "\n", "cell": "\t", "tab": "\t", "emdash": "—", "endash": "–"}


def read_rtf(content: bytes, options: dict[str, Any]) -> object:
    """Returns the lines of a rich text: its paragraphs, and its table rows with tabs between cells."""
    text = content.decode("latin-1")
    if not text.startswith("{\\rtf"):
        raise FileProblem("The file is not an RTF file.")
    out: list[str] = []
    hidden: list[bool] = [False]
    for token in _RTF_TOKEN.finditer(text):
        word, number, byte, sign, brace, plain = token.groups()
        if brace == "{":
            hidden.append(hidden[-1])
        elif brace == "}":
            if len(hidden) > 1:
                hidden.pop()
        elif sign == "*" or (word and word in _RTF_HIDDEN):
            hidden[-1] = True
        elif not hidden[-1]:
            out.append(_rtf_text(word, number, byte, sign, plain))
    lines = "".join(out).split("\n")
    return [[cell for cell in line.rstrip("\t").split("\t")] for line in lines if line.strip()]


def _rtf_text(
    word: str | None, number: str | None, byte: str | None, sign: str | None, plain: str | None
) -> str:
    if plain is not None:
        return plain
    if byte is not None:
        return bytes.fromhex(byte).decode("cp1252", "replace")
    if sign is not None:
        return {"~": "\u00a0", "_": "-"}.get(sign, sign if sign in "\\{}" else "")
    if word == "u" and number is not None:
        return chr(int(number) % 65536)
    return _RTF_SIGNS.get(word or "", "")
